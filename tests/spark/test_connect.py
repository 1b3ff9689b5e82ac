"""Joins of streams by a client of Spark Connect, in a process of its own: it has no other session.

Needs more packages than PySpark: ``make test-spark-connect`` brings them.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc_status", reason="needs the packages of pyspark[connect]")

from spark.on_connect import ON, WINDOW
from spark.streams import assert_same, embedded, random_streams

HOWS = ("inner", "left", "left_semi")


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.skipif(
    importlib.util.find_spec("pyspark.sql.connect") is None, reason="this Spark has no Connect"
)
def test_streams(tmp_path):
    streams = random_streams(seed=17)
    streams.write(tmp_path)
    script = Path(__file__).with_name("on_connect.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, *HOWS], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-6000:]
    for how in HOWS:
        assert_same(pq.read_table(tmp_path / "to" / how), embedded(streams, ON, WINDOW, how).table)
