"""Figures of a join equal the truth, in every micro-batch."""

import json
import re
import sys

import pytest

import slidejoin as sj
from slidejoin.errors import SpecError

pytest.importorskip("pyspark")

from spark.streams import embedded, random_streams, run

from slidejoin.spark import join, metrics
from slidejoin.spark.files import open_folder
from slidejoin.spark.marks import batches

COUNTERS = ("matches", "late_left", "late_right", "null_left", "null_right")
SUMS = {"rows_left", "rows_right", "copies", "results", "written_bytes", "busy_ms", *COUNTERS}
LEVELS = {"partitions", "stored", "runs", "busiest_ms", "busiest_partition", "watermark"}


def test_figures_of_every_micro_batch(spark, tmp_path):
    """An equality: no row is copied, so that the stored rows of all partitions are those of one join."""
    streams = random_streams(seed=31)
    window = sj.interval("3s", "2s", time="ts", lateness="3s")
    place = tmp_path / "state"
    joined = join(
        *streams.write(tmp_path / "in").read(spark),
        sj.equal("sym"),
        window,
        "left",
        partitions=2,
        state_dir=place,
    )
    result, query = run(joined, tmp_path)
    truth = embedded(streams, sj.equal("sym"), window, "left")
    figures = metrics(query)
    assert json.loads(json.dumps(figures)) == figures, "plain values"
    assert metrics(query, place) == metrics(str(query.id), str(place)) == figures
    mine = figures["joins"]["join"]
    assert figures["joins"].keys() == {"join"}
    assert mine["batch"] == len(streams.left) - 1
    assert mine["last"].keys() == SUMS | LEVELS
    assert mine["total"].keys() == SUMS
    last, before = truth.stats[-1], truth.stats[-2]
    rows = len(streams.left[-1])
    for name in COUNTERS:
        assert mine["total"][name] == last[name], name
        assert mine["last"][name] == last[name] - before[name], name
    assert mine["total"]["results"] == result.num_rows
    assert (mine["last"]["rows_left"], mine["last"]["rows_right"], mine["last"]["copies"]) == (
        rows,
        rows,
        2 * rows,
    )
    assert mine["last"]["partitions"] == 2
    assert mine["last"]["busiest_partition"] in (0, 1)
    assert 0 < mine["last"]["busiest_ms"] <= mine["last"]["busy_ms"] < 60_000
    assert mine["last"]["stored"] >= last["stored_left"] + last["stored_right"]
    assert 0 < mine["last"]["runs"] <= 24
    assert mine["last"]["watermark"].startswith("2024-01-01 00:00:1")
    folder = open_folder(str(place / str(query.id) / "join"))
    assert batches(folder) == list(range(len(streams.left)))


def test_a_query_without_joins(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        assert metrics(query, tmp_path / "nowhere") == {"joins": {}}
    finally:
        query.stop()


def test_no_join_in_this_process(monkeypatch):
    monkeypatch.setattr(sys.modules[metrics.__module__], "_used", {})
    with pytest.raises(SpecError, match=re.escape("give metrics(query, state_dir=...)")):
        metrics("an id")
