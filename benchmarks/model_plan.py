"""The planner's choice against the best of all indexes, on workloads that it was not calibrated on.

Each workload is drawn by a seed: a window, a match rate, a batch size, a distribution of keys. The planner is
told the first three and chooses an index; then every index that can be worth it joins the same arrivals by
turns.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from time import perf_counter

import numpy as np

from benchmarks.measure import alternate
from benchmarks.report import Result, Target, measured
from benchmarks.workload import Feed, Gaussian, Workload, power
from slidejoin.model import Costs
from slidejoin.plan import plan_join
from slidejoin.window import rows

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    workloads: int = 36
    least_window: int = 2**11
    most_window: int = 2**20
    seconds: float = 0.05  # of one run
    rounds: int = 3
    most_pairs: int = 2**22  # of one push
    nested_window: int = 2**12  # the largest window that the nested loop is measured in


QUICK = Sizes(workloads=3, most_window=2**12, seconds=0.002, rounds=1)


@dataclass(frozen=True)
class Case:
    """A workload of the comparison."""

    workload: Workload
    batch: int
    workers: int

    def __str__(self) -> str:
        kind = "uniform" if type(self.workload) is Workload else "drifting Gaussian"
        return (
            f"w={power(self.workload.window)}, {self.workload.matches:.3g} matches, batches of {self.batch}, "
            f"{kind} keys" + (f", {self.workers} workers" if self.workers > 1 else "")
        )


def cases(sizes: Sizes, workers: int, seed: int = 20240601) -> Iterator[Case]:
    """Draw the workloads: sizes evenly on a logarithmic scale."""
    draw = np.random.default_rng(seed)
    for number in range(sizes.workloads):
        exponent = draw.uniform(np.log2(sizes.least_window), np.log2(sizes.most_window))
        window = int(2**exponent)
        batch = int(2 ** draw.uniform(0, 16))
        most = min(512, window / 8, sizes.most_pairs / batch)
        matches = float(2 ** draw.uniform(-1, np.log2(max(most, 1))))
        workload: Workload = Workload(window, matches, seed=number + 1)
        if number % 3 == 2:
            workload = Gaussian(window, matches, seed=number + 1, drift=float(draw.choice([0.0, 0.4])))
        yield Case(workload, batch, workers if number % 4 == 3 and batch >= 2048 else 1)


def lines(sizes: Sizes, costs: Costs, workers: int, say: Say) -> Iterable[Result]:
    """The planner's throughput as a share of the best: the mean, the least, and a line for each workload."""
    shares = []
    details = []
    for number, case in enumerate(cases(sizes, workers)):
        say(f"planner: workload {number + 1} of {sizes.workloads}: {case}")
        chosen = choice(case, costs)
        seconds = race(case, candidates(case, costs, sizes), sizes, costs)
        best = min(seconds, key=lambda name: seconds[name])
        shares.append(seconds[best] / seconds[chosen])
        details.append(
            measured(f"chosen / best, {case}", [shares[-1]], "x", note=f"chose {chosen}, best is {best}")
        )
    what = f"planner's choice / best index, {len(shares)} workloads"
    yield measured(f"{what}, mean", [fmean(shares)], "x", Target(">=", 0.9))
    yield measured(f"{what}, least", [min(shares)], "x", Target(">=", 0.7))
    yield from details


def choice(case: Case, costs: Costs) -> str:
    """The index that the planner takes."""
    plan = plan_join(
        rows(case.workload.window), 1.0, matches=case.workload.matches, batch=case.batch,
        workers=case.workers, rows=False, latency="100000h", headroom=1.0, costs=costs,
    )  # fmt: skip
    assert plan.index is not None
    return plan.index


def candidates(case: Case, costs: Costs, sizes: Sizes) -> list[str]:
    """Indexes that are measured: all but the nested loop in a large window."""
    small = case.workload.window <= sizes.nested_window
    return [name for name in costs.indexes if small or name != "nested-loop"]


def race(case: Case, names: list[str], sizes: Sizes, costs: Costs) -> dict[str, float]:
    """Seconds of an arrival with every index, the median of runs that take turns."""
    runners = {name: _Runner(case, name, sizes.seconds, costs) for name in names}
    samples = alternate({name: runner.run for name, runner in runners.items()}, sizes.rounds)
    return {name: median(each) for name, each in samples.items()}


class _Runner:
    """A join with full windows that goes on with its streams; a run lasts about as long as it is told."""

    def __init__(self, case: Case, index: str, seconds: float, costs: Costs) -> None:
        workload, batch, workers = case.workload, case.batch, case.workers
        arrival = costs.arrival(
            index, window=workload.window, matches=workload.matches, batch=batch, workers=workers
        )
        self._tuples = batch * max(1, round(seconds / arrival.total / batch))
        self._feed = Feed(workload, batch, index, workers=workers)

    def run(self) -> float:
        """Seconds of an arrival."""
        pushes = self._feed.next_pushes(self._tuples)
        began = perf_counter()
        for sides, keys in pushes:
            self._feed.join.push(sides, keys)
        return (perf_counter() - began) / self._tuples
