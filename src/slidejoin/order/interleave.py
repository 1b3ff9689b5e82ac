"""Rows of several sources, each in the order of time, become one sequence. The core merges the times."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.order.waiting import SourceKey, TimedRows
from slidejoin.source import rows_of

_MAX_BYTES = 2**30  # a take joins the strings of a column, and 32-bit offsets address 2 GiB


def interleaved(
    sources: Mapping[SourceKey, list[TimedRows]],
) -> tuple[NDArray[np.uint8], dict[int, pa.Table]]:
    """Merge rows by (time, source).

    Parameters
    ----------
    sources : mapping
        The batches of each source, in the order of the keys.

    Returns
    -------
    sides : array of uint8
        The side of each row.
    tables : dict of pyarrow.Table
        The rows of each side that has any.

    Notes
    -----
    Cost: O(sources) for each row; a copy of the rows of sides that have more than one source.
    """
    of_side = {side: [key for key in sources if key[0] == side] for side, _ in sources}
    tables = {
        side: pa.concat_tables([batch.table for key in keys for batch in sources[key]])
        for side, keys in of_side.items()
    }
    if len(sources) < 2:
        side = next(iter(tables), 0)
        return np.full(sum(table.num_rows for table in tables.values()), side, np.uint8), tables
    sides, *places = _core.merge([_run(key[0], batches) for key, batches in sources.items()])
    for side, keys in of_side.items():
        if len(keys) > 1:
            tables[side] = _permuted(tables[side], places[side])
    return sides, tables


def _run(side: int, batches: list[TimedRows]) -> tuple[NDArray[np.int64], int, int]:
    """One source for the core: times, side, and how many rows in front have no time."""
    times = batches[0].times if len(batches) == 1 else np.concatenate([batch.times for batch in batches])
    return np.ascontiguousarray(times), side, sum(batch.undated for batch in batches)


def _permuted(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Rows of a table in another order; large tables in halves, each from the few slices it needs."""
    if table.nbytes > _MAX_BYTES and len(rows) > 1:
        halves = []
        for half in np.array_split(rows, 2):
            used = np.sort(half)
            stretches = np.split(used, np.flatnonzero(np.diff(used) != 1) + 1)
            pieces = [table.slice(int(stretch[0]), len(stretch)) for stretch in stretches]
            halves.append(_permuted(pa.concat_tables(pieces), np.searchsorted(used, half)))
        return pa.concat_tables(halves)
    return rows_of(table, rows, rising=False)
