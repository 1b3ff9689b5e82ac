"""How far a call has come: the part of a join's state that an interrupt must not tear.

An exception such as KeyboardInterrupt can arrive between any two steps of a call. A join therefore changes in
three stages, each completed by one assignment of a :class:`Progress`; the next call completes what is left:

1. The *step* is noted, then the core is called once. The core keeps the record of that call.
2. The record is followed: rows are stored, matches become a table. Doing this twice has the same effect as
   doing it once. One assignment makes the results *owed* and the step done.
3. Rows that left the window are *trimmed*, and sources follow. This, too, can be repeated.

What is owed comes out first in the next result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from slidejoin.bound_join import BoundJoin, Parts, Sides


class Step(NamedTuple):
    """A call of the engine, noted before it is made."""

    engine: BoundJoin
    calls: int  # that the engine had taken before
    sides: Sides
    parts: Parts
    then: Callable[[], None] | None

    @property
    def happened(self) -> bool:
        """Whether the engine took the call."""
        return self.engine.native.calls != self.calls


class Progress(NamedTuple):
    """What is under way, and what waits for a later call."""

    step: Step | None = None
    trim: Any = None  # Record.sides of a step whose rows were not trimmed yet
    then: Callable[[], None] | None = None  # to be called after that; can be repeated
    owed: tuple[pa.Table, ...] = ()  # results that were not returned yet
    late: tuple[tuple[pa.Table, ...], tuple[pa.Table, ...]] = ((), ())
    # Final rows that wait for the columns of the other side, to come out with them, and their side.
    held: tuple[pa.Table, ...] = ()
    held_side: int = 0
    ended: str = ""  # why no more batches are taken

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(table.nbytes for tables in (self.owed, *self.late, self.held) for table in tables)
