"""Measures Spark's part of a join: the micro-batches of the demo, small ones and large ones."""

import io
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console

from slidejoin.calibration.runs import Figure
from slidejoin.demo.spark.feed import Setup
from slidejoin.demo.spark.job import run
from slidejoin.errors import UsageError
from slidejoin.model.costs import SparkCosts

_BATCHES = 10
_FIRST = 4  # micro-batches that start workers and warm up
_SMALL, _LARGE = 1_000, 50_000  # rows of a micro-batch


def measure_spark() -> tuple[SparkCosts, float]:
    """Seconds of an empty micro-batch, of a row in one partition, and the spread of the first.

    Raises
    ------
    UsageError
        pyspark is missing, or the demo's result is wrong.
    """
    small, large = (_times(rows) for rows in (_SMALL, _LARGE))
    row = max((float(np.median(large)) - float(np.median(small))) / (_LARGE - _SMALL), 1e-9)
    floor = Figure([time - row * _SMALL for time in small])
    return SparkCosts(float(f"{max(floor.median, 1e-3):.3g}"), float(f"{row:.3g}")), floor.spread


def _times(rows: int) -> list[float]:
    """The seconds of the micro-batches with rows, without the first ones."""
    quiet = Console(file=io.StringIO())
    with tempfile.TemporaryDirectory(prefix="slidejoin-calibrate-") as directory:
        output = Path(directory) / "result"
        summary = run(Setup(rows=_BATCHES * rows, batches=_BATCHES), quiet, output, partitions=1)
    if summary.failure:
        raise UsageError(f"the join on Spark gave a wrong result: {summary.failure}")
    return [batch.seconds for batch in summary.batches if batch.rows][_FIRST:]
