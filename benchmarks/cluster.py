"""The simulated cluster: how long simulations take, and the claims of the paper beside what they show.

"Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster" (Chakraborty, Singh). The paper's figure
stands in the line. Its machines are not ours: costs are fitted to two of its statements (docs/cluster.md), so
no line is a target except the times of the simulator itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import machine
from benchmarks.report import Figures, Report, Result, Target, measured
from slidejoin.cluster.figures import FIGURES, RATES, Bench, Figure, figure, modern
from slidejoin.cluster.load import Floats
from slidejoin.cluster.plot import save_sheet
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.simulation import simulate

Say = Callable[[str], None]
PAPER = tuple(name for name in FIGURES if name.isdigit())
SHEETS = {
    "rates": PAPER[:6],
    "messages": PAPER[6:],
    "beyond": tuple(name for name in FIGURES if name not in PAPER),
}
SATURATED = 5.0  # seconds of delay


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    scale: float = 1.0  # of simulated time and windows
    tuple_seconds: float = 1200.0
    count_seconds: float = 1200.0
    nodes: int = 1000


QUICK = Sizes(scale=0.02, tuple_seconds=20, count_seconds=20, nodes=20)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = machine.describe(None)
    results = list(_times(sizes, say))
    bench = Bench(scale=sizes.scale)
    found = {}
    for name in FIGURES:
        say(f"figure {name}")
        found[name] = figure(name, bench)
    results += _claims({name: found[name].panels[0].series for name in PAPER})
    results += _buffers(bench)
    results += _beyond(found)
    return Report("cluster", quick, machine.finished(where), asdict(sizes), results, _sheets(found))


def _sheets(found: dict[str, Figure]) -> Figures:
    def draw(names: Sequence[str], path: Path) -> None:
        save_sheet(path, [found[name] for name in names])

    return {f"cluster-{name}.png": partial(draw, names) for name, names in SHEETS.items()}


def _times(sizes: Sizes, say: Say) -> Iterable[Result]:
    say("tuple by tuple")
    half = sizes.tuple_seconds / 2
    case = Settings(
        rate=5000, nodes=10, groups=60, seconds=sizes.tuple_seconds, warmup=half, window=half, detail="tuples"
    )
    yield _time(case, "10 nodes, 60 groups, 20 minutes of 5,000 tuples/s of each stream, each tuple", 30)
    say("by counts")
    half = sizes.count_seconds / 2
    big = replace(
        case, rate=1e7, nodes=sizes.nodes, groups=10 * sizes.nodes, seconds=sizes.count_seconds, warmup=half,
        window=half, detail="counts", slots=10, masters=max(1, sizes.nodes // 10), skew=0.5,
        costs=modern(Bench(), 10).costs,
    )  # fmt: skip
    yield _time(big, "1,000 nodes, 10^4 groups, 20 minutes of 10^7 tuples/s of each stream, by counts", 60)


def _time(case: Settings, what: str, limit: float) -> Result:
    began = perf_counter()
    simulate(case)
    return measured(f"simulation of {what}", [perf_counter() - began], "s", Target("<", limit))


def _claims(lines: dict[str, dict[str, Floats]]) -> Iterable[Result]:
    at = {rate: number for number, rate in enumerate(RATES)}
    for name in ("5", "6"):
        for label, delays in lines[name].items():
            over = [rate for rate, delay in zip(RATES, delays, strict=True) if delay > SATURATED]
            first = float(over[0]) if over else float("inf")
            if np.isfinite(first):
                yield measured(
                    f"{label}: first rate with a delay above 5 s (paper: grows)", [first], "tuples/s"
                )
    four = lines["6"]["4 nodes"]
    fine = four[four <= SATURATED]
    if len(fine):
        what = "4 nodes: greatest / least delay below saturation (paper: little variation)"
        yield measured(what, [fine.max() / fine.min()], "x")
    tuned, whole = lines["8"]["with tuning (figure 6)"], lines["8"]["without tuning"]
    yield measured("delay at 4,000 tuples/s without tuning (paper: 48 s, fitted)", [whole[at[4000]]], "s")
    yield measured("delay at 4,000 tuples/s with tuning (paper: 2 s)", [tuned[at[4000]]], "s")
    cpu = lines["7"]
    ratio = cpu["without tuning"][at[3500]] / cpu["with tuning"][at[3500]]
    yield measured("CPU time at 3,500 tuples/s, without / with tuning (paper: much more)", [ratio], "x")
    for name, rate, label in (("9", 4000, "without"), ("10", 4000, "with"), ("10", 6000, "with")):
        paper = "" if (name, rate) == ("10", 4000) else " (paper: near 0, fitted)"
        part = lines[name]["idle"][at[rate]] / max(lines[name]["idle"][0], 1e-9)
        yield measured(f"idle time at {rate:,} tuples/s {label} tuning / at 500{paper}", [part], "x")
    ratio = lines["10"]["communication"][at[4000]] / lines["9"]["communication"][at[4000]]
    yield measured("communication with / without tuning (paper: tuning costs none)", [ratio], "x")
    node, total, adaptive = lines["11"].values()
    yield measured("communication of a node, 4 nodes / 1 (paper: decreases)", [node[3] / node[0]], "x")
    yield measured("communication of all nodes, 6 nodes / 1 (paper: linear)", [total[5] / total[0]], "x")
    yield measured(
        "communication of all of 6 nodes, adaptive / fixed (paper: much lower)", [adaptive[5] / total[5]], "x"
    )
    gaps = lines["12"]["greatest"] - lines["12"]["least"]
    what = "gap of communication between nodes, 6,000 tuples/s / 1,000 (paper: increases)"
    yield measured(what, [gaps[at[6000]] / gaps[at[1000]]], "x")
    ordered = lines["12"]["greatest, fixed order"] / lines["12"]["greatest"]
    yield measured(
        "... greatest in a fixed order / without (paper: can be minimised)", [ordered[at[3000]]], "x"
    )
    delays, messages = lines["13"]["4 nodes"], lines["14"]["4 nodes"]
    yield measured("delay, epoch of 6 s / 0.25 s (paper: increases)", [delays[-1] / delays[0]], "x")
    yield measured(
        "communication, epoch of 0.25 s / 6 s (paper: increases)", [messages[0] / messages[-1]], "x"
    )


def _buffers(bench: Bench) -> Iterable[Result]:
    for slots in (1, 4):
        case = bench.settings(slots=slots, rate=3000, skew=0.5, groups=600)
        formula = case.rate * case.distribution_epoch / 2 * (1 + 1 / slots)
        (result,) = bench.run("buffer", [case])
        yield measured(f"master's buffer, {slots} slots / formula", [result.peak_buffer / formula], "x")


def _beyond(found: dict[str, Figure]) -> Iterable[Result]:
    scale, busy = found["scale"].panels
    for label, delays in scale.series.items():
        bears = [int(nodes) for nodes, delay in zip(scale.x, delays, strict=True) if delay < SATURATED]
        yield measured(f"nodes that keep up, 10^5 tuples/s each, {label}", [float(max(bears, default=0))], "")
    share = busy.series["master, a master for 10 nodes"][-1]
    yield measured("masters busy, 10,000 nodes, one for 10", [share], "%")
    blocked = found["state"].panels[0].series
    for machines in ("the paper's machines", "today's machines"):
        ratio = blocked[f"network, {machines}"][-1] / blocked[f"files, {machines}"][-1]
        yield measured(f"time blocked by a move, network / files, 600 s windows, {machines}", [ratio], "x")
    alone, spread = (each[-1] for each in found["hot-key"].panels[0].series.values())
    yield measured("delay with a hot key of 0.5 %, one group / spread over 64", [alone / spread], "x")
