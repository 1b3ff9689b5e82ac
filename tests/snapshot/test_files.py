"""Snapshots of earlier versions go on: the files in data/snapshots, and what must come out of them.

Each was written by ``write`` at the version in its name, with the results of the steps that follow beside it
as JSON. Files are never regenerated: a new format adds files of its own, the old ones stay and must be read.
The results of version 1 follow today's rule for rows at the watermark; its other counters stay as they were.
"""

import json
import pathlib
import zlib

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.snapshot import binary

FILES = pathlib.Path(__file__).parents[1] / "data" / "snapshots"
VERSIONS = range(1, binary.VERSION + 1)  # a new one fails until its files are there


def rows_left():
    """A left join on a band: rows that have matched, that have not, and that only probed."""
    join = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(left=4, right=3), how="left", order="full")
    join.push(left={"id": [0, 1, 2, 3, 4], "price": [1.0, 2.0, None, 4.0, 5.0]})
    join.push(right={"id": [0, 1], "price": [2.25, 9.0]})
    join.push(right={"id": [7], "price": [4.5]}, store=False)
    return join


ROWS_LEFT = [
    ("push", {"right": {"id": [2, 3], "price": [5.5, 2.0]}}),
    ("push", {"left": {"id": [5, 6, 7], "price": [9.25, float("nan"), 2.5]}}),
    ("push", {"right": {"id": [4], "price": [2.5]}}),
    ("finish", {}),
]


def within_text():
    """An inner join on texts and their like, with suffixes; the two sides have different columns."""
    window = sj.within(10, time=("at", "ts"))
    join = sj.WindowJoin(
        sj.equal("name", "symbol") & sj.not_equal("note"), window, order="full", suffixes=("_l", "_r")
    )
    join.push(left={"name": ["a", "b", None, "é"], "at": [1, 2, 3, None], "note": ["x", "", None, "y"]})
    join.push(right={"symbol": ["a", "b", "é"], "ts": [4, 5, 5], "note": ["y", "", "x"]})
    return join


WITHIN_TEXT = [
    ("push", {"left": {"name": ["b", "é"], "at": [6, 11], "note": ["z", "longer than twelve bytes"]}}),
    ("push", {"right": {"symbol": ["a", "b", "é"], "ts": [11, 12, 30], "note": ["z", "x", "x"]}}),
    ("push", {"left": {"name": ["é"], "at": [40], "note": ["z"]}}),
    ("finish", {}),
]


def interval_full():
    """A full join in event time: rows that wait in sources, late rows that nobody took, lists beside them."""
    window = sj.interval(5, 3, time="ts", lateness=2, late="return")
    join = sj.WindowJoin(sj.equal("id") & sj.band("v", within=2), window, how="full", order="full")
    a, b = join.source("left", "a"), join.source("left", "b")
    c, d = join.source("right", "c"), join.source("right", "d")
    a.push(events([1, 2, 2, 3], [10, 12, None, 20], [0, 1, 2, 3]))
    c.push(events([1, 2, 3], [11, 12, 19], [1, 9, 4]))
    d.finish()
    b.push(events([1], [9], [5]))
    b.idle()
    a.push(events([4, 4], [22, 23], [1, 1]))
    c.push(events([4], [21], [2]))
    b.push(events([1, 9], [9, 19], [6, 6]))  # late, and just in time
    b.idle()
    return join


def events(ids, ts, values):
    return {"id": ids, "ts": ts, "v": values, "tags": [[str(value)] * (value % 3) for value in values]}


INTERVAL_FULL = [
    ("take_late", {"side": "left"}),
    ("source", {"side": "right", "name": "c", "rows": events([4, 9], [24, 25], [1, 7])}),
    ("source", {"side": "left", "name": "b", "rows": events([1], [19], [6])}),
    ("source", {"side": "left", "name": "a", "rows": events([9, 4], [26, 27], [8, 3])}),
    ("take_late", {"side": "left"}),
    ("finish", {}),
]


def increments():
    """A left semi join in event time on zoned timestamps: three increments, of which one chunk is dead."""
    window = sj.interval("4s", "4s", time="ts", lateness="1s")
    join = sj.WindowJoin(sj.equal("id"), window, how="left_semi", order="full")
    kept, token = {}, None
    for start in (0, 4, 8):
        join.push(left=seconds([1, 2, 3], start))
        join.push(right=seconds([5, 2], start))
        new = join.snapshot_since(token)
        kept.update(new.chunks)
        for name in new.dead:
            del kept[name]
        token = new.token
    return join, new, kept


def seconds(ids, start):
    times = pa.array(range(start, start + len(ids)), pa.int64()).cast(pa.timestamp("s", "Europe/Berlin"))
    return {"id": ids, "ts": times}


INCREMENTS = [
    ("push", {"right": seconds([1, 3, 3], 10)}),
    ("push", {"left": seconds([3, 5, 1], 12)}),
    ("finish", {}),
]

CASES = {
    "rows-left": (rows_left, ROWS_LEFT),
    "within-inner-text": (within_text, WITHIN_TEXT),
    "interval-full-sources": (interval_full, INTERVAL_FULL),
}


LATER = ("dropped_left", "dropped_right", "spilled_bytes")  # counters that the files do not have
NOT_STORED = ("memory_bytes", *LATER)


def go_on(join, steps):
    """The results of each step, and the counters before each: what JSON can say."""
    found = []
    for name, arguments in steps:
        stats = {key: str(value) for key, value in join.stats.items() if key not in NOT_STORED}
        assert not any(join.stats[key] for key in LATER)
        if name == "source":
            source = join.source(arguments["side"], arguments["name"])
            result = source.push(arguments["rows"])
        else:
            result = getattr(join, name)(**arguments)
        rows = [[str(value) for value in row.values()] for row in result.to_pylist()]
        found.append({"step": name, "before": stats, "columns": result.column_names, "rows": rows})
        join.check()
    return found


def results(found, version):
    """The steps, for version 1 without the counters: it forgot a row one tick earlier."""
    return [{key: value for key, value in step.items() if version > 1 or key != "before"} for step in found]


def write(version):
    """Write the files of a version; called once for each, before the next one is made."""
    for name, (make, steps) in CASES.items():
        join = make()
        join.snapshot(FILES / f"v{version}-{name}.snapshot")
        write_json(FILES / f"v{version}-{name}.json", go_on(join, steps))
    join, new, kept = increments()
    folder = FILES / f"v{version}-increments"
    folder.mkdir()
    (folder / "head").write_bytes(new.head)
    for name, chunk in kept.items():
        (folder / name).write_bytes(chunk)
    expected = {"token": new.token, "chunks": sorted(kept), "future": go_on(join, INCREMENTS)}
    write_json(folder / "expected.json", expected)


def write_json(path, value):
    assert not path.exists(), "files are never regenerated"
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("index", [None, "b-tree", "nested-loop"])
def test_files_go_on(version, name, index):
    make, steps = CASES[name]
    expected = json.loads((FILES / f"v{version}-{name}.json").read_text(encoding="utf-8"))
    restored = sj.WindowJoin.restore(FILES / f"v{version}-{name}.snapshot", index=index)
    again = sj.WindowJoin.restore(restored.snapshot())
    assert go_on(restored, steps) == expected
    assert go_on(again, steps) == expected
    assert results(go_on(make(), steps), version) == results(expected, version)  # a join that never stopped
    assert sum(len(step["rows"]) for step in expected) >= 4, "it says something"


@pytest.mark.parametrize("version", VERSIONS)
def test_increments_go_on(version):
    folder = FILES / f"v{version}-increments"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    head = (folder / "head").read_bytes()
    chunks = {name: (folder / name).read_bytes() for name in expected["chunks"]}
    assert go_on(sj.WindowJoin.restore(head, chunks=chunks), INCREMENTS) == expected["future"]
    assert results(go_on(increments()[0], INCREMENTS), version) == results(expected["future"], version)
    restored = sj.WindowJoin.restore(head, chunks=chunks)
    restored.push(right=seconds([1], 12))
    new = restored.snapshot_since(expected["token"])  # only what is new, of chunks that the old head had
    assert [name[0] for name in new.chunks] == ["R"]
    later = sj.WindowJoin.restore(new.head, chunks={**chunks, **new.chunks})
    assert later.stats["rows_right"] == restored.stats["rows_right"] == 7


def damaged(data):
    """The data with one byte changed, at every tenth place."""
    for place in range(0, len(data), 10):
        yield data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_damaged_files_are_refused(version, name):
    for broken in damaged((FILES / f"v{version}-{name}.snapshot").read_bytes()):
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(broken)


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_increments_are_refused(version):
    folder = FILES / f"v{version}-increments"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".json"}
    for name, data in files.items():
        for broken in damaged(data):
            chunks = {**files, name: broken}
            with pytest.raises(sj.StateError):
                sj.WindowJoin.restore(chunks.pop("head"), chunks=chunks)


def test_rows_are_checksummed_once(monkeypatch):
    summed = []
    crc32 = zlib.crc32
    monkeypatch.setattr(zlib, "crc32", lambda data, *rest: summed.append(len(data)) or crc32(data, *rest))

    def bytes_summed(call, *arguments, **options):
        summed.clear()
        result = call(*arguments, **options)
        return result, sum(summed)

    join = sj.WindowJoin(sj.equal("id"), sj.rows(10_000))
    join.push(left={"id": range(10_000)})
    join.push(right={"id": range(10_000)})
    data, written = bytes_summed(join.snapshot)
    restored, read = bytes_summed(sj.WindowJoin.restore, data)
    assert 0.95 * len(data) < written <= read <= len(data) + 100
    new, written = bytes_summed(join.snapshot_since)
    _, read = bytes_summed(sj.WindowJoin.restore, new.head, chunks=new.chunks)
    size = len(new.head) + sum(map(len, new.chunks.values()))
    assert 0.95 * size < written <= read <= size + 100
    assert restored.stats["rows_left"] == 10_000
