"""Snapshots of a run: when one is due, what its note tells, and how a later run goes on from it.

The note has the offset of each source, how many result rows were handed over, and the rows that were read and
wait for their turn. It is part of the join's snapshot, so both are of one moment. A source that had ended is
opened again at its offset: it ends again, or has grown.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slidejoin.errors import StateError, UsageError
from slidejoin.live import LiveJoin
from slidejoin.saved_join import SavedJoin
from slidejoin.snapshot.save import restored
from slidejoin.spec import JoinSpec

_KIND = "slidejoin run"
_VERSION = 1


@dataclass(frozen=True)
class Note:
    """How far a run was; all values are JSON's."""

    merge: str
    offsets: list[Any]  # of each source, after the rows that were read
    joined: list[Any]  # of each source, after the rows that were joined: the others wait
    marked: list[bool | None]  # whether a source tells its offsets itself
    result_rows: int = 0
    waiting: dict[str, Any] | None = None

    def to_text(self) -> str:
        """The note as it is saved."""
        try:
            return json.dumps({"kind": _KIND, "version": _VERSION, **self.__dict__}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"an offset cannot be saved ({error}); give Batch(rows, offset) a value that JSON has"
            ) from None

    @classmethod
    def from_text(cls, text: str | None) -> "Note | None":
        """The note of a run; None if this is the note of something else. StateError for a newer version."""
        try:
            values = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(values, dict) or values.pop("kind", None) != _KIND:
            return None
        version = values.pop("version", None)
        if version != _VERSION:
            raise StateError(f"the snapshot is of a run of version {version!r}, this one reads {_VERSION}")
        try:
            return cls(**values)
        except TypeError as error:
            raise StateError(f"the snapshot's note is not that of a run ({error})") from None


class Checkpoints:
    """When the snapshots of a run are written, and where.

    Parameters
    ----------
    path : Path, optional
        The file; None for no snapshots.
    every_rows, every_time : int, optional
        Rows joined, or nanoseconds, between two of them.
    clock : callable
        The time in nanoseconds.
    """

    def __init__(
        self, path: Path | None, every_rows: int | None, every_time: int | None, clock: Callable[[], int]
    ) -> None:
        self._path, self._every_rows, self._every_time, self._clock = path, every_rows, every_time, clock
        self._at, self._rows = clock(), 0  # of the last one

    def due_at(self, rows: int) -> int | None:
        """When the next one is due, by the clock, after so many rows; None if not before the next rows."""
        if self._path is None or rows == self._rows:
            return None
        if self._every_time is not None:
            return self._at + self._every_time
        assert self._every_rows is not None
        return self._at if rows - self._rows >= self._every_rows else None

    def save(self, join: SavedJoin, note: Note, rows: int) -> None:
        """Write one, whole or not at all."""
        if self._path is not None:
            join.snapshot(self._path, note=note.to_text())
            self._at, self._rows = self._clock(), rows


def resumed(join: SavedJoin, path: Path | None) -> Note | None:
    """Let a new join go on from the snapshot of a run; None if there is no snapshot yet.

    A join that was itself restored from such a snapshot goes on from that one. Changes nothing if the
    snapshot is of another join.
    """
    own = Note.from_text(join.note)
    if own is not None:
        join.note = None  # it tells of this moment: a later run cannot go on from it
        return own
    if path is None:
        raise UsageError("resume=True without snapshot=; name the file of the snapshots")
    if join._live.seen or join._sources is not None:
        raise UsageError("resume=True needs a new join, this one has rows; make a new WindowJoin")
    if not path.exists():
        return None
    read = restored(path, None, join.spec.index, join._live.spill)
    _check_same(join.spec, read.live, path)
    note = Note.from_text(read.note)
    if note is None or read.sources is not None:
        raise StateError(f"{path} is not the snapshot of a run; restore it with WindowJoin.restore")
    workers = join._live.crew.workers
    join._live, join._snapshots = read.live, read.writer
    join._live.crew.workers = workers
    if join._live.engine is not None:
        join._live.engine.native.set_workers(workers)
    return note


def _check_same(spec: JoinSpec, live: LiveJoin, path: Path) -> None:
    saved = live.spec
    if replace(saved, index=spec.index, workers=spec.workers) != spec:
        raise StateError(f"{path} is of another join: {saved}; this one is {spec}")
