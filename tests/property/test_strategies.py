"""Strategies of several workers: always the pairs of one thread, in the same order.

SLIDEJOIN_TESTS=long draws more cases, of longer streams.
"""

import os

import numpy as np
import pytest
from cases import cases, expected, run
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
LOCAL = ("round-robin", "subwindows", "subwindows(count=2, batch=100)", "subwindows(batch_us=30)")
INDEXES = ("nested-loop", "b-tree", "bi-sort", "rap-table", "bucket-tree", "auto")


@given(
    cases(),
    st.sampled_from(LOCAL),
    st.sampled_from(INDEXES),
    st.sampled_from((1, 2, 3, 8)),
    st.sampled_from((1, 16, None)),
    st.data(),
)
def test_equals_the_reference(case, strategy, index, workers, group, data):
    splits = data.draw(st.lists(st.integers(0, len(case.arrivals)), max_size=8))
    found, stats = run(case, splits=splits, index=index, workers=workers, strategy=strategy, group=group)
    wanted, counters = expected(case)
    assert found == wanted
    assert all(stats[name] == counters[name] for name in stats if name != "memory_bytes")


SHAPES = ("uniform", "equal", "few", "rising", "falling", "sawtooth", "drifting", "ends")


def keys_of(shape, rng, n):
    steps = np.arange(n)
    return {
        "uniform": rng.integers(0, 10_000, n),
        "equal": np.full(n, 5),
        "few": rng.integers(0, 4, n) * 100,
        "rising": steps,
        "falling": -steps,
        "sawtooth": steps % 300 * 11,
        "drifting": steps * 3 + rng.integers(0, 500, n),
        "ends": np.where(rng.random(n) < 0.5, -(2**31), 2**31 - 1),
    }[shape].astype(np.int32)


@given(
    st.sampled_from(SHAPES),
    st.sampled_from(LOCAL),
    st.sampled_from(INDEXES),
    st.sampled_from((120, (300, 90), 900, sj.within(400))),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 8)), min_size=2, max_size=5),
    st.integers(0, 999),
)
@settings(max_examples=settings().max_examples // 6)
def test_threads_equal_one_thread(shape, strategy, index, window, self_join, pushes, seed):
    rng = np.random.default_rng(seed)
    rows = sum(size for size, _ in pushes)
    sides = rng.integers(0, 2, rows).astype(np.uint8)
    keys = keys_of(shape, rng, rows)
    times = np.cumsum(rng.integers(0, 3, rows)) if isinstance(window, sj.window.Within) else None
    if shape in ("equal", "ends") or (self_join and isinstance(window, tuple)):
        window, times = 130, None  # few matches, of the shapes where many tuples match
    one = sj.NumericJoin(window, -9, 14, np.int32, self_join=self_join, index="b-tree")
    join = sj.NumericJoin(window, -9, 14, np.int32, self_join=self_join, index=index, strategy=strategy)
    start = 0
    for size, workers in pushes:
        part = slice(start, start + size)
        join.workers = workers
        batch = sides[part], keys[part], None if times is None else times[part]
        if workers % 4 == 1:
            assert join.count(*batch) == one.count(*batch)
        elif workers % 4 == 2:
            ours, theirs = join.ranges(*batch).expand(), one.ranges(*batch).expand()
            assert sorted(zip(*ours, strict=True)) == sorted(zip(*theirs, strict=True))
        else:
            for found, wanted in zip(join.push(*batch), one.push(*batch), strict=True):
                np.testing.assert_array_equal(found, wanted)
        join.check()
        start += size
    assert {**join.stats, "memory_bytes": 0} == {**one.stats, "memory_bytes": 0}


@pytest.mark.parametrize("strategy", ["round-robin", "subwindows"])
def test_a_join_names_its_strategy(strategy):
    join = sj.NumericJoin(100, -1, 1, np.int32, strategy=strategy, workers=2)
    assert join.strategy == strategy


@pytest.mark.parametrize("strategy", ["round-robin", "subwindows"])
@pytest.mark.parametrize("index", ["b-tree", "bi-sort"])
def test_a_long_stream(strategy, index):
    """Workers change at random, between pushes of all sizes."""
    rng = np.random.default_rng(7)
    one = sj.NumericJoin(5000, -20, 20, np.int32)
    join = sj.NumericJoin(5000, -20, 20, np.int32, index=index, strategy=strategy)
    for _ in range(3000 if LONG else 25):
        rows = int(rng.choice([1, 50, 700, 4000, 12_000]))
        sides, keys = rng.integers(0, 2, rows).astype(np.uint8), rng.integers(0, 10**5, rows).astype(np.int32)
        join.workers = int(rng.integers(1, 7))
        for found, wanted in zip(join.push(sides, keys), one.push(sides, keys), strict=True):
            np.testing.assert_array_equal(found, wanted)
