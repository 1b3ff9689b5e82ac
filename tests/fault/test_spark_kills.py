"""``kill -9`` of a Spark driver, of Python workers and of an executor.

Nothing is lost and nothing comes twice: the output is that of brute force, as a multiset.
SLIDEJOIN_TESTS=long kills more often.
"""

import os
import random
import re
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark
from fault.spark_runs import BUSY, LATENESS, Driver, Streams, batches, difference, kill_all, output, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
KILLS = 21 if LONG else 3


def ended(driver):
    """Wait for the end; False if it must be started again because the machine is too busy for Spark."""
    code, _ = driver.wait()
    if code and BUSY in driver.errors():
        return False
    assert code == 0, driver.errors()
    return True


def finished(directory, attempts=3, **settings):
    """Run a driver to the end."""
    for _ in range(attempts):
        with Driver(directory, **settings) as driver:
            if ended(driver):
                return
    raise AssertionError("the machine is too busy")


def check(streams, directory, hows):
    for name, how in hows.items():
        found = difference(output(directory / name), streams.expected(how))
        assert found == "", f"{name}: {found}"


def test_the_driver_dies_at_any_time(tmp_path):
    """With its JVM, anywhere in a micro-batch; its Python workers die with it, or some time later."""
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    # No row is late: a driver that dies between its source's log and its own may find two files in the next
    # micro-batch, whose watermark is then another.
    streams = Streams(tmp_path / "data", batches=2 * KILLS, seed=seed, disorder=LATENESS - 1)
    hows = {"inner": "inner", "left": "left"} | ({"full": "full"} if LONG else {})
    settings = {"data": str(tmp_path / "data"), "joins": [{"name": n, "how": how} for n, how in hows.items()]}
    killed = []
    for _ in range(3 * KILLS):
        # Each is killed somewhere in its share of the micro-batches, seen from one of the queries.
        name, what = rng.choice(list(hows)), rng.choice(["offsets", "commits"])
        least = 2 * len(killed) + 1 + rng.randrange(2)
        with Driver(tmp_path, **settings) as driver:
            since = time.monotonic()
            if until(lambda to=(name, what, least): batches(tmp_path, *to[:2]) >= to[2], driver):
                pace = min(3, (time.monotonic() - since) / 10)
                time.sleep(rng.random() * pace)
                killed.append([batches(tmp_path, n, w) for n in hows for w in ("offsets", "commits")])
            else:
                assert BUSY in driver.errors(), driver.errors()
            driver.kill(everything=rng.random() < 0.5)
        if len(killed) == KILLS:
            break
    finished(tmp_path, **settings)
    check(streams, tmp_path, hows)
    assert len(killed) == KILLS, f"seed {seed}: only killed at {killed}"


def test_workers_die_while_it_runs(tmp_path):
    """Two queries from one DataFrame, and another one: Spark runs tasks again, in other workers."""
    rng = random.Random()
    streams = Streams(tmp_path / "data", batches=20 if LONG else 6)
    hows = {"inner": "inner", "again": "inner", "right": "right"}
    settings = {"data": str(tmp_path / "data"), "joins": [{"name": n, "how": how} for n, how in hows.items()]}
    kills = failures = 0
    for _ in range(3):
        with Driver(tmp_path, master="local[2,20]", **settings) as driver:
            before, due = 1, 0.0
            while driver.process.poll() is None:
                done = [batches(tmp_path, name) for name in hows]
                if min(done) >= 1 and sum(done) > before and time.monotonic() > due:
                    if (workers := driver.python_workers()) and rng.random() < 0.6:
                        kill_all([rng.choice(workers)])
                        kills += 1
                    before, due = sum(done), time.monotonic() + rng.random()
                time.sleep(0.02)
            done = ended(driver)
            failures += len(re.findall(r"Lost task [\d.]+ in stage", driver.log.read_text()))
        if done:
            break
    assert done, "the machine is too busy"
    check(streams, tmp_path, hows)
    assert kills > 2
    assert failures, "no kill has hit a task"


def test_an_executor_dies(tmp_path):
    """Of a cluster: others do its tasks again, from the same state."""
    home = tmp_path / "spark"  # of links, since Spark writes there
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    streams = Streams(tmp_path / "data", batches=20 if LONG else 4)
    conf = {"spark.executor.memory": "768m", "spark.cores.max": "2"}
    settings = {
        "data": str(tmp_path / "data"),
        "joins": [{"name": "left", "how": "left"}],
        "master": "local-cluster[2,1,1024]",
        "conf": conf,
        "home": home,
    }
    for _ in range(3):
        killed = []
        with Driver(tmp_path, **settings) as driver:
            for least in (3, 9, 15) if LONG else (2,):
                if not until(lambda least=least: batches(tmp_path, "left", "offsets") >= least, driver):
                    break
                executors = driver.processes("CoarseGrainedExecutorBackend")
                time.sleep(random.random())
                kill_all(executors[:1])
                killed += executors[:1]
            if ended(driver):
                break
    check(streams, tmp_path, {"left": "left"})
    assert len(killed) == (3 if LONG else 1)
    assert "Lost executor" in driver.log.read_text()
