"""Streaming operators behind a join: event_time= carries Spark's watermark on, and nothing is lost there."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812
from spark.streams import (
    SECOND,
    Streams,
    counted,
    embedded,
    random_streams,
    run,
    times,
)

from slidejoin.spark import join

ON = sj.band("k", within=8)
WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")


def test_a_windowed_aggregation(spark, tmp_path):
    """Rows come in disorder, some late; the counts of closed windows are nonetheless those of all pairs."""
    streams = random_streams(seed=61, batches=4)
    truth = embedded(streams, ON, WINDOW)
    joined = join(*streams.write(tmp_path / "in").read(spark), ON, WINDOW, partitions=2, event_time="at")
    assert joined.columns == [*truth.table.column_names, "at"]
    windows = joined.groupBy(F.window("at", "5 seconds")).agg(F.count("*").alias("pairs"))
    result, _ = run(windows.select(F.col("window.end").alias("end"), "pairs"), tmp_path)

    width = 5 * SECOND
    stamps = np.maximum(*(truth.table[name].cast(pa.int64()).to_numpy() for name in ("ts", "ts_right")))
    ends = Counter(((stamps // width + 1) * width).tolist())
    # Spark closes a window when the latest time of a pair is so far behind its end, in a micro-batch without
    # rows at the end.
    delay = 3 * SECOND + 3 * SECOND
    last = stamps.max() - delay
    closed = {end: pairs for end, pairs in ends.items() if end <= last}
    assert len(closed) >= 5
    got = dict(zip(result["end"].cast(pa.int64()).to_pylist(), result["pairs"].to_pylist(), strict=True))
    assert len(got) == result.num_rows, "a window comes once"
    assert got == closed


def test_a_join_behind_a_join(spark, tmp_path):
    """Three streams; no row is late, so all triples come, whatever the micro-batches."""
    rng = np.random.default_rng(62)

    def stream(name, batches=3, rows=60):
        tables = []
        for batch in range(batches):
            ts = (batch + rng.random(rows)) * 4 * SECOND - rng.random(rows) * 2 * SECOND
            k = pa.array(rng.integers(0, 60, rows), pa.int64())
            tables.append(
                pa.table({"id": [f"{name}{batch}-{i}" for i in range(rows)], "ts": times(ts), "k": k})
            )
        return tables

    one, two, three = stream("a"), stream("b"), stream("c")
    first = Streams(one, two)
    third = Streams(three, three).write(tmp_path / "third").read(spark)[0]
    window = sj.interval("2s", "1s", time="ts", lateness="2500ms")
    pairs = join(
        *first.write(tmp_path / "in").read(spark), ON, window, partitions=2, event_time="at", name="pairs"
    )
    onward = sj.interval("1s", "3s", time=("at", "ts"), lateness="5s")
    on = sj.band("k_right", "k", within=5)
    triples = join(pairs, third, on, onward, partitions=2, suffixes=("", "_c"), name="triples")
    result, _ = run(triples, tmp_path)

    a, b, c = (pa.concat_tables(tables).to_pydict() for tables in (one, two, three))
    expected = Counter()
    seconds = [np.array([stamp.timestamp() for stamp in side["ts"]]) for side in (a, b, c)]
    keys = [np.array(side["k"]) for side in (a, b, c)]
    gap = seconds[1][None] - seconds[0][:, None]
    for i, j in np.argwhere((abs(keys[1][None] - keys[0][:, None]) <= 8) & (gap >= -2) & (gap <= 1)):
        ahead = seconds[2] - max(seconds[0][i], seconds[1][j])
        for n in np.flatnonzero((abs(keys[2] - keys[1][j]) <= 5) & (ahead >= -1) & (ahead <= 3)):
            expected[a["id"][i], b["id"][j], c["id"][n]] += 1
    assert expected.total() > 500
    assert counted(result.select(["id", "id_right", "id_c"])) == expected
