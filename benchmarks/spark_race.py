"""Micro-batches of several queries by turns: batch 0 of each, then batch 1 of each, and so on.

Queries run in processes (``spark_worker``), each with a Spark of its own. Every query has its input folders,
into which a micro-batch's files are linked when it is its turn, and nothing is due for the others meanwhile.
So what is compared has the same number, the same rows and the same warm-up, and ran within seconds on a
machine whose load comes and goes. The time of a micro-batch is Spark's own: all that it does from looking for
files to its last commit.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.peer import ROOT, Program
from benchmarks.spark_contenders import Contender
from benchmarks.spark_files import LATENESS, LENGTH, SCHEMA, Answer, Streams, file_of
from slidejoin.errors import StateError
from slidejoin.keys.extract import SIDES

# Spark looks for files at every full second. Files that are linked in between are seen by one look, so that
# no micro-batch has those of one side only.
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
    """What one query took and found, by micro-batch.

    Attributes
    ----------
    seconds : list of float
        Of each micro-batch.
    answers : list of Answer
        What it found.
    cpu : list of float
        Processor time of the whole process in its turns; none where the system does not tell.
    state : Path
        Where slidejoin's join keeps its rows.
    """

    seconds: list[float]
    answers: list[Answer]
    cpu: list[float] = field(default_factory=list)
    state: Path = Path()


class Session(Program):
    """A process with a Spark.

    Parameters
    ----------
    settings : mapping
        Of the session.
    python : str, optional
        The Python of another checkout, whose slidejoin joins there.
    """

    def __init__(self, settings: Mapping[str, str], python: str | None = None) -> None:
        worker = str(Path(__file__).with_name("spark_worker.py"))
        command = [python or sys.executable, *(["-I"] if python else []), worker]
        environment = {"PYSPARK_PYTHON": command[0], **({} if python else {"PYTHONPATH": str(ROOT)})}
        super().__init__(
            [*command, json.dumps({**settings, **SETTINGS})],
            environment,
            f"check that {command[0]} imports slidejoin.spark, and that Java is there",
        )

    def ask(self, do: str, **options: Any) -> dict[str, Any]:
        """Let the process do something, and return what it answers."""
        return self.run(json.dumps({"do": do, **options}))


Entry = tuple[Session, Contender]


def race(streams: Streams, folder: Path, entries: Sequence[Entry], full: int, summed: bool) -> dict[str, Run]:
    """Let the contenders join the streams; every answer is checked.

    Parameters
    ----------
    folder : Path
        Has the files of the streams. Each contender gets a folder in it, with its checkpoint.
    entries : sequence of (Session, Contender)
        Who runs where.
    full : int
        The first micro-batch that meets full windows, from which on operators that do not join are checked.
    summed : bool
        Whether ids are added up. Rows are counted by the sink in any case, at no cost; sums take some 5 % of
        the time.
    """
    with ExitStack() as queries:
        running = []
        for entry in entries:  # one by one: the first micro-batch starts workers and compiles
            running.append(queries.enter_context(Query.started(*entry, streams, folder, summed, first=0)))
            running[-1].wait(0)
        for number in range(1, len(streams.batches)):
            for query in running:
                query.feed(number)
        runs = {query.contender.name: query.finished() for query in running}
    expected = streams.answers()
    for _, contender in entries:
        answers = runs[contender.name].answers
        if contender.joins:
            check(contender.name, answers, expected)
        else:
            check_about(contender.name, answers[full:], expected[full:])
    return runs


def restarted(
    session: Session, streams: Streams, number: int, folder: Path, contender: Contender, expected: Answer
) -> float:
    """Go on with a contender's query of an earlier race; the seconds until its next micro-batch is done.

    The files of this micro-batch are there when the query starts.
    """
    begin = time.time()
    with Query.started(session, contender, streams, folder, summed=True, first=number) as query:
        query.wait(number)
        progress = query.progress()[-1]
    if contender.joins:
        check(contender.name, [_answer(progress)], [expected])
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


class Query:
    """A contender's query. The files of its first micro-batch are there before it looks for them."""

    def __init__(
        self, session: Session, contender: Contender, streams: Streams, stock: Path, summed: bool, first: int
    ) -> None:
        self.contender = contender
        self._session = session
        self._streams = streams
        self._stock = stock
        self._folder = folder_of(stock, contender)
        self._cpu: list[float] = []
        link(stock, contender, first)
        answer = session.ask(
            "start",
            name=contender.name,
            kind=contender.kind,
            settings=dict(contender.settings),
            folder=str(self._folder),
            schema=SCHEMA,
            window=streams.window,
            matches=streams.matches,
            lower=streams.workload.lower,
            upper=streams.workload.upper,
            length=LENGTH,
            lateness=LATENESS,
            summed=summed,
        )
        self._id = answer["id"]

    @classmethod
    @contextmanager
    def started(
        cls, session: Session, contender: Contender, streams: Streams, stock: Path, summed: bool, first: int
    ) -> Iterator["Query"]:
        yield cls(session, contender, streams, stock, summed, first)
        session.ask("stop", name=contender.name)  # after an error the session is closed instead

    def feed(self, number: int) -> None:
        """Hand over the files of a micro-batch, and wait until it is done."""
        while not _FEED[0] <= time.time() % 1 < _FEED[1]:
            time.sleep(0.01)
        before = self._session.ask("cpu")["seconds"]
        link(self._stock, self.contender, number)
        self.wait(number)
        if before is not None:
            self._cpu.append(self._session.ask("cpu")["seconds"] - before)

    def wait(self, number: int) -> None:
        """Wait until a micro-batch is done: that its commit is there is seen without a call to Spark."""
        done = self._folder / "checkpoint" / "commits" / str(number)
        end = time.monotonic() + _PATIENCE
        polls = 0
        while not done.exists():
            polls += 1
            if polls % 50 == 0:
                state = self._session.ask("active", name=self.contender.name)
                if not state["active"]:
                    raise StateError(f"{self.contender.name} has stopped: {state['error']}")
            if time.monotonic() > end:
                raise StateError(f"{self.contender.name}: micro-batch {number} took over {_PATIENCE} s")
            time.sleep(0.02)

    def progress(self) -> list[Any]:
        """Spark's reports of micro-batches with rows."""
        found: list[Any] = self._session.ask("progress", name=self.contender.name)["progress"]
        return found

    def finished(self) -> Run:
        """What the query took and found."""
        reports = self.progress()
        rows = [progress["numInputRows"] for progress in reports]
        if rows != list(self._streams.batches):
            raise StateError(
                f"{self.contender.name}: micro-batches had {rows} rows, expected "
                f"{list(self._streams.batches)}; Spark looked for files while they were linked, run the "
                "benchmark again"
            )
        return Run(
            [_seconds(progress) for progress in reports],
            [_answer(progress) for progress in reports],
            self._cpu,
            self._folder / "state" / self._id / "join",
        )


def folder_of(stock: Path, contender: Contender) -> Path:
    """Where a contender has its input and its checkpoint."""
    return stock / contender.name.replace(" ", "-").replace(",", "")


def link(stock: Path, contender: Contender, number: int) -> None:
    """Put the files of a micro-batch where a contender's query finds them."""
    for side in SIDES:
        file = file_of(folder_of(stock, contender), side, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        os.link(file_of(stock, side, number), file)


def _seconds(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000


def _answer(progress: Any) -> Answer:
    matches = progress["sink"]["numOutputRows"]
    sums = progress["observedMetrics"].get("sums")
    return Answer(matches, None) if sums is None else Answer.of(matches, *sums)
