"""A run that was interrupted or killed goes on where it was.

A snapshot has the state of the join, how many rows of each input it has joined, and how far the output is.
It is written to the run's hidden directory from time to time, and on Ctrl-C. A run that continues cuts the
output to what the snapshot tells, reads the inputs again up to their places, and goes on: the result is that
of a run without a break. Cost of a snapshot: a copy of the window on the disk; the output is synced.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from slidejoin.errors import SpecError, StateError
from slidejoin.live import LiveJoin
from slidejoin.run.files import Input
from slidejoin.run.job import Job
from slidejoin.run.merge import Merge
from slidejoin.run.output import STATE
from slidejoin.run.write import PartWriter, StreamWriter
from slidejoin.snapshot.save import SnapshotWriter, restored
from slidejoin.window import parse_duration

SNAPSHOT_SECONDS = 300.0
_START_ANEW = "repeat its command, or start anew with --overwrite"


def seconds_of(every: str) -> float:
    """Read ``--snapshot-every``.

    Examples
    --------
    >>> seconds_of("1.5min")
    90.0
    """
    try:
        nanoseconds, _ = parse_duration(every)
    except SpecError as error:
        raise SpecError(f"--snapshot-every: {error}") from None
    if nanoseconds < 0:
        raise SpecError(f"--snapshot-every {every!r} is negative; expected a duration such as 30s, or 0s")
    return float(nanoseconds / 10**9)


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C, after the state was saved."""


class Saved(NamedTuple):
    """What a snapshot holds."""

    join: LiveJoin
    joined: list[int]  # rows of each side
    output: dict[str, int]  # how far the writer is


class Recovery:
    """The snapshots of a run.

    Parameters
    ----------
    job : Job
        What is run. Runs that read standard input, write standard output or have no window are not saved.
    place : Path, optional
        Where the result is written; snapshots are beside it.
    every : float
        Seconds between two of them; 0 for none but on Ctrl-C.
    """

    def __init__(self, job: Job, place: Path | None, every: float) -> None:
        self._job, self._every = job, every
        can_save = job.has_window and not any(side.spool for side in job.inputs)
        self._path = place.with_name(STATE) if place is not None and can_save else None
        self._last = time.monotonic()
        self._is_interrupted = False

    def load(self) -> Saved | None:
        """The last snapshot, if there is one; StateError if it is of another run."""
        if self._path is None or not self._path.exists():
            return None
        read = restored(self._path, None, None)
        try:
            note: dict[str, Any] = json.loads(read.note or "")
            job, joined, output = note["job"], note["joined"], note["output"]
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{self._path} is not the state of a run; start anew with --overwrite") from None
        now = _description(self._job)
        if job != now:
            other = ", ".join(name for name in now if job.get(name) != now[name])
            raise StateError(f"the interrupted run was another one: {other} differ; {_START_ANEW}")
        return Saved(read.live, joined, output)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let the first Ctrl-C wait for the next snapshot; a second one ends the run at once."""
        if self._path is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def interrupt(*_: object) -> None:
            self._is_interrupted = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def is_due(self) -> bool:
        """Whether it is time for a snapshot, or there was a Ctrl-C."""
        if self._path is None:
            return False
        return self._is_interrupted or 0 < self._every <= time.monotonic() - self._last

    def save(self, merge: Merge, writer: StreamWriter | PartWriter) -> None:
        """Write a snapshot. If there was a Ctrl-C, Interrupted is raised then."""
        assert self._path is not None
        note = {"job": _description(self._job), "joined": merge.joined, "output": writer.save()}
        SnapshotWriter(merge.join).whole(None, self._path, json.dumps(note))
        self._last = time.monotonic()
        if self._is_interrupted:
            raise Interrupted(
                f"interrupted after {merge.rows:,} rows; continue with the same command and --resume"
            )


def _description(job: Job) -> dict[str, Any]:
    """What must be equal for a run to be continued, by the names of options."""
    target = job.target
    described = {
        "left input": _files(job.left),
        "right input": _files(job.right),
        "condition, window or join type": job.spec.to_json(),
        "--columns": job.columns,
        "--sort-by or --merge-by": [list(job.arrive_by or ()), job.sorts],
        "--output-format": [target.format, target.is_directory, target.is_stream],
    }
    copied: dict[str, Any] = json.loads(json.dumps(described))  # tuples become lists, as in the snapshot
    return copied


def _files(files: Input) -> list[Any]:
    """The files with their sizes and times of change, and the columns."""
    stats = [(os.path.abspath(file), os.stat(file)) for file in files.files]
    columns = [[field.name, str(field.type)] for field in files.schema]
    return [[[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats], columns]
