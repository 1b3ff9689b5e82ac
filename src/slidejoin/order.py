"""Order: several physical streams of both sides become one sequence of arrivals.

Each source (a side and a name) is in the order of time. :class:`Order` keeps a row back until every other
source that is open and not idle has shown that nothing comes from it that sorts before the row by (time,
side, name, place in the source), which is the *ready* tuple of "ScaleJoin: A Deterministic, Disjoint-Parallel
and Skew-Resilient Stream Join" by Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas. The sequence is then
the same however the sources interleave.

The rows that are ready are those up to ``min((latest time, source) over the sources waited for)``: in each
source a prefix, found by a binary search, and the core merges these. A call costs O(sources), and O(sources)
at most for each row that it releases; rows that go on waiting cost nothing.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.errors import OrderError, SchemaError, StateError, UsageError
from slidejoin.keys.extract import SIDES
from slidejoin.source import rows_of

Key: TypeAlias = tuple[int, str]
Time: TypeAlias = int | float  # a float only for the one that stands before all times
Place: TypeAlias = tuple[Time, Key]

_BEFORE_ALL_TIME = -math.inf
_INT64 = np.iinfo(np.int64)
_MAX_BYTES = 2**30  # a take joins the strings of a column, and 32-bit offsets address 2 GiB


class SourceInfo(NamedTuple):
    """What is known of a source; ``latest`` is None before its first timestamp."""

    side: Any  # a number here, "left" or "right" to users
    name: str
    is_open: bool
    is_idle: bool
    latest: Any  # a number here, a point in time to users
    waiting: int


@dataclass(frozen=True, slots=True)
class _Stream:
    latest: Time = _BEFORE_ALL_TIME
    is_open: bool = True
    is_idle: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of a source and the times that they sort by; ``undated`` rows come first, with 0 as their time."""

    table: pa.Table
    times: NDArray[np.int64]
    undated: int = 0

    def __len__(self) -> int:
        return len(self.times)

    def first(self) -> Time:
        return _BEFORE_ALL_TIME if self.undated else int(self.times[0])

    def last(self) -> Time:
        return _BEFORE_ALL_TIME if self.undated == len(self) else int(self.times[-1])

    def part(self, start: int, stop: int) -> "_Batch":
        if stop - start == len(self):
            return self
        undated = min(max(self.undated - start, 0), stop - start)
        return _Batch(self.table.slice(start, stop - start), self.times[start:stop], undated)

    def owned(self) -> "_Batch":
        """The same rows in memory of our own, since the caller may change its arrays after a push."""
        both = pa.concat_tables([self.table, self.table.slice(0, 0)])  # two chunks, so that it does copy
        try:
            table = both.combine_chunks()
        except pa.ArrowNotImplementedError:
            table = rows_of(self.table, np.arange(len(self)), rising=False)
        return _Batch(table, self.times.copy(), self.undated)

    def up_to(self, place: Place, key: Key, including: bool) -> int:
        """How many rows, as rows of source ``key``, sort before a place, or at it where that is included."""
        time, at = place
        if time == math.inf:
            return len(self)
        with_ties = key <= at if including else key < at
        if time == _BEFORE_ALL_TIME:
            return self.undated if with_ties else 0
        dated = self.times[self.undated :]
        return self.undated + int(np.searchsorted(dated, time, side="right" if with_ties else "left"))


class _Cut(NamedTuple):
    """What leaves a source: the rows, and what becomes of its queue of waiting batches."""

    ready: list[_Batch]
    whole: int  # batches that leave the front of the queue
    rest: _Batch | None  # replaces the batch then in front, of which a part has left
    added: _Batch | None  # joins the end


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """Rows whose turn has come, and the state of the :class:`Order` once they are committed.

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
    _streams: dict[Key, _Stream]
    _cuts: dict[Key, _Cut]
    _frontier: Place | None


class Order:
    """Sources of both sides, merged into one sequence of arrivals.

    ``push``, ``finish``, ``idle`` and ``finish_all`` change nothing: they return a :class:`Ready`, and only
    ``commit`` makes it so. An error, here or in the join that is handed the rows, thus leaves all as it was.

    A source that was added late or was idle may bring a row that sorts before one already handed out. If
    ``strict`` this is an OrderError; otherwise the row is ready at once, and the window calls it late or not.

    Parameters
    ----------
    strict : bool
        Whether the sequence must be in order: all windows but ``interval``.
    show : callable
        Makes of a time what errors show.

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
        self._streams: dict[Key, _Stream] = {}  # in the order of the keys
        self._queues: dict[Key, deque[_Batch]] = {}
        self._frontier: Place | None = None  # the last place handed out
        self._stamp = object()  # of the present state; what was made from another one is stale

    def add(self, side: int, name: str) -> None:
        """Open a source; from now on its silence holds the others back. Cost: O(sources)."""
        key = (side, name)
        if key in self._streams:
            was = "is there already" if self._streams[key].is_open else "was there and is finished"
            raise UsageError(f"{_called(key)} {was}; use another name")
        self._streams = dict(sorted([*self._streams.items(), (key, _Stream())]))
        self._queues[key] = deque()
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
            Their times, not decreasing, else OrderError.
        nulls : array of bool, optional
            Which rows have none. Such a row sorts with the row before it, and before all time if there is
            none with a time.

        Notes
        -----
        Cost: O(sources + rows of the batch + rows released). Rows that stay are copied.
        """
        key = (side, name)
        stream = self._open(key)
        if not len(times):
            return self._ready(self._streams)
        batch = _Batch(table, *_filled(times, nulls, stream.latest))
        self._check(key, batch, stream.latest)
        stream = replace(stream, latest=max(stream.latest, batch.last()), is_idle=False)
        return self._ready({**self._streams, key: stream}, {key: batch})

    def check(self, side: int, name: str, times: NDArray[np.int64], nulls: NDArray[np.bool_] | None) -> None:
        """Raise what :meth:`push` would raise. Cost: O(rows of the batch)."""
        stream = self._open((side, name))
        if len(times):
            batch = _Batch(pa.table({}), *_filled(times, nulls, stream.latest))
            self._check((side, name), batch, stream.latest)

    def finish(self, side: int, name: str) -> Ready:
        """End a source: nothing waits for it any more."""
        key = (side, name)
        return self._ready({**self._streams, key: replace(self._open(key), is_open=False)})

    def idle(self, side: int, name: str) -> Ready:
        """Do not wait for a source until its next row."""
        key = (side, name)
        return self._ready({**self._streams, key: replace(self._open(key), is_idle=True)})

    def finish_all(self) -> Ready:
        """End every source: all rows that wait are ready."""
        return self._ready({key: replace(stream, is_open=False) for key, stream in self._streams.items()})

    def commit(self, ready: Ready) -> None:
        """Make it so: the rows of ``ready``, made of the present state, are handed out. Cost: O(sources)."""
        if ready._stamp is not self._stamp:
            raise UsageError("these rows were made ready before the sources changed; ask for them again")
        for key, cut in ready._cuts.items():
            queue = self._queues[key]
            for _ in range(cut.whole):
                queue.popleft()
            if cut.rest is not None:
                queue[0] = cut.rest
            if cut.added is not None:
                queue.append(cut.added)
        self._streams = ready._streams
        self._frontier = ready._frontier
        self._stamp = object()

    def rescale(self, factor: int) -> None:
        """Count time in a finer unit from now on. SchemaError, and no change, where a time has no room.

        Notes
        -----
        Cost: O(rows waiting).
        """
        if factor < 1:
            raise UsageError(f"rescale({factor}); the unit of time only becomes finer")
        held = [stream.latest for stream in self._streams.values()]
        held += [batch.times[batch.undated] for batch in self._batches() if batch.undated < len(batch)]
        held += [] if self._frontier is None else [self._frontier[0]]
        for time in held:
            if time != _BEFORE_ALL_TIME and not _INT64.min <= int(time) * factor <= _INT64.max:
                raise SchemaError(
                    f"time {self._show(int(time))} of a source does not fit 64 bits in a unit that is "
                    f"{factor} times finer; give all batches the same unit"
                )
        queues = {
            key: deque(replace(batch, times=batch.times * factor) for batch in queue)
            for key, queue in self._queues.items()
        }
        streams = {
            key: replace(stream, latest=stream.latest * factor) for key, stream in self._streams.items()
        }
        self._queues, self._streams = queues, streams
        if self._frontier is not None:
            self._frontier = (self._frontier[0] * factor, self._frontier[1])
        self._stamp = object()

    def waiting(self) -> int:
        """Rows that wait. Cost: O(batches waiting), as for ``nbytes``."""
        return sum(len(batch) for batch in self._batches())

    def waiting_up_to(self, side: int, time: int) -> int:
        """Rows of a side that wait, with a time up to this one. Cost: O(batches waiting)."""
        place = (time, (2, ""))  # behind all sources
        return sum(
            batch.up_to(place, key, including=True)
            for key, queue in self._queues.items()
            for batch in queue
            if key[0] == side
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(batch.table.nbytes + batch.times.nbytes for batch in self._batches())

    def is_open(self, side: int, name: str) -> bool:
        """Whether a source is there and not finished."""
        return (side, name) in self._streams and self._streams[side, name].is_open

    def holding(self) -> list[Key]:
        """The sources that others wait for. Cost: O(sources)."""
        return [key for key, stream in self._streams.items() if stream.is_open and not stream.is_idle]

    def waiting_tables(self) -> list[tuple[int, pa.Table]]:
        """The side and the rows of every batch that waits."""
        return [(key[0], batch.table) for key, queue in self._queues.items() for batch in queue]

    def sources(self) -> list[SourceInfo]:
        """All sources in their order, finished ones too. Cost: O(sources + batches waiting)."""
        waiting = {key: sum(map(len, queue)) for key, queue in self._queues.items()}
        return [
            SourceInfo(*key, stream.is_open, stream.is_idle, _or_none(stream.latest), waiting[key])
            for key, stream in self._streams.items()
        ]

    # --- snapshots ---

    def state(self) -> tuple[dict[str, Any], dict[Key, pa.Table]]:
        """All that ``restore`` needs: values for JSON, and the rows that wait of each source that has any."""
        sources = []
        for info in self.sources():
            queue = self._queues[info.side, info.name]
            first = _or_none(queue[0].first()) if queue else None  # which nulls in front were given
            sources.append({**info._asdict(), "first": first})
        frontier = None if self._frontier is None else [_or_none(self._frontier[0]), *self._frontier[1]]
        tables = {
            key: pa.concat_tables([batch.table for batch in self._queues[key]])
            for key in self._streams
            if self._queues[key]
        }
        return {"strict": self._strict, "frontier": frontier, "sources": sources}, tables

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        waiting: Mapping[Key, tuple[pa.Table, NDArray[np.int64], NDArray[np.bool_] | None]],
        show: Callable[[int], object] = int,
    ) -> Self:
        """An Order that goes on where ``state`` was taken; StateError where it cannot have been.

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
                key in order._streams
                or not _is_key(*key)
                or not all(isinstance(flag, bool) for flag in flags)
                or not (_is_time(saved["latest"]) and _is_time(saved["first"]))
            ):
                raise StateError(f"a source {saved!r} cannot be")
            order.add(*key)
            order._streams[key] = _Stream(_or_before_all(saved["latest"]), saved["is_open"], saved["is_idle"])
            rows = len(waiting[key][1]) if key in waiting else 0
            if rows != saved["waiting"]:
                raise StateError(f"{_called(key)} has {rows} rows waiting, expected {saved['waiting']}")
            if rows:
                table, times, nulls = waiting[key]
                batch = _Batch(table, *_filled(times, nulls, _or_before_all(saved["first"])))
                order._queues[key].append(batch.owned())
        if state["frontier"] is not None:
            time, *at = state["frontier"]
            if not _is_time(time) or not _is_key(*at):
                raise StateError(f"a frontier {state['frontier']!r} cannot be")
            order._frontier = (_or_before_all(time), (at[0], at[1]))
        return order

    # --- which rows are ready ---

    def _ready(self, streams: dict[Key, _Stream], new: Mapping[Key, _Batch] | None = None) -> Ready:
        """What is ready once the sources are as in ``streams`` and have delivered the new batches."""
        holding = [
            (stream.latest, key) for key, stream in streams.items() if stream.is_open and not stream.is_idle
        ]
        bound = min(holding, default=(math.inf, (0, "")))
        cuts: dict[Key, _Cut] = {}
        for key in streams:
            batch = (new or {}).get(key)
            if batch is not None or self._queues[key]:
                cuts[key] = self._cut(key, batch, bound)
        runs = {key: cut.ready for key, cut in cuts.items() if cut.ready}
        frontier = max(((run[-1].last(), key) for key, run in runs.items()), default=self._frontier)
        if self._frontier is not None and frontier is not None:
            frontier = max(frontier, self._frontier)
        return Ready(*_merged(runs), self._stamp, streams, cuts, frontier)

    def _cut(self, key: Key, new: _Batch | None, bound: Place) -> _Cut:
        """The rows of a source up to ``bound``, and those that come too late to wait for it."""
        ready: list[_Batch] = []
        whole = 0
        for batch in self._queues[key]:
            rows = batch.up_to(bound, key, including=True)
            if rows < len(batch):
                ready += [batch.part(0, rows)] if rows else []
                rest = batch.part(rows, len(batch)) if rows else None
                return _Cut(ready, whole, rest, None if new is None else new.owned())
            ready.append(batch)
            whole += 1
        if new is None:
            return _Cut(ready, whole, None, None)
        rows = new.up_to(bound, key, including=True)
        if self._frontier is not None:  # strict: there are none, see _check
            rows = max(rows, new.up_to(self._frontier, key, including=False))
        ready += [new.part(0, rows)] if rows else []
        return _Cut(ready, whole, None, new.part(rows, len(new)).owned() if rows < len(new) else None)

    # --- errors, and the state as it is ---

    def _open(self, key: Key) -> _Stream:
        stream = self._streams.get(key)
        if stream is None:
            known = ", ".join(_called(each) for each in self._streams) or "none"
            raise UsageError(f"{_called(key)} is not known; add it first, there are: {known}")
        if not stream.is_open:
            raise UsageError(f"{_called(key)} is finished; add another one for further rows")
        return stream

    def _check(self, key: Key, batch: _Batch, latest: Time) -> None:
        dated = batch.times[batch.undated :]
        if len(dated) and dated[0] < latest:
            came, last = self._show(int(dated[0])), self._show(int(latest))
            raise OrderError(
                f"{_called(key)}, row 0: time {came} after {last} in the batch before; sort the source"
            )
        drops = dated[1:] < dated[:-1]
        if drops.any():
            row = int(drops.argmax()) + 1
            before, came = (self._show(int(time)) for time in dated[row - 1 : row + 1])
            raise OrderError(
                f"{_called(key)}, row {row + batch.undated}: time {came} after {before} in the row before; "
                "sort the source"
            )
        if not self._strict or self._frontier is None or (batch.first(), key) >= self._frontier:
            return
        came, last = (
            "without a time" if time == _BEFORE_ALL_TIME else f"time {self._show(int(time))}"
            for time in (batch.first(), self._frontier[0])
        )
        raise OrderError(
            f"{_called(key)}, row 0: {came} sorts before {last} of {_called(self._frontier[1])}, which was "
            "joined already while this source was idle or not there; add it earlier and do not let it idle, "
            "or use an interval window, which takes late rows"
        )

    def _batches(self) -> list[_Batch]:
        return [batch for queue in self._queues.values() for batch in queue]


# --- arrays ---


def _filled(
    times: NDArray[np.int64], nulls: NDArray[np.bool_] | None, before: Time
) -> tuple[NDArray[np.int64], int]:
    """The times that rows sort by, each null that of the row before it, and how many rows have none."""
    if nulls is None or not nulls.any():
        return times, 0
    rows = np.where(nulls, -1, np.arange(len(times)))
    np.maximum.accumulate(rows, out=rows)
    leading = int(np.searchsorted(rows, 0))
    filled = times[rows]
    if before == _BEFORE_ALL_TIME:
        filled[:leading] = 0
        return filled, leading
    filled[:leading] = before
    return filled, 0


def _merged(runs: Mapping[Key, list[_Batch]]) -> tuple[NDArray[np.uint8], dict[int, pa.Table]]:
    """The rows of several sources, given in the order of their keys, in the order of time."""
    of_side = {side: [key for key in runs if key[0] == side] for side, _ in runs}
    tables = {
        side: pa.concat_tables([batch.table for key in keys for batch in runs[key]])
        for side, keys in of_side.items()
    }
    if len(runs) < 2:
        side = next(iter(tables), 0)
        return np.full(sum(table.num_rows for table in tables.values()), side, np.uint8), tables
    sides, *places = _core.merge([_run(key[0], batches) for key, batches in runs.items()])
    for side, keys in of_side.items():
        if len(keys) > 1:
            tables[side] = _permuted(tables[side], places[side])
    return sides, tables


def _run(side: int, batches: list[_Batch]) -> tuple[NDArray[np.int64], int, int]:
    """The rows of one source: times, side, and how many in front have no time."""
    times = batches[0].times if len(batches) == 1 else np.concatenate([batch.times for batch in batches])
    return np.ascontiguousarray(times), side, sum(batch.undated for batch in batches)


def _permuted(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Rows of a table in another order, which consist of a few stretches of it: those of the sources."""
    if table.nbytes > _MAX_BYTES and len(rows) > 1:
        halves = []
        for half in np.array_split(rows, 2):
            used = np.sort(half)
            stretches = np.split(used, np.flatnonzero(np.diff(used) != 1) + 1)
            pieces = [table.slice(int(stretch[0]), len(stretch)) for stretch in stretches]
            halves.append(_permuted(pa.concat_tables(pieces), np.searchsorted(used, half)))
        return pa.concat_tables(halves)
    return rows_of(table, rows, rising=False)


def _is_key(side: Any, name: Any) -> bool:
    return type(side) is int and side in (0, 1) and isinstance(name, str)


def _is_time(time: Any) -> bool:
    return time is None or (type(time) is int and _INT64.min <= time <= _INT64.max)


def _called(key: Key) -> str:
    return f"source {key[1]!r} of {SIDES[key[0]]}"


def _or_none(time: Time) -> int | None:
    return None if time == _BEFORE_ALL_TIME else int(time)


def _or_before_all(time: int | None) -> Time:
    return _BEFORE_ALL_TIME if time is None else time
