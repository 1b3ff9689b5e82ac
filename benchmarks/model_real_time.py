"""Whether the logical clock tells the truth: the same schedules on the wall's clock.

At the rates of the paper a core waits for 3 ms between two tuples, in which others on the machine may empty
its caches. On the logical clock the next tuple follows at once. At a rate near saturation there is no such
difference. Windows are filled on the logical clock.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.model_replay import Comparison, rounded
from benchmarks.model_saturation import predicted
from benchmarks.model_schedule import Sources
from benchmarks.report import Result, measured

Say = Callable[[str], None]


@dataclass(frozen=True)
class RealTime:
    """How much is measured."""

    seconds: int = 4  # of the wall's clock
    rounds: int = 3
    load: float = 0.7  # of the rate at which the model says that the join is saturated


def real_time(time: Comparison, tuples: Comparison, start: int, how: RealTime, say: Say) -> Iterator[Result]:
    """From second ``start`` of a time window at the paper's rates, and in a tuple window under load."""
    left, right = (rates[: start + how.seconds] for rates in time.rates)
    slow = replace(time, rates=(left, right), since=start, runs=[])
    yield from _compared(slow, f"{time.window_name} window", how, say)
    rate = how.load * predicted(tuples.window, tuples.costs)
    rates = np.full(1 + how.seconds, np.ceil(rate))
    in_turn = replace(tuples.experiment, sources=Sources(1, 1, (0.0, 0.5 / rate)))
    busy = replace(tuples, experiment=in_turn, rates=(rates, rates), since=1, runs=[])
    yield from _compared(busy, f"{how.load:.0%} of saturation, {tuples.window_name} window", how, say)


def _compared(logical: Comparison, name: str, how: RealTime, say: Say) -> Iterator[Result]:
    real = replace(logical, experiment=replace(logical.experiment, name=f"real time, {name}"), runs=[])
    with logical.start() as one, real.start(real=real.since) as other:
        for turn in range(how.rounds):
            say(f"real time, {name}, round {turn + 1} of {how.rounds}")
            logical.add(one.run())
            real.add(other.run())
    yield measured(f"latency, real time, {name}, error of the model", real.errors("latency"), "%")
    ratio = (real.latency() / logical.latency())[real.since :]
    yield measured(f"latency, real time / logical clock, {name}", rounded(ratio), "x")
