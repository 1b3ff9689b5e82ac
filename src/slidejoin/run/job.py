"""A run: what it joins, and the summary at its end."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from slidejoin.errors import SpecError
from slidejoin.run.files import Input, open_input
from slidejoin.run.text import parse_condition, parse_window
from slidejoin.spec import JoinSpec, join_spec


@dataclass(frozen=True)
class Job:
    """Two inputs, a join, and a directory for its result."""

    left: Input
    right: Input
    spec: JoinSpec
    output: Path
    overwrite: bool = False


@dataclass(frozen=True)
class Summary:
    """The figures of a finished run; None for those that an engine does not know."""

    engine: str
    left_rows: int | None
    right_rows: int | None
    result_rows: int
    files: int
    seconds: float
    output: Path
    late_rows: int | None = None
    notes: list[str] = field(default_factory=list)

    def print(self, console: Console) -> None:
        """Print the table, and notes below it."""
        table = Table("slidejoin run", self.engine, show_header=True)
        table.columns[1].justify = "right"
        known = [rows for rows in (self.left_rows, self.right_rows) if rows is not None]
        figures = [
            ("left rows", self.left_rows),
            ("right rows", self.right_rows),
            ("result rows", self.result_rows),
            ("late rows", self.late_rows),
        ]
        for what, number in figures:
            if number is not None:
                table.add_row(what, f"{number:,}")
        table.add_row("seconds", f"{self.seconds:.2f}")
        if len(known) == 2:
            table.add_row("rows per second", f"{sum(known) / max(self.seconds, 1e-9):,.0f}")
        table.add_row("files", f"{self.files:,}")
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False, markup=False, soft_wrap=True)
        console.print(f"result in {self.output}", highlight=False, markup=False, soft_wrap=True)


def make_job(
    left: str,
    right: str,
    *,
    on: str,
    window: str,
    output: Path,
    how: str = "inner",
    suffixes: tuple[str, str] = ("", "_right"),
    format_: str | None = None,
    overwrite: bool = False,
) -> Job:
    """Parse the texts, find the files, and check what can be checked without reading rows."""
    spec = join_spec(parse_condition(on), parse_window(window), how, suffixes=suffixes)
    if spec.window.returns_late:
        raise SpecError("slidejoin run counts late rows and does not return them; leave late='return' out")
    times = spec.time or (None, None)
    sides = [open_input(path, format_, time) for path, time in zip((left, right), times, strict=True)]
    return Job(sides[0], sides[1], spec, output, overwrite)
