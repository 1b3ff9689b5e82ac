"""One Spark session for each test process; the tests that need it are skipped where there is no Java."""

import contextlib
import os
import shutil
import sys

import pytest

# A test's micro-batches are small and its plans many: compiling them well would take most of the time.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"


@pytest.fixture(scope="session")
def session():
    """The session of this process. Tests that change its settings take ``spark``."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Spark needs Java: install openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("slidejoin tests")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        builder = builder.config(name, value)
    with _silence():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def spark(session, tmp_path):
    """A session with settings, temporary views and streams of its own. Joins keep their state below it."""
    own = session.newSession()
    own.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
    yield own
    for query in own.streams.active:
        query.stop()


@contextlib.contextmanager
def _silence():
    """Keep what Java writes, every Python worker's steps among it, out of the reports of failed tests."""
    outputs = (1, 2)
    saved = [os.dup(output) for output in outputs]
    with open(os.devnull, "wb") as nowhere:
        for output in outputs:
            os.dup2(nowhere.fileno(), output)
    try:
        yield
    finally:
        for output, was in zip(outputs, saved, strict=True):
            os.dup2(was, output)
            os.close(was)


@pytest.fixture(scope="module")
def no_sync():
    """Files of the state are not synced: that a disk keeps its word is not tested, and it takes time."""
    from slidejoin.spark import files

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_sync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def early_merges():
    """Runs are merged although there are few, so that short streams have merged ones."""
    from slidejoin.spark import live

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "FEW", 0)
        yield
