"""``index="auto"``: what it chooses, that it changes its mind, and that no result depends on it."""

import os

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.model.choice import Choice

WINDOW = 2048
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"


@pytest.fixture(autouse=True)
def typical_limits(monkeypatch):
    """Limits that do not depend on the costs of a machine (tests/model/test_choice.py has these)."""
    fixed = Choice([(0, 0.125, 0.125, 192.0, 256.0)], "typical costs")
    monkeypatch.setattr("slidejoin.native.choice", lambda: fixed)


def keys_of(rng: np.random.Generator, count: int, spread: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 2, count).astype(np.uint8), rng.integers(0, spread, count).astype(np.int32)


class Compared:
    """A join that chooses its index beside one that does not: they must agree in all they tell."""

    def __init__(self, window, **options) -> None:
        self.rng = np.random.default_rng(3)
        self.auto = sj.NumericJoin(window, -100, 100, np.int32, **options)
        self.fixed = sj.NumericJoin(window, -100, 100, np.int32, index="b-tree", **options)
        self.time = 0

    def arrivals(self, count: int, spread: int) -> tuple[np.ndarray, ...]:
        sides, keys = keys_of(self.rng, count, spread)
        if isinstance(self.auto.spec.window, type(sj.rows(1))):
            return sides, keys
        self.time += count
        return sides, keys, np.arange(self.time - count, self.time)

    def count(self, count: int, spread: int = 400) -> None:
        arrivals = self.arrivals(count, spread)
        assert self.auto.count(*arrivals) == self.fixed.count(*arrivals)
        self.auto.check()

    def push(self, count: int, spread: int = 400, check: bool = True) -> None:
        arrivals = self.arrivals(count, spread)
        for found, expected in zip(self.auto.push(*arrivals), self.fixed.push(*arrivals), strict=True):
            np.testing.assert_array_equal(found, expected)
        if check:
            self.auto.check()


WINDOWS = [WINDOW, (WINDOW, WINDOW // 3), sj.within(2 * WINDOW)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_index_follows_what_is_asked(window):
    compared = Compared(window)
    assert compared.auto.index == "bucket-tree"
    for _ in range(6):
        compared.count(2 * WINDOW)  # many partners, only counted, by the thousand
    assert compared.auto.index == "bi-sort"
    compared.push(100)
    for _ in range(12):
        compared.push(2 * WINDOW, spread=10**6)  # few partners, as many arrivals as the window holds
    assert compared.auto.index == "sorted-run"
    for _ in range(100):
        compared.push(WINDOW // 16)  # many partners in small batches
    assert compared.auto.index == "im-tree"
    for _ in range(WINDOW // 20):
        compared.push(5)
    for _ in range(50):
        compared.push(WINDOW // 8, spread=10**6)  # few partners in small batches
    assert compared.auto.index == "bucket-tree"
    compared.push(100)
    assert compared.auto._native.index()[2] == 4


def test_a_self_join_lists_what_it_counts():
    compared = Compared(WINDOW, self_join=True)
    for _ in range(6):
        compared.count(2 * WINDOW)
    assert compared.auto.index == "sorted-run"


@pytest.mark.parametrize(
    ("window", "options", "index"),
    [
        (WINDOW, {}, "bucket-tree"),
        (sj.within(2 * WINDOW), {}, "bucket-tree"),
        (WINDOW, {"strategy": "phases"}, "sorted-run"),
        (WINDOW, {"self_join": True}, "sorted-run"),
    ],
    ids=str,
)
def test_plain_joins_have_a_limit_of_their_own(monkeypatch, window, options, index):
    fixed = Choice([(0, 0.125, np.inf, 192.0, 256.0)], "costs that know of plain joins")
    monkeypatch.setattr("slidejoin.native.choice", lambda: fixed)
    compared = Compared(window, **options)
    for _ in range(6):
        compared.push(2 * WINDOW, spread=10**6)
    assert compared.auto.index == index


def test_ranges_outlive_a_change():
    rng = np.random.default_rng(5)
    auto = sj.NumericJoin(WINDOW, -100, 100, np.int32)
    fixed = sj.NumericJoin(WINDOW, -100, 100, np.int32, index="b-tree")
    seen = set()
    for spread in [400] * 6 + [10**9] * 6:
        arrivals = keys_of(rng, 2 * WINDOW, spread)
        found, expected = auto.ranges(*arrivals).expand(), fixed.push(*arrivals)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        seen.add(auto.index)
        auto.check()
    assert seen == {"bucket-tree", "bi-sort", "sorted-run"}
    assert auto.index == "sorted-run"


def test_windows_that_grow_are_looked_at_again():
    compared = Compared(10**6)
    compared.push(20_000)
    assert compared.auto.index == "bucket-tree"
    for _ in range(4):
        compared.push(20_000, spread=10**9)
    assert compared.auto.index == "sorted-run"
    for turn in range(160):
        compared.push(2_000, spread=10**9, check=turn % 10 == 0)  # of a window of up to 420,000 tuples
    assert compared.auto.index == "bucket-tree"


def test_once_is_not_enough():
    compared = Compared(WINDOW)
    compared.push(4 * WINDOW)
    for _ in range(4):  # in turn: never the same twice
        compared.count(4 * WINDOW)
        compared.push(4 * WINDOW)
    assert compared.auto.index == "bucket-tree"
    assert compared.auto._native.index()[2] == 0


def test_large_batches_become_runs():
    large_batches_become_runs(sj.rows(2**19), steps=14)


@pytest.mark.skipif(not LONG, reason="the one before takes the same way; make test-long")
def test_large_batches_become_runs_in_event_time():
    large_batches_become_runs(sj.interval(2**19, 2**19, time="t", lateness=1000), steps=20)


def large_batches_become_runs(window, steps):
    rng = np.random.default_rng(7)
    joins = [
        sj.WindowJoin(sj.band("k", within=2), window, index=index, order="full")
        for index in ("auto", "b-tree")
    ]
    for step in range(steps):
        count = 2**18
        table = pa.table(
            {
                "side": rng.integers(0, 2, count).astype(np.uint8),
                "k": rng.integers(0, 2**22, count),
                "t": rng.integers(-500, 500, count) + np.arange(step * count, (step + 1) * count),
            }
        )
        one, other = (join.push(arrivals=table, side="side") for join in joins)
        assert one.equals(other)
        joins[0].check()
    text = repr(joins[0].explain())
    assert "by sorted-run" in text
    assert "changed 1 time" in text
    snapshot = joins[0].snapshot()
    again = sj.WindowJoin.restore(snapshot)
    assert again.spec.index == "auto"
    one, other = (join.push(arrivals=table, side="side") for join in (again, joins[1]))
    assert one.equals(other)


def test_explain_says_why():
    join = sj.WindowJoin(sj.band("k", within=1), 1000)
    join.push(left={"k": [1, 2, 3]})
    assert "chosen" in repr(join.explain())
    assert "too little has been seen yet" in repr(join.explain())
    for _ in range(3):
        join.push(left={"k": list(range(2000))})
    assert "batches are small and matches are few: " in repr(join.explain())
    assert "arrivals go through together" in repr(join.explain())
    fixed = sj.WindowJoin(sj.band("k", within=1), 1000, index="im-tree(merge_ratio=0.25)")
    fixed.push(left={"k": [1]})
    assert "by im-tree(merge_ratio=0.25)" in repr(fixed.explain())
    assert "chosen" not in repr(fixed.explain())
