"""The inbox: rows of both sources in the order of their arrival, and when a micro-batch of them is due.

A micro-batch is due when it has ``max_rows`` rows, when its first row has waited ``max_delay``, or when a
source has ended. Readers append, one consumer takes. A deque is safe for that without a lock, and each
counter has one writer. Cost: O(1) for a row, of which there are at most ``ROOM * max_rows`` and a batch of
each side.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from slidejoin.drive.items import Chunk, End

Entry: TypeAlias = tuple[int, Any, int]  # side; a row (dict), Chunk or End; when it arrived
ROOM = 2  # micro-batches of each side that may wait
_NEVER = 2**62


class Inbox:
    """What was read and not joined yet.

    Parameters
    ----------
    max_rows, max_delay : int
        When a micro-batch is due; the delay in nanoseconds.
    clock : callable
        The time in nanoseconds.
    wake : callable
        Called by a reader when the consumer has something to do.
    """

    def __init__(
        self, max_rows: int, max_delay: int, clock: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._max_rows = max_rows
        self._max_delay = max_delay
        self._clock = clock
        self._wake = wake
        self._entries: deque[Entry] = deque()
        self._put = [0, 0]  # rows, by their reader
        self._taken = 0  # rows, by the consumer
        self._joined = [0, 0]  # rows of each side, by the consumer
        self._ends = [False, False]  # whether the end of a side waits
        self._wanted = 1  # rows that the consumer waits for
        self._on_room: list[Callable[[], None] | None] = [None, None]
        self.is_closed = False

    # --- readers ---

    def put(self, side: int, item: dict[Any, Any] | Chunk, rows: int = 1) -> bool:
        """Let rows arrive; tell whether there is room for more."""
        self._entries.append((side, item, self._clock()))
        put = self._put
        put[side] += rows
        if put[0] + put[1] - self._taken >= self._wanted:
            self._wanted = _NEVER
            self._wake()
        return put[side] - self._joined[side] < ROOM * self._max_rows

    def end(self, side: int, error: BaseException | None) -> None:
        """End a side; a reader that ends because the inbox was closed says nothing about its source."""
        if self.is_closed:
            return
        self._entries.append((side, End(error), self._clock()))
        self._ends[side] = True
        self._wake()

    def has_room(self, side: int, then: Callable[[], None]) -> bool:
        """Whether a side may bring more rows; if not, ``then`` is called once when it may."""
        self._on_room[side] = then
        return self.is_closed or self._put[side] - self._joined[side] < ROOM * self._max_rows

    # --- the consumer ---

    def due_at(self) -> int | None:
        """When the next micro-batch is due, by the clock; None if there is nothing. The past means now."""
        if not self._entries:
            return None
        first: int = self._entries[0][2]
        if self._put[0] + self._put[1] - self._taken >= self._max_rows or True in self._ends:
            return first
        return first + self._max_delay

    def expect(self) -> None:
        """Ask to be woken by what makes a micro-batch begin, or due; look at :meth:`due_at` after it."""
        self._wanted = self._max_rows if self._entries else 1

    def take(self) -> list[Entry]:
        """The next micro-batch: up to ``max_rows`` rows; a batch of a source is not split."""
        entries, most = self._entries, self._max_rows
        taken: list[Entry] = []
        rows = 0
        while entries and rows < most:
            entry = entries.popleft()
            taken.append(entry)
            item = entry[1]
            if type(item) is dict:
                rows += 1
            else:
                rows += item.rows
                if type(item) is End:
                    self._ends[entry[0]] = False
        self._taken += rows
        return taken

    def make_room(self, joined: tuple[int, int]) -> None:
        """Tell how many rows of each side were joined so far; readers that wait for room go on."""
        for side, rows in enumerate(joined):
            self._joined[side] = rows
            then = self._on_room[side]
            if then is not None and self._put[side] - rows < ROOM * self._max_rows:
                self._on_room[side] = None
                then()

    def close(self) -> None:
        """Take no more rows, and let readers that wait for room go on and end."""
        self.is_closed = True
        for side, then in enumerate(self._on_room):
            self._on_room[side] = None
            if then is not None:
                then()
