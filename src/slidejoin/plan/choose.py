"""Which setting is taken, and which limit the load would reach first if it grew.

Of the settings that hold all targets at the hardest interval, the one with the fewest cores is taken; of
those the one with the smallest batch, so that rows wait least; of those the cheapest. Where none holds all
targets, the one that misses the fewest is taken, and of those the one that comes closest.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slidejoin.model.costs import Costs
from slidejoin.plan.predict import Prediction, Setting
from slidejoin.plan.workload import Load, Workload

MOST_GROWTH = 2.0**40  # of rates; a limit that is farther away is not reported


@dataclass(frozen=True)
class Targets:
    """What a plan must hold.

    Attributes
    ----------
    latency : float
        The most seconds that one row in a hundred may exceed.
    memory : float
        The most bytes; infinite where there is no limit.
    headroom : float
        How many times the load the join must bear.
    """

    latency: float
    memory: float
    headroom: float

    def margins(self, worst: Prediction) -> dict[str, float]:
        """How many times each target is held; below 1 it is missed."""
        return {
            "processor": 1 / (worst.utilisation * self.headroom) if worst.utilisation else math.inf,
            "latency": self.latency / worst.latency.p99 if worst.latency.p99 else math.inf,
            "memory": self.memory / worst.memory if worst.memory else math.inf,
        }


@dataclass(frozen=True)
class Candidate:
    """A setting with what it does in the hardest interval."""

    setting: Setting
    worst: Prediction
    margins: dict[str, float]

    @property
    def holds(self) -> bool:
        """Whether all targets are held."""
        return min(self.margins.values()) >= 1


def judge(
    settings: Iterable[Setting], loads: Sequence[Load], costs: Costs, row_bytes: int, targets: Targets
) -> list[Candidate]:
    """Every setting with what it would do, in the order in which they are preferred."""
    candidates = []
    for setting in settings:
        worst = worst_of([setting.predict(load, costs, row_bytes) for load in loads])
        candidates.append(Candidate(setting, worst, targets.margins(worst)))
    return sorted(candidates, key=_preference)


def worst_of(predictions: Sequence[Prediction]) -> Prediction:
    """The most of everything over several loads; the latency of the load that has the longest."""
    return Prediction(
        max(prediction.utilisation for prediction in predictions),
        min(prediction.capacity for prediction in predictions),
        max((prediction.latency for prediction in predictions), key=lambda latency: latency.p99),
        max(prediction.memory for prediction in predictions),
    )


def _preference(candidate: Candidate) -> tuple[float, ...]:
    worst = candidate.worst
    usual = (candidate.setting.processors, worst.latency.collect, worst.utilisation)
    if candidate.holds:
        return (0, 0, *usual)
    if worst.utilisation >= 1:  # falls behind, which is worse than all else
        return (2, worst.utilisation)
    # By how many targets are missed, and by how much the one that is missed by most, in steps of a fifth.
    missed = sum(margin < 1 for margin in candidate.margins.values())
    return (1, missed, -round(4 * math.log2(min(candidate.margins.values()))), *usual)


def breaking_factor(
    workload: Workload, breaks: Callable[[list[Load]], bool], precision: float = 1.0001
) -> float:
    """How many times the rates may grow until something breaks: infinite where it never does.

    Where it is broken already, how many times the rates it would not be, and 0 if at no rate.

    Examples
    --------
    >>> import numpy as np
    >>> import slidejoin as sj
    >>> steady = Workload(sj.rows(10), np.array([3.0]), np.array([1.0]), 0.5)
    >>> round(breaking_factor(steady, lambda loads: loads[0].rate > 10), 3)
    2.5
    """
    low, high = 1.0, 1.0
    if breaks(workload.hardest()):
        while breaks(workload.scaled(low).hardest()):
            low /= 2
            if low < 1 / MOST_GROWTH:
                return 0.0
        high = low * 2
    else:
        while not breaks(workload.scaled(high).hardest()):
            high *= 2
            if high > MOST_GROWTH:
                return math.inf
        low = high / 2
    while high / low > precision:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if breaks(workload.scaled(middle).hardest()) else (middle, high)
    return low
