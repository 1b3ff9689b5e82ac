"""Who runs in the Spark benchmark: our join, what users do without it, and an operator that does nothing."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from benchmarks.spark_files import COLUMNS, LATENESS, LENGTH, Streams
from slidejoin.spark import blobs, join, recipe, tasks
from slidejoin.spark.join import CHANGELOG, PROVIDER, ROCKSDB, unpacked
from slidejoin.spark.kept import GroupState
from slidejoin.spark.prepare import prepare, routed
from slidejoin.spark.tasks import GUARD

Join: TypeAlias = Callable[[DataFrame, DataFrame], DataFrame]

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
# Every contender on RocksDB has changelog checkpoints: without them a commit costs several times as much.
_ON_ROCKSDB = {PROVIDER: ROCKSDB, CHANGELOG: "true"}


@dataclass(frozen=True)
class Contender:
    """A way to join two streams.

    Attributes
    ----------
    name : str
        In lines of the report.
    join : function
        Makes the result, which has the columns of ours, of the left and the right stream.
    settings : mapping
        Of the session, when the query starts.
    joins : bool
        Whether it joins at all. If not, its answers are of about the right number of rows, and no more.
    """

    name: str
    join: Join
    settings: Mapping[str, str] = field(default_factory=dict)
    joins: bool = True


def ours(streams: Streams) -> Contender:
    """slidejoin; it makes its settings itself."""

    def run(left: DataFrame, right: DataFrame) -> DataFrame:
        return join(left, right, on=streams.on, window=streams.interval)

    return Contender("ours", run)


# --- What users do ---

# Width of a bucket, by that of the band. Of 1, 2 and 4 times the band, twice took the least CPU time on
# RocksDB, and no more than any other on the HDFS-backed store: in a wider bucket there are more candidates to
# filter, with narrower ones more left rows are copied and stored, by 1 / _WIDE of them.
_WIDE = 2


def work_around(streams: Streams, store: str) -> Contender:
    """Spark's own stream-stream join on buckets of the key; ``store`` is ``"HDFS-backed"`` or ``"RocksDB"``.

    As a skilled user writes it: a left row is copied to the buckets that its band reaches and no others, both
    sides have a watermark and the condition bounds their times, so that Spark can drop old rows.
    """

    def run(left: DataFrame, right: DataFrame) -> DataFrame:
        delay = f"{LATENESS} seconds"
        return bucketed(streams, left.withWatermark("ts", delay), right.withWatermark("ts", delay))

    settings = {PROVIDER: HDFS, _STATE_FORMAT: "2"} if store == "HDFS-backed" else _WORK_AROUND_ON_ROCKSDB
    return Contender(f"work-around, {store} store", run, settings)


_WORK_AROUND_ON_ROCKSDB = {**_ON_ROCKSDB, _STATE_FORMAT: "2"}


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


# --- An operator that does nothing ---


def empty(streams: Streams) -> Contender:
    """Our router, shuffle, store and way out, and between them an operator that joins nothing.

    It decodes its blobs and drops them, and hands out as many rows as the join would in full windows, made in
    advance. What it takes is what any operator would that is built this way.
    """

    def run(left: DataFrame, right: DataFrame) -> DataFrame:
        prepared = prepare(left, right, streams.on, streams.interval, "inner", ("", "_right"), None, None)
        plan = prepared.recipe
        results = (
            routed(prepared, tasks.route)
            .groupBy("group")
            .transformWithStateInPandas(
                _Empty(plan.to_json(), 2 * streams.matches),
                outputStructType="data binary",
                outputMode="Append",
                timeMode="EventTime",
            )
        )
        return unpacked(results, prepared)

    return Contender("empty operator", run, _ON_ROCKSDB, joins=False)


class _Empty(StatefulProcessor):  # type: ignore[misc]
    """Hands out ``rate`` rows for every row of the side at home, of which each is in one group."""

    def __init__(self, text: str, rate: float) -> None:
        self._text = text
        self._rate = rate

    def init(self, handle: Any) -> None:
        """Declare the state of the join, which stays empty."""
        self._state = GroupState(handle)
        self._recipe = recipe.read(self._text)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002
        """Decode blobs, and hand out ready rows."""
        count = 0
        for frame in rows:
            for side, blob in zip(frame["side"], frame["data"], strict=True):
                if key[0] != GUARD:
                    batch = blobs.decode(blob, self._recipe.schemas[side])
                    count += batch.num_rows if side == self._recipe.routing.home else 0
        wanted = round(count * self._rate)
        ready = _ready(self._text)
        while wanted > 0:
            batch = ready.slice(0, wanted)
            wanted -= batch.num_rows
            yield pd.DataFrame({"data": [blobs.encode(batch)]})

    def close(self) -> None:
        """Nothing is held."""


@functools.cache
def _ready(text: str) -> pa.RecordBatch:
    """Rows of a result, as many as a blob has."""
    zeros = pa.array(np.zeros(blobs.ROWS, np.int64))
    schema = recipe.read(text).output
    return pa.RecordBatch.from_arrays([zeros.cast(field.type) for field in schema], schema=schema)
