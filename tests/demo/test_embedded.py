"""The demo: its streams, and that its check finds every kind of wrong result."""

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import slidejoin
from slidejoin.demo.embedded import check, job, streams

SETUP = streams.Setup(rows=3000, window=200, band=60, batch=256, seed=3)


@pytest.fixture(scope="module")
def joined():
    """The streams, the join and the pushes that are checked."""
    rows = streams.generate(SETUP)
    join = slidejoin.NumericJoin(SETUP.window, -SETUP.band, SETUP.band, key=np.int64)
    sample, matches = [], 0
    for start, stop, checked in check.pushes(SETUP):
        left, right = join.push(rows.sides[start:stop], rows.keys[start:stop])
        matches += len(left)
        if checked:
            sample.append(check.Pushed(start, stop, left, right))
    return rows, sample, join, matches


def test_streams_depend_on_the_seed_alone():
    first, again = streams.generate(SETUP), streams.generate(SETUP)
    np.testing.assert_array_equal(first.keys, again.keys)
    np.testing.assert_array_equal(first.sides, again.sides)
    assert not np.array_equal(first.keys, streams.generate(replace(SETUP, seed=4)).keys)


def test_streams_hold_all_symbols_and_more_quotes_than_trades():
    many = streams.generate(replace(SETUP, rows=20_000))
    symbols = (many.keys + 2**31) // 2**32
    assert set(symbols.tolist()) == set(range(streams.SYMBOLS))
    assert 0.7 < many.sides.mean() < 0.8


@pytest.mark.parametrize("rows", [1, 100, 1500, 1501, 3000, 100_000])
@pytest.mark.parametrize("batch", [1, 256, 8192])
def test_pushes_cover_all_rows_and_check_start_middle_and_end(rows, batch):
    cut = list(check.pushes(replace(SETUP, rows=rows, batch=batch)))
    assert cut[0][0] == 0
    assert cut[-1][1] == rows
    assert all(stop == next_start for (_, stop, _), (next_start, _, _) in pairwise(cut))
    assert all(0 < stop - start <= batch for start, stop, _ in cut)
    checked = [start for start, _, is_checked in cut if is_checked]
    assert checked[0] == 0
    assert cut[-1][2]
    if rows == 100_000:
        assert any(40_000 < start < 60_000 for start in checked)


def test_right_result_passes(joined):
    rows, sample, join, matches = joined
    assert matches > 0
    assert check.find_failure(SETUP, rows, sample, join, matches) is None


@pytest.mark.parametrize("which", [0, 5, -1])
@pytest.mark.parametrize(
    "damage",
    [
        lambda left, right: (left[:-1], right[:-1]),  # a pair is lost
        lambda left, right: (np.append(left, left[-1]), np.append(right, right[-1])),  # twice
        lambda left, right: (left[::-1], right[::-1]),  # another order
        lambda left, right: (left, right - 1),  # other partners
    ],
)
def test_wrong_pairs_are_found(joined, which, damage):
    rows, sample, join, matches = joined
    wrong = list(sample)
    pushed = wrong[which]
    assert len(pushed.left) > 1
    left, right = damage(pushed.left, pushed.right)
    wrong[which] = replace(pushed, left=left, right=right)
    failure = check.find_failure(SETUP, rows, wrong, join, matches)
    assert failure is not None
    assert f"rows {pushed.start} to {pushed.stop}" in failure


def test_wrong_number_of_matches_is_found(joined):
    rows, sample, join, matches = joined
    failure = check.find_failure(SETUP, rows, sample, join, matches + 1)
    assert failure is not None
    assert "the join counted" in failure


def test_difference_from_the_reference_is_found(joined, monkeypatch):
    rows, sample, join, matches = joined
    monkeypatch.setattr(check.reference, "band", lambda *_: lambda left, right: left == right)
    failure = check.find_failure(SETUP, rows, sample, join, matches)
    assert failure is not None
    assert "slidejoin.reference" in failure


def test_summary_shows_the_figures():
    console = Console(file=io.StringIO(), width=100)
    summary = job.run(SETUP, console)
    summary.print(console)
    text = console.file.getvalue()
    assert f"{summary.stats['matches']:,}" in text
    for figure in ("3,000", "p50", "p99", "max", "MB", slidejoin.isa.current(), "bucket-tree"):
        assert figure in text
