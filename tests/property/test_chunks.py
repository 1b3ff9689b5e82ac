"""push_iter: the results of push, in the same order, in chunks of any size, whoever stops when."""

import dataclasses
import random

import numpy as np
import pyarrow as pa
import pytest
from cases import INDEXES
from hypothesis import given
from hypothesis import strategies as st
from property.test_join_types import EFFORT, fully_ordered, typed_scripts
from window_cases import Condition, Row, Spec, counters, id_pairs, parts, run, scripts

import slidejoin as sj
from slidejoin.reference import Interval, Rows, Within

SIZES = st.sampled_from([1, 3, 64, 70, 200])


def run_in_chunks(spec, made, chunk_rows, *, stop=None, **options):
    """As ``run``, with results in chunks; with ``stop``, iterators are abandoned after so many chunks."""
    join = spec.join(known=True, **options)
    found = []
    for part in made:
        for batch, given_ in part:
            for number, chunk in enumerate(join.push_iter(*batch, **given_, chunk_rows=chunk_rows)):
                assert 0 < chunk.num_rows <= chunk_rows
                found += id_pairs(spec, chunk)
                if number == stop:
                    break
        join.check()
    stats = counters(spec, join.stats)
    if stop is None:
        found += id_pairs(spec, join.finish())
    return found, stats


@given(scripts(max_size=150), SIZES, st.data())
@EFFORT
def test_chunks_are_the_push(script, size, data):
    spec, rows = script
    spec = fully_ordered(spec)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=2))
    made = parts(spec, rows, splits=splits)
    wanted = run(spec, rows, made=made)
    assert run_in_chunks(spec, made, size) == wanted
    assert run_in_chunks(spec, made, size, workers=2) == wanted


@given(typed_scripts(max_size=120), SIZES)
@EFFORT
def test_chunks_of_every_join_type(script, size):
    spec, rows, probes = script
    spec = fully_ordered(spec)
    made = parts(spec, rows, probes=probes)
    assert run_in_chunks(spec, made, size) == run(spec, rows, made=made)


@given(typed_scripts(max_size=120), st.integers(0, 3))
@EFFORT
def test_an_abandoned_iterator_has_happened_as_a_push(script, stop):
    spec, rows, probes = script
    half = len(rows) // 2
    made = parts(spec, rows, splits=[half], probes=probes)
    _, wanted = run(spec, rows, made=made)
    _, stats = run_in_chunks(spec, made, 64, stop=stop)
    assert stats == wanted


HOT = {
    "rows": (Rows(900, 700), lambda _: None),
    "within": (Within(400), lambda number: number),
    "interval": (Interval(300, 200, lateness=50), lambda number: number + number * 7919 % 40),
}


@pytest.mark.parametrize("window", HOT)
@pytest.mark.parametrize("index", ["auto", *INDEXES])
@pytest.mark.parametrize("how", ["inner", "full", "left_semi", "right_anti"])
def test_hot_keys_in_small_chunks(window, index, how):
    """One key has most rows: portions end within arrivals, whose windows are listed in parts."""
    kept, time = HOT[window]
    shuffled = random.Random(5)
    condition = Condition("band", "int64", ((-1, 1),))
    spec = Spec(on=(condition,), window=kept, how=how, order="full", index=index)
    rows = [
        Row(shuffled.randrange(2), (shuffled.choice([0, 0, 0, 3, 4, None]),), time(number))
        for number in range(1200)
    ]
    made = parts(spec, rows, splits=[500, 1100])
    wanted = run(spec, rows, made=made)
    assert run_in_chunks(spec, made, 100) == wanted
    assert run_in_chunks(spec, made, 100, workers=2) == wanted
    assert run_in_chunks(dataclasses.replace(spec, order="arrival"), made, 5000)[1] == wanted[1]


@pytest.mark.parametrize("window", HOT)
@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_rows_that_are_final_at_once_come_before_a_hot_row(window, how):
    """A null key is final with its arrival, which probes for nothing."""
    kept, time = HOT[window]
    condition = Condition("equal", "int64")
    spec = Spec(on=(condition,), window=kept, how=how, order="full")
    keys = [(0, 1)] * 300 + [(0, None), (1, None), (1, 1), (1, None), (1, 1), (0, None)]
    rows = [Row(side, (key,), time(300 + number // 2)) for number, (side, key) in enumerate(keys)]
    made = parts(spec, rows, splits=[300])
    assert run_in_chunks(spec, made, 10) == run(spec, rows, made=made)


def test_a_single_pass_after_a_group_that_many_workers_listed():
    """The group has a row whose matches stand in a queue; after it come rows with hundreds of matches."""
    queue, dense, far = -5_000_000, 99_999, 50_000_000_000
    spread = 10_000_000 + np.arange(200_000) * 10_000
    stored = np.concatenate([np.full(150, queue), 100_000 + np.arange(450) * 4, spread])
    counts = [(dense, 32), (queue, 1), (far, 40_000), (dense, 20), (far, 5_000)]
    arriving = pa.table({"k": np.repeat(*map(np.array, zip(*counts, strict=True)))})
    results = []
    for workers in (1, 50):
        on, window = sj.band("k", lower=0, upper=2000), sj.rows(400_000)
        with sj.WindowJoin(on, window, index="bucket-tree", order="full", workers=workers) as join:
            for part in np.array_split(stored, 5):
                join.push(right={"k": part})
            results.append(pa.concat_tables(join.push_iter(left=arriving, chunk_rows=1 << 15)))
    assert results[0].num_rows == 52 * 450 + 150
    assert results[1].equals(results[0])
