"""After one window the state grows no more, also where keys never come again."""

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import (
    LONG,
    SECOND,
    Streams,
    assert_same,
    combined,
    crossed,
    embedded,
    parts,
    run,
    times,
)

from slidejoin.spark import join, state
from slidejoin.spark.marks import Place
from slidejoin.spark.prepare import prepare
from slidejoin.spark.task import TIDY, Task

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
    joins = {"rising": (sj.band("k", within=3), "left"), "silent": (sj.equal("text"), "inner")}
    frames = {
        name: join(
            *files.read(spark),
            on,
            WINDOW,
            how,
            partitions=PARTITIONS,
            name=name,
            state_dir=tmp_path / "state",
        )
        for name, (on, how) in joins.items()
    }
    results, query = run(combined(frames), tmp_path)
    assert len(query.recentProgress) == BATCHES + 1
    for name, result in parts(results, frames).items():
        on, how = joins[name]
        truth = embedded(streams, on, WINDOW, how)
        assert_same(result, truth.table)
        for batch in range(6, BATCHES):
            runs = [run for run in state(tmp_path / "state", batch) if run.join == name]
            stored = truth.stats[batch]["stored_left"] + truth.stats[batch]["stored_right"]
            # A run is dropped as a whole, so up to a micro-batch of each side is there too long; a few rows
            # are copied.
            assert stored <= sum(run.rows for run in runs) <= 1.1 * stored + 240
            assert len(runs) <= 2 * PARTITIONS * ALIVE


def test_files_of_a_long_stream_stay_few(spark, tmp_path):
    """The task without Spark, for a long time: neither files nor runs pile up, and rows are right."""
    batches = 2000 if LONG else 260
    streams = rising_streams(batches, rows=3)
    window = sj.interval("300s", "200s", time="ts", lateness="500ms")
    files = Streams([streams.left[0]], [streams.right[0]]).write(tmp_path / "in")
    on = sj.band("k", within=3)
    arguments = (*files.read(spark), on, window, "left", ("", "_right"), 1, None, tmp_path / "state", "join")
    plan = prepare(*arguments).recipe
    found = []
    for number in range(batches):
        place = Place("query", number, "run", number, 0, 1, plan.call)
        sides = [tables[number] for tables in streams.sides]
        found += Task(plan, place, iter(crossed(plan, sides))).results()
        runs = state(tmp_path / "state")
        assert len(runs) <= 2 * 4 * 5
        assert len(list((tmp_path / "state").rglob("*.head"))) <= 101 + TIDY
    names = [run.file for run in runs]
    assert len(list((tmp_path / "state").rglob("*.arrow"))) <= 2 * 4 * 5 + 4 * (101 + TIDY)
    assert all((tmp_path / "state" / name).exists() for name in names)
    truth = embedded(Streams(*(tables[:batches] for tables in streams.sides)), on, window, "left")
    assert_same(pa.concat_tables(found), truth.table)
