"""CSV and TSV files, cut into blocks of whole lines that threads parse ahead of the reader.

A file is read once, block by block. A cut is at the end of a line, and not inside of quotes, so that texts
may have line breaks. The order of the rows is that of the file, whatever thread parsed them. Memory: a few
blocks, as texts and as tables. Arrow's own reader of streams parses in one thread, and its data sets load
pandas.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from slidejoin.column_store import empty_table
from slidejoin.run.ahead import in_threads
from slidejoin.run.formats import GZIP

BLOCK = 2**22
FIRST_BLOCK = 2**20  # whose types are taken for those of the file
_LONGEST_QUOTE = 4  # blocks: a quote that is not closed within them is not one
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_csv(
    file: str, delimiter: str, schema: pa.Schema, convert: Mapping[str, Any], rows: int
) -> Iterator[pa.Table]:
    """The columns of a schema, at most ``rows`` rows at a time; columns that the file lacks are null."""
    for table in in_threads(_parsers(file, delimiter, schema, convert)):
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)


def csv_schema(file: str, delimiter: str, convert: Mapping[str, Any]) -> pa.Schema:
    """The columns of a file, with the types that its first rows show. ArrowInvalid if there are none."""
    names, blocks = _opened(file, delimiter, FIRST_BLOCK)
    return _parsed(next(blocks, b""), delimiter, names, pc_csv.ConvertOptions(**convert)).schema


def first_texts(file: str, delimiter: str, name: str, convert: Mapping[str, Any]) -> pa.ChunkedArray:
    """The first rows of a column as they are written."""
    names, blocks = _opened(file, delimiter, FIRST_BLOCK)
    options = pc_csv.ConvertOptions(**convert, column_types={name: pa.string()}, include_columns=[name])
    return _parsed(next(blocks, b""), delimiter, names, options).column(0)


def _parsers(
    file: str, delimiter: str, schema: pa.Schema, convert: Mapping[str, Any]
) -> Iterator[Callable[[], pa.Table]]:
    """What parses each block."""
    names, blocks = _opened(file, delimiter, BLOCK)
    options = pc_csv.ConvertOptions(
        **convert,
        column_types=dict(zip(schema.names, schema.types, strict=True)),
        include_columns=schema.names,
        include_missing_columns=True,
    )
    for block in blocks:
        yield functools.partial(_parsed, block, delimiter, names, options)


def _parsed(block: bytes, delimiter: str, names: list[str], options: pc_csv.ConvertOptions) -> pa.Table:
    if not block:
        known = dict(options.column_types or {})
        wanted = options.include_columns or names
        return empty_table(pa.schema([(name, known.get(name, pa.null())) for name in wanted]))
    return pc_csv.read_csv(
        pa.py_buffer(block),
        read_options=pc_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=pc_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=options,
    )


def _opened(file: str, delimiter: str, size: int) -> tuple[list[str], Iterator[bytes]]:
    """The names in the header, and the blocks of lines that follow it. ArrowInvalid if there is no header."""
    texts = _blocks(file, size)
    first = next(texts, b"").removeprefix(_BYTE_ORDER_MARK).lstrip(b"\r\n")
    end = _end_of_line(first)
    parse = pc_csv.ParseOptions(delimiter=delimiter)
    names = pc_csv.read_csv(pa.py_buffer(first[:end] + b"\n"), parse_options=parse).column_names

    def rest() -> Iterator[bytes]:
        if first[end:].lstrip(b"\r\n"):
            yield first[end:]
        yield from texts

    return names, rest()


def _end_of_line(text: bytes) -> int:
    """Where the second line begins."""
    ends = [place for place in (text.find(b"\n"), text.find(b"\r")) if place >= 0]
    return min(ends) + 1 if ends else len(text)


def _blocks(file: str, size: int) -> Iterator[bytes]:
    """The text of a file in blocks of about this size, each of whole lines."""
    compression = "gzip" if file.endswith(GZIP) else None
    with pa.input_stream(file, compression=compression) as source:
        rest = b""
        while text := source.read(size):
            rest += text
            cut = _last_line_end(rest, len(rest) > _LONGEST_QUOTE * size)
            if cut:
                if block := rest[:cut].lstrip(b"\r\n"):
                    yield block
                rest = rest[cut:]
        if rest.lstrip(b"\r\n"):
            yield rest


def _last_line_end(text: bytes, may_split_quotes: bool) -> int:
    """Where the last line ends that no quotes surround; 0 if there is none.

    Quotes in a text are doubled, so their number tells whether a place is inside of quotes.
    """
    end = text.rfind(b"\n") + 1
    if may_split_quotes:
        return end
    values = np.frombuffer(text, np.uint8)
    odd = int(np.count_nonzero(values[:end] == ord('"'))) % 2
    while odd and end:
        before = text.rfind(b"\n", 0, end - 1) + 1
        odd ^= int(np.count_nonzero(values[before:end] == ord('"'))) % 2
        end = before
    return end
