"""The format of snapshots: documents of bytes.

A document is a prefix of fixed size, a JSON header and parts of bytes, all little-endian and aligned to 8::

    magic (8 bytes), version (4), checksum of the rest of prefix and header (4), header length (8)
    {"kind": ..., "fingerprint": ..., "meta": ..., "parts": [[name, length, CRC-32], ...]}
    the parts, one after the other; the header and each part filled up with zeros to a multiple of 8

Every byte is covered by a checksum or has only one valid value, and every length is compared with the bytes
that are there before anything is allocated. A whole snapshot is a document whose parts are documents. Such a
part is listed with :func:`checksum`, the CRC-32 of its prefix, which covers its header and so its own parts:
each byte is checksummed once on write and once on read. No code is stored. Anything wrong is a
:class:`~slidejoin.errors.StateError`. This module knows nothing about joins.

Version 1 differs in one thing: the checksum of a document was the CRC-32 of all its bytes.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

from slidejoin.errors import StateError

JSON: TypeAlias = Any  # None, bool, int, finite float, str, and lists and dicts (with str keys) of them
Data: TypeAlias = Any  # bytes, bytearray, memoryview, mmap, pyarrow.Buffer, contiguous NumPy array
Kind: TypeAlias = Literal["head", "chunk", "whole"]

VERSION = 2
KINDS = ("head", "chunk", "whole")
MAGIC = b"\x89SLJ\r\n\x1a\n"  # as in PNG: a transfer in text mode breaks it
PREFIX = struct.Struct("<8sIIQ")
ALIGNMENT = 8
MAX_HEADER = 2**24  # a header becomes Python objects, which take more memory than its text
_CHUNK = "chunk/"
TOP = 2**63  # counts, positions and generations are below it


@dataclass(frozen=True)
class Document:
    """A decoded document. The parts are views of the data it was decoded from."""

    kind: str
    version: int
    fingerprint: str
    meta: dict[str, JSON]
    parts: dict[str, memoryview]


def checksum(document: Data, version: int = VERSION) -> int:
    """The checksum of an encoded document of this version. Cost: O(1)."""
    view = as_bytes(document)
    return zlib.crc32(view if version == 1 else view[: PREFIX.size])


def encode(kind: Kind, fingerprint: str, meta: Mapping[str, JSON], parts: Mapping[str, Data]) -> bytes:
    """Encode a document; :func:`decode` gives the same values back. Values that JSON changes are refused.

    Notes
    -----
    Cost: one copy and one CRC-32 of the parts (about 1 ms for each MB).

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
        "parts": [[name, part.nbytes, _part_checksum(part, kind, VERSION)] for name, part in views.items()],
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
    crc = _header_checksum(header, VERSION, len(header))
    pieces: list[bytes | memoryview] = [PREFIX.pack(MAGIC, VERSION, crc, len(header))]
    for piece in (memoryview(header), *views.values()):
        pieces += (piece, bytes(-piece.nbytes % ALIGNMENT))
    return b"".join(pieces)


def decode(data: Data, kind: Kind | None = None) -> Document:
    """Decode a document, of this kind if one is given, and compare every checksum of its own.

    Parts that are documents check their content when they are decoded in turn.

    Notes
    -----
    Cost: one CRC-32 of the data, no copy of the parts.
    """
    view = as_bytes(data)
    if view[: len(MAGIC)] != MAGIC[: view.nbytes]:
        raise StateError("not a slidejoin snapshot: it starts with other bytes; is it the right file?")
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
        raise StateError(f"the snapshot is damaged: its header has {length} bytes; at most {MAX_HEADER} fit")
    header, rest = _cut(view[PREFIX.size :], length, "header")
    if _header_checksum(header, version, length) != crc:
        raise StateError("the snapshot is damaged: the checksum of its header differs")
    content = _check_header(_json(bytes(header)))
    parts: dict[str, memoryview] = {}
    for name, size, part_crc in content["parts"]:
        part, rest = _cut(rest, size, f"part {name!r}")
        if _part_checksum(part, content["kind"], version) != part_crc:
            raise StateError(f"the snapshot is damaged: the checksum of its part {name!r} differs")
        parts[name] = part
    if rest.nbytes:
        raise StateError(f"the snapshot is damaged: {rest.nbytes} bytes follow its end")
    if kind is not None and content["kind"] != kind:
        raise StateError(f"the snapshot is a {content['kind']!r} document, expected a {kind!r} one")
    return Document(content["kind"], version, content["fingerprint"], content["meta"], parts)


def bundle(fingerprint: str, head: Data, chunks: Mapping[str, Data]) -> bytes:
    """An encoded head and its chunks, by id, as one document. Cost: one copy."""
    return encode("whole", fingerprint, {}, {"head": head} | {_CHUNK + id_: chunks[id_] for id_ in chunks})


def unbundle(document: Document) -> tuple[memoryview, dict[str, memoryview]]:
    """The encoded head and chunks of a whole document. Cost: O(chunks)."""
    parts = dict(document.parts)
    head = parts.pop("head", None)
    if head is None or not all(name.startswith(_CHUNK) for name in parts):
        raise StateError("the snapshot is damaged: its parts are not one head and chunks")
    return head, {name.removeprefix(_CHUNK): part for name, part in parts.items()}


def as_bytes(data: Data) -> memoryview:
    """Anything with contiguous memory as read-only bytes."""
    view = memoryview(data)
    # A view with a zero in its shape cannot be cast.
    return view.toreadonly().cast("B") if view.nbytes else memoryview(b"")


def is_natural(value: JSON) -> bool:
    """Whether a value of a document can be a count or a position."""
    return type(value) is int and 0 <= value < TOP


def _header_checksum(header: bytes | memoryview, version: int, length: int) -> int:
    return zlib.crc32(header, zlib.crc32(struct.pack("<8sIQ", MAGIC, version, length)))


def _part_checksum(part: memoryview, kind: str, version: int) -> int:
    """The checksum of a part of a document of this kind and version."""
    return checksum(part, version) if kind == "whole" else zlib.crc32(part)


def _cut(view: memoryview, length: int, what: str) -> tuple[memoryview, memoryview]:
    """The first bytes of a view, and what follows their padding."""
    end = length + -length % ALIGNMENT
    if end > view.nbytes:
        raise StateError(
            f"the snapshot is truncated: its {what} takes {end} bytes, {view.nbytes} are left; "
            "was it written or copied whole?"
        )
    if any(view[length:end]):
        raise StateError(f"the snapshot is damaged: the padding of its {what} is not zero")
    return view[:length], view[end:]


def _json(text: bytes) -> JSON:
    def pairs(items: list[tuple[str, JSON]]) -> dict[str, JSON]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key is there twice")
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
    types = {"kind": str, "fingerprint": str, "meta": dict, "parts": list}
    if not isinstance(content, dict) or content.keys() != types.keys():
        raise StateError("the snapshot is damaged: its header has other fields than a document")
    for name, type_ in types.items():
        if not isinstance(content[name], type_):
            raise StateError(f"the snapshot is damaged: {name!r} of its header is not a {type_.__name__}")
    if content["kind"] not in KINDS:
        raise StateError(f"the snapshot is damaged: there are no {content['kind']!r} documents")
    for part in content["parts"]:
        if not isinstance(part, list) or [type(value) for value in part] != [str, int, int]:
            raise StateError("the snapshot is damaged: a part in its header is not [name, length, checksum]")
        if not is_natural(part[1]):
            raise StateError(f"the snapshot is damaged: its part {part[0]!r} has a length of {part[1]}")
    if len({part[0] for part in content["parts"]}) != len(content["parts"]):
        raise StateError("the snapshot is damaged: two parts have the same name")
    return content
