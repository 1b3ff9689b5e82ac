"""The example script for Spark and the code of the guide, run as a user would."""

import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "spark_streams.py"


def read(directory):
    """Rows of all files: name, time, degrees."""
    rows = []
    for file in sorted(directory.glob("*.csv")):
        with file.open() as lines:
            rows += [
                (name, datetime.fromisoformat(ts), float(value)) for name, ts, value in csv.reader(lines)
            ]
    return rows


def test_it_prints_what_brute_force_finds(tmp_path):
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Spark needs Java: install openjdk-17-jre-headless")
    # A short run: compiling it well would take most of its time.
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.sql.codegen.wholeStage false\nspark.sql.codegen.factoryMode NO_CODEGEN\n"
    )
    environment = {
        **os.environ,
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_CONF_DIR": str(tmp_path),
    }
    run = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr[-3000:]
    ovens, probes = (read(tmp_path / side) for side in ("ovens", "probes"))
    expected = [
        f"{oven} {probe} {a} {b}"
        for oven, at, a in ovens
        for probe, when, b in probes
        if a - 0.2 <= b <= a + 0.2 and abs(when - at) <= timedelta(seconds=2)
    ]
    *lines, last = run.stdout.splitlines()
    assert sorted(lines) == sorted(expected)
    assert len(lines) > 20
    assert last.startswith(f"{len(expected)} readings agree")


def test_the_guide(spark, tmp_path):
    """The code of docs/guide/spark.md, with streams of three trades and three quotes."""
    (code,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs/guide/spark.md").read_text("utf-8"), re.DOTALL)
    rows = {"trades": [("A", 10.00, 0), ("B", 55.20, 1), ("A", 10.40, 3)],
            "quotes": [("A", 10.04, 1), ("B", 55.30, 1), ("A", 10.38, 2)]}  # fmt: skip
    streams = {}
    for name, values in rows.items():
        symbol, price, ts = zip(*values, strict=True)
        times = pa.array([datetime(2024, 3, 1, 9, 30, second) for second in ts], pa.timestamp("us", "UTC"))
        (tmp_path / name).mkdir()
        table = pa.table({"symbol": symbol, "price": price, "ts": times})
        pq.write_table(table, tmp_path / name / "0.parquet")
        schema = "symbol string, price double, ts timestamp"
        streams[name] = spark.readStream.schema(schema).parquet(str(tmp_path / name))
    exec(compile(code.replace('"near/', f'"{tmp_path}/near/'), "docs/guide/spark.md", "exec"), streams)
    (query,) = spark.streams.active
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "near/out")).collect()
    assert sorted((row.price, row.price_right) for row in found) == [(10.00, 10.04), (10.40, 10.38)]
