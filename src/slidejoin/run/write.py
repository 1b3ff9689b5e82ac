"""Writers of results: tables in, one file, standard output or a directory of files out.

Rows are written in groups of a fixed number, so that a file does not depend on the sizes of the tables.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from slidejoin.errors import SchemaError
from slidejoin.run.formats import DELIMITERS
from slidejoin.run.target import Target

FILE_ROWS = 2**20
FILE_BYTES = 2**28  # of the rows in memory; Parquet needs less
GROUP_ROWS = 2**16


class Encoder(Protocol):
    """What writes tables to a file in one format."""

    def write_table(self, table: pa.Table) -> None:
        """Add rows."""

    def close(self) -> None:
        """Write what comes at the end; the file stays open."""


def encoder(target: Target, sink: BinaryIO, schema: pa.Schema) -> Encoder:
    """Begin a file of the target's format."""
    made: Encoder
    if target.format in DELIMITERS:
        options = pc_csv.WriteOptions(delimiter=DELIMITERS[target.format])
        made = pc_csv.CSVWriter(sink, schema, write_options=options)
    elif target.format == "json":
        made = JsonLines(sink)
    elif target.format == "arrow":
        made = pa.ipc.new_stream(sink, schema) if target.is_stream else pa.ipc.new_file(sink, schema)
    else:
        made = pq.ParquetWriter(sink, schema)
    return made


def check_types(target: Target, schema: pa.Schema) -> None:
    """Refuse columns that the format cannot hold, before the work."""
    if target.format not in DELIMITERS:
        return
    for field in schema:
        try:
            pc_csv.CSVWriter(pa.BufferOutputStream(), pa.schema([field])).write_table(
                pa.schema([field]).empty_table()
            )
        except pa.ArrowException:
            raise SchemaError(
                f"column {field.name!r} has type {field.type}, which {target.format} cannot hold; leave "
                "it out with --columns, or write Parquet, JSON lines or Arrow"
            ) from None


class JsonLines:
    """Writes a JSON object a row. NaN and infinite numbers, which JSON does not have, become null."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink

    def write_table(self, table: pa.Table) -> None:
        """Add rows."""
        if not table.num_rows:
            return
        pieces: list[Any] = []
        for number, name in enumerate(table.column_names):
            pieces.append(f"{', ' if number else '{'}{json.dumps(name)}: ")
            pieces.append(_json_values(table.column(number).combine_chunks()))
        lines = pc.binary_join_element_wise(*pieces, "}\n", "")
        self._sink.write("".join(lines.to_pylist()).encode())

    def close(self) -> None:
        """Nothing comes at the end."""


def _json_values(column: pa.Array) -> pa.Array:
    """The JSON text of each value."""
    type_ = column.type
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        texts = pc.cast(column, pa.string())
    elif pa.types.is_floating(type_):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, type_))
        texts = pa.array(
            [None if value is None else repr(value) for value in finite.to_pylist()], pa.string()
        )
    elif pa.types.is_temporal(type_) and not pa.types.is_duration(type_):
        texts = pc.binary_join_element_wise('"', pc.cast(column, pa.string()), '"', "")
    else:
        values = (json.dumps(value, default=str, ensure_ascii=False) for value in column.to_pylist())
        texts = pa.array(values, pa.string())
    return texts.fill_null("null")


class StreamWriter:
    """Writes one file or standard output."""

    files = 1

    def __init__(self, target: Target, sink: BinaryIO, schema: pa.Schema) -> None:
        self.rows = 0
        self._sink = sink
        self._groups = _Groups(schema, GROUP_ROWS)
        self._encoder = encoder(target, sink, schema)

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += table.num_rows
        for group in self._groups.add(table):
            self._encoder.write_table(group)

    def finish(self) -> None:
        """Write the remaining rows and the end of the file."""
        self._encoder.write_table(self._groups.rest())
        self._encoder.close()
        self._sink.flush()


class PartWriter:
    """Writes a directory of ``part-00000.parquet`` and so on, each of a bounded size.

    Parameters
    ----------
    directory : Path
        Where to.
    schema : pyarrow.Schema
        The columns; a result without rows is one file with them.
    file_rows, file_bytes : int
        A file has at most this many rows, and about this many bytes of them in memory.
    """

    def __init__(
        self, directory: Path, schema: pa.Schema, file_rows: int = FILE_ROWS, file_bytes: int = FILE_BYTES
    ) -> None:
        self.rows = self.files = 0
        self._directory, self._schema = directory, schema
        self._file_rows, self._file_bytes = file_rows, file_bytes
        self._groups = _Groups(schema, min(GROUP_ROWS, file_rows))
        self._writer: pq.ParquetWriter | None = None
        self._rows_in_file = self._bytes_in_file = 0

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += table.num_rows
        for group in self._groups.add(table):
            self._write_group(group)

    def finish(self) -> None:
        """Write the remaining rows and close the last file."""
        rest = self._groups.rest()
        if rest.num_rows or not self.files:
            self._write_group(rest)
        self._close()

    def _write_group(self, group: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._directory / f"part-{self.files:05}.parquet", self._schema)
            self.files += 1
        if group.num_rows:
            self._writer.write_table(group)
        self._rows_in_file += group.num_rows
        self._bytes_in_file += group.nbytes
        if self._rows_in_file >= self._file_rows or self._bytes_in_file >= self._file_bytes:
            self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._rows_in_file, self._bytes_in_file = None, 0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


class _Groups:
    """Cuts tables into groups of a fixed number of rows."""

    def __init__(self, schema: pa.Schema, size: int) -> None:
        self._schema, self._size = schema, size
        self._pending: list[pa.Table] = []
        self._count = 0

    def add(self, table: pa.Table) -> list[pa.Table]:
        """The groups that are complete with these rows."""
        self._pending.append(table)
        self._count += table.num_rows
        if self._count < self._size:
            return []
        rows = pa.concat_tables(self._pending)
        whole = self._count - self._count % self._size
        self._pending, self._count = [rows.slice(whole)], self._count - whole
        return [rows.slice(start, self._size) for start in range(0, whole, self._size)]

    def rest(self) -> pa.Table:
        """The rows that are left."""
        rows = pa.concat_tables([self._schema.empty_table(), *self._pending])
        self._pending, self._count = [], 0
        return rows
