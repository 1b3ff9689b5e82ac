"""What a benchmark found, as a table and as JSON.

The JSON has one shape for all benchmarks and keeps it::

    {"benchmark": name, "quick": false, "machine": {...}, "parameters": {...},
     "results": [{"what", "value", "unit", "target", "ok", "spread", "samples", "note"}, ...]}

``value`` is the median of ``samples``; ``target`` is a text such as ">= 1.4" and ``ok`` whether
the value meets it, both null for information; ``spread`` is the distance of the quartiles of the
samples as a share of the median. A value that could not be measured is null and ``note`` says why.
``quick`` marks a smoke run, whose figures mean nothing.
"""

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.measure import spread

# What draws each figure into a file, by the name of the file.
Figures: TypeAlias = Mapping[str, Callable[[Path], None]]


@dataclass(frozen=True)
class Target:
    """What a value must reach."""

    comparison: Literal[">=", "<", "<="]
    limit: float

    def met(self, value: float) -> bool:
        """Tell whether the value reaches it."""
        compare = {">=": operator.ge, "<": operator.lt, "<=": operator.le}[self.comparison]
        return bool(compare(value, self.limit))

    def __str__(self) -> str:
        return f"{self.comparison} {self.limit:g}"


@dataclass(frozen=True)
class Result:
    """One line of a report."""

    what: str
    value: float | None
    unit: str
    target: str | None = None
    ok: bool | None = None
    spread: float | None = None
    samples: list[float] = field(default_factory=list)
    note: str | None = None


def measured(
    what: str,
    samples: list[float],
    unit: str,
    target: Target | None = None,
    note: str | None = None,
) -> Result:
    """Hold the median of some samples against the target."""
    value = median(samples)
    return Result(
        what=what,
        value=value,
        unit=unit,
        target=str(target) if target else None,
        ok=target.met(value) if target else None,
        spread=spread(samples),
        samples=samples,
        note=note,
    )


def missing(what: str, unit: str, target: Target | None, note: str) -> Result:
    """Stand in for what could not be measured here; the note says how to mend that."""
    return Result(what, None, unit, str(target) if target else None, note=note)


@dataclass(frozen=True)
class Report:
    """All that one run of a benchmark found."""

    benchmark: str
    quick: bool
    machine: dict[str, Any]
    parameters: dict[str, Any]
    results: list[Result]
    figures: Figures = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the report as JSON text, without its figures."""
        facts = asdict(replace(self, figures={}))
        del facts["figures"]
        return json.dumps(facts, indent=1) + "\n"

    def draw(self, folder: Path) -> list[Path]:
        """Write the figures to a folder, and return their files."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in self.figures.items():
            draw(folder / name)
        return [folder / name for name in self.figures]

    def write(self, path: Path) -> None:
        """Write the JSON to a file, with the folders it needs."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), encoding="utf-8")

    def print(self, console: Console) -> None:
        """Print the table, the notes and the machine."""
        label = " (quick: a smoke run, its figures mean nothing)" if self.quick else ""
        table = Table(title=f"{self.benchmark}{label}", title_justify="left")
        table.add_column("what")
        for heading in ("value", "spread", "target"):
            table.add_column(heading, justify="right")
        table.add_column("")
        for result in self.results:
            table.add_row(
                escape(result.what),
                "-" if result.value is None else f"{result.value:.3g} {result.unit}",
                "" if result.spread is None else f"{result.spread:.0%}",
                result.target or "",
                "" if self.quick else {True: "ok", False: "missed", None: ""}[result.ok],
            )
        console.print(table)
        for note in dict.fromkeys(result.note for result in self.results if result.note):
            console.print(note, markup=False)
        facts = self.machine
        console.print(
            f"{facts['cpu']}, {facts['cores']} cores, {facts['instruction_set']}; "
            f"load {facts['load_before']} before, {facts['load_after']} after",
            markup=False,
        )
        if not self.quick:
            claims = [result for result in self.results if result.target]
            console.print(f"{sum(bool(claim.ok) for claim in claims)} of {len(claims)} targets met")
