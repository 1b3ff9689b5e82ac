"""The performance model against what is measured. Each part has a file of its own, ``model_*.py``."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from benchmarks import machine, model_indexed, model_nested, model_plan
from benchmarks.report import Report
from slidejoin.calibration import calibrate
from slidejoin.cores import usable_cores

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
    return Report("model", quick, machine.finished(where), asdict(sizes), results, {**figures, **boxes})
