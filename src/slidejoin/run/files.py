"""The inputs: a file, a directory or a glob of Parquet, CSV or JSON-lines, read in batches.

Files are read one after the other in the order of their paths. Names that begin with ``_`` or ``.`` are
skipped, as in Spark. The types of CSV and JSON columns come from the first rows; their timestamps are read in
microseconds.
"""

import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.dataset as pds

from slidejoin.errors import SchemaError, SpecError

FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
}
_ZONE = re.compile(r"([Zz]|[+-]\d\d:?(\d\d)?)$")
_PEEKED_ROWS = 1000


@dataclass(frozen=True)
class Input:
    """The files of one side and their columns; ``path`` is what the user gave."""

    path: str
    files: tuple[str, ...]
    format: str
    schema: pa.Schema

    def known_rows(self) -> int | None:
        """The number of rows, if the files state it without being read."""
        return self.count_rows() if self.format == "parquet" else None

    def count_rows(self) -> int:
        """The number of rows. Cost: CSV and JSON are read."""
        return int(_dataset(self).count_rows())

    def batches(self, rows: int) -> Iterator[pa.Table]:
        """The rows in the order of the files, at most ``rows`` at a time; a few batches are read ahead."""
        try:
            scan = _dataset(self).to_batches(batch_size=rows, batch_readahead=2, fragment_readahead=1)
            for batch in scan:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise SchemaError(f"{self.path} cannot be read: {error}") from None

    def head(self, rows: int) -> pa.Table:
        """The first rows, at most so many."""
        parts: list[pa.Table] = []
        for batch in self.batches(rows):
            parts.append(batch)
            if sum(part.num_rows for part in parts) >= rows:
                break
        return pa.concat_tables(parts).slice(0, rows) if parts else self.schema.empty_table()


def open_input(path: str, format_: str | None = None, time: str | None = None) -> Input:
    """Find the files of a path and their columns.

    Parameters
    ----------
    path : str
        A file, a directory or a glob.
    format_ : str, optional
        ``parquet``, ``csv`` or ``json``; otherwise the endings of the files decide.
    time : str, optional
        A column of timestamps: read as timestamps even if JSON has texts with fractions of a second.
    """
    files = tuple(_found(path))
    if not files:
        where = "has no files" if Path(path).is_dir() else "is not there"
        raise SpecError(f"{path} {where}; expected a file, a directory or a glob such as 'in/*.parquet'")
    if format_ is None:
        formats = {file: _format_of(file) for file in files}
        if len(set(formats.values())) > 1:
            one, other = (
                next(f for f in files if formats[f] == kind) for kind in sorted({*formats.values()})[:2]
            )
            raise SpecError(f"{path} holds files of several formats, such as {one} and {other}")
        format_ = formats[files[0]]
    elif format_ not in FORMATS:
        raise SpecError(f"format {format_!r}; expected one of {', '.join(FORMATS)}")
    found = Input(path, files, format_, pa.schema([]))
    try:
        schema = _dataset(found, known=False).schema
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from None
    if len(set(schema.names)) < len(schema.names):
        raise SchemaError(f"{path} has two columns of one name: {', '.join(schema.names)}")
    if format_ != "parquet":
        schema = _settled(found, schema, time)
    return Input(path, files, format_, schema.remove_metadata())


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


def _format_of(file: str) -> str:
    for format_, endings in FORMATS.items():
        if file.lower().endswith(endings):
            return format_
    known = " ".join(ending for endings in FORMATS.values() for ending in endings)
    raise SpecError(f"the name of {file} does not show its format ({known}); give --format")


def _dataset(files: Input, known: bool = True) -> pds.Dataset:
    format_: object = files.format
    if files.format == "csv":
        # The empty field is null and nothing else is: NA may be a symbol.
        convert = pc_csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        format_ = pds.CsvFileFormat(convert_options=convert)
    return pds.dataset(list(files.files), schema=files.schema if known else None, format=format_)


def _settled(files: Input, schema: pa.Schema, time: str | None) -> pa.Schema:
    """The types that the first rows of a text format leave open: one unit for all timestamps."""
    for i, field in enumerate(schema):
        type_ = field.type
        is_text = pa.types.is_string(type_) and field.name == time
        if pa.types.is_timestamp(type_) or is_text:
            zone = type_.tz if not is_text else None
            if files.format == "json" and _has_zone(files, field.name):
                zone = "UTC"
            schema = schema.set(i, pa.field(field.name, pa.timestamp("us", zone)))
        elif pa.types.is_null(type_):
            schema = schema.set(i, pa.field(field.name, pa.string()))
    return schema


def _has_zone(files: Input, name: str) -> bool:
    """Whether the first timestamp of a JSON column has a zone, which the inferred type does not show."""
    as_text = replace(files, schema=pa.schema([(name, pa.string())]))
    texts = pc.drop_null(_dataset(as_text).head(_PEEKED_ROWS).column(0))
    return len(texts) > 0 and _ZONE.search(texts[0].as_py()) is not None
