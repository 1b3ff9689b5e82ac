"""Equations 2 and 3: tuples in the windows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.model.windows import window_tuples

RATES = np.array([10.0, 20.0, 0.0, 40.0, 50.0])
OTHER = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_seconds():
    # 2 s hold the current interval and the one before: 10, 10+20, 20+0, 0+40, 40+50.
    left, right = window_tuples(sj.within("2s"), RATES, OTHER, 1.0)
    assert left.tolist() == [10, 30, 20, 40, 90]
    assert right.tolist() == [1, 3, 5, 7, 9]


def test_seconds_with_other_intervals():
    # Intervals of 0.5 s: 1 s holds two of them, each with half of its rate.
    assert window_tuples(sj.within("1s"), RATES, OTHER, 0.5)[0].tolist() == [5, 15, 10, 20, 45]


def test_a_window_that_is_not_a_multiple_of_the_interval():
    # 1.5 s hold the current interval and half of the one before: 10, 20+5, 0+10, 40+0, 50+20.
    assert window_tuples(sj.within("1500ms"), RATES, OTHER, 1.0)[0].tolist() == [10, 25, 10, 40, 70]


def test_a_window_shorter_than_the_interval():
    assert window_tuples(sj.within("250ms"), RATES, OTHER, 1.0)[0].tolist() == [2.5, 5, 0, 10, 12.5]


def test_a_window_longer_than_the_run():
    assert window_tuples(sj.within("1h"), RATES, OTHER, 1.0)[0].tolist() == [10, 30, 30, 70, 120]


def test_intervals_give_windows_of_two_lengths():
    # A right tuple may be 2 s later than its left tuple, or 1 s earlier: the left window has 2 s, the right
    # one 1 s.
    left, right = window_tuples(sj.interval("1s", "2s"), RATES, OTHER, 1.0)
    assert left.tolist() == [10, 30, 20, 40, 90]
    assert right.tolist() == OTHER.tolist()


def test_rows():
    # 10, 30, 30, 70, 120 tuples have come: 35 are kept at most.
    left, right = window_tuples(sj.rows(35), RATES, OTHER, 1.0)
    assert left.tolist() == [10, 30, 30, 35, 35]
    assert right.tolist() == [1, 3, 6, 10, 15]


def test_rows_of_two_sizes():
    left, right = window_tuples(sj.rows(left=20, right=7), RATES, OTHER, 1.0)
    assert left.tolist() == [10, 20, 20, 20, 20]
    assert right.tolist() == [1, 3, 6, 7, 7]


def test_nothing_is_left_of_rates_without_exact_floats():
    rates = np.array([0.1, 0.7, 1e9 / 3, 0.2, 0.0, 0.0, 0.0])
    assert window_tuples(sj.within("3s"), rates, rates, 1.0)[0][-1] == 0.0


@pytest.mark.parametrize("intervals", [0, 1])
def test_few_intervals(intervals):
    left, _ = window_tuples(sj.within("3s"), RATES[:intervals], OTHER[:intervals], 1.0)
    assert left.tolist() == RATES[:intervals].tolist()


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 60), st.sampled_from([1, 2, 4]))
def test_seconds_are_sums(rates, quarters, per_second):
    window = sj.within(f"{quarters * 250}ms")
    got = window_tuples(window, np.array(rates, float), np.array(rates, float), 1 / per_second)[0]
    for now in range(len(rates)):
        end = Fraction(now + 1, per_second)
        start = end - Fraction(quarters, 4)
        expected = sum(
            rate
            * max(Fraction(0), min(end, Fraction(i + 1, per_second)) - max(start, Fraction(i, per_second)))
            for i, rate in enumerate(rates)
        )
        assert got[now] == pytest.approx(float(expected), abs=1e-9)
