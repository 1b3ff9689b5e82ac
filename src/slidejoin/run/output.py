"""The output: a directory of Parquet files that appears whole, or not at all.

Results are written into a hidden directory beside the output directory, and it is renamed at the end. A run
that fails removes it; a killed run leaves a directory whose name begins with a dot and ends with ``.tmp``.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from slidejoin.errors import SpecError

FILE_ROWS = 2**20
FILE_BYTES = 2**28  # of the rows in memory; Parquet needs less
_GROUP_ROWS = 2**16  # smaller results are written together


def check_free(output: Path, overwrite: bool) -> None:
    """Refuse a directory that holds something, unless it may be replaced."""
    if output.exists() and not output.is_dir():
        raise SpecError(f"{output} is a file; expected a directory for the result")
    if not overwrite and output.is_dir() and any(output.iterdir()):
        raise SpecError(f"{output} is not empty; choose another directory or give --overwrite")


@contextmanager
def published(output: Path, overwrite: bool) -> Iterator[Path]:
    """A directory to write into, which becomes ``output`` if no error is raised."""
    check_free(output, overwrite)
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    hidden = Path(tempfile.mkdtemp(prefix=f".{output.name}-", suffix=".tmp", dir=output.parent))
    try:
        fresh = hidden / "new"
        fresh.mkdir()
        yield fresh
        check_free(output, overwrite)  # it may have been filled meanwhile
        if output.exists():
            os.replace(output, hidden / "old")
        os.replace(fresh, output)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


class ParquetFiles:
    """Writes tables into ``part-00000.parquet`` and so on, each of a bounded size.

    Parameters
    ----------
    directory : Path
        Where to.
    file_rows, file_bytes : int
        A file has at most this many rows, and about this many bytes of them in memory.
    """

    def __init__(self, directory: Path, file_rows: int = FILE_ROWS, file_bytes: int = FILE_BYTES) -> None:
        self._directory = directory
        self._file_rows = file_rows
        self._file_bytes = file_bytes
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._rows_in_file = self._bytes_in_file = 0
        self.files = 0
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        if not table.num_rows:
            return
        self.rows += table.num_rows
        self._pending.append(table)
        if sum(part.num_rows for part in self._pending) >= _GROUP_ROWS:
            self._flush()

    def finish(self, schema: pa.Schema) -> None:
        """Write the remaining rows; a result without rows is one file with the columns."""
        self._flush()
        if not self.files:
            self._open(schema)
        self._close()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        self._pending.clear()
        start = 0
        while start < table.num_rows:
            part = table.slice(start, self._file_rows - self._rows_in_file)
            self._open(table.schema).write_table(part)
            start += part.num_rows
            self._rows_in_file += part.num_rows
            self._bytes_in_file += part.nbytes
            if self._rows_in_file >= self._file_rows or self._bytes_in_file >= self._file_bytes:
                self._close()

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._directory / f"part-{self.files:05}.parquet", schema)
            self.files += 1
        return self._writer

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
