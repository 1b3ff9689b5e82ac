"""A bell: one thread waits for it, any thread or signal handler rings it.

``threading.Event`` takes a lock in Python code. An interrupt within it leaves the lock in a wrong state, and
a signal handler that sets the event can wait for ever for the lock of the code that it interrupted. Here
every step is one call of a lock in C, which an interrupt comes before or after.
"""

import threading
from contextlib import suppress


class Bell:
    """What wakes a thread.

    Examples
    --------
    >>> bell = Bell()
    >>> bell.ring()
    >>> bell.ring()
    >>> bell.wait(0.0), bell.wait(0.0)
    (True, False)
    """

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake the thread that waits, or the next one that does."""
        with suppress(RuntimeError):  # it rings already
            self._silent.release()

    def silence(self) -> None:
        """Forget that it was rung."""
        self._silent.acquire(blocking=False)

    def wait(self, seconds: float | None) -> bool:
        """Wait until it is rung, for so long at most; tell whether it was. It is silent then."""
        return self._silent.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))
