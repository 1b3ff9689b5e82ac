"""Spark: our join against that of another checkout, what users do today, and a task that does nothing.

Streams, contenders and the way they take turns are described in ``spark_files``, ``spark_contenders`` and
``spark_race``. Ratios are of rates in input rows, from micro-batches of the same number, warm and with full
windows. Every answer is compared with the embedded engine's: the number of rows in all runs, a checksum in
small ones. Spark has two cores and two partitions for all, and the settings that docs/spark.md recommends
unless a line says otherwise.

``SLIDEJOIN_OTHER`` names the Python of the other checkout, such as one with the operator before this one::

    git worktree add ../older 9d4a51e && make -C ../older setup
    SLIDEJOIN_OTHER=../older/.venv/bin/python python -m benchmarks spark
"""

import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pyspark

from benchmarks import machine, spark_lines, spark_tables
from benchmarks.checkouts import OTHER, other_commit
from benchmarks.report import Report, Result
from benchmarks.spark_files import LENGTH
from benchmarks.spark_lines import QUICK, Say, Sessions, Sizes
from slidejoin.run.session import recommended
from slidejoin.spark.prepare import PARTITIONS

RECOMMENDED = recommended()
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# What Spark has where nothing is set; a local session of ours has the recommended ones.
DEFAULTS = {
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**26),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    _MANAGER: RECOMMENDED[_MANAGER].replace("FileSystemBased", "FileContextBased"),
}


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = {**machine.describe(None), "pyspark": pyspark.__version__}
    other = os.environ.get(OTHER)
    where["other_checkout"] = other_commit() if other else None
    with tempfile.TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        results = _lines(sizes, Path(folder), say)
    parameters = {**asdict(sizes), "interval_seconds": LENGTH, "payload": "int64, float64", **RECOMMENDED}
    return Report("spark", quick, machine.finished(where), parameters, results)


def _lines(sizes: Sizes, folder: Path, say: Say) -> list[Result]:
    def settings(cores: int = sizes.cores) -> dict[str, str]:
        return {
            "spark.master": f"local[{cores}]",
            "spark.driver.extraJavaOptions": sizes.java_options,
            "spark.driver.memory": "4g",
            "spark.local.dir": str(folder / "local"),
            PARTITIONS: str(cores),
        }

    good = {**settings(), **RECOMMENDED}
    with ExitStack() as stack:
        sessions = Sessions(stack, good)
        if not sizes.summed:
            say("checksums")
            list(spark_lines.users(QUICK, sessions, folder / "checked", lambda _: None))
        # The large batches come first: they warm the JVMs up for the others, which takes millions of rows.
        large = list(spark_lines.large(sizes, sessions, folder / "large", say))
        results = [
            *spark_lines.users(sizes, sessions, folder / "users", say),
            *large,
            *spark_lines.small(sizes, sessions, folder / "small", say),
            *spark_lines.wide(sizes, sessions, folder / "wide", say),
        ]
    return [
        *results,
        *spark_lines.many(sizes, lambda cores: {**settings(cores), **RECOMMENDED}, folder / "many", say),
        *spark_tables.lines(sizes, good, folder / "tables", say),
        *spark_lines.restart(sizes, good, folder / "large", say),
        *spark_lines.defaults(sizes, {**settings(), **DEFAULTS}, folder / "defaults", say),
        *spark_lines.one_by_one(sizes, {**settings(), **DEFAULTS}, RECOMMENDED, folder / "one", say),
    ]
