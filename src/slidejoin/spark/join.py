"""The call: two DataFrames in, the DataFrame of their join out."""

import os
import warnings
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from slidejoin.join_type import How
from slidejoin.predicate import Predicate
from slidejoin.spark import batch, task
from slidejoin.spark.arrivals import crossing
from slidejoin.spark.explain import explained
from slidejoin.spark.metrics import remember
from slidejoin.spark.prepare import PARTITIONS, Prepared, prepare
from slidejoin.window import Window

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
    state_dir: str | os.PathLike[str] | None = None,
    name: str = "join",
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Join two DataFrames on any ordered predicate: streams to a stream, batches to a batch.

    Parameters
    ----------
    left, right : DataFrame
        Both streaming or both batch.
    on : Predicate
        ``sj.band("price", within=0.5)``, ``sj.equal("symbol")`` and their like, joined by ``&``.
    window : Window
        ``sj.interval(before, after, time=...)``; for batches also ``sj.within(d, time=...)``, which gives the
        same pairs as ``interval(d, d)``. Streams need ``lateness``: how far rows may be behind the newest
        ones. With ``late="return"`` late rows come out, too: the column ``late`` names their side, and is
        null for results. With ``idle_after`` a side that is silent for so long does not hold the watermark
        back.
    how : str
        A name of ``slidejoin.How``.
    suffixes : (str, str)
        Added to names that both sides have.
    partitions : int, optional
        Partitions that run side by side; ``spark.sql.shuffle.partitions`` if nothing is given. About the
        number of cores is a good choice, since each costs at every micro-batch. A query may be started again
        with another number.
    event_time : str, optional
        Adds a column of this name with the later of both timestamps, which streaming operators behind the
        join take as event time with its watermark. Inner joins of streams.
    state_dir : path or URI, optional
        Streams: where the rows of the window are kept, in a folder for each query. A place that all executors
        reach: a path, or ``hdfs://``, ``s3://``, ``gs://``, ``abfs://``. It belongs to the checkpoint: keep
        both, or remove both. A folder in ``spark.sql.streaming.checkpointLocation``, if the session has that.
    name : str
        Tells several joins of one query apart: each needs its own.
    columns : list of str, optional
        Names of columns of the result, after suffixes, in the order in which they come out; all if None. What
        the join does not need is dropped before it crosses to Python, and is not in the state. A query is
        started again with columns that need the same columns of both sides.

    Returns
    -------
    DataFrame
        All left columns, then all right ones, or those of ``columns``; semi and anti joins have those of one
        side. The columns of ``event_time`` and ``late="return"`` come last.

    Raises
    ------
    SpecError, SchemaError
        Arguments that make no join, columns that do not fit: at this call, before any task.

    Notes
    -----
    Cost: rows cross to Python once. With a band, a row of one side is copied to another partition only near a
    border between cells, some 3 % of even keys; with comparisons alone, one side goes to all partitions.
    ``explain`` tells which. Each task costs some 20 ms of a core at every micro-batch.

    Examples
    --------
    ::

        from slidejoin.spark import join

        near = join(trades, quotes, on=sj.band("price", within=0.05),
                    window=sj.interval("2s", "2s", time="ts", lateness="10s"),
                    partitions=4, state_dir="near/state")
        near.writeStream.format("parquet").option("checkpointLocation", "near/checkpoint").start("near/out")
    """
    prepared = prepare(
        left, right, on, window, how, suffixes, partitions, event_time, state_dir, name, columns
    )
    recipe = prepared.recipe
    if prepared.streaming:
        remember(recipe.state_dir, recipe.name, explained(prepared))
        if recipe.partitions >= _MANY and partitions is None:
            warnings.warn(
                f"{recipe.partitions} partitions, by {PARTITIONS}: each costs some 20 ms of a core at every "
                "micro-batch; give join(..., partitions=n), about the number of cores",
                stacklevel=2,
            )
    result = _mapped(prepared)
    if prepared.picked is not None:
        result = prepared.picked.result(result, prepared.output.names[len(recipe.matched) :])
    if recipe.event_time is None:
        return result
    # The later row of a pair is at most `lateness` behind, and a pair's times are at most so far apart.
    # A millisecond more, as a row at its watermark is late to Spark.
    apart = max(abs(recipe.window.before), abs(recipe.window.after)) + (recipe.window.lateness or 0) + 10**6
    quoted = recipe.event_time.replace("`", "``")
    return result.withWatermark(f"`{quoted}`", f"{-(-apart // 10**6)} milliseconds")


def _mapped(prepared: Prepared) -> DataFrame:
    text = prepared.recipe.to_json()
    work = task.run if prepared.streaming else batch.run

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(text, batches)

    return crossing(prepared.recipe, prepared.left, prepared.right).mapInArrow(run, prepared.output)
