"""The figures of the paper, 5 to 14, and further ones beyond it: each by a name and a seed.

"Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster" (Chakraborty, Singh), section VI. A figure
is a function of a :class:`Bench`, which runs simulations, keeps their results and reports progress.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slidejoin.cluster.costs import ClusterCosts
from slidejoin.cluster.load import Floats
from slidejoin.cluster.result import SimulationResult
from slidejoin.cluster.settings import Detail, Settings
from slidejoin.cluster.simulation import simulate
from slidejoin.errors import SpecError, suggestion
from slidejoin.model import Costs

RATES = (500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500, 6000, 6500, 7000)
EPOCHS = (0.25, 0.5, 1, 2, 3, 4, 5, 6)
DEGREES = (1, 2, 3, 4, 5, 6)
KEYS = 10_000_000


@dataclass(frozen=True)
class Panel:
    """One diagram: columns over x."""

    x_label: str
    y_label: str
    x: Floats
    series: dict[str, Floats]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure: its name, what it shows, and its diagrams."""

    name: str
    title: str
    panels: list[Panel]


@dataclass
class Bench:
    """Runs the simulations of figures, each setting once.

    Parameters
    ----------
    seed : int
        Of all simulations.
    detail : str
        ``counts`` takes about a second a simulation, ``tuples`` up to a minute.
    scale : float
        Below 1, windows and simulated time are shorter by this factor: for a quick look.
    progress : function, optional
        Called with what is under way and the share that is done.
    """

    seed: int = 1
    detail: Detail = "counts"
    scale: float = 1.0
    progress: Callable[[str, float], None] | None = None
    _known: dict[Settings, SimulationResult] = field(default_factory=dict)

    def settings(self, **how: Any) -> Settings:
        """The paper's settings with some changed."""
        base = Settings(seed=self.seed, detail=self.detail, keys=KEYS)
        times = {name: getattr(base, name) * self.scale for name in ("seconds", "warmup", "window")}
        return replace(base, **{**times, **how})

    def run(self, what: str, cases: Sequence[Settings]) -> list[SimulationResult]:
        """The results of some settings."""
        found = []
        for number, case in enumerate(cases):
            if case not in self._known:
                self._known[case] = simulate(case, self._part(what, number, len(cases)))
            found.append(self._known[case])
        return found

    def _part(self, what: str, number: int, count: int) -> Callable[[float], None] | None:
        tell = self.progress
        if tell is None:
            return None
        return lambda done: tell(what, (number + done) / count)


def figure(name: str, bench: Bench | None = None) -> Figure:
    """Run the simulations of a figure.

    Parameters
    ----------
    name : str
        ``5`` to ``14`` as in the paper, or one of ``scale``, ``state``, ``failure`` and ``hot-key``.
    bench : Bench, optional
        Seed, detail and progress.

    Examples
    --------
    >>> figure("failure", Bench(scale=0.05)).title
    '10 of 100 nodes fail'
    """
    if name not in FIGURES:
        names = ", ".join(FIGURES)
        raise SpecError(f"figure {name!r}; expected one of {names}{suggestion(name, FIGURES)}")
    return FIGURES[name](bench or Bench())


# --- The paper ---


def _delays_by_nodes(bench: Bench, name: str, nodes: Iterable[int]) -> Figure:
    series = {}
    for count in nodes:
        cases = [bench.settings(rate=rate, nodes=count) for rate in RATES]
        results = bench.run(f"{count} nodes", cases)
        series[f"{count} node{'s' * (count > 1)}"] = _column(results, lambda each: each.delay)
    panel = Panel(_RATE, "average delay, s", np.array(RATES, float), series, log_y=True)
    return Figure(name, "Average production delay against the rate", [panel])


def _by_tuning(bench: Bench, tuned: bool, nodes: int = 4) -> list[SimulationResult]:
    cases = [bench.settings(rate=rate, nodes=nodes, tuned=tuned) for rate in RATES]
    return bench.run("with tuning" if tuned else "without tuning", cases)


def _figure_7(bench: Bench) -> Figure:
    series = {
        label: _column(_by_tuning(bench, tuned), lambda each: each.cpu.mean())
        for label, tuned in (("without tuning", False), ("with tuning", True))
    }
    panel = Panel(_RATE, "CPU time of a node, s", np.array(RATES, float), series)
    return Figure("7", "CPU time with and without partition tuning, 4 nodes", [panel])


def _figure_8(bench: Bench) -> Figure:
    series = {
        "without tuning": _column(_by_tuning(bench, False), lambda each: each.delay),
        "with tuning (figure 6)": _column(_by_tuning(bench, True), lambda each: each.delay),
    }
    panel = Panel(_RATE, "average delay, s", np.array(RATES, float), series, log_y=True)
    return Figure("8", "Average production delay without partition tuning, 4 nodes", [panel])


def _idle_and_communication(bench: Bench, name: str, tuned: bool) -> Figure:
    results = _by_tuning(bench, tuned)
    series = {
        "idle": _column(results, lambda each: each.idle.mean()),
        "communication": _column(results, lambda each: each.communication.mean()),
    }
    panel = Panel(_RATE, "time of a node, s", np.array(RATES, float), series)
    return Figure(name, f"Idle and communication time {_with(tuned)} partition tuning, 4 nodes", [panel])


def _figure_11(bench: Bench) -> Figure:
    fixed = bench.run("fixed degree", [bench.settings(nodes=nodes) for nodes in DEGREES])
    adaptive = bench.run("adaptive degree", [bench.settings(nodes=nodes, adaptive=True) for nodes in DEGREES])
    series = {
        "of a node": _column(fixed, lambda each: each.communication.mean()),
        "of all nodes": _column(fixed, lambda each: each.communication.sum()),
        "of all nodes, adaptive": _column(adaptive, lambda each: each.communication.sum()),
    }
    panel = Panel("nodes", "communication time, s", np.array(DEGREES, float), series)
    return Figure("11", "Communication time against the degree of declustering, 1,500 tuples/s", [panel])


def _figure_12(bench: Bench) -> Figure:
    results = _by_tuning(bench, True)
    cases = [bench.settings(rate=rate, fixed_order=True) for rate in RATES]
    ordered = bench.run("in a fixed order", cases)
    series = {
        "greatest": _column(results, lambda each: each.communication.max()),
        "average": _column(results, lambda each: each.communication.mean()),
        "least": _column(results, lambda each: each.communication.min()),
        "greatest, fixed order": _column(ordered, lambda each: each.communication.max()),
    }
    panel = Panel(_RATE, "communication time of a node, s", np.array(RATES, float), series)
    return Figure("12", "Communication time over the nodes, 4 nodes", [panel])


def _by_epoch(bench: Bench) -> list[SimulationResult]:
    return bench.run("epochs", [bench.settings(distribution_epoch=epoch) for epoch in EPOCHS])


def _figure_13(bench: Bench) -> Figure:
    series = {"4 nodes": _column(_by_epoch(bench), lambda each: each.delay)}
    panel = Panel("distribution epoch, s", "average delay, s", np.array(EPOCHS, float), series)
    return Figure("13", "Average production delay against the distribution epoch, 1,500 tuples/s", [panel])


def _figure_14(bench: Bench) -> Figure:
    series = {"4 nodes": _column(_by_epoch(bench), lambda each: each.communication.mean())}
    panel = Panel("distribution epoch, s", "communication time of a node, s", np.array(EPOCHS, float), series)
    return Figure("14", "Communication time against the distribution epoch, 1,500 tuples/s", [panel])


# --- Beyond it ---

SCALES = (10, 30, 100, 300, 1000, 3000, 10_000)
MASTERS = {"1 master": None, "a master for 100 nodes": 100, "a master for 10 nodes": 10}
_MODERN: dict[str, Any] = {
    "window": 60.0, "seconds": 150.0, "warmup": 90.0, "fixed_order": True, "detail": "counts",
    "keys": 2**28 - 1, "skew": 0.5, "buffer_bytes": 1 << 26, "distribution_epoch": 1.0,
    "reorganisation_epoch": 10.0,
}  # fmt: skip


def modern(bench: Bench, nodes: int, **how: Any) -> Settings:
    """A cluster of today: the core's costs with an index, 10 Gbit/s, 10 groups a node."""
    times = {name: _MODERN[name] * bench.scale for name in ("window", "seconds", "warmup")}
    costs = ClusterCosts.core("bucket-tree", costs=Costs.default())
    base = {**_MODERN, **times, "costs": costs, "seed": bench.seed, "nodes": nodes, "groups": 10 * nodes}
    return Settings(**{**base, **how})


def scaled(bench: Bench, nodes: int, share: int | None) -> Settings:
    """50,000 tuples a second of each stream for every node; a master for so many nodes, or one."""
    return modern(bench, nodes, rate=5e4 * nodes, masters=1 if share is None else max(1, nodes // share))


def _scale(bench: Bench) -> Figure:
    x = np.array(SCALES, float)
    delays, busy = {}, {}
    for label, share in MASTERS.items():
        results = bench.run(label, [scaled(bench, nodes, share) for nodes in SCALES])
        delays[label] = _column(results, lambda each: each.delay)
        busy[f"master, {label}"] = 100 * _column(results, lambda each: each.master_busy)
    busy["nodes, a master for 10"] = 100 * _column(results, _busy)
    panels = [
        Panel("nodes", "average delay, s", x, delays, log_x=True, log_y=True),
        Panel("nodes", "busy, %", x, busy, log_x=True),
    ]
    return Figure("scale", "50,000 tuples/s of each stream for every node: what saturates", panels)


def _busy(result: SimulationResult) -> float:
    return float(1 - result.idle.sum() / result.present.sum())


STATES = (10, 30, 60, 120, 300, 600)


def moving_cluster(bench: Bench, window: float, moves: str, of_today: bool) -> Settings:
    """Ten nodes, of which two lose most of their processor to other programs after the warm-up."""
    times: dict[str, Any] = {"window": window, "warmup": window * 1.2, "seconds": window * 1.2 + 200.0}
    event = times["warmup"] + 10
    case = {**times, "moves": moves, "background": ((event, 0, 0.9), (event, 1, 0.9)), "groups": 100}
    if of_today:
        slow = replace(ClusterCosts.core("bucket-tree", costs=Costs.default()), tuple_=5e-5)
        return modern(bench, 10, **case, rate=60_000.0, costs=slow, buffer_bytes=1 << 20)
    return replace(bench.settings(), **case, nodes=10, rate=6000.0, buffer_bytes=1 << 18, tuned=True)


def _state(bench: Bench) -> Figure:
    blocked = {}
    for of_today, machines in ((False, "the paper's machines"), (True, "today's machines")):
        for moves in ("network", "files"):
            cases = [moving_cluster(bench, window * bench.scale, moves, of_today) for window in STATES]
            label = f"{moves}, {machines}"
            blocked[label] = _column(bench.run(label, cases), _blocked)
    x = np.array(STATES, float)
    panel = Panel("window, s", "nodes blocked by a move, s", x, blocked, log_x=True, log_y=True)
    return Figure("state", "State that is sent against state in shared files, 10 nodes", [panel])


def _blocked(result: SimulationResult) -> float:
    return float(result.moving.sum()) / result.moves if result.moves else float("nan")


def failing(bench: Bench, moves: str) -> Settings:
    """A tenth of a hundred nodes fail at once."""
    case = modern(bench, 100, masters=10, moves=moves, rate=5e6)
    return replace(case, failures=tuple((case.warmup + 0.3 * case.window, node) for node in range(10)))


def _failure(bench: Bench) -> Figure:
    delays, outputs = {}, {}
    for moves in ("network", "files"):
        (result,) = bench.run(f"moves by {moves}", [failing(bench, moves)])
        shown = result.timeline["time"] >= result.settings.warmup
        delays[moves] = result.timeline["delay"][shown]
        outputs[moves] = result.timeline["outputs"][shown] / 1e6
    x = result.timeline["time"][shown]
    panels = [
        Panel("time, s", "average delay, s", x, delays),
        Panel("time, s", "million results a second", x, outputs),
    ]
    return Figure("failure", "10 of 100 nodes fail", panels)


HOT_SHARES = (0.0, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3)


def hot_cluster(bench: Bench, share: float, cells: int = 1) -> Settings:
    """A hundred nodes of today and a hot key that moves every 30 seconds."""
    hot = {"hot_share": share, "hot_period": 30.0 * bench.scale, "hot_cells": cells}
    return modern(bench, 100, masters=10, rate=1e6, **hot)


def _hot_key(bench: Bench) -> Figure:
    x = 100 * np.array(HOT_SHARES)
    delays, loads = {}, {}
    for label, cells in (("groups move by load", 1), ("the key is spread over 64 groups", 64)):
        results = bench.run(label, [hot_cluster(bench, share, cells) for share in HOT_SHARES])
        delays[label] = _column(results, lambda each: each.delay)
        loads[label] = 100 * _column(results, lambda each: each.group_load)
    panels = [
        Panel("share of the hot key, %", "average delay, s", x, delays, log_y=True),
        Panel("share of the hot key, %", "mean load of the heaviest group, %", x, loads, log_y=True),
    ]
    return Figure("hot-key", "One key is hot, another one every 30 s; 100 nodes, 10^6 tuples/s", panels)


_RATE = "tuples a second of each stream"


def _with(tuned: bool) -> str:
    return "with" if tuned else "without"


def _column(results: Sequence[SimulationResult], read: Callable[[SimulationResult], float]) -> Floats:
    return np.array([float(read(each)) for each in results])


FIGURES: dict[str, Callable[[Bench], Figure]] = {
    "5": lambda bench: _delays_by_nodes(bench, "5", (1, 2, 3)),
    "6": lambda bench: _delays_by_nodes(bench, "6", (4, 5, 6)),
    "7": _figure_7,
    "8": _figure_8,
    "9": lambda bench: _idle_and_communication(bench, "9", tuned=False),
    "10": lambda bench: _idle_and_communication(bench, "10", tuned=True),
    "11": _figure_11,
    "12": _figure_12,
    "13": _figure_13,
    "14": _figure_14,
    "scale": _scale,
    "state": _state,
    "failure": _failure,
    "hot-key": _hot_key,
}
