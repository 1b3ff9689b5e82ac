"""Documents that are truncated, damaged or forged: StateError, never a wrong answer or a large allocation.

After a failed write the old file still loads.
"""

import copy
import errno
import json
import os
import pathlib
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_result import TYPES, batch, table_of

from slidejoin import StateError, atomic_file
from slidejoin.atomic_file import write_file
from slidejoin.snapshot import binary
from slidejoin.snapshot.chunks import ChunkLog
from slidejoin.snapshot.parts import bits_part, read_bits, read_table, table_part

TABLE = pa.table({"key": [1, None, 3], "text": ["a", "long enough for a view", None]})


def sample() -> bytes:
    """A whole document, with a head and a chunk in it."""
    log = ChunkLog()
    log.advance((0, 0), (3, 0))
    rows = table_part(TABLE)
    chunk = binary.encode("chunk", "f1", {"rows": 3}, {"rows": rows, "flags": b"\x05", "none": b""})
    head = binary.encode("head", "f1", {"log": log.to_json(), "x": [1.5, None, "é"]}, {"late": b"abc"})
    return binary.bundle("f1", head, {log.alive[0].id: chunk})


def read(data: bytes) -> None:
    """All that a reader of a whole document does."""
    head, chunks = binary.unbundle(binary.decode(data))
    ChunkLog.from_json(binary.decode(head, "head").meta["log"])
    for chunk in chunks.values():
        document = binary.decode(chunk, "chunk")
        read_table(document.parts["rows"], document.meta["rows"])
        read_bits(document.parts["flags"], document.meta["rows"])


def test_truncated_at_every_byte() -> None:
    data = sample()
    read(data)
    for size in range(len(data)):
        with pytest.raises(StateError, match="truncated"):
            read(data[:size])


def test_every_bit_flipped() -> None:
    data = bytearray(sample())
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(StateError):
                read(bytes(data))
            data[position] ^= 1 << bit
    read(bytes(data))


def test_bytes_added_or_exchanged() -> None:
    data = sample()
    for tail in (b"\0", b"\0" * 8, b"x", data):
        with pytest.raises(StateError, match="follow its end"):
            read(data + tail)
    for position in range(0, len(data) - 16, 8):
        moved = bytearray(data)
        moved[position : position + 16] = data[position + 8 : position + 16] + data[position : position + 8]
        if moved != data:
            with pytest.raises(StateError):
                read(bytes(moved))


def test_the_version_is_checksummed() -> None:
    data = bytearray(binary.encode("chunk", "f1", {}, {"rows": b"abc"}))
    assert data[8:12] == struct.pack("<I", binary.VERSION)
    for version in range(1, binary.VERSION):
        data[8:12] = struct.pack("<I", version)
        with pytest.raises(StateError, match="checksum of its header"):
            binary.decode(data)


@given(st.binary(max_size=200))
def test_garbage(garbage: bytes) -> None:
    for data in (
        garbage,
        binary.MAGIC + garbage,
        struct.pack("<8sI", binary.MAGIC, 1) + garbage,
        forge(garbage),
    ):
        with pytest.raises(StateError):
            binary.decode(data)
    for reader in (read_table, lambda part: read_bits(part, 8 * len(part) + 1)):
        with pytest.raises(StateError):
            reader(garbage)


def test_messages_say_what_it_may_mean() -> None:
    data = sample()
    for wrong, message in (
        (b"PK\3\4" + data, "not a slidejoin snapshot"),
        (b"", "truncated"),
        (forge(b"{}", version=7), "version 7, .* up to 2: it was written by a newer one, upgrade"),
        (forge(b"{}", version=0), "version 0 does not exist"),
        (data[:-1], "truncated.*was it written or copied whole"),
    ):
        with pytest.raises(StateError, match=message):
            binary.decode(wrong)


# Forged: every checksum is right


def forge(header: Any, body: bytes = b"", version: int = 2, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    crc = zlib.crc32(text, zlib.crc32(struct.pack("<8sIQ", binary.MAGIC, version, length)))
    prefix = struct.pack("<8sIIQ", binary.MAGIC, version, crc, length)
    return prefix + text + bytes(-len(text) % 8) + body


def header(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"kind": "head", "fingerprint": "f", "meta": {}, "parts": list(parts)} | fields


EMPTY = zlib.crc32(b"")
FORGED = {
    "long header": forge(header(), length=2**63),
    "long header within the limit": forge(header(), length=2**24),
    "longest header": forge(header(), length=2**64 - 1),
    "long part": forge(header(["a", 2**60, EMPTY])),
    "longer than any number": forge(header(["a", 10**4299 * 9 + 10**4299 - 1, EMPTY])),
    "negative part": forge(header(["a", -8, EMPTY])),
    "negative after positive": forge(header(["a", 8, zlib.crc32(bytes(8))], ["b", -8, EMPTY]), bytes(8)),
    "fractional part": forge(header(["a", 0.0, EMPTY])),
    "flag as length": forge(header(["a", False, EMPTY])),
    "text as length": forge(header(["a", "0", EMPTY])),
    "no checksum": forge(header(["a", 0, None])),
    "two fields": forge(header(["a", 0])),
    "four fields": forge(header(["a", 0, EMPTY, 0])),
    "part is a text": forge(header("a0c")),
    "part is a number": forge(header(3)),
    "name is a list": forge(header([["a"], 0, EMPTY])),
    "two of one name": forge(header(["a", 0, EMPTY], ["a", 0, EMPTY])),
    "parts as a dict": forge(header(parts={})),
    "meta as a list": forge(header(meta=[])),
    "kind": forge(header(kind="tail")),
    "kind is a list": forge(header(kind=["head"])),
    "fingerprint": forge(header(fingerprint=None)),
    "another field": forge(header(more=1)),
    "a field less": forge({"kind": "head", "fingerprint": "f", "meta": {}}),
    "a list": forge([]),
    "a number": forge(b"1"),
    "nothing": forge(b""),
    "not JSON": forge(b"{"),
    "two documents": forge(b"{}{}"),
    "not ASCII": forge(json.dumps(header(fingerprint="é"), ensure_ascii=False).encode()),
    "UTF-16": forge(json.dumps(header()).encode("utf-16")),
    "key twice": forge(b'{"kind":"head","kind":"head","fingerprint":"f","meta":{},"parts":[]}'),
    "key twice inside": forge(b'{"kind":"head","fingerprint":"f","meta":{"a":1,"a":2},"parts":[]}'),
    "NaN": forge(header(meta={"a": float("nan")})),
    "infinite": forge(header(meta={"a": float("-inf")})),
    "infinite by size": forge(b'{"kind":"head","fingerprint":"f","meta":{"a":1e999},"parts":[]}'),
    "long number": forge(b'{"kind":"head","fingerprint":"f","meta":{"a":1' + b"0" * 10**5 + b'},"parts":[]}'),
    "deep": forge(b"[" * 10**5 + b"]" * 10**5),
    "deep dicts": forge(b'{"a":' * 10**5 + b"1" + b"}" * 10**5),
    "padding": forge(header(["a", 1, zlib.crc32(b"x")]), b"x\0\0\0\0\0\0\1"),
    "no padding": forge(header(["a", 1, zlib.crc32(b"x")]), b"x"),
    "whole without a head": binary.encode("whole", "f", {}, {"chunk/a": b""}),
    "whole with more": binary.encode("whole", "f", {}, {"head": b"", "tail": b""}),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_documents(name: str) -> None:
    data = FORGED[name]
    assert binary.decode(forge(header())).kind == "head"
    tracemalloc.start()
    try:
        with pytest.raises(StateError):
            binary.unbundle(binary.decode(data)) if name.startswith("whole") else binary.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000 + 50 * len(data)
    finally:
        tracemalloc.stop()


def test_header_beyond_the_limit() -> None:
    text = json.dumps(header()).encode()
    assert binary.decode(forge(text.ljust(2**24))).meta == {}
    with pytest.raises(StateError, match="at most 16777216"):
        binary.decode(forge(text.ljust(2**24 + 1)))


def stream(table: pa.Table, end: bool = True, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True, **options)
    )
    writer.write_table(table)
    if end:
        writer.close()
    return bytes(sink.getvalue())


def deltas() -> bytes:
    sink = pa.BufferOutputStream()
    column = [pa.DictionaryArray.from_arrays([0], ["a", "b"][:n]) for n in (1, 2)]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema([("x", column[0].type)]), options=options) as writer:
        for array in column:
            writer.write_batch(pa.record_batch([array], ["x"]))
    return bytes(sink.getvalue())


def long_null(length: int) -> pa.Array:
    return pa.Array.from_buffers(pa.null(), length, [None], null_count=length)


def long_run(length: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([length], pa.int64()), ["x" * 1000])


BOMBS: dict[str, Callable[[], bytes]] = {
    "nulls": lambda: stream(table_of(long_null(2**60))),
    "runs": lambda: stream(table_of(long_run(2**60))),
    "a few nulls": lambda: stream(table_of(long_null(10_000))),
    "nulls in a list": lambda: stream(
        table_of(pa.LargeListArray.from_arrays(pa.array([0, 2**60], pa.int64()), long_null(2**60)))
    ),
    "empty structs": lambda: stream(
        table_of(pa.Array.from_buffers(pa.struct([]), 2**60, [None], null_count=0))
    ),
    "empty binary": lambda: stream(
        table_of(pa.Array.from_buffers(pa.binary(0), 2**60, [None, pa.py_buffer(b"")], null_count=0))
    ),
    "nulls in many batches": lambda: stream(
        pa.table({"x": pa.chunked_array([long_null(2**12)] * 50)}), metadata_version=pa.ipc.MetadataVersion.V5
    ),
    "nulls in a dictionary": lambda: stream(
        table_of(pa.DictionaryArray.from_arrays(pa.array([0]), long_null(2**60), safe=False))
    ),
    "zstd": lambda: stream(pa.table({"x": np.zeros(10**7)}), compression="zstd"),
    "lz4": lambda: stream(pa.table({"x": np.zeros(10**7)}), compression="lz4"),
    "zstd in a dictionary": lambda: stream(
        table_of(pa.DictionaryArray.from_arrays(pa.array([0]), np.zeros(10**6))), compression="zstd"
    ),
    "deltas": deltas,
    "no end": lambda: stream(TABLE, end=False),
    "something behind the end": lambda: stream(TABLE) + b"\0\0\0\0\0\0\0\1",
    "another stream behind": lambda: stream(TABLE) * 2,
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("name", BOMBS)
def test_forged_tables(name: str) -> None:
    part = BOMBS[name]()
    system = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(system)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with pytest.raises(StateError):
            read_table(part)
        assert tracemalloc.get_traced_memory()[1] < 100_000 + 10 * len(part)
        assert (pool.max_memory() or 0) < 100_000 + 10 * len(part)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(system)


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"extension"}))
def test_flipped_tables(name: str) -> None:
    """Without a checksum a flip may give another table: a valid one, of the given rows, and no larger."""
    part = bytearray(table_part(table_of(batch(name, 3, 7))))
    random = np.random.default_rng(zlib.crc32(name.encode()))
    system = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(system)
    pa.set_memory_pool(pool)
    try:
        for position in range(len(part)):
            before = part[position]
            part[position] = before ^ (1 << random.integers(8))
            try:
                table = read_table(part, 7)
            except StateError:
                pass
            else:
                assert table.num_rows == 7
                table.validate(full=True)
                del table
            part[position] = before
        for size in range(0, len(part), 3):
            with pytest.raises(StateError):
                read_table(part[:size])
        assert (pool.max_memory() or 0) < 100_000
    finally:
        pa.set_memory_pool(system)


def test_forged_bits() -> None:
    part = bits_part(np.ones(11, bool))
    assert read_bits(part, 11).all()
    for count in (10, 9, 8, 17, -1, 2**70, None, 11.0, "11"):
        with pytest.raises(StateError):
            read_bits(part, count)  # type: ignore[arg-type]


# A forged log


def log() -> ChunkLog:
    made = ChunkLog()
    made.advance((0, 0), (10, 5))
    made.advance((2, 5), (20, 5))
    made.advance((12, 5), (30, 9))
    return made


def without(data: dict[str, Any], field: str) -> None:
    del data[field]


ID = "L9-0-0123456789ab"
WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no alive": lambda d: without(d, "alive"),
    "no generation": lambda d: without(d, "generation"),
    "more": lambda d: d.update(more=1),
    "generation lower": lambda d: d.update(generation=2),
    "generation text": lambda d: d.update(generation="3"),
    "generation true": lambda d: d.update(generation=True),
    "generation huge": lambda d: d.update(generation=2**63),
    "no branches": lambda d: d.update(branches=[]),
    "branch in the future": lambda d: d["branches"].append([4, "0" * 12]),
    "branches out of order": lambda d: d["branches"].insert(0, [1, "0" * 12]),
    "branches of one nonce": lambda d: d["branches"].append([2, d["branches"][0][1]]),
    "nonce": lambda d: d["branches"][0].__setitem__(1, "xyz"),
    "nonce number": lambda d: d["branches"][0].__setitem__(1, 3),
    "branch of three": lambda d: d["branches"][0].append(3),
    "branch text": lambda d: d["branches"][0].__setitem__(0, "0"),
    "firsts short": lambda d: d.update(firsts=[12]),
    "firsts long": lambda d: d.update(firsts=[12, 5, 5]),
    "firsts float": lambda d: d.update(firsts=[12.0, 5]),
    "firsts true": lambda d: d.update(firsts=[True, 5]),
    "firsts lower": lambda d: d.update(firsts=[9, 5]),
    "firsts higher": lambda d: d.update(firsts=[20, 5]),
    "firsts beyond": lambda d: d.update(firsts=[31, 5]),
    "negative": lambda d: d.update(firsts=[12, -1]),
    "nexts higher": lambda d: d.update(nexts=[31, 9]),
    "nexts lower": lambda d: d.update(nexts=[29, 9]),
    "no chunk": lambda d: d["alive"].pop(),
    "gap": lambda d: d["alive"].pop(1),
    "order": lambda d: d["alive"].reverse(),
    "twice": lambda d: d["alive"].append(d["alive"][-1]),
    "chunk short": lambda d: d["alive"][0].pop(),
    "chunk a number": lambda d: d["alive"].append(3),
    "chunk side": lambda d: d["alive"][0].__setitem__(1, 1),
    "chunk side 2": lambda d: d["alive"][0].__setitem__(1, 2),
    "chunk side false": lambda d: d["alive"][0].__setitem__(1, False),
    "chunk start float": lambda d: d["alive"][0].__setitem__(2, 10.0),
    "chunk start": lambda d: d["alive"][0].__setitem__(2, 11),
    "chunk stop": lambda d: d["alive"][0].__setitem__(3, 21),
    "chunk stop text": lambda d: d["alive"][0].__setitem__(3, "20"),
    "chunk generation": lambda d: d["alive"][0].__setitem__(4, 3),
    "chunk as young as the next": lambda d: d["alive"].__setitem__(0, ["L3-10-0123456789ab", 0, 10, 20, 3]),
    "chunk of the future": lambda d: d["alive"].__setitem__(1, ["L4-20-0123456789ab", 0, 20, 30, 4]),
    "chunk id": lambda d: d["alive"][0].__setitem__(0, "../../etc/passwd"),
    "chunk id number": lambda d: d["alive"][0].__setitem__(0, 3),
    "chunk id list": lambda d: d["alive"][0].__setitem__(0, []),
    "empty chunk": lambda d: d.update(
        generation=4, alive=[*d["alive"], ["L4-30-0123456789ab", 0, 30, 30, 4]]
    ),
    "dead id": lambda d: d["dead"].append(["x", 1, 2]),
    "dead id number": lambda d: d["dead"].append([3, 1, 2]),
    "dead twice": lambda d: d["dead"].append(d["dead"][0]),
    "dead and alive": lambda d: d["dead"].append([d["alive"][0][0], 1, 2]),
    "dead before birth": lambda d: d["dead"].append([ID, 2, 2]),
    "dead in the future": lambda d: d["dead"].append([ID, 2, 4]),
    "dead text": lambda d: d["dead"].append([ID, "1", 2]),
    "dead long ago": lambda d: d.update(generation=5000),
    "dead a dict": lambda d: d.update(dead={"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_forged_logs(name: str) -> None:
    data = json.loads(json.dumps(log().to_json()))
    ChunkLog.from_json(copy.deepcopy(data))
    WRONG[name](data)
    with pytest.raises(StateError, match="log of chunks is damaged"):
        ChunkLog.from_json(data)


@pytest.mark.parametrize(
    "fields",
    [{"generation": 2**63}, {"generation": True}, {"generation": 0.0}]
    + [{"firsts": [value, 0], "nexts": [value, 0]} for value in (-1, 2**63, True, 0.0, "0")]
    + [{"firsts": [1, 0]}, {"nexts": [1, 0]}],
)  # fmt: skip
def test_forged_empty_logs(fields: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="log of chunks is damaged"):
        ChunkLog.from_json(ChunkLog().to_json() | fields)


@pytest.mark.parametrize("data", [None, 3, "text", [], {}, [[]], {"generation": 1}, True])
def test_no_logs(data: Any) -> None:
    with pytest.raises(StateError, match="log of chunks is damaged"):
        ChunkLog.from_json(data)


# Files whose writing fails


class Disk:
    """The calls of ``os`` that write files, of which the n-th of a kind fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, nth: int, error: BaseException) -> None:
        self.calls: list[str] = []
        self.reached = False
        for name in ("open", "write", "fsync", "close", "replace"):
            monkeypatch.setattr(atomic_file.os, name, self.wrap(name, getattr(os, name), kind, nth, error))

    def wrap(self, name: str, real: Any, kind: str, nth: int, error: BaseException) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name == "write":
                args = (args[0], args[1][:1000])  # a disk may take less than it is given
            if name == kind and self.calls.count(name) == nth:
                self.reached = True
                if name == "close":
                    real(*args)
                raise error
            return real(*args, **kwargs)

        return call


FAULTS = [("open", 1), ("write", 1), ("write", 2), ("write", 3), ("fsync", 1), ("close", 1), ("replace", 1)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, None])
@pytest.mark.parametrize(("kind", "nth"), FAULTS)
@pytest.mark.parametrize("exists", [True, False])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: pathlib.Path, kind: str, nth: int, code: int | None, exists: bool
) -> None:
    old, new = binary.encode("head", "old", {}, {}), binary.encode("head", "new", {}, {"a": bytes(2900)})
    path = tmp_path / "state.bin"
    if exists:
        write_file(path, old)
    error = KeyboardInterrupt() if code is None else OSError(code, os.strerror(code))
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, kind, nth, error)
        with pytest.raises(type(error)) as caught:
            write_file(path, new)
    assert disk.reached
    assert caught.value is error
    if isinstance(error, OSError):
        assert error.filename == str(path)
        assert error.errno == code
    assert os.listdir(tmp_path) == ["state.bin"] * exists
    if exists:
        assert binary.decode(path.read_bytes()).fingerprint == "old"
    write_file(path, new)
    assert binary.decode(path.read_bytes()).fingerprint == "new"


@pytest.mark.parametrize("kind", ["open", "write", "fsync", "close", "replace"])
def test_an_interrupt_after_a_call_leaves_no_temporary_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real, opened = getattr(os, kind), []

    def call(*args: Any, **kwargs: Any) -> None:
        opened.append(real(*args, **kwargs))
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_file.os, kind, call)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "state.bin", b"new")
    monkeypatch.undo()
    if kind == "open":
        os.close(opened[0])
    assert os.listdir(tmp_path) == ["state.bin"] * (kind == "replace")


@pytest.mark.skipif(os.name == "nt", reason="directories are synced on POSIX only")
def test_what_reaches_the_disk_and_when(tmp_path: pathlib.Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, "", 0, OSError())
        write_file(tmp_path / "a", b"x")
    expected = ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]
    assert disk.calls == expected


@pytest.mark.skipif(os.name == "nt", reason="directories are synced on POSIX only")
@pytest.mark.parametrize(("kind", "nth"), [("open", 2), ("fsync", 2), ("close", 2)])
def test_a_directory_that_cannot_be_synced(tmp_path: pathlib.Path, kind: str, nth: int) -> None:
    path = tmp_path / "state.bin"
    write_file(path, binary.encode("head", "old", {}, {}))
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, kind, nth, OSError(errno.EIO, "I/O error"))
        with pytest.raises(OSError, match=r"I/O error.*state\.bin"):
            write_file(path, binary.encode("head", "new", {}, {}))
    assert os.listdir(tmp_path) == ["state.bin"]
    assert binary.decode(path.read_bytes()).fingerprint == "new"


def test_no_directory(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere.*state\.bin"):
        write_file(tmp_path / "nowhere" / "state.bin", b"x")
    with pytest.raises(OSError):
        write_file(tmp_path, b"x")
    assert os.listdir(tmp_path) == []
