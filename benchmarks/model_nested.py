"""The model against the running nested loop, in the benchmark of "Performance Modeling of Stream Joins".

R<ts, x, y> and S<ts, a, b, c, d> are joined by a nested loop on a two-dimensional band of ±10 on values from
1 to 200, which one comparison in 100 meets. The rates are those of the paper's Figure 7, shortened, and the
windows hold 60 s and 8400 tuples. The arrivals are replayed tuple by tuple on a logical clock; the model gets
the rates and the costs that were measured in the same run (``model_replay``). The error of a second is the
absolute difference as a share of what was measured. The value of a line is the median over all seconds,
including those in which the windows fill up.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from benchmarks import model_figures
from benchmarks.measure import one_core
from benchmarks.model_real_time import RealTime, real_time
from benchmarks.model_replay import Comparison, Experiment, percentage_errors, rounded
from benchmarks.model_saturation import Search, saturation
from benchmarks.model_schedule import Sources
from benchmarks.peer import BUILD, program
from benchmarks.report import Figures, Result, measured, missing
from slidejoin.model.rates import trace
from slidejoin.window import Rows, Within, rows, within

Say = Callable[[str], None]

ONE = Sources(1, 1, (0.0, 0.0013))
SEVERAL = Sources(3, 2, (0.0, 0.0042, 0.0111, 0.0013, 0.0084))
QUOTA = 0.8  # in overload, of the work of the busiest second
BEHIND = 1e-3  # seconds of latency that are due to a backlog


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    part: int = 96  # seconds of each of the parts A to E; 300 in the paper
    seconds: int = 60  # of a time window
    rows: int = 8400  # of a tuple window
    repetitions: int = 10
    units: int = 3
    real_time: RealTime = field(default_factory=RealTime)
    saturation: Search = field(default_factory=Search)


QUICK = Sizes(
    part=12,
    seconds=4,
    rows=560,
    repetitions=2,
    real_time=RealTime(seconds=1, rounds=1, load=0.01),
    saturation=Search(tuples=400, seconds=0.01, rows=400, steps=2, rounds=1),
)


def experiments(units: int) -> list[Experiment]:
    """Those within the quota."""
    return [
        Experiment("centralised", ONE, latency=6, throughput=1, paper="6 to 7 %"),
        Experiment("deterministic, 1+1 streams", ONE, True, latency=1, paper="< 1 %"),
        Experiment("deterministic, 3+2 streams", SEVERAL, True, latency=5, paper="5 %"),
        Experiment(f"{units} units, 3+2 streams", SEVERAL, True, units, latency=4, paper="3 to 5 %"),
    ]


@dataclass
class Validation:
    """All that was measured: lines of the report, and figures."""

    regular: list[Comparison]
    overload: list[Comparison]
    further: list[Result]

    def lines(self) -> Iterator[Result]:
        """Lines of the report, those with targets first."""
        central = [each for each in self.regular if each.experiment.throughput]
        for each in central:
            yield each.error_line("throughput", each.experiment.throughput, "< 1 %")
        for each in self.regular:
            yield each.error_line("latency", each.experiment.latency, each.experiment.paper)
        yield from self.further
        for each in self.overload:
            yield each.error_line("throughput")
            yield each.error_line("latency", paper="6 %")
            actual, model = each.series("latency")
            behind = np.maximum(actual, model) > BEHIND
            what = f"latency, {each.name}, error of the model in seconds of backlog"
            if behind.any():
                yield measured(what, percentage_errors(actual[behind], model[behind]), "%")
            else:
                yield missing(what, "%", None, f"no second had a backlog of {BEHIND:g} s")
            yield measured(
                f"longest latency of a second, {each.name}", [float(np.nanmax(each.latency()))], "s"
            )
        for each in self.regular:
            yield measured(f"latency, {each.name}", rounded(1e3 * each.latency()), "ms")
        for each in central:
            what = f"latency, matches at the end of a push / as they are found, {each.name}"
            yield measured(what, rounded(each.latency("pushed") / each.latency("joined")), "x")
        for each in self.regular:
            yield measured(f"alpha, {each.name}", [1e9 * each.costs["alpha"]], "ns")
            yield measured(f"beta, {each.name}", [1e9 * each.costs["beta"]], "ns")
            yield measured(f"selectivity, {each.name}", [100 * each.costs["selectivity"]], "%")

    def figures(self) -> Figures:
        """What draws each figure, by its name."""
        return model_figures.figures(self.regular, self.overload)


def validate(sizes: Sizes, say: Say) -> Validation:
    """Measure everything, on one core; ``say`` is told what is under way."""
    windows: dict[str, Rows | Within] = {"time": within(f"{sizes.seconds}s"), "tuple": rows(sizes.rows)}
    rates = trace("ABCDE", sizes.part)
    regular = [
        Comparison(experiment, name, window, rates)
        for experiment in experiments(sizes.units)
        for name, window in windows.items()
    ]
    with one_core():
        _repeat(regular, sizes.repetitions, say)
        central = regular[: len(windows)]
        overload = [_overloaded(each, sizes.part) for each in central]
        _repeat(overload, sizes.repetitions, say)
        further = [line for each in central for line in saturation(each, sizes.saturation, say)]
        further += real_time(central[0], central[1], sizes.part, sizes.real_time, say)
    return Validation(regular, overload, further)


def measure(sizes: Sizes, say: Say) -> tuple[list[Result], Figures]:
    """Lines of the report, and figures; where the program is missing, a line that says how to get it."""
    if program("model_peer") is None:
        return [missing("nested loop, error of the model", "%", None, BUILD)], {}
    validation = validate(sizes, say)
    return list(validation.lines()), validation.figures()


def _repeat(comparisons: list[Comparison], repetitions: int, say: Say) -> None:
    """Run them by turns."""
    with ExitStack() as stack:
        programs = [stack.enter_context(each.start()) for each in comparisons]
        for repetition in range(repetitions):
            for each, running in zip(comparisons, programs, strict=True):
                say(f"{each.name}, repetition {repetition + 1} of {repetitions}")
                each.add(running.run())


def _overloaded(central: Comparison, part: int) -> Comparison:
    """Parts A, B and half of C with a quota that the peaks of part B exceed."""
    costs, (left, right) = central.costs, central.rates
    busiest = float(central.sums["comparisons"][part : 2 * part].max())
    work = busiest * (costs["alpha"] + costs["selectivity"] * costs["beta"])
    return Comparison(
        Experiment("overload", ONE, quota=QUOTA * work),
        central.window_name,
        central.window,
        (left[: 5 * part // 2], right[: 5 * part // 2]),
    )
