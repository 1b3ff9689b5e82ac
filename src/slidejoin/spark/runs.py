"""Runs: rows of one side in the order of the core's keys, in memory or mapped from a file of the state.

A run's file is a plain Arrow file: the user's columns, then ours, whose names begin with ``#``: the encoded
keys (``#key``), the values of conditions that cannot be read in place from the user's columns (``#0`` …), and
the hashes that routed the row (``#h0`` …), by which it finds its partitions again when their number changes.
Which rows have matched so far stands in a file of bits beside it, another one after each change.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError
from slidejoin.sorted_runs import Run, RunKernel
from slidejoin.spark.files import Folder
from slidejoin.spark.heads import StoredRun

MAPPED = 256  # files that stay mapped in a process, for all its joins
MAPPED_BYTES = 2**30

Hashes = list[NDArray[np.int32]]
Bits = NDArray[np.bool_]


@dataclass
class Rows:
    """Rows of one side in the order of their keys; all of them may match.

    Attributes
    ----------
    table : pyarrow.Table
        The user's columns.
    run : Run
        Keys and values of conditions, as the kernel takes them.
    times : array
        Timestamps.
    hashes : list of arrays
        What routed each row.
    """

    table: pa.Table
    run: Run
    times: NDArray[np.int64]
    hashes: Hashes

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def span(self) -> tuple[int, int]:
        """The least and the greatest timestamp; there must be a row."""
        return int(self.times.min()), int(self.times.max())

    @property
    def middle(self) -> int:
        """The median of the timestamps."""
        return int(np.partition(self.times, len(self) // 2)[len(self) // 2])


class RunFormat:
    """How the rows of one side are sorted, written and read back.

    Parameters
    ----------
    kernel : RunKernel
        The conditions of the join.
    schema : pyarrow.Schema
        The user's columns.
    side : int
        0 for left, 1 for right.
    hashes : int
        Hashes that a row carries.
    """

    def __init__(self, kernel: RunKernel, schema: pa.Schema, side: int, hashes: int) -> None:
        self.schema = schema
        self._kernel = kernel
        self._side = side
        self._hashes = hashes
        self._in_place = kernel.in_place(schema, side)  # by condition: whether its values need no column

    def sorted(self, table: pa.Table, columns: list[Any], hashes: Hashes) -> tuple[Rows, NDArray[np.int64]]:
        """New rows in the order of their keys, without those that match nothing; and the order."""
        order, keys = self._kernel.sort(columns)
        run = Run(keys, [values[order] for values, _ in columns])
        return self._rows(_taken(table, order), run, [part[order] for part in hashes]), order

    def some(self, rows: Rows, wanted: NDArray[Any]) -> Rows:
        """Some rows of a run, by their ascending numbers. Cost: a copy."""
        run = Run(rows.run.keys[wanted], [column[wanted] for column in rows.run.columns])
        return self._rows(_taken(rows.table, wanted), run, [part[wanted] for part in rows.hashes])

    def merged(self, parts: Sequence[Rows]) -> tuple[Rows, NDArray[np.int64]]:
        """The rows of several runs as one run, and which row each is, numbered through all of them."""
        keys = np.concatenate([rows.run.keys for rows in parts])
        order = np.argsort(keys, kind="stable")  # merges, since the parts are sorted
        columns = [
            np.concatenate([rows.run.columns[i] for rows in parts])[order] for i in range(len(self._in_place))
        ]
        hashes = [np.concatenate([rows.hashes[i] for rows in parts])[order] for i in range(self._hashes)]
        table = pa.concat_tables([rows.table for rows in parts])
        return self._rows(_taken(table, order), Run(keys[order], columns), hashes), order

    def content(self, rows: Rows) -> pa.Buffer:
        """The file of a run."""
        ours = [("#key", rows.run.keys)]
        ours += [
            (f"#{i}", values)
            for i, (values, in_place) in enumerate(zip(rows.run.columns, self._in_place, strict=True))
            if not in_place
        ]
        ours += [(f"#h{i}", part) for i, part in enumerate(rows.hashes)]
        names = rows.table.column_names + [name for name, _ in ours]
        arrays = [_one_chunk(column) for column in rows.table.columns]
        arrays += [pa.array(values) for _, values in ours]
        return _file(pa.RecordBatch.from_arrays(arrays, names))

    def open(self, folder: Folder, stored: StoredRun) -> Rows:
        """The rows of a file, mapped into memory. Cost: O(rows) the first time in a process.

        Files of the state stay mapped: the next micro-batches read them again. Those of a batch, whose rows
        have no hashes, go with their task.
        """
        if not self._hashes:
            return self._map(folder, stored)
        key = (self, str(folder), stored.file, stored.checksum)
        known = _mapped.pop(key, None) or (self._map(folder, stored), stored.size)
        _mapped[key] = known  # the last one, as it was used last
        while len(_mapped) > MAPPED or sum(size for _, size in _mapped.values()) > MAPPED_BYTES:
            del _mapped[next(iter(_mapped))]
        return known[0]

    def _map(self, folder: Folder, stored: StoredRun) -> Rows:
        batch = _read(folder, stored.file, stored.checksum)
        count = len(self.schema)
        user = pa.Table.from_batches([batch.select(list(range(count)))])
        if batch.num_rows != stored.rows or not user.schema.equals(self.schema):
            raise StateError(
                f"{stored.file} is not what its head says: {batch.num_rows} rows of {batch.schema}"
            )
        ours = {name: batch.column(count + i).to_numpy() for i, name in enumerate(batch.schema.names[count:])}
        try:
            columns = [
                self._kernel.column(user, self._side, i) if in_place else ours[f"#{i}"]
                for i, in_place in enumerate(self._in_place)
            ]
            hashes = [ours[f"#h{i}"] for i in range(self._hashes)]
            return self._rows(user, Run(ours["#key"], columns), hashes)
        except KeyError as error:
            raise StateError(f"{stored.file} has no column {error}") from None

    def _rows(self, table: pa.Table, run: Run, hashes: Hashes) -> Rows:
        return Rows(table, run, run.columns[self._kernel.time_at], hashes)


def bits_file(bits: Bits) -> pa.Buffer:
    """The file of the bits of a run."""
    return _file(pa.RecordBatch.from_arrays([pa.array(bits)], ["matched"]))


def read_bits(folder: Folder, stored: StoredRun) -> Bits:
    """Which rows of a run have matched so far; a copy."""
    if stored.bits is None:
        return np.zeros(stored.rows, np.bool_)
    batch = _read(folder, stored.bits, stored.bits_checksum)
    if batch.schema.names != ["matched"] or batch.num_rows != stored.rows:
        raise StateError(f"{stored.bits} is not what its head says: {batch.num_rows} rows of {batch.schema}")
    return np.array(batch.column(0).to_numpy(zero_copy_only=False), np.bool_)


def read_rows(folder: Folder, stored: StoredRun, columns: int, has_bits: bool) -> pa.Table:
    """The rows of a run as a reader wants them: the user's columns, and whether they have matched."""
    batch = _read(folder, stored.file, stored.checksum)
    table = pa.Table.from_batches([batch.select(list(range(columns)))])
    return table.append_column("matched", pa.array(read_bits(folder, stored))) if has_bits else table


def checksum(content: pa.Buffer) -> int:
    """The checksum of a file."""
    return zlib.crc32(content)


_mapped: dict[tuple[RunFormat, str, str, int], tuple[Rows, int]] = {}

# Files whose checksum this process has seen to be right. They never change.
_verified: set[tuple[str, int]] = set()


def _read(folder: Folder, name: str, wanted: int) -> pa.RecordBatch:
    """The rows of a file of the state; StateError if it is not as it was written."""
    try:
        content = folder.map(name)
    except FileNotFoundError:
        raise StateError(f"{name} is gone; the state directory must stay as the query left it") from None
    if (name, wanted) not in _verified:
        if checksum(content) != wanted:
            raise StateError(f"{name} is damaged: its checksum is another one than its head says")
        if len(_verified) > 2**16:
            _verified.clear()
        _verified.add((name, wanted))
    try:
        with pa.ipc.open_file(pa.BufferReader(content)) as reader:
            return reader.get_batch(0)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StateError(f"{name} is damaged: {error}") from None


def _file(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _taken(table: pa.Table, rows: NDArray[Any]) -> pa.Table:
    return table.combine_chunks().take(pa.array(rows)).combine_chunks()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
