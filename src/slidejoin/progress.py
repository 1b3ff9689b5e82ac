"""How far a call has come: the part of a join's state that an interrupt must not tear.

An exception such as KeyboardInterrupt can arrive between any two steps of a call, though not within a row of
plain assignments: Python looks for one only where it calls or begins a function, or jumps back. A join
therefore changes in three stages, each completed by such assignments; the next call completes what is left:

1. The *step* is noted, then the core is called once. The core keeps the record of that call.
2. The record is followed: rows are stored, matches become a table. Doing this twice has the same effect as
   doing it once. Then the results are *owed* and the step is done.
3. Rows that left the window are *trimmed*, and sources follow. This, too, can be repeated.

What is owed comes out first in the next result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

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
