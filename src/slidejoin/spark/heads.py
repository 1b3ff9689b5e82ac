"""Heads: what the state of a join is after each micro-batch, one file for each partition.

Files of a state, all immutable::

    <state_dir>/<query id>/<name of the join>/
        heads/<batch>/<partition>-<partitions>-….head    JSON: the live runs of a partition, and the watermark
        heads/<batch>/….figures                          JSON: counters of a task, for readers only
        heads/<batch>/<run>-<token>.begun                empty: tasks of a join that is not inner have begun
        runs/<batch>/<partition>-<token>-….arrow         rows in the order of their keys; bits of rows

A head is written last, so what it names is complete. Its name says which attempt wrote it, and how far its
rows go in time: one listing of a folder tells every task what the watermark is. Attempts and replays of one
task write heads of equal meaning under different names, and any of them will do.
"""

import json
import secrets
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.spark.files import Folder

VERSION = 2  # of the files; 1 was the state in Spark's own store
KEPT = 100  # batches

_SUFFIX = ".head"
_BEGUN = ".begun"
_NONE = "n"


@dataclass(frozen=True)
class Place:
    """A task: which attempt of which partition of which micro-batch."""

    query: str
    batch: int
    run: str  # of the query: another one after each start
    attempt: int  # unique in a Spark application
    partition: int
    partitions: int
    call: str  # of join()

    @property
    def here(self) -> str:
        """The task, for messages."""
        return f"partition {self.partition} of {self.partitions} in batch {self.batch} of query {self.query}"


@dataclass(frozen=True)
class Mark:
    """What the name of a head says.

    Attributes
    ----------
    greatest : (int or None, int or None)
        The greatest timestamp of each side among all rows so far that this partition counts.
    seen : (int or None, int or None)
        The processing time, in microseconds, of each side's last micro-batch with a row here.
    """

    partition: int
    partitions: int
    run: str
    call: str
    attempt: int
    written: int  # ns; tells which of several runs is the newest
    greatest: tuple[int | None, int | None]
    seen: tuple[int | None, int | None]
    token: str

    @property
    def name(self) -> str:
        """The name of the head's file."""
        numbers = [
            _NONE if number is None else f"{number:d}".replace("-", "m")
            for number in (*self.greatest, *self.seen)
        ]
        parts = [
            f"{self.partition}",
            f"{self.partitions}",
            self.run,
            self.call,
            f"{self.attempt}",
            f"{self.written}",
            *numbers,
            self.token,
        ]
        return "-".join(parts) + _SUFFIX

    @classmethod
    def read(cls, name: str) -> "Mark | None":
        """What a name says; ``None`` if it is not that of a head."""
        parts = name.removesuffix(_SUFFIX).split("-")
        if not name.endswith(_SUFFIX) or name.startswith(".") or len(parts) != 11:
            return None
        try:
            numbers = [None if part == _NONE else int(part.replace("m", "-")) for part in parts[6:10]]
            return cls(
                int(parts[0]), int(parts[1]), parts[2], parts[3], int(parts[4]), int(parts[5]),
                (numbers[0], numbers[1]), (numbers[2], numbers[3]), parts[10],
            )  # fmt: skip
        except ValueError:
            return None


def new_mark(
    place: Place, greatest: tuple[int | None, int | None], seen: tuple[int | None, int | None]
) -> Mark:
    """The mark of this attempt."""
    return Mark(
        place.partition, place.partitions, run_name(place.run), place.call, place.attempt, time.time_ns(),
        greatest, seen, secrets.token_hex(6),
    )  # fmt: skip


def run_name(run: str) -> str:
    """The id of a query's run as it stands in names."""
    return run.replace("-", "")[:16]


@dataclass(frozen=True)
class StoredRun:
    """A run as a head has it: a file of rows of one side, in the order of their keys."""

    file: str
    checksum: int
    size: int  # bytes
    rows: int
    least: int  # timestamps: the least, the median and the greatest
    middle: int
    greatest: int
    bits: str | None = None  # file that tells which rows have matched; ``None``: no row has
    bits_checksum: int = 0


@dataclass
class Head:
    """The state of a partition after a micro-batch.

    Attributes
    ----------
    watermark : int, optional
        That of the micro-batch: rows before it were late.
    runs : list of ([StoredRun, …], [StoredRun, …])
        The live runs of both sides, the oldest first; a full join may have two such halves.
    """

    query: str
    meaning: dict[str, Any]
    watermark: int | None
    runs: list[tuple[list[StoredRun], list[StoredRun]]]
    greatest: tuple[int | None, int | None] = (None, None)
    seen: tuple[int | None, int | None] = (None, None)

    def to_json(self) -> bytes:
        """As the content of a file."""
        runs = [[[vars(run) for run in side] for side in half] for half in self.runs]
        data = {
            "slidejoin state": VERSION, "query": self.query, "meaning": self.meaning,
            "watermark": self.watermark, "greatest": self.greatest, "seen": self.seen, "runs": runs,
        }  # fmt: skip
        return json.dumps({**data, "checksum": _checksum(data)}).encode()

    @classmethod
    def read(cls, folder: Folder, name: str) -> "Head":
        """Read a head; StateError if it is not one."""
        try:
            data = json.loads(folder.map(name).to_pybytes())
            if data["slidejoin state"] != VERSION:
                raise StateError(
                    f"{name} has state of version {data['slidejoin state']!r}, this slidejoin reads version "
                    f"{VERSION}; use the one that wrote it, or start with a new checkpointLocation"
                )
            if data.pop("checksum") != _checksum(data):
                raise ValueError("its checksum is another one")
            runs = [tuple([StoredRun(**run) for run in side] for side in half) for half in data["runs"]]
            known = data["query"], data["meaning"], data["watermark"]
            return cls(*known, runs, tuple(data["greatest"]), tuple(data["seen"]))  # type: ignore[arg-type]
        except FileNotFoundError:
            raise StateError(f"{name} is gone; the state directory must stay as the query left it") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"{name} is damaged: {error!r}") from None


def _checksum(data: Any) -> int:
    return zlib.crc32(json.dumps(data).encode())


@dataclass(frozen=True)
class Base:
    """The state that a micro-batch starts from: a complete set of heads of an earlier one."""

    batch: int
    partitions: int
    marks: Mapping[int, Mark] = field(default_factory=dict)  # by partition

    def path(self, partition: int) -> str:
        """The file of a partition's head."""
        return f"{head_folder(self.batch)}/{self.marks[partition].name}"

    @property
    def run(self) -> str:
        """The run of the query that left it."""
        return next(iter(self.marks.values())).run

    def greatest(self) -> tuple[int | None, int | None]:
        """The greatest timestamp of each side so far."""
        return _most(mark.greatest for mark in self.marks.values())

    def seen(self) -> tuple[int | None, int | None]:
        """The processing time of each side's last rows."""
        return _most(mark.seen for mark in self.marks.values())


def _most(pairs: Iterable[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    found: list[int | None] = [None, None]
    for pair in pairs:
        found = [latest(*both) for both in zip(found, pair, strict=True)]
    return found[0], found[1]


def latest(one: int | None, other: int | None) -> int | None:
    """The greater of two numbers that may be missing."""
    return other if one is None else one if other is None else max(one, other)


def head_folder(batch: int) -> str:
    """The folder of a micro-batch's heads."""
    return f"heads/{batch:012d}"


def batches(folder: Folder) -> list[int]:
    """The micro-batches that left heads, in their order."""
    return sorted(int(name) for name in folder.names("heads") if name.isdigit())


def find_base(folder: Folder, place: Place, start_empty: bool) -> Base | None:
    """The state to start from: of the last micro-batch before this one that left any.

    ``None`` for the first micro-batch of a query. Every attempt finds the same: nothing is written for a
    batch that is committed but by attempts that came too late, and theirs is of equal meaning.
    """
    before, marks = _last_marks(folder, place)
    if before is None:
        if place.batch == 0 or start_empty:
            return None
        raise StateError(
            f"{place.here} finds no state in {folder}: batches before it are committed, and left none "
            "there. Was the state directory removed or changed? Start with the one that the query had, or "
            "with a new checkpointLocation. Only if no batch before had any row for this join, or if its "
            "window may be lost, set spark.slidejoin.startEmpty=true"
        )
    _check_gap(folder, before, place)
    for mark in marks:
        _check_call(mark, place)  # joins that began at once did not see each other then
    sets = sets_of(marks)
    complete = [key for key in sets if _is_complete(key, sets)]
    if not complete:
        lacking = "; ".join(
            f"{sorted(set(range(count)) - found.keys())} of {count}" for (_, count), found in sets.items()
        )
        raise StateError(
            f"{place.here} cannot go on from batch {before}: partitions {lacking or '(all)'} left no state. "
            "Their part of the result was never read: a sink must read all of it (foreachBatch with take() "
            "or limit() alone does not)"
        )
    mine = run_name(place.run)
    chosen = max(complete, key=lambda key: (key[0] == mine, newest_of(sets[key])))
    return Base(before, chosen[1], sets[chosen])


def newest_set(folder: Folder, batch: int) -> dict[int, Mark]:
    """The newest complete set of a micro-batch's heads, by partition; empty if there is none."""
    sets = sets_of(_marks(folder, batch))
    complete = [found for key, found in sets.items() if _is_complete(key, sets)]
    return max(complete, key=newest_of, default={})


Sets: TypeAlias = dict[tuple[str, int], dict[int, Mark]]


def sets_of(marks: Iterable[Mark]) -> Sets:
    """Heads of a micro-batch that belong together: by run and number of partitions, the newest of each."""
    sets: Sets = {}
    for mark in sorted(marks, key=lambda mark: mark.written):
        sets.setdefault((mark.run, mark.partitions), {})[mark.partition] = mark
    return sets


def _is_complete(key: tuple[str, int], sets: Sets) -> bool:
    return len(sets[key]) == key[1]


def newest_of(found: Mapping[int, Mark]) -> int:
    """When the newest head of a set was written."""
    return max(mark.written for mark in found.values())


def _last_marks(folder: Folder, place: Place) -> tuple[int | None, list[Mark]]:
    """The last micro-batch before this one that began, in this run of the query if any did, and its heads.

    A batch without any input for the join leaves nothing: Spark runs no task for it. A query that was taken
    back to an older checkpoint finds batches of an earlier run ahead of its own, which are not its past.
    """
    mine = run_name(place.run)
    found: tuple[int | None, list[Mark]] = (None, [])
    for batch in _earlier(folder, place.batch):
        names = folder.names(head_folder(batch))
        marks = _read_marks(names)
        began = [name.partition("-")[0] for name in names if name.endswith(_BEGUN)]
        if mine in began or any(mark.run == mine for mark in marks):
            return batch, marks
        if found[0] is None and (marks or began):
            found = batch, marks
    return found


def _check_gap(folder: Folder, before: int, place: Place) -> None:
    """StateError where a micro-batch between left rows, and its heads are gone."""
    if before == place.batch - 1:
        return
    for number in map(int, filter(str.isdigit, folder.names("runs"))):
        if (
            before < number < place.batch
            and folder.names(f"runs/{number:012d}")
            and not _marks(folder, number)
        ):
            raise StateError(
                f"{place.here} cannot go on from batch {before}: batch {number} left rows and no state; the "
                "state directory must stay as the query left it"
            )


def _earlier(folder: Folder, batch: int) -> Iterator[int]:
    """Micro-batches before one, the last one first; mostly it is the one, and nothing has to be listed."""
    yield batch - 1
    yield from reversed([number for number in batches(folder) if number < batch - 1])


def begin(folder: Folder, place: Place) -> None:
    """Note that a micro-batch has begun, for joins that write their heads after their first results."""
    name = f"{head_folder(place.batch)}/{run_name(place.run)}-{secrets.token_hex(6)}{_BEGUN}"
    folder.write({name: pa.py_buffer(b"")}, sync=False)


def _marks(folder: Folder, batch: int) -> list[Mark]:
    return _read_marks(folder.names(head_folder(batch)))


def _read_marks(names: Iterable[str]) -> list[Mark]:
    return [mark for mark in map(Mark.read, sorted(names)) if mark is not None]


def check_alone(folder: Folder, place: Place) -> None:
    """StateError where another join, or another partition of this one, takes this task's place."""
    for mark in _marks(folder, place.batch):
        _check_call(mark, place)
        if (mark.run, mark.attempt) == (run_name(place.run), place.attempt):
            raise StateError(
                f"{place.here} runs twice in one task: coalesce() or union() directly behind the join puts "
                "several partitions into one task; use repartition() instead, or put one between"
            )


def _check_call(mark: Mark, place: Place) -> None:
    if mark.run == run_name(place.run) and mark.call != place.call:
        raise StateError(
            f"two joins of query {place.query} have one name and would destroy each other's state; give "
            "each its own: join(..., name=...)"
        )


def tidy(folder: Folder, batch: int, kept: int = KEPT) -> None:
    """Remove the heads of old micro-batches, and the runs that no kept head names.

    Cost: O(kept heads), so it is called now and then.
    """
    old = batch - kept
    if old <= 0:
        return
    there = batches(folder)
    last = max((number for number in there if number < batch), default=-1)  # the base, however old
    stale = [number for number in there if number < min(old, last)]
    named: set[str] = set()
    for number in there:
        if number in stale:
            continue
        for mark in _marks(folder, number):
            for half in Head.read(folder, f"{head_folder(number)}/{mark.name}").runs:
                for run in (*half[0], *half[1]):
                    named.update(file for file in (run.file, run.bits) if file is not None)
    for number in stale:
        _remove_folder(folder, head_folder(number), set())
    for name in folder.names("runs"):
        if name.isdigit() and int(name) < old:
            _remove_folder(folder, f"runs/{name}", named)


def _remove_folder(folder: Folder, path: str, named: set[str]) -> None:
    names = [f"{path}/{name}" for name in folder.names(path)]
    unused = [name for name in names if name not in named]
    folder.remove(unused)
    if len(unused) == len(names):
        folder.remove([path])
