"""Writers of results: tables in, one file, standard output or a directory of files out.

Rows are written in groups of a fixed number, so that a file does not depend on the sizes of the tables, nor
on where an interrupted run was continued.
"""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from slidejoin.column_store import empty_table
from slidejoin.errors import StateError
from slidejoin.run.encode import Encoder, encoder
from slidejoin.run.target import Target

FILE_ROWS = 2**20
FILE_BYTES = 2**28  # of the rows in memory; Parquet needs less
GROUP_ROWS = 2**16


class StreamWriter:
    """Writes standard output, or a file of a text format, which can be continued.

    Parameters
    ----------
    target : Target
        The format.
    sink : file
        Where to.
    schema : pyarrow.Schema
        The columns.
    saved : dict, optional
        What :meth:`save` gave, to continue after it.
    """

    files = 1

    def __init__(
        self, target: Target, sink: BinaryIO, schema: pa.Schema, saved: dict[str, int] | None = None
    ) -> None:
        self.rows = 0
        self._sink = sink
        self._groups = _Groups(schema, GROUP_ROWS)
        if saved is not None:
            if os.fstat(sink.fileno()).st_size < saved["bytes"]:
                sink.close()
                raise StateError("the unfinished result is shorter than it was; start anew with --overwrite")
            self.rows = saved["rows"]
            sink.truncate(saved["bytes"])
            sink.seek(saved["bytes"])
        self._encoder = encoder(target, sink, schema, has_header=saved is None)

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += table.num_rows
        for group in self._groups.add(table):
            self._encoder.write_table(group)

    def save(self) -> dict[str, int]:
        """Bring all rows to the disk, and say how far the file is."""
        self._write_rest()
        self._sink.flush()
        os.fsync(self._sink.fileno())
        return {"rows": self.rows, "bytes": self._sink.tell()}

    def _write_rest(self) -> None:
        rest = self._groups.rest()
        if rest.num_rows:
            self._encoder.write_table(rest)

    def finish(self) -> None:
        """Write the remaining rows and the end of the file."""
        self._write_rest()
        self._encoder.close()
        self._sink.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._sink is not sys.stdout.buffer:
            self._sink.close()


class PartWriter:
    """Writes a file of Parquet or Arrow, or a directory of Parquet files of a bounded size.

    Such a file cannot be continued once it has its end. So :meth:`save` ends the file under way as a segment,
    and segments become one file when it is complete.

    Parameters
    ----------
    target : Target
        The format, and whether ``place`` is a directory.
    place : Path
        The file, or a directory for ``part-00000.parquet`` and so on.
    schema : pyarrow.Schema
        The columns; a result without rows is one file with them.
    saved : dict, optional
        What :meth:`save` gave, to continue after it.
    file_rows, file_bytes : int
        A file of a directory has at most this many rows, and about this many bytes of them in memory.
    """

    def __init__(
        self,
        target: Target,
        place: Path,
        schema: pa.Schema,
        saved: dict[str, int] | None = None,
        file_rows: int = FILE_ROWS,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.rows = self.files = 0  # complete files
        self._target, self._place, self._schema = target, place, schema
        self._file_rows, self._file_bytes = file_rows, file_bytes
        self._segments = self._file_size = self._file_count = 0  # of the file under way
        self._is_saved = False  # whether a snapshot names segments of it
        self._open: tuple[BinaryIO, Encoder] | None = None
        if saved is not None:
            self.rows, self.files = saved["rows"], saved["files"]
            self._segments, self._file_count, self._file_size = (
                saved["segments"], saved["file_rows"], saved["file_bytes"]
            )  # fmt: skip
            self._is_saved = self._segments > 0
            self._check_files()
        self._groups = _Groups(schema, min(GROUP_ROWS, file_rows), self._file_count)

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += table.num_rows
        for group in self._groups.add(table):
            self._write_group(group)

    def save(self) -> dict[str, int]:
        """Bring all rows to the disk, and say how far the files are."""
        rest = self._groups.rest()
        if rest.num_rows:
            self._write_group(rest)
        self._end_segment()
        self._is_saved = self._segments > 0
        return {
            "rows": self.rows, "files": self.files, "segments": self._segments,
            "file_rows": self._file_count, "file_bytes": self._file_size,
        }  # fmt: skip

    def finish(self) -> None:
        """Write the remaining rows and complete the last file."""
        rest = self._groups.rest()
        if rest.num_rows or not (self.files or self._segments or self._open):
            self._write_group(rest)
        self._end_file()

    def _write_group(self, group: pa.Table) -> None:
        if self._open is None:
            path = self._segment(self._segments)
            path.parent.mkdir(exist_ok=True)
            sink = path.open("wb")
            self._open = sink, encoder(self._target, sink, self._schema)
        if group.num_rows:
            self._open[1].write_table(group)
        self._file_count += group.num_rows
        self._file_size += group.nbytes
        is_full = self._file_count >= self._file_rows or self._file_size >= self._file_bytes
        if self._target.is_directory and is_full and not self._file_count % self._groups.size:
            self._end_file()

    def _end_segment(self) -> None:
        if self._open is not None:
            sink, writer = self._open
            writer.close()
            sink.flush()
            os.fsync(sink.fileno())
            sink.close()
            self._open = None
            self._segments += 1

    def _end_file(self) -> None:
        """Make the segments one file. Those that were saved stay, for a run that continues there."""
        self._end_segment()
        if not self._segments:
            return
        path, segments = self._file(self.files), [self._segment(i) for i in range(self._segments)]
        if len(segments) == 1 and not self._is_saved:
            os.replace(segments[0], path)
        else:
            groups = _Groups(self._schema, self._groups.size)
            with path.open("wb") as sink:
                writer = encoder(self._target, sink, self._schema)
                for segment in segments:
                    for table in _tables(self._target, segment, self._schema):
                        for group in groups.add(table):
                            writer.write_table(group)
                rest = groups.rest()
                if rest.num_rows:
                    writer.write_table(rest)
                writer.close()
        self.files += 1
        self._is_saved = False
        self._segments = self._file_size = self._file_count = 0

    def _file(self, number: int) -> Path:
        return self._place / f"part-{number:05}.parquet" if self._target.is_directory else self._place

    def _segment(self, number: int) -> Path:
        return self._place.with_name("segments") / f"{self.files:05}-{number:05}"

    def _check_files(self) -> None:
        """Remove files that were written after what was saved; StateError if one is missing."""
        needed = {self._file(i) for i in range(self.files)} | {
            self._segment(i) for i in range(self._segments)
        }
        if missing := [path for path in needed if not path.is_file()]:
            raise StateError(f"{missing[0]} of the interrupted run is gone; start anew with --overwrite")
        if self._target.is_directory:
            for path in set(self._place.iterdir()) - needed:
                path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open[0].close()


def _tables(target: Target, path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a segment."""
    if target.format == "parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(GROUP_ROWS):
                yield pa.Table.from_batches([batch]).cast(schema)
        return
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_stream(source) if target.is_stream else pa.ipc.open_file(source)
        yield reader.read_all()


class _Groups:
    """Cuts tables into groups of a fixed number of rows."""

    def __init__(self, schema: pa.Schema, size: int, before: int = 0) -> None:
        self.size = size
        self._schema = schema
        self._pending: list[pa.Table] = []
        self._count = 0
        self._missing = size - before % size  # rows of the group under way

    def add(self, table: pa.Table) -> list[pa.Table]:
        """The groups that are complete with these rows."""
        self._pending.append(table)
        self._count += table.num_rows
        if self._count < self._missing:
            return []
        rows = pa.concat_tables(self._pending).combine_chunks()
        starts = [0, *range(self._missing, self._count, self.size)]
        if (self._count - self._missing) % self.size == 0:
            starts.append(self._count)
        self._pending, self._count = [rows.slice(starts[-1])], self._count - starts[-1]
        self._missing = self.size
        return [rows.slice(start, stop - start) for start, stop in pairwise(starts)]

    def rest(self) -> pa.Table:
        """The rows that are left."""
        # In one chunk: Arrow's CSV writer repeats what it wrote last for a chunk without rows.
        rows = pa.concat_tables([empty_table(self._schema), *self._pending]).combine_chunks()
        self._missing -= self._count
        self._pending, self._count = [], 0
        return rows
