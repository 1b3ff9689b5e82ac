"""Logging: what a join reports to the logger ``slidejoin``.

Late rows and slow pushes are warnings; a change of the index under ``index="auto"`` is information. A warning
comes at the first event of its kind, and then at most every ``EVERY`` nanoseconds, with the count since.
Cost: two comparisons for a push without an event.
"""

import logging
import time

LOGGER = logging.getLogger("slidejoin")
EVERY = 10 * 10**9  # nanoseconds between two warnings of one kind
SLOW = 10**9  # nanoseconds from which on a push is slow
LOOK = 10**9  # nanoseconds between two looks at the index


class JoinLog:
    """The messages of one join.

    Parameters
    ----------
    join : object
        Its text names the join in messages.
    """

    def __init__(self, join: object) -> None:
        self._join = join
        self._late, self._slow = _Counter(), _Counter()
        self._changes = 0  # of the index
        self.next_look = 0  # at the index, by the clock

    def late(self, rows: int) -> None:
        """Report late rows."""
        if count := self._late.due(rows, time.monotonic_ns()):
            LOGGER.warning(
                "%d late row%s in the join %s; a larger lateness of the window would accept them",
                count, "s" * (count > 1), self._join,
            )  # fmt: skip

    def pushed(self, rows: int, nanoseconds: int, now: int, index: tuple[str, str, int]) -> None:
        """Report a push if it was slow, and the index (name, reason, number of changes) if it has changed."""
        self.next_look = now + LOOK
        if index[2] != self._changes:
            self._changes = index[2]
            LOGGER.info("index %s in the join %s: %s", index[0], self._join, index[1])
        if nanoseconds >= SLOW and (count := self._slow.due(1, now)):
            LOGGER.warning(
                "a push of %d rows took %.1f s in the join %s; %d slow push%s since the last message",
                rows, nanoseconds / 1e9, self._join, count, "es" * (count > 1),
            )  # fmt: skip


class _Counter:
    """Counts events until a message about them is due."""

    def __init__(self) -> None:
        self._count = 0
        self._next: int | None = None

    def due(self, events: int, now: int) -> int:
        """Count events; return the count since the last message if one is due now, else 0."""
        self._count += events
        if self._next is not None and now < self._next:
            return 0
        count, self._count, self._next = self._count, 0, now + EVERY
        return count
