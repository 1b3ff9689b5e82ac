"""Runs streaming queries in a Spark of its own: one process of the Spark benchmark.

It imports nothing of ``benchmarks`` unless a contender of there is asked for, so that the Python of another
checkout can run it with its own slidejoin. Its argument is a JSON object with the settings of the session.
It prints ``{"ready": true, "package": folder}``; then it answers each line of standard input, a JSON object
whose ``do`` is ``start``, ``active``, ``progress``, ``stop`` or ``cpu``, with a line.
"""

import importlib
import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import slidejoin as sj
from slidejoin.run.session import local_session

TRIGGER = "1 second"


class Queries:
    """The queries of a session, by their names."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._running: dict[str, Any] = {}

    def start(self, name: str, settings: dict[str, str], folder: str, **options: Any) -> dict[str, Any]:
        """Start a query on the files that will come to ``folder/left`` and ``folder/right``."""
        for setting, value in settings.items():
            self._spark.conf.set(setting, value)
        # Spark keeps Python workers apart by their environment. Each query has its own, as if it were alone:
        # else a worker's caches would be emptied by the others' turns.
        self._spark.sparkContext.environment["SLIDEJOIN_BENCH"] = name
        left, right = (self._stream(f"{folder}/{side}", options["schema"]) for side in ("left", "right"))
        result = _joined(left, right, folder, options)
        if options["summed"]:
            functions = importlib.import_module("pyspark.sql.functions")
            sums = [
                functions.coalesce(functions.sum(column), functions.lit(0)) for column in ("id", "id_right")
            ]
            result = result.observe("sums", *sums)
        writer = result.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        self._running[name] = writer.trigger(processingTime=TRIGGER).start()
        return {"id": str(self._running[name].id)}

    def active(self, name: str) -> dict[str, Any]:
        """Whether a query runs, and if not, why."""
        query = self._running[name]
        return {"active": query.isActive, "error": None if query.isActive else str(query.exception())}

    def progress(self, name: str) -> dict[str, Any]:
        """Spark's reports of micro-batches; not those of looks that found no files."""
        query = self._running[name]
        query.processAllAvailable()  # the last report comes after its commit
        return {"progress": [each for each in query.recentProgress if each["numInputRows"]]}

    def stop(self, name: str) -> dict[str, Any]:
        """Stop a query."""
        self._running.pop(name).stop()
        return {}

    def cpu(self) -> dict[str, Any]:
        """Processor time of Spark and its Python workers so far."""
        return {"seconds": _seconds_of_children()}

    def _stream(self, folder: str, schema: str) -> Any:
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def _joined(left: Any, right: Any, folder: str, options: dict[str, Any]) -> Any:
    if options["kind"] != "join":
        contenders = importlib.import_module("benchmarks.spark_contenders")
        return contenders.joined(options["kind"], left, right, options["window"], options["matches"])
    join = importlib.import_module("slidejoin.spark").join
    on = sj.band("key", lower=options["lower"], upper=options["upper"])
    length = f"{options['length']}s"
    window = sj.interval(length, length, time="ts", lateness=f"{options['lateness']}s")
    has_state_dir = "state_dir" in inspect.signature(join).parameters
    return join(
        left, right, on=on, window=window, **({"state_dir": f"{folder}/state"} if has_state_dir else {})
    )


def _seconds_of_children() -> float | None:
    """Processor time of all processes below this one, with those that have ended; Linux only."""
    times, parents = {}, {}
    try:
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                for pid, parent, seconds in _times_of(process):
                    times[pid], parents[pid] = seconds, parent
    except OSError:
        return None
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(times[pid] for pid in below - {os.getpid()} if pid in times) or None


def _times_of(process: Path) -> Iterator[tuple[int, int, float]]:
    try:
        words = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return
    yield int(process.name), int(words[1]), sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def _serve(queries: Queries, answers: TextIO) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(queries, command.pop("do"))(**command)
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


def main() -> None:
    """Start Spark, then do what is asked."""
    with os.fdopen(os.dup(1), "w") as answers:  # others may write to standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with local_session("slidejoin benchmark", json.loads(sys.argv[1])) as spark:
            answers.write(json.dumps({"ready": True, "package": str(Path(sj.__file__).parent)}) + "\n")
            answers.flush()
            _serve(Queries(spark), answers)


if __name__ == "__main__":
    main()
