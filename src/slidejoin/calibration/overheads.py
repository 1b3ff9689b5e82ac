"""Measures what does not depend on the index: calls from Python, rows of tables, several workers."""

import time

import numpy as np
import pyarrow as pa

from slidejoin.calibration.indexes import Effort
from slidejoin.calibration.runs import Figure, Stream, timed
from slidejoin.cores import usable_cores
from slidejoin.predicate import band
from slidejoin.window_join import WindowJoin

_TINY = 16  # tuples of a window in which a search costs next to nothing


def measure_calls(effort: Effort) -> dict[str, Figure]:
    """Seconds of a call of ``NumericJoin.count``, of ``push``, and of ``WindowJoin.push``."""
    stream = Stream("bucket-tree", _TINY)
    samples: dict[str, list[float]] = {"count": [], "push": [], "window_push": []}
    join = WindowJoin(band("k", within=1), _TINY, index="bucket-tree")
    row = pa.table({"side": np.zeros(1, np.uint8), "k": np.zeros(1, np.int32)})
    for _ in range(effort.turns + 1):
        samples["count"].append(stream.time(effort.singles, 1))
        samples["push"].append(stream.time(effort.singles, 1, listed=True))
        start = time.thread_time()
        for _ in range(effort.singles // 4):
            join.push(arrivals=row, side="side")
        samples["window_push"].append((time.thread_time() - start) / (effort.singles // 4))
    return {name: Figure(each[1:]) for name, each in samples.items()}


def measure_row(effort: Effort, calls: dict[str, Figure]) -> Figure:
    """Seconds a row by which a WindowJoin with one payload column a side is slower than a NumericJoin."""
    window = batch = effort.middle
    width = int(2**32 / window)
    stream = Stream("bucket-tree", window)
    join = WindowJoin(band("k", within=width // 2), window, index="bucket-tree", order="full")
    extra = []
    for turn in range(effort.turns + 3):
        sides, keys = stream.pushes(batch, batch)[0]
        table = pa.table({"side": sides, "k": keys, "payload": np.arange(batch)})
        start = time.thread_time()
        join.push(arrivals=table, side="side")
        rows = (time.thread_time() - start) / batch
        numeric = timed(stream.join.push, [(sides, keys)])
        if turn > 2:
            extra.append(rows - numeric - calls["window_push"].mean / batch)
    return Figure(extra)


def measure_speedups(effort: Effort) -> tuple[dict[int, float], float]:
    """How many times as fast several workers are as one, in wall-clock time; and the spread.

    With 2, 4, 8 ... workers, up to the cores that the process may use, in a join that is not plain.
    """
    cores = usable_cores()
    workers = sorted({1, cores} | {2**i for i in range(1, cores.bit_length()) if 2**i <= cores})
    stream = Stream("bucket-tree", 2 * effort.middle, 2, plain=False)
    batch = min(2**13, 2 * effort.middle)
    samples: dict[int, list[float]] = {number: [] for number in workers}
    for _ in range(2 * effort.turns + 1):
        for number in workers:
            stream.join.workers = number
            pushes = stream.pushes(8 * batch, batch)
            samples[number].append(timed(stream.join.push, pushes, time.perf_counter))
    speedups, spreads = {1: 1.0}, []
    for number in workers[1:]:
        ratios = [one / several for one, several in zip(samples[1][1:], samples[number][1:], strict=True)]
        figure = Figure(ratios)
        speedups[number] = float(f"{max(figure.median, speedups[1]):.3g}")
        spreads.append(figure.spread)
    return speedups, float(np.median(spreads)) if spreads else 0.0
