"""Results as ranges: expanded they are the pairs of push, and they leave the same state behind."""

import gc
import os
import weakref

import numpy as np
import pytest

import slidejoin as sj
from benchmarks.workload import Workload
from slidejoin import _core, isa

INDEXES = [*_core.indexes(), "bi-sort(subwindows=3, buffer=5, partitions=4)"]
WINDOWS = [50, (7, 300), 5000, sj.within(40), sj.within(4000)]
GROUPS = [1, 16, 4096, 2**20]
KEYS = [("int32", (-9, 9)), ("float64", (-3.0, 40.0)), ("int64", (5, 60))]
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"


def same_state(one, other):
    first, second = ({**join.stats, "memory_bytes": 0} for join in (one, other))
    assert first == second
    one.check()
    other.check()


def stream(rng, window, key, count, *, self_join=False, spread=200):
    """Arrivals with many equal keys, and NaN among floats."""
    keys = rng.integers(-spread, spread, count).astype(key)
    if np.dtype(key).kind == "f":
        keys[rng.random(count) < 0.05] = np.nan
    sides = None if self_join else (rng.random(count) < 0.4).astype(np.uint8)
    times = np.cumsum(rng.integers(0, 2, count)) if isinstance(window, sj.window.Within) else None
    return sides, keys, times


def cut(arrays, start, stop):
    return [None if array is None else array[start:stop] for array in arrays]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("index", INDEXES)
def test_expanded_they_are_the_pairs_of_push(index, window, group):
    rng = np.random.default_rng([group, WINDOWS.index(window)])
    turn = (INDEXES.index(index) + WINDOWS.index(window) + GROUPS.index(group)) % len(KEYS)
    for self_join in (False, True):
        if self_join and isinstance(window, tuple):
            continue
        for key, (lower, upper) in KEYS if LONG else KEYS[turn : turn + 1]:
            joins = [
                sj.NumericJoin(window, lower, upper, key, index=index, self_join=self_join, group=group)
                for _ in range(2)
            ]
            arrays = stream(rng, window, key, 3000, self_join=self_join)
            start = 0
            for size in (1, 0, 700, 20, 2, 1200, 300, 777):
                batch = cut(arrays, start, start + size)
                start += size
                wanted = joins[0].push(*batch)
                found = joins[1].ranges(*batch)
                assert isinstance(found, sj.Ranges)
                assert len(found) == found.count == len(wanted[0])
                for one, other in zip(found.expand(), wanted, strict=True):
                    assert one.dtype == np.int64
                    np.testing.assert_array_equal(one, other)
            same_state(*joins)
            batch = cut(arrays, 0, 0)
            assert joins[1].ranges(*batch).expand()[0].size == 0


@pytest.mark.parametrize("index", ["b-tree", "bi-sort(buffer=3)"])
def test_self_joins_at_the_ends_of_the_key_type(index):
    """There an arrival looks for partners on one side only."""
    rng = np.random.default_rng(3)
    joins = [sj.NumericJoin(60, 5, 90, np.int8, index=index, self_join=True, group=1) for _ in range(2)]
    for _ in range(20):
        keys = rng.choice([-128, -127, -120, -60, 0, 60, 120, 127], 30).astype(np.int8)
        for one, other in zip(joins[0].ranges(None, keys).expand(), joins[1].push(None, keys), strict=True):
            np.testing.assert_array_equal(one, other)


def test_instruction_sets_agree():
    workload = Workload(2000, 30)
    results = []
    for level in isa.available():
        with isa.use(level):
            join = workload.join("bi-sort", group=4096)
            found = join.ranges(workload.sides(8000, 3000), workload.keys(8000, 3000))
        results.append([found.probe, found.run, found.start, found.end, *found.expand()])
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


def window_of_right_tuples(window, matches, index="bi-sort"):
    """A join whose right side is full: what arrives on the left sees all of it."""
    workload = Workload(window, matches)
    join = sj.NumericJoin(window, workload.lower, workload.upper, np.int32, index=index)
    for start in range(0, 4 * window, window // 2):
        join.count(np.ones(window // 2, np.uint8), workload.keys(start, window // 2))
    return join, workload


def test_most_matches_are_named_not_listed():
    join, workload = window_of_right_tuples(8192, 512)
    found = join.ranges(np.zeros(100, np.uint8), workload.keys(50_000, 100))
    assert len(found) > 30_000
    assert len(found.probe) < 100 * 12
    assert len(found.left) < len(found) / 4
    assert all((run.dtype == np.int64) and not run.flags.writeable for run in found.runs.values())
    assert "records" in repr(found)


def test_a_run_is_handed_over_once_and_shared():
    join, workload = window_of_right_tuples(8192, 64)
    first = join.ranges(np.zeros(50, np.uint8), workload.keys(50_000, 50))
    second = join.ranges(np.zeros(50, np.uint8), workload.keys(60_000, 50))
    assert first.runs.keys() == second.runs.keys()
    assert all(first.runs[number] is second.runs[number] for number in first.runs)
    assert len(first.runs) == len({id(run) for run in first.runs.values()})


def test_runs_that_left_the_window_are_let_go():
    join, workload = window_of_right_tuples(8192, 64)
    found = join.ranges(np.zeros(50, np.uint8), workload.keys(50_000, 50))
    seen = [weakref.ref(run) for run in found.runs.values()]
    wanted = found.expand()
    kept = set(found.runs)
    for start in range(100_000, 120_000, 1000):
        join.count(np.ones(1000, np.uint8), workload.keys(start, 1000))
    later = join.ranges(np.zeros(50, np.uint8), workload.keys(50_000, 50))
    assert not kept & set(later.runs)
    assert kept.isdisjoint(join._runs)
    for one, other in zip(found.expand(), wanted, strict=True):  # a result keeps what it needs
        np.testing.assert_array_equal(one, other)
    del found, later
    gc.collect()
    assert all(run() is None for run in seen)


def test_the_mirror_is_no_larger_than_the_window():
    rng = np.random.default_rng(7)
    window = 3000
    for index in ("bi-sort", "bi-sort(buffer=7, subwindows=4)"):
        join = sj.NumericJoin(window, -50, 50, np.int32, index=index, group=1)
        for _ in range(200):
            sides = (rng.random(100) < 0.5).astype(np.uint8)
            join.ranges(sides, rng.integers(-5000, 5000, 100).astype(np.int32))
            assert sum(len(run) for run in join._runs.values()) <= 2 * 2 * window


def test_a_run_is_in_the_order_of_keys():
    join = sj.NumericJoin(100, -1000, 1000, np.int32, index="bi-sort(buffer=1)")
    keys = np.array([5, -3, 5, 0, 9, -3], np.int32)
    join.push(np.ones(6, np.uint8), keys)
    found = join.ranges([0], [0])
    (run,) = found.runs.values()
    assert len(run) >= 5
    assert run.tolist() == sorted(run.tolist(), key=lambda position: (keys[position], position))


def test_positions_beyond_32_bits():
    """Far positions come from a state: so many tuples cannot be pushed here."""
    core = sj.native.native_join(
        [("int32", [(("sum", -5), ("sum", 5))])],
        {"window": "rows", "left": 1000, "right": 1000},
        index="bi-sort",
        self_join=False,
        group=4096,
    )
    far = 3 * 2**32 - 500
    keys = np.arange(1000, dtype=np.int32)
    state = core.state()
    state["right"] |= {"first": far, "next": far + 1000, "admitted": far + 1000}
    none = np.zeros(0, np.bool_)
    core.load(
        state,
        ([(keys[:0], None)], None, None, none),
        ([(keys, None)], None, None, np.zeros(1000, np.bool_)),
    )
    records, pairs, own, runs, gone = core.ranges(np.zeros(1, np.uint8), np.array([500], np.int32), None)
    found = sj.Ranges(records, pairs, own, np.zeros(1, np.uint8), dict(runs))
    assert len(gone) == 0
    assert own.tolist() == [0]
    left, right = found.expand()
    assert left.tolist() == [0] * 11
    assert right.tolist() == list(range(far + 495, far + 506))


def test_refused_calls_change_nothing():
    join = sj.NumericJoin(10, 0, 0, np.int32, index="bi-sort")
    with pytest.raises(sj.SchemaError, match="keys is missing"):
        join.ranges([0])
    with pytest.raises(sj.SchemaError):
        join.ranges([0, 1], [1])
    timed = sj.NumericJoin(sj.within(5), 0, 0, np.int32)
    timed.ranges([0], [1], [10])
    with pytest.raises(sj.OrderError):
        timed.ranges([0], [1], [3])
    assert timed.stats["rows_left"] == 1


def test_sides_may_change_after_the_call():
    join = sj.NumericJoin(10, 0, 0, np.int32, index="bi-sort(buffer=1)")
    join.push(np.ones(3, np.uint8), np.full(3, 7, np.int32))
    sides = np.zeros(2, np.uint8)
    found = join.ranges(sides, np.full(2, 7, np.int32))
    sides[:] = 1
    assert found.expand()[0].tolist() == [0, 0, 0, 1, 1, 1]
