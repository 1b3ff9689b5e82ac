"""Soak: mixed calls on joins for a long time leave memory and file descriptors as they were.

The long form runs for SLIDEJOIN_SOAK seconds, 30 minutes unless given; the short form for some seconds. Each
round makes joins, pushes whole batches and chunks that are abandoned or not, advances, saves, restores and
closes them.
"""

import gc
import os
import random
import time

import numpy as np
import pytest

import slidejoin as sj

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
SECONDS = float(os.environ.get("SLIDEJOIN_SOAK", "1800" if LONG else "4"))
MB = 1e6

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def windows(kind):
    return {
        "rows": sj.rows(3000),
        "within": sj.within(2000, time="ts"),
        "interval": sj.interval(800, 500, time="ts", lateness=50, late="return"),
    }[kind]


def batch(numbers, start, count):
    return {
        "k": numbers.integers(0, 400, count),
        "ts": np.sort(start + numbers.integers(0, count, count)),
        "name": [f"row {n}" for n in numbers.integers(0, 10**6, count)],
    }


def one_join(shuffled, numbers):
    """The life of one join."""
    how = shuffled.choice(["inner", "left", "full", "left_semi", "right_anti"])
    kind = shuffled.choice(["rows", "within", "interval"])
    limits = shuffled.choice([{}, {"max_rows": 1000, "when_full": "drop_oldest"}, {"max_fanout": 40}])
    join = sj.WindowJoin(sj.equal("k"), windows(kind), how=how, workers=shuffled.choice([1, 2]), **limits)
    start = 0
    for _ in range(12):
        rows = batch(numbers, start, shuffled.choice([1, 30, 700]))
        start = int(rows["ts"].max())
        side = shuffled.choice(["left", "right"])
        try:
            if shuffled.random() < 0.5:
                join.push(**{side: rows})
            else:
                for _ in join.push_iter(**{side: rows}, chunk_rows=100):
                    if shuffled.random() < 0.1:
                        break
        except sj.CapacityError:
            pass
        if shuffled.random() < 0.2:
            join = sj.WindowJoin.restore(join.snapshot())
        if kind == "interval" and start and join.stats["rows_left"] and shuffled.random() < 0.2:
            join.advance(to=start)
            join.take_late("left")
    if shuffled.random() < 0.5:
        join.finish()
    join.close()


@needs_proc
def test_memory_and_descriptors_stay_flat():
    shuffled, numbers = random.Random(1), np.random.default_rng(1)
    end = time.monotonic() + SECONDS
    files, sizes, done = None, [], 0
    while time.monotonic() < end or len(sizes) < 12:
        for _ in range(10):
            one_join(shuffled, numbers)
            done += 1
        gc.collect()
        files = files or descriptors()
        assert descriptors() <= files
        sizes.append(resident())
    settled = sizes[len(sizes) // 4 :]
    rounds = np.arange(len(settled))
    slope, _ = np.polyfit(rounds, settled, 1)
    grown = slope * len(settled)
    assert grown < max(8 * MB, 0.05 * settled[0]), f"{done} joins: {grown / MB:.1f} MB more, by {sizes}"
