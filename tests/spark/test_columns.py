"""Picked columns on Spark: the rows of the whole join with these columns; nothing else crosses or is kept."""

import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import arrow, assert_same, embedded, embedded_whole, frame_of, random_streams, run
from spark.test_late import with_late

from slidejoin.spark import explain, join
from slidejoin.spark.prepare import prepare

ON = sj.equal("sym") & sj.band("k", within=20)
WINDOW = sj.interval("1s", "2s", time="ts")


def batches(spark, streams):
    return [frame_of(spark, pa.concat_tables(side)) for side in streams.sides]


@pytest.mark.parametrize(
    ("how", "columns"), [("full", ["x_right", "id", "sym_right"]), ("right_anti", ["x", "id"])]
)
def test_batches(spark, how, columns):
    streams = random_streams(seed=71, rows=60)
    frames = batches(spark, streams)
    result = join(*frames, ON, WINDOW, how, columns=columns, partitions=2)
    assert result.columns == columns
    assert_same(arrow(result), embedded_whole(streams, ON, WINDOW, how).select(columns))


def test_streams_with_late_rows(spark, tmp_path):
    streams = random_streams(seed=72)
    window = sj.interval("1s", "1s", time="ts", lateness="3s", late="return")
    columns = ["id_right", "x", "id"]
    truth = embedded(streams, ON, window)
    frames = streams.write(tmp_path / "in").read(spark)
    result = join(*frames, ON, window, columns=columns, partitions=2, event_time="at")
    assert result.columns == [*columns, "at", "late"]
    rows, _ = run(result, tmp_path)
    assert_same(rows.select([*columns, "late"]), with_late(truth, "inner").select([*columns, "late"]))


def test_what_is_not_needed_does_not_cross(spark):
    frames = batches(spark, random_streams(seed=73, rows=5))
    frames[1] = frames[1].withColumnRenamed("x", "a.`b")
    arguments = (ON, WINDOW, "inner", ("_l", "_r"), 2, None, None, "join")
    prepared = prepare(*frames, *arguments, ["a.`b", "id_l", "big_r"])
    assert [schema.names for schema in prepared.recipe.schemas] == [
        ["id", "ts", "k", "sym"], ["ts", "k", "a.`b", "sym", "big"]
    ]  # fmt: skip
    result = join(*frames, ON, WINDOW, suffixes=("_l", "_r"), columns=["a.`b", "id_l", "big_r"], partitions=2)
    assert result.columns == ["a.`b", "id_l", "big_r"]
    assert arrow(result).column_names == result.columns
    text = dict(explain(*frames, ON, WINDOW, columns=["id"], partitions=2).lines)["columns"]
    assert text == "'id' are returned; stored: left 'id', 'ts', 'k', 'sym'; right 'ts', 'k', 'sym'"


def test_errors_at_the_call(spark):
    frames = batches(spark, random_streams(seed=73, rows=5))
    with pytest.raises(sj.SchemaError, match=r"the result has no column 'idd'.*did you mean 'id'"):
        join(*frames, ON, WINDOW, columns=["idd"])
    with pytest.raises(sj.SchemaError, match="the result has no column 'id_right'"):
        join(*frames, ON, WINDOW, "left_semi", columns=["id_right"])
    with pytest.raises(sj.SpecError, match="twice"):
        join(*frames, ON, WINDOW, columns=["id", "id"])
    with pytest.raises(sj.SchemaError, match=r"left has no column 'k'; it has 'id', 'ts', 'x'.*names it"):
        join(frames[0].drop("k"), frames[1], ON, WINDOW, columns=["id"])
    with pytest.raises(sj.SchemaError, match="left has two columns 'k'"):
        join(frames[0].withColumnRenamed("x", "k"), frames[1], ON, WINDOW, columns=["id"])
