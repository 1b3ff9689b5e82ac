"""Every type of Spark as payload and as key: values, types and nulls come out as they went in."""

import math
import operator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812
from spark.streams import (
    LONG,
    SECOND,
    Streams,
    arrow,
    assert_same,
    combined,
    embedded,
    embedded_whole,
    parts,
    run,
    times,
)
from spark.streams import (
    UTC as ZONED,
)

from slidejoin.spark import join

NAIVE = pa.timestamp("us")
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
SUMMER = datetime(2024, 3, 31, 1, 30, 0, 1, UTC)  # clocks change
NAN, INF = math.nan, math.inf

# Values of a column of each type; null is added to all.
PAYLOADS = {
    "tiny": (pa.int8(), [-128, 0, 127]),
    "short": (pa.int16(), [-(2**15), 2**15 - 1]),
    "middle": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]),
    "single": (pa.float32(), [NAN, -0.0, 0.0, INF, 1.5]),
    "double": (pa.float64(), [NAN, -0.0, 0.0, -INF, 0.1]),
    "money": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.10")]),
    "vast": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")]),
    "day": (pa.date32(), [date(1970, 1, 1), date(1905, 2, 28), date(2100, 12, 31)]),
    "zoned": (ZONED, [MOMENT, SUMMER]),
    "naive": (NAIVE, [MOMENT.replace(tzinfo=None), SUMMER.replace(tzinfo=None)]),
    "text": (pa.string(), ["", "ä", "a\x00b", "𝄞" * 30]),
    "raw": (pa.binary(), [b"", b"\x00\xff", b"x" * 50]),
    "flag": (pa.bool_(), [True, False]),
    "numbers": (pa.list_(pa.int32()), [[], [1, None, 3], [2**31 - 1]]),
    "moments": (pa.list_(ZONED), [[SUMMER, None], []]),
    "counts": (pa.map_(pa.string(), pa.int64()), [[], [("a", 2**53 + 1), ("b", None)]]),
    "stamps": (pa.map_(pa.string(), ZONED), [[("x", SUMMER)], [("y", None), ("z", MOMENT)]]),
    "place": (
        pa.struct([("x", pa.float64()), ("at", ZONED), ("tags", pa.list_(pa.string()))]),
        [{"x": NAN, "at": SUMMER, "tags": ["a", None]}, {"x": None, "at": None, "tags": None}],
    ),
    "deep": (
        pa.list_(pa.struct([("a", pa.decimal128(9, 3)), ("m", pa.map_(pa.int32(), pa.list_(pa.date32())))])),
        [[{"a": Decimal("1.500"), "m": [(1, [date(2000, 1, 1), None])]}, None], []],
    ),
}
# Columns that Spark computes; their parts cannot be null.
MADE = {
    "span": (pa.duration("us"), "timestamp_micros(long % 1000000000000) - timestamp_micros(0)"),
    "pair": (pa.struct([("a", pa.int32()), ("b", pa.string())]), "struct(1 AS a, 'b' AS b)"),
    "fixed": (pa.list_(pa.int32()), "array(1, 2)"),
    "known": (pa.map_(pa.string(), pa.int32()), "map('a', 1)"),
}
PAIRS = ("pair", "pair_right")


def column(rng, type_, values, rows):
    picks = rng.integers(0, len(values) + 1, rows)
    return pa.array([None if pick == len(values) else values[pick] for pick in picks], type_)


def with_made(table):
    """What Spark makes of a table with the columns of MADE."""
    longs = table["long"].to_pylist()
    values = {
        "span": [None if long is None else abs(long) % 10**12 * (-1) ** (long < 0) for long in longs],
        "pair": [{"a": 1, "b": "b"}] * len(table),
        "fixed": [[1, 2]] * len(table),
        "known": [[("a", 1)]] * len(table),
    }
    for name, (type_, _) in MADE.items():
        table = table.append_column(name, pa.array(values[name], type_))
    return table


def payload_streams(batches=2, rows=60):
    rng = np.random.default_rng(51)
    sides = []
    for side in ("left", "right"):
        tables = []
        for batch in range(batches):
            micros = (batch + rng.random(rows)) * 10 * SECOND
            columns = {
                "id": pa.array([f"{side}{batch}-{row}" for row in range(rows)]),
                "ts": times(micros),
                "local": times(micros, NAIVE),
                "k": pa.array(rng.integers(0, 40, rows), pa.int64()),
            }
            columns |= {name: column(rng, type_, values, rows) for name, (type_, values) in PAYLOADS.items()}
            tables.append(pa.table(columns))
        sides.append(tables)
    return Streams(*sides)


def made(frame):
    return frame.select("*", *(F.expr(text).alias(name) for name, (_, text) in MADE.items()))


def readable(frame):
    """A frame that PySpark's toArrow can read: it refuses a null struct whose parts cannot be null."""
    return frame.withColumns({name: F.expr(f"CAST({name} AS struct<a:int,b:string>)") for name in PAIRS})


def test_all_types_as_payload_in_a_zone_that_is_not_utc(spark, tmp_path):
    """In a full join, where all columns have nulls; of batches, too, whose time may be without a zone."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    streams = payload_streams(batches=3)
    truth = Streams(*([with_made(table) for table in tables] for tables in streams.sides))
    files = streams.write(tmp_path / "in")
    on = sj.band("k", within=1)
    window = sj.interval("1s", "1s", time="ts", lateness="2s")
    left, right = map(made, files.read(spark))
    joined = join(left, right, on, window, "full", partitions=2)
    assert [field.dataType for field in joined.schema] == [field.dataType for field in left.schema] * 2
    expected = embedded(truth, on, window, "full")
    assert min(expected.stats[-1]["matches"], expected.table["id"].null_count) > 20
    assert_same(run(readable(joined), tmp_path)[0], expected.table)

    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    window = sj.interval("1s", "1s", time="local")
    joined = join(*map(made, files.read_whole(spark)), on, window, "full", partitions=2)
    assert_same(arrow(readable(joined)), embedded_whole(truth, on, window, "full"))


# --- Keys ---

KEYS = {
    "byte, int": (
        *(pa.int8(), pa.int32(), sj.band("a", "b", lower=10, upper=20)),
        *([120, 127, 0, -128, 5], [130, 137, 140, 10, 15, -110, 25]),
    ),
    "long": (
        *(pa.int64(), pa.int64(), sj.band("a", "b", within=2)),
        *([2**63 - 1, -(2**63), 2**53, 2**53 + 2, 0], [2**63 - 2, -(2**63) + 1, 2**53 + 1, 2**53 + 3, -1]),
    ),
    "float, double": (
        *(pa.float32(), pa.float64(), sj.band("a", "b", lower=-0.3, upper=0.3)),
        *([NAN, INF, -INF, 0.0, -0.0, 0.5], [NAN, INF, -INF, 0.3, -0.0, 0.8, 0.2]),
    ),
    "float": (
        *(pa.float32(), pa.float32(), sj.band("a", "b", lower=-0.3, upper=0.3)),
        *([0.1, 0.4, 1e38, NAN, -0.0], [0.4, 0.1, 1e38, INF, 0.0]),
    ),
    "double equal": (
        *(pa.float64(), pa.float64(), sj.equal("a", "b")),
        *([NAN, INF, 0.0, -0.0, 1.5], [NAN, INF, 0.0, -0.0, 2.5]),
    ),
    "double not equal": (
        *(pa.float64(), pa.float64(), sj.not_equal("a", "b")),
        *([NAN, INF, 0.0, -0.0, 1.5], [NAN, INF, 0.0, -0.0, 2.5]),
    ),
    "decimal": (
        *(pa.decimal128(12, 2), pa.decimal128(16, 4), sj.band("a", "b", within=Decimal("0.05"))),
        *([Decimal("1.00"), Decimal("-7.25")], [Decimal("1.0500"), Decimal("1.0501"), Decimal("-7.3000")]),
    ),
    "date": (
        *(pa.date32(), pa.date32(), sj.band("a", "b", lower="-1d", upper="2d")),
        *([date(1969, 12, 31), date(2024, 2, 28)], [date(1970, 1, 2), date(1970, 1, 3), date(2024, 2, 29)]),
    ),
    "timestamp": (
        *(ZONED, ZONED, sj.band("a", "b", within="1500ms")),
        *([MOMENT, SUMMER], [MOMENT + timedelta(seconds=1.5), MOMENT + timedelta(seconds=1.500001), SUMMER]),
    ),
    "timestamp_ntz": (
        *(NAIVE, NAIVE, sj.less_equal("a", "b")),
        *([MOMENT.replace(tzinfo=None), datetime(2024, 1, 1)], [datetime(2024, 1, 1), datetime(1930, 1, 1)]),
    ),
    "string": (
        *(pa.string(), pa.string(), sj.equal("a", "b")),
        *(["", "a", "A", "a\x00", "ä"], ["", "a", "a ", "a\x00", "ä"]),
    ),
    "string not equal": (
        *(pa.string(), pa.string(), sj.not_equal("a", "b")),
        *(["", "a", "A"], ["", "a", "x" * 40]),
    ),
    "binary": (
        *(pa.binary(), pa.binary(), sj.equal("a", "b")),
        *([b"", b"\x00", b"\xff\xfe"], [b"", b"\x00\x00", b"\xff\xfe"]),
    ),
    "boolean": (pa.bool_(), pa.bool_(), sj.equal("a", "b"), [True, False], [True, False]),
    "interval": (
        *(pa.duration("us"), pa.duration("us"), sj.band("a", "b", within="2s")),
        *([timedelta(0), timedelta(days=-3)], [timedelta(seconds=2), timedelta(seconds=2.000001)]),
    ),
}
WINDOW = sj.interval("4s", "4s", time="ts", lateness="2s")


def key_streams(kinds, batches, rows):
    """Streams with keys of some kinds: columns a0, a1, ... on the left, b0, b1, ... on the right."""
    rng = np.random.default_rng(52)
    sides = []
    for side in (0, 1):
        tables = []
        for batch in range(batches):
            columns = {
                "id": pa.array([f"{'lr'[side]}{batch}-{row}" for row in range(rows)]),
                "ts": times((batch + rng.random(rows)) * 10 * SECOND),
            }
            for number, kind in enumerate(kinds):
                columns[f"{'ab'[side]}{number}"] = column(rng, KEYS[kind][side], KEYS[kind][3 + side], rows)
            tables.append(pa.table(columns))
        sides.append(tables)
    return Streams(*sides)


def numbered(kind, number):
    """The predicate of a kind on the columns of its number."""
    (conjunct,) = KEYS[kind][2].conjuncts
    return sj.predicate.Predicate((replace(conjunct, left=f"a{number}", right=f"b{number}"),))


def stored(streams):
    """The streams as Parquet has them, where durations are numbers; and how Spark reads them back."""

    def plain(table):
        for place, field in enumerate(table.schema):
            if pa.types.is_duration(field.type):
                table = table.set_column(place, field.name, table[field.name].cast(pa.int64()))
        return table

    def restored(frame, schema):
        spans = [field.name for field in schema if pa.types.is_duration(field.type)]
        return frame.withColumns(
            {name: F.expr(f"timestamp_micros({name}) - timestamp_micros(0)") for name in spans}
        )

    return Streams(*([plain(table) for table in tables] for tables in streams.sides)), restored


@pytest.mark.parametrize("turn", range(2 if LONG else 1))
def test_all_types_as_keys_of_batches(spark, tmp_path, turn):
    """Inner joins and anti joins by turns; the long form has both of each type."""
    streams = key_streams(list(KEYS), batches=1, rows=50)
    plain, restored = stored(streams)
    frames, hows = {}, {}
    for number, kind in enumerate(KEYS):
        hows[kind] = ("inner", "left_anti")[(number + turn) % 2]
        left, right = map(restored, plain.write(tmp_path / kind).read_whole(spark), streams.schemas)
        frames[kind] = join(left, right, numbered(kind, number), WINDOW, hows[kind], partitions=2)
    for kind, result in parts(arrow(combined(frames)), frames).items():
        expected = embedded_whole(streams, numbered(kind, list(KEYS).index(kind)), WINDOW, hows[kind])
        assert expected.num_rows >= 5, kind
        assert_same(result, expected)


def test_all_types_as_keys_of_streams(spark, tmp_path):
    """Three types at a time, whose conditions hold together; the long form takes each alone."""
    number = 1 if LONG else 3
    streams = key_streams(list(KEYS), batches=2, rows=200)
    plain, restored = stored(streams)
    left, right = map(restored, plain.write(tmp_path / "in").read(spark), streams.schemas)
    conditions = {}
    for first in range(0, len(KEYS), number):
        kinds = list(KEYS)[first : first + number]
        together = (numbered(kind, first + place) for place, kind in enumerate(kinds))
        conditions[" and ".join(kinds)] = reduce(operator.and_, together)
    frames = {
        name: join(left, right, on, WINDOW, "left", partitions=1, name=f"join{number}")
        for number, (name, on) in enumerate(conditions.items())
    }
    results, _ = run(combined(frames), tmp_path)
    for name, result in parts(results, frames).items():
        truth = embedded(streams, conditions[name], WINDOW, "left")
        assert truth.stats[-1]["matches"] > 20, name
        assert_same(result, truth.table)
