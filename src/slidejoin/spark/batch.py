"""Batch mode: the rows of both sides by group, each group joined by itself, whatever its size.

Groups are those of the router. Spark sorts their blobs by group, with its own spilling. Home rows are cut
into slices by time, about as long as the window and of some thousand rows at least, so that a row has few
candidates that only its time rules out; each slice is an embedded join that the other side's rows of its time
probe. What a group has beyond ``LIMIT`` bytes of a side waits in a file: home rows are joined block by block,
and the other side is read anew for each. A home row is in one slice and meets all its partners there, which
is all that outer, semi and anti joins need.
"""

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from slidejoin.errors import StateError
from slidejoin.keys.columns import SIDES
from slidejoin.spark import blobs, recipe, tasks
from slidejoin.spark.output import pushed, results
from slidejoin.spark.prepare import Prepared, routed
from slidejoin.spark.recipe import Recipe
from slidejoin.spark.route import Routing

LIMIT = 2**26  # bytes of a side of a group in memory
SLICE = 2**14  # home rows of a slice, at least

_Blob: TypeAlias = tuple[int, pa.Buffer]


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
        for table in _join_group(plan, routing, ((side, data) for _, side, data in members)):
            yield from blobs.cut(results(plan, table, second))


def _join_group(plan: Recipe, routing: Routing, members: Iterator[_Blob]) -> Iterator[pa.Table]:
    home = routing.home
    with contextlib.ExitStack() as files:
        mine = _Spool(plan.schemas[home], files)
        other = _Spool(plan.schemas[1 - home], files)
        for side, data in members:
            (mine if side == home else other).add(data)
        for block in mine.blocks():
            yield from _join_block(plan, routing, block, other)


def _join_block(plan: Recipe, routing: Routing, block: pa.Table, other: "_Spool") -> Iterator[pa.Table]:
    """Join home rows with all rows of the other side."""
    home = routing.home
    before, after = plan.time.before, plan.time.after
    # A partner of a home row is between so much earlier and so much later.
    earlier, later = (before, after) if home == 0 else (after, before)
    joins = []
    for rows, first, last in _slices(*_by_time(plan, block, home), before + after):
        join = plan.new_join(routing)
        yield join.push(**{SIDES[home]: rows})
        joins.append((join, first - earlier, last + later))
    for chunk in other.blocks():
        table, times = _by_time(plan, chunk, 1 - home)
        for join, first, last in joins:
            start, stop = _first_from(times, first), _first_from(times, last + 1)
            yield from pushed(join, 1 - home, table.slice(start, max(0, stop - start)), store=False)
    for join, _, _ in joins:
        yield join.finish()
        join.close()


def _by_time(plan: Recipe, table: pa.Table, side: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """Rows in the order of their timestamps, and these; rows without one are first."""
    times, null = plan.time.extract(table, side)
    if null is not None:
        times = np.where(null, _LEAST, times)
    if (times[1:] >= times[:-1]).all():
        return table, times
    order = np.argsort(times, kind="stable")
    return table.take(pa.array(order)), times[order]


def _slices(table: pa.Table, times: NDArray[np.int64], length: int) -> Iterator[tuple[pa.Table, int, int]]:
    """Rows in slices of time of about a length and enough rows: each with its first and last timestamp."""
    start = 0
    while start < len(times):
        stop = max(_first_from(times, int(times[start]) + length + 1), start + SLICE)
        part = table.slice(start, stop - start)
        yield part, int(times[start]), int(times[start + len(part) - 1])
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
