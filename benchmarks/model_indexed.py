"""The model of indexed joins against what is measured: windows of 2^14 to 2^22, 1 to 1,024 matches.

The costs are calibrated in the same run (``slidejoin.calibration``), at other windows, batches and numbers of
matches than those that are predicted here. A prediction is the throughput of a NumericJoin that lists its
pairs, on one core; its error is the absolute difference as a share of what was measured. Processor time, so
that other load disturbs less.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.model_figures import new_figure
from benchmarks.report import Figures, Result, Target, measured
from benchmarks.workload import Workload, power
from slidejoin.index import PARAMETERS
from slidejoin.model import Costs
from slidejoin.numeric import NumericJoin

Say = Callable[[str], None]

_BLOCK = 2**18


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    windows: tuple[int, ...] = (2**14, 2**16, 2**17, 2**19, 2**21, 2**22)
    large: int = 2**20  # windows above it are for the fast indexes only
    fast: tuple[str, ...] = ("bucket-tree", "im-tree", "b-tree", "sorted-run", "bi-sort")
    matches: tuple[int, ...] = (1, 8, 100, 1024)
    batches: tuple[int, ...] = (8, 128, 1024, 8192)
    loops: tuple[int, ...] = (2**10, 2**14)  # windows of nested loops
    run_shares: tuple[int, ...] = (64, 16, 4)  # parts of a window that sorted-run and bi-sort are pushed
    arrivals: int = 2**16  # of a measurement, at most
    pairs: int = 2**21  # of a measurement, at most
    result: int = 2**23  # pairs of a push, at most


QUICK = Sizes(
    windows=(2**9, 2**10), large=2**9, matches=(2, 20), batches=(8, 64), loops=(2**8,),
    arrivals=2**10, pairs=2**12,
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A join that is measured and predicted; seconds of an arrival."""

    index: str
    window: int
    matches: int
    batch: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Of the throughput, in percent of what was measured."""
        return 100 * (self.measured / self.predicted - 1)

    def __str__(self) -> str:
        return (
            f"{self.index}, w={power(self.window)}, {self.matches} matches, pushes of {self.batch}: "
            f"{1e-6 / self.predicted:.3g} instead of {1e-6 / self.measured:.3g} M tuples/s"
        )


def measure(sizes: Sizes, costs: Costs, say: Say) -> tuple[list[Result], Figures]:
    """The error over the whole grid, then by index, window, matches and batch; and boxes by index."""
    points = [point for index in PARAMETERS for point in _points(sizes, costs, index, say)]
    return list(report(points)), {"model-validation-indexed.png": partial(_boxes, points)}


def _boxes(points: list[Point], path: Path) -> None:
    """The errors by index: quartiles, and whiskers for nine points in ten."""
    figure, ((axes,),) = new_figure(1, 1, (9, 3.2))
    errors = {index: [point.error for point in points if point.index == index] for index in PARAMETERS}
    axes.boxplot(list(errors.values()), tick_labels=list(errors), whis=(5, 95), showfliers=False)
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.set(ylabel="error of the throughput, %")
    axes.tick_params(axis="x", rotation=30)
    figure.savefig(path, dpi=150)


def report(points: list[Point]) -> Iterable[Result]:
    """The lines of the points: the target first; the worst points are named in its note."""
    worst = sorted(points, key=lambda point: -abs(point.error))[:5]
    note = "indexed joins, the largest errors: " + "; ".join(map(str, worst))
    yield measured(
        "indexed joins, throughput, error over the grid", _errors(points), "%", Target("<=", 15), note
    )
    for index in PARAMETERS:
        yield from _line(f"with {index}", [point for point in points if point.index == index])
    for name in ("window", "matches", "batch"):
        for value in sorted({getattr(point, name) for point in points}):
            chosen = [point for point in points if getattr(point, name) == value]
            label = {
                "window": f"w={power(value)}",
                "matches": f"{value} matches",
                "batch": f"pushes of {value}",
            }
            yield from _line(label[name], chosen)


def _line(what: str, points: list[Point]) -> Iterable[Result]:
    """The median error of these points, and how far their tenth part at either end is off."""
    if points:
        low, high = np.percentile([point.error for point in points], [10, 90])
        note = f"{low:+.0f} % to {high:+.0f} % for eight points in ten"
        yield measured(f"indexed joins, throughput, error, {what} ({note})", _errors(points), "%")


def _errors(points: list[Point]) -> list[float]:
    return [round(abs(point.error), 2) for point in points]


def _points(sizes: Sizes, costs: Costs, index: str, say: Say) -> Iterable[Point]:
    windows = sizes.windows
    batches = sizes.batches
    if index == "nested-loop":
        windows, batches = sizes.loops, sizes.batches[:2]
    elif index not in sizes.fast:
        windows = tuple(window for window in windows if window <= sizes.large)
    for window in windows:
        say(f"{index}, w={power(window)}")
        if index in ("sorted-run", "bi-sort"):
            batches = tuple(min(max(window // share, 32), sizes.arrivals) for share in sizes.run_shares)
        for matches in (each for each in sizes.matches if 4 * each <= window):
            small = tuple(batch for batch in batches if batch * matches <= sizes.result)
            for batch, seconds in _measure(sizes, index, window, matches, small).items():
                cost = costs.arrival(index, window=window, matches=matches, batch=batch)
                yield Point(index, window, matches, batch, seconds, cost.total)


def _measure(
    sizes: Sizes, index: str, window: int, matches: int, batches: tuple[int, ...]
) -> dict[int, float]:
    """Seconds of an arrival for each size of a push, in turns, between which half a window arrives.

    So all sizes see the phases of an index that are half a window apart: merges, and old and new subwindows.
    """
    workload = Workload(window, matches)
    join = NumericJoin(window, workload.lower, workload.upper, np.int32, index)
    start = _advance(join, workload, 0, 2 * window)
    most = min(sizes.arrivals, sizes.pairs // matches)
    seconds: dict[int, list[float]] = {batch: [] for batch in batches}
    for turn in range(5):
        start = _advance(join, workload, start, window // 2 if turn else 0)
        for batch in batches:
            count = max(most // 4 // batch, 1) * batch
            sides, keys = workload.sides(start, count), workload.keys(start, count)
            start += count
            pushes = [(sides[at : at + batch], keys[at : at + batch]) for at in range(0, count, batch)]
            begin = time.thread_time()
            for push in pushes:
                join.push(*push)
            if turn:  # the first one finds caches and results of other sizes
                seconds[batch].append((time.thread_time() - begin) / count)
    return {batch: float(np.mean(times)) for batch, times in seconds.items()}


def _advance(join: NumericJoin, workload: Workload, start: int, arrivals: int) -> int:
    """Let arrivals pass, in large pushes; returns the number of the next one."""
    for begin in range(start, start + arrivals, _BLOCK):
        count = min(_BLOCK, start + arrivals - begin)
        join.count(workload.sides(begin, count), workload.keys(begin, count))
    return start + arrivals
