"""The router: each matching pair meets in one group, groups are even, copies few, and the same for ever."""

import itertools
import json
import math
import pathlib
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cases import bounds_of, keys_of
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import predicate, reference
from slidejoin.join_type import JOIN_TYPES
from slidejoin.keys import bind
from slidejoin.predicate import band, bands, equal, less, not_equal
from slidejoin.spark.route import MAX_GROUPS, Routing, group_ids, spark_hash
from slidejoin.spec import KEY_TYPES, join_spec
from slidejoin.window import interval

ROUTED = tuple(how for how in JOIN_TYPES if how != "full")


def routing(on, left, right=None, how="inner", groups=8, window=100):
    right = left if right is None else right
    return Routing(bind(join_spec(on, window), left.schema, right.schema), how, groups)


def matrix(routed, rows, groups):
    """Whether a row is in a group; also checks the form of what was routed."""
    assert routed.rows.dtype == np.int64
    assert routed.groups.dtype == np.int32
    assert len(routed.rows) == len(routed.groups)
    order = list(zip(routed.groups.tolist(), routed.rows.tolist(), strict=True))
    assert order == sorted(set(order)), "by group, then by row, no copy twice in a group"
    found = np.zeros((rows, groups), np.bool_)
    found[routed.rows, routed.groups] = True
    assert (found.sum(axis=1) >= 1).all()
    return found


def check(way, left, right, matches, lost=None):
    """Each pair of the matrix ``matches`` meets in one group; rows that are lost are in group 0 alone."""
    found = [
        matrix(way.route(table, side), len(table), way.groups) for side, table in enumerate((left, right))
    ]
    assert (found[way.home].sum(axis=1) == 1).all()
    if way.kind == "hash":
        assert (found[1 - way.home].sum(axis=1) == 1).all()
    meetings = found[0].astype(np.int64) @ found[1].T.astype(np.int64)
    wrong = np.argwhere(matches & (meetings != 1))
    assert not len(wrong), (wrong[:3], way.describe())
    for side in (0, 1) if lost is not None else ():
        assert found[side][lost[side], 0].all()
        assert (found[side][lost[side]].sum(axis=1) == 1).all()
    return found


# --- Everything that can be joined, against brute force ---


@dataclass
class Condition:
    """A conjunct with its columns, as ours and as the reference has it."""

    on: sj.predicate.Predicate
    matches: reference.Predicate
    type: pa.DataType
    left: list[Any]
    right: list[Any]

    def column(self, side):
        values = (self.left, self.right)[side]
        if pa.types.is_decimal(self.type):
            values = [None if value is None else Decimal(value).scaleb(-2) for value in values]
        elif pa.types.is_timestamp(self.type) or pa.types.is_duration(self.type):
            return pa.array(values, pa.int64()).cast(self.type)
        return pa.array(values, self.type)


EXACT = {"decimal": pa.decimal128(18, 2), "timestamp": pa.timestamp("us"), "duration": pa.duration("ms")}
ORDERED = (*KEY_TYPES, *EXACT, *["float64", "float32"] * 3)  # floats have the most to go wrong
SIZES = st.sampled_from([0, 1, 3, 12, 12])


def rounded(value, key):
    """A number as a key of a type, or None if it is none."""
    if key.startswith("float"):
        return float(np.dtype(key).type(value)) if key == "float64" else reference.to_float32(value)
    limits = np.iinfo("int64" if key in EXACT else key)
    least, most = (int(limits.min), int(limits.max)) if key != "decimal" else (-(10**18) + 1, 10**18 - 1)
    return math.floor(value) if least <= value <= most else None


def neighbours(value, key):
    if key.startswith("float"):
        dtype = np.dtype(key).type
        with np.errstate(over="ignore"):
            return [float(np.nextafter(dtype(value), dtype(to))) for to in (-math.inf, math.inf)]
    return [value - 1, value + 1]


def plain_keys(key):
    if key == "decimal":
        ends = [10**18 - 1, 1 - 10**18]
        return st.one_of(st.integers(-8, 8), st.sampled_from(ends), st.integers(-(10**17), 10**17))
    return keys_of("int64" if key in EXACT else key)


@st.composite
def conditions(draw, name, left_rows, right_rows, ops=("equal", "band", "bands", "other")):
    op = draw(st.sampled_from(ops))
    if op in ("equal", "other") and draw(st.booleans()):
        type_ = draw(st.sampled_from([pa.string(), pa.dictionary(pa.int8(), pa.large_string()), pa.binary()]))
        values = st.sampled_from([b"", b"a", b"bc"] if type_ == pa.binary() else ["", "a", "bc"])
        op = "equal" if op == "equal" else "not_equal"
        on, matches, key = getattr(predicate, op)(name), getattr(reference, op)(), None
        ends = []
    else:
        key = draw(st.sampled_from(ORDERED))
        type_ = EXACT[key] if key in EXACT else pa.from_numpy_dtype(key)
        values = plain_keys(key)
        if key.startswith("float"):
            values = st.sampled_from([math.nan, -0.0, math.inf]) | values
        on, matches, ends = _ordered(draw, name, op, key)
    left = draw(st.lists(st.none() | values, min_size=left_rows, max_size=left_rows))
    right = draw(st.lists(st.none() | values, min_size=right_rows, max_size=right_rows))
    if key is not None:
        left = [None if value is None else rounded(value, key) for value in left]
        right = [None if value is None else rounded(value, key) for value in right]
        for place in range(right_rows):  # partners at the ends of bands and just beyond
            if left and draw(st.booleans()):
                base = draw(st.sampled_from(left))
                if base is None or (isinstance(base, float) and math.isnan(base)):
                    continue
                end = draw(st.sampled_from(ends))
                reached = rounded(base + end, key)
                if reached is None:
                    continue
                near = [reached, reached, *neighbours(reached, key)]
                right[place] = rounded(draw(st.sampled_from(near)), key)
    return Condition(on, matches, type_, left, right)


def _ordered(draw, name, op, key):
    """A predicate on an ordered type, the reference's, and the distances at which it begins and ends."""
    kind = key if key.startswith("float") else "int"
    if op in ("equal", "other"):
        op = op if op == "equal" else draw(st.sampled_from(predicate.COMPARISONS[1:]))
        return getattr(predicate, op)(name), getattr(reference, op)(), [0]
    pair = bounds_of(key if key not in EXACT else "int32")
    if key in EXACT:
        pair = pair.map(lambda bounds: [math.floor(bound) for bound in bounds])
    ranges = draw(st.lists(pair.map(tuple), min_size=1, max_size=1 if op == "band" else 3))
    unit = {"timestamp": "us", "duration": "ms"}.get(key)

    def given_bound(bound):
        return f"{bound}{unit}" if unit else Decimal(bound).scaleb(-2) if key == "decimal" else bound

    ours = [(given_bound(lower), given_bound(upper)) for lower, upper in ranges]
    on = bands(name, ranges=ours) if op == "bands" else band(name, lower=ours[0][0], upper=ours[0][1])
    whole = math.floor if kind == "int" else float
    return on, reference.bands(ranges, kind), [whole(bound) for pair in ranges for bound in pair]


@st.composite
def joins(draw, **options):
    left_rows, right_rows = draw(SIZES), draw(SIZES)
    parts = [
        draw(conditions(f"c{i}", left_rows, right_rows, **options)) for i in range(draw(st.integers(1, 3)))
    ]
    window = 100
    times = [None, None]
    if draw(st.booleans()):
        window = sj.interval("1s", "1s", time="time", lateness="1s")
        stamp = st.none() | st.integers(0, 3)
        times = [draw(st.lists(stamp, min_size=n, max_size=n)) for n in (left_rows, right_rows)]
    tables = []
    for side, time in enumerate(times):
        columns = {f"c{i}": part.column(side) for i, part in enumerate(parts)}
        if time is not None:
            columns["time"] = pa.array(time, pa.timestamp("ms"))
        tables.append(pa.table(columns))
    on = parts[0].on
    for part in parts[1:]:
        on = on & part.on
    how, groups = draw(st.sampled_from(ROUTED)), draw(st.integers(1, 16))
    return parts, times, tables, routing(on, *tables, how=how, groups=groups, window=window)


def expected(parts, times):
    """Which pairs the reference matches, and which rows of each side never match."""
    holds = reference.all_of(*(part.matches for part in parts))
    keys = [list(zip(*((part.left, part.right)[side] for part in parts), strict=True)) for side in (0, 1)]
    lost = []
    for side in (0, 1):
        undated = [False] * len(keys[side]) if times[side] is None else [time is None for time in times[side]]
        lost.append(
            np.array(
                [reference.never_matches(k) or u for k, u in zip(keys[side], undated, strict=True)], bool
            )
        )
    matches = np.array(
        [
            [not lost[0][i] and not lost[1][j] and holds(left, right) for j, right in enumerate(keys[1])]
            for i, left in enumerate(keys[0])
        ],
        bool,
    ).reshape(len(keys[0]), len(keys[1]))
    return matches, lost


@given(joins())
def test_each_pair_meets_in_one_group(case):
    parts, times, tables, way = case
    check(way, *tables, *expected(parts, times))


@given(joins(ops=("band", "bands")))
def test_each_pair_of_bands_meets_in_one_group(case):
    parts, times, tables, way = case
    check(way, *tables, *expected(parts, times))


@given(joins(), st.integers(0, 12))
def test_batches_and_json_change_nothing(case, cut):
    _, _, tables, way = case
    text = json.dumps(way.to_json())
    again = Routing.from_json(json.loads(text))
    assert (again.bound, again.how, again.groups) == (way.bound, way.how, way.groups)
    assert (again.home, again.kind, again.describe()) == (way.home, way.kind, way.describe())
    assert json.dumps(again.to_json()) == text
    for side, table in enumerate(tables):
        cut = min(cut, len(table))
        whole = matrix(way.route(table, side), len(table), way.groups)
        for start, part in ((0, table.slice(0, cut)), (cut, table.slice(cut))):
            found = matrix(again.route(part, side), len(part), way.groups)
            assert (found == whole[start : start + len(part)]).all()


# --- The ends of the types ---


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("key", ["int8", "uint8"])
def test_all_pairs_of_bytes(key, how):
    limits = np.iinfo(key)
    values = np.arange(limits.min, limits.max + 1)
    table = pa.table({"a": values.astype(key)})
    difference = values[None, :] - values[:, None]
    ends = [-(2**70), -256, -255, -128, -1, 0, 1, 2, 100, 127, 255, 2**70]
    for lower, upper in itertools.combinations_with_replacement(ends, 2):
        way = routing(band("a", lower=lower, upper=upper), table, how=how, groups=7)
        check(way, table, table, (lower <= difference) & (difference <= upper))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("key", ["int64", "uint64", "int32", "uint32"])
def test_the_ends_of_wide_integers(key, how):
    limits = np.iinfo(key)
    bits = limits.bits
    middle = (int(limits.min) + int(limits.max)) // 2
    near = [int(limits.min) + i for i in range(4)] + [int(limits.max) - i for i in range(4)]
    values = near + [middle + i for i in range(-3, 4)] + [middle + 2**i for i in range(3, bits - 1, 3)]
    table = pa.table({"a": np.array(values, key)})
    whole = 2**bits
    sizes = [
        0,
        1,
        2,
        3,
        7,
        2 ** (bits // 2),
        whole // 2 - 1,
        whole // 2,
        whole - 2,
        whole - 1,
        whole,
        whole + 5,
    ]
    ends = sorted({sign * size for size in sizes for sign in (-1, 1)})
    for lower, upper in itertools.combinations_with_replacement(ends, 2):
        way = routing(band("a", lower=lower, upper=upper), table, how=how, groups=7)
        matches = [[lower <= right - left <= upper for right in values] for left in values]
        check(way, table, table, np.array(matches))


FLOATS = {
    "float64": [5e-324, 2e-323, 2.3e-308, 1e-200, 1e-17, 1e-16, 0.1, 0.3, 1.0, 3.0, 1e16, 1e200, 1.7e308],
    "float32": [1e-45, 3e-45, 1.2e-38, 1e-30, 1e-9, 6e-8, 0.1, 0.3, 1.0, 3.0, 1.7e7, 1e30, 3.4e38],
}


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("key", FLOATS)
def test_floats_at_the_edges(key, how):
    """Sums that round, cancel, vanish and overflow; partners at and beside the ends of bands and cells."""
    dtype = np.dtype(key).type
    inf = dtype(math.inf)
    signed = [sign * value for value in FLOATS[key] for sign in (-1, 1)] + [0.0]
    plain = np.array([*signed, -0.0, math.inf, -math.inf, np.finfo(dtype).max], dtype)
    table = pa.table({"a": plain})

    def around(values):
        values = values[~np.isnan(values)]
        return np.concatenate([values, np.nextafter(values, -inf), np.nextafter(values, inf)])

    bounds = sorted({float(dtype(value)) for value in [*signed, 1 + np.finfo(dtype).eps]})
    with np.errstate(over="ignore", invalid="ignore"):
        for lower, upper in itertools.combinations_with_replacement(bounds, 2):
            way = routing(band("a", lower=lower, upper=upper), table, how=how, groups=16)
            width = re.search(r"cells 2\*\*(-?\d+)", way.describe())
            borders = (np.arange(-2, 3) - 0.382) * (2.0 ** int(width[1]) if width else 1.0)
            base = np.concatenate([plain, around(borders.astype(dtype))])
            ends = np.array([lower, upper], dtype)
            left = np.unique(np.concatenate([base, around((base[:, None] - ends).ravel())]))
            right = np.unique(np.concatenate([base, around((base[:, None] + ends).ravel())]))
            matches = (left[:, None] + ends[0] <= right) & (right <= left[:, None] + ends[1])
            check(way, pa.table({"a": left}), pa.table({"a": right}), matches)


@pytest.mark.parametrize("key", FLOATS)
def test_left_keys_that_lose_digits_beside_the_bound(key):
    """1e-17 + 1 is 1: the partners of a right key are further from it than the floats next to right - 1."""
    eps = float(np.finfo(key).eps)
    left = pa.table({"a": (np.arange(-10_000, 10_000) * (eps / 100)).astype(key)})
    right = pa.table({"a": (1 + np.arange(-100, 100) * eps).astype(key)})
    ends = np.array([1, 1 + eps], key)
    sums = left["a"].to_numpy()[:, None] + ends
    partners = right["a"].to_numpy()
    matches = (sums[:, :1] <= partners) & (partners <= sums[:, 1:])
    assert matches.sum() > len(left)
    on = band("a", lower=float(ends[0]), upper=float(ends[1]))
    check(routing(on, left, right, how="left", groups=64), left, right, matches)


def test_zero_is_one_value():
    left, right = pa.table({"a": [0.0, -0.0]}), pa.table({"a": [-0.0, 0.0]})
    for on in (equal("a"), band("a", within=0), band("a", within=1e-300)):
        for how in ("inner", "left"):
            check(routing(on, left, right, how=how, groups=64), left, right, np.ones((2, 2), bool))


def test_far_floats_are_cells_of_their_own():
    """Where floats are further apart than cells, a row goes to its neighbours, not everywhere."""
    values = 1e17 * (1 + np.arange(1000) / 1000)
    table = pa.table({"a": values, "b": values.astype(np.float32)})
    for on in (band("a", within=1e-3), band("b", within=1e-3)):
        for how in ("inner", "left"):
            routed = [routing(on, table, how=how, groups=64).route(table, side) for side in (0, 1)]
            assert max(len(each.rows) for each in routed) <= 3 * len(table)
            assert all(len(np.unique(each.groups)) > 32 for each in routed)


def test_a_reach_of_many_cells_goes_everywhere():
    table = pa.table({"a": np.arange(-5, 5) * 10**9})
    way = routing(bands("a", ranges=[(0, 0), (10, 10), (10**12, 10**12 + 10**6)]), table, groups=4)
    check(way, table, table, np.eye(10, dtype=bool))
    # Two ranges of a billion, a trillion apart, in cells of some 500 billion: more than three cells.
    wide = routing(bands("a", ranges=[(0, 10**9), (10**15, 10**15 + 10**9)]), table, groups=2)
    check(wide, table, table, (table["a"].to_numpy()[None, :] - table["a"].to_numpy()[:, None]) == 10**9)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(
    "on", [equal("i"), equal("s"), equal("f") & equal("s"), band("f", within=0)], ids=str
)
def test_equalities_with_a_band(on, how):
    """Pairs on both sides of the borders of cells, which are not the same for all keys."""
    rng = np.random.default_rng(4)
    number = rng.integers(0, 3, 1500)
    a = rng.integers(-(10**4), 10**4, 1500)
    table = pa.table({"i": number, "s": number.astype(str), "f": number / 10, "a": a})
    matches = (number[:, None] == number) & (np.abs(a[:, None] - a) <= 5)
    check(routing(on & band("a", within=5), table, how=how, groups=16), table, table, matches)
    spread = routing(on & band("a", within=5), table, how=how).route(table, 0)
    assert shares(spread) < 1.5


# --- Kinds ---


ROWS = pa.table({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "c": ["x", "y", "z"]})


@pytest.mark.parametrize(
    ("on", "kind"),
    [
        (band("a", within=1), "cells"),
        (bands("b", ranges=[(-1, 1), (5, 6)]), "cells"),
        (band("a", within=1) & less("b"), "cells"),
        (band("a", within=0), "hash"),
        (band("b", lower=2, upper=2), "hash"),
        (band("a", lower=0.25, upper=0.5), "hash"),
        (equal("c") & equal("a"), "hash"),
        (equal("c") & less("a"), "hash"),
        (less("b") & equal("c") & band("a", within=1), "hash+cells"),
        (band("b", within=1) & band("a", within=0), "hash+cells"),
        (less("a"), "broadcast"),
        (not_equal("c") & less("a"), "broadcast"),
    ],
    ids=str,
)
def test_kinds(on, kind):
    assert routing(on, ROWS).kind == kind


@pytest.mark.parametrize("how", ROUTED)
def test_homes(how):
    assert routing(equal("a"), ROWS, how=how).home == (0 if how.startswith("left") else 1)


def test_descriptions():
    assert routing(equal("c") & band("a", within=4), ROWS).describe() == (
        "hash of equal('c', 'c') with cells 2**8 wide of band('a', 'a') in 8 groups; "
        "right rows at home, left rows copied to their reach"
    )
    assert routing(equal("a"), ROWS).describe() == "hash of equal('a', 'a') in 8 groups; nothing is copied"
    assert routing(less("a"), ROWS, how="left").describe() == (
        "left rows dealt to 8 groups, right rows copied to all of them"
    )


@pytest.mark.parametrize(
    "on",
    [band("f", within=1), band("f", within=0), equal("f"), equal("s") & band("f", within=1), less("f"),
     equal("s"), not_equal("s"), band("t", within="1s"), less("t") & equal("f")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("how", ROUTED)
def test_what_matches_nothing_goes_to_group_0(on, how):
    """A null or NaN in any key, a null timestamp: one copy, whichever side."""
    table = pa.table({
        "f": pa.array([1.0, None, math.nan, -math.nan, 5.0, 6.0, 7.0]),
        "s": pa.array(["a", "b", "c", "d", None, "e", "f"]),
        "t": pa.array([1, 2, 3, 4, 5, None, 7], pa.timestamp("s")),
    })  # fmt: skip
    whole = on & predicate.less_equal("f") & not_equal("s")
    window = sj.interval("1s", "1s", time="t", lateness="1s")
    way = routing(whole, table, how=how, groups=1000, window=window)
    for side in (0, 1):
        found = matrix(way.route(table, side), 7, 1000)
        assert (found[1:6].sum(axis=1) == 1).all()
        assert found[1:6, 0].all()
        assert not found[0, 0] or (way.kind == "broadcast" and side != way.home)


def test_broadcast_deals_by_key_and_time():
    times = [1, 2, 3, 4, None] * 1000
    table = pa.table({"a": pa.array([5, 5, None, 5, 5] * 1000), "ts": pa.array(times, pa.int64())})
    way = routing(less("a"), table, groups=3, window=interval(1, 1, time="ts"))
    right = way.route(table, 1)
    assert len(right.rows) == len(table)
    groups = np.empty(len(table), int)
    groups[right.rows] = right.groups
    assert len(set(groups.reshape(-1, 5)[:, 0])) == 1  # one key at one time has one home
    assert not groups.reshape(-1, 5)[:, [2, 4]].any()
    left = way.route(table, 0)
    assert Counter(left.groups.tolist()) == {0: 5000, 1: 3000, 2: 3000}
    assert (way.first_groups(table, 0) == 0).all()
    assert (way.first_groups(table, 1) == groups).all()


def test_broadcast_deals_evenly():
    table = pa.table({"a": pa.array([5] * N), "ts": pa.array(range(N), pa.int64())})
    assert shares(routing(less("a"), table, window=interval(1, 1, time="ts")).route(table, 1)) < 1.5


@pytest.mark.parametrize("on", [band("a", within=1), equal("c"), less("b")], ids=str)
def test_one_group_and_no_rows(on):
    one = routing(on, ROWS, groups=1).route(ROWS, 0)
    assert (one.rows.tolist(), one.groups.tolist()) == ([0, 1, 2], [0, 0, 0])
    for side in (0, 1):
        none = routing(on, ROWS).route(ROWS.slice(0, 0), side)
        assert (len(none.rows), len(none.groups)) == (0, 0)


@pytest.mark.parametrize(
    ("how", "groups", "message"),
    [
        ("full", 8, "route a left join and a right one"),
        ("outer", 8, "how='outer'; expected one of inner, left"),
        ("inner", 0, "groups=0; expected a number from 1"),
        ("inner", True, "groups=True; expected a number"),
        ("inner", 2.0, "groups=2.0; expected a number"),
        ("inner", MAX_GROUPS + 1, "expected a number from 1 to 65536"),
    ],
)
def test_what_is_refused(how, groups, message):
    with pytest.raises(sj.SpecError, match=message):
        routing(equal("a"), ROWS, how=how, groups=groups)


def test_a_self_join_is_refused():
    bound = bind(join_spec(equal("a"), 10, self_join=True), ROWS.schema, ROWS.schema)
    with pytest.raises(sj.SpecError, match="a self-join has one stream"):
        Routing(bound, "inner", 4)


@pytest.mark.parametrize("lost", ["types", "keys", "time", "spec", "how", "groups"])
def test_broken_json_is_refused(lost):
    data = routing(equal("a"), ROWS).to_json()
    for wrong in ({k: v for k, v in data.items() if k != lost}, data | {lost: "no"}):
        with pytest.raises(sj.SpecError):
            Routing.from_json(wrong)


# --- Balance and copies ---


N = 100_000


def shares(routed, groups=8):
    counts = np.bincount(routed.groups, minlength=groups)
    return counts.max() / counts.mean()


def smooth(shape, rng):
    return {
        "uniform": lambda: rng.random(N) * 1e6,
        "normal": lambda: rng.normal(0, 1e5, N),
        "exponential": lambda: rng.exponential(1e5, N),
        "two hills": lambda: np.where(rng.random(N) < 0.3, rng.normal(-4e6, 1e5, N), rng.normal(5e6, 3e5, N)),
        "rising": lambda: np.arange(N) * 10.0,
        "every tenth": lambda: rng.integers(0, 10**5, N) * 10.0,
        "powers": lambda: rng.integers(0, 2**10, N) * 2.0**14,
    }[shape]()


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("key", ["int64", "float64", "int32", "float32"])
@pytest.mark.parametrize(
    "shape", ["uniform", "normal", "exponential", "two hills", "rising", "every tenth", "powers"]
)
def test_smooth_keys_are_even_and_rarely_copied(shape, key, how):
    table = pa.table({"a": smooth(shape, np.random.default_rng(1)).astype(key)})
    for on in (band("a", within=10), band("a", lower=0, upper=25), bands("a", ranges=[(0, 0), (10, 60)])):
        way = routing(on, table, how=how)
        for side in (0, 1):
            routed = way.route(table, side)
            assert shares(routed) < 1.5, (on, side)
            assert len(routed.rows) < 1.1 * N, (on, side)
        assert len(way.route(table, way.home).rows) == N


@pytest.mark.parametrize("groups", [2, 3, 8, 16])
def test_drifting_keys_are_even_at_every_moment(groups):
    rng = np.random.default_rng(2)
    for step in range(40):
        keys = rng.normal(step * 3e4, 1e5, 20_000)
        for values in (keys, keys.astype(np.int64) * 1000 + 2**60):
            table = pa.table({"a": values})
            way = routing(band("a", within=float(10 if values is keys else 10_000)), table, groups=groups)
            assert max(shares(way.route(table, side), groups) for side in (0, 1)) < 1.5


def test_neighbouring_cells_are_dealt_evenly():
    """A window that spans only a few cells per group uses all groups, too."""
    for first in range(-1000, 1000, 37):
        for cells in (32, 64):
            table = pa.table({"a": (first + np.arange(cells)) * 512})
            assert shares(routing(band("a", within=5), table).route(table, 1)) <= (2 if cells == 32 else 1.75)


def test_a_hot_key_spreads_by_its_band():
    rng = np.random.default_rng(3)
    table = pa.table({"s": pa.array(["hot"] * N), "a": rng.random(N) * 1e5})
    way = routing(equal("s") & band("a", within=1.0), table)
    for side in (0, 1):
        routed = way.route(table, side)
        assert shares(routed) < 1.5
        assert len(routed.rows) < 1.1 * N
    assert len(np.unique(routing(equal("s"), table).route(table, 0).groups)) == 1


@pytest.mark.parametrize("groups", [8, 300])
def test_equal_keys_are_even(groups):
    numbers = np.arange(N)
    table = pa.table(
        {"i": numbers, "s": numbers.astype(str), "f": numbers / 7, "j": numbers % 10, "one": numbers * 0}
    )
    for on in (
        equal("i"),
        equal("s"),
        equal("f"),
        equal("one") & equal("i"),
        equal("j") & equal("i"),
        equal("s") & equal("f"),
    ):
        assert shares(routing(on, table, groups=groups).route(table, 0), groups) < 1.5


# --- For ever: the state of running queries is spread by these values ---


def homes(on, values, type_=None, groups=1000):
    table = pa.table({"a": pa.array(values, type_)})
    routed = routing(on, table, groups=groups).route(table, 1)
    return routed.groups[np.argsort(routed.rows)].tolist()


def test_groups_are_what_they_always_were():
    assert homes(equal("a"), [0, 1, -1, 2**62]) == [507, 543, 7, 271]
    assert homes(equal("a"), [1, 2], pa.uint8()) == [543, 834]
    assert homes(equal("a"), [0.0, -0.0, 0.1, math.inf]) == [507, 507, 601, 916]
    assert homes(equal("a"), ["", "a", "slidejoin"]) == [452, 606, 384]
    assert homes(band("a", within=5), [0, 511, 512, -1, 2**62]) == [819, 437, 437, 819, 430]
    assert homes(band("a", within=0.5), [0.0, 31.9, 32.0, -1.0, 1e300, math.inf]) == [
        819,
        437,
        437,
        819,
        678,
        953,
    ]


def test_spark_hash():
    """Values of Spark's own hash()."""
    numbers = (0, 1, 2, 3, 42, 1000, 123456789, 2**31 - 1)
    expected = [933211791, -559580957, 1765031574, -1823081949, 29417773, -14577491, -598405280, 133916647]
    assert [spark_hash(number) for number in numbers] == expected


@pytest.mark.parametrize(
    ("groups", "partitions"), [(1, 1), (8, 8), (8, 3), (3, 8), (64, 20), (200, 200), (1000, 7)]
)
def test_group_ids_spread_evenly(groups, partitions):
    ids = group_ids(groups, partitions)
    assert len(set(ids)) == groups
    assert all(0 <= each < 2**31 for each in ids)
    assert [spark_hash(each) % partitions for each in ids] == [i % partitions for i in range(groups)]


def test_group_ids_of_nothing():
    with pytest.raises(sj.SpecError, match="0 groups in 8 partitions"):
        group_ids(0, 8)


def test_spark_agrees(spark):
    from pyspark.sql import functions as F  # noqa: N812

    ids = group_ids(12, 5)
    rows = spark.sql(f"select id from values {','.join(f'({each})' for each in ids)} as t(id)")
    rows = rows.repartition(5, "id").select("id", F.hash("id"), F.spark_partition_id())
    found = {number: (hashed, place) for number, hashed, place in rows.collect()}
    assert found == {number: (spark_hash(number), i % 5) for i, number in enumerate(ids)}


@pytest.mark.parametrize("name", ["blobs", "cache", "kept", "output", "recipe", "route"])
def test_what_does_without_spark(name):
    text = (pathlib.Path(sj.__file__).parent / "spark" / f"{name}.py").read_text()
    assert "pyspark" not in text
