"""AsyncRun: the results of a join that async iterables drive. The join runs in the event loop's thread."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from types import TracebackType
from typing import Self

import pyarrow as pa

from slidejoin.drive.inbox import Inbox
from slidejoin.drive.options import Options, check_source, is_function
from slidejoin.drive.readers import Reader, named
from slidejoin.drive.run import RunState, seconds_until
from slidejoin.drive.session import DrivenJoin, Session, SourceFailed
from slidejoin.drive.tasks import TaskReader


class AsyncRun(RunState, AsyncIterator[pa.Table]):
    """The results of ``WindowJoin.run_async``, table by table. None of them is empty.

    It begins to read with the first result that is awaited. It ends with its sources, with :meth:`stop`, or
    with :meth:`aclose`, which an ``async with`` block calls; so does cancelling the task that awaits it.
    """

    def __init__(self, join: DrivenJoin, options: Options) -> None:
        self._session = Session(join, options)
        self._stopping = _Stop(options.stop)
        self._results = _results(self._session, self._stopping)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.Table:
        return await anext(self._results)

    def stop(self) -> None:
        """End gracefully: as :meth:`Run.stop`. Called in the event loop's thread, or by any other one."""
        self._stopping.set()

    async def aclose(self) -> None:
        """End now: rows that were read and not joined are dropped, and not counted in ``offsets``."""
        await self._results.aclose()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Stop:
    """Whether to stop, by the caller's word or by ``stop=``; and what wakes the run from any thread."""

    def __init__(self, asked: Callable[[], bool] | None) -> None:
        self._asked = asked
        self._is_set = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.event = asyncio.Event()
        self.is_polled = asked is not None

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Wake the run: also from the threads of plain sources."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.event.set)

    def set(self) -> None:
        self._is_set = True
        self.wake()

    def __bool__(self) -> bool:
        return self._is_set or (self._asked is not None and self._asked())


async def _results(session: Session, stopping: _Stop) -> AsyncIterator[pa.Table]:
    options = session.options
    wake = stopping.event
    stopping.begin()
    inbox = Inbox(options.max_rows, options.max_delay, session.clock, stopping.wake)
    started: list[Reader | TaskReader] = []
    session.begin()
    try:
        for table in session.woken():
            yield table
        for side in session.open_sides:
            started.append(_reader(inbox, side, session))
            started[-1].start()
        while session.open_sides and not stopping:
            session.save_if_due()
            wake.clear()
            inbox.expect()
            due = inbox.due_at()
            if due is not None and due <= session.clock():
                for table in session.arrived(inbox.take()):
                    yield table
                inbox.make_room(session.joined_rows)
                await asyncio.sleep(0)  # lets the readers run
            else:
                await _wait(wake, seconds_until(due, session, stopping.is_polled))
            for table in session.passed():
                yield table
        stopped = bool(session.open_sides)
        inbox.close()
        while stopped and (taken := inbox.take()).entries:
            for table in session.arrived(taken):
                yield table
        session.save()
        if not stopped:
            for table in session.finish():
                yield table
    except SourceFailed as failed:
        session.save()
        raise failed.error from failed.error.__cause__
    finally:
        try:
            inbox.close()
            for reader in started:
                if isinstance(reader, TaskReader):
                    await reader.finish()
                else:
                    await asyncio.to_thread(reader.finish)
        finally:
            session.end()


def _reader(inbox: Inbox, side: int, session: Session) -> Reader | TaskReader:
    """A task for an async source, a thread for a plain one, which may block."""
    source, offset, name = session.options.sources[side], session.start_offsets[side], session.names[side]
    if is_function(source):
        try:
            source = source(offset)
            check_source(source, name, takes_async=True)
        except Exception as error:
            named(error, name)
            raise
    if isinstance(source, AsyncIterable):
        return TaskReader(inbox, side, source, name)
    return Reader(inbox, side, source, offset, name)


async def _wait(wake: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
