"""Base: the state that a micro-batch starts from, and what shows that it is not to be trusted."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.spark.files import Folder
from slidejoin.spark.marks import (
    Mark,
    Place,
    batches,
    complete_of,
    head_folder,
    latest,
    marks_of,
    newest_of,
    read_marks,
    run_name,
    sets_of,
)

_BEGUN = ".begun"


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
    complete = complete_of(sets)
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


def _last_marks(folder: Folder, place: Place) -> tuple[int | None, list[Mark]]:
    """The last micro-batch before this one that began, in this run of the query if any did, and its heads.

    A batch without any input for the join leaves nothing: Spark runs no task for it. A query that was taken
    back to an older checkpoint finds batches of an earlier run ahead of its own, which are not its past.
    """
    mine = run_name(place.run)
    found: tuple[int | None, list[Mark]] = (None, [])
    for batch in _earlier(folder, place.batch):
        names = folder.names(head_folder(batch))
        marks = read_marks(names)
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
            and not marks_of(folder, number)
        ):
            raise StateError(
                f"{place.here} cannot go on from batch {before}: batch {number} left rows and no state; the "
                "state directory must stay as the query left it"
            )


def _earlier(folder: Folder, batch: int) -> Iterator[int]:
    """Micro-batches before one, the last one first; mostly it is the one, and nothing has to be listed."""
    yield batch - 1
    yield from reversed([number for number in batches(folder) if number < batch - 1])


def note_begun(folder: Folder, place: Place) -> None:
    """Note that a micro-batch has begun, for joins that write their heads after their first results."""
    name = f"{head_folder(place.batch)}/{run_name(place.run)}-{secrets.token_hex(6)}{_BEGUN}"
    folder.write({name: pa.py_buffer(b"")}, sync=False)


def check_alone(folder: Folder, place: Place) -> None:
    """StateError where another join, or another partition of this one, takes this task's place."""
    for mark in marks_of(folder, place.batch):
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
