"""The join of two sets of files on local Spark: as batches, or as streams with a checkpoint.

Spark reads the same columns in the same types as the embedded engine: those of ``files``. A batch result is
published as a whole. A stream continues after an earlier run, with the files that are new since then: its
checkpoint is the directory ``<output>.checkpoint``, and Spark's sink appends to the output.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from slidejoin.errors import SchemaError, SpecError
from slidejoin.run.files import Input
from slidejoin.run.formats import DELIMITERS
from slidejoin.run.job import Job, Summary
from slidejoin.run.live_page import live_page
from slidejoin.run.output import published
from slidejoin.run.progress import RowProgress
from slidejoin.run.session import check_spark, local_session
from slidejoin.run.target import check_free

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL_SECONDS = 0.2
_OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {},
    # As the embedded engine reads them: a value that does not fit its column is an error, not a null.
    "csv": {"header": "true", "mode": "FAILFAST", "escape": '"', "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}
_OPTIONS["tsv"] = {**_OPTIONS["csv"], "sep": "\t"}


def run(
    job: Job,
    console: Console,
    partitions: int | None = None,
    stream: bool = False,
    files_per_batch: int | None = None,
    watch_port: int | None = None,
) -> Summary:
    """Join and show progress.

    Parameters
    ----------
    partitions : int, optional
        Tasks that run side by side; otherwise one for each core.
    stream : bool
        Whether the files are streams: read in micro-batches, with a checkpoint.
    files_per_batch : int, optional
        Files of each side in one micro-batch; otherwise all that are there. Spark takes the oldest first.
    watch_port : int, optional
        Where to serve a live page of a stream; 0 for any port that is free.
    """
    if not job.target.is_directory or job.target.path is None:
        raise SpecError(
            f"Spark writes a directory of Parquet files, not {job.target.name}; give --output a name without "
            "an ending, or use --engine embedded"
        )
    if not job.has_window:
        raise SpecError("Spark joins over a window; give --window, or use --engine embedded")
    if job.sorts:
        raise SpecError("Spark orders rows by the time of the window itself; leave --sort-by out")
    if not job.spec.window.uses_time:
        raise SpecError(
            "Spark has no order of rows that rows(...) could count in; use interval(...) or within(...), or "
            "--engine embedded"
        )
    for side in job.inputs:
        if side.format == "arrow":
            raise SpecError(f"Spark does not read Arrow files such as {side.name}; use --engine embedded")
        _refuse_nanoseconds(side)
    if watch_port is not None and not stream:
        raise SpecError("on Spark --watch shows micro-batches; give --stream, or use --engine embedded")
    check_spark()
    if stream:
        if job.left.spool or job.right.spool:
            raise SpecError(
                "--stream reads files that come later; standard input (-) is read once, name files"
            )
        return _run_stream(job, console, partitions, files_per_batch, watch_port)
    return _run_batch(job, console, partitions)


def _run_batch(job: Job, console: Console, partitions: int | None) -> Summary:
    counts = [side.count_rows() for side in job.inputs]
    with published(job.target, job.overwrite) as directory:
        assert directory is not None, "checked before"
        console.print("starting Spark", highlight=False)
        with local_session("slidejoin run") as session:
            begin = time.perf_counter()
            left, right = (_reader(side, session.read).load(list(side.files)) for side in job.inputs)
            result = _joined(job, left, right, partitions, None)
            with _stages_shown(session, console):
                result.write.mode("overwrite").parquet(str(directory))
            seconds = time.perf_counter() - begin
        parts = sorted(directory.glob("*.parquet"))
        rows = sum(pq.read_metadata(part).num_rows for part in parts)
    return Summary("Spark, batch", counts[0], counts[1], rows, len(parts), seconds, job.target.name)


def _run_stream(
    job: Job,
    console: Console,
    partitions: int | None,
    files_per_batch: int | None,
    watch_port: int | None,
) -> Summary:
    assert job.target.path is not None, "checked before"
    output = job.target.path.absolute()
    checkpoint = output.with_name(output.name + ".checkpoint")
    state = checkpoint / "slidejoin-state"
    if not job.overwrite:  # otherwise the old result is removed after all checks
        if checkpoint.exists():
            console.print(f"going on from {checkpoint}", highlight=False, markup=False, soft_wrap=True)
        else:
            check_free(job.target, overwrite=False)
    console.print("starting Spark", highlight=False)
    from slidejoin.spark import watch as serve
    from slidejoin.spark.micro_batches import MicroBatches

    with local_session("slidejoin run") as session:
        begin = time.perf_counter()
        left, right = (_stream(session, side, files_per_batch) for side in job.inputs)
        result = _joined(job, left, right, partitions, state)
        for directory in (output, checkpoint):
            if job.overwrite and directory.exists():
                shutil.rmtree(directory)
        query = (
            result.writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(output))
        )
        watch = MicroBatches(query, state)
        with (
            live_page(watch_port, lambda port: serve(query, state, port=port), console),
            RowProgress(console, None) as progress,
        ):
            is_over = False
            while not is_over:
                is_over = query.awaitTermination(_POLL_SECONDS)
                for batch in watch.new():
                    progress.note(batch.line(), watch.total("rows"), watch.total("matches"))
        seconds = time.perf_counter() - begin
        committed = session.read.schema(result.schema).parquet(str(output))
        rows, files = committed.count(), len(committed.inputFiles())
    notes = [f"checkpoint in {checkpoint}: the same command goes on with files that have come since"]
    late = watch.total("late")
    if late:
        notes.append(f"{late:,} late rows were dropped: they were behind the watermark")
    if job.spec.join_type.returns_unmatched and watch.stored:
        notes.append(f"{watch.stored:,} rows are still in the window; those without a partner come out later")
    return Summary(
        engine="Spark, stream",
        left_rows=watch.total("left_rows"),
        right_rows=watch.total("right_rows"),
        result_rows=rows,
        files=files,
        seconds=seconds,
        output=job.target.name,
        late_rows=late,
        notes=notes,
    )


def _joined(
    job: Job, left: "DataFrame", right: "DataFrame", partitions: int | None, state: Path | None
) -> "DataFrame":
    from slidejoin.spark import join

    result = join(
        left,
        right,
        on=job.spec.on,
        window=job.spec.window,
        how=job.spec.how,
        suffixes=job.spec.suffixes,
        partitions=partitions,
        state_dir=state,
    )
    return result.select(*(f"`{name.replace('`', '``')}`" for name in job.columns))


def _stream(session: "SparkSession", side: Input, files_per_batch: int | None) -> "DataFrame":
    reader = _reader(side, session.readStream)
    if side.format == "parquet":
        reader = reader.schema(session.read.parquet(*side.files).schema)
    reader = reader.option("recursiveFileLookup", "true")  # with it, a=1 in a path is not a column
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    return reader.load(str(Path(side.path).absolute()))


def _reader(side: Input, reader: Any) -> Any:
    """A reader of Spark with the format and, for text formats, the types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = reader.format("csv" if side.format in DELIMITERS else side.format).options(
        **_OPTIONS[side.format]
    )
    if side.format != "parquet":
        reader = reader.schema(from_arrow_schema(side.schema, prefer_timestamp_ntz=True))
    return reader


def _refuse_nanoseconds(side: Input) -> None:
    for field in side.schema:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise SchemaError(
                f"{side.path} has nanoseconds in {field.name!r}, which Spark does not read; write it with "
                "coerce_timestamps='us', or use --engine embedded"
            )


@contextmanager
def _stages_shown(session: "SparkSession", console: Console) -> Iterator[None]:
    """Show every second how many tasks of the running stages are done."""
    tracker, over = session.sparkContext.statusTracker(), threading.Event()

    def show() -> None:
        shown = ""
        with RowProgress(console, None) as progress:
            while not over.wait(1.0):
                stages = [(stage, tracker.getStageInfo(stage)) for stage in tracker.getActiveStageIds()]
                text = "  ".join(
                    f"stage {stage}: {info.numCompletedTasks} of {info.numTasks} tasks"
                    for stage, info in stages
                    if info is not None
                )
                if text and text != shown:
                    progress.show(text)
                    shown = text

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
