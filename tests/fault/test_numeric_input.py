"""Bad input gets a clear error and changes nothing."""

import threading

import numpy as np
import pytest
from cases import INDEXES, pairs

import slidejoin as sj

NOW = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:05"], "datetime64[s]")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"lower": 3, "upper": 1}, "band lower 3 > upper 1; bounds are on right - left, swap them"),
        ({"lower": float("nan")}, "band lower is nan; bounds must be finite"),
        ({"upper": float("inf")}, "band upper is inf; bounds must be finite"),
        ({"lower": "1"}, "band lower is '1'; expected a number"),
        ({"lower": True}, "band lower is True; expected a number"),
        ({"lower": 0, "upper": 1e39, "key": np.float32}, "beyond the range of float32"),
        ({"lower": -(10**400), "key": np.float64}, "beyond the range of float64"),
        ({"window": 0}, "a window of 0 rows"),
        ({"window": -5}, "a window of -5 rows"),
        ({"window": (10, 0)}, "a window of 0 rows on the right side"),
        ({"window": (1, 2, 3)}, "has two numbers"),
        ({"window": 1.5}, "expected a number of rows"),
        ({"window": True}, "expected a number of rows"),
        ({"window": "10s"}, "sj.within"),
        ({"window": 2**31 + 1}, "2**31"),
        ({"key": "U5"}, "cannot be joined"),
        ({"key": ">i4"}, "cannot be joined"),
        ({"key": "nonsense"}, "is not a NumPy type"),
        ({"key": np.float16}, "cannot be joined"),
        ({"index": "hash"}, "expected one of nested-loop, b-tree, auto"),
        ({"workers": 2}, "workers=2"),
        ({"group": 0}, "group=0"),
        ({"group": 2.5}, "group=2.5"),
        ({"group": 2**21}, "expected a number from 1"),
        ({"self_join": True, "window": (3, 4)}, "one window"),
    ],
)
def test_a_senseless_description(arguments, says):
    with pytest.raises(sj.SpecError) as error:
        sj.NumericJoin(**{"window": 10, "lower": -1, "upper": 1, "key": np.int32, **arguments})
    assert says in str(error.value)
    assert isinstance(error.value, sj.Error)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (sj.rows, "needs a number"),
        (lambda: sj.rows(left=3), "needs a number"),
        (lambda: sj.rows(3, left=3), "give one form"),
        (lambda: sj.rows(2.5), "expected a whole number"),
        (lambda: sj.within(0), "expected a duration above 0"),
        (lambda: sj.within("-1s"), "expected a duration above 0"),
        (lambda: sj.within("10"), "write '10s'"),
        (lambda: sj.within("s"), "write '10s'"),
        (lambda: sj.within("10 weeks"), "write '10s'"),
        (lambda: sj.within("0.5ns"), "whole number of nanoseconds"),
        (lambda: sj.within(1.5), "expected an int"),
        (lambda: sj.within(2**64), "64 bits"),
    ],
)
def test_a_senseless_window(make, says):
    with pytest.raises(sj.SpecError) as error:
        make()
    assert says in str(error.value)


def rows_join(**options):
    join = sj.NumericJoin(4, -1, 1, np.int32, **options)
    join.push([0, 1], [5, 9])
    return join


def timed_join(duration=10, **options):
    join = sj.NumericJoin(sj.within(duration), -1, 1, np.int32, **options)
    join.push([0, 1], [5, 9], NOW if isinstance(duration, str) else [100, 105])
    return join


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    ("make", "arguments", "error", "says"),
    [
        (rows_join, ([0, 2], [5, 5]), sj.SchemaError, "sides[1] is 2; expected 0 for left or 1 for right"),
        (rows_join, ([0, 300], [5, 5]), sj.SchemaError, "sides holds values that do not fit uint8"),
        (rows_join, ([0], [5, 5]), sj.SchemaError, "sides has 1 elements and keys has 2"),
        (rows_join, (None, [5]), sj.SchemaError, "sides is missing"),
        (rows_join, ([0], [5.5]), sj.SchemaError, "keys holds values that do not fit int32"),
        (rows_join, ([0], [2**31]), sj.SchemaError, "keys holds values that do not fit int32"),
        (rows_join, ([0], [2**70]), sj.SchemaError, "keys"),
        (rows_join, ([0], ["a"]), sj.SchemaError, "keys holds"),
        (rows_join, ([0], np.array([5], np.int64)), sj.SchemaError, ".astype(np.int32)"),
        (rows_join, ([0], np.array([5.0])), sj.SchemaError, "keys has type float64"),
        (rows_join, ([0], [[5]]), sj.SchemaError, "keys has 2 dimensions"),
        (rows_join, ([0], 5), sj.SchemaError, "keys has 0 dimensions"),
        (rows_join, ([0], [5], [100]), sj.SchemaError, "a window of rows has no use for them"),
        (timed_join, ([0], [5]), sj.SchemaError, "times are missing"),
        (timed_join, ([0], [5], [106, 107]), sj.SchemaError, "times has 2 elements and keys has 1"),
        (timed_join, ([0], [5], [106.5]), sj.SchemaError, "times holds values that do not fit int64"),
        (timed_join, ([0], [5], NOW[:1]), sj.SchemaError, "give it a unit"),
        (timed_join, ([0], [5], [104]), sj.OrderError, "times[0] is 104, earlier than 105"),
        (timed_join, ([0] * 3, [5] * 3, [106, 108, 107]), sj.OrderError, "times[2] is 107"),
        (timed_join, ([0, 1, 3], [5] * 3, [106, 108, 107]), sj.SchemaError, "sides[2] is 3"),
    ],
)
def test_a_bad_batch_changes_nothing(index, make, arguments, error, says):
    join, twin = make(index=index), make(index=index)
    before = join.stats
    for call in (join.push, join.count):
        with pytest.raises(error) as raised:
            call(*arguments)
        assert says in str(raised.value)
    assert join.stats == before
    join.check()
    good = ([1, 0, 0], [6, 9, 5]) if make is rows_join else ([1, 0, 0], [6, 9, 5], [110, 110, 111])
    assert pairs(join.push(*good)) == pairs(twin.push(*good))


def test_plain_numbers_for_a_window_with_a_unit():
    join = timed_join("10s")
    with pytest.raises(sj.SchemaError, match="give datetime64"):
        join.push([0], [5], [106])
    with pytest.raises(sj.SchemaError, match="give datetime64"):
        join.push([0], [5], np.array([106], np.int64))
    assert join.stats["rows_left"] == 1


def test_times_beyond_nanoseconds():
    join = timed_join("10s")
    with pytest.raises(sj.SchemaError, match="beyond the range"):
        join.push([0], [5], np.array(["9999-01-01"], "datetime64[s]"))


def test_a_second_thread_is_told_so():
    """One of two threads that push into one join at the same time gets an error, and nothing races."""
    join = sj.NumericJoin(10**6, -(2**30), 2**30, np.int32, index="nested-loop")
    rng = np.random.default_rng(0)
    sides, keys = rng.integers(0, 2, 30_000).astype(np.uint8), rng.integers(0, 9, 30_000).astype(np.int32)
    started, refused = threading.Event(), []

    def push():
        started.set()
        join.count(sides, keys)

    thread = threading.Thread(target=push)
    thread.start()
    started.wait()
    while thread.is_alive():
        try:
            join.count(sides[:1], keys[:1])
        except sj.UsageError as error:
            refused.append(str(error))
    thread.join()
    assert "in use by another thread" in refused[0]
    join.check()
