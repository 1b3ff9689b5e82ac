"""Partitions by SQL: each matching pair meets once, for every type and condition, at every number of them."""

import itertools
import math
import pickle
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import predicate, reference
from slidejoin.join_type import JOIN_TYPES
from slidejoin.keys import bind
from slidejoin.predicate import band, bands, equal, less, not_equal
from slidejoin.spec import join_spec
from slidejoin.window import interval

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812
from spark.streams import arrow, frame_of

from slidejoin.spark.partition import Partitioning

COUNT = 1009  # so many partitions that rows rarely meet by chance
ALL = frozenset(range(COUNT))
HOMES = {"inner": 1, "left": 0}


@dataclass
class Part:
    """A condition on one column of each side: ours without a name, the reference's, the columns.

    Values are whole numbers for all exact types; those of decimals are in the finer unit of both sides.
    """

    make: Any
    matches: reference.Predicate
    types: tuple[pa.DataType, pa.DataType]
    values: tuple[list[Any], list[Any]]

    def column(self, side, rows):
        type_, values = self.types[side], self.values[side]
        values = values + [None] * (rows - len(values))
        if pa.types.is_decimal(type_):
            scale = max(each.scale for each in self.types)
            return pa.array([None if v is None else Decimal(v).scaleb(-scale) for v in values], type_)
        if pa.types.is_date(type_):
            return pa.array(values, pa.int32()).cast(type_)
        if pa.types.is_temporal(type_):
            return pa.array(values, pa.int64()).cast(type_)
        return pa.array(values, type_)


@dataclass
class Case:
    """A join by its conditions; some rows have no time if ``timed``."""

    parts: list[Part]
    timed: bool = False
    kind: str | None = None
    ways: dict[str, Any] = field(default_factory=dict)


def quoted(name):
    return F.col("`" + name.replace("`", "``") + "`")


def check(spark, cases):
    """Hash the rows of all cases side by side, and compare with brute force."""
    rows = max(len(each) for case in cases for part in case.parts for each in part.values)
    times = [None if row % 7 == 3 else row for row in range(rows)]
    tables = []
    for side in (0, 1):
        columns = {"a time": pa.array(times, pa.int64())}
        for number, case in enumerate(cases):
            for place, part in enumerate(case.parts):
                columns[f"k.`{number} {place}"] = part.column(side, rows)
        tables.append(pa.table(columns))
    for number, case in enumerate(cases):
        on = case.parts[0].make(f"k.`{number} 0")
        for place, part in enumerate(case.parts[1:], 1):
            on = on & part.make(f"k.`{number} {place}")
        window = interval(5, 5, time="a time", lateness=5) if case.timed else 100
        case.ways = {how: partitioning(on, *tables, how, window) for how in HOMES}
        assert case.kind in (None, case.ways["inner"].kind), case.ways["inner"].describe()
    found = [hashed(spark, table, side, cases) for side, table in enumerate(tables)]
    for number, case in enumerate(cases):
        verify(case, number, found, times if case.timed else None)


def partitioning(on, left, right, how="inner", window=100):
    return Partitioning(bind(join_spec(on, window), left.schema, right.schema), how)


def hashed(spark, table, side, cases):
    """The hashes of a side by all cases: columns h<case> <how> <i>.

    They are the same with ANSI mode and without, and in every time zone.
    """
    frame = frame_of(spark, table)
    assert [pa.types.is_timestamp(each.type) and each.type.tz is None for each in table.schema] == [
        type_ == "timestamp_ntz" for _, type_ in frame.dtypes
    ]
    columns = []
    for number, case in enumerate(cases):
        for how, way in case.ways.items():
            made = way.hash_columns(side, quoted)
            assert len(made) == way.hashes
            columns += [column.alias(f"h{number} {how} {i}") for i, column in enumerate(made)]
    found = []
    for ansi, zone in (("true", "America/New_York"), ("false", "UTC")):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        spark.conf.set("spark.sql.session.timeZone", zone)
        found.append(arrow(frame.select(*columns)))
    assert found[0].equals(found[1])
    return found[0]


def verify(case, number, found, times):
    holds = reference.all_of(*(part.matches for part in case.parts))
    keys = [list(zip(*(part.values[side] for part in case.parts), strict=True)) for side in (0, 1)]
    lost = [[reference.never_matches(key) for key in keys[side]] for side in (0, 1)]
    if times is not None:
        lost = [[flag or time is None for flag, time in zip(flags, times, strict=False)] for flags in lost]
    matches = [
        (i, j)
        for i, left in enumerate(keys[0])
        if not lost[0][i]
        for j, right in enumerate(keys[1])
        if not lost[1][j] and holds(left, right)
    ]
    for how, home in HOMES.items():
        way = case.ways[how]
        told = (number, how, way.describe())
        assert way.is_home(home)
        assert way.is_home(1 - home) == (way.kind == "hash")
        hashes = [
            [found[side][f"h{number} {how} {i}"].slice(0, len(keys[side])) for i in range(way.hashes)]
            for side in (0, 1)
        ]
        sets = [partition_sets(way, side, hashes[side], COUNT) for side in (0, 1)]
        for i, j in matches:
            (partition,) = sets[home][(i, j)[home]]
            assert partition in sets[1 - home][(i, j)[1 - home]], (*told, keys[0][i], keys[1][j])
        for side in (0, 1):
            assert all(each.type == pa.int32() for each in hashes[side])
            used = 1 if way.is_home(side) else way.hashes
            assert all(each.is_null().to_pylist() == lost[side] for each in hashes[side][:used]), told
            assert all(each.null_count == len(each) for each in hashes[side][used:])


def partition_sets(way, side, hashes, count):
    """The partitions of each row, as the text of the design has them."""
    sets = []
    for row in zip(*(each.to_pylist() for each in hashes), strict=True):
        reached = {each % count for each in row if each is not None}
        if way.kind == "broadcast" and not way.is_home(side) and reached:
            reached = ALL
        sets.append(reached or {0})
    return sets


# --- Values that can go wrong ---


def spread(rng, base, limits, most=70):
    """Values within limits, as many as can be compared with each other by brute force."""
    kept = sorted({value for value in base if limits[0] <= value <= limits[1]})
    if len(kept) > most:
        kept = [kept[i] for i in sorted(rng.choice(len(kept), most, replace=False))]
    return kept


def whole_part(rng, make, ranges, types, limits, units=(1, 1)):
    """A band on whole numbers: values at the ends of types, bands and cells."""
    least, most = max(limits[0][0], limits[1][0]), min(limits[0][1], limits[1][1])
    ends = [math.ceil(end) for pair in ranges for end in pair]
    span = max(ends) - min(ends) + 1
    base = [0, 1, -1, *(limits[0][i] + step for i in (0, 1) for step in (-1, 0, 1, 2))]
    for log in range(int(math.log2(span)) + 5, int(math.log2(span)) + 10):
        base += [(n << log) - int(0.382 * 2**log) + step for n in (-1, 0, 1) for step in (-1, 0, 1)]
    base += (
        [int(value) for value in rng.integers(-2 * span, 2 * span, 20, endpoint=True)] if span < 2**60 else []
    )
    base += [value - end for value in (least, most) for end in ends]
    left = spread(rng, base, limits[0])
    near = [value + end + step for value in left for end in ends for step in (-1, 0, 1)]
    right = spread(rng, near, limits[1], 90) + spread(rng, base, limits[1], 20)
    left, right = (
        [value // unit * unit for value in each] for each, unit in zip((left, right), units, strict=True)
    )
    return Part(make, reference.bands(ranges), types, (mixed(left), mixed(right)))


def mixed(values):
    return [None, *values, None]


def whole(bits):
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


UTC, NAIVE, SPAN = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us")
WHOLE = {
    "byte": ((pa.int8(), pa.int8()), (whole(8), whole(8)), ""),
    "short": ((pa.int16(), pa.int32()), (whole(16), whole(32)), ""),
    "int": ((pa.int32(), pa.int32()), (whole(32), whole(32)), ""),
    "long": ((pa.int64(), pa.int64()), (whole(64), whole(64)), ""),
    "byte and long": ((pa.int8(), pa.int64()), (whole(8), whole(64)), ""),
    "date": ((pa.date32(), pa.date32()), (whole(32), whole(32)), "d"),
    "timestamp": ((UTC, UTC), (whole(64), whole(64)), "us"),
    "naive timestamp": ((NAIVE, NAIVE), (whole(64), whole(64)), "us"),
    "duration": ((SPAN, SPAN), (whole(64), whole(64)), "us"),
}
RANGES = {
    "cells": [
        [(-5, 5)],
        [(3, 3)],
        [(-7, -5), (0, 1), (20, 20)],
        [(-90_000, -89_999), (-3, 3), (70_000, 70_001)],
        [(100, 130)],
        [(-(2**62), -(2**62) + 9)],
        [(2**40, 2**40 + 2**33)],
        [(1 - 2**55, 2**55)],
    ],
    "hash": [[(0, 0)]],
    "broadcast": [[(-(2**60), 2**60)], [(2**62, 2**62 + 1)], [(-(2**80), -(2**79))]],
}


def given(bound, unit):
    return f"{bound}{unit}" if unit else bound


def in_unit(ranges, unit):
    return [(given(low, unit), given(high, unit)) for low, high in ranges]


@pytest.mark.parametrize("name", WHOLE)
def test_bands_of_whole_numbers(spark, name):
    rng = np.random.default_rng(5)
    types, limits, unit = WHOLE[name]
    cases = []
    for kind, listed in RANGES.items():
        for ranges in listed if name == "long" else listed[::3]:
            ours = in_unit(ranges, unit)
            part = whole_part(rng, lambda name, ours=ours: bands(name, ranges=ours), ranges, types, limits)
            cases.append(Case([part], timed=len(cases) % 2 == 1, kind=kind))
    if name == "long":
        part = whole_part(rng, lambda name: band(name, lower=0.2, upper=0.8), [(0.2, 0.8)], types, limits)
        cases.append(Case([part], kind="cells"))
    check(spark, cases)


# --- Floats: sums that round, cancel, vanish and overflow ---

FLOATS = {
    "double": (
        ("float64", "float64"),
        [5e-324, 2.3e-308, 1e-200, 1e-17, 1e-16, 0.1, 0.3, 1.0, 1e16, 1e200, 8.9e307, 1.7976931348623157e308],
        {
            "cells": [
                [(-0.5, 0.5)],
                [(0.1, 0.3)],
                [(1.0, 1 + 2**-52)],
                [(-3.0, -3.0)],
                [(0.0, 5e-324)],
                [(-1e-17, 1e-16)],
                [(1e16, 1e16 + 4)],
                [(-1e200, -9e199)],
                [(-1e6, 1 - 1e6), (0.0, 0.1), (3e5, 3e5)],
                [(-(2.0**890), 2.0**890)],
            ],
            "hash": [[(-0.0, 0.0)]],
            "broadcast": [[(-1.7e308, 1.7e308)], [(1e300, 1e300)]],
        },
    ),
    "float": (
        ("float32", "float32"),
        [1e-45, 1.2e-38, 1e-30, 6e-8, 0.1, 0.3, 1.0, 1.7e7, 1e30, 1.7e38, 3.4028235e38],
        {
            "cells": [
                [(-0.5, 0.5)],
                [(0.1, 0.3)],
                [(1.0, 1 + 2**-23)],
                [(0.0, 1e-45)],
                [(-6e-8, 6e-8)],
                [(1e7, 1e7 + 4)],
                [(-3e30, -2.99e30)],
                [(-1e6, 1 - 1e6), (0.0, 0.1)],
                [(2.0**94, 2.0**94 + 2.0**93)],
            ],
            "hash": [[(0.0, 0.0)]],
            "broadcast": [[(-3e38, 3e38)], [(2.0**120, 2.0**120)]],
        },
    ),
    "float and double": (("float32", "float64"), [1e-45, 0.1, 0.3, 1.0, 1e30], {"cells": [[(-0.1, 0.3)]]}),
}


@np.errstate(over="ignore", invalid="ignore")
def float_part(rng, ranges, types, plain):
    """Bands on floats: values at and beside the ends of bands and cells, partners at and beside reaches."""
    dtypes = [np.dtype(each).type for each in types]
    wide = max(dtypes, key=lambda each: np.dtype(each).itemsize)

    def around(values, dtype):
        values = np.asarray(values).astype(dtype)
        values = values[~np.isnan(values)]
        return np.concatenate([values, *(np.nextafter(values, dtype(to)) for to in (-math.inf, math.inf))])

    way = bands("a", ranges=ranges)
    tables = [pa.table({"a": pa.array([], pa.from_numpy_dtype(each))}) for each in types]
    told = partitioning(way, *tables).describe()
    width = 2.0 ** int(told.split("**")[1].split()[0]) if "**" in told else 1.0
    borders = (np.array([-(2**19), -3, -1, 0, 1, 2**30, 2**48]) - 0.382) * width
    ends = np.array([end for pair in ranges for end in pair], wide)
    signed = np.array(
        [sign * value for value in plain for sign in (-1, 1)] + [0.0, -0.0, math.inf, -math.inf]
    )
    base = np.concatenate([signed, around(borders, wide), around(rng.uniform(-3, 3, 4) * width, wide)])
    drawn = rng.choice(base, 50)
    left = np.concatenate([base, around(drawn[:, None] - ends, dtypes[0]).ravel()])
    left = np.concatenate([signed, rng.choice(left, 160)]).astype(dtypes[0])
    right = [signed, around(rng.choice(left, 40).astype(wide)[:, None] + ends, dtypes[1]).ravel()]
    right = np.concatenate([right[0], rng.choice(right[1], 160), rng.choice(base, 30)]).astype(dtypes[1])
    kind = "float32" if wide is np.float32 else "float64"
    values = tuple([None, math.nan, *each.tolist()] for each in (left, right))
    arrow = tuple(pa.from_numpy_dtype(each) for each in types)
    return Part(lambda name: bands(name, ranges=ranges), reference.bands(ranges, kind), arrow, values)


@pytest.mark.parametrize("name", FLOATS)
def test_bands_of_floats(spark, name):
    rng = np.random.default_rng(7)
    types, plain, listed = FLOATS[name]
    cases = [
        Case([float_part(rng, ranges, types, plain)], timed=place % 2 == 1, kind=kind)
        for kind, members in listed.items()
        for place, ranges in enumerate(members)
    ]
    check(spark, cases)


# --- Decimals ---


def decimals(*pairs):
    return tuple(pa.decimal128(*pair) for pair in pairs)


def decimal_limits(types):
    """What both sides can hold in the finer unit, and what fits 64 bits."""
    scale = max(each.scale for each in types)
    return [
        (-most, most)
        for most in (min(10 ** (each.precision + scale - each.scale) - 1, 2**63 - 1) for each in types)
    ]


DECIMALS = [
    (decimals((10, 2), (10, 2)), [(-5, 5)]),
    (decimals((18, 2), (18, 6)), [(-30_000, 30_000)]),
    (decimals((38, 18), (38, 18)), [(-(10**9), 3 * 10**9)]),
    (decimals((38, 0), (38, 20)), [(0, 10**17)]),
    (decimals((18, 0), (18, 0)), [(10**17, 10**17 + 5), (-7, -7)]),
    (decimals((38, 2), (38, 2)), [(-(2**57), 2**57)]),
]


def test_bands_and_equalities_of_decimals(spark):
    rng = np.random.default_rng(11)
    cases = []
    for types, ranges in DECIMALS:
        scale = max(each.scale for each in types)
        ours = [tuple(Decimal(end).scaleb(-scale) for end in pair) for pair in ranges]
        units = [10 ** (scale - each.scale) for each in types]
        part = whole_part(
            rng, lambda name, ours=ours: bands(name, ranges=ours), ranges, types, decimal_limits(types), units
        )
        cases.append(Case([part], kind="cells"))
        cases.append(Case([Part(equal, reference.equal(), types, part.values)], kind="hash"))
    check(spark, cases)


def test_decimals_that_fit_no_key_do_not_fail_here(spark):
    """Keys beyond 64 bits are refused by the join, in its words; the expressions must not overflow before."""
    table = pa.table(
        {"a": pa.array([Decimal(10**37), Decimal(1 - 10**38), Decimal(1)], pa.decimal128(38, 0))}
    )
    other = pa.table({"a": pa.array([Decimal(1)] * 3, pa.decimal128(38, 20))})
    for on in (equal("a"), band("a", within=1)):
        way = partitioning(on, table, other)
        found = hashed(spark, table, 0, [Case([], ways={"inner": way})])
        assert found["h0 inner 0"].null_count == 0


# --- Equalities, comparisons, conjunctions ---

EQUAL = {
    "bool": ((pa.bool_(), pa.bool_()), [True, False]),
    "byte and long": ((pa.int8(), pa.int64()), [-128, -1, 0, 127]),
    "int and short": ((pa.int32(), pa.int16()), [-(2**15), 0, 7]),
    "float and double": (
        (pa.float32(), pa.float64()),
        [0.0, -0.0, 0.5, math.inf, -math.inf, math.nan, 2.0**-149],
    ),
    "float": ((pa.float32(), pa.float32()), [0.0, -0.0, 0.5, math.inf, math.nan, 3.4028235e38]),
    "double": ((pa.float64(), pa.float64()), [0.0, -0.0, 5e-324, -math.inf, math.nan, 1.7e308]),
    "text": ((pa.string(), pa.string()), ["", "a", "A", "ä", "a\u0308", "x" * 99, "\0"]),
    "binary": ((pa.binary(), pa.binary()), [b"", b"\0", b"\0\0", b"\xff", b"abcd"]),
    "date": ((pa.date32(), pa.date32()), [-(2**31), 0, 20_000]),
    "timestamp": ((UTC, UTC), [-(2**63), -1, 0, 2**63 - 1]),
    "naive timestamp": ((NAIVE, NAIVE), [-(2**63), -1, 0, 2**63 - 1]),
    "duration": ((SPAN, SPAN), [-(2**63), -1, 0, 2**63 - 1]),
}


def test_equalities(spark):
    cases = []
    for types, values in EQUAL.values():
        part = Part(equal, reference.equal(), types, ([None, *values], [*values[::-1], None]))
        cases.append(Case([part], timed=len(cases) % 2 == 1, kind="hash"))
    check(spark, cases)


def test_texts_are_compared_by_value_whatever_their_collation(spark):
    if not hasattr(F, "collate"):
        pytest.skip("this Spark has no collations")
    table = pa.table({"a": ["a", "A", "b"]})
    (plain,) = partitioning(equal("a"), table, table).hash_columns(0, F.col)
    (collated,) = partitioning(equal("a"), table, table).hash_columns(
        0, lambda name: F.collate(name, "UTF8_LCASE")
    )
    rows = frame_of(spark, table).select(plain, collated).collect()
    assert all(row[0] == row[1] for row in rows)
    assert len(set(rows)) == 3


def test_comparisons_are_dealt(spark):
    rng = np.random.default_rng(13)
    numbers = (mixed(rng.integers(-9, 9, 20).tolist()), mixed(rng.integers(-9, 9, 20).tolist()))
    cases = []
    for op in predicate.COMPARISONS[1:]:
        part = Part(getattr(predicate, op), getattr(reference, op)(), (pa.int64(), pa.int32()), numbers)
        cases.append(Case([part], timed=len(cases) % 2 == 1, kind="broadcast"))
    shifted = Part(lambda name: less(name, offset=3), reference.less(3), (pa.int64(), pa.int64()), numbers)
    texts = tuple([None if v is None else str(v) for v in side] for side in numbers)
    text = Part(not_equal, reference.not_equal(), (pa.string(), pa.string()), texts)
    check(spark, [*cases, Case([shifted, text], kind="broadcast")])


def test_conjunctions(spark):
    rng = np.random.default_rng(17)

    def part(make, matches, types, draw):
        return Part(make, matches, types, tuple([None, *draw(60), None] for _ in (0, 1)))

    whole = (pa.int64(), pa.int64())
    key = part(
        equal,
        reference.equal(),
        (pa.string(), pa.string()),
        lambda n: rng.choice(["a", "b", "c"], n).tolist(),
    )
    number = part(
        equal, reference.equal(), (pa.int32(), pa.int64()), lambda n: rng.integers(0, 3, n).tolist()
    )
    near = part(
        lambda name: band(name, within=2),
        reference.band(-2, 2),
        whole,
        lambda n: rng.integers(-99, 99, n).tolist(),
    )
    close = part(
        lambda name: bands(name, ranges=[(-9, -8), (0, 0.5)]),
        reference.bands([(-9, -8), (0, 0.5)], "float64"),
        (pa.float64(), pa.float64()),
        lambda n: rng.uniform(-50, 50, n).tolist(),
    )
    above = part(less, reference.less(), whole, lambda n: rng.integers(0, 9, n).tolist())
    huge = part(
        lambda name: band(name, within=2**62),
        reference.band(-(2**62), 2**62),
        whole,
        lambda n: list(range(n)),
    )
    check(
        spark,
        [
            Case([key, number], timed=True, kind="hash"),
            Case([key, near], kind="hash+cells"),
            Case([close, number], timed=True, kind="hash+cells"),
            Case([above, close, near], kind="cells"),
            Case([huge, near], kind="cells"),
            Case([key, huge, above], kind="hash"),
            Case([huge, above], kind="broadcast"),
        ],
    )


# --- Partitions, copies that count, rescaling ---

KINDS = {
    "hash": equal("a"),
    "cells": band("a", within=3),
    "cells of far ranges": bands("a", ranges=[(-5000, -4999), (0, 1), (7000, 7001)]),
    "broadcast": less("a"),
}


@pytest.fixture(scope="module")
def kinds(session):
    """Hashes of 150 rows by each kind and side, and their partitions by Spark for 1 to 5 of them."""
    rng = np.random.default_rng(19)
    table = pa.table({"a": [None, *rng.integers(-600, 600, 149).tolist()]})
    found = {}
    for name, on in KINDS.items():
        way = partitioning(on, table, table)
        for side in (0, 1):
            hashes = [each.alias(f"h{i}") for i, each in enumerate(way.hash_columns(side, F.col))]
            given = [F.col(f"h{i}") for i in range(way.hashes)]
            arrays = [way.partitions(side, given, count).alias(f"p{count}") for count in range(1, 6)]
            if way.is_home(side):
                arrays += [
                    way.home_partition(side, given, count).alias(f"home{count}") for count in range(1, 6)
                ]
            frame = frame_of(session, table).select(*hashes).select("*", *arrays)
            found[name, side] = way, arrow(frame)
    return found


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_partitions_by_spark_and_in_tasks(kinds, name, side):
    way, found = kinds[name, side]
    hashes = [found[f"h{i}"] for i in range(way.hashes)]
    copies = 0
    for count in range(1, 6):
        arrays = found[f"p{count}"].to_pylist()
        sets = [
            set(range(count)) if each is ALL else each for each in partition_sets(way, side, hashes, count)
        ]
        assert [set(array) for array in arrays] == sets
        assert [len(array) for array in arrays] == [len(each) for each in sets], "no partition twice"
        assert arrays[0] == [0]
        copies += sum(map(len, arrays)) - len(arrays)
        firsts = np.zeros(len(arrays), int)
        for partition in range(count):
            here = way.here(side, hashes, partition, count)
            assert here.tolist() == [partition in each for each in sets]
            first = way.first(side, hashes, partition, count)
            assert first.dtype == here.dtype == bool
            assert not (first & ~here).any()
            firsts += first
        assert (firsts == 1).all()
        if way.is_home(side):
            assert found[f"home{count}"].type == pa.int32()
            assert [[each] for each in found[f"home{count}"].to_pylist()] == arrays
    assert (copies == 0) == way.is_home(side)
    if not way.is_home(side):
        with pytest.raises(sj.SpecError, match="left rows are copied"):
            way.home_partition(side, [], 2)


@pytest.mark.parametrize(("old", "new"), [(2, 5), (5, 2), (3, 3), (1, 4), (4, 1)])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_rescaling_takes_each_row_once(kinds, name, side, old, new):
    way, found = kinds[name, side]
    hashes = [found[f"h{i}"] for i in range(way.hashes)]
    rows = np.arange(found.num_rows)
    for partition in range(new):
        taken = []
        for before in range(old):
            stored = rows[way.here(side, hashes, before, old)]
            kept = way.kept(side, [each.take(stored) for each in hashes], (before, old), (partition, new))
            assert kept.dtype == bool
            taken += stored[kept].tolist()
        assert sorted(taken) == rows[way.here(side, hashes, partition, new)].tolist()


@pytest.mark.parametrize("name", KINDS)
def test_no_rows_at_all(kinds, name):
    way, _ = kinds[name, 0]
    hashes = [pa.chunked_array([], pa.int32())] * way.hashes
    for side in (0, 1):
        found = [
            way.here(side, hashes, 0, 2),
            way.first(side, hashes, 0, 2),
            way.kept(side, hashes, (0, 2), (1, 3)),
        ]
        assert [(each.shape, each.dtype) for each in found] == [((0,), np.dtype(bool))] * 3


@pytest.mark.parametrize("name", ["long", "double"])
def test_partitions_are_even_and_copies_few(spark, name):
    frame = spark.range(20_000).select((F.rand(23) * 10**6).cast("bigint").cast(name).alias("a"))
    table = pa.table({"a": pa.array([], pa.int64() if name == "long" else pa.float64())})
    way = partitioning(band("a", within=2), table, table)
    for side in (0, 1):
        arrays = way.partitions(side, way.hash_columns(side, F.col), 8)
        rows = frame.select(F.explode(arrays).alias("p")).groupBy("p").count().collect()
        counts = [row["count"] for row in rows]
        assert len(counts) == 8
        assert max(counts) / (sum(counts) / 8) < 1.3
        assert sum(counts) == 20_000 if way.is_home(side) else 20_000 < sum(counts) < 22_000


def test_a_reach_has_one_cell_or_two_neighbours(spark):
    """At every distance from 0, also where floats are as coarse as cells."""
    rng = np.random.default_rng(29)
    for type_, scale in ((pa.float64(), 2.0**60), (pa.float32(), 2.0**40), (pa.int64(), 2**62)):
        values = rng.uniform(-1, 1, 3000) * 2.0 ** rng.uniform(-20, math.log2(scale), 3000)
        table = pa.table({"a": pa.array(values).cast(type_, safe=False)})
        columns = []
        for low, high in ((-1, 1), (1000, 1001), (-(2**20), -(2**20))):
            way = partitioning(band("a", lower=low, upper=high), table, table)
            for side in (0, 1):
                first, last = way._cells.reach(F.col("a"), side)
                columns.append(last - first)
        steps = arrow(frame_of(spark, table).select(F.array(*columns).alias("steps")))
        assert set(itertools.chain(*steps["steps"].to_pylist())) == {0, 1}


# --- The object ---


def test_partitionings_are_for_one_home(spark):
    assert spark
    table = pa.table({"a": pa.array([], pa.int64())})
    for how, type_ in JOIN_TYPES.items():
        assert partitioning(equal("a"), table, table, how).kind == "hash"
        for on in (band("a", within=3), less("a")):
            if how == "full":
                with pytest.raises(
                    sj.SpecError, match=r"how='full' has no one home.*'left' and 'right_anti'"
                ):
                    partitioning(on, table, table, how)
            else:
                way = partitioning(on, table, table, how)
                assert [way.is_home(side) for side in (0, 1)] == [type_.home == side for side in (0, 1)]
    with pytest.raises(sj.SpecError, match="expected one of inner"):
        partitioning(equal("a"), table, table, "outer")


def test_self_joins_are_refused(spark):
    assert spark
    schema = pa.schema({"a": pa.int64()})
    spec = join_spec(band("a", within=1), 10, self_join=True)
    with pytest.raises(sj.SpecError, match="self-join"):
        Partitioning(bind(spec, schema, schema), "inner")


def test_partitionings_travel_and_tell(spark):
    assert spark
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    expected = {
        equal("b") & less("a"): "hash of equal('b', 'b'); nothing is copied",
        equal("b") & band("a", within=5): (
            "hash of equal('b', 'b') with cells 2**9 wide of band('a', 'a'); "
            "right rows at home, left rows copied to their reach"
        ),
        less("a"): "right rows dealt to all partitions, left rows copied to all of them",
    }
    for on, text in expected.items():
        way = partitioning(on, table, table)
        again = pickle.loads(pickle.dumps(way))
        assert way.describe() == again.describe() == text
        assert (again.kind, again.hashes) == (way.kind, way.hashes)


def test_hashes_stay_what_they_are(spark):
    """Stored rows rely on them: these values must never change."""

    def hashes(on, type_, values):
        table = pa.table({"a": pa.array(values, type_)})
        way = partitioning(on, table, table)
        rows = frame_of(spark, table).select(*way.hash_columns(0, F.col)).collect()
        return [tuple(row) for row in rows]

    found = [
        hashes(equal("a"), pa.int32(), [0, 1, -1]),
        hashes(equal("a"), pa.string(), ["", "a", "slidejoin"]),
        hashes(equal("a"), pa.float64(), [0.0, -0.0, 0.5]),
        hashes(band("a", within=5), pa.int64(), [0, 315, 2**62]),
        hashes(band("a", within=0.5), pa.float64(), [0.0, 20.0, math.inf]),
    ]
    assert found == [
        [(-1670924195,), (-1712319331,), (-939490007,)],
        [(142593372,), (1485273170,), (-1082937273,)],
        [(-1670924195,), (-1670924195,), (538068697,)],
        [(-1670924195, -1670924195), (-1670924195, -1712319331), (1313076566, 1313076566)],
        [(-1670924195, -1670924195), (-1670924195, -1712319331), (-1771676689, -1771676689)],
    ]
