"""Tasks that read async iterables into an inbox, one for each source, and end with the run."""

import asyncio
import inspect
from collections.abc import AsyncIterable
from typing import Any

from slidejoin.drive.inbox import Inbox
from slidejoin.drive.readers import named, put_other
from slidejoin.log import LOGGER


class TaskReader:
    """A task that reads one async source; as ``Reader``, which reads a plain one."""

    def __init__(self, inbox: Inbox, side: int, source: AsyncIterable[Any], name: str) -> None:
        self._inbox, self._side, self._source, self._name = inbox, side, source, name
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._read(), name=f"slidejoin: {self._name}")

    async def finish(self) -> None:
        """Cancel the task and wait for it, once the inbox is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        error: BaseException | None = None
        iterator: Any = None
        try:
            iterator = aiter(self._source)
            await self._read_all(iterator)
        except asyncio.CancelledError as raised:
            if not self._inbox.is_closed:  # by the source itself
                error = raised
        except BaseException as raised:  # handed over to the task that runs the join
            error = raised
        owners = [iterator, *([] if self._source is iterator else [self._source])]
        for owner in owners:
            error = await close(owner, self._name, quiet=self._inbox.is_closed) or error
        self._inbox.end(self._side, named(error, self._name))

    async def _read_all(self, items: AsyncIterable[Any]) -> None:
        inbox, side, put = self._inbox, self._side, self._inbox.put
        async for item in items:
            if inbox.is_closed:
                return
            has_room = put(side, item) if type(item) is dict else put_other(inbox, side, item, self._name)
            if not has_room:
                await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        room = self._room
        while True:
            room.clear()
            if self._inbox.has_room(self._side, room.set):
                return
            await room.wait()


async def close(owner: Any, name: str, quiet: bool) -> BaseException | None:
    """Call the ``aclose()`` of a source, or its ``close()``, if it has one; as ``readers.close``."""
    method = getattr(owner, "aclose", None) or getattr(owner, "close", None)
    if not callable(method):
        return None
    try:
        result = method()
        if inspect.isawaitable(result):
            await result
    except Exception as error:
        if quiet:
            LOGGER.warning("closing %s failed: %s", name, error)
            return None
        return error
    return None
