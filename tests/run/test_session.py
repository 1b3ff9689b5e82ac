"""What Spark needs, checked before it starts; its errors in one line."""

import os
import stat
import subprocess
import sys

import pytest

from slidejoin.run import session
from slidejoin.run.session import SparkError, check_spark, one_line

MEND = "install Java 17 or newer"


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Makes a command that answers as a Java of some version does."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def make(answer, exit_code=0, where="bin"):
        file = tmp_path / where / "java"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {exit_code}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return tmp_path

    return make


def test_java_that_is_new_enough(java):
    java('openjdk version "17.0.15" 2025-04-15')
    check_spark()
    java('java version "21" 2023-09-19 LTS')
    check_spark()


def test_java_home_goes_first(java, monkeypatch):
    home = java('openjdk version "17.0.15"', where="home/bin")
    java('openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(home / "home"))
    check_spark()


@pytest.mark.parametrize(
    ("answer", "exit_code", "says"),
    [
        ('openjdk version "11.0.2" 2019-01-15', 0, "is version 11"),
        ('java version "1.8.0_392"', 0, "is version 8"),
        ("nothing to say", 0, "does not answer"),
        ('openjdk version "17.0.15"', 1, "does not answer"),
    ],
)
def test_java_that_does_not_do(java, answer, exit_code, says):
    java(answer, exit_code)
    with pytest.raises(SparkError, match=says) as refused:
        check_spark()
    assert MEND in str(refused.value)
    assert "\n" not in str(refused.value)


def test_java_that_is_not_there(java, monkeypatch, tmp_path):  # noqa: ARG001
    with pytest.raises(SparkError, match="there is no java command.*" + MEND):
        check_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(SparkError, match="there is no java command"):
        check_spark()


@pytest.mark.parametrize("library", ["pyspark", "pandas"])
def test_library_that_is_not_there(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SparkError, match=rf"Spark needs {library}: pip install 'slidejoin\[spark\]'"):
        check_spark()


def test_our_own_error_in_a_task_is_the_one_shown():
    text = (
        "[STREAM_FAILED] Query failed\n  File x\nslidejoin.errors.StateError: a chunk is missing\n\n\tat org"
    )
    assert one_line(RuntimeError(text)) == "a chunk is missing"


def test_our_own_error_may_be_in_the_log_alone(tmp_path):
    log = tmp_path / "log"
    log.write_text("first\n\tat x\nslidejoin.errors.SpecError: no recipe\n SQLSTATE: XXKST\n")
    assert one_line(RuntimeError("[STREAM_FAILED] worker crashed"), log) == "no recipe"
    log.write_text("nothing of ours")
    assert one_line(RuntimeError("[STREAM_FAILED] worker crashed"), log) == "[STREAM_FAILED] worker crashed"


def test_errors_of_spark_tell_the_innermost_causes():
    text = """An error occurred while calling o147.parquet.
: org.apache.spark.SparkException: [WRITE] Task failed. SQLSTATE: 58030
\tat org.apache.spark.sql.execution
Caused by: org.apache.spark.SparkException: [READ.NO_HINT] Error in file a.csv.  SQLSTATE: KD001
Caused by: org.apache.spark.SparkException: [READ.NO_HINT] Error in file a.csv.  SQLSTATE: KD001
Caused by: org.apache.spark.SparkException: [MALFORMED] Record [1,A,null].
Caused by: java.lang.NumberFormatException: For input string: "many"
"""
    assert (
        one_line(RuntimeError(text)) == "[READ.NO_HINT] Error in file a.csv. [MALFORMED] Record [1,A,null]."
    )
    assert one_line(RuntimeError("\n first\nsecond")) == "first"
    assert one_line(RuntimeError("")) == "RuntimeError"


def test_error_stream_goes_to_the_file_and_comes_back(tmp_path, capfd):
    log = tmp_path / "log"
    with session._error_stream_to(log):
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('inside')"], check=True)
    os.write(2, b"outside")
    assert log.read_text() == "inside"
    assert capfd.readouterr().err == "outside"


def test_command_line_does_not_import_pyspark():
    code = "import slidejoin.cli.commands, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_does_not_import_the_whole_model():
    code = "import slidejoin, sys; sys.exit('slidejoin.model.join_model' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_does_not_import_what_takes_long(tmp_path):
    """Arrow loads pandas for data sets, and for arrays that it makes of Python values."""
    pytest.importorskip("pandas")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id,ts,name\n" + "".join(f"{i},{i},x\n" for i in range(100)))
    code = """
import sys
from slidejoin.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
found = {"pandas", "pyarrow.dataset"} & set(sys.modules)
sys.exit(f"{found} loaded" if found else 0)
"""
    words = ["--on", "left.id = right.id", "--window", "interval(1, 1, time='ts', lateness=1)", "--quiet"]
    for output in ("out.parquet", "out.csv"):
        done = subprocess.run(
            [sys.executable, "-c", code, "run", "a.csv", "b.csv", *words, "--output", output],
            cwd=tmp_path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_recommended_settings_fit_the_version(monkeypatch):
    pyspark = pytest.importorskip("pyspark")
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    package = "org.apache.spark.sql.execution.streaming"
    for version, place in {
        "3.5.6": package,
        "4.0.1": package,
        "4.1.0.dev1": f"{package}.checkpointing",
    }.items():
        monkeypatch.setattr(pyspark, "__version__", version)
        assert session.recommended()[manager] == f"{place}.FileSystemBasedCheckpointFileManager"
