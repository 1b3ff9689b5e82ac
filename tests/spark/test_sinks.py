"""Spark's sinks take a joined stream as any other, and a query goes on where it was stopped."""

import shutil
from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from spark.streams import SIDES, arrow, assert_same, embedded, random_streams

from slidejoin.spark import join, metrics

ON = sj.equal("sym") & sj.band("k", within=20)
WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")


def test_foreach_batch(spark, tmp_path):
    """The rows of each micro-batch come with it, in any order."""
    streams = random_streams(seed=71, batches=2)
    joined = join(*streams.write(tmp_path / "in").read(spark), ON, WINDOW, "right", partitions=2)
    got = defaultdict(list)
    writer = joined.writeStream.foreachBatch(lambda frame, batch: got[batch].append(arrow(frame)))
    writer.option("checkpointLocation", str(tmp_path / "to")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(got) == [0, 1]
    assert [len(tables) for tables in got.values()] == [1, 1]
    assert_same(pa.concat_tables(table for tables in got.values() for table in tables),
                embedded(streams, ON, WINDOW, "right").table)  # fmt: skip


def test_parquet_and_a_restart_in_another_zone(spark, tmp_path):
    """Half of the files, then the others: the same rows as without the stop. Then another join is refused."""
    streams = random_streams(seed=72, batches=4)
    files = streams.write(tmp_path / "all")
    for side in SIDES:
        (tmp_path / "in" / side).mkdir(parents=True)

    def query(on=ON, zone="UTC"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        here = type(files)(tmp_path / "in", files.schemas)
        joined = join(*here.read(session), on, WINDOW, "left", partitions=2, state_dir=tmp_path / "state")
        writer = joined.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "to")).start(str(tmp_path / "out"))
        query.awaitTermination()
        return query

    def add(batches):
        for side in SIDES:
            for batch in batches:
                name = f"{batch:04}.parquet"
                shutil.copy2(tmp_path / "all" / side / name, tmp_path / "in" / side / name)

    add([0, 1])
    query()
    add([2, 3])
    again = query(zone="Asia/Kolkata")
    assert metrics(again)["joins"]["join"]["batch"] == 3
    assert_same(arrow(spark.read.parquet(str(tmp_path / "out"))), embedded(streams, ON, WINDOW, "left").table)

    for side, tables in zip(SIDES, streams.sides, strict=True):
        pq.write_table(tables[0], tmp_path / "in" / side / "0004.parquet")
    with pytest.raises(
        StreamingQueryException, match="the state of this query is of another join: its join: "
    ):
        query(on=sj.equal("sym") & sj.band("k", within=21))
