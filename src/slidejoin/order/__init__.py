"""Order: several physical streams of both sides become one sequence of arrivals.

Each source (a side and a name) is in the order of time. Rows are handed out by (time, side, name, place in
the source). :class:`Order` holds a row back until no open source can bring a row that sorts before it; then
it is *ready*, as in "ScaleJoin: A Deterministic, Disjoint-Parallel and Skew-Resilient Stream Join" by
Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas. Idle sources are not waited for. The sequence does not
depend on how the sources interleave.

The ready rows are those up to ``min((latest time, source) of the sources waited for)``: a prefix of each
source, found by binary search (``waiting``). The core merges these prefixes (``interleave``). A call costs
O(sources), and at most O(sources) for each row that it hands out; rows that keep waiting cost nothing.
"""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import OrderError, SchemaError, StateError, UsageError
from slidejoin.keys.extract import SIDES
from slidejoin.order.interleave import interleaved
from slidejoin.order.waiting import BEFORE_ALL_TIME, Place, Queue, SourceKey, Taken, Time, TimedRows, take

_INT64 = np.iinfo(np.int64)


class SourceInfo(NamedTuple):
    """The state of a source; ``latest`` is None before its first timestamp."""

    side: Any  # a number here, "left" or "right" to users
    name: str
    is_open: bool
    is_idle: bool
    latest: Any  # a number here, a point in time to users
    waiting: int


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far a source is."""

    latest: Time = BEFORE_ALL_TIME
    is_open: bool = True
    is_idle: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """Rows that are ready, and the state of the :class:`Order` once they are committed.

    Attributes
    ----------
    sides : array of uint8
        The side of each row, in the order of arrival.
    tables : dict of pyarrow.Table
        The rows of each side that has any, in that order.
    """

    sides: NDArray[np.uint8]
    tables: dict[int, pa.Table]
    _stamp: object
    _sources: dict[SourceKey, _Progress]
    _taken: dict[SourceKey, Taken]
    _frontier: Place | None


class Order:
    """Sources of both sides, merged into one sequence of arrivals.

    ``push``, ``finish``, ``idle`` and ``finish_all`` change nothing: they return a :class:`Ready`, which
    ``commit`` applies. So an error, here or in the join that is given the rows, changes nothing.

    A source that was added late or was idle may bring a row that sorts before one already handed out. If
    ``strict`` this is an OrderError; otherwise the row is ready at once, and the window tells if it is late.

    Parameters
    ----------
    strict : bool
        Whether the sequence must be in order: all windows but ``interval``.
    show : callable
        Converts a time for error messages.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> order = Order(strict=True)
    >>> order.add(0, "a")
    >>> order.add(1, "b")
    >>> times = np.array([3, 5])
    >>> order.commit(order.push(0, "a", pa.table({"ts": times}), times, None))
    >>> ready = order.push(1, "b", pa.table({"ts": times}), times, None)
    >>> order.commit(ready)
    >>> ready.sides, ready.tables[0]["ts"].to_pylist(), order.waiting()
    (array([0, 1, 0], dtype=uint8), [3, 5], 1)
    """

    def __init__(self, strict: bool, show: Callable[[int], object] = int) -> None:
        self._strict = strict
        self._show = show
        self._sources: dict[SourceKey, _Progress] = {}  # in the order of the keys
        self._queues: dict[SourceKey, Queue] = {}
        self._frontier: Place | None = None  # the last place handed out
        self._stamp = object()  # of the current state; a Ready made from another one is stale

    def add(self, side: int, name: str) -> None:
        """Open a source; others wait for it from now on. Cost: O(sources)."""
        key = (side, name)
        if key in self._sources:
            was = "exists" if self._sources[key].is_open else "existed and is finished"
            raise UsageError(f"{_called(key)} {was}; use another name")
        self._queues = self._queues | {key: Queue()}
        self._sources = dict(sorted([*self._sources.items(), (key, _Progress())]))
        self._stamp = object()

    def push(
        self,
        side: int,
        name: str,
        table: pa.Table,
        times: NDArray[np.int64],
        nulls: NDArray[np.bool_] | None,
    ) -> Ready:
        """Deliver the next rows of a source; a batch without rows does not wake one that is idle.

        Parameters
        ----------
        table : pyarrow.Table
            The rows, with the columns of their side.
        times : array of int64
            Their times. Decreasing times are an OrderError.
        nulls : array of bool, optional
            Which rows have no time. Such a row sorts with the row before it, and before all times if no
            earlier row has one.

        Notes
        -----
        Cost: O(sources + rows of the batch + rows handed out). Rows that wait are copied.
        """
        key = (side, name)
        progress = self._open(key)
        if not len(times):
            return self._ready(self._sources)
        batch = TimedRows.of(table, times, nulls, progress.latest)
        self._check(key, batch, progress.latest)
        progress = replace(progress, latest=batch.last(), is_idle=False)
        return self._ready({**self._sources, key: progress}, key, batch)

    def check(self, side: int, name: str, times: NDArray[np.int64], nulls: NDArray[np.bool_] | None) -> None:
        """Raise what :meth:`push` would raise. Cost: O(rows of the batch)."""
        progress = self._open((side, name))
        if len(times):
            batch = TimedRows.of(pa.table({}), times, nulls, progress.latest)
            self._check((side, name), batch, progress.latest)

    def finish(self, side: int, name: str) -> Ready:
        """End a source: others no longer wait for it."""
        key = (side, name)
        return self._ready({**self._sources, key: replace(self._open(key), is_open=False)})

    def idle(self, side: int, name: str) -> Ready:
        """Do not wait for a source until its next row."""
        key = (side, name)
        return self._ready({**self._sources, key: replace(self._open(key), is_idle=True)})

    def finish_all(self) -> Ready:
        """End every source: all rows that wait are ready."""
        return self._ready({key: replace(progress, is_open=False) for key, progress in self._sources.items()})

    def commit(self, ready: Ready) -> None:
        """Hand out the rows of ``ready``, which was made from the current state. Cost: O(sources)."""
        after = self.committed(ready)
        self._sources, self._queues, self._frontier = after._sources, after._queues, after._frontier
        self._stamp = after._stamp

    def committed(self, ready: Ready) -> "Order":
        """The order that :meth:`commit` makes of this one. This one may not be used any more, once it is."""
        if ready._stamp is not self._stamp:
            raise UsageError("these rows were made ready before the sources changed; ask for them again")
        after = copy(self)
        after._queues = self._queues | {
            key: taken.applied(self._queues[key]) for key, taken in ready._taken.items()
        }
        after._sources, after._frontier, after._stamp = ready._sources, ready._frontier, object()
        return after

    def rescale(self, factor: int, show: Callable[[int], object] | None = None) -> None:
        """Count time in a finer unit from now on, and show it so. SchemaError, and no change, on overflow.

        Notes
        -----
        Cost: O(rows waiting).
        """
        if factor < 1:
            raise UsageError(f"rescale({factor}); the unit of time only becomes finer")
        held = [progress.latest for progress in self._sources.values()]
        held += [batch.times[batch.undated] for batch in self._batches() if batch.undated < len(batch)]
        held += [] if self._frontier is None else [self._frontier[0]]
        for time in held:
            if time != BEFORE_ALL_TIME and not _INT64.min <= int(time) * factor <= _INT64.max:
                raise SchemaError(
                    f"time {self._show(int(time))} of a source does not fit 64 bits in a unit that is "
                    f"{factor} times finer; give all batches the same unit"
                )
        queues = {
            key: Queue([replace(batch, times=batch.times * factor) for batch in queue])
            for key, queue in self._queues.items()
        }
        sources = {
            key: replace(progress, latest=progress.latest * factor) for key, progress in self._sources.items()
        }
        self._queues, self._sources, self._show = queues, sources, show or self._show
        if self._frontier is not None:
            self._frontier = (self._frontier[0] * factor, self._frontier[1])
        self._stamp = object()

    def waiting(self) -> int:
        """The number of rows that wait. Cost: O(batches waiting), as for ``nbytes``."""
        return sum(len(batch) for batch in self._batches())

    def waiting_before(self, side: int, time: int) -> int:
        """The number of rows of a side that wait and have an earlier time. Cost: O(batches waiting)."""
        place = (time, (-1, ""))  # before all sources
        return sum(
            batch.up_to(place, key, including=False)
            for key, queue in self._queues.items()
            for batch in queue
            if key[0] == side
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(batch.table.nbytes + batch.times.nbytes for batch in self._batches())

    def is_open(self, side: int, name: str) -> bool:
        """Whether a source exists and is not finished."""
        return (side, name) in self._sources and self._sources[side, name].is_open

    def holding(self) -> list[SourceKey]:
        """The sources that others wait for. Cost: O(sources)."""
        return [key for key, progress in self._sources.items() if progress.is_open and not progress.is_idle]

    def waiting_tables(self) -> list[tuple[int, pa.Table]]:
        """The side and the rows of every batch that waits."""
        return [(key[0], batch.table) for key, queue in self._queues.items() for batch in queue]

    def sources(self) -> list[SourceInfo]:
        """All sources in their order, finished ones too. Cost: O(sources + batches waiting)."""
        waiting = {key: sum(map(len, queue)) for key, queue in self._queues.items()}
        return [
            SourceInfo(*key, progress.is_open, progress.is_idle, _or_none(progress.latest), waiting[key])
            for key, progress in self._sources.items()
        ]

    # --- snapshots ---

    def state(self) -> tuple[dict[str, Any], dict[SourceKey, pa.Table]]:
        """What ``restore`` needs: values for JSON, and the waiting rows of each source that has any."""
        sources = []
        for info in self.sources():
            queue = self._queues[info.side, info.name]
            first = _or_none(next(iter(queue)).first()) if queue else None  # the time of leading nulls
            sources.append({**info._asdict(), "first": first})
        frontier = None if self._frontier is None else [_or_none(self._frontier[0]), *self._frontier[1]]
        tables = {
            key: pa.concat_tables([batch.table for batch in self._queues[key]])
            for key in self._sources
            if self._queues[key]
        }
        return {"strict": self._strict, "frontier": frontier, "sources": sources}, tables

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        waiting: Mapping[SourceKey, tuple[pa.Table, NDArray[np.int64], NDArray[np.bool_] | None]],
        show: Callable[[int], object] = int,
    ) -> Self:
        """An Order that continues from ``state``; StateError if no Order can have had that state.

        Parameters
        ----------
        state : dict
            The values that ``state`` gave.
        waiting : dict
            For each table that it gave: the table, its times in the unit they had, and its nulls.
        show : callable
            As for a new one.
        """
        order = cls(state["strict"], show)
        for saved in state["sources"]:
            key = (saved["side"], saved["name"])
            flags = (saved["is_open"], saved["is_idle"])
            if (
                key in order._sources
                or not _is_key(*key)
                or not all(isinstance(flag, bool) for flag in flags)
                or not (_is_time(saved["latest"]) and _is_time(saved["first"]))
            ):
                raise StateError(f"no source can have the state {saved!r}")
            order.add(*key)
            order._sources[key] = _Progress(
                _or_before_all(saved["latest"]), saved["is_open"], saved["is_idle"]
            )
            rows = len(waiting[key][1]) if key in waiting else 0
            if rows != saved["waiting"]:
                raise StateError(f"{_called(key)} has {rows} rows waiting, expected {saved['waiting']}")
            if rows:
                table, times, nulls = waiting[key]
                batch = TimedRows.of(table, times, nulls, _or_before_all(saved["first"]))
                order._queues[key] = Queue([batch.owned()])
        if state["frontier"] is not None:
            time, *at = state["frontier"]
            if not _is_time(time) or not _is_key(*at):
                raise StateError(f"no order can have the frontier {state['frontier']!r}")
            order._frontier = (_or_before_all(time), (at[0], at[1]))
        return order

    # --- which rows are ready ---

    def _ready(
        self, sources: dict[SourceKey, _Progress], key: SourceKey | None = None, new: TimedRows | None = None
    ) -> Ready:
        """What is ready once the sources are as in ``sources``, and one has delivered a new batch."""
        holding = [
            (progress.latest, each)
            for each, progress in sources.items()
            if progress.is_open and not progress.is_idle
        ]
        bound = min(holding, default=(math.inf, (0, "")))
        taken: dict[SourceKey, Taken] = {}
        for each, queue in ((each, self._queues[each]) for each in sources):
            if queue or each == key:
                taken[each] = take(queue, new if each == key else None, each, bound, self._frontier)
        runs = {each: rows.ready for each, rows in taken.items() if rows.ready}
        frontier = max(((run[-1].last(), each) for each, run in runs.items()), default=self._frontier)
        if self._frontier is not None and frontier is not None:
            frontier = max(frontier, self._frontier)
        return Ready(*interleaved(runs), self._stamp, sources, taken, frontier)

    # --- errors ---

    def _open(self, key: SourceKey) -> _Progress:
        progress = self._sources.get(key)
        if progress is None:
            known = ", ".join(_called(each) for each in self._sources) or "none"
            raise UsageError(f"{_called(key)} does not exist; add it first, existing ones: {known}")
        if not progress.is_open:
            raise UsageError(f"{_called(key)} is finished; add another one for further rows")
        return progress

    def _check(self, key: SourceKey, batch: TimedRows, latest: Time) -> None:
        dated = batch.times[batch.undated :]
        if len(dated) and dated[0] < latest:
            received, last = self._show(int(dated[0])), self._show(int(latest))
            raise OrderError(
                f"{_called(key)}, row 0: time {received} after {last} in the batch before; sort the source"
            )
        drops = dated[1:] < dated[:-1]
        if drops.any():
            row = int(drops.argmax()) + 1
            before, received = (self._show(int(time)) for time in dated[row - 1 : row + 1])
            raise OrderError(
                f"{_called(key)}, row {row + batch.undated}: time {received} after {before} in the row "
                "before; sort the source"
            )
        if not self._strict or self._frontier is None or (batch.first(), key) >= self._frontier:
            return
        received, last = (
            "without a time" if time == BEFORE_ALL_TIME else f"time {self._show(int(time))}"
            for time in (batch.first(), self._frontier[0])
        )
        raise OrderError(
            f"{_called(key)}, row 0: {received} sorts before {last} of {_called(self._frontier[1])}, which "
            "was joined already while this source was idle or not open; add it earlier and do not let it "
            "idle, or use an interval window, which takes late rows"
        )

    def _batches(self) -> list[TimedRows]:
        return [batch for queue in self._queues.values() for batch in queue]


def _is_key(side: Any, name: Any) -> bool:
    return type(side) is int and side in (0, 1) and isinstance(name, str)


def _is_time(time: Any) -> bool:
    return time is None or (type(time) is int and _INT64.min <= time <= _INT64.max)


def _called(key: SourceKey) -> str:
    return f"source {key[1]!r} of {SIDES[key[0]]}"


def _or_none(time: Time) -> int | None:
    return None if time == BEFORE_ALL_TIME else int(time)


def _or_before_all(time: int | None) -> Time:
    return BEFORE_ALL_TIME if time is None else time
