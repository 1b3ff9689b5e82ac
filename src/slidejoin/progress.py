"""How far a call has come: the part of a join's state that an interrupt must not tear.

An exception such as KeyboardInterrupt can arrive between any two steps of a call, though not within a row of
plain assignments: Python looks for one only where it calls or begins a function, or jumps back. A join
therefore changes in three stages, each completed by such assignments; the next call completes what is left:

1. The *step* is noted, then the core is called once. The core keeps the record of that call.
2. The record is followed: rows are stored, matches become a table. Doing this twice has the same effect as
   doing it once. Then the results are *owed* and the step is done.
3. Rows that left the window are *trimmed*, and sources follow. This, too, can be repeated.

What is owed comes out first in the next result.

A push with many matches takes several such calls of the core, each for some of its rows or some of their
matches; what remains is noted with the results of each (:class:`Remainder`), so that a later call can go on
with it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from slidejoin.bound_join import BoundJoin, Columns, Parts, Sides


class Remainder(NamedTuple):
    """The rows of a batch that were not joined yet."""

    sides: Sides
    tables: dict[int, pa.Table]
    columns: Columns
    store: bool
    then: Callable[[], None] | None
    listing: bool = False  # whether rows before them have matches that were not listed yet
    wanted: bool = True  # whether results are returned, or dropped

    @property
    def size(self) -> int:
        """How many rows there are."""
        if isinstance(self.sides, int):
            return int(self.tables[self.sides].num_rows)
        return len(self.sides)

    def first(self, count: int) -> "Remainder":
        """The first rows of these."""
        return self._part(slice(0, count), listing=False)

    def after(self, count: int, listing: bool) -> "Remainder | None":
        """The rows behind so many of them; None if nothing is left to do."""
        return self._part(slice(count, None), listing) if listing or count < self.size else None

    def copy(self) -> "Remainder":
        """The same rows in memory of their own."""
        keys, times, missing = self.columns
        columns = (
            [(values.copy(), None if nulls is None else nulls.copy()) for values, nulls in keys],
            None if times is None else times.copy(),
            None if missing is None else missing.copy(),
        )
        sides = self.sides if isinstance(self.sides, int) else self.sides.copy()
        tables = {i: table.take(np.arange(table.num_rows)) for i, table in self.tables.items()}
        return self._replace(sides=sides, tables=tables, columns=columns)

    def _part(self, rows: slice, listing: bool) -> "Remainder":
        keys, times, missing = self.columns
        columns = (
            [(values[rows], None if nulls is None else nulls[rows]) for values, nulls in keys],
            None if times is None else times[rows],
            None if missing is None else missing[rows],
        )
        if isinstance(self.sides, int):
            tables = {i: table[rows] for i, table in self.tables.items()}
            return self._replace(tables=tables, columns=columns, listing=listing)
        tables = {}
        for i, table in self.tables.items():
            before = np.count_nonzero(self.sides[: rows.start] == i)
            inside = np.count_nonzero(self.sides[rows] == i)
            tables[i] = table.slice(before, inside)
        return self._replace(sides=self.sides[rows], tables=tables, columns=columns, listing=listing)


class Step(NamedTuple):
    """A call of the engine, noted before it is made."""

    engine: BoundJoin
    calls: int  # that the engine had taken before
    parts: Parts
    rows: Remainder | None  # rows that are pushed, or whose matches are listed

    @property
    def happened(self) -> bool:
        """Whether the engine took the call."""
        return self.engine.native.calls != self.calls


class Waiting(NamedTuple):
    """What waits for a later call, besides the results that are owed."""

    late: tuple[tuple[pa.Table, ...], tuple[pa.Table, ...]] = ((), ())
    # Final rows that wait for the columns of the other side, to come out with them, and their side.
    held: tuple[pa.Table, ...] = ()
    held_side: int = 0
    ended: str = ""  # why no more batches are taken


Owed: TypeAlias = tuple[pa.Table, ...]  # results that were not returned yet
# How the stores follow a step, its positions of both sides as the record has them, and what is called then.
Trim: TypeAlias = tuple[Any, Callable[[], None] | None]
