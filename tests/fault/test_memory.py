"""Memory: what happens when it runs out, and that a join gives it back when its windows shrink."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
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


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("keys", [[1, 2, 3], ["a", "b", "c"]], ids=["numbers", "texts"])
def test_the_record_of_a_call_outlives_memory_that_runs_out(keys, how):
    """Whichever allocation fails, the record is whole when it is asked for again."""
    hooks = pytest.importorskip("_testcapi")
    failures = 0
    while True:
        join = sj.WindowJoin(sj.equal("k"), sj.rows(3), how=how)
        join.push(left={"k": keys})
        join.push(right=pa.table({"k": keys}).slice(0, 0))
        live = join._live
        table = pa.table({"k": keys[1:]})
        native, columns = live.engine.native, live.engine.read(1, {1: table})
        native.push_rows(1, *columns)
        memory_ran_out = False
        hooks.set_nomemory(failures, failures + 1)
        try:
            native.record  # noqa: B018
        except MemoryError:
            memory_ran_out = True
        finally:
            hooks.remove_mem_hooks()
        left, right, late, candidates, positions, taken, more = native.record
        assert (left.tolist(), right.tolist(), late) == ([1, 2], [0, 1], None)
        assert candidates == isinstance(keys[0], str)
        assert positions == ((0, 3, None), (0, 2, None))
        assert (taken, more) == (2, False)
        if not memory_ran_out:
            break
        failures += 1
    assert failures > 1


class OutOfMemory:
    """Stands for an object, and runs out of memory when one of its attributes is asked for."""

    def __init__(self, target, name):
        self._target = target
        self._name = name

    def __getattr__(self, name):
        if name == self._name:
            raise MemoryError("no room")
        return getattr(self._target, name)


def test_memory_that_runs_out_before_the_record_is_read_loses_nothing():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    join.push(left={"k": [1, 2]})
    join.push(right={"k": [5]})
    engine = join._live.engine
    native, engine.native = engine.native, OutOfMemory(engine.native, "record")
    with pytest.raises(sj.CapacityError, match="after the rows were joined"):
        join.push(right={"k": [1]})
    engine.native = native
    assert join.push(right={"k": [2]})["k"].to_pylist() == [1, 2]
    join.check()


def test_memory_that_runs_out_while_keys_are_read_changes_nothing(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    join.push(left={"k": [1, 2]})
    before = join.stats
    with monkeypatch.context() as patch:
        patch.setattr(sj.bound_join.BoundJoin, "read", fail)
        for call in (lambda: join.push(right={"k": [1]}), lambda: join.push(left={"k": [1]})):
            with pytest.raises(sj.CapacityError, match="no room"):
                call()
    assert join.stats == before
    assert join.push(right={"k": [1]}).num_rows == 1


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
