"""How much matches, measured by samples of both streams.

Where the samples have the timestamps of the window, only pairs within it count: prices that move, and keys
that come and go, match far more often near each other in time than at any distance. Ever larger parts of the
samples are joined until there are enough matches, so that a sample with hot keys costs no more than one
without.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SpecError
from slidejoin.predicate import Predicate
from slidejoin.source import to_table
from slidejoin.table_join import join
from slidejoin.window import Interval, Window, Within, interval
from slidejoin.window_join import WindowJoin

WANTED = 1000  # matches
FIRST = 256  # rows of a side in the first part


class Selectivity(NamedTuple):
    """The share of pairs that match, by how many matches it was found, and whether the window counted."""

    share: float
    matches: int
    timed: bool


def measured_selectivity(left: Any, right: Any, on: Predicate, window: Window | None = None) -> Selectivity:
    """The selectivity of two samples: tables that speak Arrow.

    Raises
    ------
    SpecError
        A sample has no rows.

    Examples
    --------
    >>> import slidejoin as sj
    >>> even = pa.table({"x": list(range(0, 100, 2))})
    >>> measured_selectivity(even, even, sj.band("x", within=2))
    Selectivity(share=0.0592, matches=148, timed=False)
    """
    tables = (to_table(left, "the left sample"), to_table(right, "the right sample"))
    for name, table in zip(("left", "right"), tables, strict=True):
        if table.num_rows == 0:
            raise SpecError(f"the {name} sample has no rows")
    times = _times(tables, window)
    share, matches = 0.0, 0
    for pairs, found in _anywhere(tables, on) if times is None else _near(tables, times, on, window):
        share, matches = found / pairs if pairs else 0.0, found
        if matches >= WANTED:
            break
    return Selectivity(share, matches, times is not None)


def _anywhere(tables: tuple[pa.Table, pa.Table], on: Predicate) -> Iterator[tuple[int, int]]:
    """Pairs and matches of ever larger random parts."""
    generator = np.random.default_rng(0)
    left, right = (table.take(generator.permutation(table.num_rows)) for table in tables)
    size = FIRST
    while True:
        parts = left.slice(0, size), right.slice(0, size)
        yield parts[0].num_rows * parts[1].num_rows, join(*parts, on=on).num_rows
        if size >= max(left.num_rows, right.num_rows):
            return
        size *= 4


def _near(
    tables: tuple[pa.Table, pa.Table],
    times: tuple[NDArray[np.int64], NDArray[np.int64]],
    on: Predicate,
    window: Window | None,
) -> Iterator[tuple[int, int]]:
    """The same of pairs within the window, in stretches of time around the middle of the samples."""
    assert isinstance(window, Within | Interval)
    before, after = (
        (window.duration, window.duration) if isinstance(window, Within) else (window.before, window.after)
    )
    windows = interval(f"{before}ns", f"{after}ns", time=window.time)
    orders = [np.argsort(each, kind="stable") for each in times]
    left, right = (table.take(order) for table, order in zip(tables, orders, strict=True))
    left_times, right_times = (each[order] for each, order in zip(times, orders, strict=True))
    middle = int(left_times[len(left_times) // 2])
    spread = max(int(left_times[-1]) - middle, middle - int(left_times[0]), 1)
    reach = max(spread * FIRST // len(left_times), 1)
    while True:
        first, last = np.searchsorted(left_times, [middle - reach, middle + reach + 1])
        near = left_times[first:last]
        low = np.searchsorted(right_times, near - before)
        high = np.searchsorted(right_times, near + after, side="right")
        matches = 0
        if len(near) and high[-1] > low[0]:
            with WindowJoin(on, windows) as met:
                met.push(left=left.slice(first, last - first))
                matches = met.push(right=right.slice(low[0], high[-1] - low[0])).num_rows
        yield int(np.maximum(high - low, 0).sum()), matches
        if reach >= spread:
            return
        reach *= 4


def _times(
    tables: tuple[pa.Table, pa.Table], window: Window | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The timestamps of both samples in nanoseconds, or None where they or the window have none."""
    if not isinstance(window, Within | Interval) or window.time is None:
        return None
    names = (window.time, window.time) if isinstance(window.time, str) else window.time
    times = []
    for table, name in zip(tables, names, strict=True):
        if name not in table.column_names or not pa.types.is_timestamp(table.schema.field(name).type):
            return None
        column = table[name]
        if column.null_count:
            return None
        unit = pa.timestamp("ns", column.type.tz)
        times.append(column.cast(unit).cast(pa.int64()).to_numpy())
    return times[0], times[1]
