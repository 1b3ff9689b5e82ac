"""The performance model against what is measured. Each part has a file of its own, ``model_*.py``."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from benchmarks import machine, model_nested
from benchmarks.report import Report

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured, in each part."""

    nested: model_nested.Sizes = field(default_factory=model_nested.Sizes)


QUICK = Sizes(nested=model_nested.QUICK)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = machine.describe(None)
    results, figures = model_nested.measure(sizes.nested, say)
    return Report("model", quick, machine.finished(where), asdict(sizes), results, figures)
