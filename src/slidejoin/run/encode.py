"""Encoders: what writes tables to a file in one format. JSON lines are written here, the others by Arrow."""

import json
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from slidejoin.column_store import empty_table
from slidejoin.errors import SchemaError
from slidejoin.run.formats import DELIMITERS
from slidejoin.run.target import Target

# Of a column in a row group of 2^16 rows: a larger dictionary saves nothing, and costs time.
_DICTIONARY_BYTES = 2**16


class Encoder(Protocol):
    """What writes tables to a file in one format."""

    def write_table(self, table: pa.Table) -> None:
        """Add rows."""

    def close(self) -> None:
        """Write what comes at the end; the file stays open."""


def encoder(target: Target, sink: BinaryIO, schema: pa.Schema, has_header: bool = True) -> Encoder:
    """Begin a file of the target's format; ``has_header`` is for CSV."""
    made: Encoder
    if target.format in DELIMITERS:
        options = pc_csv.WriteOptions(include_header=has_header, delimiter=DELIMITERS[target.format])
        made = pc_csv.CSVWriter(sink, schema, write_options=options)
    elif target.format == "json":
        made = JsonLines(sink)
    elif target.format == "arrow":
        made = ArrowBatches(
            pa.ipc.new_stream(sink, schema) if target.is_stream else pa.ipc.new_file(sink, schema)
        )
    else:
        made = pq.ParquetWriter(sink, schema, dictionary_pagesize_limit=_DICTIONARY_BYTES)
    return made


def check_types(target: Target, schema: pa.Schema) -> None:
    """Refuse columns that the format cannot hold, before the work."""
    if target.format not in DELIMITERS:
        return
    for field in schema:
        try:
            schema = pa.schema([field])
            pc_csv.CSVWriter(pa.BufferOutputStream(), schema).write_table(empty_table(schema))
        except pa.ArrowException:
            raise SchemaError(
                f"column {field.name!r} has type {field.type}, which {target.format} cannot hold; leave "
                "it out with --columns, or write Parquet, JSON lines or Arrow"
            ) from None


class ArrowBatches:
    """Writes each table as one batch, of a copy: the bytes of a slice depend on what it is a slice of."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write_table(self, table: pa.Table) -> None:
        """Add rows."""
        self._writer.write_table(table.take(np.arange(table.num_rows)))

    def close(self) -> None:
        """Write the end."""
        self._writer.close()


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
        values = (json.dumps(value, default=_text, ensure_ascii=False) for value in column.to_pylist())
        texts = pa.array(values, pa.string())
    return texts.fill_null("null")


def _text(value: Any) -> str:
    """A value that JSON has no form for."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
