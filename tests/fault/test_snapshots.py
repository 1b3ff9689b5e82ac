"""Snapshots of joins that are truncated, damaged, mixed up or forged are refused with StateError.

After a failed write the old file still loads. ``test_snapshot_documents`` tests the same for documents that
do not belong to a join. SLIDEJOIN_TESTS=long damages every byte.
"""

import copy
import errno
import json
import os
import random
import tracemalloc

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import atomic_file
from slidejoin.snapshot import binary
from slidejoin.snapshot.parts import table_part
from slidejoin.spec import JoinSpec

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
SAMPLE = 120  # damaged bytes of each document, besides those of its structure
TEXTS = pa.dictionary(pa.int32(), pa.string())
NESTED = pa.struct([("tags", pa.list_(pa.string())), ("code", TEXTS)])


def rows(keys, ts, start=0):
    """Rows with an int, text, dictionary and nested payload."""
    count = range(start, start + len(keys))
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "ts": pa.array(ts, pa.int64()),
            "text": pa.array([f"text {i}" for i in count]),
            "code": pa.array([f"c{i % 3}" for i in count], TEXTS),
            "nested": pa.array([{"tags": ["a", None][: i % 3], "code": f"n{i}"} for i in count], NESTED),
        }
    )


# --- joins with all that a snapshot can hold ---


def rows_left():
    join = sj.WindowJoin(sj.band("k", within=1), sj.rows(4), how="left")
    join.push(left=rows([1, 5, None, 7, 9, 11], range(6)))
    join.push(right=rows([2, None, 9], range(3)))
    join.push(left=rows([2, 30], [6, 7]), store=False)
    return join


def within_text():
    join = sj.WindowJoin(sj.equal("text") & sj.less_equal("k"), sj.within(20, time="ts"), how="left_anti")
    join.push(left=rows([1, 5, None, 7], [1, 2, 3, 3]))
    join.push(right=rows([2, 5, 9], [3, 4, 30], start=1))
    join.push(left=rows([3, 3], [31, None]))
    return join


def interval_full():
    window = sj.interval(5, 5, time="ts", lateness=2, late="return")
    join = sj.WindowJoin(sj.band("k", within=1), window, how="full")
    join.push(left=rows([1, 2, 3, 4], [10, 11, 12, 20]))
    join.push(right=rows([1, 9, 4], [12, 13, 21]))
    join.push(left=rows([1, 2], [3, 22], start=9))
    join.push(right=rows([1, 2], [4, 5], start=9))
    join.advance(19)
    assert join.stats["late_left"] == 1
    return join


def sources_waiting():
    window = sj.interval(50, 50, time="ts", lateness=3, late="return")
    join = sj.WindowJoin(sj.equal("k"), window, how="left_semi")
    a, b, c = join.source("left", "a"), join.source("left", "b c"), join.source("right", "é")
    a.push(rows([1, 2, 3], [1, 5, None]))
    b.push(rows([2, 3], [None, 4], start=5))
    c.push(rows([1, 2, 3], [2, 3, 9]))
    join.source("right", "done").finish()
    c.idle()
    return join


def held_back():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(2), how="full")
    join.push(left=rows([1, None, 2, 3, 4], range(5)))
    return join


def self_join():
    join = sj.WindowJoin(sj.less("k"), sj.interval(3, 3, time="ts", lateness=1), self_join=True)
    join.push(rows([3, 1, 2, 5], [1, 3, 2, 4]))
    return join


def nothing_yet():
    return sj.WindowJoin(sj.equal("k"), sj.rows(2))


JOINS = {make.__name__: make for make in (
    rows_left, within_text, interval_full, sources_waiting, held_back, self_join, nothing_yet,
)}  # fmt: skip
EVERY = pytest.mark.parametrize("make", JOINS.values(), ids=JOINS)


def in_parts(make):
    """A join of which three increments were kept: the last one, and all chunks."""
    join = make()
    kept, token = {}, None
    for start in (40, 42, 44):
        if join.spec.self_join:
            join.push(rows([7, 8], [start, start + 1], start))
        elif make is not sources_waiting:
            join.push(left=rows([7, 8], [start, start + 1], start))
        new = join.snapshot_since(token)
        kept.update(new.chunks)
        for name in new.dead:
            del kept[name]
        token = new.token
    return join, new, kept


def use(join):
    """What a user does next. Errors of ours are fine, others are not."""
    join.stats, join.check(), join.explain(), join.snapshot()
    more = rows([1, 2], [100, 100], start=50)
    if join.spec.self_join:
        join.push(more)
    elif join._sources is not None:
        join.source("left", "a").push(more)
        join.source("right", "é").push(more)
    else:
        join.push(left=more)
        join.push(right=more)
    join.finish()


# --- torn and flipped ---


def structure(data):
    """Places of a document that mean something: prefix, header, and the ends of all parts, inside too."""
    *_, length = binary.PREFIX.unpack_from(data)
    places = set(range(binary.PREFIX.size))
    end = binary.PREFIX.size + length
    places |= {binary.PREFIX.size, end - 1, end}
    header = json.loads(bytes(data[binary.PREFIX.size : end]))
    at = end + -end % binary.ALIGNMENT
    for _, size, _ in header["parts"]:
        inner = bytes(data[at : at + size])
        if inner.startswith(binary.MAGIC):
            places |= {at + place for place in structure(inner)}
        places |= set(range(at - 8, at + 8)) | set(range(at + size - 8, at + size + 8))
        at += size + -size % binary.ALIGNMENT
    return {place for place in places if 0 <= place < len(data)}


def damaged_places(data, seed):
    if LONG:
        return range(len(data))
    some = random.Random(seed).sample(range(len(data)), min(SAMPLE, len(data)))
    return sorted(structure(data) | set(some))


def damaged(data, seed):
    """The data cut off at places and with a bit flipped there."""
    choose = random.Random(seed)
    for place in damaged_places(data, seed):
        yield data[:place]
        flipped = bytearray(data)
        flipped[place] ^= 1 << choose.randrange(8)
        yield bytes(flipped)


@EVERY
def test_a_whole_snapshot_torn_or_flipped(make):
    data = make().snapshot()
    use(sj.WindowJoin.restore(data))
    for broken in damaged(data, 1):
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(broken)
    for more in (b"\0", b"\0" * 8, data):
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(data + more)


@EVERY
def test_a_head_torn_or_flipped(make):
    _, new, kept = in_parts(make)
    use(sj.WindowJoin.restore(new.head, chunks=kept))
    for broken in damaged(new.head, 2):
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(broken, chunks=kept)


@EVERY
def test_chunks_torn_or_flipped(make):
    _, new, kept = in_parts(make)
    for name, chunk in kept.items():
        for broken in damaged(chunk, 3):
            with pytest.raises(sj.StateError, match="not the one that the head was written with"):
                sj.WindowJoin.restore(new.head, chunks={**kept, name: broken})


def test_a_file_torn_on_disk(tmp_path):
    path = tmp_path / "join.snapshot"
    data = rows_left().snapshot(path)
    assert path.read_bytes() == data
    path.write_bytes(data[: len(data) // 2])
    for name in (path, str(path)):
        with pytest.raises(sj.StateError, match="truncated"):
            sj.WindowJoin.restore(name)
    path.write_bytes(b"")
    with pytest.raises(sj.StateError, match="truncated"):
        sj.WindowJoin.restore(path)
    with pytest.raises(FileNotFoundError, match="none"):
        sj.WindowJoin.restore(tmp_path / "none")


def test_what_is_neither_bytes_nor_a_path():
    released = memoryview(b"abc")
    released.release()
    for data in (5, None, [1], released, memoryview(b"abcd")[::2], "a\0b", rows_left()):
        kind = type(data).__name__
        with pytest.raises(sj.UsageError, match=rf"data is a {kind}\b.*; expected bytes or a path"):
            sj.WindowJoin.restore(data)
    _, new, kept = in_parts(rows_left)
    with pytest.raises(sj.UsageError, match="is a memoryview; expected its bytes"):
        sj.WindowJoin.restore(new.head, chunks=dict.fromkeys(kept, released))
    for path in (5, b"file", ["file"], "a\0b"):
        with pytest.raises(sj.UsageError, match="expected the name of a file, or None"):
            rows_left().snapshot(path)


# --- mixed up ---


def test_chunks_that_are_missing_swapped_or_of_others():
    _, new, kept = in_parts(interval_full)
    assert len(kept) >= 4
    names = sorted(kept)
    for name in names:
        others = {each: chunk for each, chunk in kept.items() if each != name}
        with pytest.raises(sj.StateError, match=r"1 of .* chunks are missing"):
            sj.WindowJoin.restore(new.head, chunks=others)
        for other in others:
            with pytest.raises(sj.StateError, match="not the one that the head was written with"):
                sj.WindowJoin.restore(new.head, chunks={**kept, name: kept[other]})
    with pytest.raises(sj.StateError, match="chunks are missing"):
        sj.WindowJoin.restore(new.head, chunks={})
    _, _, foreign = in_parts(interval_full)  # the same rows, but not the same join
    with pytest.raises(sj.StateError, match="chunks are missing"):
        sj.WindowJoin.restore(new.head, chunks=foreign)
    _, stranger, strange = in_parts(rows_left)
    with pytest.raises(sj.StateError):
        sj.WindowJoin.restore(stranger.head, chunks=kept)
    with pytest.raises(sj.StateError):
        sj.WindowJoin.restore(new.head, chunks=dict(zip(names, strange.values(), strict=False)))
    use(sj.WindowJoin.restore(new.head, chunks={**kept, **foreign, **strange}))


def test_a_head_of_another_generation():
    """A head finds its chunks as long as they are there; without them it is refused."""
    join = sj.WindowJoin(sj.equal("k"), sj.rows(2), how="left")
    join.push(left=rows([1, 2], [0, 0]))
    first = join.snapshot_since()
    join.push(left=rows([3, 4], [0, 0]))
    second = join.snapshot_since(first.token)
    assert set(second.dead) == set(first.chunks)
    both = {**first.chunks, **second.chunks}
    for each in (first, second):
        use(sj.WindowJoin.restore(each.head, chunks=both))
    with pytest.raises(sj.StateError, match="missing"):
        sj.WindowJoin.restore(first.head, chunks=second.chunks)
    crossed = dict(zip(first.chunks, second.chunks.values(), strict=True))
    with pytest.raises(sj.StateError, match="not the one"):
        sj.WindowJoin.restore(first.head, chunks=crossed)


def test_documents_of_another_kind():
    join, new, kept = in_parts(rows_left)
    chunk = next(iter(kept.values()))
    for data, chunks in (
        (new.head, None), (chunk, None), (chunk, kept), (join.snapshot(), kept), (join.snapshot(), {}),
    ):  # fmt: skip
        with pytest.raises(sj.StateError, match=r"this is (a|the) "):
            sj.WindowJoin.restore(data, chunks=chunks)


def test_an_index_that_is_none_is_a_wrong_argument_and_no_damage():
    with pytest.raises(sj.SpecError, match="index='hash'"):
        sj.WindowJoin.restore(rows_left().snapshot(), index="hash")


# --- forged: every checksum is right ---


def forged(data, change):
    """A whole snapshot whose head was changed, by a function of its meta and of its parts."""
    head, chunks = binary.unbundle(binary.decode(data))
    document = binary.decode(head)
    meta, parts = copy.deepcopy(document.meta), dict(document.parts)
    change(meta, parts)
    try:
        fingerprint = JoinSpec.from_json(meta["spec"]).fingerprint
    except (sj.Error, KeyError, TypeError, AttributeError):
        fingerprint = document.fingerprint
    return binary.bundle(fingerprint, binary.encode("head", fingerprint, meta, parts), chunks)


def paths(value, path=()):
    """Where values stand in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))


def at(meta, path):
    for key in path:
        meta = meta[key]
    return meta


def put(path, value):
    def change(meta, _):
        at(meta, path[:-1])[path[-1]] = copy.deepcopy(value)

    return change


def cut(path):
    def change(meta, _):
        del at(meta, path[:-1])[path[-1]]

    return change


NONSENSE = (-1, 2**31, 2**63, 2**64, 2**200, 0.5, 1e300, "x", "1e999", "", None, True, [], {}, [[]], {"x": 1})


def restored_or_refused(data):
    """None for a StateError, else the join; memory stays small either way."""
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        try:
            join = sj.WindowJoin.restore(data)
        except sj.StateError:
            join = None
        assert tracemalloc.get_traced_memory()[1] < 2**24
        assert pa.total_allocated_bytes() - before < 2**24
    finally:
        tracemalloc.stop()
    return join


def some(changes, seed):
    return changes if LONG else random.Random(seed).sample(changes, min(SAMPLE, len(changes)))


@pytest.mark.parametrize("make", JOINS.values(), ids=JOINS)
def test_any_value_of_a_head_forged(make):
    """Refused; or taken for another join that can be, and then it works as one."""
    data = make().snapshot()
    meta = binary.decode(binary.unbundle(binary.decode(data))[0]).meta
    changes = []
    for path in list(paths(meta))[1:]:
        changes += [(path, value, put(path, value)) for value in NONSENSE if value != at(meta, path)]
        if isinstance(path[-1], str):
            changes.append((path, "cut", cut(path)))
    wrong = []
    for path, value, change in some(changes, 4):
        try:
            join = restored_or_refused(forged(data, change))
            if join is not None:
                use(join)
        except sj.Error:
            pass
        except Exception as error:
            wrong.append((path, value, repr(error)[:100]))
    assert not wrong, "\n".join(map(str, wrong))


def change_part(name, part):
    """Replace a part of the head, or with None leave it out."""

    def change(_, parts):
        assert part is None or name in parts, parts.keys()
        parts.pop(name, None)
        if part is not None:
            parts[name] = part

    return change


def nudge(path, by):
    def change(meta, _):
        at(meta, path[:-1])[path[-1]] += by

    return change


def stranger_fingerprint(data):
    head, chunks = binary.unbundle(binary.decode(data))
    document = binary.decode(head)
    other = binary.encode("head", "0" * 64, document.meta, document.parts)
    return binary.bundle("0" * 64, other, chunks)


LEFT = ("engine", "native", "left")
OTHER = table_part(pa.table({"other": [1]}))
NO_COLUMNS = table_part(pa.table({"other": pa.array([], pa.int64())}))
FORGED = {
    "a negative count": (rows_left, put(("unequal",), -1)),
    "negative rows": (rows_left, put((*LEFT, "admitted"), -1)),
    "a negative position": (rows_left, put((*LEFT, "first"), -1)),
    "a huge position": (rows_left, put((*LEFT, "next"), 2**62)),
    "all positions elsewhere": (rows_left, put((*LEFT, "first"), 2**62)),
    "one row more": (rows_left, nudge((*LEFT, "next"), 1)),
    "one row less": (rows_left, nudge((*LEFT, "next"), -1)),
    "one row more before": (rows_left, nudge((*LEFT, "first"), -1)),
    "a number for a flag": (rows_left, put((*LEFT, "idle"), 3)),
    "a text for a time": (interval_full, put((*LEFT, "progress"), "x")),
    "a time of 200 bits": (interval_full, put(("engine", "native", "watermark"), 2**200)),
    "no engine, but rows": (rows_left, put(("engine",), None)),
    "no rows of left": (rows_left, put(("stored",), [False, True])),
    "no flag for right": (rows_left, put(("stored",), [True])),
    "no chunks": (rows_left, put(("chunks",), {})),
    "another chunk": (rows_left, put(("chunks",), {"left": 1, "right": 1})),
    "a chunk that is none": (rows_left, put(("chunks", "middle"), 1)),
    "another checksum": (rows_left, nudge(("chunks", "left"), 1)),
    "no spec": (rows_left, cut(("spec",))),
    "another window": (rows_left, put(("spec", "window", "left"), 0)),
    "another join type": (rows_left, put(("spec", "how"), "outer")),
    "more unequal pairs than matches": (rows_left, put(("unequal",), 2**40)),
    "a log for a whole": (rows_left, put(("log",), {"generation": 1})),
    "no flags of matches": (rows_left, change_part("left matched", None)),
    "too few flags": (rows_left, change_part("left matched", b"")),
    "too many flags": (rows_left, change_part("left matched", bytes(9))),
    "flags behind the last": (rows_left, change_part("left matched", b"\xff")),
    "no columns": (rows_left, change_part("left columns", None)),
    "other columns": (rows_left, change_part("left columns", NO_COLUMNS)),
    "columns with rows": (rows_left, change_part("left columns", OTHER)),
    "columns that are no table": (rows_left, change_part("right columns", b"x" * 64)),
    "late rows of others": (interval_full, change_part("left late", OTHER)),
    "held rows of others": (held_back, change_part("held", OTHER)),
    "held rows of no side": (held_back, put(("held_side",), 7)),
    "held rows of the other side": (held_back, put(("held_side",), 1)),
    "no unit of time": (interval_full, cut(("engine", "unit"))),
    "a unit of integers": (interval_full, put(("engine", "unit"), "s")),
    "a unit that does not exist": (interval_full, put(("engine", "unit"), "x")),
    "a list of units": (interval_full, put(("engine", "unit"), ["ns"])),
    "a unit of rows": (rows_left, put(("engine", "unit"), "s")),
    "rows that wait of others": (sources_waiting, change_part("waiting left a", OTHER)),
    "no rows that wait": (sources_waiting, change_part("waiting left a", None)),
    "more rows that wait": (sources_waiting, nudge(("sources", "order", "sources", 0, "waiting"), 1)),
    "a source of no side": (sources_waiting, put(("sources", "order", "sources", 1, "side"), 7)),
    "a source twice": (sources_waiting, put(("sources", "order", "sources", 1, "name"), "a")),
    "a source without a name": (sources_waiting, put(("sources", "order", "sources", 1, "name"), None)),
    "a text for the latest time": (sources_waiting, put(("sources", "order", "sources", 1, "latest"), "x")),
    "a huge latest time": (sources_waiting, put(("sources", "order", "sources", 1, "latest"), 2**63)),
    "a text for open": (sources_waiting, put(("sources", "order", "sources", 1, "is_open"), "x")),
    "a frontier of no time": (sources_waiting, put(("sources", "order", "frontier"), ["x", 0, "a"])),
    "a frontier that is none": (sources_waiting, put(("sources", "order", "frontier"), [])),
    "an order as of another window": (sources_waiting, put(("sources", "order", "strict"), True)),
    "no columns of time": (sources_waiting, put(("sources", "columns"), [])),
    "other columns of time": (sources_waiting, put(("sources", "columns"), ["k", "k"])),
    "no order": (sources_waiting, put(("sources", "order"), 3)),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_heads(name):
    make, change = FORGED[name]
    assert restored_or_refused(forged(make().snapshot(), change)) is None


def test_another_fingerprint():
    with pytest.raises(sj.StateError, match="fingerprint differs"):
        sj.WindowJoin.restore(stranger_fingerprint(rows_left().snapshot()))


def forged_chunk(change):
    """A whole snapshot of which the left chunk was changed, and its checksum in the head with it."""
    head, chunks = binary.unbundle(binary.decode(rows_left().snapshot()))
    document = binary.decode(chunks["left"])
    meta, parts = dict(document.meta), dict(document.parts)
    fingerprint = change(meta, parts) or document.fingerprint
    chunk = binary.encode("chunk", fingerprint, meta, parts)
    top = binary.decode(head)
    sums = {**top.meta["chunks"], "left": binary.checksum(chunk)}
    head = binary.encode("head", top.fingerprint, {**top.meta, "chunks": sums}, top.parts)
    return binary.bundle(top.fingerprint, head, {**chunks, "left": chunk})


CHUNKS = {
    "of right": put(("side",), 1),
    "of no side": put(("side",), 7),
    "without a side": cut(("side",)),
    "a row earlier": nudge(("start",), -1),
    "a row later": nudge(("start",), 1),
    "a row longer": nudge(("stop",), 1),
    "of huge positions": put(("stop",), 2**62),
    "of negative positions": put(("start",), -5),
    "of texts for positions": put(("start",), "0"),
    "moved": lambda meta, _: (nudge(("start",), 3)(meta, _), nudge(("stop",), 3)(meta, _))[0],
    "of other rows": change_part("rows", OTHER),
    "without rows": change_part("rows", None),
    "with rows that are no table": change_part("rows", bytes(80)),
    "without flags": change_part("unseen", None),
    "with too many flags": change_part("unseen", bytes(9)),
    "of another join": lambda _, __: "0" * 64,
}


@pytest.mark.parametrize("name", CHUNKS)
def test_forged_chunks(name):
    use(sj.WindowJoin.restore(forged_chunk(lambda _, __: None)))
    assert restored_or_refused(forged_chunk(CHUNKS[name])) is None


def test_a_head_whose_log_names_other_chunks():
    _, new, kept = in_parts(rows_left)
    document = binary.decode(new.head)
    meta = copy.deepcopy(document.meta)
    meta["log"]["alive"] = meta["log"]["alive"][1:]
    with pytest.raises(sj.StateError, match=r"log|chunks"):
        sj.WindowJoin.restore(binary.encode("head", document.fingerprint, meta, document.parts), chunks=kept)
    lost = {**document.meta, "log": None}
    forged_head = binary.encode("head", document.fingerprint, lost, document.parts)
    restored = sj.WindowJoin.restore(forged_head, chunks=kept)  # as a whole one: goes on, without tokens
    with pytest.raises(sj.StateError, match="another join"):
        restored.snapshot_since(new.token)


# --- disks that fail ---


FAULTS = [("write", 1), ("write", 2), ("fsync", 1), ("replace", 1)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["no space", "no disk"])
@pytest.mark.parametrize(("kind", "nth"), FAULTS)
def test_the_old_file_loads_after_a_failed_write(tmp_path, kind, nth, code, monkeypatch):
    path = tmp_path / "join.snapshot"
    join = interval_full()
    old = join.snapshot(path)
    stats = join.stats
    join.push(left=rows([1], [30]))
    reached = fail(monkeypatch, kind, nth, code)
    with pytest.raises(OSError, match=os.strerror(code)):
        join.snapshot(path)
    monkeypatch.undo()
    assert reached
    assert os.listdir(tmp_path) == ["join.snapshot"]
    assert path.read_bytes() == old
    restored = sj.WindowJoin.restore(path).stats
    assert {**restored, "memory_bytes": 0} == {**stats, "memory_bytes": 0}
    new = join.snapshot(path)  # the join itself has not noticed
    assert sj.WindowJoin.restore(path).snapshot() == sj.WindowJoin.restore(new).snapshot()
    use(join)


def fail(monkeypatch, kind, nth, code):
    """Let the n-th call of a kind fail; the list that is returned then has an entry."""
    calls, reached = [], []
    real = getattr(os, kind)

    def call(*args, **options):
        calls.append(kind)
        if len(calls) == nth:
            reached.append(kind)
            raise OSError(code, os.strerror(code))
        if kind == "write":
            return real(args[0], args[1][:1000])  # a disk may take less than it is given
        return real(*args, **options)

    monkeypatch.setattr(atomic_file.os, kind, call)
    return reached
