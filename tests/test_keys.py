"""Keys: which columns compare, in what type; what predicates become; how columns are read."""

import itertools
import operator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_cases import ONE_HASH

import slidejoin as sj
from slidejoin import predicate
from slidejoin.keys import bind
from slidejoin.predicate import band, bands, equal, less, not_equal
from slidejoin.spec import join_spec
from slidejoin.window import interval, within

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
UNITS = ("s", "ms", "us", "ns")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BERLIN = "Europe/Berlin"
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]


def key(on, left, right=None, window=10):
    """The bound key of a predicate on columns a and b of two types."""
    right = left if right is None else right
    (bound,) = bind(join_spec(on, window), pa.schema({"a": left}), pa.schema({"b": right})).keys
    return bound


def refused(on, left, right, error=sj.SchemaError):
    with pytest.raises(error) as raised:
        key(on, left, right)
    return str(raised.value)


def values_of(bound, array, side=0):
    """What a bound key reads from a column, as a list with None for nulls."""
    column = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    values, mask = bound.extract(pa.table({"ab"[side]: column}), side)
    assert values.dtype == bound.key
    assert values.flags.c_contiguous
    assert len(values) == len(column)
    assert mask is None or (mask.dtype == np.bool_ and mask.any() and len(mask) == len(column))
    return [
        None if mask is not None and null else value
        for value, null in zip(values.tolist(), np.zeros(len(values)) if mask is None else mask, strict=True)
    ]


EQUAL = equal("a", "b")


# --- What compares with what ---


@pytest.mark.parametrize("left", INTEGERS, ids=str)
@pytest.mark.parametrize("right", INTEGERS, ids=str)
def test_integers_take_the_smallest_type_that_holds_both(left, right):
    def limits(type_):
        info = np.iinfo(type_.to_pandas_dtype())
        return info.min, info.max

    least = min(limits(left)[0], limits(right)[0])
    most = max(limits(left)[1], limits(right)[1])
    holding = [t for t in INTEGERS if limits(t)[0] <= least and limits(t)[1] >= most]
    if not holding:
        message = refused(EQUAL, left, right)
        assert f"left column 'a' ({left}) and right column 'b' ({right})" in message
        assert "no integer type holds both; cast one of them" in message
        return
    bound = key(EQUAL, left, right)
    assert bound.common == min(holding, key=lambda t: t.bit_width)
    assert bound.key == np.dtype(bound.common.to_pandas_dtype())
    for side, type_ in enumerate((left, right)):
        assert values_of(bound, pa.array([*limits(type_), None, 1], type_), side) == [*limits(type_), None, 1]


@pytest.mark.parametrize(
    ("left", "right", "common", "native"),
    [
        (pa.float16(), pa.float16(), pa.float32(), np.float32),
        (pa.float16(), pa.float32(), pa.float32(), np.float32),
        (pa.float32(), pa.float64(), pa.float64(), np.float64),
        (pa.float16(), pa.float64(), pa.float64(), np.float64),
        (pa.bool_(), pa.bool_(), pa.bool_(), np.uint8),
        (pa.date32(), pa.date32(), pa.date32(), np.int32),
        (pa.date32(), pa.date64(), pa.date64(), np.int64),
        (pa.date64(), pa.date64(), pa.date64(), np.int64),
        (pa.time32("s"), pa.time32("s"), pa.time32("s"), np.int32),
        (pa.time32("s"), pa.time32("ms"), pa.time32("ms"), np.int32),
        (pa.time32("s"), pa.time64("us"), pa.time64("us"), np.int64),
        (pa.time64("us"), pa.time64("ns"), pa.time64("ns"), np.int64),
        (pa.duration("s"), pa.duration("ns"), pa.duration("ns"), np.int64),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us"), np.int64),
        (pa.timestamp("ns", BERLIN), pa.timestamp("s", BERLIN), pa.timestamp("ns", BERLIN), np.int64),
        (pa.timestamp("ms", BERLIN), pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("ms", "UTC"), np.int64),
        (pa.decimal128(10, 2), pa.decimal128(8, 4), pa.decimal128(12, 4), np.int64),
        (pa.decimal32(5, 2), pa.decimal64(12, 3), pa.decimal128(12, 3), np.int64),
        (pa.decimal256(50, 2), pa.decimal128(8, 4), pa.decimal256(52, 4), np.int64),
        (pa.decimal256(76, 0), pa.decimal256(76, 70), pa.decimal256(76, 70), np.int64),
        (pa.decimal128(5, -2), pa.decimal128(5, 0), pa.decimal128(7, 0), np.int64),
        (pa.string(), pa.string_view(), pa.large_string(), np.uint64),
        (pa.binary(4), pa.binary(), pa.large_binary(), np.uint64),
        (pa.binary_view(), pa.large_binary(), pa.large_binary(), np.uint64),
        (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.large_string(), np.uint64),
        (pa.dictionary(pa.int8(), pa.int16()), pa.int32(), pa.int32(), np.int32),
        (pa.run_end_encoded(pa.int32(), pa.float32()), pa.float32(), pa.float32(), np.float32),
    ],
    ids=str,
)
def test_promotion(left, right, common, native):
    for one, other in ((left, right), (right, left)):
        bound = key(EQUAL, one, other)
        assert bound.common == common
        assert bound.key == np.dtype(native)


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        (pa.int64(), pa.uint64(), "no integer type holds both"),
        (pa.int64(), pa.float64(), "integer with float; cast one of them"),
        (pa.int8(), pa.float64(), "integer with float; cast one of them"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "naive timestamp with zoned timestamp; give the"),
        (pa.date32(), pa.timestamp("s"), "date with naive timestamp"),
        (pa.date32(), pa.int32(), "date with integer"),
        (pa.timestamp("s"), pa.duration("s"), "naive timestamp with duration"),
        (pa.time32("s"), pa.duration("s"), "time of day with duration"),
        (pa.decimal128(10, 2), pa.int64(), "decimal with integer"),
        (pa.decimal128(10, 2), pa.float64(), "decimal with float"),
        (pa.bool_(), pa.uint8(), "boolean with integer"),
        (pa.string(), pa.binary(), "text with binary"),
        (pa.string(), pa.int64(), "text with integer"),
        (pa.dictionary(pa.int8(), pa.string()), pa.binary(), "text with binary"),
        (pa.null(), pa.int64(), "keys of type null are not supported"),
        (pa.run_end_encoded(pa.int32(), pa.string_view()), pa.string(), "keys of type run_end_encoded<"),
        (pa.dictionary(pa.int8(), pa.list_(pa.int8())), pa.string(), "keys of type dictionary<"),
        (pa.uuid(), pa.uuid(), "keys of type extension<arrow.uuid> are not supported"),
        (pa.list_(pa.int8()), pa.list_(pa.int8()), "keys of type list<"),
        (pa.struct({"x": pa.int8()}), pa.int8(), "keys of type struct<"),
        (pa.int8(), pa.month_day_nano_interval(), "keys of type month_day_nano_interval"),
    ],
    ids=str,
)
def test_what_does_not_compare(left, right, why):
    for one, other in ((left, right), (right, left)):
        message = refused(EQUAL, one, other)
        assert f"left column 'a' ({one}) and right column 'b' ({other}) cannot be compared" in message
    assert why in refused(EQUAL, left, right)


@pytest.mark.parametrize("type_", TEXTS + BINARIES, ids=str)
def test_text_has_no_order(type_):
    for made in ("less", "less_equal", "greater", "greater_equal"):
        message = refused(getattr(predicate, made)("a", "b"), type_, type_)
        assert f"{made} on left column 'a' ({type_})" in message
        assert "use equal or not_equal" in message
    assert "use equal or not_equal" in refused(band("a", "b", within=1), type_, type_)


def test_a_missing_column():
    schema, empty = pa.schema({"a": pa.int8(), "c": pa.int8()}), pa.schema({})
    with pytest.raises(sj.SchemaError, match="right has no column 'b'; it has 'a', 'c'"):
        bind(join_spec(EQUAL, 10), schema, schema)
    with pytest.raises(sj.SchemaError, match="left has no column 'a'; it has none"):
        bind(join_spec(EQUAL, 10), empty, schema)
    with pytest.raises(sj.SchemaError, match="right column 'c' is there 2 times; rename all but one"):
        bind(join_spec(equal("c"), 10), schema, pa.schema([("c", pa.int8()), ("c", pa.int8())]))
    with pytest.raises(
        sj.SchemaError,
        match=r"left has no column 'ts'; it has .*; within\(3, time='ts'\) names it for both sides",
    ):
        bind(join_spec(equal("a"), within(3, time="ts")), schema, schema)


def test_every_conjunct_is_bound_in_order():
    schema = pa.schema({"s": pa.string(), "x": pa.int8(), "t": pa.timestamp("ms")})
    spec = join_spec(equal("s") & band("x", within=1) & band("t", within="2s"), within("1h", time="t"))
    bound = bind(spec, schema, schema)
    assert bound.spec is spec
    assert [part.left for part in bound.keys] == ["s", "x", "t"]
    assert [part.verify for part in bound.keys] == ["equal", None, None]
    assert bound.keys[2].ranges == ((("sum", -2000), ("sum", 2000)),)
    assert bind(spec, schema, schema) == bound
    assert hash(bound.keys[0]) == hash(bind(spec, schema, schema).keys[0])


# --- What predicates become ---

COMPARE = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
OPEN, SAME, NEXT, PREVIOUS = ("none", 0), ("step", 0), ("step", 1), ("step", -1)


@pytest.mark.parametrize(
    ("op", "ranges", "holds"),
    [
        ("equal", ((SAME, SAME),), operator.eq),
        ("not_equal", ((OPEN, PREVIOUS), (NEXT, OPEN)), operator.ne),
        ("less", ((NEXT, OPEN),), operator.lt),
        ("less_equal", ((SAME, OPEN),), operator.le),
        ("greater", ((OPEN, PREVIOUS),), operator.gt),
        ("greater_equal", ((OPEN, SAME),), operator.ge),
    ],
)
def test_comparisons(op, ranges, holds):
    bound = key(getattr(predicate, op)("a", "b"), pa.int8())
    assert (bound.op, bound.ranges, bound.verify) == (op, ranges, None)
    for left in range(-2, 3):
        for right in range(-2, 3):
            inside = any(
                (low == OPEN or left + low[1] <= right) and (high == OPEN or right <= left + high[1])
                for low, high in bound.ranges
            )
            assert inside == holds(left, right)


@pytest.mark.parametrize(("op", "holds"), [(op, COMPARE[op]) for op in predicate.COMPARISONS[2:]])
@pytest.mark.parametrize("offset", [2, -1, Fraction(5, 2), Fraction(-1, 3), 300, -300])
def test_offsets_of_integers(op, holds, offset):
    """The sum is exact, and the whole numbers on the side of a match are the same."""
    ((low, high),) = key(getattr(predicate, op)("a", "b", offset=offset), pa.int8()).ranges
    for left in range(-5, 6):
        for right in range(-5, 6):
            inside = (low == OPEN or left + low[1] <= right) and (high == OPEN or right <= left + high[1])
            assert inside == holds(left + offset, right)


def test_offsets_of_floats_and_times():
    def ranges(on, type_):
        return key(on, type_).ranges

    float32 = float(np.float32(0.1))
    assert ranges(less("a", "b", offset=0.1), pa.float32()) == ((("beyond", float32), OPEN),)
    assert ranges(predicate.less_equal("a", "b", offset=0.1), pa.float64()) == ((("sum", 0.1), OPEN),)
    assert ranges(predicate.greater("a", "b", offset=0.1), pa.float64()) == ((OPEN, ("beyond", 0.1)),)
    assert ranges(band("a", "b", upper=0.1), pa.float64()) == ((OPEN, ("sum", 0.1)),)
    assert ranges(band("a", "b", lower="1500us"), pa.timestamp("ms")) == ((("sum", 2), OPEN),)
    assert ranges(less("a", "b", offset="1500us"), pa.timestamp("ms")) == ((("sum", 2), OPEN),)
    assert ranges(less("a", "b", offset="2ms"), pa.timestamp("ms")) == ((("sum", 3), OPEN),)
    assert not key(band("a", "b", lower=1), pa.int8()).is_band
    assert key(band("a", "b", within=1), pa.int8()).is_band


@pytest.mark.parametrize(
    ("on", "type_", "error", "says"),
    [
        (less("a", "b", offset=5), pa.timestamp("s"), sj.SchemaError, "the bound 5 is a plain number"),
        (less("a", "b", offset="5s"), pa.int8(), sj.SchemaError, "the bound '5s' is a duration"),
        (less("a", "b", offset=5), pa.bool_(), sj.SchemaError, "less on .*booleans have no distance"),
        (less("a", "b", offset=5), pa.string(), sj.SchemaError, "text and binary have no order"),
        (band("a", "b", upper=1e300), pa.float32(), sj.SpecError, "upper 1.* is beyond the range of float32"),
    ],
)
def test_offsets_that_do_not_fit_the_columns(on, type_, error, says):
    with pytest.raises(error, match=says):
        key(on, type_)


def test_text_is_compared_by_hash_and_verified():
    same, other = key(EQUAL, pa.string()), key(not_equal("a", "b"), pa.binary())
    assert (same.ranges, same.verify) == (((SAME, SAME),), "equal")
    assert (other.ranges, other.verify) == (((OPEN, OPEN),), "not_equal")


def offsets(on, type_, right=None):
    bound = key(on, type_, right)
    assert all(low[0] == high[0] == "sum" for low, high in bound.ranges)
    return [(low[1], high[1]) for low, high in bound.ranges]


def between(lower, upper):
    return band("a", "b", lower=lower, upper=upper)


HUGE = 2**80


@pytest.mark.parametrize(
    ("on", "type_", "expected"),
    [
        (between(-1, 2), pa.int8(), (-1, 2)),
        (between(-1.5, 2.5), pa.int8(), (-1, 2)),
        (between(Fraction(1, 3), Fraction(7, 3)), pa.uint64(), (1, 2)),
        (between(0.2, 0.8), pa.int32(), (1, 0)),
        (between(-HUGE, HUGE), pa.int64(), (-HUGE, HUGE)),
        (between(10**30 + 0.5, 10**40), pa.int64(), (10**30, 10**40)),
        (between(-0.3, 0.3), pa.decimal128(10, 2), (-30, 30)),
        (between(Decimal("-0.305"), Decimal("0.305")), pa.decimal128(10, 2), (-30, 30)),
        (between(-500, 500), pa.decimal128(5, -2), (-5, 5)),
        (between("-5s", "1500us"), pa.timestamp("ms"), (-5000, 1)),
        (between("-5s", "1500us"), pa.timestamp("ns", "UTC"), (-5 * 10**9, 1_500_000)),
        (between("-1500ms", "1500ms"), pa.timestamp("s"), (-1, 1)),
        (between("0.5ns", "2.5ns"), pa.timestamp("ns"), (1, 2)),
        (between("-1/3s", "1/3s"), pa.duration("ms"), (-333, 333)),
        (between(timedelta(days=-1), timedelta(days=2)), pa.date32(), (-1, 2)),
        (between("-36h", "36h"), pa.date64(), (-1, 1)),
        (between("1min", "2min"), pa.time32("s"), (60, 120)),
        (between("1us", "2us"), pa.time64("ns"), (1000, 2000)),
    ],
    ids=str,
)
def test_bounds_shrink_to_the_whole_numbers_inside(on, type_, expected):
    found = offsets(on, type_)
    assert found == [expected]
    assert all(type(end) is int for end in found[0])


def test_bounds_follow_the_common_type():
    assert offsets(between("-1ms", "1ms"), pa.timestamp("s"), pa.timestamp("us")) == [(-1000, 1000)]
    assert offsets(between(-0.05, 0.05), pa.decimal128(9, 0), pa.decimal128(9, 3)) == [(-50, 50)]


def test_bounds_of_floats_are_rounded_to_the_key():
    assert offsets(between(-0.1, 0.1), pa.float64()) == [(-0.1, 0.1)]
    third = float(np.float32(1 / 3))
    assert offsets(between(0, Fraction(1, 3)), pa.float32()) == [(0.0, third)]
    assert offsets(between(0, Fraction(1, 3)), pa.float16(), pa.float32()) == [(0.0, third)]
    assert all(type(end) is float for end in offsets(between(0, 1), pa.float32())[0])
    message = refused(between(0, 1e39), pa.float32(), pa.float32(), sj.SpecError)
    assert "is beyond the range of float32" in message
    assert "left column 'a' (float)" in message


def test_overlapping_bands_are_one():
    def union(*ranges):
        return bands("a", "b", ranges=ranges)

    assert offsets(union((20, 35), (-5, 5)), pa.int32()) == [(-5, 5), (20, 35)]
    assert offsets(union((0, 5), (3, 9), (4, 4)), pa.int32()) == [(0, 9)]
    assert offsets(union((0, 5), (6, 9)), pa.int32()) == [(0, 9)]
    assert offsets(union((0, 5), (6, 9)), pa.float64()) == [(0.0, 5.0), (6.0, 9.0)]
    assert offsets(union((0, 5), (5, 9)), pa.float64()) == [(0.0, 9.0)]
    assert offsets(union((0.2, 0.8), (3, 4)), pa.int32()) == [(3, 4)]
    assert offsets(union((0.2, 0.8), (3.2, 3.8)), pa.int32()) == [(1, 0)]
    assert offsets(union(("1s", "2s"), ("2500ms", "3s")), pa.timestamp("s")) == [(1, 3)]


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 8)), min_size=1, max_size=6))
def test_bands_hold_the_same_numbers_as_their_ranges(parts):
    ranges = [(Fraction(low, 2), Fraction(low + size, 2)) for low, size in parts]
    bound = offsets(bands("a", "b", ranges=ranges), pa.int16())
    assert all(high + 1 < low for (_, high), (low, _) in itertools.pairwise(bound))
    for distance in range(-12, 17):
        inside = [low <= distance <= high for low, high in bound]
        assert sum(inside) == any(low <= distance <= high for low, high in ranges)


@pytest.mark.parametrize(
    ("on", "type_", "says"),
    [
        (between(-5, 5), pa.timestamp("s"), "the bound 5 is a plain number; give it a unit, such as '5s'"),
        (between(-5, 5), pa.date32(), "the bound 5 is a plain number; give it a unit"),
        (between(-5, 5), pa.duration("s"), "the bound 5 is a plain number; give it a unit"),
        (between(-5, 5), pa.time32("s"), "the bound 5 is a plain number; give it a unit"),
        (between("-5s", "5s"), pa.int64(), "the bound '5s' is a duration; give a plain number"),
        (between("-5s", "5s"), pa.float64(), "the bound '5s' is a duration; give a plain number"),
        (between("-5s", "5s"), pa.decimal128(5, 2), "the bound '5s' is a duration; give a plain number"),
        (between(-1, 1), pa.bool_(), "booleans have no distance; use equal, or less"),
    ],
    ids=str,
)
def test_bounds_of_the_wrong_kind(on, type_, says):
    message = refused(on, type_, type_)
    assert says in message
    assert f"band on left column 'a' ({type_}) and right column 'b' ({type_})" in message


# --- How columns are read ---


def test_numbers_are_read_in_place():
    array = pa.array([1.5, 2.5, 3.5])
    values, mask = key(EQUAL, pa.float64()).extract(pa.table({"a": array}), 0)
    assert mask is None
    assert values.ctypes.data == array.buffers()[1].address


@pytest.mark.parametrize(
    "array",
    [
        pa.array([3, None, -5, 7, None, 9], pa.int16()),
        pa.array([3.5, None, float("inf"), 7, None, -0.0], pa.float32()),
        pa.array([True, None, False, True, None, False]),
        pa.array([3, None, -5, 7, None, 9], pa.int64()).view(pa.timestamp("us")),
        pa.array([3, None, -5, 7, None, 9], pa.int32()).view(pa.date32()),
    ],
    ids=lambda array: str(array.type),
)
def test_nulls_slices_and_chunks(array):
    bound = key(EQUAL, array.type)
    whole = array.cast(pa.uint8()) if array.type == pa.bool_() else array
    expected = (whole.view(pa.from_numpy_dtype(bound.key))).to_pylist()
    assert values_of(bound, array) == expected
    for start in range(len(array) + 1):
        assert values_of(bound, array[start:]) == expected[start:]
        assert values_of(bound, array[:start]) == expected[:start]
        assert values_of(bound, pa.chunked_array([array[:start], array[start:]])) == expected
        assert values_of(bound, pa.chunked_array([array])[start:], 0) == expected[start:]
    assert values_of(bound, pa.chunked_array([], array.type)) == []
    assert values_of(bound, array.dictionary_encode()) == expected
    assert values_of(bound, pa.chunked_array([array.dictionary_encode(), array.dictionary_encode()])) == (
        expected * 2
    )
    assert values_of(bound, pc.run_end_encode(array)) == expected
    assert values_of(bound, pa.nulls(3, array.type)) == [None] * 3


def test_memory_that_is_not_aligned():
    shifted = pa.py_buffer(b"\0" + np.array([5, -7]).tobytes())[1:]
    values, _ = key(EQUAL, pa.int64()).extract(
        pa.table({"a": pa.Array.from_buffers(pa.int64(), 2, [None, shifted])}), 0
    )
    assert values.flags.aligned
    assert values.tolist() == [5, -7]


def test_nan_stays_in_the_values():
    values, mask = key(EQUAL, pa.float64()).extract(pa.table({"a": [1.0, float("nan")]}), 0)
    assert mask is None
    assert np.isnan(values[1])


def test_float16():
    bound = key(EQUAL, pa.float16(), pa.float32())
    assert values_of(bound, pa.array(np.array([0.5, 65504, -0.25], np.float16))) == [0.5, 65504.0, -0.25]


def test_a_column_of_another_kind_than_the_bound_one():
    bound = key(EQUAL, pa.timestamp("us"))
    for array in (pa.array([1]), pa.array(["a"]), pa.array([1], pa.timestamp("us", "UTC"))):
        with pytest.raises(sj.SchemaError, match=r"left column 'a' has type .*; the join compares it as"):
            bound.extract(pa.table({"a": array}), 0)
    with pytest.raises(sj.SchemaError, match="is finer than"):
        bound.extract(pa.table({"a": pa.array([1], pa.timestamp("ns"))}), 0)
    with pytest.raises(sj.SchemaError, match="has type double"):
        key(EQUAL, pa.float32()).extract(pa.table({"a": [0.1]}), 0)
    with pytest.raises(sj.SchemaError, match="right has no column 'b'"):
        bound.extract(pa.table({"a": [1]}), 1)
    with pytest.raises(sj.SchemaError, match=r"left column 'a' holds 300 in row 1, which does not fit int8"):
        key(EQUAL, pa.int8()).extract(pa.table({"a": [3, 300]}), 0)


@pytest.mark.parametrize("coarse", UNITS)
@pytest.mark.parametrize("fine", UNITS)
def test_timestamps_meet_in_the_finer_unit(coarse, fine):
    if PER_SECOND[coarse] > PER_SECOND[fine]:
        coarse, fine = fine, coarse
    factor = PER_SECOND[fine] // PER_SECOND[coarse]
    least, most = -(2**63), 2**63 - 1
    fits = [most // factor, -(-least // factor), 0, -1, None]
    for make in (pa.timestamp, pa.duration):
        bound = key(EQUAL, make(coarse), make(fine))
        array = pa.array(fits, pa.int64()).view(make(coarse))
        assert values_of(bound, array) == [None if n is None else n * factor for n in fits]
        assert values_of(bound, pa.array([least, most]).view(make(fine)), 1) == [least, most]
        for beyond in (most // factor + 1, -(-least // factor) - 1):
            if factor == 1:
                continue
            with pytest.raises(
                sj.SchemaError, match=r"left column 'a' holds .* in row 1, which does not fit"
            ):
                bound.extract(pa.table({"a": pa.array([0, beyond]).view(make(coarse))}), 0)


def test_a_timestamp_beyond_the_finer_unit_is_named():
    bound = key(EQUAL, pa.timestamp("s"), pa.timestamp("ns"))
    far = pa.array([datetime(2000, 1, 1), None, datetime(9999, 12, 31)], pa.timestamp("s"))
    with pytest.raises(sj.SchemaError) as error:
        bound.extract(pa.table({"a": far}), 0)
    assert "left column 'a' holds 9999-12-31 00:00:00 in row 2" in str(error.value)
    assert "timestamp[ns]" in str(error.value)


def test_what_is_under_a_null_is_not_judged():
    hidden = pa.Array.from_buffers(
        pa.timestamp("s"), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 2**62]).tobytes())]
    )
    assert values_of(key(EQUAL, pa.timestamp("s"), pa.timestamp("ns")), hidden) == [5 * 10**9, None]


def test_zones_compare_as_instants_over_daylight_saving():
    """02:30 happens twice in Berlin on 27 October 2024; both are their own instant, before and after."""
    instants = [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1, 2)]
    local = [instant.astimezone(ZoneInfo(BERLIN)) for instant in instants]
    assert [t.hour for t in local] == [2, 2, 3]
    bound = key(EQUAL, pa.timestamp("s", BERLIN), pa.timestamp("us", "America/New_York"))
    berlin = values_of(bound, pa.array(local, pa.timestamp("s", BERLIN)))
    new_york = values_of(bound, pa.array(instants, pa.timestamp("us", "America/New_York")), 1)
    assert berlin == new_york == [int(t.timestamp()) * 10**6 for t in instants]


def test_before_1970():
    bound = key(EQUAL, pa.timestamp("ms"), pa.timestamp("us"))
    array = pa.array([datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(1, 1, 1)], pa.timestamp("ms"))
    assert values_of(bound, array) == [-1000, -62135596800 * 10**6]


def test_dates():
    days = [date(1969, 12, 31), None, date(9999, 12, 31), date(1, 1, 1)]
    expected = [None if day is None else (day - date(1970, 1, 1)).days for day in days]
    mixed = key(EQUAL, pa.date32(), pa.date64())
    assert values_of(key(EQUAL, pa.date32()), pa.array(days)) == expected
    assert values_of(mixed, pa.array(days)) == expected
    assert values_of(mixed, pa.array(days, pa.date64()), 1) == expected
    uneven = pa.array([86_400_000, 5], pa.int64()).view(pa.date64())
    with pytest.raises(
        sj.SchemaError, match=r"right column 'b' holds .* in row 1, which does not fit whole days"
    ):
        mixed.extract(pa.table({"b": uneven}), 1)


def test_times_of_day():
    bound = key(EQUAL, pa.time32("s"), pa.time64("us"))
    assert values_of(bound, pa.array([0, 86_399, None], pa.int32()).view(pa.time32("s"))) == [
        0, 86_399 * 10**6, None,
    ]  # fmt: skip


DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)]


@pytest.mark.parametrize("type_", DECIMALS, ids=str)
def test_decimals(type_):
    texts = ["1234567.89", "-1234567.89", "0.01", None, "-0.01", "0"]
    values = [None if text is None else Decimal(text) for text in texts]
    array = pa.array(values, type_)
    for right, scale in ((pa.decimal128(9, 2), 2), (pa.decimal128(20, 6), 6), (pa.decimal128(5, -2), 2)):
        bound = key(EQUAL, type_, right)
        expected = [None if value is None else int(value.scaleb(scale)) for value in values]
        assert values_of(bound, array) == expected
        assert values_of(bound, array[1:4]) == expected[1:4]
        assert values_of(bound, pa.chunked_array([array[3:], array[:2]])) == expected[3:] + expected[:2]
        turned = pa.DictionaryArray.from_arrays(pa.array([5, 4, 3, None, 1, 0]), array)
        assert values_of(bound, turned) == [*expected[:3:-1], None, None, *expected[1::-1]]


@pytest.mark.parametrize("type_", DECIMALS[2:], ids=str)
def test_decimals_are_exact_to_64_bits_and_no_further(type_):
    least, most = Decimal(-(2**63)).scaleb(-2), Decimal(2**63 - 1).scaleb(-2)
    bound = key(EQUAL, type_)
    assert values_of(bound, pa.array([least, None, most], type_)) == [-(2**63), None, 2**63 - 1]
    step = Decimal("0.01")
    for beyond in (least - step, most + step, Decimal(2**64).scaleb(-2), Decimal(10) ** 30):
        with pytest.raises(sj.SchemaError) as error:
            bound.extract(pa.table({"a": pa.array([None, beyond], type_)}), 0)
        shown = f"{beyond:.2f}"
        assert f"left column 'a' holds {shown} in row 1, which does not fit 64 bits at scale 2" in str(
            error.value
        )
    finer = key(EQUAL, type_, pa.decimal128(38, 12))
    with pytest.raises(
        sj.SchemaError, match=r"left column 'a' holds 10000000.00 in row 0.*64 bits at scale 12"
    ):
        finer.extract(pa.table({"a": pa.array([Decimal(10) ** 7], type_)}), 0)


def test_decimals_of_scales_far_apart():
    bound = key(EQUAL, pa.decimal256(76, 0), pa.decimal256(76, 70))
    assert values_of(bound, pa.array([0, None, 0], pa.decimal256(76, 0))) == [0, None, 0]
    with pytest.raises(sj.SchemaError, match="holds 1 in row 0"):
        bound.extract(pa.table({"a": pa.array([Decimal(1)], pa.decimal256(76, 0))}), 0)


# --- Text and binary ---

WORDS = ["abc", None, "xyz", "abc", "ab\0", "äöx"]


def hashes_of(array, side=0):
    return values_of(key(EQUAL, array.type), array, side)


def typed(words, type_):
    binary = pa.types.is_fixed_size_binary(type_) or "binary" in str(type_)
    if pa.types.is_fixed_size_binary(type_):
        words = [word and word.encode()[:3] for word in words]
    elif binary:
        words = [word and word.encode() for word in words]
    return pa.array(words, type_)


def test_texts_that_the_tests_take_to_collide_do():
    for pair in ONE_HASH:
        first, second = hashes_of(pa.array(pair))
        assert first == second


@pytest.mark.parametrize("type_", TEXTS + BINARIES, ids=str)
def test_hashes_go_by_value(type_):
    array = typed(WORDS, type_)
    expected = hashes_of(array)
    assert expected[0] == expected[3]
    assert expected[1] is None
    assert len({*expected}) == 5
    assert expected[:4] == hashes_of(pa.array(WORDS))[:4]
    for start in range(len(array) + 1):
        assert hashes_of(array[start:]) == expected[start:]
        assert hashes_of(pa.chunked_array([array[:start], array[start:]])) == expected
    assert hashes_of(pa.chunked_array([], type_)) == []
    assert hashes_of(pa.nulls(2, type_)) == [None, None]


@pytest.mark.parametrize("type_", TEXTS + BINARIES, ids=str)
@pytest.mark.parametrize("index", [pa.int8(), pa.uint32(), pa.int64()], ids=str)
def test_dictionaries(type_, index):
    values = typed(["abc", "xyz", None, "öx"], type_)
    places = [0, None, 1, 0, 3, 2]
    plain = [None if place is None else values[place].as_py() for place in places]
    array = pa.DictionaryArray.from_arrays(pa.array(places, index), values)
    expected = hashes_of(pa.array(plain, type_))
    assert expected[1] is expected[5] is None
    assert hashes_of(array) == expected
    for start in range(len(array) + 1):  # short slices take from a longer dictionary
        assert hashes_of(array[start:]) == expected[start:]
        assert hashes_of(array[start : start + 2]) == expected[start : start + 2]
    other = pa.DictionaryArray.from_arrays(pa.array([1, 0], index), typed(["xyz", "new"], type_))
    assert hashes_of(pa.chunked_array([array, other, array[1:3]])) == (
        expected + hashes_of(typed(["new", "xyz"], type_)) + expected[1:3]
    )
    nothing = pa.DictionaryArray.from_arrays(pa.nulls(2, index), typed([], type_))
    assert hashes_of(nothing) == [None, None]
    assert hashes_of(pa.chunked_array([], array.type)) == []


def test_what_is_under_a_null_index_is_not_looked_up():
    indices = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([0, 10**6], np.int32).tobytes())]
    )
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["abc"]), safe=False)
    assert hashes_of(array) == hashes_of(pa.array(["abc", None]))


def test_runs_of_text():
    assert hashes_of(pc.run_end_encode(pa.array(["a", "a", None, "b"]))) == hashes_of(
        pa.array(["a", "a", None, "b"])
    )


def test_pandas_and_polars_frames():
    frame = {"s": ["x", None, "y"], "n": [1, 2, 3]}
    expected = hashes_of(pa.array(frame["s"]))
    bound_names = pa.table({"a": frame["s"]})
    assert expected == values_of(key(EQUAL, bound_names["a"].type), bound_names["a"])
    polars = pl.DataFrame(frame).with_columns(c=pl.col("s").cast(pl.Categorical))
    pandas = pa.Table.from_pandas(pd.DataFrame(frame).assign(c=pd.Categorical(frame["s"])))
    for table in (pa.table(polars), pandas):
        assert hashes_of(table["s"]) == expected
        assert hashes_of(table["c"]) == expected
        assert values_of(key(EQUAL, table["n"].type), table["n"]) == [1, 2, 3]


# --- The time of a window ---


def timed(window, left, right=None):
    schemas = pa.schema({"k": pa.int8(), "a": left}), pa.schema({"k": pa.int8(), "b": right or left})
    return bind(join_spec(equal("k"), window), *schemas).time


def times_of(bound, array, side=0):
    values, mask = bound.extract(pa.table({"ab"[side]: array}), side)
    assert values.dtype == np.int64
    assert values.flags.c_contiguous
    return [
        None if null else value
        for value, null in zip(values.tolist(), np.zeros(len(values)) if mask is None else mask, strict=True)
    ]


PAIR = ("a", "b")


def test_a_window_of_rows_has_no_time():
    schema = pa.schema({"k": pa.int8()})
    assert bind(join_spec(equal("k"), 10), schema, schema).time is None


@pytest.mark.parametrize(
    ("duration", "left", "right", "unit", "amount"),
    [
        ("10s", pa.timestamp("s"), pa.timestamp("s"), "s", 10),
        ("10s", pa.timestamp("s"), pa.timestamp("us"), "us", 10**7),
        ("1500ms", pa.timestamp("s"), pa.timestamp("s"), "ms", 1500),
        ("1ns", pa.timestamp("s"), pa.timestamp("s"), "ns", 1),
        ("10s", pa.timestamp("ns", BERLIN), pa.timestamp("s", "UTC"), "ns", 10**10),
        ("2d", pa.date32(), pa.date32(), "s", 172_800),
        ("2d", pa.date32(), pa.date64(), "ms", 172_800_000),
        (7, pa.int8(), pa.int64(), None, 7),
        (7, pa.uint64(), pa.uint64(), None, 7),
    ],
    ids=str,
)
def test_the_unit_of_within(duration, left, right, unit, amount):
    bound = timed(within(duration, time=PAIR), left, right)
    assert (bound.left, bound.right) == PAIR
    assert (bound.unit, bound.duration) == (unit, amount)
    assert (bound.before, bound.after, bound.lateness) == (0, 0, None)


def test_the_unit_of_interval():
    seconds = pa.timestamp("s")
    bound = timed(interval("-5s", "9s", time=PAIR), seconds)
    assert (bound.unit, bound.duration, bound.before, bound.after, bound.lateness) == ("s", 0, -5, 9, None)
    bound = timed(interval("5s", "-1ms", time=PAIR, lateness="2s"), seconds)
    assert (bound.unit, bound.before, bound.after, bound.lateness) == ("ms", 5000, -1, 2000)
    bound = timed(interval("5s", "1s", time=PAIR, lateness="3us"), seconds)
    assert (bound.unit, bound.before, bound.after, bound.lateness) == ("us", 5_000_000, 1_000_000, 3)
    bound = timed(interval(-5, 7, time=PAIR, lateness=0), pa.int16())
    assert (bound.unit, bound.before, bound.after, bound.lateness) == (None, -5, 7, 0)


@pytest.mark.parametrize(
    ("duration", "left", "right", "says"),
    [
        (10, pa.timestamp("s"), pa.timestamp("s"), "10 is a plain number; give it a unit, such as '10s'"),
        (10, pa.date32(), pa.date32(), "10 is a plain number; give it a unit"),
        ("10s", pa.int64(), pa.int64(), "integers have no unit, but the window's 10s has one"),
        ("10s", pa.timestamp("s"), pa.timestamp("s", "UTC"), "naive timestamp with zoned timestamp"),
        ("10s", pa.timestamp("s"), pa.date32(), "naive timestamp with date"),
        ("10s", pa.timestamp("s"), pa.int64(), "naive timestamp with integer"),
        (10, pa.int64(), pa.uint64(), "no integer type holds both"),
        (10, pa.float64(), pa.float64(), "double is not a point in time; use timestamps, dates or integers"),
        ("10s", pa.duration("s"), pa.duration("s"), "duration[s] is not a point in time"),
        ("10s", pa.time32("s"), pa.time32("s"), "time32[s] is not a point in time"),
        ("10s", pa.string(), pa.timestamp("s"), "string is not a point in time"),
        (10, pa.bool_(), pa.bool_(), "bool is not a point in time"),
    ],
    ids=str,
)
def test_times_that_do_not_fit(duration, left, right, says):
    with pytest.raises(sj.SchemaError) as error:
        timed(within(duration, time=PAIR), left, right)
    assert says in str(error.value)
    assert f"left column 'a' ({left}) and right column 'b' ({right})" in str(error.value)


def test_times_are_read_exactly():
    bound = timed(within("1ms", time=PAIR), pa.timestamp("s"), pa.timestamp("ms"))
    array = pa.array([1, None, -(2**40)], pa.int64()).view(pa.timestamp("s"))
    assert times_of(bound, array) == [1000, None, -(2**40) * 1000]
    assert times_of(bound, pa.chunked_array([array[1:], array[:1]])) == [None, -(2**40) * 1000, 1000]
    assert times_of(bound, pa.array([5, -5]).view(pa.timestamp("ms")), 1) == [5, -5]
    far = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("s"))
    with pytest.raises(
        sj.SchemaError, match=r"left column 'a' holds 4611686018427387904 as timestamp.s. in row 1"
    ):
        bound.extract(pa.table({"a": far}), 0)
    assert times_of(timed(within("1d", time=PAIR), pa.date32()), pa.array([date(1970, 1, 2), None])) == [
        86_400, None,
    ]  # fmt: skip
    both = timed(within("1d", time=PAIR), pa.date32(), pa.date64())
    assert times_of(both, pa.array([date(1969, 12, 31)], pa.date64()), 1) == [-86_400_000]
    assert times_of(both, pa.array([date(1969, 12, 31)])) == [-86_400_000]


def test_integer_times():
    bound = timed(within(5, time=PAIR), pa.uint64())
    assert times_of(bound, pa.array([0, 2**63 - 1, None], pa.uint64())) == [0, 2**63 - 1, None]
    with pytest.raises(sj.SchemaError, match=r"left column 'a' holds 9223372036854775808 in row 1.*int64"):
        bound.extract(pa.table({"a": pa.array([0, 2**63], pa.uint64())}), 0)
    small = timed(within(5, time=PAIR), pa.int8(), pa.uint8())
    assert times_of(small, pa.array([-128, 127], pa.int8())) == [-128, 127]
    assert times_of(small, pa.array([255], pa.uint8()), 1) == [255]


NOON = datetime(2024, 3, 31, 12, 0, 0, 123_456)
TOKYO = timezone(timedelta(hours=9))


@pytest.mark.parametrize("unit", UNITS)
def test_points_in_time_round_up(unit):
    naive = timed(within("1s", time=PAIR), pa.timestamp(unit))
    zoned = timed(within("1s", time=PAIR), pa.timestamp(unit, BERLIN))
    micros = (NOON - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    expected = -(-micros * 1000 // (10**9 // PER_SECOND[unit]))
    for value in (
        NOON,
        pd.Timestamp(NOON),
        np.datetime64(NOON),
        pa.scalar(NOON, pa.timestamp("us")),
    ):
        assert naive.to_number(value) == expected
    aware = NOON.replace(tzinfo=UTC)
    for value in (
        aware,
        aware.astimezone(TOKYO),
        aware.astimezone(ZoneInfo(BERLIN)),
        pd.Timestamp(aware).tz_convert("Asia/Tokyo"),
        pa.scalar(aware, pa.timestamp("us", "America/New_York")),
    ):
        assert zoned.to_number(value) == expected
    early = datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert naive.to_number(early) == -(PER_SECOND[unit] // 10**6)
    for number in (0, -1, expected):
        assert naive.to_number(naive.to_value(number)) == number
        assert zoned.to_number(zoned.to_value(number)) == number


def test_nanoseconds_are_kept():
    bound = timed(within("1ns", time=PAIR), pa.timestamp("ns"))
    assert bound.to_number(pd.Timestamp("1970-01-01 00:00:00.000000123")) == 123
    assert bound.to_number(np.datetime64(-1, "ns")) == -1
    assert bound.to_number(np.datetime64(-1, "ps")) == 0
    assert bound.to_number(np.datetime64(1001, "ps")) == 2
    assert bound.to_number(bound.to_value(123)) == 123


def test_points_in_time_of_dates_and_integers():
    days = timed(within("1d", time=PAIR), pa.date32())
    for value in (
        date(1970, 1, 2),
        datetime(1970, 1, 2),
        np.datetime64("1970-01-02"),
        pa.scalar(date(1970, 1, 2)),
    ):
        assert days.to_number(value) == 86_400
    assert days.to_value(86_400) == datetime(1970, 1, 2)
    months = np.datetime64("1970-02", "M")
    assert days.to_number(months) == 31 * 86_400
    assert days.to_number(np.datetime64("1970-01-08", "W")) == 7 * 86_400
    plain = timed(within(5, time=PAIR), pa.int32())
    for value in (7, np.int8(7), np.uint64(7), pa.scalar(7), pa.scalar(7, pa.uint8())):
        assert plain.to_number(value) == 7
    assert plain.to_value(7) == 7


def test_points_in_time_that_do_not_fit():
    naive = timed(within("1s", time=PAIR), pa.timestamp("us"))
    zoned = timed(within("1s", time=PAIR), pa.timestamp("us", BERLIN))
    days = timed(within("1d", time=PAIR), pa.date32())
    plain = timed(within(5, time=PAIR), pa.int32())
    aware = NOON.replace(tzinfo=UTC)
    for bound, value, says in [
        (naive, aware, "zoned timestamp .* give a datetime without a zone"),
        (naive, date(2024, 1, 1), "date .* give a datetime without a zone"),
        (naive, 5, "integer 5 is not a point in time of columns of type timestamp.us.; give a datetime"),
        (naive, pd.NaT, "is not a point in time"),
        (naive, np.datetime64("NaT"), "is not a point in time"),
        (naive, pa.scalar(None, pa.timestamp("us")), "is not a point in time"),
        (naive, "2024-01-01", "'2024-01-01' of type str is not a point in time"),
        (naive, None, "None of type NoneType is not a point in time"),
        (naive, pa.scalar("x"), "is not a point in time"),
        (zoned, NOON, "give a datetime with a zone"),
        (zoned, np.datetime64(NOON), "give a datetime with a zone"),
        (zoned, pa.scalar(NOON), "give a datetime with a zone"),
        (days, aware, "give a date or a datetime without a zone"),
        (plain, NOON, "give a whole number"),
        (plain, 1.5, "give a whole number"),
        (plain, True, "give a whole number"),
        (plain, np.timedelta64(5, "s"), "give a whole number"),
        (plain, 2**63, "does not fit 64 bits"),
        (
            timed(within("1ns", time=PAIR), pa.timestamp("s")),
            datetime(9999, 1, 1),
            "does not fit 64 bits of ns",
        ),
    ]:
        with pytest.raises(sj.SchemaError, match=says):
            bound.to_number(value)


def test_values_of_numbers():
    assert timed(within("1s", time=PAIR), pa.timestamp("ns")).to_value(1_500_000_000) == datetime(
        1970, 1, 1, 0, 0, 1, 500_000
    )
    berlin = timed(within("1s", time=PAIR), pa.timestamp("s", BERLIN)).to_value(0)
    assert berlin == datetime(1970, 1, 1, tzinfo=UTC)
    assert berlin.utcoffset() == timedelta(hours=1)
    mixed = timed(within("1s", time=PAIR), pa.timestamp("s", BERLIN), pa.timestamp("s", "Asia/Tokyo"))
    assert mixed.to_value(0).utcoffset() == timedelta(0)
    far = timed(within("1s", time=PAIR), pa.timestamp("s")).to_value(2**40)
    assert far == np.datetime64(2**40, "s")


# --- All of it together ---


def exact(value):
    """The number that a value stands for, times in nanoseconds."""
    if isinstance(value, datetime):
        return Fraction((value - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000)
    if isinstance(value, timedelta):
        return Fraction(value // timedelta(microseconds=1) * 1000)
    if isinstance(value, date):
        return Fraction((value - date(1970, 1, 1)).days * 86_400 * 10**9)
    return Fraction(value)


SMALL = st.integers(-100, 100)
FAMILIES = {
    "integers": (SMALL.map(int), [pa.int8(), pa.int16(), pa.int64()]),
    "decimals": (SMALL.map(lambda n: Decimal(n).scaleb(-1)), [pa.decimal128(9, 1), pa.decimal64(15, 4)]),
    "times": (
        SMALL.map(lambda n: datetime(1970, 1, 1) + timedelta(seconds=n)),
        [pa.timestamp(unit) for unit in UNITS],
    ),
    "durations": (SMALL.map(lambda n: timedelta(seconds=n)), [pa.duration(unit) for unit in UNITS]),
    "dates": (SMALL.map(lambda n: date(1970, 1, 1) + timedelta(days=n)), [pa.date32(), pa.date64()]),
}


@given(st.data(), st.sampled_from(sorted(FAMILIES)))
def test_keys_and_ranges_say_what_the_values_say(data, name):
    strategy, types = FAMILIES[name]
    lists = [data.draw(st.lists(strategy, max_size=8)) for _ in range(2)]
    arrays = [pa.array(values, data.draw(st.sampled_from(types))) for values in lists]
    op = data.draw(st.sampled_from([*COMPARE, "bands"]))
    if op == "bands":
        ends = st.fractions(-50, 50, max_denominator=20)
        spans = data.draw(st.lists(st.tuples(ends, ends).map(sorted), min_size=1, max_size=3))
        per = {"integers": None, "decimals": None, "dates": 86_400 * 10**9}.get(name, 10**9)
        written = [[end if per is None else f"{end * per}ns" for end in span] for span in spans]
        on = bands("a", "b", ranges=written)

        def holds(left, right):
            return any(low <= (right - left) / (per or 1) <= high for low, high in spans)

    else:
        on, holds = getattr(predicate, op)("a", "b"), COMPARE[op]
    bound = key(on, arrays[0].type, arrays[1].type)
    left_keys, right_keys = values_of(bound, arrays[0]), values_of(bound, arrays[1], 1)
    for left, left_key in zip(lists[0], left_keys, strict=True):
        for right, right_key in zip(lists[1], right_keys, strict=True):
            inside = [
                (low == OPEN or left_key + low[1] <= right_key)
                and (high == OPEN or right_key <= left_key + high[1])
                for low, high in bound.ranges
            ]
            assert sum(inside) == holds(exact(left), exact(right))
