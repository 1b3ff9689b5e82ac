"""The parts of a snapshot's documents: tables as Arrow streams, and flags as bits.

A stream that was made up may claim more rows than it has bytes. So it is read only after its claims have been
compared with its size. Anything wrong is a :class:`~slidejoin.errors.StateError`.
"""

import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError
from slidejoin.snapshot.binary import ALIGNMENT, Data, as_bytes

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the end of an Arrow stream
# What pyarrow raises for streams that make no sense.
_UNREADABLE = (
    pa.ArrowException, struct.error, OSError, ValueError, TypeError, LookupError, ArithmeticError,
)  # fmt: skip
_BATCHES = {"dictionary": True, "record batch": False}


def table_part(table: pa.Table) -> pa.Buffer:
    """A table as a part: an Arrow stream, not compressed.

    A few bytes of a stream can claim any number of values without a width (nulls, runs). A part therefore has
    at least one bit for each value, so that a reader can bound its work by the bytes it has; shorter streams
    are followed by zeros. Cost: a copy of the table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_table(table_part(pa.table({"key": [1, 2]})), rows=2).to_pydict()
    {'key': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    try:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
    except pa.ArrowException as error:
        raise StateError(f"Arrow cannot write this table: {error}") from error
    stream = sink.getvalue()
    values, _ = _claims(stream)
    room = -(-values // 8)
    if stream.size < room:
        stream = pa.py_buffer(stream.to_pybytes() + bytes(room - stream.size))
    read = read_table(stream).num_rows
    if read != table.num_rows:
        raise StateError(f"Arrow wrote {read} rows of a table of {table.num_rows}; has it any columns?")
    return stream


def read_table(part: Data, rows: int | None = None) -> pa.Table:
    """The table of a part, validated, with this number of rows if it is given. Views of the part, no copies.

    Notes
    -----
    Cost: O(rows) to validate offsets, texts and dictionaries; O(columns) for numbers.
    """
    view = as_bytes(part)
    buffer = pa.py_buffer(view)
    if buffer.address % ALIGNMENT:
        buffer = pa.py_buffer(bytes(view))
    try:
        values, end = _claims(buffer)
        if values > 8 * buffer.size:
            raise StateError(f"a table of {buffer.size} bytes claims to hold {values} values; it is damaged")
        if view[end - len(_END) : end] != _END or np.count_nonzero(np.frombuffer(view, np.uint8)[end:]):
            raise StateError("the table is damaged: its end is not where it should be")
        table = pa.ipc.open_stream(buffer.slice(0, end)).read_all()
        table.validate(full=True)
    except _UNREADABLE as error:
        raise StateError(f"the table is damaged, Arrow cannot read it: {error}") from error
    if rows is not None and table.num_rows != rows:
        raise StateError(
            f"the table has {table.num_rows} rows, {rows} are expected: does it belong to this snapshot?"
        )
    return table


def _claims(stream: pa.Buffer) -> tuple[int, int]:
    """The number of values that all batches of an Arrow stream claim to have, and where the stream ends.

    Reads the messages' FlatBuffers, before Arrow verifies them. Compression and dictionary deltas, which make
    Arrow allocate more than there is, are refused.
    """

    def field(table: int, index: int) -> int:
        """Where a field of a FlatBuffers table starts; 0 if it is absent."""
        vtable = table - number("<i", table)
        offset = 4 + 2 * index
        start = number("<H", vtable + offset) if offset < number("<H", vtable) else 0
        return table + start if start else 0

    def number(code: str, at: int) -> int:
        if at < 0:  # would count from the end
            raise struct.error("an offset before the start")
        return int(struct.unpack_from(code, metadata, at)[0])

    def follow(at: int) -> int:
        return at + number("<I", at)

    values = 0
    source = pa.BufferReader(stream)
    for message in pa.ipc.MessageReader.open_stream(source):
        if message.type not in _BATCHES:
            continue
        metadata = memoryview(message.metadata)
        batch = follow(field(follow(0), 2))
        if _BATCHES[message.type]:
            delta = field(batch, 2)
            if delta and number("<?", delta):
                raise StateError("the table is damaged: it has dictionary deltas, which no snapshot has")
            batch = follow(field(batch, 1))
        if field(batch, 3):
            raise StateError("the table is damaged: it is compressed, which no snapshot is")
        length = field(batch, 0)
        lengths = [number("<q", length) if length else 0]
        if nodes := field(batch, 1):
            vector = follow(nodes)
            start, stop = vector + 4, vector + 4 + 16 * number("<I", vector)
            if stop > metadata.nbytes:
                raise struct.error("more columns than bytes")
            lengths += [node for node, _ in struct.iter_unpack("<qq", metadata[start:stop])]
        if min(lengths) < 0:
            raise StateError(f"the table is damaged: a column of {min(lengths)} values")
        values += sum(lengths)
    return values, source.tell()


def bits_part(flags: NDArray[np.bool_]) -> bytes:
    """Flags as a part, eight in a byte, the first one lowest. Cost: O(flags)."""
    return np.packbits(flags, bitorder="little").tobytes()


def read_bits(part: Data, count: int) -> NDArray[np.bool_]:
    """The flags of a part that has exactly this number of them. Cost: O(flags)."""
    packed = np.frombuffer(as_bytes(part), np.uint8)
    if not isinstance(count, int | np.integer) or count < 0 or len(packed) != -(-count // 8):
        raise StateError(f"{len(packed)} bytes of flags for {count} rows: do they belong to this snapshot?")
    flags = np.unpackbits(packed, bitorder="little").view(np.bool_)
    if flags[count:].any():
        raise StateError(f"the flags are damaged: bits after the last of {count} are set")
    return flags[:count]
