"""NumericJoin: what it takes, what it returns, what it counts."""

from array import array

import numpy as np
import pytest
from cases import INDEXES, pairs

import slidejoin as sj
from slidejoin import isa
from slidejoin.spec import KEY_TYPES


@pytest.mark.parametrize("index", INDEXES)
def test_a_first_join(index):
    join = sj.NumericJoin(window=100, lower=-1, upper=1, key=np.int32, index=index)
    left, right = join.push([0, 1, 1, 0], [10, 11, 50, 49])
    assert left.dtype == right.dtype == np.int64
    assert type(left[0]) is np.int64
    assert pairs((left, right)) == [(0, 0), (1, 1)]


def test_results_outlive_the_join():
    join = sj.NumericJoin(10, 0, 0, np.int32)
    left, right = join.push([0] * 5 + [1] * 5, [3] * 10)
    del join
    assert left.sum() == right.sum() == 50


@pytest.mark.parametrize("key", KEY_TYPES)
def test_every_key_type(key):
    join = sj.NumericJoin(10, 0, 2, key)
    keys = np.array([1, 3, 4, 0], key)
    assert pairs(join.push(np.array([0, 1, 1, 0], np.uint8), keys)) == [(0, 0)]
    assert join.spec.key == np.dtype(key)


def test_what_may_be_pushed():
    """Arrays as they are, strided ones, narrower types, lists, booleans for sides, nothing at all."""

    def found(sides, keys):
        return pairs(sj.NumericJoin(10, 0, 0, np.int64).push(sides, keys))

    keys = np.array([7, 0, 7, 0], np.int64)
    assert found(np.array([0, 1], np.uint8), keys[::2]) == [(0, 0)]
    assert found(np.array([False, True]), np.array([7, 7], np.int8)) == [(0, 0)]
    assert found([0, 1], [7, 7]) == [(0, 0)]
    assert found([0, 1], (7, 7)) == [(0, 0)]
    assert found([], []) == []
    read_only = np.array([7, 7], np.int64)
    read_only.flags.writeable = False
    assert found([0, 1], read_only) == [(0, 0)]


@pytest.mark.parametrize(
    ("key", "keys", "held"),
    [
        (np.uint64, [2**63 + 1, 2**63, 1], [2**63 + 1, 2**63, 1]),
        (np.uint64, [2**64 - 1, 1.0], [2**64 - 1, 1]),
        (np.int64, [2**53 + 1, 1.0, True], [2**53 + 1, 1, 1]),
        (np.int64, [np.uint64(2**63 - 1), -1], [2**63 - 1, -1]),
        (np.int64, np.array([2**53 + 1, 1], object), [2**53 + 1, 1]),
        (np.int8, range(-128, 128), list(range(-128, 128))),
        (np.float64, [2**53, 2**60, 0.1, -(2**63), 2**63], [2.0**53, 2.0**60, 0.1, -(2.0**63), 2.0**63]),
        (np.float64, np.array([2**53, -(2**63), 2**62]), [2.0**53, -(2.0**63), 2.0**62]),
        (np.float64, np.array([2**63, 2**64 - 2**11], np.uint64), [2.0**63, 2.0**64 - 2.0**11]),
        (np.float32, np.array([2**24, -(2**31)], np.int32), [2.0**24, -(2.0**31)]),
        (np.float32, [0.1, float("inf"), 2**30], [np.float32(0.1), np.inf, 2.0**30]),
        (np.float32, np.array([0.5], np.float16), [0.5]),
        (np.int64, np.ma.array([7, 8]), [7, 8]),
        (np.int64, array("q", [7, 8]), [7, 8]),
    ],
)
def test_keys_are_taken_by_value(key, keys, held):
    """Each matches itself, pushed as an array of the key type, and nothing else."""
    join = sj.NumericJoin(1000, 0, 0, key)
    join.push([0] * len(keys), keys)
    found = pairs(join.push(np.ones(len(held), np.uint8), np.array(held, key)))
    assert found == [
        (left, right) for right, r in enumerate(held) for left, value in enumerate(held) if value == r
    ]
    assert join.stats["null_left"] == 0


def test_missing_keys_of_a_list_are_nulls_of_a_float_join():
    join = sj.NumericJoin(10, 0, 0)
    assert pairs(join.push([0, 0, 1], [None, 1.0, 1])) == [(1, 0)]
    assert join.stats["null_left"] == 1


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.uint64, np.int64, list])
def test_sides_are_taken_by_value(kind):
    sides = [0, 1] if kind is list else np.array([0, 1], kind)
    assert pairs(sj.NumericJoin(10, 0, 0).push(sides, np.array([7.0, 7.0]))) == [(0, 0)]


@pytest.mark.parametrize("nothing", [[], (), np.array([]), np.array([], object), np.array([], "U1"), "M8[s]"])
def test_an_empty_batch_has_no_type(nothing):
    nothing = np.array([], nothing) if isinstance(nothing, str) else nothing
    for key in ("uint8", "int64", "float32"):
        assert pairs(sj.NumericJoin(10, 0, 0, key).push(nothing, nothing)) == []
        for duration in (10, "10s"):
            assert pairs(sj.NumericJoin(sj.within(duration), 0, 0, key).push(nothing, nothing, nothing)) == []


def test_columns_of_other_libraries():
    """As NumPy reads them, and without a warning."""
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    for make in (pa.array, lambda keys: pa.chunked_array([keys]), pd.Series, pd.Index, pl.Series):
        for keys in ([2**53 + 1, 7], [7, 8]):
            join = sj.NumericJoin(10, 0, 0, np.int64)
            assert pairs(join.push(make([0, 1]), make(keys))) == []
            assert pairs(join.push(make([1, 0]), make(keys))) == [(0, 1), (1, 0)]
    join = sj.NumericJoin(10, 0, 0)
    assert pairs(join.push([0, 0, 1], pa.array([None, 1, 1]))) == [(1, 0)]


def test_arrays_of_the_right_type_go_straight_to_the_core(monkeypatch):
    def slow(*_):
        raise AssertionError("the fast path was not taken")

    monkeypatch.setattr(sj.NumericJoin, "_arrays", slow)
    join = sj.NumericJoin(10, 0, 0, np.int32)
    assert pairs(join.push(np.array([0, 1], np.uint8), np.array([7, 7], np.int32))) == [(0, 0)]
    assert join.count(np.array([0], np.uint8), np.array([7], np.int32)) == 1
    alone = sj.NumericJoin(10, 0, 0, np.int32, self_join=True)
    assert pairs(alone.push(None, np.array([7, 7], np.int32))) == [(0, 1)]


@pytest.mark.parametrize("index", INDEXES)
def test_a_push_of_nothing_but_nulls_moves_the_window(index):
    for self_join in (False, True):
        join = sj.NumericJoin(1, -1, 1, index=index, self_join=self_join)
        join.push([0], [1.0])
        join.push([0], [np.nan])
        join.check()
        assert pairs(join.push([1], [1.0])) == []
        join.check()


def test_repr_shows_the_join():
    join = sj.NumericJoin((10, 1000), -1, 2.5, np.int32)
    assert repr(join) == (
        "NumericJoin(window=rows(left=10, right=1000), lower=-1, upper=2, key='int32', index='auto', "
        "workers=1, self_join=False, group=262144)"
    )
    assert "self_join=True" in repr(sj.NumericJoin(sj.within("1s"), -1, 1, self_join=True))


def test_rows_windows_count_every_row():
    join = sj.NumericJoin((2, 3), 0, 0, np.float64)
    join.push([0] * 4, [1.0, 1.0, np.nan, 1.0])
    assert pairs(join.push([1], [1.0])) == [(3, 0)]  # NaN at position 2 takes a place in the window
    assert pairs(join.push([1, 1, 1, 0], [1.0] * 4)) == [
        (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("index", INDEXES)
def test_within(index):
    join = sj.NumericJoin(sj.within(10), 0, 0, np.int32, index=index)
    assert pairs(join.push([0, 0, 1], [1, 1, 1], [0, 5, 10])) == [(0, 0), (1, 0)]
    assert pairs(join.push([1, 1], [1, 1], [11, 15])) == [(1, 1), (1, 2)]
    assert join.stats["stored_left"] == 1
    assert pairs(join.push([1], [1], [16])) == []
    assert join.stats["stored_left"] == 0
    assert join.stats["stored_right"] == 4


def test_within_takes_datetimes_of_every_unit():
    for unit, count in [("ns", 10**9), ("us", 10**6), ("ms", 1000), ("s", 1)]:
        join = sj.NumericJoin(sj.within("2s"), 0, 0, np.int32)
        times = (np.array([0, 2, 3]) * count).astype(f"datetime64[{unit}]")
        assert pairs(join.push([0, 1, 1], [1, 1, 1], times)) == [(0, 0)]
    join = sj.NumericJoin(sj.within("2d"), 0, 0, np.int32)
    days = np.array(["1969-12-30", "1970-01-01", "1970-01-02"], "datetime64[D]")
    assert pairs(join.push([0, 1, 1], [1, 1, 1], days)) == [(0, 0)]


def test_a_missing_time_is_a_null():
    join = sj.NumericJoin(sj.within("2s"), 0, 0, np.int32)
    times = np.array(["NaT", 0, "NaT", 1, 1], "datetime64[s]")
    assert pairs(join.push([0, 0, 1, 1, 0], [1] * 5, times)) == [(1, 1), (2, 1)]
    assert join.stats["null_left"] == join.stats["null_right"] == 1
    assert join.stats["rows_left"] == 3
    assert join.stats["stored_left"] == 2


def test_durations():
    from datetime import timedelta

    assert sj.within("1.5h").duration == sj.within(timedelta(minutes=90)).duration == 5400 * 10**9
    assert sj.within("2min") == sj.within("2m") == sj.within(timedelta(minutes=2))
    assert sj.within(np.int64(5)).duration == 5


@pytest.mark.parametrize("index", INDEXES)
def test_self_join(index):
    join = sj.NumericJoin(100, 1, 2, np.int32, self_join=True, index=index)
    # 5 then 6: right - left = 1 with 5 as left. 3 then: 3 as left with 5 only.
    assert pairs(join.push(None, [5, 6])) == [(0, 1)]
    assert pairs(join.push(keys=[])) == []
    assert pairs(join.push(None, [3])) == [(2, 0)]
    assert join.stats["rows_left"] == 3
    assert join.stats["rows_right"] == join.stats["stored_right"] == 0
    both_ways = sj.NumericJoin(100, -1, 1, np.int32, self_join=True, index=index)
    assert pairs(both_ways.push(None, [5, 5, 6])) == [(0, 1), (0, 2), (1, 2)]


def test_counters():
    join = sj.NumericJoin(3, 0, 0, np.float32)
    join.push([0, 0, 0, 0, 0, 1], [1, np.nan, 1, np.nan, 1, 1])
    stats = join.stats
    assert (stats["rows_left"], stats["null_left"], stats["stored_left"]) == (5, 2, 2)
    assert (stats["rows_right"], stats["null_right"], stats["stored_right"]) == (1, 0, 1)
    assert stats["matches"] == 2
    assert 0 < stats["memory_bytes"] < 100_000


def test_memory_follows_the_window_not_the_stream():
    join = sj.NumericJoin(1000, 0, 0, np.int64, index="b-tree")
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(20):
        join.count(rng.integers(0, 2, 10_000).astype(np.uint8), rng.integers(0, 2**60, 10_000))
        sizes.append(join.stats["memory_bytes"])
    assert max(sizes) < 1.25 * sizes[4]


def test_auto_index():
    assert sj.NumericJoin(10, 0, 0).index == "bucket-tree"
    assert sj.NumericJoin(sj.within(5), 0, 0).index == "bucket-tree"
    assert sj.NumericJoin(10, 0, 0, index="im-tree(merge_ratio=0.5)").index == "im-tree"


def test_levels_can_be_forced(monkeypatch):
    assert isa.available()[0] == "portable"
    with isa.use("portable"):
        assert isa.current() == "portable"
    monkeypatch.setenv("SLIDEJOIN_ISA", "portable")
    assert isa.current() == "portable"
    monkeypatch.setenv("SLIDEJOIN_ISA", "mmx")
    with pytest.raises(sj.SpecError, match="'mmx'; this machine has portable"):
        sj.NumericJoin(10, 0, 0)
    monkeypatch.delenv("SLIDEJOIN_ISA")
    with pytest.raises(sj.SpecError), isa.use("sse9"):
        pass
    assert isa.current() == isa.available()[-1]
