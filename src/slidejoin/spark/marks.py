"""Marks: what the names of heads say, so that one listing of a folder tells every task what there is.

The name of a head says which attempt wrote it, and how far its rows go in time, which gives the watermark.
Attempts and replays of one task write heads of equal meaning under different names, and any of them will do.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from slidejoin.spark.files import Folder

_SUFFIX = ".head"
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


def latest(one: int | None, other: int | None) -> int | None:
    """The greater of two numbers that may be missing."""
    return other if one is None else one if other is None else max(one, other)


def head_folder(batch: int) -> str:
    """The folder of a micro-batch's heads."""
    return f"heads/{batch:012d}"


def batches(folder: Folder) -> list[int]:
    """The micro-batches that left heads, in their order."""
    return sorted(int(name) for name in folder.names("heads") if name.isdigit())


def marks_of(folder: Folder, batch: int) -> list[Mark]:
    """What the heads of a micro-batch say."""
    return read_marks(folder.names(head_folder(batch)))


def read_marks(names: Iterable[str]) -> list[Mark]:
    """What names say; those that are not of heads say nothing."""
    return [mark for mark in map(Mark.read, sorted(names)) if mark is not None]


Sets: TypeAlias = dict[tuple[str, int], dict[int, Mark]]


def sets_of(marks: Iterable[Mark]) -> Sets:
    """Heads of a micro-batch that belong together: by run and number of partitions, the newest of each."""
    sets: Sets = {}
    for mark in sorted(marks, key=lambda mark: mark.written):
        sets.setdefault((mark.run, mark.partitions), {})[mark.partition] = mark
    return sets


def complete_of(sets: Sets) -> Sets:
    """The sets that have a head for each partition."""
    return {key: found for key, found in sets.items() if len(found) == key[1]}


def newest_of(found: Mapping[int, Mark]) -> int:
    """When the newest head of a set was written."""
    return max(mark.written for mark in found.values())


def newest_set(folder: Folder, batch: int) -> dict[int, Mark]:
    """The newest complete set of a micro-batch's heads, by partition; empty if there is none."""
    return max(complete_of(sets_of(marks_of(folder, batch))).values(), key=newest_of, default={})
