"""Memory: what happens when it runs out, and that a join gives it back when its windows shrink."""

import subprocess
import sys

import numpy as np
import pytest

import slidejoin as sj
from slidejoin import _core

SCRIPT = """
import resource, sys
import numpy as np
import slidejoin as sj

join = sj.NumericJoin(10**6, 0, 0, np.int32)
sides = np.repeat(np.array([0, 1], np.uint8), 20_000)
keys = np.zeros(40_000, np.int32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, resource.RLIM_INFINITY))
for call in (lambda: join.push(sides, keys), lambda: join.push(sides[:1], keys[:1]), join.check):
    # 400 million pairs in the first
    try:
        call()
    except sj.StateError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on a process's memory")
def test_out_of_memory():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    lost = "memory ran out in the middle of a call; this join cannot go on, restore its last snapshot"
    assert run.stdout.splitlines() == [lost] * 3, run.stderr


@pytest.mark.parametrize("index", [*_core.indexes(), "auto"])
def test_a_window_that_empties_gives_its_memory_back(index):
    rows = 2**16 if index != "nested-loop" else 2**11  # too few to be worth it
    rng = np.random.default_rng(7)
    join = sj.NumericJoin(sj.within(10**8), -2, 2, np.int64, index=index)
    join.push(rng.integers(0, 2, rows, np.uint8), rng.integers(-(2**40), 2**40, rows), np.arange(rows))
    full = join.stats["memory_bytes"]
    join.push(np.array([0], np.uint8), np.array([5]), np.array([10**9]))
    assert join.stats["stored_left"] + join.stats["stored_right"] == 1
    if index != "nested-loop":
        assert full > 16 * rows
        assert join.stats["memory_bytes"] < 2**19
    join.check()
    left, right = join.push(np.array([1], np.uint8), np.array([6]), np.array([10**9 + 1]))
    assert len(left) == len(right) == 1


def test_windows_that_change_their_size_again_and_again_stay_exact():
    rng = np.random.default_rng(8)
    times = np.cumsum(np.where(rng.integers(0, 30_000, 200_000) == 0, 10**6, 1))
    sides, keys = rng.integers(0, 2, times.size, np.uint8), rng.integers(0, 10**6, times.size)
    expected = sj.NumericJoin(sj.within(40_000), -2, 2, np.int64, index="b-chain").count(sides, keys, times)
    for index in ("bucket-tree", "b-tree", "sorted-run", "rap-table", "im-tree"):
        join = sj.NumericJoin(sj.within(40_000), -2, 2, np.int64, index=index)
        found = sum(
            join.count(sides[i : i + 1700], keys[i : i + 1700], times[i : i + 1700])
            for i in range(0, times.size, 1700)
        )
        assert found == expected
        join.check()


RESIDENT = """
import numpy as np
import pyarrow as pa
import slidejoin as sj

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

rows = 2**20
rng = np.random.default_rng(7)

def numeric():
    join = sj.NumericJoin(sj.within(10**8), -2, 2, np.int64)
    join.push(rng.integers(0, 2, rows, np.uint8), rng.integers(-(2**40), 2**40, rows), np.arange(rows))
    yield join.stats["memory_bytes"]
    join.push(np.array([0], np.uint8), np.array([5]), np.array([10**9]))
    yield join.stats["memory_bytes"]

def interval():
    join = sj.WindowJoin(sj.band("x", within=2), sj.interval(before=10**8, after=10**8, time="t", lateness=0))
    for side in ("left", "right"):
        keys = pa.array(rng.integers(-(2**40), 2**40, rows // 2))
        join.push(**{side: pa.table({"x": keys, "t": pa.array(np.arange(rows // 2))})})
    yield join.stats["memory_bytes"]
    for side in ("left", "right"):
        join.push(**{side: pa.table({"x": [5], "t": [10**9]})})
    yield join.stats["memory_bytes"]

for join in numeric, interval:
    before = resident()
    for counted in join():
        print(counted, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_resident_memory_shrinks_with_the_window():
    run = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)
    numbers = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    for (full, full_resident), (counted, resident) in (numbers[:2], numbers[2:]):
        assert full > 16 * 2**20
        assert full_resident > 16 * 2**20
        assert counted < 2**20
        assert resident < full_resident / 2  # the allocators of Arrow and Python keep some
