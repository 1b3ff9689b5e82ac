"""One experiment of the model's validation: replayed by ``benchmarks/peers/model_peer.cpp``, and modelled.

Costs are measured by one rule, which is that of the paper's program except for the medians:

- every figure of a second is the median of the repetitions (the paper averages them);
- beta is the time spent on writing output tuples, divided by their number, both over the whole run;
- alpha is the rest of the time in which units are busy, divided by the number of comparisons;
- the selectivity is the number of output tuples, divided by that of comparisons.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

import numpy as np

from benchmarks.model_schedule import Floats, Sources, Tuples, schedule
from benchmarks.peer import BUILD, Program, program
from benchmarks.report import Result, Target, measured
from slidejoin.model import JoinModel
from slidejoin.window import Rows, Within

PARTS = ("waited", "queued", "joined", "merged")  # of an output tuple's latency


@contextmanager
def replay(tuples: Tuples, seconds: int, window: Rows | Within, **options: float) -> Iterator[Program]:
    """Start model_peer with a schedule; each run of the program is one repetition."""
    if isinstance(window, Rows):
        options["rows"] = window.left
    else:
        options["span"] = window.duration / 1e9
    words = [word for name, value in options.items() for word in (f"--{name}", f"{value:.12g}")]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedule"
        tuples.tofile(path)
        command = [str(program("model_peer")), "--schedule", str(path), "--seconds", str(seconds), *words]
        with Program(command, {}, f"{BUILD} to rebuild it") as running:
            yield running


class NestedCosts(TypedDict):
    """Seconds of a comparison and of an output tuple, and output tuples of a comparison."""

    alpha: float
    beta: float
    selectivity: float


@dataclass(frozen=True)
class Experiment:
    """A way to run the join, and the median errors of the model that are allowed, in percent."""

    name: str
    sources: Sources
    deterministic: bool = False
    units: int = 1
    quota: float = 1.0
    latency: float | None = None
    throughput: float | None = None
    paper: str = ""  # its error of the latency


@dataclass
class Comparison:
    """An experiment in one window: figures of each second, measured and by the model."""

    experiment: Experiment
    window_name: str
    window: Rows | Within
    rates: tuple[Floats, Floats]
    since: int = 0  # the first second that counts
    runs: list[dict[str, Floats]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What was run, in words."""
        return f"{self.experiment.name}, {self.window_name} window"

    @property
    def seconds(self) -> int:
        """How long the schedule is."""
        return len(self.rates[0])

    def start(self, **options: float) -> Any:
        """The replay, as a context."""
        tuples = schedule(self.experiment.sources, *self.rates, self.experiment.deterministic)
        options |= {"units": self.experiment.units, "quota": self.experiment.quota}
        return replay(tuples, self.seconds, self.window, **options)

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add a repetition."""
        self.runs.append({name: np.array(values, dtype=np.float64) for name, values in answer.items()})

    @cached_property
    def sums(self) -> dict[str, Floats]:
        """The median of the repetitions, for each second."""
        return {name: np.median([run[name] for run in self.runs], axis=0) for name in self.runs[0]}

    @cached_property
    def costs(self) -> NestedCosts:
        """What the model needs, of this very run."""
        comparisons, outputs, service, emitting = (
            float(self.sums[name][self.since :].sum())
            for name in ("comparisons", "outputs", "service", "emitting")
        )
        return {
            "alpha": (service - emitting) / comparisons,
            "beta": emitting / outputs,
            "selectivity": outputs / comparisons,
        }

    @cached_property
    def model(self) -> Mapping[str, Floats]:
        """What the model says of the same rates, with these costs."""
        sources = self.experiment.sources
        model = JoinModel(
            self.window,
            **self.costs,
            quota=self.experiment.quota,
            units=self.experiment.units,
            deterministic=self.experiment.deterministic,
            left_streams=sources.left,
            right_streams=sources.right,
            left_offsets=sources.offsets[: sources.left],
            right_offsets=sources.offsets[sources.left :],
        )
        return model.run(*self.rates)

    def latency(self, *parts: str) -> Floats:
        """Mean latency of the output tuples of each second, or of some of its parts."""
        total = np.sum([self.sums[part] for part in parts or PARTS], axis=0)
        with np.errstate(invalid="ignore"):
            return np.asarray(total / self.sums["released"])

    def series(self, figure: str) -> tuple[Floats, Floats]:
        """The ``throughput`` or ``latency`` of each second that counts: measured, and by the model."""
        actual = self.sums["comparisons"] if figure == "throughput" else self.latency()
        return actual[self.since :], self.model[figure][self.since :]

    def errors(self, figure: str) -> list[float]:
        """Percentage errors of the seconds in which something was measured."""
        return percentage_errors(*self.series(figure))

    def error_line(self, figure: str, limit: float | None = None, paper: str = "") -> Result:
        """The errors as a line of the report."""
        errors = self.errors(figure)
        low, high = whiskers(errors)
        return measured(
            f"{figure}, {self.name}, error of the model{f' (paper: {paper})' if paper else ''}",
            errors,
            "%",
            None if limit is None else Target("<=", limit),
            f"{figure}, {self.name}: whiskers of the errors at {low:.2g} % and {high:.2g} %",
        )


def percentage_errors(actual: Floats, predicted: Floats) -> list[float]:
    """Absolute errors of a prediction as percentages, where there is something to predict.

    Examples
    --------
    >>> percentage_errors(np.array([2.0, 0.0, np.nan]), np.array([1.0, 1.0, 1.0]))
    [50.0]
    """
    there = np.isfinite(actual) & (actual > 0)
    return rounded(100 * np.abs(predicted[there] - actual[there]) / actual[there])


def rounded(values: Floats) -> list[float]:
    """Finite values with four digits: enough for a report."""
    return [float(f"{value:.4g}") for value in values[np.isfinite(values)]]


def whiskers(values: list[float]) -> tuple[float, float]:
    """The least and the greatest value within 1.5 distances of the quartiles from the quartiles.

    Examples
    --------
    >>> whiskers([1.0, 2.0, 3.0, 4.0, 100.0])
    (1.0, 4.0)
    """
    first, third = np.quantile(values, (0.25, 0.75))
    reach = 1.5 * (third - first)
    inside = [value for value in values if first - reach <= value <= third + reach]
    return min(inside), max(inside)
