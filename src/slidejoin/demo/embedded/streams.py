"""The generated input: trades and quotes of a few symbols, in the order of their arrival.

Every symbol's price is a random walk, counted in ticks; a row is a trade (left) or a quote (right)
of a random symbol at its price of that moment, three quotes to a trade. A trade and a quote match
when they are of one symbol, their prices differ by at most ``band`` ticks and the earlier one is
among the last ``window`` rows of its side. Symbol and price go into one ordered key,
``symbol * 2**32 + price``, so that a single band asks for both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 20_000_000
WINDOW = 100_000
BAND = 4
BATCH = 8192

SYMBOLS = 8
QUOTES_PER_TRADE = 3
TICKS_PER_STEP = 50.0  # standard deviation of a price's move from row to row


@dataclass(frozen=True)
class Setup:
    """What to join."""

    rows: int = ROWS
    window: int = WINDOW
    band: int = BAND
    batch: int = BATCH
    seed: int = 1


@dataclass(frozen=True)
class Streams:
    """The input in the order of arrival: 0 for a trade, 1 for a quote, and the key."""

    sides: NDArray[np.uint8]
    keys: NDArray[np.int64]


def generate(setup: Setup) -> Streams:
    """Generate the streams of a seed, the same on every machine."""
    random = np.random.default_rng(setup.seed)
    symbols = random.integers(0, SYMBOLS, setup.rows, dtype=np.uint8)
    sides = (random.integers(0, QUOTES_PER_TRADE + 1, setup.rows, dtype=np.uint8) > 0).view(np.uint8)
    steps = np.rint(random.normal(scale=TICKS_PER_STEP, size=setup.rows)).astype(np.int16)
    keys = np.empty(setup.rows, np.int64)
    for symbol in range(SYMBOLS):
        of_symbol = np.flatnonzero(symbols == symbol)
        keys[of_symbol] = symbol * 2**32 + np.cumsum(steps[of_symbol], dtype=np.int64)
    return Streams(sides, keys)
