"""Spark's own join, with a range condition, gives the rows of ours on batches: all predicates, all types."""

import itertools

import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import (
    HOWS,
    LONG,
    Streams,
    arrow,
    assert_same,
    combined,
    embedded_whole,
    parts,
    random_streams,
)

from slidejoin.spark import join

# Predicates with the same in Spark SQL. To Spark NaN equals NaN and is above all numbers.
CONDITIONS = {
    "band": (sj.band("k", within=3), "r.k BETWEEN l.k - 3 AND l.k + 3"),
    "bands": (
        sj.bands("k", ranges=[(-60, -48), (-2, 1), (50, 51)]),
        "(r.k - l.k BETWEEN -60 AND -48 OR r.k - l.k BETWEEN -2 AND 1 OR r.k - l.k BETWEEN 50 AND 51)",
    ),
    "floats": (
        sj.band("x", lower=-0.1, upper=0.3),
        "NOT isnan(l.x) AND NOT isnan(r.x) AND r.x BETWEEN l.x - 0.1D AND l.x + 0.3D",
    ),
    "equal": (sj.equal("sym"), "r.sym = l.sym"),
    "equal and band": (
        sj.equal("sym") & sj.band("k", lower=-20, upper=5),
        "r.sym = l.sym AND r.k BETWEEN l.k - 20 AND l.k + 5",
    ),
    "less": (sj.less("x"), "NOT isnan(l.x) AND NOT isnan(r.x) AND l.x < r.x"),
    "not equal": (sj.not_equal("sym"), "l.sym <> r.sym"),
}
WINDOW = sj.interval("1s", "500ms", time="ts")
TIMED = "r.ts BETWEEN l.ts - INTERVAL '1' SECOND AND l.ts + INTERVAL '0.5' SECOND"
JOINS = list(itertools.product(CONDITIONS, HOWS))
if not LONG:  # half of the join types for each predicate, the other half for the next
    JOINS = [pair for number, pair in enumerate(JOINS) if (number // len(HOWS) + number) % 2]


def native(left, right, condition, how):
    """Spark's own join, its columns named as ours."""
    left.createOrReplaceTempView("l_rows")
    right.createOrReplaceTempView("r_rows")
    names, one, other, kind = ["l.*"], "l", "r", how.replace("_", " ").upper()
    if how in ("right_semi", "right_anti"):  # Spark has these for the left side only
        names, one, other, kind = ["r.*"], "r", "l", kind.replace("RIGHT", "LEFT")
    elif how not in ("left_semi", "left_anti"):
        names += [f"r.{name} AS {name}_right" for name in right.columns]
    return left.sparkSession.sql(
        f"SELECT {', '.join(names)} FROM {one}_rows {one} {kind} JOIN {other}_rows {other} "
        f"ON {condition} AND {TIMED}"
    )


@pytest.mark.parametrize("shift", range(3 if LONG else 1))
def test_batches_give_the_rows_of_sparks_own_join(spark, tmp_path, shift):
    streams = random_streams(seed=81)
    files = streams.write(tmp_path / "in")
    ours, theirs = {}, {}
    for number, (name, how) in enumerate(JOINS):
        on, condition = CONDITIONS[name]
        partitions = (1, 2, 8)[(number + shift) % 3]
        ours[f"{name} {how}"] = join(*files.read_whole(spark), on, WINDOW, how, partitions=partitions)
        theirs[f"{name} {how}"] = native(*files.read_whole(spark), condition, how)
    got = parts(arrow(combined(ours)), ours)
    wanted = parts(arrow(combined(theirs)), theirs)
    for name, how in JOINS:
        result = got[f"{name} {how}"]
        assert result.num_rows > 10, (name, how)
        assert_same(result, wanted[f"{name} {how}"])
        assert_same(result, embedded_whole(streams, CONDITIONS[name][0], WINDOW, how))


def test_a_batch_of_nothing(spark, tmp_path):
    """Empty sides, and a side in more files than the other."""
    streams = random_streams(seed=82)
    empty = Streams([streams.left[0].slice(0, 0)], streams.right)
    on = CONDITIONS["band"][0]
    frames = {}
    for how in HOWS:
        files = empty.write(tmp_path / how)
        frames[how] = join(*files.read_whole(spark), on, WINDOW, how, partitions=2)
    for how, result in parts(arrow(combined(frames)), frames).items():
        assert_same(result, embedded_whole(empty, on, WINDOW, how))
