"""Who runs in the Spark benchmark: our join, what users do without it, and a task that does nothing."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark_files import COLUMNS, LATENESS, LENGTH, Streams
from slidejoin.spark.arrivals import crossing
from slidejoin.spark.output import ROWS
from slidejoin.spark.prepare import prepare

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@dataclass(frozen=True)
class Contender:
    """A way to join two streams.

    Attributes
    ----------
    name : str
        In lines of the report.
    kind : str
        ``"join"``: slidejoin's join, of the checkout that runs it; or what :func:`joined` takes.
    settings : mapping
        Of the session, when the query starts.
    joins : bool
        Whether it joins at all. If not, its answers are of about the right number of rows, and no more.
    """

    name: str
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)
    joins: bool = True


OURS = Contender("ours", "join")
BEFORE = Contender("the other checkout", "join")
EMPTY = Contender("empty task", "empty", joins=False)
WORK_AROUNDS = {
    "HDFS-backed": Contender(
        "work-around, HDFS-backed store", "work-around", {PROVIDER: HDFS, _STATE_FORMAT: "2"}
    ),
    # Changelog checkpoints: without them a commit costs several times as much.
    "RocksDB": Contender(
        "work-around, RocksDB store",
        "work-around",
        {PROVIDER: ROCKSDB, CHANGELOG: "true", _STATE_FORMAT: "2"},
    ),
}


def joined(kind: str, left: DataFrame, right: DataFrame, window: int, matches: float) -> DataFrame:
    """The result of a contender that is not slidejoin's join, with the columns of that."""
    streams = Streams(window, (), matches)
    return {"empty": empty, "work-around": work_around}[kind](streams, left, right)


# --- What users do ---

# Width of a bucket, by that of the band. Of 1, 2 and 4 times the band, twice took the least CPU time on
# RocksDB, and no more than any other on the HDFS-backed store: in a wider bucket there are more candidates to
# filter, with narrower ones more left rows are copied and stored, by 1 / _WIDE of them.
_WIDE = 2


def work_around(streams: Streams, left: DataFrame, right: DataFrame) -> DataFrame:
    """Spark's own stream-stream join on buckets of the key.

    As a skilled user writes it: a left row is copied to the buckets that its band reaches and no others, both
    sides have a watermark and the condition bounds their times, so that Spark can drop old rows.
    """
    delay = f"{LATENESS} seconds"
    return bucketed(streams, left.withWatermark("ts", delay), right.withWatermark("ts", delay))


def bucketed(streams: Streams, left: DataFrame, right: DataFrame) -> DataFrame:
    """An equality join on buckets of the key, with the band and the interval as filters."""
    lower, upper = streams.workload.lower, streams.workload.upper
    width = _WIDE * streams.workload.width
    key, time, other, other_time = (
        F.col("key").cast("bigint"),
        F.col("ts"),
        F.col("key_right").cast("bigint"),
        F.col("ts_right"),
    )
    length = F.expr(f"interval {LENGTH} seconds")
    reach = F.sequence(F.floor((key + lower) / width), F.floor((key + upper) / width))
    copied = left.withColumn("bucket", F.explode(reach))
    home = right.select(
        *(F.col(name).alias(f"{name}_right") for name in COLUMNS),
        F.floor(F.col("key").cast("bigint") / width).alias("bucket"),
    )
    near = other.between(key + lower, key + upper) & other_time.between(time - length, time + length)
    return copied.join(home, "bucket").where(near).drop("bucket")


# --- A task that does nothing ---


def empty(streams: Streams, left: DataFrame, right: DataFrame) -> DataFrame:
    """The plan of our join, with a task that reads its rows, drops them, and keeps no state.

    It hands out as many rows as the join would in full windows, made in advance. What it takes is what any
    task would that is reached this way.
    """
    prepared = prepare(
        left, right, streams.on, streams.interval, "inner", ("", "_right"), None, None, "unused", "join"
    )
    schema, rate = prepared.recipe.output, 2 * streams.matches

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The tag ends in the side.
        home = sum(int((batch.column(0).to_numpy() & 1).sum()) for batch in batches)
        wanted, ready = round(home * rate), _ready(schema)
        for start in range(0, wanted, ready.num_rows):
            yield ready.slice(0, wanted - start)

    return crossing(prepared.recipe, left, right).mapInArrow(drop, prepared.output)


@functools.cache
def _ready(schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a result."""
    zeros = pa.array(np.zeros(ROWS, np.int64))
    return pa.RecordBatch.from_arrays([zeros.cast(field.type) for field in schema], schema=schema)
