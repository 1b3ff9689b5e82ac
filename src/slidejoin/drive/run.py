"""Run: the results of a join that two iterables drive. Threads read them, the caller's thread joins."""

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from slidejoin.drive.bell import Bell
from slidejoin.drive.inbox import Inbox
from slidejoin.drive.options import STOP_POLL, Options
from slidejoin.drive.readers import Reader
from slidejoin.drive.session import DrivenJoin, Session, SourceFailed
from slidejoin.keys.extract import SIDES


class RunState:
    """What all runs tell while they run and afterwards."""

    _session: Session

    @property
    def offsets(self) -> Any:
        """Where each source goes on after the rows that were joined: ``{"left": ..., "right": ...}``.

        A number of rows, or the last offset that a source told with :class:`slidejoin.Batch` and whose rows
        were all joined. Of a self-join: one value. Rows behind it were not joined, even if they were read.
        """
        offsets = self._session.offsets
        return offsets[0] if len(offsets) == 1 else dict(zip(SIDES, offsets, strict=True))

    @property
    def result_rows(self) -> int:
        """Result rows so far, those of the runs before a resume included."""
        return self._session.result_rows


class Run(RunState, Iterator[pa.Table]):
    """The results of ``WindowJoin.run``, table by table. None of them is empty.

    It begins to read with the first ``next()``. It ends with its sources, with :meth:`stop`, or with
    :meth:`close`, which is also called when the object is dropped or its ``with`` block ends.
    """

    def __init__(self, join: DrivenJoin, options: Options) -> None:
        self._session = Session(join, options)
        self._stopping = _Stop(options.stop)
        # The generator does not know this object: dropping it closes the generator at once.
        self._results = _results(self._session, self._stopping)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        return next(self._results)

    def stop(self) -> None:
        """End gracefully: no more rows are read, those that were read are joined, a snapshot is written.

        Can be called by any thread and by a signal handler. The loop over the results ends after the last
        ones. The join is not finished.
        """
        self._stopping.set()

    def close(self) -> None:
        """End now: rows that were read and not joined are dropped, and not counted in :attr:`offsets`."""
        self._results.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Stop:
    """Whether to stop, by the caller's word or by ``stop=``; and what wakes the run."""

    def __init__(self, asked: Callable[[], bool] | None) -> None:
        self._asked = asked
        self._is_set = False
        self.bell = Bell()
        self.is_polled = asked is not None

    def set(self) -> None:
        self._is_set = True
        self.bell.ring()

    def __bool__(self) -> bool:
        return self._is_set or (self._asked is not None and self._asked())


def _results(session: Session, stopping: _Stop) -> Generator[pa.Table]:
    options = session.options
    bell = stopping.bell
    inbox = Inbox(options.max_rows, options.max_delay, session.clock, bell.ring)
    readers = [
        Reader(inbox, side, options.sources[side], session.start_offsets[side], session.names[side])
        for side in session.open_sides
    ]
    is_whole = True  # whether the session is between two micro-batches, and what it gave was handled
    session.begin()
    try:
        yield from session.woken()
        for reader in readers:
            reader.start()
        while session.open_sides and not stopping:
            session.save_if_due()
            bell.silence()
            inbox.expect()
            due = inbox.due_at()
            if due is not None and due <= session.clock():
                is_whole = False
                yield from session.arrived(inbox.take())
                is_whole = True
                inbox.make_room(session.joined_rows)
            else:
                bell.wait(seconds_until(due, session, stopping.is_polled))
            is_whole = False
            yield from session.passed()
            is_whole = True
        stopped = bool(session.open_sides)
        inbox.close()
        if stopped:
            is_whole = False
            while (taken := inbox.take()).entries:
                yield from session.arrived(taken)
            is_whole = True
        session.save()
        if not stopped:
            yield from session.finish()
    except SourceFailed as failed:
        session.save()
        raise failed.error from failed.error.__cause__
    except KeyboardInterrupt:
        if is_whole:
            session.save()
        raise
    finally:
        try:
            inbox.close()
            for reader in readers:
                reader.finish()
        finally:  # also if an interrupt comes here
            inbox.is_closed = True
            session.end()


def seconds_until(due: int | None, session: Session, is_polled: bool) -> float | None:
    """How long a run may sleep: until a micro-batch is due, or until time passes that matters."""
    now = session.clock()
    times = [due, session.next_event(), now + STOP_POLL if is_polled else None]
    nearest = min((time for time in times if time is not None), default=None)
    return None if nearest is None else max(nearest - now, 0) / 1e9
