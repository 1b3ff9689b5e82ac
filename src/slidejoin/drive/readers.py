"""Threads that read plain iterables into an inbox, one for each source, and end with the run."""

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

from slidejoin.drive.bell import Bell
from slidejoin.drive.inbox import Inbox
from slidejoin.drive.items import UNMARKED, Chunk, read_item
from slidejoin.drive.options import check_source, is_function
from slidejoin.log import LOGGER

_GRACE = 0.1  # seconds that a reader has before its source is closed from outside
_LOOK = 0.5  # seconds between two looks of a reader that waits, should an interrupt keep it from being told
_PATIENCE = 2.0  # seconds until a reader that is still blocked is left to itself


class Reader:
    """A thread that reads one source.

    Parameters
    ----------
    inbox : Inbox
        Where rows go.
    side : int
        Of the rows.
    source : iterable or function
        Iterable of rows and batches; None is skipped. A function is called with ``offset`` in the thread.
    name : str
        What errors call it.
    """

    def __init__(self, inbox: Inbox, side: int, source: Any, offset: Any, name: str) -> None:
        self._inbox, self._side, self._source, self._offset, self._name = inbox, side, source, offset, name
        self._iterator: Any = None
        self._room = Bell()
        self._thread = threading.Thread(target=self._read, name=f"slidejoin: {name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self) -> None:
        """Wait for the thread, once the inbox is closed; close a source that blocks it."""
        if self._thread.ident is None:  # an interrupt came before it was started
            return
        self._thread.join(_GRACE)
        if self._thread.is_alive():
            for owner in (self._iterator, self._source):
                if not isinstance(owner, Generator):  # a running one cannot be closed from outside
                    close(owner, self._name)
            self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            LOGGER.warning(
                "%s of a run that was closed is still blocked; its thread ends with the next row. A source "
                "that yields None now and then, or has a close() that unblocks it, ends at once",
                self._name,
            )

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            source = self._source
            if is_function(source):
                self._source = source = source(self._offset)
                check_source(source, self._name, takes_async=False)
            if not self._inbox.is_closed:
                self._iterator = iter(source)
                self._read_all(self._iterator)
        except BaseException as raised:  # handed over to the thread that runs the join
            error = raised
        owners = [self._iterator, *([] if self._source is self._iterator else [self._source])]
        for owner in owners:
            error = close(owner, self._name, quiet=self._inbox.is_closed) or error
        self._inbox.end(self._side, named(error, self._name))

    def _read_all(self, items: Iterable[Any]) -> None:
        inbox, side, put = self._inbox, self._side, self._inbox.put
        for item in items:
            if inbox.is_closed:
                return
            has_room = put(side, item) if type(item) is dict else put_other(inbox, side, item, self._name)
            if not has_room:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        room = self._room
        while True:
            room.silence()
            if self._inbox.has_room(self._side, room.ring):
                return
            room.wait(_LOOK)


def put_other(inbox: Inbox, side: int, item: Any, name: str) -> bool:
    """Put what is not a plain dict into an inbox; tell whether there is room for more."""
    if item is None:
        return True
    read = read_item(item, name)
    if not isinstance(read, Chunk):
        return inbox.put(side, read)
    if read.rows or read.offset is not UNMARKED or read.table.num_columns:
        return inbox.put_chunk(side, read)
    return True


def named(error: BaseException | None, name: str) -> BaseException | None:
    """An error of a source, with a note that names the source."""
    if error is not None:
        error.add_note(f"raised by {name} of a run")
    return error


def close(owner: Any, name: str, quiet: bool = True) -> BaseException | None:
    """Call the ``close()`` of a source if it has one; an error is returned, and logged if ``quiet``."""
    method: Callable[[], object] | None = getattr(owner, "close", None)
    if not callable(method):
        return None
    try:
        method()
    except Exception as error:
        if quiet:
            LOGGER.warning("close() of %s failed: %s", name, error)
            return None
        return error
    return None
