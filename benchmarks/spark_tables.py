"""Batch mode on Spark: two tables, against Spark's own join on buckets of the key."""

import functools
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.measure import alternate, rates, ratios
from benchmarks.report import Result, Target, measured
from benchmarks.spark_contenders import bucketed
from benchmarks.spark_files import SCHEMA, Answer, Streams
from benchmarks.spark_lines import Say, Sizes, row_count
from benchmarks.spark_race import check
from slidejoin.run.session import local_session
from slidejoin.spark import join


def lines(sizes: Sizes, settings: dict[str, str], folder: Path, say: Say) -> Iterator[Result]:
    """Two tables, all of whose rows are within the interval: the band alone decides.

    Results go nowhere, with all their columns. The run that warms up counts and sums them instead.
    """
    streams = Streams(sizes.table, (2 * sizes.table,), sizes.matches)
    count = row_count(sizes.table)
    where = f"{count} x {count} rows, m={sizes.matches}"
    say(f"batch mode: {where}")
    streams.write(folder)
    with local_session("slidejoin benchmark", settings) as spark:
        left, right = (spark.read.schema(SCHEMA).parquet(str(folder / side)) for side in ("left", "right"))
        frames = {
            "ours": join(
                left, right, on=streams.on, window=streams.interval, partitions=sizes.table_partitions
            ),
            "Spark's bucketed range join": bucketed(streams, left, right),
        }
        expected = streams.answers()
        for name, frame in frames.items():
            check(name, [_answer(frame)], expected)
        runs = {name: functools.partial(_written, frame) for name, frame in frames.items()}
        samples = alternate(runs, sizes.table_rounds, 0)
    mine, theirs = samples.values()
    against = f"{list(samples)[1]}, {where}"
    yield measured(f"batch mode, ours / {against}", ratios(theirs, mine), "x", Target(">=", 2))
    for name, seconds in samples.items():
        rate = [1000 * each for each in rates(seconds, 2 * sizes.table)]
        yield measured(f"batch mode, {name}, {where}", rate, "k rows/s")


def _answer(frame: DataFrame) -> Answer:
    sums = [F.coalesce(F.sum(column), F.lit(0)) for column in ("id", "id_right")]
    row = frame.agg(F.count(F.lit(1)), *sums).first()
    assert row is not None, "an aggregate without groups has one row"
    return Answer.of(*row)


def _written(frame: DataFrame) -> float:
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin
