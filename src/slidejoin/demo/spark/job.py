"""The job: files arrive, a streaming query joins them, the result is read back and checked."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from slidejoin.demo.spark.check import find_failure
from slidejoin.demo.spark.feed import AFTER, BEFORE, Feed, Setup, generate
from slidejoin.run.live_page import live_page
from slidejoin.run.progress import RowProgress
from slidejoin.run.session import check_spark, local_session
from slidejoin.run.target import Target, check_free

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from slidejoin.spark.micro_batches import MicroBatch, MicroBatches

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Summary:
    """The figures of the run, and whether the result is right."""

    setup: Setup
    batches: "list[MicroBatch]"
    results: int
    seconds: float
    output: Path
    failure: str | None

    def print(self, console: Console) -> None:
        """Print the table."""
        busy = [batch for batch in self.batches if batch.rows]
        times = np.array([batch.seconds for batch in busy])
        rates = np.array([batch.rows / batch.seconds for batch in busy])
        table = Table("trades and quotes joined on Spark", "")
        table.columns[1].justify = "right"
        for what, value in (
            ("rows", f"{self.setup.rows:,}"),
            ("condition", f"same symbol, at most {self.setup.band} cents apart"),
            ("window", f"quotes from {BEFORE} s before to {AFTER} s after"),
            ("matches", f"{self.results:,}"),
            ("late rows", f"{sum(batch.late for batch in busy):,}"),
            ("micro-batches with rows", f"{len(busy)}"),
            ("their time, median", f"{np.median(times):.2f} s"),
            ("their time, longest", f"{times.max():.2f} s"),
            ("rows per second, median", f"{np.median(rates):,.0f}"),
            ("rows per second, all", f"{self.setup.rows / self.seconds:,.0f}"),
            ("most rows in the state", f"{max(batch.stored for batch in busy):,}"),
            ("check", "FAILED" if self.failure else "passed"),
        ):
            table.add_row(what, value)
        console.print(table)
        if not self.failure:
            _say(
                console,
                f"check passed: these are all {self.results:,} pairs that brute force finds, each once",
            )
        _say(console, f"result in {self.output}")


def run(
    setup: Setup,
    console: Console,
    output: Path | None = None,
    partitions: int | None = None,
    watch_port: int | None = None,
) -> Summary:
    """Generate, join and check.

    Parameters
    ----------
    output : path, optional
        Where the result goes; otherwise to a new temporary directory.
    partitions : int, optional
        Tasks that run side by side; otherwise one for each core.
    watch_port : int, optional
        Where to serve a live page; 0 for any port that is free.
    """
    check_spark()
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="slidejoin-demo-")) / "result"
    check_free(Target(output, "parquet", is_directory=True), overwrite=False)
    output = output.absolute()
    _say(console, f"generating {setup.rows:,} rows")
    feed = generate(setup)
    _say(console, f"starting Spark; the result goes to {output}")
    work = Path(tempfile.mkdtemp(prefix="slidejoin-demo-work-"))
    try:
        with local_session(
            "slidejoin demo", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
        ) as session:
            from slidejoin.spark import watch as serve
            from slidejoin.spark.micro_batches import MicroBatches

            _arrive(feed, 0, work)
            query = _start(session, setup, feed, work, output, partitions)
            watch = MicroBatches(query, work / "state")
            begin = time.perf_counter()
            with (
                live_page(watch_port, lambda port: serve(query, work / "state", port=port), console),
                RowProgress(console, setup.rows) as progress,
            ):
                for number in range(setup.batches):
                    if number + 1 < setup.batches:  # the next files are there before the micro-batch ends
                        _arrive(feed, number + 1, work)
                    _wait(query, watch, sum(arrived[number] for arrived in feed.arrived), progress)
                seconds = time.perf_counter() - begin
                query.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _say(console, "checking the result against brute force")
    result = pq.read_table(output)
    failure = find_failure(feed, setup.band, result)
    if failure is None and watch.total("matches") != len(result):
        failure = f"the result has {len(result):,} rows, but the join counted {watch.total('matches'):,}"
    return Summary(setup, list(watch.batches), len(result), seconds, output, failure)


def _start(
    session: "SparkSession", setup: Setup, feed: Feed, work: Path, output: Path, partitions: int | None
) -> "StreamingQuery":
    """The query: two directories of files in, their join out."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from slidejoin.spark import join

    streams: list[Any] = []
    for name, table in (("trades", feed.trades), ("quotes", feed.quotes)):
        reader = session.readStream.schema(from_arrow_schema(table.schema)).option("maxFilesPerTrigger", 1)
        streams.append(reader.parquet(str(work / name)))
    joined = join(
        streams[0],
        streams[1],
        on=setup.on,
        window=setup.window,
        partitions=partitions,
        state_dir=work / "state",
    )
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
    return writer.start(str(output))


def _arrive(feed: Feed, number: int, work: Path) -> None:
    """Write the files of a step; each appears complete."""
    renames = []
    for name, table in zip(("trades", "quotes"), feed.step(number), strict=True):
        (work / name).mkdir(exist_ok=True)
        hidden, file = work / name / f".{number:05}.parquet", work / name / f"{number:05}.parquet"
        pq.write_table(table, hidden)
        os.utime(hidden, (number + 1, number + 1))  # Spark takes the oldest file first
        renames.append((hidden, file))
    for hidden, file in renames:
        hidden.rename(file)


def _wait(query: "StreamingQuery", watch: "MicroBatches", rows: int, progress: RowProgress) -> None:
    """Wait until so many rows were joined, showing every micro-batch; raise what ended the query."""
    while watch.total("rows") < rows:
        is_over = query.awaitTermination(_POLL_SECONDS)  # raises if it has failed
        for batch in watch.new():
            if batch.rows:
                progress.note(batch.line(), watch.total("rows"), watch.total("matches"))
        if is_over:
            return


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
