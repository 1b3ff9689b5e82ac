"""Batch mode: the rows of both sides by group, each group joined by itself, whatever its size.

Groups are those of the router. Spark sorts their blobs by group, with its own spilling. Home rows are cut
into slices by time, about as long as the window and of some thousand rows at least, so that a row has few
candidates that only its time rules out; each slice is joined with the other side's rows of its time as two
tables are (``slidejoin.table_join``), the window being one more band. What a group has beyond ``LIMIT`` bytes
of a side waits in a file: home rows are joined block by block, and the other side is read anew for each. A
home row is in one block and meets all its partners there: a flag for each row is all that outer, semi and
anti joins need.
"""

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from slidejoin.errors import CapacityError, StateError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.plan import plan as planned
from slidejoin.spark import blobs, recipe, tasks
from slidejoin.spark.output import RESULTS
from slidejoin.spark.prepare import Prepared, routed
from slidejoin.spark.recipe import Recipe
from slidejoin.spark.route import Routing
from slidejoin.table_join import Numbers, PairFinder, taken

LIMIT = 2**26  # bytes of a side of a group in memory
SLICE = 2**14  # home rows of a slice, at least
LOPSIDED = 16  # times as many others as home rows, from which on the others are taken by halves

_Blob: TypeAlias = tuple[int, pa.Buffer]
_Piece: TypeAlias = tuple[Sequence[slice], Sequence[Numbers]]  # parts of both sides, and their pairs
_T = TypeVar("_T")


def joined(prepared: Prepared) -> DataFrame:
    """The join of two batch DataFrames."""
    text = prepared.recipe.to_json()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return join_groups(text, batches)

    blobs_of = routed(prepared, tasks.route_rows).select("group", "side", "data")
    return blobs_of.repartition("group").sortWithinPartitions("group").mapInArrow(run, prepared.output)


def join_groups(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join blobs that come by group."""
    plan = recipe.read(text)
    numbers = {id_: number for number, id_ in enumerate(plan.ids)}
    rows = (
        row
        for batch in batches
        for row in zip(
            batch.column("group").to_pylist(),
            batch.column("side").to_pylist(),
            (blob.as_buffer() for blob in batch.column("data")),
            strict=True,
        )
    )
    seen: set[int] = set()
    for group, members in itertools.groupby(rows, key=lambda row: row[0]):
        if group in seen:
            raise StateError(f"group {group} came twice; its rows were not sorted")
        seen.add(group)
        routing, second = plan.half(numbers[group])
        for table in _join_group(plan, routing, second, ((side, data) for _, side, data in members)):
            yield from blobs.cut(table)


def _join_group(plan: Recipe, routing: Routing, second: bool, members: Iterator[_Blob]) -> Iterator[pa.Table]:
    home = routing.home
    with contextlib.ExitStack() as files:
        mine = _Spool(plan.schemas[home], files)
        other = _Spool(plan.schemas[1 - home], files)
        for side, data in members:
            (mine if side == home else other).add(data)
        for block in mine.blocks():
            yield from _join_block(plan, routing, second, block, other)


def _join_block(
    plan: Recipe, routing: Routing, second: bool, block: pa.Table, other: "_Spool"
) -> Iterator[pa.Table]:
    """Join home rows with all rows of the other side; of a second half, only rows without a partner come."""
    type_, home = JOIN_TYPES[routing.how], routing.home
    mine = _by_time(plan, block, home)
    matched = np.zeros(len(mine.table), np.bool_)
    for chunk in other.blocks():
        meeting = _Meeting(plan, routing, mine, _by_time(plan, chunk, 1 - home))
        for rows in _slices(mine.times, plan.time.before + plan.time.after):
            if type_.only is not None:
                matched[rows] |= meeting.matched(rows)
                continue
            for parts, numbers in meeting.pieces(rows):
                matched[parts[home]][numbers[home]] = True
                if not second:
                    both = [table[part] for table, part in zip(meeting.tables, parts, strict=True)]
                    yield taken(plan.matched, both, numbers, JOIN_TYPES["inner"])
    if type_.name != "inner":
        alone = np.flatnonzero(matched == type_.is_semi)
        tables = _sides(home, mine.table, plan.schemas[1 - home].empty_table())
        yield taken(plan.matched, tables, _sides(home, alone, np.full(len(alone), -1)), type_)


class _Timed(NamedTuple):
    """Rows in the order of their timestamps, and these; rows without one match nothing and are anywhere."""

    table: pa.Table
    times: NDArray[np.int64]


def _by_time(plan: Recipe, table: pa.Table, side: int) -> _Timed:
    table = table.combine_chunks()  # parts of it are then taken from without a copy
    times, _ = plan.time.extract(table, side)
    if (times[1:] >= times[:-1]).all():
        return _Timed(table, times)
    order = np.argsort(times, kind="stable")
    return _Timed(table.take(pa.array(order)), times[order])


class _Meeting:
    """Home rows and rows of the other side: a part of the former meets the rows of its time."""

    def __init__(self, plan: Recipe, routing: Routing, mine: _Timed, others: _Timed) -> None:
        self._home = routing.home
        before, after = plan.time.before, plan.time.after
        # A partner of a home row is between so much earlier and so much later.
        self._reach = (after, before) if self._home else (before, after)
        self._times = mine.times, others.times
        self.tables = _sides(self._home, mine.table, others.table)
        self._finder = PairFinder(self.tables, planned(routing.bound), plan.time)

    def matched(self, rows: slice) -> NDArray[np.bool_]:
        """Which home rows have a partner."""
        return self._finder.matched(self._home, *_sides(self._home, rows, self._near(rows)))

    def pieces(self, rows: slice, near: slice | None = None) -> Iterator[_Piece]:
        """The pairs of home rows, with all rows of their time or some: ``RESULTS`` of them at a time."""
        if near is None:
            near = self._near(rows)
        parts = _sides(self._home, rows, near)
        try:
            numbers = self._finder.pairs(RESULTS, *parts)
        except CapacityError:
            pass
        else:
            yield parts, numbers
            return
        # A hot key may match all rows there are: fewer at a time keep its pairs within memory. Few home rows
        # with very many others are not what makes them many, and each part would sort the others anew.
        mine, others = rows.stop - rows.start, near.stop - near.start
        if mine == 1 or others > LOPSIDED * mine:
            for half in _halves(near):
                yield from self.pieces(rows, half)
        else:
            for half in _halves(rows):
                yield from self.pieces(half, _common(self._near(half), near))

    def _near(self, rows: slice) -> slice:
        """The other side's rows of the time of home rows."""
        (mine, others), (earlier, later) = self._times, self._reach
        first, last = int(mine[rows.start]), int(mine[rows.stop - 1])
        return slice(_first_from(others, first - earlier), _first_from(others, last + later + 1))


def _common(one: slice, other: slice) -> slice:
    start = max(one.start, other.start)
    return slice(start, max(start, min(one.stop, other.stop)))


def _halves(part: slice) -> tuple[slice, slice]:
    middle = (part.start + part.stop) // 2
    return slice(part.start, middle), slice(middle, part.stop)


def _sides(home: int, mine: _T, others: _T) -> tuple[_T, _T]:
    """What is of the home side and of the other one as left and right."""
    return (others, mine) if home else (mine, others)


def _slices(times: NDArray[np.int64], length: int) -> Iterator[slice]:
    """Rows in slices of time of about a length and enough rows."""
    start = 0
    while start < len(times):
        stop = max(_first_from(times, int(times[start]) + length + 1), start + SLICE)
        yield slice(start, min(stop, len(times)))
        start = stop


def _first_from(times: NDArray[np.int64], time: int) -> int:
    """The first place with a timestamp from a time on; times may be any whole number."""
    if time > _MOST:
        return len(times)
    return int(np.searchsorted(times, max(time, _LEAST)))


_LEAST, _MOST = (int(limit) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


class _Spool:
    """Blobs of one side of a group: in memory up to the limit, then in a file."""

    def __init__(self, schema: pa.Schema, files: contextlib.ExitStack) -> None:
        self._schema = schema
        self._files = files
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._lengths: list[list[int]] = []  # of the blobs in the file, by block

    def add(self, data: pa.Buffer) -> None:
        """Take a blob."""
        if self._size < LIMIT:
            self._held.append(blobs.decode(data, self._schema))
            self._size += data.size
            return
        if self._file is None:
            self._file = self._files.enter_context(tempfile.TemporaryFile(dir=_local_dir()))  # noqa: SIM115
        if not self._lengths or sum(self._lengths[-1]) >= LIMIT:
            self._lengths.append([])
        self._file.write(data)
        self._lengths[-1].append(data.size)

    def blocks(self) -> Iterator[pa.Table]:
        """All rows, about the limit at a time; as often as asked."""
        if self._held:
            yield pa.Table.from_batches(self._held, self._schema)
        start = 0
        for lengths in self._lengths:
            assert self._file is not None
            self._file.seek(start)
            start += sum(lengths)
            parts = [blobs.decode(self._file.read(length), self._schema) for length in lengths]
            yield pa.Table.from_batches(parts, self._schema)


def _local_dir() -> str | None:
    """Where Spark puts what does not fit in memory; ``None``: the system's temporary directory."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return directory if os.path.isdir(directory) else None
