"""A local Spark session: requirements are checked first, the log goes to a file, errors become one line."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slidejoin.cores import usable_cores
from slidejoin.errors import Error, raised_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17  # the least version that Spark 4 runs on
_THEIRS = re.compile(r"(\[[A-Z][A-Z0-9_.]+\] .+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


class SparkError(Error):
    """Spark cannot be started, or a job of it has failed."""


def check_spark() -> None:
    """Raise a SparkError that says what to install, if Spark cannot run on this machine."""
    for module in ("pyspark", "pandas"):
        try:
            importlib.import_module(module)
        except ImportError:
            raise SparkError(f"Spark needs {module}: pip install 'slidejoin[spark]'") from None
    java = _java()
    cure = f"install Java {JAVA} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
    if java is None:
        raise SparkError(f"Spark needs Java, and there is no java command: {cure}, or set JAVA_HOME")
    version = _java_version(java)
    if version is None:
        raise SparkError(f"Spark needs Java, and {java} -version does not answer: {cure}, or set JAVA_HOME")
    if version < JAVA:
        raise SparkError(
            f"Spark needs Java {JAVA}, and {java} is version {version}: {cure}, or set JAVA_HOME"
        )


@contextmanager
def local_session(name: str, settings: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """A session on all cores of this machine, stopped at the end; or the active session.

    Parameters
    ----------
    name : str
        Of the application.
    settings : dict, optional
        Settings of Spark, besides ours or instead of them.

    Notes
    -----
    The error stream of Spark goes to a file, which is kept if something fails.
    """
    check_spark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    log = Path(tempfile.mkstemp(prefix="slidejoin-spark-", suffix=".log")[1])
    session = SparkSession.getActiveSession()
    is_ours, has_failed = session is None, False
    try:
        if session is None:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            with _error_stream_to(log):
                session = _builder(name, settings or {}).getOrCreate()
        yield session
    except (PySparkException, Py4JError) as error:
        has_failed = is_ours
        where = f" (its log is {log})" if is_ours else ""
        raise SparkError(f"Spark failed: {one_line(error, log)}{where}") from error
    finally:
        if is_ours and session is not None:
            session.stop()
        if not has_failed:
            log.unlink(missing_ok=True)


def recommended() -> dict[str, str]:
    """The settings that docs/spark.md recommends for queries whose checkpoints are on a local disk.

    Examples
    --------
    >>> recommended()["spark.python.unix.domain.socket.enabled"]
    'true'
    """
    import pyspark

    version = tuple(map(int, pyspark.__version__.split(".")[:2]))
    package = "org.apache.spark.sql.execution.streaming" + (".checkpointing" if version >= (4, 1) else "")
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),  # the limit is not looked at then
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",  # so rows may have 100 KB
        "spark.sql.streaming.checkpointFileManagerClass": f"{package}.FileSystemBasedCheckpointFileManager",
    }


def _builder(name: str, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    cores = usable_cores()
    defaults = {
        **recommended(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for setting, value in {**defaults, **settings}.items():
        builder = builder.config(setting, value)
    return builder


def one_line(error: BaseException, log: Path | None = None) -> str:
    """The cause of an error of Spark: our own message if a task raised one, otherwise its innermost two.

    Some causes are only in the log, such as errors of the process that gives Spark the columns of its state.
    """
    text = str(error)
    ours = raised_in(text) or (raised_in(log.read_text(errors="replace")) if log else None)
    if ours is not None:
        return ours
    theirs = list(dict.fromkeys(message.strip() for message in _THEIRS.findall(text)))
    if theirs:
        return " ".join(theirs[-2:])
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _java() -> str | None:
    """The command that PySpark would start."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[2]) if found else None


@contextmanager
def _error_stream_to(file: Path) -> Iterator[None]:
    """Let processes that are started meanwhile write their errors to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with file.open("ab") as stream:
            os.dup2(stream.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
