"""Live progress of a run over rows: a bar on a terminal, otherwise a line every few seconds."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class RowProgress:
    """Shows rows, rows per second and matches: from time to time, and the last ones.

    Parameters
    ----------
    console : Console
        Where to print; a terminal gets a bar.
    rows : int, optional
        Number of rows in all, if known: then the time that is left is shown, too.
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
        self._every = every
        self._clock = clock
        self._rows = rows
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self._bar.add_task("", total=rows, text="")
        self._begin = self._last = clock()
        self._pending: tuple[int, int] | None = None  # rows and matches that were not shown yet

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
        if kind is None and self._pending is not None:
            self._rows = self._pending[0]  # what was expected may have been an estimate
            self._bar.update(self._task, total=self._rows)
            self._show_pending(self._clock())
        self._bar.stop()

    def update(self, rows: int, matches: int) -> None:
        """Show the progress if the last time is long enough ago, else later. Cost then: a microsecond."""
        now = self._clock()
        self._pending = (rows, matches)
        if now - self._last >= (0.1 if self._console.is_terminal else self._every):
            self._show_pending(now)

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

    def _show_pending(self, now: float) -> None:
        assert self._pending is not None
        rows, matches = self._pending
        left = "" if self._console.is_terminal else self._time_left(rows, now)
        self.show(self._totals(rows, matches, now) + left, rows)
        self._last, self._pending = now, None

    def _totals(self, rows: int, matches: int, now: float) -> str:
        rate = rows / max(now - self._begin, 1e-9)
        return f"{rows:,} rows  {rate / 1e6:.2f} M rows/s  {matches:,} matches"

    def _time_left(self, rows: int, now: float) -> str:
        if self._rows is None or not 0 < rows < self._rows:
            return ""
        seconds = (now - self._begin) * (self._rows - rows) / rows
        return f"  {rows / self._rows:.0%}, {seconds:,.0f} s left"

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
