"""Finds the row of a text file that cannot be read: file, row, column and value, for a message.

Runs only after a reader has refused a file. The lines are read again, some thousand at a time, by the same
reader with the same types; the first block that is refused is halved until one line is left.
"""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.json as pa_json

from slidejoin.run.formats import DELIMITERS, GZIP

_BLOCK = 2**14


def find_bad_value(
    files: Iterable[str], format_: str, schema: pa.Schema | None, convert: Mapping[str, Any]
) -> str | None:
    """What is wrong with the first row that cannot be read; None if all can be.

    Parameters
    ----------
    files : iterable of str
        Paths of text files.
    format_ : str
        A text format.
    schema : pyarrow.Schema, optional
        The types of the columns; otherwise rows are only split into fields, and JSON must agree in itself.
    convert : mapping
        Options of Arrow's CSV reader.

    Notes
    -----
    Cost: the files are read again up to the bad row.
    """
    for file in files:
        with gzip.open(file, "rb") if file.endswith(GZIP) else open(file, "rb") as lines:
            reader = _Reader(format_, next(lines, b"") if format_ in DELIMITERS else b"", schema, convert)
            found = _first_bad(reader, lines)
        if found is not None:
            row, line, at = found
            return f"{file}, row {row} (line {at}){_description(reader, line)}"
    return None


class _Reader:
    """Reads some lines as the run would."""

    def __init__(
        self, format_: str, header: bytes, schema: pa.Schema | None, convert: Mapping[str, Any]
    ) -> None:
        self._delimiter = DELIMITERS.get(format_)
        self._header, self._convert = header, convert
        names = [] if self._delimiter is None else self._fields(header)
        self.schema = schema
        if schema is None and names:
            self.schema = pa.schema([(name, pa.string()) for name in names])

    @property
    def has_header(self) -> bool:
        return self._delimiter is not None

    def refusal(self, lines: Sequence[bytes], names: Sequence[str] | None = None) -> str | None:
        """Why lines cannot be read, or only these columns of them."""
        data = io.BytesIO(self._header + b"".join(lines))
        schema = self.schema
        if schema is not None and names is not None:
            schema = pa.schema([schema.field(name) for name in names])
        try:
            if self._delimiter is None:
                options = pa_json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="ignore" if schema else "infer"
                )
                pa_json.read_json(data, parse_options=options)
            else:
                types = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
                pc_csv.read_csv(
                    data,
                    parse_options=pc_csv.ParseOptions(delimiter=self._delimiter),
                    convert_options=pc_csv.ConvertOptions(
                        **self._convert, column_types=types, include_columns=names
                    ),
                )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            return str(error)
        return None

    def values(self, line: bytes) -> dict[str, Any] | None:
        """The values of a line by column, or None if it cannot be split into them."""
        if self.has_header:
            names, fields = self._fields(self._header), self._fields(line)
            return dict(zip(names, fields, strict=True)) if len(names) == len(fields) else None
        try:
            values = json.loads(line)
        except ValueError:
            return None
        return values if isinstance(values, dict) else None

    def _fields(self, line: bytes) -> list[str]:
        assert self._delimiter is not None
        text = line.decode(errors="replace").rstrip("\r\n")
        return next(csv.reader([text], delimiter=self._delimiter), [])


def _first_bad(reader: _Reader, lines: Iterator[bytes]) -> tuple[int, bytes, int] | None:
    """Number among the rows, text and number in the file of the first line that is refused."""
    row, at = 0, int(reader.has_header)
    while block := list(islice(lines, _BLOCK)):
        filled = [(line, number) for number, line in enumerate(block, at + 1) if line.strip()]
        texts = [line for line, _ in filled]
        if texts and reader.refusal(texts) is not None:
            good, bad = 0, len(texts)  # so many lines can be read, so many cannot
            while bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (good, middle) if reader.refusal(texts[:middle]) is not None else (middle, bad)
            return row + bad, texts[bad - 1], filled[bad - 1][1]
        row, at = row + len(texts), at + len(block)
    return None


def _description(reader: _Reader, line: bytes) -> str:
    values = reader.values(line)
    if values is not None and reader.schema is not None:
        for field in reader.schema:
            if reader.refusal([line], [field.name]) is not None:
                value = values.get(field.name)
                return f", column {field.name!r}: {value!r} is not of type {field.type}{_hint(field, value)}"
    return f": {reader.refusal([line]) or 'its types differ from those of the rows before'}"


def _hint(field: pa.Field, value: Any) -> str:
    if field.type in (pa.timestamp("us"), pa.timestamp("us", "UTC")) and re.search(r"\.\d{7,}", str(value)):
        return (
            ": the first rows have at most microseconds, so this column is read in microseconds; write "
            "nanoseconds in all rows, or give Parquet"
        )
    return ""
