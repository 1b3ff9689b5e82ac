"""``kill -9`` of Spark drivers, of Python workers and of executors, at least 12 of them.

Nothing is lost and nothing comes twice: the output is that of brute force, as a multiset.
SLIDEJOIN_TESTS=long has more than 200 deaths.
"""

import os
import random
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark
from fault.spark_runs import (
    BUSY,
    LATENESS,
    PATIENCE,
    Driver,
    Streams,
    batches,
    difference,
    output,
    until,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
STARTS = 28 if LONG else 2  # of drivers that die
WORKERS = 8 if LONG else 5  # that die in each of them
EXECUTORS = 3 if LONG else 1


def ended(driver):
    """Wait for the end; False if it must be started again because the machine is too busy for Spark."""
    code, _ = driver.wait()
    if code and BUSY in driver.errors():
        return False
    assert code == 0, driver.errors()
    return True


def check(streams, directory, hows):
    for name, how in hows.items():
        found = difference(output(directory / name), streams.expected(how))
        assert found == "", f"{name}: {found}"


def test_drivers_and_workers_die(tmp_path):
    """Two queries from one DataFrame, and others. Each start of the driver has another number of partitions.

    Python workers die while they write; the driver dies with its JVM, now while one of them writes, then at
    any time. Its workers die with it, or go on for a while.
    """
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    # No row is late: a driver that dies between its source's log and its own may find two files in the next
    # micro-batch, whose watermark is then another.
    streams = Streams(tmp_path / "data", batches=2 * STARTS + 1, seed=seed, disorder=LATENESS - 1)
    hows = {"inner": "inner", "again": "inner", "left": "left"} | ({"full": "full"} if LONG else {})

    def settings(start):
        joins = [{"name": name, "how": how, "partitions": (2, 5)[start % 2]} for name, how in hows.items()]
        return {"data": str(tmp_path / "data"), "joins": joins, "master": "local[2,20]"}

    workers, drivers, start = 0, 0, 0
    while drivers < STARTS:
        assert start < 3 * STARTS, f"seed {seed}: {drivers} drivers and {workers} workers died"
        name, what = rng.choice(list(hows)), rng.choice(["offsets", "commits"])
        least = min(2 * drivers + 1 + rng.randrange(2), 2 * STARTS)
        writes = drivers % 2 == 0
        deaths = ["worker"] * WORKERS + ["jvm"] * writes
        with Driver(tmp_path, deaths=deaths, **settings(start)) as driver:
            if writes:
                driver.process.wait(PATIENCE)
                dead = driver.died("jvm") == 1
            else:
                since = time.monotonic()
                dead = until(lambda to=(name, what, least): batches(tmp_path, *to[:2]) >= to[2], driver)
                time.sleep(rng.random() * min(3, (time.monotonic() - since) / 10))
            assert dead or BUSY in driver.errors(), driver.errors()
            driver.kill(everything=rng.random() < 0.5)
            workers, drivers, start = workers + driver.died("worker"), drivers + dead, start + 1
    # Rows become final in the micro-batch behind that of the last files. A driver that died may have left two
    # files of a side to one micro-batch, not three.
    streams.flush()
    for _ in range(3):
        with Driver(tmp_path, deaths=["worker"] * WORKERS, **settings(start)) as driver:
            done, start = ended(driver), start + 1
            workers += driver.died("worker")
        if done:
            break
    assert done, "the machine is too busy"
    check(streams, tmp_path, hows)
    deaths = f"seed {seed}: {workers} workers and {drivers} drivers died"
    print(deaths)  # noqa: T201 (pytest -rP shows it)
    assert workers >= (200 if LONG else 8), deaths


def test_executors_die(tmp_path):
    """Of a cluster, with their JVM, while a worker writes: others do its tasks again, from the same state."""
    home = tmp_path / "spark"  # of links, since Spark writes there
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    streams = Streams(tmp_path / "data", batches=20 if LONG else 4)
    conf = {"spark.executor.memory": "768m", "spark.cores.max": "2", "spark.task.maxFailures": "20"}
    settings = {
        "data": str(tmp_path / "data"),
        "joins": [{"name": "left", "how": "left"}],
        "master": "local-cluster[2,1,1024]",
        "conf": conf,
        "home": home,
        "deaths": ["worker", "jvm"] * EXECUTORS,
    }
    died = lost = 0
    for _ in range(3):
        with Driver(tmp_path, **settings) as driver:
            done = ended(driver)
            died += driver.died()
            lost += driver.log.read_text().count("Lost executor")
        if done:
            break
    assert done, "the machine is too busy"
    check(streams, tmp_path, {"left": "left"})
    print(f"{died} processes died, {lost} executors were lost")  # noqa: T201
    assert died >= 2 * EXECUTORS
    assert lost >= EXECUTORS
