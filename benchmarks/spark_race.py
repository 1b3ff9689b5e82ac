"""Micro-batches of several queries by turns: batch 0 of each, then batch 1 of each, and so on.

All queries live in one session. Every one of them has its input folders, into which a micro-batch's files are
linked when it is its turn, and nothing is due for the others meanwhile. So what is compared has the same
number, the same rows and the same warm-up, and ran within seconds on a machine whose load comes and goes.
The time of a micro-batch is Spark's own: all that it does from looking for files to its last commit.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark_contenders import Contender
from benchmarks.spark_files import SCHEMA, Answer, Streams, file_of
from slidejoin.errors import StateError
from slidejoin.keys.extract import SIDES

# Spark looks for files at every full second. Files that are linked in between are seen by one look, so that
# no micro-batch has those of one side only.
_TRIGGER = "1 second"
_FEED = (0.4, 0.6)
_PATIENCE = 600.0  # seconds for one micro-batch
_ABOUT = 0.1  # share of rows that an operator which does not join may hand out too many or too few

SETTINGS = {
    # Streams that never pause have no micro-batches without rows.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@dataclass(frozen=True)
class Run:
    """What one query took and found, by micro-batch."""

    seconds: list[float]
    answers: list[Answer]


def race(
    spark: SparkSession,
    streams: Streams,
    folder: Path,
    contenders: Sequence[Contender],
    full: int,
    summed: bool,
) -> dict[str, Run]:
    """Let the contenders join the streams; every answer is checked.

    Parameters
    ----------
    folder : Path
        Has the files of the streams. Each contender gets a folder in it, with its checkpoint.
    full : int
        The first micro-batch that meets full windows, from which on operators that do not join are checked.
    summed : bool
        Whether ids are added up. Rows are counted by the sink in any case, at no cost; sums take some 5 % of
        the time.
    """
    with ExitStack() as queries:
        running = []
        for contender in contenders:  # one by one: the first micro-batch starts workers and compiles
            query = queries.enter_context(_Query.started(spark, contender, folder, summed))
            query.feed(0)
            running.append(query)
        for number in range(1, len(streams.batches)):
            for query in running:
                query.feed(number)
        runs = {query.contender.name: query.run(streams) for query in running}
    expected = streams.answers()
    for contender in contenders:
        answers = runs[contender.name].answers
        if contender.joins:
            check(contender.name, answers, expected)
        else:
            check_about(contender.name, answers[full:], expected[full:])
    return runs


def restarted(spark: SparkSession, streams: Streams, folder: Path, contender: Contender) -> float:
    """Go on with a contender's query of an earlier race; the seconds until its next micro-batch is done.

    The files of this micro-batch, the last one of the streams, are there when the query starts.
    """
    number = len(streams.batches) - 1
    link(folder, contender, number)
    begin = time.time()
    with _Query.started(spark, contender, folder, summed=True) as query:
        query.wait(number)
        progress = query.progresses()[number]
    check(contender.name, [_answer(progress)], streams.answers()[number:])
    started = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return started - begin + _seconds(progress)


def check(name: str, found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    """Raise where a contender has not found what the embedded engine finds."""
    for mine, right in zip(found, expected, strict=True):
        if mine.matches != right.matches or mine.checksum not in (right.checksum, None):
            raise StateError(
                f"{name}: (matches, checksum) are {tuple(mine)}, the embedded engine finds {tuple(right)}; "
                "one is wrong, and its speed means nothing"
            )


def check_about(name: str, found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    """Raise where an operator that does not join hands out too many rows, or too few."""
    mine, right = (sum(answer.matches for answer in answers) for answers in (found, expected))
    if abs(mine - right) > _ABOUT * right:
        raise StateError(f"{name} hands out {mine} rows, the join {right}; it must be about as many")


class _Query:
    """A contender's query."""

    def __init__(self, spark: SparkSession, contender: Contender, stock: Path, summed: bool) -> None:
        self.contender = contender
        self._stock = stock
        self._checkpoint = folder_of(stock, contender) / "checkpoint"
        for setting, value in contender.settings.items():
            spark.conf.set(setting, value)
        # Spark keeps Python workers apart by their environment. Each query has its own, as if it were alone:
        # else a worker's cache would be emptied by the others' turns.
        spark.sparkContext.environment["SLIDEJOIN_BENCH"] = contender.name
        result = contender.join(*(_stream(spark, folder_of(stock, contender) / side) for side in SIDES))
        if summed:
            result = result.observe("sums", *id_sums())
        self._query = (
            result.writeStream.format("noop")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=_TRIGGER)
            .start()
        )

    @classmethod
    @contextmanager
    def started(
        cls, spark: SparkSession, contender: Contender, stock: Path, summed: bool
    ) -> Iterator["_Query"]:
        query = cls(spark, contender, stock, summed)
        try:
            yield query
        finally:
            query._query.stop()

    def feed(self, number: int) -> None:
        """Hand over the files of a micro-batch, and wait until it is done."""
        while not _FEED[0] <= time.time() % 1 < _FEED[1]:
            time.sleep(0.01)
        link(self._stock, self.contender, number)
        self.wait(number)

    def wait(self, number: int) -> None:
        """Wait until a micro-batch is done: that its commit is there is seen without a call to Spark."""
        done = self._checkpoint / "commits" / str(number)
        end = time.monotonic() + _PATIENCE
        while not done.exists():
            if not self._query.isActive:
                raise self._query.exception() or StateError(f"{self.contender.name} has stopped")
            if time.monotonic() > end:
                raise StateError(f"{self.contender.name}: micro-batch {number} took over {_PATIENCE} s")
            time.sleep(0.02)

    def progresses(self) -> dict[int, Any]:
        """Spark's reports of micro-batches, by their numbers; not those of looks that found no files."""
        self._query.processAllAvailable()  # the last report comes after its commit
        return {each["batchId"]: each for each in self._query.recentProgress if each["numInputRows"]}

    def run(self, streams: Streams) -> Run:
        """What the query took and found."""
        reports = self.progresses()
        rows = [progress["numInputRows"] for progress in reports.values()]
        if rows != list(streams.batches):
            raise StateError(
                f"{self.contender.name}: micro-batches had {rows} rows, expected {list(streams.batches)}; "
                "Spark looked for files while they were linked, run the benchmark again"
            )
        return Run(
            [_seconds(progress) for progress in reports.values()],
            [_answer(progress) for progress in reports.values()],
        )


def id_sums() -> list[Column]:
    """The sums of both sides' ids, of the columns of a result."""
    return [F.coalesce(F.sum(column), F.lit(0)) for column in ("id", "id_right")]


def folder_of(stock: Path, contender: Contender) -> Path:
    """Where a contender has its input and its checkpoint."""
    return stock / contender.name.replace(" ", "-").replace(",", "")


def link(stock: Path, contender: Contender, number: int) -> None:
    """Put the files of a micro-batch where a contender's query finds them."""
    for side in SIDES:
        os.link(file_of(stock, side, number), file_of(folder_of(stock, contender), side, number))


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _seconds(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000


def _answer(progress: Any) -> Answer:
    matches = progress["sink"]["numOutputRows"]
    sums = progress["observedMetrics"].get("sums")
    return Answer(matches, None) if sums is None else Answer.of(matches, *sums)
