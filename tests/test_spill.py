"""Rows in mapped files: the same as in memory for every type; where the files are, and that none stays."""

import gc
import logging
import mmap
import os
import pathlib
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_result import TYPES, batch, plain, table_of

import slidejoin as sj
from slidejoin import spill
from slidejoin.columns import Layout
from slidejoin.result import RowStore, matched_rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files grow in small steps, so that few rows make many of them."""
    monkeypatch.setattr(spill, "SEGMENT", 4096)
    monkeypatch.setattr(spill, "BLOCK", 600)
    monkeypatch.setattr(spill, "MAPPED", 2**15)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    """Mapped files without a name; those of this test's own making, as others leave none."""
    return pathlib.Path("/proc/self/maps").read_text().count("(deleted)")


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "k": numbers * 7919 % 1000,
            "id": numbers,
            "text": pa.array([f"row {i} " * (i % 4) if i % 9 else None for i in numbers.tolist()]),
            "tags": pa.array([[i] * (i % 3) for i in numbers.tolist()], pa.list_(pa.int64())),
            "kind": pa.array([f"kind {i % 5}" for i in numbers.tolist()]).dictionary_encode(),
        }
    )


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_the_same_in_files(name: str, tmp_path: pathlib.Path) -> None:
    schema = table_of(batch(name, 0, 1)).schema
    store, other = RowStore(schema, 5, spill=spill.open_spill(str(tmp_path))), RowStore(schema, 5)
    rng = np.random.default_rng(5)
    spilled = 0
    for step in range(30):
        table = table_of(batch(name, 7 * step, int(rng.integers(0, 300)), nulls=step % 4 > 0).slice(step % 3))
        first, after = store.first, store.next - int(rng.integers(0, 20)) * (step % 5 == 4)
        for each in (store, other):
            each.truncate(max(first, after))
            each.append(table)
            each.drop_before(max(first, each.next - 700))
        assert (store.first, store.next) == (other.first, other.next)
        positions = rng.integers(other.first - 1, other.next, 40 * bool(len(other)))
        positions[positions < other.first] = -1
        assert plain(store.take(positions)[0]) == plain(other.take(positions)[0])
        spilled = max(spilled, store.spilled)
    assert store.table().equals(other.table()) or plain(store.table()[0]) == plain(other.table()[0])
    # Arrow knows no bytes of these, or they are in the dictionary.
    assert spilled > 1500 or name in ("null", "empty binary", "empty struct"), spilled
    assert other.spilled == 0
    if "dictionary" not in name and spilled:
        assert store.nbytes <= 2 * spill.BLOCK


def test_rows_of_two_stores_side_by_side(tmp_path: pathlib.Path) -> None:
    files = spill.open_spill(str(tmp_path))
    table = rows(0, 3000).drop_columns(["tags", "kind"])
    stores = [RowStore(table.schema, spill=each) for each in (files, files, None, None)]
    for store in stores:
        for at in range(0, 3000, 500):
            store.append(table.slice(at, 500))
    left, right = np.random.default_rng(1).integers(0, 3000, (2, 5000))
    schema = pa.schema([*table.schema, *(field.with_name(field.name + "2") for field in table.schema)])
    found, expected = (
        matched_rows(Layout(schema, schema, None, None), ((a, left), (b, right)))
        for a, b in (stores[:2], stores[2:])
    )
    assert found.equals(expected)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_join_gives_the_same_results(how: Any, workers: int, tmp_path: pathlib.Path) -> None:
    on = sj.band("k", within=0)
    one, other = (
        sj.WindowJoin(on, sj.rows(900), how=how, order="full", workers=workers, spill=path)
        for path in (tmp_path, None)
    )
    for i in range(12):
        batch = {("left", "right")[i % 2]: rows(500 * i, 500)}
        assert one.push(**batch).equals(other.push(**batch))
    one.check()
    assert one.stats["spilled_bytes"] > 100_000
    assert one.stats["memory_bytes"] < other.stats["memory_bytes"]
    assert {**one.stats, "memory_bytes": 0, "spilled_bytes": 0} == {**other.stats, "memory_bytes": 0}
    assert f"MB in mapped files in {tmp_path}; the index is in memory" in repr(one.explain())
    assert "mapped files" not in repr(other.explain())
    assert one.finish().equals(other.finish())


def test_a_snapshot_has_the_same_bytes_and_goes_on_in_files(tmp_path: pathlib.Path) -> None:
    one, other = (
        sj.WindowJoin(sj.equal("k"), sj.rows(900), how="left", spill=path) for path in (tmp_path, None)
    )
    for join in (one, other):
        join.push(left=rows(0, 2000))
        join.push(right=rows(400, 2000))
    data = one.snapshot(tmp_path / "saved")
    assert data == other.snapshot()
    for given in (data, tmp_path / "saved"):
        again = sj.WindowJoin.restore(given, spill=tmp_path)
        assert again.stats["spilled_bytes"] > 0
        assert again.snapshot() == data
        assert again.push(right=rows(0, 900)).equals(sj.WindowJoin.restore(data).push(right=rows(0, 900)))
    increment = one.snapshot_since()
    mapped = {}
    for i, (name, chunk) in enumerate(increment.chunks.items()):
        (tmp_path / f"chunk {i}").write_bytes(chunk)
        with (tmp_path / f"chunk {i}").open("rb") as file:
            mapped[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    again = sj.WindowJoin.restore(increment.head, chunks=mapped, spill=tmp_path)
    assert again.snapshot() == data
    (tmp_path / "empty").touch()
    with pytest.raises(sj.StateError):
        sj.WindowJoin.restore(tmp_path / "empty", spill=tmp_path)


def test_no_file_and_no_descriptor_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    gc.collect()
    before, mapped = descriptors(), mappings()
    joins = [sj.WindowJoin(sj.equal("k"), sj.rows(5000), spill=path) for _ in range(2)]
    results = []
    for i in range(6):
        batch = {("left", "right")[i % 2]: rows(1000 * i, 1000)}
        results += [join.push(**batch) for join in joins]
        assert os.listdir(path) == []
    assert mappings() > mapped + 10
    assert descriptors() == before + 2  # of the directory, for each join
    assert [table.num_rows for table in results[::2]] == [table.num_rows for table in results[1::2]]
    joins[0].close()
    assert joins[0].stats["spilled_bytes"] == 0
    assert descriptors() == before + 1
    joins.clear()
    gc.collect()
    assert (descriptors(), mappings()) == (before, mapped)
    assert results[-1].num_rows  # it is not in files
    results[-1].validate(full=True)


def test_the_window_decides_how_large_the_files_are(tmp_path: pathlib.Path) -> None:
    store = RowStore(
        pa.schema([("a", pa.int64()), ("s", pa.string())]), spill=spill.open_spill(str(tmp_path))
    )
    most = 0
    for step in range(200):
        values = range(500 * step, 500 * step + 500)
        store.append(pa.table({"a": values, "s": [f"text {i:08d}" for i in values]}))
        store.drop_before(max(0, store.next - 5000))
        most = max(most, store.spilled)
    assert most < 2 * 5500 * (8 + 8 + 13)
    assert store.take(np.array([store.first, store.next - 1]))[1].to_pylist() == [
        "text 00095000",
        "text 00099999",
    ]
    store.drop_before(store.next)
    assert store.spilled <= 3 * most / 8 + 3 * 4096


def test_the_directory_is_created_for_its_user_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new"
    sj.WindowJoin(sj.equal("k"), 10, spill=path).push(left={"k": [1]})
    assert path.stat().st_mode & 0o777 == 0o700
    sj.WindowJoin(sj.equal("k"), 10, spill=str(path))  # it may exist


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "spill=5; expected the path of a directory, or None"),
        (True, "spill=True; expected the path"),
        ("", "spill=''; expected the path"),
        (b"/tmp", "spill=b'/tmp'; expected the path"),
        ("a\0b", "expected the path"),
        ("{tmp}/file", "/file' cannot be used (Not a directory); expected a directory that you can write to"),
        ("{tmp}/missing/new", "cannot be used (No such file or directory)"),
        ("{tmp}/link", "/link' is a link; name the directory itself, '{tmp}/real'"),
        ("{tmp}/dangling", "is a link; name the directory itself"),
        ("{tmp}/real/../real", "has '..' in it; name the directory itself, '{tmp}/real'"),
        ("{tmp}/link/../../etc", "has '..' in it"),
        ("/proc/self", "is a link"),
        ("/proc", "/proc' cannot be used"),
    ],
)
def test_paths_that_are_refused(given: Any, says: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    path = given.format(tmp=tmp_path) if isinstance(given, str) else given
    data = sj.WindowJoin(sj.equal("k"), 10).snapshot()
    before = descriptors()
    for call in (
        lambda: sj.WindowJoin(sj.equal("k"), 10, spill=path),
        lambda: sj.WindowJoin.restore(data, spill=path),
    ):
        with pytest.raises(sj.SpecError) as error:
            call()
        assert says.format(tmp=tmp_path) in str(error.value)
        del error
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file", "link", "real"]
    assert descriptors() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make what belongs to others")
def test_what_belongs_to_others_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    sj.WindowJoin(sj.equal("k"), 10, spill=tmp_path / "link" / "new")  # a link of one's own on the way
    os.chown(tmp_path / "theirs", 12345, 12345)
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    with pytest.raises(sj.SpecError, match="belongs to user 12345, not to you"):
        sj.WindowJoin(sj.equal("k"), 10, spill=tmp_path / "theirs")
    with pytest.raises(sj.SpecError, match=r"leads through '.*link', a link of user 12345"):
        sj.WindowJoin(sj.equal("k"), 10, spill=tmp_path / "link" / "new")


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a file system in memory")
def test_a_directory_in_memory_is_said_to_be_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = f"/dev/shm/slidejoin-test-{os.getpid()}"
    try:
        with caplog.at_level(logging.WARNING, "slidejoin"):
            join = sj.WindowJoin(sj.equal("k"), 10, spill=path)
        assert "is a file system in memory (tmpfs): rows there take memory" in caplog.text
        assert "a file system in memory (tmpfs)" in repr(join.explain())
    finally:
        os.rmdir(path)


def test_nested_extension_types_stay_in_memory(tmp_path: pathlib.Path) -> None:
    type_ = pa.struct([("t", TYPES["extension"][0])])
    assert not spill.can_spill(type_)
    values = pa.StructArray.from_arrays([batch("extension", 0, 500)], ["t"])
    store = RowStore(pa.schema([("s", type_)]), spill=spill.open_spill(str(tmp_path)))
    store.append(pa.table({"s": values}))
    assert (store.spilled, store.table()["s"].type) == (0, type_)


def test_blocks_of_nested_columns_leave_their_files_with_their_rows(tmp_path: pathlib.Path) -> None:
    store = RowStore(rows(0, 1).select(["tags"]).schema, spill=spill.open_spill(str(tmp_path)))
    for at in range(0, 1000, 100):
        store.append(rows(at, 100).select(["tags"]))
    assert store.spilled > 10 * spill.BLOCK
    assert store.nbytes <= 2 * spill.BLOCK
    store.append(rows(1000, 4).select(["tags"]))
    store.drop_before(store.next - 4)
    assert store.spilled == 0
    assert store.table()["tags"].to_pylist() == rows(1000, 4)["tags"].to_pylist()
