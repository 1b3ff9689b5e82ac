"""What WindowJoin documents about matching, rule by rule; bad input is refused and changes nothing."""

import math
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from cases import INDEXES
from window_cases import ONE_HASH

import slidejoin as sj

COMPARISONS = (sj.equal, sj.not_equal, sj.less, sj.less_equal, sj.greater, sj.greater_equal)


def column(values, type_=None):
    return pa.table({"k": pa.array(values, type_), "n": pa.array(range(len(values)), pa.int64())})


def matched(on, left, right, window=100, **options):
    """The pairs (left row, right row), the same whichever side arrives last and by whichever index."""
    found = []
    for index in INDEXES:
        for last in ("left", "right"):
            join = sj.WindowJoin(on, window, index=index, order="full", **options)
            tables = {"left": left, "right": right}
            first = tables.pop("right" if last == "left" else "left")
            join.push(**{"right" if last == "left" else "left": first})
            result = join.push(**tables)
            found.append(sorted(zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)))
            assert join.stats["matches"] == len(found[-1])
            join.check()
    assert all(pairs == found[0] for pairs in found)
    return found[0]


# --- Matching: bands ---


def test_nothing_wraps_and_nothing_saturates():
    keys = column([-128, -120, 0, 120, 127], pa.int8())
    assert matched(sj.band("k", lower=10, upper=20), column([120], pa.int8()), keys) == []
    assert matched(sj.band("k", lower=5, upper=20), column([120], pa.int8()), keys) == [(0, 4)]
    assert matched(sj.band("k", lower=-20, upper=-8), column([-120], pa.int8()), keys) == [(0, 0)]
    unsigned = column([0, 1, 2**64 - 1], pa.uint64())
    assert matched(sj.band("k", within=1), unsigned, unsigned) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    ends = column([-(2**63), 2**63 - 1], pa.int64())
    assert matched(sj.band("k", lower=2**64 - 1, upper=2**64 - 1), ends, ends) == [(0, 1)]
    assert matched(sj.band("k", lower=2**64, upper=2**70), ends, ends) == []
    assert matched(sj.band("k", lower=-(2**70), upper=2**70), ends, ends) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_floats_take_the_sum_form_whichever_side_arrives_last():
    assert 0.4 - 0.1 > 0.3
    assert matched(sj.band("k", within=0.3), column([0.1]), column([0.4])) == [(0, 0)]
    left, right = column([1.0], pa.float32()), column([1.1], pa.float32())
    assert np.float32(1) + np.float32(0.1) == np.float32(1.1)
    assert matched(sj.band("k", lower=0.1, upper=0.1), left, right) == [(0, 0)]
    big = float(np.finfo(np.float64).max)
    assert matched(sj.band("k", lower=big, upper=big), column([big]), column([big, math.inf])) == [(0, 1)]


@pytest.mark.parametrize(
    ("type_", "values", "on"),
    [
        (pa.int16(), range(-3, 4), lambda low, high: sj.band("k", lower=low, upper=high)),
        (
            pa.decimal128(5, 1),
            [Decimal(n).scaleb(-1) for n in range(-3, 4)],
            lambda low, high: sj.band("k", lower=Fraction(low) / 10, upper=Fraction(high) / 10),
        ),
        (
            pa.timestamp("ms"),
            range(-3, 4),
            lambda low, high: sj.band("k", lower=f"{Fraction(low)}ms", upper=f"{Fraction(high)}ms"),
        ),
        (
            pa.duration("s"),
            range(-3, 4),
            lambda low, high: sj.band("k", lower=f"{Fraction(low)}s", upper=f"{Fraction(high)}s"),
        ),
        (
            pa.date32(),
            range(-3, 4),
            lambda low, high: sj.band("k", lower=f"{Fraction(low)}d", upper=f"{Fraction(high)}d"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_fractional_bounds_are_the_whole_ones_inside(type_, values, on):
    left, right = column(list(values)[3:4], type_), column(list(values), type_)
    for low, high in [(-1.5, 2.5), (0.25, 0.75), (-0.5, 0.5), (0.5, 1), (-3, -0.001)]:
        whole = [n for n in range(-3, 4) if math.ceil(low) <= n <= math.floor(high)]
        assert matched(on(low, high), left, right) == [(0, n + 3) for n in whole]


@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf, Decimal("NaN")])
def test_bounds_are_finite(bound):
    for arguments in ({"within": bound}, {"lower": bound, "upper": 1}, {"lower": 0, "upper": bound}):
        with pytest.raises(sj.SpecError, match=f"is {bound}; bounds must be finite"):
            sj.band("k", **arguments)
    with pytest.raises(sj.SpecError, match="must be finite"):
        sj.bands("k", ranges=[(0, 1), (2, bound)])


def test_a_bound_beyond_the_type_of_floats():
    """Refused once both sides are float32; the refused batch leaves its side open for another type."""
    join = sj.WindowJoin(sj.band("k", within=1e39), 10)
    join.push(left=column([1.0], pa.float32()))
    before = join.stats
    with pytest.raises(sj.SpecError, match=r"'k' \(float\).*'k' \(float\).*beyond the range of float32"):
        join.push(right=column([1.0], pa.float32()))
    assert join.stats == before
    assert join.push(right=column([1.0], pa.float64())).num_rows == 1


def test_a_bound_is_judged_by_the_type_of_both_sides():
    """Infinite as float32, but the sides meet in float64: whichever side is known first."""
    on = sj.band("k", lower=0.0, upper=3.4028235677973366e38)
    left, right = column([1.0], pa.float64()), column([1.0], pa.float32())
    assert matched(on, left, right) == matched(on, right, left) == [(0, 0)]


def test_overlapping_ranges_count_once():
    left, right = column([0]), column(list(range(-9, 10)))
    pairs = matched(sj.bands("k", ranges=[(-5, -3), (-4, 0), (-4, -4), (6, 8)]), left, right)
    assert pairs == [(0, n + 9) for n in (-5, -4, -3, -2, -1, 0, 6, 7, 8)]
    halves = sj.bands("k", ranges=[(0.1, 0.5), (0.3, 0.7), (0.7, 0.9)])
    assert matched(halves, column([0.0]), column([n / 10 for n in range(12)])) == [
        (0, n) for n in range(1, 10)
    ]


# --- Matching: null, NaN, infinity, zero ---


@pytest.mark.parametrize("make", COMPARISONS, ids=lambda make: make.__name__)
def test_null_and_nan_never_match(make):
    left, right = column([None, math.nan, 1.0, math.inf]), column([math.nan, None, 1.0, -math.inf])
    pairs = matched(make("k"), left, right)
    assert all(a in (2, 3) and b in (2, 3) for a, b in pairs)
    join = sj.WindowJoin(make("k"), 10)
    join.push(left=left)
    join.push(right=right)
    assert (join.stats["null_left"], join.stats["null_right"]) == (2, 2)
    assert (join.stats["stored_left"], join.stats["rows_left"]) == (2, 4)


def test_a_null_in_any_part_of_a_conjunction():
    rows = pa.table({"a": [1, None, 1, 1], "b": ["x", "x", None, "x"], "n": [0, 1, 2, 3]})
    assert matched(sj.equal("a") & sj.equal("b"), rows, rows) == [(0, 0), (0, 3), (3, 0), (3, 3)]
    assert matched(sj.equal("a") & sj.not_equal("b"), rows, rows) == []
    join = sj.WindowJoin(sj.equal("a") & sj.not_equal("b"), 10)
    join.push(left=rows)
    assert (join.stats["null_left"], join.stats["stored_left"]) == (2, 2)


def test_infinities_are_ordinary_and_zeros_are_equal():
    special = column([math.inf, -math.inf, 0.0, -0.0])
    assert matched(sj.equal("k"), special, special) == [(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    assert matched(sj.less("k"), special, special) == [(1, 0), (1, 2), (1, 3), (2, 0), (3, 0)]
    assert matched(sj.not_equal("k"), column([0.0]), special) == [(0, 0), (0, 1)]
    assert matched(sj.band("k", within=1), special, special) == matched(sj.equal("k"), special, special)


# --- Matching: types ---

DAY = date(2024, 3, 1)
NOON = datetime(2024, 3, 1, 12)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([5], pa.int8()), pa.array([5], pa.uint32())),
        (pa.array([5], pa.uint32()), pa.array([5], pa.int64())),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float64())),
        (pa.array([NOON], pa.timestamp("s")), pa.array([NOON], pa.timestamp("ns"))),
        (pa.array([DAY], pa.date32()), pa.array([DAY], pa.date64())),
        (pa.array([90], pa.duration("s")), pa.array([90_000], pa.duration("ms"))),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 1)), pa.array([Decimal("1.5000")], pa.decimal64(9, 4))),
        (pa.array(["ä"], pa.string()), pa.array(["ä"], pa.large_string())),
        (pa.array(["ä"], pa.string_view()), pa.array(["ä"]).dictionary_encode()),
        (pa.array([b"\x00a"], pa.binary()), pa.array([b"\x00a"], pa.binary(2))),
        (pa.array([True]), pa.array([True])),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_compare(left, right):
    tables = [pa.table({"k": array, "n": [0]}) for array in (left, right)]
    assert matched(sj.equal("k"), *tables) == [(0, 0)]
    assert matched(sj.not_equal("k"), *tables) == []
    assert matched(sj.equal("k"), *tables[::-1]) == [(0, 0)]


UTC_NOON = pa.array([NOON], pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([5], pa.int64()), pa.array([5], pa.uint64())),
        (pa.array([5], pa.int8()), pa.array([5], pa.uint64())),
        (pa.array([5], pa.int64()), pa.array([5.0])),
        (pa.array([5], pa.int8()), pa.array([5.0], pa.float32())),
        (pa.array([NOON], pa.timestamp("us")), UTC_NOON),
        (pa.array([DAY]), pa.array([NOON], pa.timestamp("us"))),
        (pa.array([5]), pa.array(["5"])),
        (pa.array(["5"]), pa.array([b"5"])),
        (pa.array([Decimal("1.5")]), pa.array([1.5])),
        (pa.array([Decimal("5")]), pa.array([5])),
        (pa.array([5], pa.duration("s")), pa.array([5])),
        (pa.array([True]), pa.array([1], pa.int8())),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_do_not_compare_are_named_before_the_first_row(left, right):
    tables = pa.table({"a": left}), pa.table({"b": right})
    for pair in (tables, (tables[1].rename_columns(["a"]), tables[0].rename_columns(["b"]))):
        types = [table.schema.types[0] for table in pair]
        says = f"left column 'a' ({types[0]}) and right column 'b' ({types[1]}) cannot be compared"
        for first, second in (("left", "right"), ("right", "left")):
            given = dict(zip(("left", "right"), pair, strict=True))
            for stop in (0, 1):
                join = sj.WindowJoin(sj.equal("a", "b"), 10)
                join.push(**{first: given[first].slice(0, stop)})
                before = join.stats
                with pytest.raises(sj.SchemaError) as raised:
                    join.push(**{second: given[second].slice(0, stop)})
                assert says in str(raised.value)
                assert join.stats == before
                join.check()
                name = "b" if second == "right" else "a"
                good = given[first].rename_columns([name])
                assert join.push(**{second: good}).num_rows == stop
        with pytest.raises(sj.SchemaError, match="cannot be compared"):
            sj.WindowJoin(sj.equal("a", "b"), 10, schemas=(pair[0].schema, pair[1].schema))


@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@pytest.mark.parametrize(
    "on",
    [*(make("a", "b") for make in COMPARISONS[2:]), sj.band("a", "b", within=1)],
    ids=lambda on: on.conjuncts[0].op,
)
def test_text_has_no_order(type_, on):
    join = sj.WindowJoin(on, 10)
    with pytest.raises(sj.SchemaError, match=r"left column 'a' .*no order here; use equal or not_equal"):
        join.push(left=pa.table({"a": pa.array([], type_)}))


@pytest.mark.parametrize("index", INDEXES)
def test_texts_are_verified_where_hashes_collide(index):
    (one, other), (a, b) = ONE_HASH
    texts = [one, other, "b", a, None, b, other]
    left = pa.table({"a": texts, "b": [b, a, "y", a, one, None, "y"], "n": range(7)})
    for same_a in (True, False):
        for same_b in (True, False):
            on = (sj.equal if same_a else sj.not_equal)("a") & (sj.equal if same_b else sj.not_equal)("b")
            join = sj.WindowJoin(on, 10, index=index, order="full")
            join.push(left=left)
            result = join.push(right=left)
            rows = [row for row in left.to_pylist() if row["a"] is not None and row["b"] is not None]
            wanted = [
                (one["n"], other["n"])
                for other in rows
                for one in rows
                if (one["a"] == other["a"]) == same_a and (one["b"] == other["b"]) == same_b
            ]
            assert list(zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)) == wanted
            assert join.stats["matches"] == len(wanted)
            join.check()


def test_a_time_that_overflows_the_finer_unit():
    far = pa.table({"a": pa.array([253402214400], pa.timestamp("s"))})  # year 9999
    fine = pa.table({"b": pa.array([NOON], pa.timestamp("ns"))})
    for first, second in (("left", "right"), ("right", "left")):
        join = sj.WindowJoin(sj.equal("a", "b"), 10)
        given = {"left": far, "right": fine}
        join.push(**{first: given[first]})
        before = join.stats
        with pytest.raises(sj.SchemaError, match=r"left column 'a' .*9999.*row 0"):
            join.push(**{second: given[second]})
        assert join.stats == before
        join.check()


def test_decimals_that_do_not_fit_64_bits():
    join = sj.WindowJoin(sj.equal("a", "b"), 10)
    join.push(left=pa.table({"a": pa.array([Decimal("1.5")], pa.decimal128(38, 2))}))
    before = join.stats
    huge = pa.array([Decimal(1), Decimal(10**18)], pa.decimal128(38, 2))
    with pytest.raises(sj.SchemaError, match=rf"right column 'b' .*{10**18}.* in row 1"):
        join.push(right=pa.table({"b": huge}))
    assert join.stats == before
    assert join.push(right=pa.table({"b": pa.array([Decimal("1.50")], pa.decimal128(38, 2))})).num_rows == 1


# --- Matching: descriptions that make no sense ---


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sj.band("k", lower=3, upper=1), ("lower 3 > upper 1", "swap")),
        (lambda: sj.bands("k", ranges=[(0, 1), (3, 1)]), ("ranges[1]", "lower 3 > upper 1", "swap")),
        (lambda: sj.band("k", within=-2), ("within -2 is negative", "0 or more")),
        (lambda: sj.band("k", within="-2s"), ("within -2s is negative", "0 or more")),
        (lambda: sj.rows(0), ("0 rows", "at least 1")),
        (lambda: sj.WindowJoin(sj.equal("k"), 0), ("0 rows", "at least 1")),
        (lambda: sj.rows(left=5, right=-1), ("-1 rows on the right side", "at least 1")),
        (lambda: sj.within(0, time="ts"), ("within(0)", "above 0")),
        (lambda: sj.within("-5s", time="ts"), ("within('-5s')", "above 0", "'10s'")),
        (lambda: sj.interval(-5, 3, time="ts"), ("before=-5, after=3", "swap")),
        (lambda: sj.interval("1s", "-2s", time="ts"), ("before='1s', after='-2s'", "swap")),
        (lambda: sj.interval(1, 1, time="ts", lateness=-1), ("lateness -1 is negative", "0 or more")),
        (lambda: sj.interval(1, "1s", time="ts"), ("before 1", "'1s'")),
        (lambda: sj.WindowJoin(sj.equal("k"), sj.within(5)), ("time=",)),
        (lambda: sj.WindowJoin("k", 5), ("on='k'", "such as sj.equal('k')")),
    ],
)
def test_a_senseless_description(make, says):
    with pytest.raises(sj.SpecError) as raised:
        make()
    for part in says:
        assert part in str(raised.value)


@pytest.mark.parametrize("amount", [2**63, 2**64 - 1, -(2**63) - 1])
def test_durations_beyond_64_bits_are_a_clear_error_or_exact(amount):
    """Distances of int64 timestamps reach 2**64 - 1; a window says so or counts with them."""
    try:
        window = sj.interval(max(amount, -amount), amount if amount < 0 else 0, time="ts")
        join = sj.WindowJoin(sj.equal("k"), window)
        join.push(left={"k": [1], "ts": [2**63 - 1]})
        found = join.push(right={"k": [1], "ts": [-1]}).num_rows
    except sj.Error:
        return
    assert found == int(-abs(amount) <= -(2**63) <= (amount if amount < 0 else 0))


# --- Failure: a refused batch changes nothing ---

GOOD_LEFT = pa.table({"k": [1, 2, 3], "s": ["a", "b", "c"], "ts": pa.array([10, 11, 12], pa.timestamp("s"))})
GOOD_RIGHT = pa.table({"k": [3, 2, 9], "s": ["c", "b", "c"], "ts": pa.array([12, 13, 14], pa.timestamp("s"))})


def stamps(*seconds, unit="s", zone=None):
    return pa.array(list(seconds), pa.timestamp(unit, zone))


def left_of(**changed):
    columns = {name: GOOD_LEFT[name] for name in GOOD_LEFT.column_names} | changed
    return pa.table({name: part for name, part in columns.items() if part is not None})


WINDOWS = {
    "rows": lambda: sj.rows(4),
    "within": lambda: sj.within("5s", time="ts"),
    "interval": lambda: sj.interval("5s", "5s", time="ts", lateness="2s", late="return"),
}
ANY = tuple(WINDOWS)
TIMED = ("within", "interval")
BAD = {
    "missing key": (ANY, {"left": left_of(k=None)}, sj.SchemaError, ("left", "'k'", "'s', 'ts'")),
    "missing time": (TIMED, {"left": left_of(ts=None)}, sj.SchemaError, ("left", "'ts'", "'k', 's'")),
    "time of another kind": (
        TIMED, {"left": left_of(ts=pa.array([10.5, 11, 12]))}, sj.SchemaError, ("'ts'", "double"),
    ),
    "plain numbers for a window with a unit": (
        TIMED, {"left": left_of(ts=pa.array([20, 21, 22]))}, sj.SchemaError, ("'ts'", "int64"),
    ),
    "two columns of one name": (
        ANY,
        {"left": pa.Table.from_arrays([*GOOD_LEFT.columns, GOOD_LEFT["k"]], [*GOOD_LEFT.column_names, "k"])},
        sj.SchemaError, ("left", "two columns 'k'", "rename"),
    ),
    "no table": (ANY, {"left": [1, 2, 3]}, sj.SchemaError, ("left", "list", "expected")),
    "a number": (ANY, {"left": 5}, sj.SchemaError, ("left", "int", "expected")),
    "columns of odd lengths": (
        ANY, {"left": {"k": [1, 2], "s": ["a"], "ts": [1, 2]}}, sj.SchemaError, ("left",),
    ),
    "no side column": (ANY, {"arrivals": GOOD_LEFT}, sj.SchemaError, ("'side'", "'k', 's', 'ts'")),
    "an unknown side": (
        ANY,
        {"arrivals": left_of(side=pa.array(["left", "middle", "right"]))},
        sj.SchemaError, ("'side'", "'middle'", "row 1", "'left' or 'right'"),
    ),
    "a null side": (
        ANY, {"arrivals": left_of(side=pa.array([0, None, 1]))}, sj.SchemaError, ("'side'", "None", "row 1"),
    ),
    "a side beyond two": (
        ANY, {"arrivals": left_of(side=pa.array([0, 1, 2]))}, sj.SchemaError, ("'side'", "2", "row 2"),
    ),
    "nothing": (ANY, {}, sj.UsageError, ("nothing", "push(left=...)")),
    "two batches": (
        ANY, {"left": GOOD_LEFT, "right": GOOD_RIGHT}, sj.UsageError, ("left and right", "expected push"),
    ),
    "time that decreases": (
        ("within",),
        {"left": left_of(ts=stamps(20, 22, 21))},
        sj.OrderError, ("2", "21", "22"),
    ),
    "time that decreases in arrivals": (
        ("within",),
        {"arrivals": left_of(ts=stamps(20, 22, 21), side=pa.array([1, 0, 1]))},
        sj.OrderError, ("2", "21", "22"),
    ),
}  # fmt: skip
# These contradict the other side, or what it made of this one.
BAD_BESIDE = {
    "key of another kind": (
        ANY, {"left": left_of(k=pa.array(["1", "2", "3"]))}, sj.SchemaError, ("'k'", "string", "int64"),
    ),
    "key of floats": (
        ANY, {"left": left_of(k=pa.array([1.5, 2, 3]))}, sj.SchemaError, ("'k'", "double", "int64"),
    ),
    "time with a zone": (
        TIMED, {"left": left_of(ts=stamps(20, 21, 22, zone="UTC"))}, sj.SchemaError, ("'ts'", "UTC"),
    ),
}  # fmt: skip
# These need a schema that earlier batches fixed.
BAD_LATER = {
    "a new column": (ANY, {"left": left_of(x=GOOD_LEFT["k"])}, sj.SchemaError, ("'x'", "leave it out")),
    "a missing payload": (ANY, {"left": left_of(s=None)}, sj.SchemaError, ("left", "'s'")),
    "payload of another kind": (
        ANY, {"left": left_of(s=pa.array([1, 2, 3]))}, sj.SchemaError, ("left", "'s'", "int64", "string"),
    ),
    "a key that is no whole number": (
        ANY, {"right": GOOD_RIGHT.set_column(0, "k", pa.array([1.0, 2.5, 3.0]))},
        sj.SchemaError, ("right", "'k'", "double", "int64", "2.5"),
    ),
    "time earlier than a row of the other side": (
        ("within",), {"left": left_of(ts=stamps(13, 14, 15))}, sj.OrderError, ("0", "13", "14"),
    ),
    "time beyond the unit": (
        TIMED, {"left": left_of(ts=stamps(20, 21, 2**62, unit="ms"))}, sj.SchemaError, ("left", "'ts'"),
    ),
}  # fmt: skip


def new_join(window, **options):
    return sj.WindowJoin(sj.band("k", within=1) & sj.equal("s"), WINDOWS[window](), order="full", **options)


def go_on(join):
    """What a join gives from here on: results, late rows, counters."""
    later_left = left_of(ts=stamps(15, 16, 17))
    later_right = pa.table({"k": [3, 2, 9], "s": ["c", "b", "c"], "ts": stamps(17, 17, 18)})
    mixed = pa.table(
        {"k": [2, 3, 2, 9], "s": ["b", "c", "b", "c"], "ts": stamps(18, 18, 19, 19), "side": [0, 1, 1, 0]}
    )
    steps = [join.push(left=later_left), join.push(right=later_right), join.push(arrivals=mixed)]
    kept = isinstance(join.spec.window, sj.window.Interval)
    late = [join.take_late(side).to_pylist() for side in ("left", "right") if kept]
    join.check()
    return [(step.schema, step.to_pylist()) for step in steps], late, join.stats


def cases_of(bad):
    return [
        pytest.param(window, *rest, id=f"{name}-{window}")
        for name, (windows, *rest) in bad.items()
        for window in windows
    ]


@pytest.mark.parametrize(("window", "bad", "error", "says"), cases_of(BAD))
def test_a_bad_first_batch_changes_nothing(window, bad, error, says):
    join, twin = new_join(window), new_join(window)
    for _ in range(2):
        with pytest.raises(error) as raised:
            join.push(**bad)
        assert isinstance(raised.value, sj.Error)
    for part in says:
        assert part in str(raised.value)
    assert join.stats == twin.stats
    if window == "interval":
        assert join.take_late("left").num_columns == 0  # the columns are still open
    # Not even the columns are fixed: others may come.
    other = pa.table({"k": pa.array([2], pa.int8()), "s": ["b"], "ts": stamps(10), "x": [[1]]})
    assert join.push(left=other).schema == twin.push(left=other).schema
    assert join.push(right=GOOD_RIGHT).equals(twin.push(right=GOOD_RIGHT))
    assert join.stats == twin.stats


@pytest.mark.parametrize(("window", "bad", "error", "says"), cases_of(BAD | BAD_BESIDE | BAD_LATER))
@pytest.mark.parametrize("index", INDEXES)
def test_a_bad_batch_changes_nothing(window, bad, error, says, index):
    join, twin = new_join(window, index=index), new_join(window, index=index)
    for each in (join, twin):
        each.push(left=GOOD_LEFT)
        assert each.push(right=GOOD_RIGHT).num_rows == 2
    before = join.stats
    with pytest.raises(error) as raised:
        join.push(**bad)
    for part in says:
        assert part in str(raised.value)
    assert join.stats == before
    join.check()
    assert go_on(join) == go_on(twin)


@pytest.mark.parametrize(("window", "bad", "error", "says"), cases_of(BAD | BAD_BESIDE))
def test_a_bad_batch_of_the_second_side_changes_nothing(window, bad, error, says):
    """While the left side's columns are guessed from the right's."""
    join, twin = new_join(window), new_join(window)
    for each in (join, twin):
        each.push(right=GOOD_RIGHT.slice(0, 2))
    before = join.stats
    with pytest.raises(error) as raised:
        join.push(**bad)
    for part in says:
        assert part in str(raised.value)
    assert join.stats == before
    join.check()
    assert go_on(join) == go_on(twin)


def test_arrivals_are_validated_whole():
    """A good side of a bad batch is not used either."""
    join, twin = new_join("rows"), new_join("rows")
    for each in (join, twin):
        each.push(left=GOOD_LEFT)
        each.push(right=GOOD_RIGHT)
    before = join.stats
    bad = pa.table({"k": [2.0, 2.5], "s": ["b", "b"], "ts": stamps(15, 15), "side": ["left", "right"]})
    with pytest.raises(sj.SchemaError, match=r"right column 'k'.*2\.5"):
        join.push(arrivals=bad)
    assert join.stats == before
    assert go_on(join) == go_on(twin)


def test_names_that_clash_are_refused_before_any_row():
    join = sj.WindowJoin(sj.equal("k"), 10)
    join.push(left={"k": [1], "k_right": [2]})
    before = join.stats
    with pytest.raises(sj.SchemaError, match="k_right"):
        join.push(right={"k": [1]})
    assert join.stats == before
    with pytest.raises(sj.SchemaError, match="k_right"):
        join.push(right={"k": pa.array([], pa.int64())})
    renamed = sj.WindowJoin(sj.equal("k"), 10, suffixes=("", "_r"))
    renamed.push(left={"k": [1], "k_right": [2]})
    assert renamed.push(right={"k": [1]}).to_pylist() == [{"k": 1, "k_right": 2, "k_r": 1}]


def test_every_error_is_an_error_of_slidejoin():
    kinds = (sj.SpecError, sj.SchemaError, sj.OrderError, sj.StateError, sj.CapacityError, sj.UsageError)
    assert all(issubclass(kind, sj.Error) for kind in kinds)


def test_an_order_error_names_row_and_times():
    join = new_join("within")
    join.push(left=GOOD_LEFT)
    with pytest.raises(sj.OrderError) as raised:
        join.push(right=pa.table({"k": [1, 1], "s": ["a", "a"], "ts": stamps(13, 12)}))
    for part in ("1", "12", "13"):
        assert part in str(raised.value)
    # equal timestamps are in order, and a null one is not asked
    assert join.push(right=pa.table({"k": [1, 1], "s": ["a", "a"], "ts": stamps(12, None)})).num_rows == 1


def test_advance_refuses_what_is_no_point_in_time():
    join = new_join("interval")
    with pytest.raises(sj.UsageError, match="push a batch first"):
        join.advance(NOON)
    join.push(left=GOOD_LEFT)
    before = join.stats
    bad = (5, "2024-01-01", NOON.replace(tzinfo=UTC), timedelta(seconds=5), None, DAY)
    for point in bad:
        with pytest.raises(sj.SchemaError, match="datetime without a zone"):
            join.advance(point)
    with pytest.raises(sj.UsageError, match="side='middle'; expected 'left' or 'right'"):
        join.advance(NOON, side="middle")
    assert join.stats == before
    for window in ("rows", "within"):
        other = new_join(window)
        other.push(left=GOOD_LEFT)
        with pytest.raises(sj.UsageError, match=r"advance\(\) moves the watermark of an interval"):
            other.advance(NOON)


def test_late_rows_that_are_not_kept():
    for window in (sj.rows(4), sj.within(5, time="ts"), sj.interval(5, 5, time="ts", lateness=0)):
        join = sj.WindowJoin(sj.equal("k"), window)
        with pytest.raises(sj.UsageError, match=r"late rows are not kept.*late='return'"):
            join.take_late("left")


def test_after_the_end():
    join = new_join("interval")
    join.push(left=GOOD_LEFT)
    join.finish()
    for call in (lambda: join.push(left=GOOD_LEFT), lambda: join.advance(NOON), join.finish):
        with pytest.raises(sj.UsageError, match="finished; make a new one"):
            call()
    assert (join.stats["rows_left"], join.stats["stored_left"]) == (3, 0)
    with new_join("rows") as closed:
        closed.push(left=GOOD_LEFT)
    with pytest.raises(sj.UsageError, match="closed; make a new one"):
        closed.push(left=GOOD_LEFT)
    assert (closed.stats["rows_left"], closed.stats["memory_bytes"]) == (3, 0)


def test_the_form_of_push_of_a_self_join():
    join = sj.WindowJoin(sj.equal("k"), 5, self_join=True)
    for bad in ({"left": GOOD_LEFT}, {"arrivals": left_of(side=pa.array([0, 1, 0]))}):
        with pytest.raises(sj.UsageError, match=r"expected push\(batch\)"):
            join.push(**bad)
    with pytest.raises(sj.UsageError, match=r"push got a batch without a side; expected push\(left"):
        new_join("rows").push(GOOD_LEFT)


def test_a_self_join_on_two_columns():
    """(a, b) comes out iff the predicate holds for a as left and b as right: or the join is refused."""
    try:
        join = sj.WindowJoin(sj.equal("boss", "name"), 5, self_join=True, order="full")
        rows = pa.table({"name": [1, 2, 3], "boss": [0, 1, 1]})
        result = join.push(rows)
    except sj.Error:
        return
    pairs = list(zip(result["name"].to_pylist(), result["name_right"].to_pylist(), strict=True))
    assert pairs == [(2, 1), (3, 1)]


# --- Failure: one thread at a time ---


class Meddler:
    """A batch that, while it is read, lets another thread use the join."""

    def __init__(self, table, act):
        self.table = table
        self.act = act
        self.raised = []

    def __arrow_c_stream__(self, requested_schema=None):
        def meddle():
            try:
                self.act()
            except sj.Error as error:
                self.raised.append(error)

        thread = threading.Thread(target=meddle)
        thread.start()
        thread.join()
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "act",
    [
        lambda join: join.push(left=GOOD_LEFT),
        lambda join: join.push(right=GOOD_RIGHT),
        lambda join: join.advance(NOON),
        lambda join: join.finish(),
        lambda join: join.take_late("left"),
        lambda join: join.stats,
        lambda join: join.check(),
        lambda join: join.close(),
    ],
    ids=["push left", "push right", "advance", "finish", "take_late", "stats", "check", "close"],
)
def test_a_second_thread_is_told_so(act):
    join, twin = new_join("interval"), new_join("interval")
    for each in (join, twin):
        each.push(right=GOOD_RIGHT)
    meddler = Meddler(GOOD_LEFT, lambda: act(join))
    assert join.push(left=meddler).equals(twin.push(left=GOOD_LEFT))
    assert [type(error) for error in meddler.raised] == [sj.UsageError]
    assert "in use by another thread" in str(meddler.raised[0])
    assert go_on(join) == go_on(twin)


def test_threads_that_push_at_once_never_race():
    """Each push of several threads is used whole or refused whole."""
    join = sj.WindowJoin(sj.band("k", within=10), 50_000)
    rng = np.random.default_rng(0)
    batch = pa.table({"k": rng.integers(0, 2**40, 2000)})
    counts, refusals = [], set()

    def push(side):
        used = 0
        for _ in range(20):
            try:
                join.push(**{side: batch})
                used += 1
            except sj.UsageError as error:
                refusals.add(str(error))
        counts.append(used)

    threads = [threading.Thread(target=push, args=(side,)) for side in ("left", "right") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert join.stats["rows_left"] + join.stats["rows_right"] == 2000 * sum(counts)
    assert all("in use by another thread" in refusal for refusal in refusals)
    join.check()


# --- Timestamps ---

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BERLIN = ZoneInfo("Europe/Berlin")


def timed(values, type_):
    array = values if isinstance(values, pa.Array) else pa.array(values, type_)
    return pa.table({"k": pa.array([0] * len(array)), "ts": array, "n": range(len(array))})


def by_time(left, right, *, seconds):
    """Pairs within some seconds: by a band on the column, by an interval of event time."""
    key = sj.band("ts", within=f"{seconds}s")
    window = sj.interval(f"{seconds}s", f"{seconds}s", time="ts")
    found = matched(key, left, right)
    assert matched(sj.equal("k"), left, right, window) == found
    return found


@pytest.mark.parametrize("left_unit", UNITS)
@pytest.mark.parametrize("right_unit", UNITS)
def test_units_meet_exactly(left_unit, right_unit):
    left = timed([n * UNITS[left_unit] for n in (-2, 0, 2)], pa.timestamp(left_unit))
    right = timed([n * UNITS[right_unit] for n in (-3, 0, 1)], pa.timestamp(right_unit))
    assert by_time(left, right, seconds=1) == [(0, 0), (1, 1), (1, 2), (2, 2)]
    finest = max((left_unit, right_unit), key=UNITS.__getitem__)
    if finest != "s":  # one tick too far
        off = timed([UNITS[finest] * 3 + 1, UNITS[finest] * 3], pa.timestamp(finest))
        tables = (left, off) if finest == right_unit else (off, right)
        wanted = [(2, 1)] if finest == right_unit else []
        assert by_time(*tables, seconds=1) == wanted


def test_zones_are_instants_over_daylight_saving():
    """In Berlin 2:30 comes twice on the last Sunday of October, and never on that of March."""
    twice = [datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    local = timed([each.astimezone(UTC) for each in twice], pa.timestamp("s", "Europe/Berlin"))
    utc = timed([datetime(2024, 10, 27, 0, 30, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    assert by_time(local, utc, seconds=1) == [(0, 0)]
    assert by_time(local, utc, seconds=3600) == [(0, 0), (1, 0)]
    spring = [datetime(2024, 3, 31, 1, 59, 59, tzinfo=BERLIN), datetime(2024, 3, 31, 3, 0, tzinfo=BERLIN)]
    local = timed([each.astimezone(UTC) for each in spring], pa.timestamp("ms", "Europe/Berlin"))
    tokyo = timed([datetime(2024, 3, 31, 1, 0, tzinfo=UTC)], pa.timestamp("ns", "Asia/Tokyo"))
    assert by_time(local, tokyo, seconds=1) == [(0, 0), (1, 0)]


def test_the_watermark_of_zoned_columns_is_an_instant():
    window = sj.interval("1h", "1h", time="ts", lateness="30m")
    join = sj.WindowJoin(sj.equal("k"), window)
    first = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1).astimezone(UTC)
    join.push(left=timed([first], pa.timestamp("s", "Europe/Berlin")))
    join.push(right=timed([first], pa.timestamp("s", "UTC")))
    assert join.stats["watermark"] == first - timedelta(minutes=30)
    assert join.stats["watermark"].tzinfo is not None
    # The earlier 2:30 of that night is late, by an hour; advance takes any zone.
    join.push(right=timed([first - timedelta(hours=1)], pa.timestamp("s", "UTC")))
    assert join.stats["late_right"] == 1
    join.advance(first.astimezone(ZoneInfo("Asia/Tokyo")))
    assert join.stats["watermark"] == first


@pytest.mark.parametrize("type_", [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns")], ids=str)
def test_before_1970(type_):
    stamps = [datetime(1969, 12, 31, 23, 59, 58), datetime(1970, 1, 1), datetime(1900, 1, 1)]
    table = timed(stamps, type_)
    assert by_time(table, table, seconds=2) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    join = sj.WindowJoin(sj.equal("k"), sj.interval("1s", "1s", time="ts", lateness="0s"))
    join.push(left=timed([stamps[2]], type_))
    join.push(right=timed([stamps[0]], type_))
    assert join.stats["watermark"] == stamps[2]
    join.advance(datetime(1969, 12, 31, 23, 59, 57, 500_000))
    exact = datetime(1969, 12, 31, 23, 59, 57, 500_000)
    whole = datetime(1969, 12, 31, 23, 59, 58)  # of whole seconds the same are before it
    assert join.stats["watermark"] == (whole if type_.unit == "s" else exact)


@pytest.mark.parametrize("unit", UNITS)
def test_ends_of_the_range(unit):
    """The first and the last instants of 64 bits: nothing wraps round."""
    ends = timed(pa.array([-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]).view(pa.timestamp(unit)), None)
    assert by_time(ends, ends, seconds=0) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    near = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    assert by_time(ends, ends, seconds=1) == near
    join = sj.WindowJoin(sj.equal("k"), sj.within("1s", time="ts"))
    join.push(left=ends)
    assert join.stats["stored_left"] == 2
    assert join.push(right=ends.slice(3)).num_rows == 2
    join.check()


def test_integer_times_at_the_ends_with_lateness():
    join = sj.WindowJoin(sj.equal("k"), sj.interval(2, 2, time="ts", lateness=5, late="return"))
    low, high = timed([-(2**63)], pa.int64()), timed([2**63 - 1], pa.int64())
    join.push(left=low)
    assert join.push(right=low).num_rows == 1  # not late: the watermark is below
    join.push(left=high)
    join.push(right=high)
    assert join.stats["watermark"] == 2**63 - 6
    assert (join.stats["stored_left"], join.stats["stored_right"]) == (1, 1)
    join.push(left=timed([2**63 - 7, 2**63 - 6], pa.int64()))
    assert join.take_late("left")["n"].to_pylist() == [0]
    join.advance(2**63 - 1)
    assert (join.stats["stored_left"], join.stats["stored_right"]) == (1, 1)  # what may still meet 2**63 - 1
    join.check()


def test_a_watermark_below_the_first_instant_is_no_instant():
    for type_ in (pa.timestamp("ns"), pa.timestamp("s"), pa.int64()):
        duration = "2s" if type_ != pa.int64() else 2
        join = sj.WindowJoin(sj.equal("k"), sj.interval(duration, duration, time="ts", lateness=duration))
        first = timed(pa.array([-(2**63) + 1]).view(type_), None)
        join.push(left=first)
        assert join.push(right=first).num_rows == 1
        watermark = join.stats["watermark"]
        assert not (isinstance(watermark, np.datetime64) and np.isnat(watermark))


def test_watermarks_do_not_depend_on_which_side_is_known_first():
    """A promise keeps its fractions of a second also while only a side of whole seconds is known."""
    stats = []
    for known in (False, True):
        join = sj.WindowJoin(sj.equal("k"), sj.interval("5s", "5s", time="ts"))
        join.push(left=timed([2], pa.timestamp("s")))
        right = timed([1200], pa.timestamp("ms"))
        if known:
            join.push(right=right.slice(0, 0))
        join.advance(datetime(1970, 1, 1, 0, 0, 1, 500_000))
        join.push(right=right)
        stats.append({**join.stats, "memory_bytes": 0})
    assert stats[0] == stats[1]
    assert stats[0]["late_right"] == 1


def test_promises_beyond_datetime():
    """The year 9000000 has no datetime; the other side's finer unit comes later."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval("5s", "5s", time="ts"))
    join.push(left=timed([2], pa.timestamp("s", "UTC")))
    join.advance(pa.scalar(2**48, pa.timestamp("s", "UTC")))
    join.push(right=timed([1200], pa.timestamp("ms", "UTC")))
    assert join.stats["late_right"] == 1
