"""NumericJoins against each other whose workers share the work in different ways.

A strategy, or an index in it, may be missing from a build, which then uses another one. Such a join takes no
part, and a line that needs it says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.indexes import contenders_of
from benchmarks.measure import alternate, rates, ratios
from benchmarks.report import Result, Target, measured, missing
from benchmarks.workload import Workload
from slidejoin.index import parse_strategy
from slidejoin.numeric import NumericJoin


@dataclass(frozen=True)
class Entrant:
    """A join, and the workers that share it."""

    workload: Workload
    index: str = "auto"
    strategy: str = "auto"
    workers: int = 1
    group: int | None = None
    self_join: bool = False

    def join(self) -> NumericJoin:
        """The join, with full windows."""
        return self.workload.join(
            self.index, self.group, workers=self.workers, strategy=self.strategy, self_join=self.self_join
        )

    def absence(self) -> str | None:
        """Why this join takes no part, if so."""
        wanted = parse_strategy(self.strategy)[0]
        join = NumericJoin(
            self.workload.window,
            0,
            0,
            np.int32,
            self.index,
            self.workers,
            self.self_join,
            strategy=self.strategy,
        )
        if wanted in ("auto", join.strategy):
            return None
        return f"this build has no strategy {wanted} for {self.index}: it uses {join.strategy}"


@dataclass(frozen=True)
class Finish:
    """What a race found, by the names of those who entered it."""

    seconds: dict[str, list[float]]
    absent: dict[str, str]
    tuples: int

    def ratio(self, what: str, one: str, other: str, target: Target | None = None) -> Result:
        """A line: how many times as fast one is as another."""
        for name in (one, other):
            if name in self.absent:
                return missing(what, "x", target, self.absent[name])
        return measured(what, ratios(self.seconds[other], self.seconds[one]), "x", target)

    def best(self, names: Iterable[str]) -> str:
        """The fastest of these."""
        return min(
            (name for name in names if name in self.seconds), key=lambda name: median(self.seconds[name])
        )

    def rates(self, shape: str) -> Iterable[Result]:
        """A line for the rate of each."""
        for name in self.seconds:
            yield measured(f"{name}, {shape}", rates(self.seconds[name], self.tuples), "M tuples/s")
        for name, why in self.absent.items():
            yield missing(f"{name}, {shape}", "M tuples/s", None, why)


def race(entrants: Mapping[str, Entrant], tuples: int, push: int, rounds: int) -> Finish:
    """Let joins take turns. Those that join the same arrivals must find the same pairs."""
    absent = {name: why for name, each in entrants.items() if (why := each.absence())}
    streams: dict[tuple[Workload, bool], dict[str, NumericJoin]] = {}
    for name, each in entrants.items():
        if name not in absent:
            streams.setdefault((each.workload, each.self_join), {})[name] = each.join()
    turns = {
        name: turn
        for (workload, _), joins in streams.items()
        for name, turn in contenders_of(joins, workload, tuples, push).items()
    }
    turns = {name: turns[name] for name in entrants if name in turns}
    return Finish(alternate(turns, rounds) if turns else {}, absent, tuples)
