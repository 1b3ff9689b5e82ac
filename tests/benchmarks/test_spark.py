"""The Spark benchmark in its smallest form, and what its figures rest on."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spark_files import LENGTH, Answer, Streams, file_of
from slidejoin.errors import StateError
from slidejoin.run.session import SparkError, check_spark

CLAIMS = {
    "ours / the other checkout, 5,000-row": ">= 2.2",
    "ours / the other checkout, 10,000-row": ">= 2",
    "ours / work-around, HDFS-backed store": ">= 5",
    "ours / work-around, RocksDB store": ">= 12",
    "ours / empty task, 5,000-row": ">= 0.85",
    "ours / empty task, 10,000-row": ">= 0.8",
    "time of ours / of the other checkout": "<= 0.6",
    "ours, join and save, of a task": "<= 30",
    "processor time a row, 3 cores and partitions / 2, 5,000-row": "<= 1.3",
    "processor time a row, 3 cores and partitions / 2, 10,000-row": "<= 1.3",
    "batch mode, ours / Spark's bucketed range join": ">= 2",
    "ours after a restart": "<= 6",
}


def skip_without_java():
    try:
        check_spark()
    except SparkError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(
    os.environ.get("SLIDEJOIN_TESTS") != "long", reason="SLIDEJOIN_TESTS=long: a minute, most of it Spark's"
)
def test_smoke_run_fills_the_whole_table(tmp_path):
    """It starts Spark, all streaming queries and a restart, as the full run does; but no other checkout."""
    skip_without_java()
    file = tmp_path / "spark.json"
    # In a process of its own: a session of other tests, with other settings, may be alive in this one.
    command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "bench", "spark", "--quick"]
    done = subprocess.run(
        [*command, "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "SLIDEJOIN_OTHER"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text(encoding="utf-8"))
    results = report["results"]
    claims = {result["what"]: result["target"] for result in results if result["target"]}
    assert len(claims) == len(CLAIMS)
    for what, target in CLAIMS.items():
        assert [found for name, found in claims.items() if name.startswith(what)] == [target]
    other = [result for result in results if "the other checkout" in result["what"]]
    assert all("SLIDEJOIN_OTHER" in result["note"] for result in other)
    assert all(result["value"] > 0 for result in results if result not in other)
    assert len({result["what"] for result in results}) == len(results)
    assert report["quick"]


def test_who_does_not_ask_for_it_needs_no_spark():
    code = "import sys, benchmarks; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- streams ---

STREAMS = Streams(window=64, batches=(100, 60, 60))


def test_rows_come_at_a_steady_rate_and_a_window_holds_what_it_says():
    left, right = (pa.concat_tables(side) for side in zip(*map(STREAMS.sides, range(3)), strict=True))
    assert left.schema == right.schema
    times = [side["ts"].cast(pa.int64()).to_numpy() for side in (left, right)]
    assert (np.diff(np.stack(times, axis=1).ravel()) > 0).all()
    held = np.searchsorted(times[1], times[0][-1]) - np.searchsorted(times[1], times[0][-1] - LENGTH * 10**6)
    assert held == pytest.approx(64, abs=1)
    assert left["id"].to_pylist() == right["id"].to_pylist() == list(range(110))


def test_files_are_the_rows_and_their_times_are_in_order(tmp_path):
    STREAMS.write(tmp_path)
    STREAMS.write(tmp_path / "later", 2)
    for number in range(3):
        for side, table in zip(("left", "right"), STREAMS.sides(number), strict=True):
            assert pq.read_table(file_of(tmp_path, side, number)).equals(table)
            assert file_of(tmp_path / "later", side, number).exists() == (number == 2)
    ages = [file_of(tmp_path, "left", number).stat().st_mtime for number in range(3)]
    assert ages == sorted(set(ages))


def test_answers_are_those_of_all_pairs():
    sides = list(zip(*map(STREAMS.sides, range(3)), strict=True))
    left, right = (pa.concat_tables(side) for side in sides)
    near = {
        name: right[name].cast(pa.int64()).to_numpy()[None, :]
        - left[name].cast(pa.int64()).to_numpy()[:, None]
        for name in ("key", "ts")
    }
    workload = STREAMS.workload
    pairs = (near["key"] >= workload.lower) & (near["key"] <= workload.upper)
    pairs &= np.abs(near["ts"]) <= LENGTH * 10**6
    batch = np.repeat(range(3), [50, 30, 30])
    later = np.maximum(batch[:, None], batch[None, :])
    expected = []
    for number in range(3):
        lefts, rights = np.nonzero(pairs & (later == number))
        expected.append(Answer.of(len(lefts), int(lefts.sum()), int(rights.sum())))
    assert STREAMS.answers() == expected
    assert expected[2].matches / 60 == pytest.approx(STREAMS.matches, rel=0.3)


# --- wrong answers ---


def test_a_wrong_answer_stops_the_benchmark():
    race = pytest.importorskip("benchmarks.spark_race", reason="needs PySpark")
    right = [Answer(1000, 7), Answer(1000, 8)]
    race.check("ours", right, right)
    race.check_about("empty task", [Answer(990, 0), Answer(1010, 0)], right)
    with pytest.raises(StateError, match="the embedded engine finds"):
        race.check("ours", [Answer(1000, 7), Answer(1000, 9)], right)
    with pytest.raises(StateError, match="about as many"):
        race.check_about("empty task", [Answer(990, 0), Answer(700, 0)], right)
