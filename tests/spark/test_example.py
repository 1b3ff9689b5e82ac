"""The example script for Spark, run as a user would, and what it prints compared with brute force."""

import csv
import os
import pathlib
import shutil
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "spark_streams.py"


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
