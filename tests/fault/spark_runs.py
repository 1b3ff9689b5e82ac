"""Streams for the Spark drivers of these tests, what their joins must give, and the processes of a driver."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DRIVER = Path(__file__).with_name("spark_driver.py")
DYING = Path(__file__).with_name("dying")
START = 1_704_067_200 * 10**6  # µs
BEFORE, AFTER, LATENESS = 3 * 10**6, 2 * 10**6, 3 * 10**6  # as spark_driver has them
WITHIN = 3
FLUSH = 10**6  # ids from here on only move the watermark, far beyond all others
MARK = "SLIDEJOIN_TEST_RUN"
BUSY = "Python worker failed to connect back"  # Spark waits 10 s; a machine with too much to do is no fault
PATIENCE = 900  # s after which a driver is taken to hang


class Streams:
    """Two streams as files, one of each side for a micro-batch: disorder, late rows, nulls, hot keys.

    Two more at the end, an hour later, so that all other rows become final: with the second of them, unless
    Spark takes both in one micro-batch. ``flush`` adds another one.
    """

    def __init__(self, directory, batches=6, rows=150, seed=0, disorder=4_000_000):
        rng = np.random.default_rng(seed)
        self.directory = directory
        self.tables = ([], [])
        for number in range(batches):
            self._add(lambda side, number=number: self._table(rng, number, side, rows, disorder))
        self.flush()
        self.flush()

    def flush(self):
        """One more file of each side, an hour later than all rows."""
        id_ = FLUSH + len(self.tables[0])
        ts = pa.array([START + 3600 * 10**6], pa.timestamp("us", "UTC"))
        self._add(lambda side: pa.table({"ts": ts, "k": [10**6 * (1 + side)], "id": [id_]}))

    def _add(self, make):
        for side, name in enumerate(("left", "right")):
            number = len(self.tables[side])
            self.tables[side].append(make(side))
            path = self.directory / name / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(self.tables[side][-1], path)
            os.utime(path, (10**9 + number, 10**9 + number))  # Spark takes them by age

    @staticmethod
    def _table(rng, number, side, rows, disorder):
        first = 10_000 * side + number * rows
        low = START + number * 5 * 10**6
        ts = rng.integers(low - disorder, low + 5 * 10**6, rows)
        keys = np.where(rng.random(rows) < 0.2, 500, rng.integers(0, 1000, rows))
        nulls = rng.random(rows) < 0.03
        return pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "k": pa.array(keys, pa.int64(), mask=nulls),
                "id": pa.array(np.arange(first, first + rows)),
            }
        )

    def _in_time(self):
        """(ts, key, whether not null, id) of the rows of each side that are not late."""
        watermark, newest, found = -(2**63), [-(2**63)] * 2, ([], [])
        for tables in zip(*self.tables, strict=True):
            for side, table in enumerate(tables):
                ts = table["ts"].cast(pa.int64()).to_numpy()
                keys = table["k"]
                columns = ts, keys.fill_null(0).to_numpy(), keys.is_valid().to_numpy(), table["id"].to_numpy()
                found[side].append([column[ts >= watermark] for column in columns])
                newest[side] = max(newest[side], ts.max())
            watermark = max(watermark, min(newest) - LATENESS)
        return [[np.concatenate(columns) for columns in zip(*parts, strict=True)] for parts in found]

    def expected(self, how):
        """All results as (left id, right id), by brute force."""
        (lt, lk, lv, lid), (rt, rk, rv, rid) = self._in_time()
        apart = rt[None, :] - lt[:, None]
        met = (np.abs(rk[None, :] - lk[:, None]) <= WITHIN) & lv[:, None] & rv[None, :]
        met &= (apart >= -BEFORE) & (apart <= AFTER)
        left, right = np.nonzero(met)
        results = Counter(zip(lid[left].tolist(), rid[right].tolist(), strict=True))
        if how in ("left", "full"):
            results.update((id_, None) for id_ in lid[~met.any(axis=1)].tolist())
        if how in ("right", "full"):
            results.update((None, id_) for id_ in rid[~met.any(axis=0)].tolist())
        return drop_flush(results)


def drop_flush(results):
    return Counter({pair: n for pair, n in results.items() if max(id_ or 0 for id_ in pair) < FLUSH})


def output(directory):
    """What a reader of Spark's Parquet sink sees: the files that its log names."""
    logs = {}
    for path in (directory / "_spark_metadata").iterdir():
        if not path.name.startswith("."):
            logs[int(path.name.removesuffix(".compact"))] = path
    compact = max((number for number, path in logs.items() if path.suffix == ".compact"), default=-1)
    results = Counter()
    for number, path in sorted(logs.items()):
        if number >= compact:
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                assert entry["action"] == "add"
                table = pq.read_table(directory / entry["path"].rpartition("/")[2])
                columns = (table["id"].to_pylist(), table["id_right"].to_pylist())
                results.update(zip(*columns, strict=True))
    return drop_flush(results)


def difference(found, expected):
    """Nothing, or what is lost and what is there too often."""
    lost, twice = expected - found, found - expected
    if not lost and not twice:
        return ""
    return f"lost {sum(lost.values())}: {list(lost)[:5]}, too many {sum(twice.values())}: {list(twice)[:5]}"


# --- processes ---


class Driver:
    """A driver process, its JVM and their children; killed at the end, whatever happened."""

    def __init__(
        self, directory, script=DRIVER, home=None, temporary=None, deaths=(), chance=0.2, **settings
    ):
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.deaths = directory / f"{self.mark}.deaths"
        self.temporary = temporary or directory / "tmp"  # has the caches
        self.temporary.mkdir(exist_ok=True)
        settings["conf"] = {"spark.local.dir": str(self.temporary), **settings.get("conf", {})}
        path = directory / f"{self.mark}.json"
        path.write_text(json.dumps({"out": str(directory), "master": "local[2,4]", **settings}))
        self.log = directory / f"{self.mark}.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {MARK: self.mark, "TMPDIR": str(self.temporary), "PYSPARK_PYTHON": sys.executable}
        if deaths:
            wanted = {"log": str(self.deaths), "deaths": deaths, "chance": chance}
            environment |= {"PYTHONPATH": str(DYING), "SLIDEJOIN_TEST_DEATHS": json.dumps(wanted)}
        if home is not None:
            environment["SPARK_HOME"] = str(home)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(path)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=directory,
                text=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def processes(self, words=""):
        """Ids of the processes that this driver has led to whose command has the words."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if f"{MARK}={self.mark}".encode() in environment and words in command:
                    found.append(int(entry.name))
        return sorted(found)

    def died(self, kind="", of=""):
        """How many processes died of their own accord, of a kind and at a kind of file."""
        if not self.deaths.exists():
            return 0
        return sum(
            line.startswith(kind) and line.endswith(of) for line in self.deaths.read_text().splitlines()
        )

    def wait(self, timeout=PATIENCE):
        """The exit code, and what was printed."""
        out, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, out

    def kill(self, everything=True):
        """Kill the driver and its JVM at once; with ``everything`` also what they left behind."""
        kill_all([self.process.pid, *self.processes("org.apache.spark.deploy.SparkSubmit")])
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        while everything and (left := self.processes()):
            kill_all(left)
            time.sleep(0.05)

    def errors(self):
        """The end of the log, without Java's stack traces."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith("at "))[-6000:]


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def batches(directory, name, what="commits"):
    """How many micro-batches a query has begun (``offsets``) or ended (``commits``)."""
    try:
        numbers = [
            int(path.name)
            for path in (directory / f"{name}.checkpoint" / what).iterdir()
            if path.name.isdigit()
        ]
    except FileNotFoundError:
        return 0
    return max(numbers, default=-1) + 1


def until(condition, driver, timeout=PATIENCE):
    """Wait for a condition; False if the driver has ended before."""
    end = time.monotonic() + timeout
    while not condition():
        if driver.process.poll() is not None:
            return False
        assert time.monotonic() < end, driver.errors()
        time.sleep(0.02)
    return True
