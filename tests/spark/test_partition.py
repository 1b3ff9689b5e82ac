"""Partitions by SQL: each matching pair meets once, for every type and condition, at every number of them."""

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slidejoin import reference
from slidejoin.keys import bind
from slidejoin.predicate import band, bands
from slidejoin.spec import join_spec
from slidejoin.window import interval

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
    from pyspark.sql import functions as F  # noqa: N812

    return F.col("`" + name.replace("`", "``") + "`")


def check(spark, cases):
    """Hash the rows of all cases side by side, with ANSI mode and without; compare with brute force."""
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
    from slidejoin.spark.partition import Partitioning

    return Partitioning(bind(join_spec(on, window), left.schema, right.schema), how)


def hashed(spark, table, side, cases):
    """The hashes of a side by all cases: columns h<case> <how> <i>; the same with ANSI mode and without."""
    columns = []
    for number, case in enumerate(cases):
        for how, way in case.ways.items():
            made = way.hash_columns(side, quoted)
            assert len(made) == way.hashes
            columns += [column.alias(f"h{number} {how} {i}") for i, column in enumerate(made)]
    frame = spark.createDataFrame(table).coalesce(1)
    found = []
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        found.append(frame.select(*columns).toArrow())
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
