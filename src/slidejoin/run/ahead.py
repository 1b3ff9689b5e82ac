"""Work that other threads do ahead of, or behind, the thread that joins.

:func:`in_threads` gives results of functions in their order while threads compute the next ones.
:class:`Behind` gives tables to a writer in a thread of its own. Both hold a bounded number of tables, and an
error of a thread is raised where its result is asked for.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue, SimpleQueue
from typing import Generic, Self, TypeVar

from slidejoin.cores import usable_cores

T = TypeVar("T")

_MOST_THREADS = 4


def in_threads(tasks: Iterator[Callable[[], T]], threads: int | None = None) -> Iterator[T]:
    """The results of tasks, in their order; the tasks come from an iterator that a further thread reads.

    Parameters
    ----------
    tasks : iterator of functions
        Its own errors, and those of a function, are raised after the results before them.
    threads : int, optional
        Functions that run at once; as a rule the number of cores, at most 4.

    Notes
    -----
    Memory: the results of twice as many tasks as there are threads.

    Examples
    --------
    >>> list(in_threads(iter([lambda: 1, lambda: 2])))
    [1, 2]
    """
    count = threads or min(usable_cores(), _MOST_THREADS)
    room = threading.Semaphore(2 * count)
    results: SimpleQueue[Future[T] | None] = SimpleQueue()
    is_over = threading.Event()
    pool = ThreadPoolExecutor(count)

    def feed() -> None:
        try:
            while room.acquire() and not is_over.is_set() and (task := next(tasks, None)) is not None:
                results.put(pool.submit(task))
            results.put(None)
        except BaseException as error:
            if not is_over.is_set():  # otherwise the pool takes no more tasks
                failed: Future[T] = Future()
                failed.set_exception(error)
                results.put(failed)

    threading.Thread(target=feed, daemon=True).start()
    try:
        while (future := results.get()) is not None:
            yield future.result()
            room.release()
    finally:
        is_over.set()
        room.release()
        pool.shutdown(wait=False, cancel_futures=True)


class Behind(Generic[T]):
    """Gives values to a function in a thread of its own, in their order.

    Parameters
    ----------
    function : callable
        Gets one value at a time.
    room : int
        Values that may wait; :meth:`put` waits for room.

    Examples
    --------
    >>> seen = []
    >>> with Behind(seen.append) as behind:
    ...     behind.put(1)
    ...     behind.wait()
    >>> seen
    [1]
    """

    def __init__(self, function: Callable[[T], None], room: int = 4) -> None:
        self._function = function
        self._values: Queue[T | None] = Queue(room)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def put(self, value: T) -> None:
        """Hand over a value; raises what the function has raised for an earlier one."""
        self._raise()
        self._values.put(value)

    def wait(self) -> None:
        """Wait until the function has had all values; raises what it has raised."""
        self._values.join()
        self._raise()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._values.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (value := self._values.get()) is not None:
            if self._error is None:
                try:
                    self._function(value)
                except BaseException as error:
                    self._error = error
            self._values.task_done()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
