"""Spark: our join against what its users do today, and against an operator that does nothing.

Streams, contenders and the way they take turns are described in ``spark_files``, ``spark_contenders`` and
``spark_race``. Ratios are of rates in input rows, from micro-batches of the same number, warm and with full
windows. Every answer is compared with the embedded engine's: the number of rows in all runs, a checksum in
small ones. Spark has two cores and two partitions for all.
"""

import functools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import machine
from benchmarks.measure import alternate, rates, ratios
from benchmarks.report import Report, Result, Target, measured
from benchmarks.spark_contenders import bucketed, empty, ours, work_around
from benchmarks.spark_files import LENGTH, SCHEMA, Answer, Streams
from benchmarks.spark_race import SETTINGS, Run, check, id_sums, race, restarted
from benchmarks.workload import power
from slidejoin.run.session import local_session
from slidejoin.spark import join
from slidejoin.spark.prepare import PARTITIONS

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Numbers of micro-batches include neither those that fill nor those that warm."""

    window: int = 2**17  # rows per side
    batch: int = 100_000  # rows of both sides
    measured: int = 7
    warmups: int = 5  # with full windows, and not measured
    large_window: int = 2**20
    large_batch: int = 1_000_000
    large_measured: int = 5
    large_warmups: int = 3
    small_batch: int = 1000
    small_measured: int = 15
    small_warmups: int = 10
    table: int = 5_000_000  # rows per side in batch mode
    table_partitions: int = 8
    table_rounds: int = 3
    partitions: int = 2
    cores: int = 2
    matches: int = 2
    summed: bool = False  # whether checksums of streams are compared, besides the numbers of rows
    java_options: str = ""


QUICK = Sizes(
    window=2**11,
    batch=5000,
    measured=1,
    warmups=0,
    large_window=2**12,
    large_batch=10_000,
    large_measured=1,
    large_warmups=0,
    small_batch=100,
    small_measured=1,
    small_warmups=0,
    table=5000,
    table_partitions=2,
    table_rounds=1,
    summed=True,
    java_options="-XX:TieredStopAtLevel=1",  # a short run spends most of its time in compiling well
)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = {**machine.describe(None), "pyspark": pyspark.__version__}
    with tempfile.TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        results = _lines(sizes, Path(folder), say)
    parameters = {**asdict(sizes), "interval_seconds": LENGTH, "payload": "int64, float64"}
    return Report("spark", quick, machine.finished(where), parameters, results)


def _lines(sizes: Sizes, folder: Path, say: Say) -> list[Result]:
    with _session(sizes, folder) as spark:
        if not sizes.summed:
            say("checksums")
            list(_against_users(QUICK, spark, folder / "checked", lambda _: None))
        # The large batches come first: they warm the JVM up for the others, which takes millions of rows.
        large = list(_large(sizes, spark, folder / "large", say))
        results = [
            *_against_users(sizes, spark, folder / "users", say),
            *large,
            *_floor(sizes, spark, folder / "floor", say),
            *_tables(sizes, spark, folder / "tables", say),
        ]
    return [*results, *_restart(sizes, folder, say)]


@contextmanager
def _session(sizes: Sizes, folder: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.master": f"local[{sizes.cores}]",
        "spark.driver.extraJavaOptions": sizes.java_options,
        "spark.driver.memory": "4g",
        "spark.local.dir": str(folder / "local"),
        PARTITIONS: str(sizes.partitions),
        **SETTINGS,
    }
    with local_session("python -m benchmarks spark", settings) as spark:
        yield spark


def _filling(window: int, batch: int) -> int:
    """Micro-batches until windows are full."""
    return -(-2 * window // batch)


def _rows(count: int) -> str:
    """A number of rows as lines of the report have it.

    Examples
    --------
    >>> _rows(100_000), _rows(1_000_000), _rows(1000)
    ('100k', '1M', '1,000')
    """
    if count % 10**6 == 0:
        return f"{count // 10**6}M"
    return f"{count // 1000}k" if count % 10**5 == 0 else f"{count:,}"


def _thousands(seconds: Sequence[float], rows: int) -> list[float]:
    """Thousands of rows a second, where each sample is the time of so many."""
    return [1000 * rate for rate in rates(seconds, rows)]


def _last(run: Run, count: int) -> list[float]:
    """The seconds of the last micro-batches."""
    return run.seconds[-count:]


# --- Users, and the empty operator ---


def _against_users(sizes: Sizes, spark: SparkSession, folder: Path, say: Say) -> Iterator[Result]:
    filling = _filling(sizes.window, sizes.batch)
    streams = Streams(
        sizes.window, (sizes.batch,) * (filling + sizes.warmups + sizes.measured), sizes.matches
    )
    where = f"{_rows(sizes.batch)}-row batches, w={power(sizes.window)}"
    say(f"our join, the work-around on two stores, the empty operator: {where}")
    streams.write(folder)
    stores = {"HDFS-backed": 5, "RocksDB": 12}
    others = {store: work_around(streams, store) for store in stores}
    mine, nothing = ours(streams), empty(streams)
    runs = race(spark, streams, folder, (mine, *others.values(), nothing), filling, sizes.summed)
    seconds = {name: _last(run, sizes.measured) for name, run in runs.items()}
    for store, limit in stores.items():
        ratio = ratios(seconds[others[store].name], seconds[mine.name])
        yield measured(f"ours / work-around, {store} store, {where}", ratio, "x", Target(">=", limit))
    ratio = ratios(seconds[nothing.name], seconds[mine.name])
    yield measured(f"ours / empty operator, {where}", ratio, "x", Target(">=", 0.8))
    yield from _rates(seconds, sizes.batch, where)
    found = [answer.matches / sizes.batch for answer in runs[mine.name].answers[-sizes.measured :]]
    yield measured(f"matches, {where}", found, "per row")


def _rates(seconds: Mapping[str, list[float]], rows: int, where: str) -> Iterator[Result]:
    for name, samples in seconds.items():
        yield measured(f"{name}, {where}", _thousands(samples, rows), "k rows/s")


def _large(sizes: Sizes, spark: SparkSession, folder: Path, say: Say) -> Iterator[Result]:
    streams = _large_streams(sizes)
    where = f"{_rows(sizes.large_batch)}-row batches, w={power(sizes.large_window)}"
    say(f"our join, the empty operator: {where}")
    streams.write(folder)
    mine, nothing = ours(streams), empty(streams)
    full = _filling(sizes.large_window, sizes.large_batch)
    runs = race(spark, streams, folder, (mine, nothing), full, sizes.summed)
    seconds = {name: _last(run, sizes.large_measured) for name, run in runs.items()}
    ratio = ratios(seconds[nothing.name], seconds[mine.name])
    yield measured(f"ours / empty operator, {where}", ratio, "x", Target(">=", 0.85))
    yield from _rates(seconds, sizes.large_batch, where)


def _large_streams(sizes: Sizes) -> Streams:
    count = _filling(sizes.large_window, sizes.large_batch) + sizes.large_warmups + sizes.large_measured
    return Streams(sizes.large_window, (sizes.large_batch,) * count, sizes.matches)


def _floor(sizes: Sizes, spark: SparkSession, folder: Path, say: Say) -> Iterator[Result]:
    """What a micro-batch takes that has next to no rows; the windows are filled by large ones."""
    filling = _filling(sizes.window, sizes.batch)
    small = (sizes.small_batch,) * (sizes.small_warmups + sizes.small_measured)
    streams = Streams(sizes.window, (sizes.batch,) * filling + small, sizes.matches)
    where = f"{_rows(sizes.small_batch)}-row batches, {sizes.partitions} partitions, w={power(sizes.window)}"
    say(f"our join, the empty operator: {where}")
    streams.write(folder)
    mine, nothing = ours(streams), empty(streams)
    runs = race(spark, streams, folder, (mine, nothing), filling, sizes.summed)
    seconds = {name: _last(run, sizes.small_measured) for name, run in runs.items()}
    ratio = ratios(seconds[mine.name], seconds[nothing.name])
    yield measured(f"time of ours / of the empty operator, {where}", ratio, "x", Target("<=", 1.2))
    for name, samples in seconds.items():
        yield measured(f"{name}, time of a batch, {where}", samples, "s")


# --- Batch mode ---


def _tables(sizes: Sizes, spark: SparkSession, folder: Path, say: Say) -> Iterator[Result]:
    """Two tables, all of whose rows are within the interval: the band alone decides.

    Results go nowhere, with all their columns. The run that warms up counts and sums them instead.
    """
    streams = Streams(sizes.table, (2 * sizes.table,), sizes.matches)
    where = f"{_rows(sizes.table)} x {_rows(sizes.table)} rows, m={sizes.matches}"
    say(f"batch mode: {where}")
    streams.write(folder)
    left, right = (spark.read.schema(SCHEMA).parquet(str(folder / side)) for side in ("left", "right"))
    spark.conf.set(PARTITIONS, sizes.table_partitions)
    frames = {
        "ours": join(left, right, on=streams.on, window=streams.interval),
        "Spark's bucketed range join": bucketed(streams, left, right),
    }
    expected = streams.answers()
    for name, frame in frames.items():
        check(name, [_answer(frame)], expected)
    runs = {name: functools.partial(_written, frame) for name, frame in frames.items()}
    runs["ours without size checks"] = functools.partial(_unchecked, spark, frames["ours"])
    samples = alternate(runs, sizes.table_rounds, 0)
    spark.conf.set(PARTITIONS, sizes.partitions)
    mine, theirs, unchecked = samples.values()
    against = f"{list(samples)[1]}, {where}"
    yield measured(f"batch mode, ours / {against}", ratios(theirs, mine), "x", Target(">=", 3))
    yield measured(f"batch mode, ours without size checks / {against}", ratios(theirs, unchecked), "x")
    for name, seconds in samples.items():
        yield measured(f"batch mode, {name}, {where}", _thousands(seconds, 2 * sizes.table), "k rows/s")


def _answer(frame: DataFrame) -> Answer:
    row = frame.agg(F.count(F.lit(1)), *id_sums()).first()
    assert row is not None, "an aggregate without groups has one row"
    return Answer.of(*row)


def _written(frame: DataFrame) -> float:
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def _unchecked(spark: SparkSession, frame: DataFrame) -> float:
    """The time where Spark does not measure every row that it hands to Python (docs/spark.md, settings)."""
    spark.conf.set(_BYTES, 2**31 - 1)
    try:
        return _written(frame)
    finally:
        spark.conf.unset(_BYTES)


# --- Restart ---


def _restart(sizes: Sizes, folder: Path, say: Say) -> Iterator[Result]:
    """From the start of the query to the end of a small micro-batch, in a new session with new workers.

    The checkpoint is that of the large windows. The JVM is the same, so its own start is not in the time.
    """
    say(f"restart with w={power(sizes.large_window)}")
    before = _large_streams(sizes)
    streams = Streams(before.window, (*before.batches, sizes.small_batch), before.matches)
    streams.write(folder / "large", len(before.batches))
    with _session(sizes, folder) as spark:
        seconds = restarted(spark, streams, folder / "large", ours(streams))
    what = (
        f"start to end of the first batch of {_rows(sizes.small_batch)} rows, w={power(sizes.large_window)}"
    )
    yield measured(f"ours after a restart, {what}", [seconds], "s")
