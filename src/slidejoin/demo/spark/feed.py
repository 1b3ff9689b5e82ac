"""The generated input: trades and quotes of many symbols, in the order of their arrival.

Every symbol's price wanders; a trade or a quote is a random distance from it, in cents. Rows arrive a little
after their time, up to almost two seconds, so that files overlap in time and rows in them are not in order. A
trade and a quote match when they are of one symbol, their prices differ by at most ``band`` cents, and the
quote is at most 5 s older and 1 s newer than the trade.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import slidejoin as sj
from slidejoin.predicate import Predicate
from slidejoin.window import Interval

ROWS = 1_200_000
BATCHES = 8
BAND = 2

BEFORE, AFTER, LATENESS = 5, 1, 2  # seconds
SYMBOLS = 500
QUOTES_PER_TRADE = 3
SECONDS_PER_BATCH = 10
MEAN_DELAY, GREATEST_DELAY = 0.3, 1.9  # seconds; below the lateness, so that nothing is late
CENTS_PER_SECOND = 30.0  # standard deviation of a price's move
SPREAD = 95.0  # standard deviation of a row's distance from the price, in cents
_START = np.datetime64("2024-03-01T09:30:00", "us")


@dataclass(frozen=True)
class Setup:
    """The size of the input, the condition and the seed."""

    rows: int = ROWS
    batches: int = BATCHES
    band: int = BAND
    seed: int = 1

    @property
    def on(self) -> Predicate:
        """The condition."""
        return sj.equal("symbol") & sj.band("cents", within=self.band)

    @property
    def window(self) -> Interval:
        """The window."""
        return sj.interval(f"{BEFORE}s", f"{AFTER}s", time="ts", lateness=f"{LATENESS}s")


@dataclass(frozen=True)
class Feed:
    """All rows of both streams in the order of arrival, and how many have arrived at the end of each step."""

    trades: pa.Table
    quotes: pa.Table
    arrived: tuple[list[int], list[int]]

    def step(self, number: int) -> tuple[pa.Table, pa.Table]:
        """The trades and the quotes that arrive in a step."""
        parts = []
        for table, arrived in zip((self.trades, self.quotes), self.arrived, strict=True):
            first = arrived[number - 1] if number else 0
            parts.append(table.slice(first, arrived[number] - first))
        return parts[0], parts[1]


def generate(setup: Setup) -> Feed:
    """Generate the streams of a seed, the same on every machine."""
    random = np.random.default_rng(setup.seed)
    moves = random.normal(scale=CENTS_PER_SECOND, size=(SYMBOLS, setup.batches * SECONDS_PER_BATCH))
    prices = random.uniform(5_000, 50_000, (SYMBOLS, 1)) + np.cumsum(moves, axis=1)
    trades = setup.rows // (QUOTES_PER_TRADE + 1)
    sides = [
        _stream(random, rows, prices, names)
        for rows, names in (
            (trades, ("trade", "shares")),
            (setup.rows - trades, ("quote", "size")),
        )
    ]
    ends = np.arange(1, setup.batches) * SECONDS_PER_BATCH
    arrived = [[*np.searchsorted(arrivals, ends).tolist(), len(arrivals)] for _, arrivals in sides]
    return Feed(sides[0][0], sides[1][0], (arrived[0], arrived[1]))


def _stream(
    random: np.random.Generator, rows: int, prices: NDArray[np.float64], names: tuple[str, str]
) -> tuple[pa.Table, NDArray[np.float64]]:
    """The rows of one side, in the order of their arrivals, which are given too."""
    seconds = random.uniform(0, prices.shape[1], rows)
    arrivals = seconds + np.minimum(random.exponential(MEAN_DELAY, rows), GREATEST_DELAY)
    order = np.argsort(arrivals)
    seconds, arrivals = seconds[order], arrivals[order]
    symbols = random.integers(0, SYMBOLS, rows)
    cents = np.rint(prices[symbols, seconds.astype(int)] + random.normal(scale=SPREAD, size=rows))
    number, amount = names
    table = pa.table(
        {
            number: np.arange(rows),
            "symbol": pa.array([f"S{symbol:03}" for symbol in range(SYMBOLS)]).take(pa.array(symbols)),
            "cents": cents.astype(np.int64),
            "ts": pa.array(_START + (seconds * 1e6).astype("timedelta64[us]")).cast(
                pa.timestamp("us", "UTC")
            ),
            amount: random.integers(1, 1000, rows, dtype=np.int32),
        }
    )
    return table, arrivals
