"""Calibration: measures what joins cost on this machine, for ``slidejoin.model.Costs``.

Every index is measured on uniform 32-bit keys at some windows, batches and numbers of matches; then what
listing matches costs, a call from Python, a row of a table, and several workers.
"""

import platform
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from slidejoin import isa
from slidejoin.calibration.indexes import EFFORTS, Effort, measure_index, measure_listing
from slidejoin.calibration.overheads import measure_calls, measure_row, measure_speedups
from slidejoin.calibration.runs import Stream
from slidejoin.cores import usable_cores
from slidejoin.errors import SpecError
from slidejoin.index import PARAMETERS
from slidejoin.model.costs import Costs, SparkCosts

Progress = Callable[[str, float], None]

# Seconds that each effort takes where a tuple of the first measurement takes _USUAL seconds.
_NEEDED = (38.0, 28.0, 12.0, 2.5, 0.0)
_USUAL = 60e-9


def calibrate(seconds: float = 50, spark: bool = False, progress: Progress | None = None) -> Costs:
    """Measure the costs of joins on this machine.

    Parameters
    ----------
    seconds : number
        Time to spend, about: with less, only smaller windows are measured, and larger ones are extrapolated.
    spark : bool
        Whether to measure Spark's micro-batches, too, which takes a minute more and needs pyspark. Without
        it they are the default's.
    progress : callable, optional
        Is told what is measured, and the share that is done.

    Returns
    -------
    Costs
        With the spread of each group of figures: the standard error of a figure as a share of it.

    Examples
    --------
    >>> costs = calibrate(seconds=0.1)
    >>> costs.measured, "bucket-tree" in costs.indexes
    (True, True)
    """
    if not seconds > 0:
        raise SpecError(f"seconds={seconds!r}; expected a positive number")
    _keep_freed_memory()
    effort = _effort(seconds)
    steps = (len(PARAMETERS) + 1) * len(effort.windows) + 2
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1

    def tell(what: str) -> None:
        if progress:
            progress(what, min(done / steps, 1.0))

    tell("calls from Python")
    calls = measure_calls(effort)
    count, push = calls["count"].mean, calls["push"].mean
    tick()
    index_costs = {}
    for name in PARAMETERS:
        tell(name)
        index_costs[name] = measure_index(name, effort, count, push, tick)
    tell("listing matches")
    listing, large, listing_spread = measure_listing(effort, count, push, tick)
    tell("rows and workers")
    row = measure_row(effort, calls)
    speedups, speedups_spread = measure_speedups(effort)
    tick()
    default = Costs.default()
    spark_costs, spark_spread = default.spark, default.spread.get("spark", 0.0)
    if spark:
        tell("Spark")
        spark_costs, spark_spread = _spark()
    tell("done")
    return Costs(
        index_costs=index_costs,
        listing=listing,
        large=large,
        push=push,
        count=count,
        window_push=calls["window_push"].mean,
        window_row=max(row.median, 1e-9),
        speedups=speedups,
        spark=spark_costs,
        machine=_machine() if spark else {**_machine(), "spark_from": "not measured here: the default"},
        date=datetime.now(UTC).date().isoformat(),
        spread={
            "calls": max(figure.spread for figure in calls.values()),
            "listing": listing_spread,
            "window_row": row.spread,
            "speedups": speedups_spread,
            "spark": spark_spread,
        },
    )


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory of up to 32 MB, as in any process that has had large arrays.

    Before that, it takes memory for a result of 15,000 pairs from the system each time, which costs three
    times as much as the result.
    """
    np.empty(2**25 - 2**16, np.uint8)


def _effort(seconds: float) -> Effort:
    """As much as can be measured in so many seconds, by how fast a small join is."""
    speed = 1.0
    if seconds > _NEEDED[-2]:
        stream = Stream("bucket-tree", 2**14)
        speed = min(stream.time(2**15, 4096) for _ in range(3)) / _USUAL
    return next(effort for effort, needed in zip(EFFORTS, _NEEDED, strict=True) if needed * speed <= seconds)


def _spark() -> tuple[SparkCosts, float]:
    from slidejoin.calibration.spark import measure_spark

    return measure_spark()


def _machine() -> dict[str, object]:
    import slidejoin

    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "instruction_set": isa.current(),
        "slidejoin": slidejoin.__version__,
    }


def cpu_name() -> str:
    """The processor as the system names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
