"""The inbox: rows of both sources in the order of their arrival, and when a micro-batch of them is due.

A micro-batch is due when it has ``max_rows`` rows, when its first row has waited ``max_delay``, or when a
source has ended. Readers append, one consumer takes. A deque is safe for that without a lock, and each
counter has one writer. A reader looks whether to wake the consumer at the first row of a micro-batch, and
then every few rows. Cost: O(1) for a row. At most ``ROOM * max_rows`` rows and a batch of each side wait.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from slidejoin.drive.items import Chunk, End

Entry: TypeAlias = tuple[int, Any, int]  # side; a row (dict), Chunk or End; when it arrived
ROOM = 2  # micro-batches of each side that may wait
_LOOK = 64  # rows of a side between two looks at how many there are


class Taken(NamedTuple):
    """What was taken out of an inbox."""

    entries: list[Entry]
    is_plain: bool  # single rows only


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
        # Each counter has one writer: lists have a reader for each side, the others the consumer.
        self._put = [0, 0]  # rows
        self._put_others = [0, 0]  # entries that are not single rows
        self._put_extra = [0, 0]  # rows in these, less their number
        self._look_at = [_LOOK, _LOOK]  # how many rows of a side were put when it looks next
        self._taken_others = 0
        self._taken_extra = 0
        self._joined = [0, 0]  # rows of each side
        self._ends = [False, False]  # whether the end of a side waits
        self._wants_first = True  # whether the consumer waits for the first row of a micro-batch,
        self._wants_full = False  # or for a full one
        self._on_room: list[Callable[[], None] | None] = [None, None]
        self.is_closed = False

    # --- readers ---

    def put(self, side: int, row: dict[Any, Any]) -> bool:
        """Let a row arrive; tell whether there is room for more."""
        self._entries.append((side, row, self._clock()))
        rows = self._put[side] = self._put[side] + 1
        if self._wants_first or rows >= self._look_at[side]:
            return self._look(side)
        return True

    def put_chunk(self, side: int, chunk: Chunk) -> bool:
        """Let a batch arrive; tell whether there is room for more."""
        self._put_others[side] += 1  # before the entry: see take
        self._put_extra[side] += chunk.rows - 1
        self._entries.append((side, chunk, self._clock()))
        self._put[side] += chunk.rows
        return self._look(side)

    def end(self, side: int, error: BaseException | None) -> None:
        """End a side; a reader that ends because the inbox was closed says nothing about its source."""
        if self.is_closed:
            return
        self._put_others[side] += 1
        self._put_extra[side] -= 1
        self._entries.append((side, End(error), self._clock()))
        self._ends[side] = True
        self._wake()

    def _look(self, side: int) -> bool:
        if self._wants_first or (self._wants_full and self._rows() >= self._max_rows):
            self._wants_first = self._wants_full = False
            self._wake()
        room = ROOM * self._max_rows - self._put[side] + self._joined[side]
        self._look_at[side] = self._put[side] + max(min(_LOOK, room, self._max_rows - self._rows()), 1)
        return room > 0

    def _rows(self) -> int:
        return len(self._entries) + sum(self._put_extra) - self._taken_extra

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
        if self._rows() >= self._max_rows or True in self._ends:
            return first
        return first + self._max_delay

    def expect(self) -> None:
        """Ask to be woken by what makes a micro-batch begin, or due; look at :meth:`due_at` after it."""
        self._wants_full = True
        self._wants_first = not self._entries

    def take(self) -> Taken:
        """The next micro-batch: up to ``max_rows`` rows; a batch of a source is not split."""
        entries, most = self._entries, self._max_rows
        count = min(len(entries), most)
        if sum(self._put_others) == self._taken_others:  # so these are single rows; later ones need not be
            return Taken([entries.popleft() for _ in range(count)], True)
        taken: list[Entry] = []
        rows = 0
        while entries and rows < most:
            entry = entries.popleft()
            taken.append(entry)
            item = entry[1]
            if type(item) is dict:
                rows += 1
                continue
            rows += item.rows
            self._taken_others += 1
            self._taken_extra += item.rows - 1
            if type(item) is End:
                self._ends[entry[0]] = False
        return Taken(taken, False)

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
