"""How far a source was read and joined: a count of rows, or the offsets that it told."""

from collections import deque
from typing import Any

from slidejoin.drive.items import UNMARKED
from slidejoin.errors import UsageError


class Progress:
    """How far one source is.

    Parameters
    ----------
    name : str
        What errors call the source.
    offset : object
        Where it begins; a number of rows unless the source tells offsets.
    marked : bool, optional
        Whether it tells offsets, where that is known.
    """

    def __init__(self, name: str, offset: Any = 0, marked: bool | None = None) -> None:
        self._name = name
        self._first = offset  # of this run
        self.marked = marked
        self.is_ended = False
        self.read_rows = 0
        self.joined_rows = 0
        self._marks: deque[tuple[int, Any]] = deque()  # offsets, and how many rows were read up to each
        self._offset = offset  # the last one that was told and joined

    def waits(self, rows: int, offset: Any) -> None:
        """Rows up to an offset were read before this run began, and wait."""
        self.read_rows += rows
        if self.marked:
            self._marks.append((self.read_rows, offset))

    def read(self, rows: int, offset: Any = UNMARKED) -> None:
        """Rows were read; a chunk that told no offset is counted."""
        marked = offset is not UNMARKED
        if self.marked not in (None, marked):
            raise UsageError(
                f"{self._name} told offsets for some of its batches; it must yield Batch(rows, offset) "
                "always or never"
            )
        self.marked = marked
        self.read_rows += rows
        if marked:
            self._marks.append((self.read_rows, offset))

    def joined(self, rows: int) -> None:
        """So many rows were joined, the first ones of those that were read. Can be told twice."""
        self.joined_rows = rows
        while self._marks and self._marks[0][0] <= self.joined_rows:
            self._offset = self._marks[0][1]
            self._marks.popleft()

    @property
    def offset(self) -> Any:
        """Where to go on after the rows that were joined; a batch with an offset counts as a whole."""
        return self._offset if self.marked else self._first + self.joined_rows

    @property
    def read_offset(self) -> Any:
        """Where to go on after the rows that were read."""
        if not self.marked:
            return self._first + self.read_rows
        return self._marks[-1][1] if self._marks else self._offset
