"""After one window the state grows no more, also where keys never come again and groups fall silent."""

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from fault.spark_state import Store
from pyspark.sql.streaming.stateful_processor import TimerValues
from spark.streams import (
    LONG,
    SECOND,
    Streams,
    assert_same,
    combined,
    embedded,
    parts,
    run,
    times,
    watermarks,
)

from slidejoin.spark import join, operator, tasks
from slidejoin.spark.prepare import prepare

BATCHES = 40 if LONG else 9
PARTITIONS = 2
WINDOW = sj.interval("3s", "2s", time="ts", lateness="500ms")
ALIVE = 4  # micro-batches that a window and the lateness reach into


def rising_streams(batches, rows=60):
    """Two seconds in each micro-batch; keys that only rise, and in each another text.

    In the end a row without a key, far ahead, lets the watermark pass all others.
    """
    rng = np.random.default_rng(41)

    def table(side, batch):
        columns = {
            "id": [f"{side}{batch}-{row}" for row in range(rows)],
            "ts": times((batch + rng.random(rows)) * 2 * SECOND),
            "k": pa.array(batch * 10**6 + rng.integers(0, 200, rows), pa.int64()),
            "text": pa.array([f"text {batch}"] * rows, pa.string()),
        }
        return pa.table(columns)

    def ahead(schema):
        return pa.table([["ahead"], times([10**6 * SECOND]), *([None] for _ in range(2))], schema=schema)

    sides = [[table(side, batch) for batch in range(batches)] for side in ("left", "right")]
    return Streams(*([*tables, ahead(tables[0].schema)] for tables in sides))


def test_state_stays_flat(spark, tmp_path):
    streams = rising_streams(BATCHES)
    files = streams.write(tmp_path / "in")
    joins = {"rising keys": (sj.band("k", within=3), "left"), "silent groups": (sj.equal("text"), "inner")}
    frames = {
        name: join(*files.read(spark), on, WINDOW, how, partitions=PARTITIONS)
        for name, (on, how) in joins.items()
    }
    results, query = run(combined(frames), tmp_path)
    progress = query.recentProgress
    assert len(progress) == BATCHES + 2
    names = progress[0]["observedMetrics"]
    observed = [[each["observedMetrics"][name].asDict() for each in progress] for name in names]
    steady, later = slice(3, 6), slice(6, BATCHES)
    for name, result in parts(results, frames).items():
        on, how = joins[name]
        truth = embedded(streams, on, WINDOW, how, (500, 500))
        assert_same(result, truth.table)
        stored = [each["stored_left"] + each["stored_right"] for each in truth.stats]
        assert stored[-1] == 0
        # Which figures are this join's is told by their sum of matches.
        (figures,) = (f for f in observed if sum(each["matches"] for each in f) == truth.stats[-1]["matches"])
        assert max(each["stored"] for each in figures[later]) <= max(stored[later]) * 1.1
        size = [each["state_bytes"] for each in figures]
        assert 0 < max(size[later]) <= max(size[steady]) * 1.1, name
        assert size[-1] == figures[-1]["stored"] == 0

    # A group has a head, a chunk of each side for each micro-batch, and a timer, which Spark files twice.
    most = 1 + PARTITIONS * (1 + 2 * ALIVE + 2)
    for place in range(len(joins)):
        rows = [each["stateOperators"][place]["numRowsTotal"] for each in progress]
        assert 1 < max(rows) <= most, rows
        assert rows[-1] == 1, "nothing is left but the name of the join"


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("cached", [True, False])
def test_what_is_written_for_a_group_stays_flat(spark, tmp_path, monkeypatch, how, cached):
    """The operator without Spark, for a long time: neither rows nor what is noted about them pile up."""
    batches = 2000 if LONG else 150
    streams = rising_streams(batches, rows=3)
    files = Streams([streams.left[0]], [streams.right[0]]).write(tmp_path / "in")
    on, suffixes = sj.band("k", within=3), ("", "_right")
    prepared = prepare(*files.read(spark), on, WINDOW, how, suffixes, partitions=1, event_time=None)
    text = prepared.recipe.to_json()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store, sizes = Store(), []
    for number, mark in enumerate(watermarks(streams, (500, 500))[:batches]):
        handle = store.task()
        processor = operator.JoinGroups(text)
        processor.init(handle)
        frames = [
            routed.to_pandas()
            for side, tables in enumerate(streams.sides)
            for routed in tasks.route_rows(text, side, iter(tables[number].to_batches()))
        ]
        handle.key = prepared.recipe.ids[0]
        list(processor.handleInputRows((handle.key,), iter(frames), TimerValues(0, mark // 1000)))
        store.commit(handle)
        if not cached:
            monkeypatch.setattr(operator, "_joins", operator.LiveJoins())
        (group,) = store.groups.values()
        stored = [value for row in [*group.values.values(), *group.maps["chunks"].values()] for value in row]
        sizes.append(sum(len(value) for value in stored if not isinstance(value, int)))
    assert max(sizes[-20:]) <= max(sizes[5:25]) * 1.1
