"""The highest rate that a join keeps up with: by the model, and by trying rates until the backlog grows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from benchmarks.model_replay import Comparison, NestedCosts, replay
from benchmarks.model_schedule import TUPLE, attributes
from benchmarks.report import Result, Target, measured
from slidejoin.model import JoinModel
from slidejoin.window import Rows, Within, rows, within

Say = Callable[[str], None]

INTERVALS = 4  # of the model in a window


@dataclass(frozen=True)
class Search:
    """How saturation is searched for: windows that fill up fast, and rates around what the model says."""

    tuples: int = 10_000  # once windows are full
    seconds: float = 0.4  # of a time window
    rows: int = 8400  # of a tuple window
    steps: int = 8  # each halves the range of rates on a logarithmic scale
    rounds: int = 3
    attempts: int = 3  # at a rate: whatever else the machine does can only add to a backlog
    reach: float = 2.0  # the range, as a factor of what the model says
    growth: float = 0.01  # a backlog that grows by this share of the time means saturation

    def window(self, like: Rows | Within) -> Rows | Within:
        """The window of the search."""
        return rows(self.rows) if isinstance(like, Rows) else within(f"{round(1e3 * self.seconds)}ms")


def saturation(central: Comparison, search: Search, say: Say) -> Iterator[Result]:
    """Compare both; the model has the costs of the comparison, which was run at other rates."""
    window = search.window(central.window)
    expected = predicted(window, central.costs)
    name = f"{central.window_name} window"
    found = []
    for turn in range(search.rounds):
        say(f"saturation, {name}, round {turn + 1} of {search.rounds}")
        found.append(_bisect(expected, search, lambda rate: _keeps_up(window, rate, search)))
    errors = [100 * abs(expected / rate - 1) for rate in found]
    yield measured(f"saturation rate, {name}, error of the model", errors, "%", Target("<=", 10))
    yield measured(f"saturation rate, {name}, by the model", [expected / 1e3], "K tuples/s a side")
    yield measured(f"saturation rate, {name}", [rate / 1e3 for rate in found], "K tuples/s a side")


def predicted(window: Rows | Within, costs: NestedCosts) -> float:
    """The rate of each side at which the work of an interval fills it, once windows are full.

    Examples
    --------
    Ten tuples to compare with, 1 ms each: 100 tuples a second, 50 of each side.

    >>> round(predicted(rows(10), {"alpha": 1e-3, "beta": 0.0, "selectivity": 0.01}), 6)
    50.0
    """

    def keeps_up(rate: float) -> bool:
        seconds = window.left / rate if isinstance(window, Rows) else window.duration / 1e9
        model = JoinModel(window, interval=seconds / INTERVALS, **costs)
        rates = [rate] * (INTERVALS + 1)
        return bool(model.run(rates, rates)["work"][-1] <= seconds / INTERVALS)

    return _bisect(1e5, Search(steps=60, reach=1e6), keeps_up)


def _bisect(middle: float, search: Search, keeps_up: Callable[[float], bool]) -> float:
    low, high = middle / search.reach, middle * search.reach
    for _ in range(search.steps):
        rate = sqrt(low * high)
        low, high = (rate, high) if keeps_up(rate) else (low, rate)
    return sqrt(low * high)


def _keeps_up(window: Rows | Within, rate: float, search: Search) -> bool:
    """Tell whether the join keeps up with this rate of each side, which take turns."""
    fill = window.left if isinstance(window, Rows) else ceil(rate * window.duration / 1e9)
    tuples = np.zeros(2 * fill + search.tuples, TUPLE)
    tuples["arrival"] = tuples["ready"] = np.arange(len(tuples)) / (2 * rate)
    tuples["side"] = np.arange(len(tuples)) % 2
    attributes(tuples)
    most = search.growth * search.tuples / (2 * rate)
    with replay(tuples, 1, window) as running:
        return any(running.run()["backlog"] <= most for _ in range(search.attempts))
