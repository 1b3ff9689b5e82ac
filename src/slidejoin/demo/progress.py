"""Live progress of a run over rows: a bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class RowProgress:
    """Shows rows, rows per second and matches.

    Parameters
    ----------
    console : Console
        Where to; decides between bar and lines.
    rows : int
        Rows that are to come.
    every : float
        Seconds between two plain lines.
    clock : function
        Seconds, for the rate.
    """

    def __init__(
        self,
        console: Console,
        rows: int,
        every: float = 2.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._console = console
        self._rows = rows
        self._every = every
        self._clock = clock
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self._bar.add_task("", total=rows, text="")
        self._begin = self._last = clock()

    def __enter__(self) -> Self:
        self._bar.start()
        self._begin = self._last = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, rows: int, matches: int) -> None:
        """Tell how far the run is; shown only now and then, otherwise a microsecond."""
        now = self._clock()
        pause = 0.1 if self._console.is_terminal else self._every
        if now - self._last < pause and rows < self._rows:
            return
        self._last = now
        rate = rows / max(now - self._begin, 1e-9)
        text = f"{rows:,} rows  {rate / 1e6:.2f} M rows/s  {matches:,} matches"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=rows, text=text)
        else:
            self._console.print(text, highlight=False, soft_wrap=True)
