"""The rows of one source that wait for other sources: batches in the order of time, taken from the front."""

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.source import rows_of

SourceKey: TypeAlias = tuple[int, str]  # side and name
Time: TypeAlias = int | float  # a float only for BEFORE_ALL_TIME and infinity
Place: TypeAlias = tuple[Time, SourceKey]  # where a row sorts in the sequence of arrivals

BEFORE_ALL_TIME = -math.inf


@dataclass(frozen=True, slots=True)
class TimedRows:
    """Rows of a source and the times they sort by. The first ``undated`` rows have no time, but a 0 there."""

    table: pa.Table
    times: NDArray[np.int64]
    undated: int = 0

    @classmethod
    def of(
        cls, table: pa.Table, times: NDArray[np.int64], nulls: NDArray[np.bool_] | None, before: Time
    ) -> "TimedRows":
        """Rows in which a null time becomes that of the row before it; in front it becomes ``before``."""
        if nulls is None or not nulls.any():
            return cls(table, times)
        rows = np.where(nulls, -1, np.arange(len(times)))
        np.maximum.accumulate(rows, out=rows)
        leading = int(np.searchsorted(rows, 0))
        filled = times[rows]
        is_undated = before == BEFORE_ALL_TIME
        filled[:leading] = 0 if is_undated else before
        return cls(table, filled, leading if is_undated else 0)

    def __len__(self) -> int:
        return len(self.times)

    def first(self) -> Time:
        return BEFORE_ALL_TIME if self.undated else int(self.times[0])

    def last(self) -> Time:
        return BEFORE_ALL_TIME if self.undated == len(self) else int(self.times[-1])

    def part(self, start: int, stop: int) -> "TimedRows":
        if stop - start == len(self):
            return self
        undated = min(max(self.undated - start, 0), stop - start)
        return TimedRows(self.table.slice(start, stop - start), self.times[start:stop], undated)

    def owned(self) -> "TimedRows":
        """A copy, since the caller may change its arrays after a push."""
        both = pa.concat_tables([self.table, self.table.slice(0, 0)])  # one chunk would not be copied
        try:
            table = both.combine_chunks()
        except pa.ArrowNotImplementedError:
            table = rows_of(self.table, np.arange(len(self)), rising=False)
        return TimedRows(table, self.times.copy(), self.undated)

    def up_to(self, place: Place, key: SourceKey, including: bool) -> int:
        """How many rows, as rows of source ``key``, sort before a place, or at it if that is included."""
        time, source = place
        if time == math.inf:
            return len(self)
        with_ties = key <= source if including else key < source
        if time == BEFORE_ALL_TIME:
            return self.undated if with_ties else 0
        dated = self.times[self.undated :]
        return self.undated + int(np.searchsorted(dated, time, side="right" if with_ties else "left"))


class Queue:
    """Batches that wait, in their order. Never changed: calls return a new one, which shares the list.

    Of all queues that were made of one, only one may be used afterwards.
    """

    __slots__ = ("_batches", "_front", "_start", "_stop")

    def __init__(self, batches: Iterable[TimedRows] = ()) -> None:
        self._batches = list(batches)
        self._front: TimedRows | None = None  # stands for the first one, of which a part was taken
        self._start, self._stop = 0, len(self._batches)

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[TimedRows]:
        start = self._start
        if self._front is not None:
            yield self._front
            start += 1
        for i in range(start, self._stop):
            yield self._batches[i]

    def without(self, count: int, front: TimedRows | None) -> "Queue":
        """The queue without its first batches, and with another one in front if there is one."""
        if not count and front is None:
            return self
        after = copy(self)
        after._start += count
        after._front = front if front is not None or count else self._front
        if 2 * after._start > after._stop:  # so that batches that were taken are given back
            after._batches = self._batches[after._start : self._stop]
            after._start, after._stop = 0, len(after._batches)
        return after

    def with_last(self, batch: TimedRows) -> "Queue":
        """The queue with one more batch at its end."""
        after = copy(self)
        after._batches[self._stop :] = [batch]
        after._stop += 1
        return after


class Taken(NamedTuple):
    """What is taken from a queue of batches, and how the queue changes then."""

    ready: list[TimedRows]
    whole: int  # batches that leave the front of the queue
    rest: TimedRows | None  # replaces the batch that is in front then, of which a part was taken
    added: TimedRows | None  # joins the end

    def applied(self, queue: Queue) -> Queue:
        """The queue that it makes of another one. Cost: O(1) amortised."""
        after = queue.without(self.whole, self.rest)
        return after if self.added is None else after.with_last(self.added)


def take(
    queue: Iterable[TimedRows], new: TimedRows | None, key: SourceKey, bound: Place, frontier: Place | None
) -> Taken:
    """Take the rows of a source up to ``bound``, and new rows that sort before ``frontier``.

    Parameters
    ----------
    queue : iterable of TimedRows
        The batches that wait. They are not changed.
    new : TimedRows, optional
        A batch that follows them.
    key : SourceKey
        The source.
    bound : Place
        Rows up to here are ready.
    frontier : Place, optional
        The last place handed out: it is too late for new rows before it to wait.
    """
    ready: list[TimedRows] = []
    whole = 0
    for batch in queue:
        rows = batch.up_to(bound, key, including=True)
        if rows < len(batch):
            ready += [batch.part(0, rows)] if rows else []
            rest = batch.part(rows, len(batch)) if rows else None
            return Taken(ready, whole, rest, None if new is None else new.owned())
        ready.append(batch)
        whole += 1
    if new is None:
        return Taken(ready, whole, None, None)
    rows = new.up_to(bound, key, including=True)
    if frontier is not None:
        rows = max(rows, new.up_to(frontier, key, including=False))
    ready += [new.part(0, rows)] if rows else []
    return Taken(ready, whole, None, new.part(rows, len(new)).owned() if rows < len(new) else None)
