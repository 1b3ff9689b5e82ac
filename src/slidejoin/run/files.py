"""The inputs: a file, a directory or a glob of Parquet, CSV, TSV, JSON-lines or Arrow files, read in batches.

Files are read one after the other in the order of their paths. Names that begin with ``_`` or ``.`` are
skipped, as in Spark. The types of text columns come from the first rows; their timestamps are read in
microseconds, or in nanoseconds if one of the first rows has them. Standard input is copied to a temporary
file first, since its first rows are read twice.
"""

import glob
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import SchemaError, SpecError
from slidejoin.run.bad_value import find_bad_value
from slidejoin.run.csv_blocks import csv_schema, first_texts, read_csv
from slidejoin.run.formats import DELIMITERS, GZIP, TEXTS, check_format, format_of, known_endings

if TYPE_CHECKING:
    import pyarrow.dataset as pds

STDIN = "-"
# The empty field is null and nothing else is: NA may be a symbol.
CONVERT = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
_NANOSECONDS = r"\.\d{7}"
_ZONE = re.compile(r"([Zz]|[+-]\d\d:?(\d\d)?)$")
_PEEKED_ROWS = 1000
_PEEKED_BYTES, _PEEKED_PLACES = 2**14, 8


@dataclass(frozen=True)
class Input:
    """The files of one side and their columns; ``path`` is what the user gave."""

    path: str
    files: tuple[str, ...]
    format: str
    schema: pa.Schema
    spool: "_Spool | None" = None  # the copy of standard input

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path == STDIN else self.path

    def expected_rows(self) -> int | None:
        """The number of rows: exact where files state it, estimated by some lines for plain texts."""
        if self.format == "parquet":
            return self.count_rows()
        if self.format in TEXTS and not any(file.endswith(GZIP) for file in self.files):
            return sum(map(_estimated_rows, self.files))
        return None

    def count_rows(self) -> int:
        """The number of rows. Cost: all but Parquet is read."""
        if self.format == "arrow" or self.format in DELIMITERS:
            return sum(table.num_rows for table in self.with_columns(self.schema.names[:1]).batches(2**20))
        return int(_dataset(self).count_rows())

    def with_columns(self, names: Iterable[str]) -> "Input":
        """The same files, of which only these columns are read; in the order of the files."""
        wanted = set(names)
        return replace(self, schema=pa.schema([field for field in self.schema if field.name in wanted]))

    def batches(self, rows: int) -> Iterator[pa.Table]:
        """The rows in the order of the files, at most ``rows`` at a time; a few batches are read ahead."""
        try:
            if self.format in DELIMITERS:
                for file in self.files:
                    yield from read_csv(file, DELIMITERS[self.format], self.schema, CONVERT, rows)
                return
            for batch in self._scan(rows):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise self._refusal(error) from None

    def head(self, rows: int) -> pa.Table:
        """The first rows, at most so many."""
        parts: list[pa.Table] = []
        for batch in self.batches(rows):
            parts.append(batch)
            if sum(part.num_rows for part in parts) >= rows:
                break
        return pa.concat_tables(parts).slice(0, rows) if parts else self.schema.empty_table()

    def _scan(self, rows: int) -> Iterator[pa.RecordBatch]:
        if self.format == "arrow":
            for file in self.files:
                for batch in _arrow_batches(file):
                    try:
                        fitting = batch.select(self.schema.names).cast(self.schema)
                    except (KeyError, ValueError) as error:
                        raise SchemaError(f"{file} has other columns than {self.files[0]}: {error}") from None
                    for start in range(0, batch.num_rows, rows):
                        yield fitting.slice(start, rows)
        else:
            yield from _dataset(self).to_batches(batch_size=rows, batch_readahead=2, fragment_readahead=1)

    def _refusal(self, error: Exception) -> SchemaError:
        found = None
        if self.format in TEXTS:
            schema = self.schema if len(self.schema) else None
            found = find_bad_value(self.files, self.format, schema, CONVERT)
        if found is None:
            return SchemaError(f"{self.name} cannot be read: {error}")
        return SchemaError(found if self.spool is None else found.replace(self.files[0], self.name))


def open_input(path: str, format_: str | None = None, time: str | None = None) -> Input:
    """Find the files of a path and their columns.

    Parameters
    ----------
    path : str
        A file, a directory or a glob; ``-`` is standard input, which needs a format.
    format_ : str, optional
        A format of ``formats``; otherwise the endings of the files decide.
    time : str, optional
        A column of timestamps: read as timestamps even if JSON has texts with fractions of a second.
    """
    if format_ is not None:
        check_format("--format", format_)
    if path == STDIN:
        found = _spooled(format_)
    else:
        files = tuple(_found(path))
        if not files:
            where = "has no files" if Path(path).is_dir() else "is not there"
            raise SpecError(f"{path} {where}; expected a file, a directory or a glob such as 'in/*.parquet'")
        found = Input(path, files, format_ or _common_format(path, files), pa.schema([]))
    try:
        schema = _schema(found)
    except (pa.ArrowException, OSError) as error:
        raise found._refusal(error) from None
    if len(set(schema.names)) < len(schema.names):
        raise SchemaError(f"{found.name} has two columns of one name: {', '.join(schema.names)}")
    if found.format in TEXTS:
        schema = _settled(found, schema, time)
    return replace(found, schema=schema.remove_metadata())


def _found(path: str) -> list[str]:
    matches = [path] if Path(path).exists() else glob.glob(path)
    files: list[Path] = []
    for match in map(Path, matches):
        if match.is_dir():
            below = (file for file in match.rglob("*") if not _is_hidden(file.relative_to(match)))
            files += [file for file in below if file.is_file()]
        elif str(match) == path or not _is_hidden(Path(match.name)):
            files.append(match)
    return sorted(map(str, files))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _common_format(path: str, files: tuple[str, ...]) -> str:
    formats: dict[str, str] = {}  # the first file of each
    for file in files:
        format_ = format_of(file)
        if format_ is None:
            raise SpecError(f"the name of {file} does not show its format ({known_endings()}); give --format")
        formats.setdefault(format_, file)
    if len(formats) > 1:
        one, other = (formats[format_] for format_ in sorted(formats)[:2])
        raise SpecError(f"{path} holds files of several formats, such as {one} and {other}")
    return next(iter(formats))


def _spooled(format_: str | None) -> Input:
    if format_ is None:
        raise SpecError("standard input (-) has no name that shows its format; give --format, such as csv")
    spool = _Spool()
    with open(spool.file, "wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    return Input(STDIN, (spool.file,), format_, pa.schema([]), spool)


class _Spool:
    """A temporary file, which is removed with this object or at the end of the process."""

    def __init__(self) -> None:
        directory = tempfile.mkdtemp(prefix="slidejoin-")
        self.file = os.path.join(directory, "stdin")
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)


def _estimated_rows(file: str) -> int:
    """The lines of a text, by its size and the length of lines in some places of it."""
    size, peeked, count = os.path.getsize(file), 0, 0
    with open(file, "rb") as lines:
        for place in range(_PEEKED_PLACES):
            lines.seek(size * place // _PEEKED_PLACES)
            part = lines.read(_PEEKED_BYTES)
            peeked, count = peeked + len(part), count + part.count(b"\n")
    return round(size * count / max(peeked, 1))


def _arrow_schema(file: str) -> pa.Schema:
    with pa.memory_map(file) as source:
        return _arrow_reader(source).schema


def _arrow_batches(file: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(file) as source:
        reader = _arrow_reader(source)
        if isinstance(reader, pa.RecordBatchFileReader):
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
        else:
            yield from reader


def _arrow_reader(source: pa.MemoryMappedFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def _schema(files: Input) -> pa.Schema:
    """The columns of the first file; of a text, with the types of its first rows."""
    if files.format in DELIMITERS:
        return csv_schema(files.files[0], DELIMITERS[files.format], CONVERT)
    return _arrow_schema(files.files[0]) if files.format == "arrow" else _dataset(files, False).schema


def _dataset(files: Input, known: bool = True) -> "pds.Dataset":
    import pyarrow.dataset as pds  # loads pandas

    return pds.dataset(list(files.files), schema=files.schema if known else None, format=files.format)


def _settled(files: Input, schema: pa.Schema, time: str | None) -> pa.Schema:
    """The types that the first rows of a text format leave open: one unit for all timestamps."""
    for i, field in enumerate(schema):
        type_ = field.type
        is_text = pa.types.is_string(type_) and field.name == time
        if pa.types.is_timestamp(type_) or is_text:
            zone = type_.tz if not is_text else None
            texts = _first_texts(files, field.name)
            if files.format == "json" and len(texts) and _ZONE.search(texts[0].as_py()):
                zone = "UTC"
            unit = "ns" if pc.any(pc.match_substring_regex(texts, _NANOSECONDS)).as_py() else "us"
            schema = schema.set(i, pa.field(field.name, pa.timestamp(unit, zone)))
        elif pa.types.is_null(type_):
            schema = schema.set(i, pa.field(field.name, pa.string()))
    return schema


def _first_texts(files: Input, name: str) -> pa.ChunkedArray:
    """The first timestamps of a column as they are written, which the inferred type does not show."""
    if files.format in DELIMITERS:
        return first_texts(files.files[0], DELIMITERS[files.format], name, CONVERT)
    as_text = replace(files, schema=pa.schema([(name, pa.string())]))
    return pc.drop_null(_dataset(as_text).head(_PEEKED_ROWS).column(0))
