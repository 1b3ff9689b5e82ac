"""Figures of a running join equal the truth: in Spark's progress, in a listener and in metrics()."""

import json
import time

import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from pyspark.sql.streaming import StreamingQueryListener
from spark.streams import embedded, random_streams, run

from slidejoin.spark import join, metrics

COUNTERS = ("matches", "late_left", "late_right", "null_left", "null_right")
HITS = ("live_hits", "file_hits", "restores")
LEVELS = ("groups", "stored", "state_bytes", "busy_ms", "busiest_ms", "busiest_group")
FIGURES = {"rows_left", "rows_right", "copies", "results", *COUNTERS, *HITS, *LEVELS}


class Listener(StreamingQueryListener):
    """Keeps what a listener of the user sees."""

    def __init__(self):
        self.seen = []
        self.ended = False

    def onQueryStarted(self, event):  # noqa: N802
        pass

    def onQueryProgress(self, event):  # noqa: N802
        for name, row in event.progress.observedMetrics.items():
            self.seen.append((event.progress.batchId, name, row.asDict()))

    def onQueryTerminated(self, event):  # noqa: N802, ARG002
        self.ended = True


@pytest.fixture
def listener(spark):
    added = Listener()
    spark.streams.addListener(added)
    yield added
    spark.streams.removeListener(added)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_figures_of_every_micro_batch(spark, tmp_path, listener):
    """An equality: no row is copied, so that even the stored rows of all groups are those of one join."""
    streams = random_streams(seed=31)
    window = sj.interval("3s", "2s", time="ts", lateness="3s")
    joined = join(*streams.write(tmp_path / "in").read(spark), sj.equal("sym"), window, "left", partitions=2)
    result, query = run(joined, tmp_path)
    truth = embedded(streams, sj.equal("sym"), window, "left")

    figures = metrics(query)
    assert json.loads(json.dumps(figures)) == figures, "plain values"
    ((name, mine),) = figures["joins"].items()
    assert name.startswith("slidejoin.")
    assert set(mine["last"]) == FIGURES
    assert figures["batch"] == len(streams.left) == query.lastProgress["batchId"]
    assert 0 < figures["state_rows"] < 50
    assert figures["state_bytes"] > 0

    seen = {
        progress["batchId"]: dict(progress["observedMetrics"][name].asDict())
        for progress in query.recentProgress
    }
    zero = dict.fromkeys(truth.stats[0], 0)
    for batch, (before, after) in enumerate(zip([zero, *truth.stats], truth.stats, strict=False)):
        got = seen[batch]
        assert [got[each] for each in COUNTERS] == [after[each] - before[each] for each in COUNTERS]
        assert got["stored"] == after["stored_left"] + after["stored_right"]
        rows = len(streams.left[0]) if batch < len(streams.left) else 0
        assert (got["rows_left"], got["rows_right"], got["copies"]) == (rows, rows, 2 * rows)
        assert got["groups"] == 2
        assert got["busiest_group"] in (0, 1)
        assert 0 < got["busiest_ms"] <= got["busy_ms"] < 60_000
        assert 0 < got["state_bytes"] < 10**6
        assert got["live_hits"] + got["file_hits"] == (2 if batch else 0)
        assert got["restores"] == 0
    assert mine["last"] == seen[len(streams.left)]
    assert set(mine["total"]) == FIGURES - set(LEVELS), "levels have no sum"
    for figure in mine["total"]:
        assert mine["total"][figure] == sum(each[figure] for each in seen.values()), figure
    assert mine["total"]["results"] == result.num_rows
    assert mine["total"]["matches"] == truth.stats[-1]["matches"]

    wait_for(lambda: listener.ended and len(listener.seen) >= len(seen))
    assert {(batch, its): got for batch, its, got in listener.seen} == {
        (batch, name): seen[batch] for batch in seen
    }


def test_a_query_without_joins_and_one_that_has_not_run(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        assert metrics(query)["joins"] == {}
    finally:
        query.stop()
