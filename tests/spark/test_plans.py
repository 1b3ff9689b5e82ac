"""What stands behind a join: sinks that read twice or in part, limits, unions and other sources."""

import shutil
from collections import defaultdict

import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from spark.streams import (
    SIDES,
    Files,
    arrow,
    assert_same,
    combined,
    embedded,
    parts,
    random_streams,
    run,
    start,
)

from slidejoin.spark import join, reason

ON = sj.band("k", within=3)
WINDOW = sj.interval("8s", "7s", time="ts", lateness="8s")


@pytest.fixture
def streams():
    return random_streams(seed=91, rows=60)


@pytest.fixture
def joined(spark, tmp_path, streams):
    """Makes a join of the streams."""
    files = streams.write(tmp_path / "in")

    def joined(how="inner", name="join", **options):
        given = {"partitions": 2, "state_dir": tmp_path / "state", **options}
        return join(*files.read(spark), ON, WINDOW, how, name=name, **given)

    return joined


def refused(frame, folder, *words):
    query = start(frame, folder)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    said = reason(caught.value)
    assert [word for word in words if word not in str(said)] == [], str(caught.value)[:3000]
    assert f"StateError: {said}\n" in str(caught.value)
    assert reason(query) == said


def each_batch(frame, folder, function):
    writer = frame.writeStream.foreachBatch(function).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "to")).start()
    query.awaitTermination()
    return query


# --- Micro-batches without rows ---


def test_the_first_micro_batch_has_no_rows(spark, tmp_path):
    """As that of Spark's rate source; it leaves state all the same."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    window = sj.interval("1s", "1s", time="timestamp", lateness="1s")
    frame = join(rows, rows, sj.equal("value"), window, partitions=2, state_dir=tmp_path / "state")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "to")).start()
    while not query.lastProgress or query.lastProgress["batchId"] < 2:
        query.awaitTermination(0.1)
    query.stop()
    assert query.recentProgress[0]["numInputRows"] == 0
    heads = tmp_path / "state" / str(query.id) / "join" / "heads" / f"{0:012d}"
    assert len(list(heads.glob("*.head"))) == 2


# --- foreachBatch ---


def test_a_batch_that_is_read_twice(spark, tmp_path, streams):
    """And with a job group of the user's own, which is the same after a restart."""
    whole = streams.write(tmp_path / "all")
    got = defaultdict(list)

    def read(frame, batch):
        frame.sparkSession.sparkContext.setJobGroup("my jobs", "read twice")
        got[batch] = [arrow(frame), arrow(frame)]

    for batches in ([0, 1], [2]):
        for side in SIDES:
            (tmp_path / "in" / side).mkdir(parents=True, exist_ok=True)
            for batch in batches:
                name = f"{side}/{batch:04}.parquet"
                shutil.copy2(tmp_path / "all" / name, tmp_path / "in" / name)
        sides = Files(tmp_path / "in", whole.schemas).read(spark)
        each_batch(
            join(*sides, ON, WINDOW, "left", partitions=2, state_dir=tmp_path / "state"), tmp_path, read
        )
    assert sorted(got) == [0, 1, 2]
    for number in (0, 1):
        assert_same(pa.concat_tables(tables[number] for tables in got.values()),
                    embedded(streams, ON, WINDOW, "left").table)  # fmt: skip


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_batch_of_which_a_part_is_read(tmp_path, joined, how):
    with pytest.raises(StreamingQueryException) as caught:
        each_batch(joined(how, partitions=8), tmp_path, lambda frame, _: frame.take(1))
    assert "in batch 1 of query" in str(caught.value)
    assert "cannot go on from batch 0: partitions" in str(caught.value)
    assert "a sink must read all of it" in str(caught.value)


# --- Plans ---


def test_a_limit(tmp_path, joined, streams):
    """Spark reads all rows of a stream behind it, so the join goes on."""
    found, query = run(joined("left").limit(7), tmp_path)
    assert len(query.recentProgress) == len(streams.left)
    assert len(found) == 7


def test_plans_that_renumber_partitions(tmp_path, joined):
    one, two = joined("left", "one"), joined("inner", "two")
    refused(one.coalesce(1), tmp_path, "coalesce()", "repartition()")
    refused(one.unionByName(two), tmp_path, "union()", "put repartition() between")


def test_two_joins_of_one_name(tmp_path, joined):
    frames = {"one": joined("left"), "two": joined("inner")}
    refused(combined(frames), tmp_path, "have one name", "join(..., name=...)")


def test_another_source_keeps_the_query_going(spark, tmp_path, streams):
    """Batches without rows for the join run no task of it; afterwards it goes on from its last state."""
    whole = streams.write(tmp_path / "all")
    other = random_streams(seed=93, rows=5, batches=8)
    other.write(tmp_path / "other all")

    def add(joined, others):
        for folder, batches in (("", joined), ("other ", others)):
            for side in SIDES:
                (tmp_path / f"{folder}in" / side).mkdir(parents=True, exist_ok=True)
                for batch in batches:
                    name = f"{side}/{batch:04}.parquet"
                    shutil.copy2(tmp_path / f"{folder}all" / name, tmp_path / f"{folder}in" / name)

    got = defaultdict(list)
    for step in (([0], range(3)), ([1, 2], range(3, 4)), ([], range(4, 8))):
        add(*step)
        sides = Files(tmp_path / "in", whole.schemas).read(spark)
        frame = join(*sides, ON, WINDOW, "full", partitions=2, state_dir=tmp_path / "state")
        third = Files(tmp_path / "other in", other.schemas).read(spark)[0]
        frames = {"join": frame, "other": third.select("id")}
        each_batch(combined(frames), tmp_path, lambda frame, batch: got[batch].append(arrow(frame)))
    found = parts(pa.concat_tables(tables[-1] for tables in got.values()), frames)
    assert len(got) == 9
    assert len(found["other"]) == 40
    assert_same(found["join"], embedded(streams, ON, WINDOW, "full").table)
