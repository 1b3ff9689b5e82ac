"""Live progress of a run over rows: a bar on a terminal, otherwise a line every few seconds."""

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
        Where to print; a terminal gets a bar.
    rows : int, optional
        Number of rows in all, if known.
    every : float
        Seconds between two plain lines.
    clock : function
        Seconds, for the rate.
    """

    def __init__(
        self,
        console: Console,
        rows: int | None,
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
        self._shown = -1  # rows that were shown last

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
        """Show the progress, if the last time is long enough ago. Cost otherwise: a microsecond."""
        now = self._clock()
        pause = 0.1 if self._console.is_terminal else self._every
        is_last = rows == self._rows and rows != self._shown
        if now - self._last < pause and not is_last:
            return
        self.show(self._totals(rows, matches, now), rows)
        self._last, self._shown = now, rows

    def note(self, text: str, rows: int, matches: int) -> None:
        """Print a line that stays, and update the bar."""
        self._print(text)
        if self._console.is_terminal:
            self._bar.update(self._task, completed=rows, text=self._totals(rows, matches, self._clock()))

    def show(self, text: str, rows: int = 0) -> None:
        """Show a text and update the bar now."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=rows, text=text)
        else:
            self._print(text)

    def _totals(self, rows: int, matches: int, now: float) -> str:
        rate = rows / max(now - self._begin, 1e-9)
        return f"{rows:,} rows  {rate / 1e6:.2f} M rows/s  {matches:,} matches"

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
