"""Documents, tables, flags, files and the log of chunks: round trips. For damage see tests/fault."""

import json
import math
import os
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_result import TYPES, Celsius, batch, plain, table_of

from slidejoin import StateError
from slidejoin.atomic_file import write_file
from slidejoin.snapshot import binary
from slidejoin.snapshot.chunks import Chunk, ChunkLog, check_chunks
from slidejoin.snapshot.parts import bits_part, read_bits, read_table, table_part

SNAPSHOTS = pathlib.Path(__file__).parents[1] / "data" / "snapshots"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


# Documents


@given(
    st.sampled_from(binary.KINDS),
    st.text(),
    st.dictionaries(st.text(), values, max_size=5),
    st.dictionaries(st.text(), st.binary(max_size=50), max_size=5),
)
def test_document_round_trip(kind: Any, fingerprint: str, meta: Any, parts: dict[str, bytes]) -> None:
    data = binary.encode(kind, fingerprint, meta, parts)
    assert len(data) % 8 == 0
    for given_data in (
        data,
        bytearray(data),
        memoryview(data),
        pa.py_buffer(data),
        np.frombuffer(data, "u1"),
    ):
        document = binary.decode(given_data, kind)
        assert (document.kind, document.version, document.fingerprint) == (kind, binary.VERSION, fingerprint)
        assert repr(document.meta) == repr(meta)  # repr: also -0.0, and 1 is neither 1.0 nor True
        assert list(document.parts) == list(parts)
        assert {name: bytes(part) for name, part in document.parts.items()} == parts


def test_parts_are_aligned_views_without_copies() -> None:
    array = np.arange(5, dtype="<i4")
    data = binary.encode("chunk", "f", {}, {"odd": b"abc", "array": array, "none": np.empty((0, 3))})
    document = binary.decode(data)
    base = np.frombuffer(data, np.uint8).ctypes.data
    for part in document.parts.values():
        if part.nbytes:
            offset = np.frombuffer(part, np.uint8).ctypes.data - base
            assert offset % 8 == 0
            assert 0 < offset < len(data)
            assert part.readonly
    assert np.array_equal(np.frombuffer(document.parts["array"], "<i4"), array)
    assert document.parts["none"].nbytes == 0


@pytest.mark.parametrize(
    "meta",
    [{"a": (1, 2)}, {"a": {1: 2}}, {"a": math.nan}, {"a": math.inf}, {"a": b"x"}, {"a": {1}}, {1: 2},
     {"a": 10**5000}],
)  # fmt: skip
def test_meta_that_json_would_change_is_refused(meta: Any) -> None:
    with pytest.raises(StateError, match="JSON"):
        binary.encode("head", "f", meta, {})


def test_encode_refuses_what_decode_would() -> None:
    with pytest.raises(ValueError, match="kind='tail'"):
        binary.encode("tail", "f", {}, {})  # type: ignore[arg-type]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(StateError, match="JSON"):
        binary.encode("head", "f", {"a": deep}, {})
    with pytest.raises(StateError, match="at most 16777216"):
        binary.encode("head", "f", {"a": "x" * 2**24}, {})
    with pytest.raises(TypeError):
        binary.encode("head", "f", {}, {"a": "text"})


def test_bundle() -> None:
    head = binary.encode("head", "f", {"a": 1}, {})
    chunks = {"L1-0": binary.encode("chunk", "f", {}, {"rows": b"12345"}), "head": b"", "": b"x"}
    whole = binary.decode(binary.bundle("f", head, chunks), "whole")
    assert whole.fingerprint == "f"
    assert binary.unbundle(whole) == (head, chunks)
    assert binary.unbundle(binary.decode(binary.bundle("f", head, {}))) == (head, {})
    with pytest.raises(StateError, match="'head' document, expected a 'whole' one"):
        binary.decode(head, "whole")
    with pytest.raises(StateError, match="not one head and chunks"):
        binary.unbundle(binary.decode(head))


def kept_document() -> bytes:
    """What v1-document.bin and v2-document.bin in tests/data/snapshots were written with."""
    table = pa.table({"key": pa.array([1, None, 3], pa.int64()), "text": ["a", "é" * 9, None]})
    parts = {
        "rows": table_part(table),
        "flags": bits_part(np.arange(11) % 3 == 0),
        "empty": b"",
    }
    meta = {"start": 2**62, "ratio": 0.1, "text": "ü\ud800\n", "nested": {"list": [1, 2.5, None, True, {}]}}
    return binary.encode("chunk", "0123456789abcdef", meta, parts)


@pytest.mark.parametrize("version", range(1, binary.VERSION + 1))
def test_every_version_is_still_read(version: int) -> None:
    # The files are what users have on their disks: never write them anew. A new version of the format adds a
    # file of its own, v3-document.bin.
    document = binary.decode((SNAPSHOTS / f"v{version}-document.bin").read_bytes(), "chunk")
    assert (document.version, document.fingerprint) == (version, "0123456789abcdef")
    assert document.meta == {
        "start": 2**62,
        "ratio": 0.1,
        "text": "ü\ud800\n",
        "nested": {"list": [1, 2.5, None, True, {}]},
    }
    assert list(document.parts) == ["rows", "flags", "empty"]
    assert document.meta == binary.decode(kept_document()).meta
    table = read_table(document.parts["rows"], 3)
    assert table.to_pydict() == {"key": [1, None, 3], "text": ["a", "é" * 9, None]}
    assert read_bits(document.parts["flags"], 11).tolist() == [i % 3 == 0 for i in range(11)]


# Tables and flags


@pytest.fixture
def celsius() -> Any:
    pa.register_extension_type(Celsius())
    yield
    pa.unregister_extension_type("slidejoin.test.celsius")


@pytest.mark.usefixtures("celsius")
@pytest.mark.parametrize("name", TYPES)
def test_every_type_survives(name: str) -> None:
    chunks = [batch(name, 0, 40), batch(name, 40, 9).slice(2, 5), batch(name, 0, 0)]
    for arrays in (chunks, chunks[:1], chunks[2:]):
        column = pa.chunked_array(arrays, TYPES[name][0])
        metadata = {b"key": b"\xff\x00"}
        field = pa.field("é", column.type, metadata=metadata)
        table = pa.table([column], schema=pa.schema([field], metadata=metadata))
        back = read_table(table_part(table), rows=len(column))
        assert back.schema.equals(table.schema, check_metadata=True)
        assert plain(back[0]) == plain(table[0])
        back.validate(full=True)


@given(st.lists(st.tuples(st.sampled_from(sorted(set(TYPES) - {"extension"}))), max_size=5),
       st.integers(0, 30), st.integers(0, 30))  # fmt: skip
def test_tables_of_many_columns(names: list[tuple[str]], count: int, skip: int) -> None:
    table = table_of(*(batch(name, 3, count) for (name,) in names)).slice(skip)
    document = binary.decode(binary.encode("chunk", "f", {}, {"x": b"1", "rows": table_part(table)}))
    back = read_table(document.parts["rows"], rows=table.num_rows)
    assert back.schema == table.schema
    assert [plain(column) for column in back.columns] == [plain(column) for column in table.columns]


def test_table_is_read_in_place_or_aligned() -> None:
    table = pa.table({"x": np.arange(10_000)})
    part = table_part(table)
    before = pa.total_allocated_bytes()
    back = read_table(part)
    assert pa.total_allocated_bytes() - before < 1000
    start = part.address
    assert start <= back["x"].chunk(0).buffers()[1].address < start + part.size
    odd = memoryview(b"1" + part.to_pybytes())[1:]
    back = read_table(odd)
    assert back.equals(table)
    assert back["x"].chunk(0).buffers()[1].address % 8 == 0


def test_small_values_have_a_bit_each() -> None:
    for array in (pa.nulls(10**6), pa.compute.run_end_encode(pa.array(np.zeros(10**6)))):
        table = table_of(array)
        part = table_part(table)
        assert 10**6 / 8 <= part.size < 10**6
        assert read_table(part, 10**6).equals(table)


def test_wrong_number_of_rows() -> None:
    part = table_part(pa.table({"x": [1, 2, 3]}))
    for rows in (0, 2, 4, -3, "3"):
        with pytest.raises(StateError, match=f"has 3 rows, {rows} are expected"):
            read_table(part, rows)  # type: ignore[arg-type]


def test_tables_that_cannot_be_read_back_are_not_written() -> None:
    invalid = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], "i4")), pa.py_buffer(b"\xff"))
    with pytest.raises(StateError, match="UTF8"):
        table_part(pa.table({"x": invalid}))


@given(st.lists(st.booleans(), max_size=40))
def test_bits(flags: list[bool]) -> None:
    part = bits_part(np.array(flags, bool))
    assert len(part) == -(-len(flags) // 8)
    back = read_bits(part, len(flags))
    assert back.dtype == bool
    assert back.tolist() == flags
    assert part == sum(flag << i for i, flag in enumerate(flags)).to_bytes(len(part), "little")


# Files


def test_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.bin"
    for data in (b"first", pa.py_buffer(b"second"), b"", bytes(3_000_000)):
        write_file(path, data)
        assert path.read_bytes() == bytes(memoryview(data))
        assert os.listdir(tmp_path) == ["state.bin"]
    monkeypatch.chdir(tmp_path)
    write_file("plain", b"name")
    assert (tmp_path / "plain").read_bytes() == b"name"


@pytest.mark.skipif(os.name == "nt", reason="needs links and permissions of POSIX")
def test_a_link_stays_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far" / "target")
    write_file(link, b"through")
    assert link.is_symlink()
    assert (tmp_path / "far" / "target").read_bytes() == b"through"
    umask = os.umask(0o022)
    os.umask(umask)
    assert (tmp_path / "far" / "target").stat().st_mode & 0o777 == 0o666 & ~umask


# Chunks


def test_check_chunks() -> None:
    chunks = {name: binary.encode("chunk", name, {}, {}) for name in ("L1-0", "R1-0")}
    expected = {name: binary.checksum(chunk) for name, chunk in chunks.items()}
    checked = check_chunks(expected, chunks | {"dead": b"x"})
    assert checked == {name: binary.decode(chunk) for name, chunk in chunks.items()}
    with pytest.raises(StateError, match="1 of 2 chunks are missing, 'L1-0' first"):
        check_chunks(expected, {"R1-0": chunks["R1-0"]})
    head = binary.encode("head", "L1-0", {}, {})
    for wrong in (b"abc", b"", head, chunks["R1-0"], chunks["L1-0"] + bytes(8)):
        with pytest.raises(StateError, match="'L1-0' is not the one"):
            check_chunks(expected, chunks | {"L1-0": wrong})
    for crcs in (expected | {"L1-0": expected["L1-0"] + 1}, expected | {"L1-0": None}):
        with pytest.raises(StateError, match="'L1-0' is not the one"):
            check_chunks(crcs, chunks)


def rows(chunks: list[Chunk]) -> list[tuple[int, int, int]]:
    return [(chunk.side, chunk.start, chunk.stop) for chunk in chunks]


def test_generations() -> None:
    log = ChunkLog()
    empty = log.token
    assert log.since(None) == log.since(empty) == ([], [])
    first = log.advance((0, 0), (10, 0))
    assert rows(first) == [(0, 0, 10)]
    one = log.token
    assert log.advance((9, 0), (10, 0)) == []
    two = log.token
    assert len({empty, one, two}) == 3
    second = log.advance((20, 5), (30, 6))
    assert rows(second) == [(0, 20, 30), (1, 5, 6)]
    assert log.alive == second
    for token in (one, two):
        assert log.since(token) == (second, [first[0].id])
    assert log.since(empty) == (second, [])
    assert log.since(None) == (second, [first[0].id])
    assert log.since(log.token) == ([], [])


def test_cut_anew() -> None:
    log = ChunkLog()
    log.advance((0, 0), (10, 10))
    held, token = {chunk.id for chunk in log.alive}, log.token
    log.advance((0, 0), (20, 10))
    log.advance((15, 0), (30, 10))
    new = log.advance((16, 1), (40, 11), since=token)
    assert rows(new) == [(0, 16, 40), (1, 10, 11)]
    chunks, dead = log.since(token)
    assert chunks == new
    assert held - set(dead) | {chunk.id for chunk in chunks} == {chunk.id for chunk in log.alive}
    assert rows(log.advance((17, 1), (40, 11), since=None)) == [(0, 17, 40), (1, 1, 11)]
    assert len(log.alive) == 2


def test_positions_never_go_back() -> None:
    log = ChunkLog()
    log.advance((5, 5), (10, 10))
    before = log.to_json()
    for firsts, nexts in (((4, 5), (10, 10)), ((5, 5), (10, 9)), ((5, 11), (10, 10)), ((-1, 5), (10, 10))):
        with pytest.raises((StateError, ValueError)):
            log.advance(firsts, nexts)
        assert log.to_json() == before


@pytest.mark.parametrize("token", ["", "x", "0-0", 3, b"", "é", "ffffffffffff-1\n", "ffffffffffff-01"])
def test_malformed_tokens(token: Any) -> None:
    with pytest.raises(StateError, match="is not one that a snapshot gave"):
        ChunkLog().since(token)


def test_foreign_future_and_old_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkLog, "KEPT", 3)
    log = ChunkLog()
    old = log.token
    with pytest.raises(StateError, match="of another join"):
        log.since(ChunkLog().token)
    with pytest.raises(StateError, match="newer than the state"):
        log.since(old.replace("-0", "-1"))
    for i in range(3):
        log.advance((i, 0), (i + 1, 0))
    assert log.since(old)[1] == []
    log.advance((3, 0), (4, 0))
    with pytest.raises(StateError, match=r"is 4 snapshots old.*full snapshot, with None"):
        log.since(old)
    for i in range(4, 6):
        assert len(log.to_json()["dead"]) == 3
        log.advance((i, 0), (i + 1, 0))
        ChunkLog.from_json(log.to_json())


def test_two_joins_that_go_on_from_one_snapshot() -> None:
    log = ChunkLog()
    log.advance((0, 0), (10, 10))
    text, shared = json.dumps(log.to_json()), log.token
    one, two = ChunkLog.from_json(json.loads(text)), ChunkLog.from_json(json.loads(text))
    assert one.token == two.token == shared
    assert one.alive == log.alive
    assert one.to_json() == log.to_json()
    logs = [log, one, two]
    ids = [each.advance((0, 0), (11, 10))[0].id for each in logs]
    assert len(set(ids)) == 3
    for each in logs:
        assert len(each.since(shared)[0]) == 1
        for other in logs:
            if other is not each:
                with pytest.raises(StateError, match="full snapshot, with None"):
                    each.since(other.token)


class LogMachine(RuleBasedStateMachine):
    """A log against sets of ids: what each token's holder has, after each increment, is what is alive."""

    @initialize()
    def begin(self) -> None:
        self.log = ChunkLog()
        self.log.KEPT = 6  # type: ignore[misc]
        self.firsts, self.nexts = [0, 0], [0, 0]
        self.holders: dict[str, tuple[int, set[str]]] = {self.log.token: (0, set())}
        self.refused: list[str] = [ChunkLog().token]
        self.generation = 0
        self.seen: set[str] = set()
        self.saved: list[tuple[str, list[int], list[int], int]] = []

    @rule(side=st.integers(0, 1), new=st.integers(0, 9), gone=st.integers(0, 12))
    def push(self, side: int, new: int, gone: int) -> None:
        self.nexts[side] += new
        self.firsts[side] = min(self.firsts[side] + gone, self.nexts[side])

    def advance(self, *since: Any) -> list[Chunk]:
        new = self.log.advance(tuple(self.firsts), tuple(self.nexts), *since)
        self.generation += 1
        ids = {chunk.id for chunk in new}
        assert len(ids) == len(new)
        assert not ids & self.seen
        self.seen |= ids
        self.holders[self.log.token] = (self.generation, {chunk.id for chunk in self.log.alive})
        assert all(self.firsts[chunk.side] <= chunk.start for chunk in new)
        return new

    @rule()
    def go_on(self) -> None:
        before = self.log.alive
        new = self.advance()
        assert self.log.alive == [c for c in before if c.stop > self.firsts[c.side]] + new

    @rule(data=st.data())
    def cut_anew(self, data: st.DataObject) -> None:
        tokens = [t for t, (generation, _) in self.holders.items() if self.generation - generation < 6]
        token = data.draw(st.sampled_from([None, *tokens]))
        new = self.advance(token)
        assert self.log.since(token)[0] == new

    @rule()
    def save(self) -> None:
        if self.log.to_json()["generation"] == self.generation:
            self.saved.append((json.dumps(self.log.to_json()), *self.positions(), self.generation))

    def positions(self) -> tuple[list[int], list[int]]:
        document = self.log.to_json()
        return list(document["firsts"]), list(document["nexts"])

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.saved) - 1))
        text, firsts, nexts, generation = self.saved[index]
        del self.saved[index + 1 :]
        self.firsts, self.nexts, self.generation = list(firsts), list(nexts), generation
        self.refused += [token for token, (born, _) in self.holders.items() if born > generation]
        self.holders = {token: holder for token, holder in self.holders.items() if holder[0] <= generation}
        self.log = ChunkLog.from_json(json.loads(text))
        self.log.KEPT = 6  # type: ignore[misc]
        assert json.dumps(self.log.to_json()) == text

    @invariant()
    def holders_have_what_is_alive(self) -> None:
        alive = {chunk.id for chunk in self.log.alive}
        for token, (generation, held) in self.holders.items():
            if generation < self.generation - 6:
                with pytest.raises(StateError, match="full snapshot, with None"):
                    self.log.since(token)
                continue
            new, dead = self.log.since(token)
            assert set(dead) <= held
            assert held - set(dead) | {chunk.id for chunk in new} == alive
            assert not held & {chunk.id for chunk in new}
        for token in self.refused:
            with pytest.raises(StateError, match="full snapshot, with None"):
                self.log.since(token)

    @invariant()
    def rows_stand_in_one_chunk_each(self) -> None:
        firsts, nexts = self.positions()
        for side in (0, 1):
            positions = [p for c in self.log.alive if c.side == side for p in range(c.start, c.stop)]
            assert [p for p in positions if p >= firsts[side]] == list(range(firsts[side], nexts[side]))


TestLog = LogMachine.TestCase
