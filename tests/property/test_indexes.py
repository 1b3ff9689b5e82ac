"""Every index gives the pairs of the reference in its order, on any keys, windows and batches."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from cases import Case, expected
from index_workloads import (
    FORMS,
    INDEXES,
    JOINS,
    KEYS,
    LONG,
    OPTIONS,
    TYPES,
    WINDOWS,
    covering,
    index_of,
    oracle,
    prepared,
    product,
)

import slidejoin as sj
from slidejoin.join_type import JOIN_TYPES

RUNS = product() if LONG else covering()


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(("workload", "options"), RUNS, ids=str)
def test_the_matrix(workload, options, index):
    workload = prepared(workload)
    join = workload.numeric_join(index_of(index, options))
    total = 0
    for number, (push, wanted) in enumerate(zip(workload.pushes, workload.expected, strict=True)):
        start, stop, listed = push
        if listed:
            np.testing.assert_array_equal(join.push(*workload.part(start, stop)), wanted, str(push))
            total += wanted.shape[1]
        else:
            assert join.count(*workload.part(start, stop)) == wanted, push
            total += wanted
        if number % 3 == 0:
            join.check()
    join.check()
    assert join.stats["matches"] == total
    assert total > 0


def test_the_short_matrix_has_every_pair_of_parameters():
    values = (tuple(KEYS), WINDOWS, tuple(FORMS), JOINS, TYPES, OPTIONS)
    runs = [(w.keys, w.window, w.form, w.join, w.dtype, options) for w, options in covering()]
    for a, b in itertools.combinations(range(len(values)), 2):
        met = {(run[a], run[b]) for run in runs}
        assert met == set(itertools.product(values[a], values[b]))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run[0]))
def test_the_oracle_is_the_reference(run):
    """On streams of a few hundred tuples, of which each meets some dozens."""
    workload = replace(run[0], size=25)
    window, dtype = workload.window, workload.dtype
    sides, values, times = workload.stream
    limits = workload.limits
    case = Case(
        dtype,
        sj.within(limits) if window == "time" else limits,
        *workload.bounds,
        workload.self_join,
        tuple(zip(sides.tolist(), values.tolist(), times.tolist(), strict=True)),
    )
    wanted, _ = expected(case)
    for listed, found in ((True, wanted), (False, len(wanted))):
        pushes = [(0, len(sides), listed)]
        (result,) = oracle(sides, values, times, limits, *workload.bounds, workload.self_join, pushes)
        assert (list(zip(*result.tolist(), strict=True)) if listed else result) == found


# --- Joins of rows ---

HOWS = (*JOIN_TYPES, "self-join")
ROW_WINDOWS = {
    "rows": sj.rows(left=1500, right=1100),
    "within": sj.within(3000, time="ts"),
    "interval": sj.interval(1500, 1200, time="ts", lateness=100),
}
BATCHES = 8


def row_join(window, how, index):
    chosen = ROW_WINDOWS[window]
    if how == "self-join":
        chosen = sj.rows(1500) if window == "rows" else chosen
        return sj.WindowJoin(sj.band("k", within=3), chosen, index=index, order="full", self_join=True)
    return sj.WindowJoin(sj.band("k", within=3), chosen, how, index, order="full")


def row_batches(window):
    """Rows of both sides, keys that drift, some null; times go back a little where the window allows it."""
    rng = np.random.default_rng(len(window))
    n = 8000
    keys = (rng.normal(0, 400, n) + np.arange(n) / 4).astype(np.int64)
    times = np.arange(n)
    if window == "interval":
        times = times - rng.integers(0, 130, n)  # a few are late
    table = pa.table(
        {
            "k": pa.array(keys, mask=rng.random(n) < 0.01),
            "ts": times,
            "id": np.arange(n),
            "side": (rng.random(n) < 0.45).astype(np.uint8),
        }
    )
    return [table.slice(start, n // BATCHES) for start in range(0, n, n // BATCHES)]


def push_rows(join, how, batch):
    if how == "self-join":
        return join.push(batch.drop_columns("side"))
    return join.push(arrivals=batch)


def run_rows(window, how, index):
    """Results of all batches and of the end."""
    join = row_join(window, how, index)
    found = []
    for batch in row_batches(window):
        found.append(push_rows(join, how, batch))
        join.check()
    return [*found, join.finish()]


@pytest.mark.parametrize("window", ROW_WINDOWS)
@pytest.mark.parametrize("how", HOWS)
def test_joins_of_rows_are_those_of_the_b_tree(window, how):
    wanted = run_rows(window, how, "b-tree")
    assert sum(table.num_rows for table in wanted) > 0
    for index in INDEXES:
        for options in OPTIONS:
            name = index_of(index, options)
            if name == "b-tree" or (options == "small" and name == index):
                continue
            found = run_rows(window, how, name)
            for number, (table, other) in enumerate(zip(found, wanted, strict=True)):
                assert table.equals(other), (name, number)


@pytest.mark.parametrize("window", ROW_WINDOWS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_snapshot_goes_on_with_another_index(index, window):
    """Half of the stream with one index, the rest with the next ones, a batch each."""
    how = "full"
    batches = row_batches(window)
    wanted = run_rows(window, how, "b-tree")
    join = row_join(window, how, index)
    for number, batch in enumerate(batches):
        assert push_rows(join, how, batch).equals(wanted[number]), number
        if number >= BATCHES // 2:
            following = INDEXES[(INDEXES.index(index) + number) % len(INDEXES)]
            join = sj.WindowJoin.restore(join.snapshot(), index=index_of(following, "small"))
            join.check()
    assert join.finish().equals(wanted[-1])
