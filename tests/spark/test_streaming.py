"""Streams on Spark give the rows of the embedded join and of brute force, for every kind of join.

Several joins run as one query, since a micro-batch costs more than its rows. SLIDEJOIN_TESTS=long runs every
predicate with every join type and number of partitions.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slidejoin as sj
from slidejoin import reference

pytest.importorskip("pyspark")

from spark.streams import (
    HOWS,
    LONG,
    SECOND,
    START,
    Streams,
    assert_same,
    brute_force,
    combined,
    counted,
    embedded,
    parts,
    random_streams,
    results,
    run,
    start,
    times,
)

from slidejoin.spark import explain, join

WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")


@dataclass(frozen=True)
class Condition:
    """A predicate, and the same for the reference."""

    on: sj.predicate.Predicate
    matches: reference.Predicate
    key: Callable[[dict[str, Any]], Any]
    window: sj.window.Interval = WINDOW


CONDITIONS = {
    "band": Condition(sj.band("k", within=3), reference.band(-3, 3), lambda row: row["k"]),
    "bands": Condition(
        sj.bands("k", ranges=[(-60, -48), (-2, 1), (50, 51)]),
        reference.bands([(-60, -48), (-2, 1), (50, 51)]),
        lambda row: row["k"],
        sj.interval("-1s", "4s", time="ts", lateness="3s"),
    ),
    "floats": Condition(
        sj.band("x", lower=-0.1, upper=0.3), reference.band(-0.1, 0.3, "float64"), lambda row: row["x"]
    ),
    "equal": Condition(sj.equal("sym"), reference.equal(), lambda row: row["sym"]),
    "equal and band": Condition(
        sj.equal("sym") & sj.band("k", lower=-20, upper=5),
        reference.all_of(reference.equal(), reference.band(-20, 5)),
        lambda row: (row["sym"], row["k"]),
    ),
    "less": Condition(
        sj.less("x"),
        reference.less(),
        lambda row: row["x"],
        sj.interval("1s", "0s", time="ts", lateness="3s"),
    ),
    "not equal": Condition(
        sj.not_equal("sym"),
        reference.not_equal(),
        lambda row: row["sym"],
        sj.interval("0.5s", "0.5s", time="ts", lateness="3s"),
    ),
}

# (partitions, joins) of one query each.
QUERIES = [
    (
        2,
        [
            ("bands", "left"),
            ("floats", "full"),
            ("equal", "inner"),
            ("equal and band", "right"),
            ("less", "left_anti"),
            ("not equal", "left_semi"),
        ],
    ),
    (1, [("band", "left"), ("less", "inner"), ("floats", "right_anti")]),
    (8, [("band", "full"), ("equal and band", "left_anti")]),
]
if LONG:
    QUERIES += [(n, [(name, how) for how in HOWS]) for n, name in itertools.product((1, 2, 8), CONDITIONS)]


def ids(table, how):
    """Results as pairs of ids."""
    if how.endswith(("semi", "anti")):
        alone = counted(table.select(["id"])).items()
        return Counter({(None, id_) if how.startswith("right") else (id_, None): n for (id_,), n in alone})
    return counted(table.select(["id", "id_right"]))


@pytest.mark.parametrize(("partitions", "joins"), QUERIES)
def test_rows_are_those_of_the_embedded_join_and_of_brute_force(spark, tmp_path, partitions, joins):
    streams = random_streams(seed=partitions + len(joins))
    files = streams.write(tmp_path / "in")
    frames = {}
    for name, how in joins:
        condition = CONDITIONS[name]
        left, right = files.read(spark)
        frames[f"{name} {how}"] = join(
            left,
            right,
            condition.on,
            condition.window,
            how,
            partitions=partitions,
            name=f"{name}-{how}".replace(" ", "-"),
        )
    rows, query = run(combined(frames), tmp_path)
    assert len(query.recentProgress) == len(streams.left), "one micro-batch for each file"
    for (name, how), result in zip(joins, parts(rows, frames).values(), strict=True):
        condition = CONDITIONS[name]
        truth = embedded(streams, condition.on, condition.window, how)
        assert truth.stats[-1]["late_left"] > 5, "the case is about late rows, too"
        assert truth.stats[-1]["matches"] > 50
        assert_same(result, truth.table)
        expected = brute_force(streams, condition.matches, condition.key, condition.window, how)
        assert ids(result, how) == expected


def test_other_names_and_units(spark, tmp_path):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    streams = random_streams(seed=11, disorder=9)
    renamed = [table.rename_columns(["rid", "when", "rk", "x", "sym", "big"]) for table in streams.right]
    streams = Streams(streams.left, renamed)
    left, right = streams.write(tmp_path / "in").read(spark)
    time, suffixes = ("ts", "when"), ("_l", "_r")
    on = sj.band("k", "rk", within=2)
    windows = {
        "inner": sj.interval("2500ms", "2500ms", time=time, lateness="1500ms"),
        "left": sj.interval("1s", "2999999500ns", time=time, lateness="4s"),
    }
    frames = {how: join(left, right, on, window, how, suffixes, name=how) for how, window in windows.items()}
    assert frames["left"].columns == [
        *("id", "ts", "k", "x_l", "sym_l", "big_l"),
        *("rid", "when", "rk", "x_r", "sym_r", "big_r"),
    ]
    rows, _ = run(combined(frames), tmp_path)
    for how, result in parts(rows, frames).items():
        truth = embedded(streams, on, windows[how], how, suffixes)
        assert min(truth.stats[-1][name] for name in ("matches", "late_left", "late_right")) > 5
        assert_same(result, truth.table)


def test_a_silent_side_holds_the_watermark_back(spark, tmp_path):
    """One side is empty in the first micro-batch, the other in the last ones. Before both spoke nothing
    is late."""
    streams = random_streams(seed=12, batches=4, rows=40, disorder=40)
    left = [table.slice(0, 0) if batch < 1 else table for batch, table in enumerate(streams.left)]
    right = [table.slice(0, 0) if batch > 1 else table for batch, table in enumerate(streams.right)]
    streams = Streams(left, right)
    window = sj.interval("15s", "15s", time="ts", lateness="0s")
    files = streams.write(tmp_path / "in")
    result, query = run(
        join(*files.read(spark), sj.band("k", within=50), window, "left", partitions=2), tmp_path
    )
    truth = embedded(streams, sj.band("k", within=50), window, "left")
    assert truth.stats[1]["late_left"] == truth.stats[1]["late_right"] == 0
    assert truth.stats[2]["late_left"] > 0
    assert_same(result, truth.table)
    assert query.exception() is None


def test_ends_of_the_window_are_within_it(spark, tmp_path):
    """-before <= right.ts - left.ts <= after, to the microsecond, whichever side comes first.

    Names of columns may be such that Spark wants them quoted.
    """
    offsets = [-3 * SECOND - 1, -3 * SECOND, -1, 0, 1, 2 * SECOND, 2 * SECOND + 1]
    names = ["id", "t.s `x", "the key"]
    left = pa.table([["a"], times([20 * SECOND]), [1]], names)
    stamps = times([20 * SECOND + offset for offset in offsets])
    right = pa.table([[str(offset) for offset in offsets], stamps, [1] * len(offsets)], names)
    none, no_left = right.slice(0, 0), left.slice(0, 0)
    expected = Counter({("a", str(offset)): 1 for offset in offsets[1:-1]})
    frames = {}
    for order, streams in {
        "left first": Streams([left, no_left], [none, right]),
        "right first": Streams([no_left, left], [right, none]),
    }.items():
        files = streams.write(tmp_path / order)
        window = sj.interval("3s", "2s", time="t.s `x", lateness="5s")
        frames[order] = join(
            *files.read(spark), sj.equal("the key"), window, partitions=1, name=order.replace(" ", "-")
        )
    rows, _ = run(combined(frames), tmp_path)
    for result in parts(rows, frames).values():
        assert ids(result, "inner") == expected


def test_a_stream_with_itself_in_two_queries_at_once(spark, tmp_path):
    """One DataFrame is both sides, and its result feeds two queries, which share nothing."""
    streams = random_streams(seed=14, batches=2)
    streams = Streams(streams.left, streams.left)
    stream, _ = streams.write(tmp_path / "in").read(spark)
    joined = join(stream, stream, sj.band("k", within=3), WINDOW, "left", partitions=1)
    truth = embedded(streams, sj.band("k", within=3), WINDOW, "left")
    assert truth.stats[-1]["matches"] > 100
    queries = [start(joined, tmp_path) for _ in range(2)]
    for query in queries:
        assert_same(results(joined, query), truth.table)


def test_times_before_1970(spark, tmp_path):
    streams = random_streams(seed=15, disorder=30)

    def old(table):
        stamps = pc.subtract(table["ts"].cast(pa.int64()), START + 10**9 * SECOND)
        return table.set_column(1, "ts", stamps.cast(table.schema.field("ts").type))

    streams = Streams(*([old(table) for table in tables] for tables in streams.sides))
    joined = join(*streams.write(tmp_path / "in").read(spark), sj.band("k", within=3), WINDOW, partitions=2)
    result, _ = run(joined, tmp_path)
    truth = embedded(streams, sj.band("k", within=3), WINDOW)
    assert truth.stats[-1]["late_left"] > 5
    assert_same(result, truth.table)


def test_a_side_that_is_silent_for_long(spark, tmp_path):
    """By idle_after the watermark goes on without it, so that unmatched rows come out."""
    streams = random_streams(seed=16, batches=4, rows=60, disorder=0)
    right = [table.slice(0, 0) if batch > 0 else table for batch, table in enumerate(streams.right)]
    streams = Streams(streams.left, right)
    window = sj.interval("1s", "1s", time="ts", lateness="0s", idle_after="1ms")
    files = streams.write(tmp_path / "in")
    result, _ = run(join(*files.read(spark), sj.equal("sym"), window, "left", partitions=2), tmp_path)
    # The second micro-batch shows the silence. From then on left rows are final a micro-batch later, but for
    # those of the last second. Rows without a key or a timestamp are final at once.
    unmatched = result.filter(pc.is_null(result["id_right"]))
    batches = Counter(id_.removeprefix("left")[0] for id_ in unmatched["id"].to_pylist())
    assert batches["1"] > 40
    assert batches["2"] > 40
    last = streams.left[3]
    assert batches["3"] == pc.sum(pc.or_(pc.is_null(last["sym"]), pc.is_null(last["ts"]))).as_py()


def test_partitions_are_those_of_the_session_unless_given(spark, tmp_path):
    files = random_streams(seed=13, batches=1, rows=10).write(tmp_path / "in")
    on = sj.band("k", within=3)
    join(*files.read(spark), on, WINDOW, partitions=64)  # on purpose, so without a warning
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    assert "3: cells" in repr(explain(*files.read(spark), on, WINDOW))
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    with pytest.warns(
        UserWarning, match="200 partitions, by spark.sql.shuffle.partitions: each costs"
    ) as caught:
        join(*files.read(spark), on, WINDOW)
    assert caught[0].filename == __file__
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"
