"""The performance model against what is measured. Each part has a file of its own, ``model_*.py``."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from time import perf_counter

from benchmarks import machine, model_indexed, model_nested, model_plan
from benchmarks.measure import MIN_ROUNDS
from benchmarks.report import Report, Result, Target, measured
from slidejoin.calibration import calibrate
from slidejoin.cores import usable_cores
from slidejoin.model import JoinModel
from slidejoin.model.rates import trace
from slidejoin.window import within

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured, in each part."""

    nested: model_nested.Sizes = field(default_factory=model_nested.Sizes)
    indexed: model_indexed.Sizes = field(default_factory=model_indexed.Sizes)
    plan: model_plan.Sizes = field(default_factory=model_plan.Sizes)
    calibration_seconds: float = 50


QUICK = Sizes(
    nested=model_nested.QUICK, indexed=model_indexed.QUICK, plan=model_plan.QUICK, calibration_seconds=0.1
)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = machine.describe(None)
    results, figures = model_nested.measure(sizes.nested, say)
    say("calibration of the indexes")
    costs = calibrate(sizes.calibration_seconds)
    indexed, boxes = model_indexed.measure(sizes.indexed, costs, say)
    results += indexed
    results += model_plan.lines(sizes.plan, costs, usable_cores(), say)
    results.append(model_time())
    return Report("model", quick, machine.finished(where), asdict(sizes), results, {**figures, **boxes})


def model_time() -> Result:
    """How long the model itself takes: the paper's five parts of five minutes, 3 and 2 streams, 3 units."""
    left, right = trace("ABCDE", 300)
    samples = []
    for _ in range(MIN_ROUNDS):
        model = JoinModel(
            within("60s"),
            alpha=1e-9,
            beta=4e-8,
            selectivity=0.01,
            deterministic=True,
            left_streams=3,
            right_streams=2,
            units=3,
        )
        began = perf_counter()
        model.run(left, right)
        samples.append(perf_counter() - began)
    return measured(
        f"JoinModel.run, {len(left):,} intervals, 3+2 streams, 3 units", samples, "s", Target("<", 1)
    )
