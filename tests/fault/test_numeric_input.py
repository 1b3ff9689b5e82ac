"""Bad input gets a clear error and changes nothing."""

import threading
from datetime import UTC, datetime
from decimal import Decimal

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
        ({"index": "hash"}, "expected one of nested-loop, b-tree, b-chain"),
        ({"workers": 0}, "workers=0"),
        ({"group": 0}, "group=0"),
        ({"group": 2.5}, "group=2.5"),
        ({"group": 2**21}, "expected a number from 1"),
        ({"self_join": True, "window": (3, 4)}, "one window"),
        ({"self_join": "no"}, "expected True or False"),
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
        (
            rows_join,
            ([0, 300], [5, 5]),
            sj.SchemaError,
            "sides[1] is 300; expected 0 for left or 1 for right",
        ),
        (rows_join, ([0], [5, 5]), sj.SchemaError, "sides has 1 elements and keys has 2"),
        (rows_join, (None, [5]), sj.SchemaError, "sides is missing"),
        (rows_join, ([0], [5.5]), sj.SchemaError, "keys[0] is 5.5, which int32 cannot hold exactly"),
        (rows_join, ([0], [2**31]), sj.SchemaError, "keys[0] is 2147483648, which int32 cannot hold"),
        (rows_join, ([0], [2**70]), sj.SchemaError, "no key type does"),
        (rows_join, ([0], ["5"]), sj.SchemaError, "keys[0] is '5'; expected numbers"),
        (rows_join, ([0], np.array([5], np.int64)), sj.SchemaError, ".astype(np.int32), which keeps every"),
        (rows_join, ([0], np.array([5.0])), sj.SchemaError, "keys has type float64"),
        (rows_join, ([0], [[5]]), sj.SchemaError, "keys has 2 dimensions"),
        (rows_join, ([0], 5), sj.SchemaError, "keys has 0 dimensions"),
        (rows_join, ([0], [5], [100]), sj.SchemaError, "a window of rows has no use for them"),
        (timed_join, ([0], [5]), sj.SchemaError, "times are missing"),
        (timed_join, ([0], [5], [106, 107]), sj.SchemaError, "times has 2 elements and keys has 1"),
        (timed_join, ([0], [5], [106.5]), sj.SchemaError, "times[0] is 106.5; expected whole numbers"),
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


def refused(key, keys, sides=None, **options):
    """What a join says about a batch that it does not take."""
    join = sj.NumericJoin(10, -1, 1, key, **options)
    with pytest.raises(sj.SchemaError) as error:
        join.push([0] * len(keys) if sides is None else sides, keys)
    assert join.stats["rows_left"] == join.stats["rows_right"] == 0
    return str(error.value)


BIG = 2**53 + 1  # the first whole number that float64 lacks


@pytest.mark.parametrize(
    ("key", "keys", "says"),
    [
        (np.float64, [1, BIG], "keys[1] is 9007199254740993, which float64 cannot hold exactly"),
        (np.float64, [0.5, BIG], "keys[1] is 9007199254740993, which float64 cannot hold exactly"),
        (np.float64, [-(2**63) + 1], "make the join with key=np.int64"),
        (np.float64, [2**64 - 1], "make the join with key=np.uint64"),
        (np.float64, [10**400], "no key type does"),
        (np.float32, [2**24 + 1], "keys[0] is 16777217, which float32"),
        (np.float32, [1.0, 1e39], "keys[1] is 1e+39, which float32 cannot hold exactly; make the join with"),
        (np.int64, [0.5, 1], "keys[0] is 0.5, which int64 cannot hold exactly; make the join with key=np.fl"),
        (np.int64, [1, float("nan")], "keys[1] is nan, and int64 has no nulls; drop them, or make the join"),
        (np.int64, [float("inf")], "keys[0] is inf, which int64 cannot hold"),
        (np.int64, [1, None], "keys[1] is None, and int64 has no nulls"),
        (
            np.uint64,
            [2**63, -1],
            "keys[1] is -1, which uint64 cannot hold exactly; make the join with key=np",
        ),
        (np.uint64, [2.0**64, 1], "keys[0] is 1.8446744073709552e+19"),
        (np.float64, ["1", "2"], "keys[0] is '1'; expected numbers"),
        (np.float64, [1j], "keys[0] is 1j; expected numbers"),
        (np.float64, [Decimal("0.1")], "keys[0] is Decimal('0.1'); expected numbers"),
        (np.float64, [[1], [1, 2]], "keys is not a one-dimensional array"),
        (np.float64, np.array([0, BIG]), "keys[1] is 9007199254740993, which float64 cannot hold exactly"),
        (np.float64, np.array([2**64 - 1], np.uint64), "key=np.uint64"),
        (np.float64, np.array([2**63 - 1]), "key=np.int64"),
        (np.float32, np.array([2**24 + 1], np.int32), "keys[0] is 16777217"),
        (np.float32, np.array([2**31 - 1], np.int32), "keys[0] is 2147483647"),
        (
            np.float32,
            np.array([0.5, 0.1]),
            "keys[1] is 0.1, which float32 cannot hold exactly; make the join ",
        ),
        (
            np.float32,
            np.array([0.5]),
            "keys has type float64, expected float32; make the join with key=np.fl",
        ),
        (np.int32, np.array([1, 2**31]), "keys[1] is 2147483648, which int32 cannot hold exactly; make the "),
        (np.int32, np.array([1.0, np.nan]), "keys[1] is nan, and int32 has no nulls; drop them, or make the"),
        (np.int32, np.array([1.0, 2.5]), "keys[1] is 2.5, which int32 cannot hold exactly; make the join wi"),
        (np.int64, np.array([2.0**63]), "keys[0] is 9.223372036854776e+18"),
        (
            np.int64,
            np.array([1.0]),
            "make the join with key=np.float64, or convert with .astype(np.int64), wh",
        ),
        (np.int64, np.array([-1.0, -(2.0**64)]), "keys[1] is -1.8446744073709552e+19"),
        (np.float64, np.array(["1"]), "keys has type <U1; expected float64"),
        (np.int64, NOW, "drop NaT and use .astype(np.int64), whole s since 1970"),
        (np.int64, np.ma.array([1, 2], mask=[False, True]), "keys[1] is masked; fill the masked values"),
        (np.int64, np.array([1, "x"], object), "keys[1] is 'x'; expected numbers"),
    ],
)
def test_no_value_changes_silently(key, keys, says):
    assert says in refused(key, keys)


def test_masked_sides_and_times():
    masked = np.ma.array([0, 1], mask=[False, True])
    assert "sides[1] is masked" in refused(np.int64, [1, 2], masked)
    with pytest.raises(sj.SchemaError, match=r"times\[1\] is masked"):
        timed_join().push([0, 1], [1, 2], np.ma.array([200, 201], mask=[False, True]))


def test_nullable_integers_of_other_libraries():
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    for column in (pa.array([1, None]), pd.Series([1, None], dtype="Int64")):
        assert "has no nulls; drop them, or make the join with key=np.float64" in refused(np.int64, column)
    for column in (pa.array([1, BIG, None]), pd.Series([1, BIG, None], dtype="Int64")):
        for key in (np.float64, np.int64):
            assert "keys[1] is beyond 2**53" in refused(key, column)


@pytest.mark.parametrize(
    "sides", [np.array([10.0, 11.0]), [10.0, 11.0], np.array(["l", "r"]), ["left", "right"], [0, None]]
)
def test_sides_that_are_no_sides(sides):
    message = refused(np.float64, [1.0, 2.0], sides)
    assert "tells which side each key is on, 0 for left or 1 for right" in message
    assert "two arrays are joined by pushing one, then the other" in message


def test_two_columns_of_integers_for_sides_and_keys():
    message = refused(np.int64, np.array([17, 18, 19]), np.array([17, 20]))
    assert "sides[0] is 17" in message
    assert "two arrays are joined by pushing one, then the other" in message


@pytest.mark.parametrize("self_join", [False, True])
def test_a_push_of_one_array(self_join):
    join = sj.NumericJoin(10, -1, 1, self_join=self_join)
    says = r"a self-join takes \(None, keys\)" if self_join else r"expected \(sides, keys\)"
    for call in (join.push, join.count):
        with pytest.raises(sj.SchemaError, match=says):
            call(np.array([1.0]))
    with pytest.raises(TypeError, match="keys is missing"):
        join.push()


def test_datetimes_that_go_back_are_shown_as_datetimes():
    join = timed_join("10s")
    with pytest.raises(sj.OrderError) as error:
        join.push(
            [0, 1], [5, 5], np.array(["2024-01-01T00:00:06", "2024-01-01T00:00:05.5"], "datetime64[ms]")
        )
    message = str(error.value)
    assert message.startswith("times[1] is 2024-01-01T00:00:05.5, earlier than 2024-01-01T00:00:06 before it")
    assert "np.argsort(np.concatenate([left_times, right_times]), kind='stable')" in message
    with pytest.raises(sj.OrderError, match="earlier than 2024-01-01T00:00:05 before it"):
        join.push([0], [5], np.array(["1969-12-31T23:59:59"], "datetime64[s]"))
    with pytest.raises(sj.OrderError, match=r"times\[0\] is 104, earlier than 105 before it.*kind='stable'"):
        timed_join().push([0], [5], [104])


def test_times_that_are_no_datetimes():
    pd = pytest.importorskip("pandas")
    zoned = pd.date_range("2024-01-02", periods=1, tz="Europe/Berlin")
    for times in (zoned, pd.Series(zoned), [datetime.now(UTC)], pd.Series([pd.NaT, zoned[0]])):
        with pytest.raises(
            sj.SchemaError, match=r"has a time zone; take UTC without one: .tz_convert\(None\)"
        ):
            timed_join("10s").push([0] * len(times), [5] * len(times), times)
    for times in (["2024-01-02"], np.array(["2024-01-02"]), [datetime(2024, 1, 2)]):
        for duration in ("10s", 10):
            with pytest.raises(sj.SchemaError, match=r"np.asarray\(times, 'datetime64\[ns\]'\)"):
                timed_join(duration).push([0], [5], times)


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
