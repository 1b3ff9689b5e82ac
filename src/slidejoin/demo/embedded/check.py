"""The check of the result, on stretches of rows from the whole run.

The pairs of each stretch are compared with the definition of the join, evaluated on the stored input,
and those of the first rows also with ``slidejoin.reference``: number, positions and order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slidejoin import reference
from slidejoin.demo.embedded.streams import Setup, Streams
from slidejoin.errors import StateError
from slidejoin.numeric import NumericJoin

REFERENCE_ROWS = 1500
STRETCHES = 20
STRETCH_ROWS = 250

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Pushed:
    """The pairs of the rows ``start`` to ``stop``, as the join returned them."""

    start: int
    stop: int
    left: Positions
    right: Positions


def pushes(setup: Setup) -> Iterator[tuple[int, int, bool]]:
    """Cut the rows into pushes (start, stop, whether to check them).

    The stretches to check, the first rows and others from there to the end of the run, are cut out
    as pushes of their own.
    """
    first = min(REFERENCE_ROWS, setup.rows)
    last_start = max(first, setup.rows - STRETCH_ROWS)
    stretches = [(0, first)] + [
        (start, min(start + STRETCH_ROWS, setup.rows))
        for start in np.linspace(first, last_start, STRETCHES).astype(int).tolist()
    ]
    cuts = {*range(0, setup.rows, setup.batch), setup.rows}
    for stretch in stretches:
        cuts.update(stretch)
    for start, stop in pairwise(sorted(cuts)):
        yield start, stop, any(begin <= start < end for begin, end in stretches)


def find_failure(
    setup: Setup, streams: Streams, sample: list[Pushed], join: NumericJoin, matches: int
) -> str | None:
    """Say in words the first thing that is wrong with the result, or return None."""
    counted = join.stats["matches"]
    if matches != counted:
        return f"{matches} pairs were returned, but the join counted {counted}"
    try:
        join.check()
    except StateError as error:
        return f"the index broke its invariants: {error}"
    quotes_before = np.cumsum(streams.sides, dtype=np.int64) - streams.sides
    keys = (streams.keys[streams.sides == 0], streams.keys[streams.sides == 1])
    for pushed in sample:
        parts = [
            pairs_by_definition(setup, int(side), int(key), row - int(quotes), int(quotes), keys)
            for row, side, key, quotes in zip(
                range(pushed.start, pushed.stop),
                streams.sides[pushed.start : pushed.stop],
                streams.keys[pushed.start : pushed.stop],
                quotes_before[pushed.start : pushed.stop],
                strict=True,
            )
        ]
        left, right = (np.concatenate(positions) for positions in zip(*parts, strict=True))
        if not (np.array_equal(left, pushed.left) and np.array_equal(right, pushed.right)):
            return (
                f"rows {pushed.start} to {pushed.stop}: {len(pushed.left)} pairs came out, which "
                f"are not the {len(left)} pairs of the definition"
            )
    return _difference_from_reference(setup, streams, sample)


def pairs_by_definition(
    setup: Setup,
    side: int,
    key: int,
    trades: int,
    quotes: int,
    keys: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[Positions, Positions]:
    """Find the pairs of one row: it meets the last ``window`` rows of the other side before it.

    Parameters
    ----------
    side, key : int
        The row.
    trades, quotes : int
        Number of trades and quotes before it.
    keys : pair of arrays
        Keys of all trades and of all quotes.
    """
    own, other = (trades, quotes) if side == 0 else (quotes, trades)
    first = max(0, other - setup.window)
    visible = keys[1 - side][first:other]
    partners = first + np.flatnonzero((visible >= key - setup.band) & (visible <= key + setup.band))
    mine = np.full(len(partners), own)
    return (mine, partners) if side == 0 else (partners, mine)


def _difference_from_reference(setup: Setup, streams: Streams, sample: list[Pushed]) -> str | None:
    """Join the first rows with the reference, and compare."""
    rows = min(REFERENCE_ROWS, setup.rows)
    brute_force = reference.ReferenceJoin(
        reference.band(-setup.band, setup.band), reference.Rows(setup.window, setup.window)
    )
    arrivals = zip(streams.sides[:rows].tolist(), streams.keys[:rows].tolist(), strict=True)
    expected = [pair for side, key in arrivals for pair in brute_force.push(side, key)]
    actual = [
        pair
        for pushed in sample
        if pushed.stop <= rows
        for pair in zip(pushed.left.tolist(), pushed.right.tolist(), strict=True)
    ]
    if actual != expected:
        return f"the pairs of the first {rows} rows are not those of slidejoin.reference"
    return None
