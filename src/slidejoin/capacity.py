"""Capacity: whether a batch fits the limits of a join, decided before anything of it is applied.

A cheap bound decides first; only a batch that may pass a limit is rehearsed in the core, which counts exactly
and changes nothing.
"""

from typing import NoReturn

import pyarrow as pa

from slidejoin.bound_join import BoundJoin
from slidejoin.errors import CapacityError
from slidejoin.keys.extract import SIDES
from slidejoin.limits import Limits
from slidejoin.progress import Remainder

# Bytes that a row of a batch needs: while it is joined, and in an index.
WORKING, INDEXED = 200, 50


def require_capacity(limits: Limits, engine: BoundJoin, rows: Remainder, memory: int | None) -> None:
    """Raise a CapacityError if a batch passes a limit.

    Parameters
    ----------
    memory : int, optional
        Bytes that the join uses now, and those that its columns allocate to take the batch; None if the
        memory of the rows was checked before.
    """
    if limits.max_memory is not None and memory is not None:
        grown = memory + engine.native.stats()["memory_bytes"] // 2  # arrays of the index grow, too
        for table in rows.tables.values():
            require_memory(limits.max_memory, table, grown)
    if limits.refused_rows is not None or limits.max_fanout is not None:
        _require_rows(limits, engine, rows)


def require_memory(most: int, table: pa.Table, memory: int) -> None:
    """Raise a CapacityError if rows that arrive may need more than is left of a limit.

    ``memory`` are the bytes in use, and those that are kept free for arrays to grow.
    """
    arriving = table.nbytes + (WORKING + INDEXED) * table.num_rows
    if memory + arriving > most:
        raise CapacityError(
            f"max_memory={most:,} bytes would be passed: {memory:,} are in use or kept free for growth, "
            f"and the {table.num_rows:,} rows of this batch may need {arriving:,}; push smaller batches, "
            "narrow the window, give columns=, or let rows go to disk with spill="
        )


def _require_rows(limits: Limits, engine: BoundJoin, rows: Remainder) -> None:
    stats, spec = engine.native.stats(), engine.bound.spec
    event = spec.window.has_watermark
    kept = [stats[f"next_{side}"] - stats[f"first_{side}"] for side in SIDES]
    held = [stats[f"stored_{side}"] for side in SIDES] if event else kept
    arriving = [rows.tables[i].num_rows if i in rows.tables else 0 for i in range(2)]
    most = limits.refused_rows
    in_doubt = most is not None and any(held[i] + arriving[i] > most[i] for i in range(2))
    fanout = limits.max_fanout
    met = [held[i] + arriving[i] for i in range(2)]
    if fanout is not None and (met[0] if spec.self_join else max(met)) <= fanout:
        fanout = None
    enough = None if fanout is None else fanout + 1
    batch = (rows.sides, rows.columns, rows.store)
    if fanout is not None and not in_doubt and spec.window.uses_time:  # an estimate may be enough
        found, _ = engine.rehearse(*batch, False, enough)[2:]
        if found <= fanout:
            return
    if not in_doubt and fanout is None:
        return
    *peak, found, row = engine.rehearse(*batch, True, enough)
    for i, side in enumerate(SIDES):
        if most is not None and peak[i] > most[i]:
            _refuse_rows(most[i], side, held[i], arriving[i])
    if fanout is not None and found > fanout:
        raise CapacityError(
            f"row {row:,} of this batch matches more than max_fanout={fanout:,} rows; make the condition "
            "stricter, narrow the window, or raise max_fanout"
        )


def _refuse_rows(most: int, side: str, held: int, arriving: int) -> NoReturn:
    raise CapacityError(
        f"max_rows={most:,} of the {side} side would be passed: {held:,} rows are held and {arriving:,} "
        "arrive; push smaller batches, narrow the window, or drop old rows with when_full='drop_oldest'"
    )
