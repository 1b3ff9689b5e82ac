"""Rows in mapped files: full disks, killed and forked processes, memory that is too small."""

import contextlib
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import spill
from slidejoin.result import RowStore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@contextlib.contextmanager
def full_disk():
    """No file may grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def rows(first, count, nested=False):
    numbers = np.arange(first, first + count)
    columns = {"k": numbers * 7919 % 1000, "text": [f"row {i}" * 5 for i in numbers.tolist()]}
    if nested:
        columns["tags"] = [[i] * 3 for i in numbers.tolist()]
    return pa.table(columns)


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
def test_a_full_disk_refuses_a_batch_and_changes_nothing(nested, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "SEGMENT", 4096)
    monkeypatch.setattr(spill, "BLOCK", 4096)
    one, other = (
        sj.WindowJoin(sj.equal("k"), sj.rows(1500), how="left", spill=path) for path in (tmp_path, None)
    )
    for join in (one, other):
        join.push(left=rows(0, 400, nested))
        join.push(right=rows(0, 3, nested))
    refused = 0
    for i in range(8):
        batch = {("left", "right")[i % 2]: rows(500 * i, 500, nested)}
        before = {**one.stats, "spilled_bytes": 0}
        with full_disk():
            for _ in range(3):
                with pytest.raises(sj.CapacityError, match=r"spill='.*File too large.*make room there"):
                    one.push(**batch)
                refused += 1
                assert {**one.stats, "spilled_bytes": 0} == before
        one.check()
        assert one.push(**batch).equals(other.push(**batch))
    assert refused == 24
    assert one.finish().equals(other.finish())


def test_a_disk_that_is_full_after_the_rows_were_joined_loses_nothing(tmp_path, monkeypatch):
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10), spill=tmp_path)
    join.push(left={"k": [1, 2]})
    join.push(right={"k": [5]})

    def fail(*_):
        raise sj.CapacityError("spill='x': its files cannot grow")

    with monkeypatch.context() as patch:
        patch.setattr(RowStore, "add", fail)
        with pytest.raises(sj.CapacityError, match="room in files ran out after the rows were joined"):
            join.push(right={"k": [1]})
    assert join.push(right={"k": [2]})["k"].to_pylist() == [1, 2]
    join.check()


def test_a_snapshot_that_does_not_fit_is_not_called_damaged(tmp_path):
    join = sj.WindowJoin(sj.equal("k"), sj.rows(500))
    join.push(left=rows(0, 500))
    data = join.snapshot()
    files = spill.open_spill(str(tmp_path))
    with full_disk(), pytest.raises(sj.CapacityError, match="File too large"):
        RowStore(rows(0, 1).schema, spill=files)
    with full_disk(), pytest.raises(sj.CapacityError, match="File too large"):
        sj.WindowJoin.restore(data, spill=tmp_path)
    assert sj.WindowJoin.restore(data, spill=tmp_path).stats["stored_left"] == 500


def test_a_directory_that_was_removed_is_named(tmp_path):
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10**6), spill=tmp_path / "gone")
    join.push(left=rows(0, 10))
    (tmp_path / "gone").rmdir()
    with pytest.raises(sj.CapacityError, match=r"gone': a file cannot be created \([^)]*\)$"):
        join.push(left=rows(10, 50_000))
    join.push(left=rows(10, 5))  # there is room for these
    assert join.stats["stored_left"] == 15
    join.check()


KILLED = """
import os, signal, sys
import slidejoin as sj
join = sj.WindowJoin(sj.equal("k"), sj.rows(10**6), spill=sys.argv[1])
join.push(left={"k": list(range(200_000)), "tags": [[1, 2, 3]] * 200_000})
assert join.stats["spilled_bytes"] > 10**6
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_file(tmp_path):
    run = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert os.listdir(tmp_path) == []


FORKED = """
import os, sys
import slidejoin as sj
join = sj.WindowJoin(sj.equal("k"), sj.rows(10**6), spill=sys.argv[1])
join.push(left={"k": [1, 2, 3], "s": ["a", "b", "c"]})
child = os.fork()
if child == 0:
    try:
        join.push(left={"k": [7], "s": ["wrong"]})
    except sj.UsageError as error:
        print(error, flush=True)
    print(join.stats["stored_left"])
    own = sj.WindowJoin(sj.equal("k"), sj.rows(10), spill=sys.argv[1])
    own.push(left={"k": [9]})
    print(own.push(right={"k": [9]}).num_rows)
    join.close()
    del join, own
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(join.push(right={"k": [2, 3]}).to_pylist())
join.check()
"""


def test_a_forked_process_cannot_spoil_the_rows(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path], capture_output=True, text=True, check=False
    )
    refusal, *rest = run.stdout.splitlines()
    assert refusal.startswith("this join keeps its rows in files (spill=) and was made by another process")
    assert rest == ["3", "1", "[{'k': 2, 's': 'b', 'k_right': 2}, {'k': 3, 's': 'c', 'k_right': 3}]"], (
        run.stderr
    )


LIMITED = """
import resource, sys
import numpy as np
import pyarrow as pa
import slidejoin as sj

CAP, TEXT, BATCH = 64 * 2**20, 2000, 1000
spill = sys.argv[1] or None
sj.spill.MAPPED = 2**25  # else a quarter of the memory of this machine, which is not this small
window = 4 * CAP // TEXT // 2  # rows of a side: four times the cap in all

def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

def rows(first):
    ids = np.arange(first, first + BATCH)
    return pa.table({"k": ids, "text": [f"{i:010d}" * (TEXT // 10) for i in ids.tolist()]})

join = sj.WindowJoin(sj.equal("k"), sj.rows(window), spill=spill)
join.push(left=rows(0)), join.push(right=rows(0))
resource.setrlimit(resource.RLIMIT_DATA, (status("VmData") + CAP, resource.RLIM_INFINITY))
resident, matches = status("VmRSS"), BATCH
try:
    for first in range(BATCH, window + 20 * BATCH, BATCH):
        join.push(left=rows(first))
        found = join.push(right=rows(first // 2 // BATCH * BATCH))  # some that came long ago
        assert found["text"].equals(found["text_right"]) and len(found) == BATCH, first
        assert found["k"][0].as_py() == first // 2 // BATCH * BATCH
except sj.CapacityError as error:
    print("CapacityError")
else:
    stats = join.stats
    assert stats["spilled_bytes"] > 3.9 * CAP, stats
    assert stats["stored_left"] == window
    assert status("VmHWM") - resident < CAP + 64 * 2**20, (status("VmHWM") - resident) / 2**20
    print("right")
"""


def test_a_window_of_four_times_the_memory_that_there_is(tmp_path):
    for path, expected in ((tmp_path, "right"), ("", "CapacityError")):
        run = subprocess.run(
            [sys.executable, "-c", LIMITED, path],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        assert run.stdout.split() == [expected], run.stderr[-2000:]
    assert os.listdir(tmp_path) == []
