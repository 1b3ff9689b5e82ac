"""The call: two DataFrames in, the DataFrame of their join out."""

import importlib
import warnings
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from slidejoin.errors import SpecError
from slidejoin.join_type import How
from slidejoin.predicate import Predicate
from slidejoin.spark import tasks
from slidejoin.spark.batch import joined as batch_joined
from slidejoin.spark.metrics import observed
from slidejoin.spark.operator import RESULTS, JoinGroups
from slidejoin.spark.prepare import PARTITIONS, Prepared, prepare, routed
from slidejoin.window import Window

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_MANY = 64  # partitions from which on a micro-batch is slow by their number


def join(
    left: DataFrame,
    right: DataFrame,
    on: Predicate,
    window: Window,
    how: How = "inner",
    suffixes: tuple[str, str] = ("", "_right"),
    *,
    partitions: int | None = None,
    event_time: str | None = None,
) -> DataFrame:
    """Join two DataFrames on any ordered predicate: streams to a stream, batches to a batch.

    Parameters
    ----------
    left, right : DataFrame
        Both streaming or both batch.
    on : Predicate
        ``sj.band("price", within=0.5)``, ``sj.equal("symbol")`` and their like, joined by ``&``.
    window : Window
        ``sj.interval(before, after, time=...)`` on timestamps, or ``sj.within(d, time=...)``, which gives the
        same pairs as ``interval(d, d)``. Streams need a watermark: give ``lateness`` here, or call
        ``withWatermark`` on both of them. With ``late="return"`` late rows come out, too: the column ``late``
        names their side, and is null for results.
    how : str
        A name of ``slidejoin.How``.
    suffixes : (str, str)
        Added to names that both sides have.
    partitions : int, optional
        Groups that run side by side, fixed for the life of a checkpoint. Streams make it the session's
        ``spark.sql.shuffle.partitions``, which decides if nothing is given. About the number of cores is a
        good choice, since each costs at every micro-batch.
    event_time : str, optional
        Adds a column of this name with the later of both timestamps, which streaming operators behind the
        join take as event time with its watermark. Inner joins of streams.

    Returns
    -------
    DataFrame
        All left columns, then all right ones; semi and anti joins have the left ones.

    Raises
    ------
    SpecError, SchemaError
        Arguments that make no join, columns that do not fit: at this call, before any task.

    Notes
    -----
    Streams need Spark's RocksDB state store: the call makes it the session's, with changelog checkpoints.
    Cost: rows cross to Python in batches; a row is copied to other partitions only near a border of theirs.

    Examples
    --------
    ::

        from slidejoin.spark import join

        near = join(trades, quotes, on=sj.band("price", within=0.05),
                    window=sj.interval("2s", "2s", time="ts", lateness="10s"), partitions=4)
        near.writeStream.format("parquet").option("checkpointLocation", "chk").start("out")
    """
    prepared = prepare(left, right, on, window, how, suffixes, partitions, event_time)
    if not prepared.streaming:
        return batch_joined(prepared)
    _settle(prepared, partitions is not None)
    recipe = prepared.recipe
    operator = JoinGroups(recipe.to_json())
    results = (
        routed(prepared, tasks.route)
        .groupBy("group")
        .transformWithStateInPandas(
            operator, outputStructType=RESULTS, outputMode="Append", timeMode="EventTime"
        )
    )
    return unpacked(observed(results, recipe), prepared)


def _settle(prepared: Prepared, chosen: bool) -> None:
    """Make the session's settings those that Spark's stateful operator needs."""
    try:
        importlib.import_module("google.protobuf")  # without it Spark's worker would die without a word
    except ImportError as error:
        raise ImportError(
            "Spark's stateful operator needs protobuf: pip install 'slidejoin[spark]'"
        ) from error
    settings, wanted = prepared.left.sparkSession.conf, prepared.recipe.partitions
    if settings.get(PROVIDER, _HDFS) not in (_HDFS, ROCKSDB):
        raise SpecError(f"{PROVIDER} is {settings.get(PROVIDER)}; Spark's stateful operator needs {ROCKSDB}")
    settings.set(PROVIDER, ROCKSDB)
    settings.set(CHANGELOG, "true")
    if wanted >= _MANY and not chosen:
        warnings.warn(
            f"{wanted} partitions, by {PARTITIONS}: each costs some 0.1 s of a core at every micro-batch; "
            "give join(..., partitions=n), about the number of cores",
            stacklevel=3,
        )
    settings.set(PARTITIONS, str(wanted))


def unpacked(results: DataFrame, prepared: Prepared) -> DataFrame:
    """Blobs of results as rows."""
    text = prepared.recipe.to_json()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return tasks.unpack(text, batches)

    return results.select("data").mapInArrow(run, prepared.output)
