"""Snapshots: the format of their documents, the tables in them, and their files.

A document is a prefix of fixed size, a JSON header and parts of bytes, all little-endian and aligned to 8::

    magic (8 bytes), version (4), checksum of the rest of prefix and header (4), header length (8)
    {"kind": ..., "fingerprint": ..., "meta": ..., "parts": [[name, length, CRC-32], ...]}
    the parts, one after the other; the header and each part filled up with zeros to a multiple of 8

Every byte is covered by a checksum or has one value only, and every length is compared with the bytes that
are there before anything is made of it. No code is stored. Whatever is wrong is a
:class:`~slidejoin.errors.StateError`. This module knows nothing of joins. Encoding costs a copy and a CRC-32,
decoding a CRC-32 (about 1 ms for each MB).
"""

import contextlib
import json
import math
import os
import secrets
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError

JSON: TypeAlias = Any  # None, bool, int, finite float, str, and lists and dicts (with str keys) of them
Data: TypeAlias = Any  # bytes, bytearray, memoryview, mmap, pyarrow.Buffer, contiguous NumPy array
Kind: TypeAlias = Literal["head", "chunk", "whole"]

VERSION = 1
KINDS = ("head", "chunk", "whole")
MAGIC = b"\x89SLJ\r\n\x1a\n"  # as PNG's: broken by a transfer that takes it for text
PREFIX = struct.Struct("<8sIIQ")
ALIGNMENT = 8
MAX_HEADER = 2**24  # a header becomes Python objects, which take more room than its text
_CHUNK = "chunk/"
TOP = 2**63  # counts, positions and generations are below it


# Documents


@dataclass(frozen=True)
class Document:
    """A decoded document. The parts are views of the data it was decoded from."""

    kind: str
    version: int
    fingerprint: str
    meta: dict[str, JSON]
    parts: dict[str, memoryview]


def checksum(data: Data) -> int:
    """CRC-32 of bytes. Cost: about 1 ms for each MB."""
    return zlib.crc32(as_bytes(data))


def encode(kind: Kind, fingerprint: str, meta: Mapping[str, JSON], parts: Mapping[str, Data]) -> bytes:
    """A document as bytes; :func:`decode` gives the same values back. Values that JSON changes are refused.

    Notes
    -----
    Cost: one copy and one CRC-32 of the parts.

    Examples
    --------
    >>> document = decode(encode("chunk", "f1", {"start": 7}, {"rows": b"abc"}))
    >>> document.kind, document.fingerprint, document.meta, bytes(document.parts["rows"])
    ('chunk', 'f1', {'start': 7}, b'abc')
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}; expected one of {', '.join(KINDS)}")
    views = {name: as_bytes(part) for name, part in parts.items()}
    content = {
        "kind": kind,
        "fingerprint": fingerprint,
        "meta": dict(meta),
        "parts": [[name, part.nbytes, zlib.crc32(part)] for name, part in views.items()],
    }
    try:
        header = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
        same = _check_header(_json(header)) == content
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the header of a document is not JSON: {error}") from error
    if not same:
        raise StateError(
            "the meta of a document does not survive JSON; use lists, and dicts with texts as keys"
        )
    if len(header) > MAX_HEADER:
        raise StateError(f"a header of {len(header)} bytes; at most {MAX_HEADER} can be read back")
    crc = zlib.crc32(header, zlib.crc32(struct.pack("<8sIQ", MAGIC, VERSION, len(header))))
    pieces: list[bytes | memoryview] = [PREFIX.pack(MAGIC, VERSION, crc, len(header))]
    for piece in (memoryview(header), *views.values()):
        pieces += (piece, bytes(-piece.nbytes % ALIGNMENT))
    return b"".join(pieces)


def decode(data: Data, kind: Kind | None = None) -> Document:
    """The document in bytes, with every checksum compared; of this kind, if one is given.

    Notes
    -----
    Cost: one CRC-32 of the data, no copy of the parts.
    """
    view = as_bytes(data)
    if view[: len(MAGIC)] != MAGIC[: view.nbytes]:
        raise StateError("not a slidejoin snapshot: the first bytes are others; is it the right file?")
    if view.nbytes < PREFIX.size:
        raise StateError(f"a snapshot of {view.nbytes} bytes is truncated: was it written or copied whole?")
    _, version, crc, length = PREFIX.unpack_from(view)
    if version > VERSION:
        raise StateError(
            f"the snapshot has format version {version}, this slidejoin reads up to {VERSION}: "
            "it was written by a newer one, upgrade; or it is damaged"
        )
    if version < 1:
        raise StateError("the snapshot is damaged: format version 0 does not exist")
    if length > MAX_HEADER:
        raise StateError(f"the snapshot is damaged: a header of {length} bytes; at most {MAX_HEADER} can be")
    header, rest = _cut(view[PREFIX.size :], length, "header")
    if zlib.crc32(header, zlib.crc32(struct.pack("<8sIQ", MAGIC, version, length))) != crc:
        raise StateError("the snapshot is damaged: the checksum of its header differs")
    content = _check_header(_json(bytes(header)))
    parts: dict[str, memoryview] = {}
    for name, size, part_crc in content["parts"]:
        part, rest = _cut(rest, size, f"part {name!r}")
        if zlib.crc32(part) != part_crc:
            raise StateError(f"the snapshot is damaged: the checksum of its part {name!r} differs")
        parts[name] = part
    if rest.nbytes:
        raise StateError(f"the snapshot is damaged: {rest.nbytes} bytes follow its end")
    if kind is not None and content["kind"] != kind:
        raise StateError(f"the snapshot is a {content['kind']!r} document, expected a {kind!r} one")
    return Document(content["kind"], version, content["fingerprint"], content["meta"], parts)


def bundle(head: Data, chunks: Mapping[str, Data]) -> bytes:
    """A head and its chunks, by id, as one document. Cost: that of :func:`encode`."""
    parts = {"head": head} | {_CHUNK + name: chunk for name, chunk in chunks.items()}
    return encode("whole", decode(head, "head").fingerprint, {}, parts)


def unbundle(data: Data) -> tuple[memoryview, dict[str, memoryview]]:
    """The head and the chunks of :func:`bundle`, as views of the data. Cost: one CRC-32 of the data."""
    parts = decode(data, "whole").parts
    head = parts.pop("head", None)
    if head is None or not all(name.startswith(_CHUNK) for name in parts):
        raise StateError("the snapshot is damaged: its parts are not one head and chunks")
    return head, {name.removeprefix(_CHUNK): part for name, part in parts.items()}


def as_bytes(data: Data) -> memoryview:
    """Anything with contiguous memory as read-only bytes."""
    view = memoryview(data)
    # A view with a zero in its shape cannot be cast.
    return view.toreadonly().cast("B") if view.nbytes else memoryview(b"")


def _cut(view: memoryview, length: int, what: str) -> tuple[memoryview, memoryview]:
    """The first bytes of a view, and what follows their padding."""
    end = length + -length % ALIGNMENT
    if end > view.nbytes:
        raise StateError(
            f"the snapshot is truncated: its {what} takes {end} bytes, {view.nbytes} are left; "
            "was it written or copied whole?"
        )
    if any(view[length:end]):
        raise StateError(f"the snapshot is damaged: bytes behind its {what} are not zero")
    return view[:length], view[end:]


def _json(text: bytes) -> JSON:
    def pairs(items: list[tuple[str, JSON]]) -> dict[str, JSON]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key stands there twice")
        return found

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a JSON number")

    def number(digits: str) -> float:
        if not math.isfinite(value := float(digits)):
            raise ValueError(f"{digits} is beyond the range of floats")
        return value

    try:
        return json.loads(
            text.decode("ascii"), object_pairs_hook=pairs, parse_constant=constant, parse_float=number
        )
    except (ValueError, RecursionError) as error:
        raise StateError(f"the snapshot is damaged: its header is not JSON: {error}") from None


def _check_header(content: JSON) -> dict[str, JSON]:
    kinds = {"kind": str, "fingerprint": str, "meta": dict, "parts": list}
    if not isinstance(content, dict) or content.keys() != kinds.keys():
        raise StateError("the snapshot is damaged: its header has other fields than a document")
    for name, kind in kinds.items():
        if not isinstance(content[name], kind):
            raise StateError(f"the snapshot is damaged: {name!r} of its header is not a {kind.__name__}")
    if content["kind"] not in KINDS:
        raise StateError(f"the snapshot is damaged: there are no {content['kind']!r} documents")
    for part in content["parts"]:
        if not isinstance(part, list) or [type(value) for value in part] != [str, int, int]:
            raise StateError("the snapshot is damaged: a part in its header is not [name, length, checksum]")
        if not is_natural(part[1]):
            raise StateError(f"the snapshot is damaged: its part {part[0]!r} has a length of {part[1]}")
    if len({part[0] for part in content["parts"]}) != len(content["parts"]):
        raise StateError("the snapshot is damaged: two parts have one name")
    return content


# Tables and flags in parts

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the end of an Arrow stream
# What pyarrow raises for streams that make no sense.
_UNREADABLE = (
    pa.ArrowException, struct.error, OSError, ValueError, TypeError, LookupError, ArithmeticError,
)  # fmt: skip
_BATCHES = {"dictionary": True, "record batch": False}


def table_part(table: pa.Table) -> pa.Buffer:
    """A table as a part: an Arrow stream, not compressed.

    Values without a width (nulls, runs) let a stream claim any number of them in a few bytes. So that a
    reader can bound its work by the bytes it has, a part has at least one bit for each value: zeros follow
    the streams that have less. Cost: a copy of the table.

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
    """The table of a part: a valid one, of this number of rows if it is given. Views of the part, no copies.

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
        raise StateError(f"the table has {table.num_rows} rows, {rows} are expected: is it of this snapshot?")
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
                raise StateError("the table has dictionary deltas, which no snapshot has; it is damaged")
            batch = follow(field(batch, 1))
        if field(batch, 3):
            raise StateError("the table is compressed, which no snapshot is; it is damaged")
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
        raise StateError(f"{len(packed)} bytes of flags for {count} rows: are they of this snapshot?")
    flags = np.unpackbits(packed, bitorder="little").view(np.bool_)
    if flags[count:].any():
        raise StateError(f"the flags are damaged: bits behind the last of {count} are set")
    return flags[:count]


# Files


def write_file(path: str | os.PathLike[str], data: Data) -> None:
    """Replace a file by these bytes, or leave it as it was.

    The bytes go to a temporary file of the same directory, reach the disk, and take the name then. An
    OSError passes through; the old file then stands, unless only the directory could not be synced: the
    new file then stands complete, but a power cut may bring the old one back. A process that is killed
    may leave a ``.slidejoin-*.tmp`` behind.
    """
    view = as_bytes(data)
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".slidejoin-{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.open(temporary, flags, 0o666)
        try:
            try:
                _write(file, view)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if os.name != "nt":
            _sync_directory(directory)
    except OSError as error:
        if error.filename2 is None:
            error.filename = os.fspath(path)
        raise


def _write(file: int, view: memoryview) -> None:
    while view.nbytes:
        view = view[os.write(file, view) :]


def _sync_directory(directory: str) -> None:
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; a missing one is a FileNotFoundError."""
    with open(path, "rb") as file:
        return file.read()


def is_natural(value: JSON) -> bool:
    """Whether a value of a document can be a count or a position."""
    return type(value) is int and 0 <= value < TOP
