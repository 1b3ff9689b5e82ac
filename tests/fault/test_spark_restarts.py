"""Restarts of a query on Spark: replayed micro-batches, another join, zone or number of partitions."""

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from fault.spark_runs import BUSY, Driver, Streams, difference, output

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
SCRIPT = Path(__file__).with_name("spark_restarts.py")
OF_ANOTHER_JOIN = {  # what the error names, and how to mend it
    "predicate": ["its join: band('k', within=3)", "now: band('k', within=4)", "call join as before"],
    "window": ["its window: ", "'3s'", "now: ", "'4s'", "or start with a new checkpointLocation"],
    "inner": ["its how: 'left', now: 'inner'", "call join as before"],
    "full": ["its how: 'left', now: 'full'", "call join as before"],
    "schema": ["left columns", "right columns", "'more'", "call join as before"],
}


@pytest.mark.skipif(not LONG, reason="SLIDEJOIN_TESTS=long: test_task.py and test_sinks.py have each part")
def test_restarts(tmp_path):
    streams = Streams(tmp_path / "waiting", batches=6 if LONG else 4)
    rest = list(range(4, len(streams.tables[0])))
    settings = {"data": str(tmp_path / "data"), "waiting": str(tmp_path / "waiting"), "rest": rest}
    for _ in range(3):
        for path in ("data", "left", "left.checkpoint", "full", "full.checkpoint", "state"):
            shutil.rmtree(tmp_path / path, ignore_errors=True)
        with Driver(tmp_path, SCRIPT, master="local[2]", **settings) as driver:
            code, printed = driver.wait()
            assert code == 0, driver.errors()
        if BUSY not in printed:
            break
    told = json.loads(printed)
    assert {name: run["error"] for name, run in told["went on"].items()} == dict.fromkeys(told["went on"], "")
    assert [run["batches"][0] for run in told["went on"].values()] == [0, 2, 1, 3, 0]
    for name, parts in OF_ANOTHER_JOIN.items():
        message = told["refused"][name]["error"]
        said = f"{name}: {message[:2000]}"
        assert "StateError: the state of this query is of another join" in message, said
        assert [part for part in parts if part not in message] == [], said
    assert not any(run["batches"] for run in told["refused"].values())
    assert difference(output(tmp_path / "left"), streams.expected("left")) == ""
    assert difference(output(tmp_path / "full"), streams.expected("full")) == ""
    rows = sum(len(table) for side in streams.tables for table in side)
    assert told["went on"]["full"]["rows"] == rows, "each stream is read once: halves would see other batches"
