"""Every error about arguments and columns comes at the call, says how to mend it, and leaves no trace."""

import re

import pandas as pd
import pytest

import slidejoin as sj
from slidejoin.errors import SchemaError, SpecError
from slidejoin.join_type import JOIN_TYPES

pytest.importorskip("pyspark")

import pyspark
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

from slidejoin.spark import explain, join

COLUMNS = (
    "id string, k bigint, x double, text string, flag boolean, ts timestamp, other timestamp, "
    "local timestamp_ntz, day date, number bigint, huge decimal(38,2), counts map<string,int>"
)
ON = sj.band("k", within=3)
WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")
BARE = sj.interval("3s", "2s", time="ts")


@pytest.fixture
def stream(spark, tmp_path):
    """A stream of a folder without files."""
    (tmp_path / "in").mkdir()

    def stream(columns=COLUMNS):
        return spark.readStream.schema(columns).parquet(str(tmp_path / "in"))

    return stream


@pytest.fixture
def batch(spark):
    return lambda columns=COLUMNS: spark.createDataFrame([], columns)


@pytest.fixture
def refused(spark):
    """Calls join and explain, which must refuse the same; neither runs a job or changes a setting."""
    context = spark.sparkContext

    def settings():
        return dict(spark.conf.getAll) if hasattr(spark.conf, "getAll") else {}

    def refused(kind, message, left, right, on=ON, window=WINDOW, **options):
        before = settings()
        context.setJobGroup("refused", "calls that are refused")
        for call in (join, explain):
            with pytest.raises(kind, match=re.escape(message)) as caught:
                call(left, right, on, window, **options)
            assert type(caught.value) is kind
        assert context.statusTracker().getJobIdsForGroup("refused") == []
        assert settings() == before

    yield refused
    context.setLocalProperty("spark.jobGroup.id", None)


# --- Watermarks and state ---


def test_streams_need_a_lateness_and_no_watermark_of_spark(stream, refused):
    plain, marked = stream(), stream().withWatermark("ts", "5 seconds")
    missing = "the window has no lateness, so no row could ever be forgotten; give interval("
    refused(SpecError, missing, plain, plain, window=BARE)
    refused(SpecError, missing, plain, plain, window=sj.within("2s", time="ts"))
    both = "has a watermark on 'ts'; the join has one of its own: remove withWatermark"
    refused(SpecError, "left " + both, marked, marked)
    refused(SpecError, "right " + both, plain, marked, window=BARE)


def test_streams_need_a_place_for_their_state(spark, stream, refused):
    one = stream()
    for place in (3, "", b"state"):
        refused(SpecError, f"state_dir={place!r}; expected a path or a URI", one, one, state_dir=place)
    refused(SpecError, "is no place that pyarrow can write to", one, one, state_dir="nowhere://there")
    spark.conf.unset("spark.sql.streaming.checkpointLocation")
    refused(SpecError, "give join(..., state_dir=...)", one, one)


@pytest.mark.parametrize("name", ["", "a/b", "..", 3, "x" * 101, ".hidden"])
def test_names_of_joins(stream, refused, name):
    refused(SpecError, f"name={name!r}; expected letters", stream(), stream(), name=name)


def test_batches_need_no_watermark(batch):
    for window in (BARE, WINDOW, sj.within("2s", time="ts"), sj.interval(3, 2, time="number")):
        assert len(join(batch(), batch(), ON, window).columns) == 24


# --- Windows and other arguments ---


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (
            sj.rows(10),
            "a window of rows needs one order of all rows, which Spark does not have; use interval(",
        ),
        (10, "a window of rows needs one order of all rows"),
        ((5, 5), "window=(5, 5); expected sj.interval(...) or sj.within(...)"),
        (None, "window=None; expected sj.interval(...) or sj.within(...)"),
        ("5s", "window='5s'; expected sj.interval(...) or sj.within(...)"),
        (
            sj.interval("1s", "1s", lateness="1s"),
            "the window does not name its timestamps; add time='column'",
        ),
        (sj.within("1s"), "the window does not name its timestamps; add time='column'"),
        (sj.within("1s", time="ts", purge="self"), "purge='self' is for embedded joins"),
    ],
)
def test_windows(stream, batch, refused, window, message):
    refused(SpecError, message, stream(), stream(), window=window)
    refused(SpecError, message, batch(), batch(), window=window)


def test_times(stream, batch, refused):
    def window(time, before="1s", late="1s"):
        return sj.interval(before, before, time=time, lateness=late)

    one = stream()
    refused(SchemaError, "column 'when'", one, one, window=window("when"))
    refused(SchemaError, "column 'when'", batch(), batch(), window=window("when"))
    refused(SchemaError, "naive timestamp", one, one, window=window(("ts", "local")))
    message = "event_time needs timestamps; the time of this join is int64, cast it"
    refused(SchemaError, message, one, one, window=window("number", 1, 1), event_time="at")
    refused(SchemaError, "'number'", one, one, window=window("number"))
    refused(SchemaError, "'ts'", one, one, window=window("ts", 1, 1))
    refused(SchemaError, "'text'", one, one, window=window("text"))


@pytest.mark.parametrize("partitions", [0, -1, True, "2", 2.0, 2**16 + 1])
def test_partitions(stream, batch, refused, partitions):
    message = f"partitions={partitions!r}; expected a number from 1 to 65536, or None"
    refused(SpecError, message, stream(), stream(), partitions=partitions)
    refused(SpecError, message, batch(), batch(), partitions=partitions)


def test_join_types_predicates_and_suffixes(stream, refused):
    one = stream()
    refused(SpecError, "how='outer'; expected one of inner, left, right, full", one, one, how="outer")
    refused(SpecError, "how='leftsemi'; expected one of", one, one, how="leftsemi")
    refused(SpecError, "expected a predicate, such as sj.equal('k')", one, one, on="k")
    refused(SpecError, "suffixes", one, one, suffixes=("", ""))
    refused(SpecError, "suffixes", one, one, suffixes="_r")


def test_what_is_joined(stream, batch, refused):
    one, whole = stream(), batch()
    message = "is a stream and the other side is not; join two streams or two batches"
    refused(SpecError, "left " + message, one, whole)
    refused(SpecError, "right " + message, whole, one)
    refused(SpecError, "right is of <class 'NoneType'>; expected a DataFrame of Spark", one, None)
    refused(SpecError, "left is of <class 'pandas.", pd.DataFrame({"k": [1]}), one)


# --- Columns ---


@pytest.mark.parametrize(
    ("on", "message"),
    [
        (sj.band("nowhere", within=1), "'nowhere'"),
        (sj.band("k", "nowhere", within=1), "'nowhere'"),
        (sj.band("K", within=1), "'K'"),
        (sj.band("k", "x", within=1), "left column 'k' (int64) and right column 'x' (double)"),
        (sj.equal("k", "text"), "left column 'k' (int64) and right column 'text' (string)"),
        (sj.equal("ts", "local"), "give the naive one a zone"),
        (sj.band("text", within=1), "'text'"),
        (sj.less("text"), "'text'"),
        (sj.band("flag", within=1), "'flag'"),
        (sj.band("k", within="1s"), "'k'"),
        (sj.band("ts", within=1), "'ts'"),
        (sj.band("huge", within="1s"), "'huge'"),
        (sj.equal("counts"), "'counts'"),
        (ON & sj.equal("nowhere"), "'nowhere'"),
    ],
)
def test_keys(stream, batch, refused, on, message):
    wrong = (SchemaError, SpecError)
    for one in (stream(), batch()):
        with pytest.raises(wrong) as caught:
            join(one, one, on, WINDOW)
        refused(caught.type, message, one, one, on=on)


def test_types_that_do_not_cross(spark, batch, stream, refused):
    expressions = {  # what the message names is the innermost type
        "make_ym_interval(1, 2)": "interval year to month",
        "make_interval(1, 2)": "interval",
        "parse_json('1')": "variant",
        "array(make_interval(1))": "interval",
        "named_struct('a', parse_json('1'))": "variant",
        "map('a', make_interval(1))": "interval",
    }
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1):
        spark.conf.set("spark.sql.timeType.enabled", "true")
        expressions["make_time(1, 2, 3.0)"] = "time(6)"
    for expression, name in expressions.items():
        for one in (batch(), stream()):
            odd = one.withColumn("odd", F.expr(expression))
            message = f"column 'odd' has the type {name}, which does not cross to Python; cast it"
            refused(SchemaError, f"left {message}", odd, one)
            refused(SchemaError, f"right {message}", one, odd)


def test_types_of_the_user(spark, refused):
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import types

    fields = [types.StructField("k", types.LongType()), types.StructField("ts", types.TimestampType())]
    odd = spark.createDataFrame([], types.StructType([*fields, types.StructField("v", VectorUDT())]))
    refused(SchemaError, "left column 'v' has the type", odd, odd)


def test_names(stream, batch, refused):
    for one in (stream(), batch()):
        twice = one.select("*", F.lit(1).alias("id"))
        refused(SchemaError, "left has two columns 'id'; rename one of them", twice, one)
        refused(SchemaError, "right has two columns 'id'; rename one of them", one, twice)
        taken = one.withColumn("k_right", F.lit(1))
        refused(SchemaError, "'k_right'", taken, one)


def test_event_time(stream, batch, refused):
    one = stream()
    for how in list(JOIN_TYPES)[1:]:
        message = f"event_time is for inner joins; rows of a {how} join may come out long after their"
        refused(SpecError, message, one, one, how=how, event_time="at")
    for name in ("", 3, True, b"at"):
        message = f"event_time={name!r}; expected the name of a new column"
        refused(SpecError, message, one, one, event_time=name)
    for name in ("ts", "k_right", "id"):
        message = f"the result would have two columns {name!r}, one by event_time; give it another name"
        refused(SchemaError, message, one, one, event_time=name)
    late = sj.interval("3s", "2s", time="ts", lateness="3s", late="return")
    refused(SchemaError, "the result would have two columns 'late'", one, one, window=late, event_time="late")
    message = "late='return' and event_time are for streams; in a batch nothing is late"
    refused(SpecError, message, batch(), batch(), event_time="at")
    refused(SpecError, message, batch(), batch(), window=late)
    named = one.withColumn("late", F.lit("x"))
    refused(SchemaError, "the result would have two columns 'late', one by late='return'; rename the column",
            named, one, window=late)  # fmt: skip


def test_a_decimal_that_does_not_fit(spark):
    """What a type allows is not refused before a value is there."""
    row = spark.sql("SELECT CAST(1e25 AS DECIMAL(38,2)) AS k, timestamp'2024-01-01' AS ts")
    joined = join(row, row, sj.equal("k"), BARE, partitions=1)
    with pytest.raises(PythonException, match="column 'k' holds 10000000000000000000000000"):
        joined.collect()
