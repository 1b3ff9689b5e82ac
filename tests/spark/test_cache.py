"""The cache of live joins and chunk files: right or not there, private, and no larger than it may be."""

import errno
import os
import stat
import subprocess
import sys
import time

import pytest

import slidejoin as sj
from slidejoin.spark import cache
from slidejoin.spark.cache import ChunkFiles, LiveJoins

BIG = 2**30


def some_join(rows=1):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(10**6))
    join.push(left={"id": list(range(rows))})
    return join


def is_closed(join):
    try:
        join.push(left={"id": [1]})
    except sj.Error:
        return True
    return False


# --- live joins ---


def test_a_join_is_taken_out_once_and_by_its_token_alone():
    joins, join, key = LiveJoins(), some_join(), ("query", 3)
    joins.put(key, "t1", join, BIG)
    assert joins.take(("query", 4), "t1") is None
    assert joins.take(("another", 3), "t1") is None
    assert joins.take(key, "t1") is join
    assert joins.take(key, "t1") is None, "whoever has it in hand may fail"
    assert not is_closed(join)


def test_an_old_join_is_given_to_nobody_ever():
    joins, join, key = LiveJoins(), some_join(), ("query", 3)
    joins.put(key, "t2", join, BIG)
    assert joins.take(key, "t1") is None
    assert joins.take(key, "t2") is None
    assert is_closed(join)


def test_a_newer_join_takes_the_place():
    joins, old, new, key = LiveJoins(), some_join(), some_join(), ("query", 3)
    joins.put(key, "t1", old, BIG)
    joins.put(key, "t2", new, BIG)
    assert len(joins) == 1
    assert joins.take(key, "t2") is new


def test_the_joins_used_last_are_kept():
    made = [some_join(1000) for _ in range(4)]
    size = made[0].stats["memory_bytes"]
    joins = LiveJoins()
    for number, join in enumerate(made[:3]):
        joins.put(("query", number), "t", join, 3 * size)
    assert joins.take(("query", 0), "t") is made[0]
    joins.put(("query", 0), "t", made[0], 3 * size)  # used again
    joins.put(("query", 3), "t", made[3], 3 * size)
    assert [is_closed(join) for join in made] == [False, True, False, False]
    assert joins.take(("query", 1), "t") is None
    assert len(joins) == 3


@pytest.mark.parametrize("limit", [0, 10])
def test_a_join_larger_than_the_limit_is_not_kept(limit):
    joins, small, large = LiveJoins(), some_join(), some_join(100_000)
    joins.put(("query", 0), "t", small, BIG)
    joins.put(("query", 1), "t", large, limit)
    assert len(joins) == 0
    assert is_closed(small)
    assert is_closed(large)


# --- files ---


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


def contents(files, group, names):
    return {name: bytes(buffer) for name, buffer in files.read(group, names).items()}


def test_what_was_written_is_read_by_all(root):
    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A", "b": b"B" * 10**6}, alive=["a", "b"])
    files.write(2, {"a": b"other"}, alive=["a"])
    other = ChunkFiles("q", BIG, root)
    assert contents(other, 1, ["a", "b", "c"]) == {"a": b"A", "b": b"B" * 10**6}
    assert contents(other, 2, ["a"]) == {"a": b"other"}
    assert contents(ChunkFiles("another", BIG, root), 1, ["a"]) == {}


def test_the_dead_and_what_a_crash_left_behind_go(root):
    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A", "b": b"B"}, alive=["a", "b"])
    files.write(2, {"a": b"A"}, alive=["a"])
    (root / "q" / "1" / "tmpabc.tmp").write_bytes(b"half")
    files.write(1, {"c": b"C"}, alive=["b", "c"])
    assert sorted(path.name for path in (root / "q" / "1").iterdir()) == ["b", "c"]
    files.write(1, {}, alive=())
    assert not list((root / "q" / "1").iterdir())
    assert contents(files, 2, ["a"]) == {"a": b"A"}


def test_a_file_outlives_its_removal_for_whoever_has_read_it(root):
    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A" * 10**5}, alive=["a"])
    held = files.read(1, ["a"])["a"]
    files.write(1, {"a": b"B" * 10**5}, alive=["a"])  # a new file, not the old one overwritten
    files.write(1, {}, alive=())
    assert bytes(held) == b"A" * 10**5


def test_nobody_else_can_read(root):
    umask = os.umask(0)
    try:
        ChunkFiles("q", BIG, root).write(1, {"a": b"A"}, alive=["a"])
    finally:
        os.umask(umask)
    for path in (root, root / "q", root / "q" / "1", root / "q" / "1" / "a"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_directory_that_others_may_write_to_is_not_used(root, tmp_path):
    root.mkdir()
    root.chmod(0o777)
    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A"}, alive=["a"])
    assert not list(root.iterdir())
    assert contents(files, 1, ["a"]) == {}
    link = tmp_path / "link"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "elsewhere")
    ChunkFiles("q", BIG, link).write(1, {"a": b"A"}, alive=["a"])
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="needs a directory of another user")
def test_a_directory_of_another_user_is_not_used(root):
    root.mkdir(mode=0o700)
    os.chown(root, 12345, 12345)
    ChunkFiles("q", BIG, root).write(1, {"a": b"A"}, alive=["a"])
    assert not list(root.iterdir())


def test_a_limit_of_0_writes_nothing(root):
    ChunkFiles("q", 0, root).write(1, {"a": b"A"}, alive=["a"])
    assert not root.exists()


@pytest.mark.parametrize("broken", ["open", "write", "replace", "unlink"])
def test_a_disk_that_is_full_is_as_if_there_were_no_cache(root, monkeypatch, broken):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A"}, alive=["a"])
    monkeypatch.setattr(*((cache.Path, broken) if broken == "unlink" else (os, broken)), fail)
    files.write(1, {"b": b"B"}, alive=["b"])
    monkeypatch.undo()
    assert contents(files, 1, ["b"]) == ({"b": b"B"} if broken == "unlink" else {})
    assert not list((root / "q" / "1").glob("*.tmp"))
    files.write(1, {"c": b"C"}, alive=["c"])
    assert sorted(path.name for path in (root / "q" / "1").iterdir()) == ["c"]


def test_things_in_the_way(root):
    files = ChunkFiles("q", BIG, root)
    root.mkdir(mode=0o700)
    (root / "q").write_bytes(b"a file where a directory is wanted")
    files.write(1, {"a": b"A"}, alive=["a"])
    assert contents(files, 1, ["a"]) == {}
    (root / "q").unlink()
    files.write(1, {"a": b"A"}, alive=["a"])
    (root / "q" / "1" / "a").unlink()
    (root / "q" / "1" / "a").mkdir()
    assert contents(files, 1, ["a"]) == {}
    files.write(1, {"b": b"B"}, alive=["b"])
    assert contents(files, 1, ["b"]) == {"b": b"B"}
    files.sweep()


def test_a_sweep_removes_the_oldest_while_there_are_too_many_bytes(root):
    files = ChunkFiles("q", 3000, root)
    now = time.time()
    for number in range(5):
        query = ChunkFiles(f"q{number % 2}", 3000, root)
        query.write(number, {"a": b"x" * 1000}, alive=["a"])
        path = root / f"q{number % 2}" / str(number) / "a"
        os.utime(path, (now - 100 + number, now - 100 + number))
    files.sweep()
    left = {path.parent.name for path in root.glob("*/*/a")}
    assert left == {"2", "3", "4"}


def test_a_sweep_goes_on_behind_what_it_cannot_remove(root):
    files = ChunkFiles("q", 3000, root)
    now = time.time()
    for number in range(5):
        files.write(number, {"a": b"x" * 1000}, alive=["a"])
        os.utime(root / "q" / str(number) / "a", (now - 100 + number, now - 100 + number))
    (root / "q" / "0" / "directory").mkdir()
    os.utime(root / "q" / "0" / "directory", (now - 1000, now - 1000))
    files.sweep()
    assert len(list(root.glob("q/*/a"))) <= 3


def test_a_sweep_removes_queries_that_are_silent(root):
    for name in ("old", "new"):
        ChunkFiles(name, BIG, root).write(1, {"a": b"A"}, alive=["a"])
    past = time.time() - cache.UNUSED - 60
    os.utime(root / "old", (past, past))
    ChunkFiles("new", BIG, root).sweep()
    assert [path.name for path in root.iterdir()] == ["new"]
    # One that wakes up begins anew.
    ChunkFiles("old", BIG, root).write(1, {"b": b"B"}, alive=["b"])
    assert contents(ChunkFiles("old", BIG, root), 1, ["a", "b"]) == {"b": b"B"}


def test_writing_keeps_a_query_from_being_silent(root, monkeypatch):
    monkeypatch.setattr(cache, "_SWEEP", 1)
    files = ChunkFiles("q", BIG, root)
    files.write(1, {"a": b"A"}, alive=["a"])
    past = time.time() - cache.UNUSED - 60
    os.utime(root / "q", (past, past))
    files.write(1, {"b": b"B"}, alive=["a", "b"])
    files.sweep()
    assert contents(files, 1, ["a", "b"]) == {"a": b"A", "b": b"B"}


def test_writes_sweep_now_and_then(root):
    files = ChunkFiles("q", 5000, root)
    for group in range(200):
        files.write(group, {"a": b"x" * 1000}, alive=["a"])
    assert len(list(root.glob("*/*/a"))) <= 5 + cache._SWEEP


RACE = """
import sys
from pathlib import Path
from slidejoin.spark.cache import ChunkFiles
files, me = ChunkFiles("q", 2**30, Path(sys.argv[1])), int(sys.argv[2])
for number in range(300):
    name = f"c{number % 5}"
    size = 20_000 + number % 7
    files.write(1, {name: bytes([number % 5]) * size}, alive=[name, f"c{(number + 1) % 5}"])
    for found, buffer in files.read(1, [f"c{i}" for i in range(5)]).items():
        data = bytes(buffer)
        assert len(data) >= 20_000 and data == data[:1] * len(data) and data[0] == int(found[1:]), found
    if me == 0 and number % 50 == 0:
        files.sweep()
"""


def test_processes_that_write_and_read_at_once_see_whole_files(root):
    """A task that was given up, and the one in its place, work on the same group."""
    runs = [
        subprocess.Popen([sys.executable, "-c", RACE, root, str(i)], stderr=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
