"""Several workers give the tables of one, in the order that is promised, for joins of all kinds."""

import os
import signal
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.join_type import JOIN_TYPES
from slidejoin.live import LiveJoin

WINDOWS = {
    "rows": sj.rows(700),
    "unequal rows": sj.rows(left=150, right=1200),
    "within": sj.within(900, time="at"),
    "interval": sj.interval(time="at", before=400, after=300, lateness=50),
}
CONDITIONS = {
    "band": sj.band("x", within=30),
    "union": sj.band("x", within=20) & sj.not_equal("y"),
    "equal and band": sj.equal("y") & sj.band("x", within=400),
    "equal text": sj.equal("name"),
    "less": sj.less("x") & sj.equal("y"),
}


def streams(seed, rows, skew):
    """Rows of both sides in the order of arrival, with nulls, and some times out of order."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 20_000, rows) if not skew else (random.zipf(1.5, rows) * 7) % 20_000
    at = np.arange(rows) * 2 + random.integers(0, 60 if seed % 2 else 1, rows)
    return pa.table(
        {
            "side": pa.array(random.integers(0, 2, rows), pa.uint8()),
            "x": pa.array(x, pa.int64(), mask=random.integers(0, 40, rows) == 0),
            "y": random.integers(0, 6, rows),
            "name": pa.array([f"n{i}" for i in random.integers(0, 400, rows)]),
            "at": np.maximum.accumulate(at) if seed % 2 == 0 else at,
            "number": np.arange(rows),
        }
    )


def joined(spec, table, steps, workers):
    join = sj.WindowJoin(**spec, workers=workers)
    found, start = [], 0
    for step in steps:
        found.append(join.push(arrivals=table.slice(start, step)))
        start += step
        join.check()
    found.append(join.finish())
    return sj.concat([each for each in found if each.num_columns]), join.stats


def as_promised(table, order):
    """With ``order="arrival"``, the partners of an arrival come in any order: sort them.

    A semi or anti join does not tell the arrival, so that all its rows are sorted.
    """
    if order == "full":
        return table
    if "number_right" not in table.column_names:
        return table.sort_by("number")
    left, right = (table[name].fill_null(-1).to_numpy() for name in ("number", "number_right"))
    rows = np.arange(table.num_rows)
    group = np.where((left >= 0) & (right >= 0), np.maximum(left, right), -1 - rows)  # others stand alone
    starts = np.cumsum(np.diff(group, prepend=-len(rows) - 1) != 0)
    return table.take(np.lexsort((right, left, starts)))


@given(
    st.sampled_from(list(WINDOWS)),
    st.sampled_from(list(CONDITIONS)),
    st.sampled_from(list(JOIN_TYPES)),
    st.sampled_from(("auto", "bucket-tree", "b-tree", "pim-tree", "sorted-run")),
    st.sampled_from(("arrival", "full")),
    st.lists(st.integers(1, 900), min_size=2, max_size=5),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from((2, 3, 8)),
)
@settings(max_examples=settings().max_examples // 4)
def test_a_window_join(window, on, how, index, order, steps, seed, skew, workers):
    spec = {"on": CONDITIONS[on], "window": WINDOWS[window], "how": how, "index": index, "order": order}
    if window == "within":
        seed -= seed % 2  # times in order
    table = streams(seed, sum(steps), skew)
    one, stats = joined(spec, table, steps, 1)
    several, others = joined(spec, table, steps, workers)
    assert as_promised(several, order).equals(as_promised(one, order))
    assert {**stats, "memory_bytes": 0} == {**others, "memory_bytes": 0}


def numbers(rows):
    random = np.random.default_rng(1)
    return random.integers(0, 2, rows).astype(np.uint8), random.integers(0, 10**6, rows).astype(np.int32)


def test_the_number_of_workers_changes_while_another_thread_pushes():
    sides, keys = numbers(200_000)
    one = sj.NumericJoin(20_000, -50, 50, np.int32)
    join = sj.NumericJoin(20_000, -50, 50, np.int32, workers=2)
    done = threading.Event()

    def change():
        for number in np.random.default_rng(2).integers(1, 9, 10**6):
            if done.is_set():
                return
            join.workers = int(number)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for start in range(0, len(keys), 4096):
            batch = sides[start : start + 4096], keys[start : start + 4096]
            for found, expected in zip(join.push(*batch), one.push(*batch), strict=True):
                np.testing.assert_array_equal(found, expected)
    finally:
        done.set()
        changing.join()
    assert 1 <= join.workers <= 8


def test_explain_names_the_strategy():
    join = sj.WindowJoin(sj.band("x", within=1), 100, workers=3)
    join.push(left={"x": [1.0]})
    assert "3, which share large batches: phases" in repr(join.explain())
    join.workers = 1
    assert "phases" not in repr(join.explain())


class Watched:
    """A native join; keeps the numbers of workers that it is told."""

    def __init__(self, native):
        self._native, self.told = native, []

    def __getattr__(self, name):
        return getattr(self._native, name)

    def set_workers(self, workers):
        self.told.append(workers)
        self._native.set_workers(workers)


def test_a_number_of_workers_that_is_set_during_the_first_push(monkeypatch):
    """The engine of the join is not its own yet."""
    join = sj.WindowJoin(sj.band("x", within=1), 100)
    run = LiveJoin._run

    def meanwhile(self, step, call, *arguments):
        run(self, step, call, *arguments)
        join.workers = 3

    def first(self, step, call, *arguments):
        step.engine.native = Watched(step.engine.native)
        join.workers = 4
        run(self, step, call, *arguments)

    monkeypatch.setattr(LiveJoin, "_run", first)
    join.push(left={"x": [1.0]})
    assert join._live.engine.native.told == [4]
    monkeypatch.setattr(LiveJoin, "_run", meanwhile)
    join.push(left={"x": [2.0]})
    assert join._live.engine.native.told == [4, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads, which this is about
def test_a_join_goes_on_in_a_forked_process():
    sides, keys = numbers(40_000)
    join = sj.NumericJoin(5000, -500, 500, np.int32, workers=3)
    one = sj.NumericJoin(5000, -500, 500, np.int32)
    for each in (join, one):
        each.push(sides[:20_000], keys[:20_000])
    expected = one.count(sides[20_000:], keys[20_000:])
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if join.count(sides[20_000:], keys[20_000:]) == expected else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert join.count(sides[20_000:], keys[20_000:]) == expected
