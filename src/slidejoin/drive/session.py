"""A join under a run: micro-batches in, results out; offsets, ends, silence and snapshots.

It knows neither threads nor tasks, and has no clock but the join's. ``run`` and ``run_async`` feed it.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from slidejoin.bound_join import Sides
from slidejoin.drive.by_arrival import Arrivals, ByArrival, Ended, Merge, Step, gathered, gathered_rows
from slidejoin.drive.by_time import ByTime
from slidejoin.drive.checkpoint import Checkpoints, Note, resumed
from slidejoin.drive.inbox import Entry, Taken
from slidejoin.drive.items import End
from slidejoin.drive.options import Options
from slidejoin.drive.progress import Progress
from slidejoin.errors import StateError, UsageError
from slidejoin.keys.extract import SIDES
from slidejoin.saved_join import SavedJoin
from slidejoin.source import Side


class DrivenJoin(SavedJoin):
    """What a run calls of a WindowJoin."""

    _is_driven = False  # whether a run is under way

    @abstractmethod
    def _arrive(self, sides: Sides, tables: dict[int, pa.Table]) -> Iterator[pa.Table]:
        """Join checked tables: the push has happened when this returns; its results are iterated over."""

    @abstractmethod
    def _rest(self, side: int) -> pa.Table:
        """Let a side that is silent or has ended no longer hold the watermark back."""

    @abstractmethod
    def _wake(self) -> pa.Table:
        """Let sides that were silent or had ended hold the watermark back again."""

    @abstractmethod
    def finish(self) -> pa.Table:
        """End the input."""


class SourceFailed(Exception):  # noqa: N818
    """A source raised an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Session:
    """A run of a join.

    Parameters
    ----------
    join : WindowJoin
        The join.
    options : Options
        How it runs.
    """

    def __init__(self, join: DrivenJoin, options: Options) -> None:
        if join._sources is not None:
            raise UsageError("this join has sources, push into them; run() needs a join without")
        if join._live.ended:
            raise UsageError(f"the join is {join._live.ended}; make a new one")
        note = resumed(join, options.snapshot) if options.resume else None
        self._join = join
        self.options = options
        self.clock = join._clock
        count = len(options.sources)
        self.names = ["the source"] if count == 1 else [f"the {side} source" for side in SIDES]
        live = join._live
        self._checks = [Side(SIDES[i], live.sides[i].schema, needs=join.spec.reads(i)) for i in range(count)]
        self._merge: Merge = ByArrival()
        by_time = None if options.time is None else ByTime(join.spec, options.time, self._checks)
        if by_time is not None:
            self._merge = by_time
        self._progress = [Progress(name) for name in self.names]
        self._pushing: tuple[list[int], int] | None = None  # rows joined after a push, rows seen before it
        self._has_lateness = join.spec.window.lateness is not None
        self._unreleased: list[int] = []  # sides that ended before the join had an engine
        self._idle: set[int] = set()
        self._last_read = [self.clock()] * 2
        self.result_rows = 0
        if note is not None:
            self._continue(note, by_time)
        now = self.clock()
        join._last_seen = [now, now]
        self._checkpoints = Checkpoints(options.snapshot, options.every_rows, options.every_time, self.clock)

    def _continue(self, note: Note, by_time: ByTime | None) -> None:
        if note.merge != self.options.merge or len(note.offsets) != len(self._progress):
            raise StateError(
                f"the snapshot is of a run with merge={note.merge!r}, this one has {self.options.merge!r}"
            )
        for side, name in enumerate(self.names):
            self._progress[side] = Progress(name, note.joined[side], note.marked[side])
        self.result_rows = note.result_rows
        if by_time is not None and note.waiting is not None:
            by_time.restore(note.waiting)
            for side, rows in enumerate(by_time.waiting_rows()):
                if rows:
                    self._progress[side].waits(rows, note.offsets[side])

    def begin(self) -> None:
        """Have the join to this run alone, until :meth:`end`."""
        if self._join._is_driven:
            raise UsageError("another run of this join is under way; close it first")
        self._join._is_driven = True

    def woken(self) -> Iterator[pa.Table]:
        """Wait for sources that had ended in an earlier run, and may have grown."""
        if self._join._live.engine is not None and len(self._progress) > 1 and self._has_lateness:
            yield from self._handed(iter([self._join._wake()]))

    def end(self) -> None:
        """Let other runs begin."""
        self._join._is_driven = False
        self._settle()

    # --- how far it is ---

    @property
    def offsets(self) -> list[Any]:
        """Where each source goes on after the rows that were joined."""
        return [progress.offset for progress in self._progress]

    @property
    def start_offsets(self) -> list[Any]:
        """Where each source begins, after the rows that the join has or that wait."""
        return [progress.read_offset for progress in self._progress]

    @property
    def joined_rows(self) -> tuple[int, int]:
        """Rows of each side that this run has joined."""
        joined = [progress.joined_rows for progress in self._progress]
        return joined[0], joined[1] if len(joined) > 1 else 0

    @property
    def open_sides(self) -> list[int]:
        """Sides that may bring more rows."""
        return [side for side, progress in enumerate(self._progress) if not progress.is_ended]

    # --- what happens ---

    def arrived(self, taken: Taken) -> Iterator[pa.Table]:
        """Join what was read, in its order. SourceFailed if a source raised, behind the rows before it."""
        entries = taken.entries
        if taken.is_plain:
            yield from self._read(entries, True)
            return
        start = 0
        for place, (side, item, _) in enumerate(entries):
            if type(item) is End:
                yield from self._read(entries[start:place], False)
                start = place + 1
                if item.error is not None:
                    raise SourceFailed(item.error)
                self._progress[side].is_ended = True
                yield from self._steps(self._merge.end(side))
        yield from self._read(entries[start:], False)

    def _read(self, entries: list[Entry], is_plain: bool) -> Iterator[pa.Table]:
        if not entries:
            return
        try:
            arrivals = (gathered_rows if is_plain else gathered)(entries, self._checks)
            if not is_plain and any(type(item) is not dict for _, item, _ in entries):
                self._count(entries)
            else:
                for side, table in arrivals.tables.items():
                    self._progress[side].read(table.num_rows)
            now = self.clock()
            for side, table in arrivals.tables.items():
                if table.num_rows:
                    self._last_read[side] = now
                    self._idle.discard(side)
            yield from self._steps(self._merge.add(arrivals))
        except Exception as error:
            at = ", ".join(
                f"{name} at {offset!r}" for name, offset in zip(self.names, self.offsets, strict=True)
            )
            error.add_note(f"in a micro-batch of run() that was not joined; before it: {at}")
            raise

    def _count(self, entries: list[Entry]) -> None:
        for side, item, _ in entries:
            if type(item) is dict:
                self._progress[side].read(1)
            else:
                self._progress[side].read(item.rows, item.offset)

    def _steps(self, steps: Iterable[Step]) -> Iterator[pa.Table]:
        for step in steps:
            if isinstance(step, Ended):
                self._unreleased.append(step.side)
                yield from self._release()
            else:
                yield from self._joined(step)
        for progress in self._progress:
            progress.joined(progress.joined_rows)  # offsets of empty batches

    def _joined(self, arrivals: Arrivals) -> Iterator[pa.Table]:
        if not arrivals.tables:
            return
        if self._unreleased and self._join._live.engine is None:  # lets a side that never came be released
            empty = {side: table.slice(0, 0) for side, table in arrivals.tables.items()}
            sides = arrivals.sides if isinstance(arrivals.sides, int) else arrivals.sides[:0]
            yield from self._handed(self._join._arrive(sides, empty))
        yield from self._release(anyway=any(arrivals.counts))
        joined = [
            progress.joined_rows + rows
            for progress, rows in zip(self._progress, arrivals.counts, strict=False)
        ]
        self._pushing = (joined, self._join._live.seen)
        results = self._join._arrive(arrivals.sides, arrivals.tables)
        self._settle()
        yield from self._handed(results)

    def _settle(self) -> None:
        """Count the rows of the last push if it has happened; an interrupt may have come before that."""
        if self._pushing is not None:
            joined, seen_before = self._pushing
            if self._join._told(lambda: self._join._live.seen, open_only=False) != seen_before:
                for progress, rows in zip(self._progress, joined, strict=True):
                    progress.joined(rows)
            self._pushing = None

    def _release(self, anyway: bool = False) -> Iterator[pa.Table]:
        """Let sides that have ended no longer hold the watermark back, once there are rows."""
        if not self._has_lateness:
            self._unreleased.clear()
        elif self._unreleased and self._join._live.engine is not None and (anyway or self._join._live.seen):
            while self._unreleased:
                side = self._unreleased.pop()
                yield from self._handed(iter([self._join._rest(side)]))

    def _handed(self, results: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in results:
            if table.num_rows:
                self.result_rows += table.num_rows
                yield table

    # --- time that passes ---

    def next_event(self) -> int | None:
        """When :meth:`passed` or :meth:`save_if_due` has something to do, by the clock."""
        times = [self._checkpoints.due_at(sum(self.joined_rows)), self._next_silence()]
        return min((time for time in times if time is not None), default=None)

    def _next_silence(self) -> int | None:
        after = self._join.spec.window.idle_after
        if after is None or (self._join._live.engine is None and not any(self._merge.waiting_rows())):
            return None
        speaking = [side for side in self.open_sides if side not in self._idle]
        return min((self._last_read[side] + after for side in speaking), default=None)

    def passed(self) -> Iterator[pa.Table]:
        """Let sides that are silent for ``idle_after`` no longer hold the others back."""
        silence = self._next_silence()
        after = self._join.spec.window.idle_after
        now = self.clock()
        if silence is None or after is None or now < silence:
            return
        for side in self.open_sides:
            if side not in self._idle and now - self._last_read[side] >= after:
                self._idle.add(side)
                yield from self._steps(self._merge.idle(side))
                if self._join._live.engine is not None:
                    yield from self._handed(iter([self._join._rest(side)]))

    def finish(self) -> Iterator[pa.Table]:
        """End the join, unless the caller wants it to go on."""
        if self.options.finish:
            yield from self._handed(iter([self._join.finish()]))
        else:  # whoever pushes next finds both sides as if they went on
            yield from self.woken()

    # --- snapshots ---

    def save_if_due(self) -> None:
        """Write a snapshot if it is time to. All results so far must have been handled by the caller."""
        due = self._checkpoints.due_at(sum(self.joined_rows))
        if due is not None and self.clock() >= due:
            self.save()

    def save(self) -> None:
        """Write a snapshot, if the run has any."""
        note = Note(
            merge=self.options.merge,
            offsets=self.start_offsets,
            joined=self.offsets,
            marked=[progress.marked for progress in self._progress],
            result_rows=self.result_rows,
            waiting=self._merge.waiting(),
        )
        self._checkpoints.save(self._join, note, sum(self.joined_rows))
