"""The rates of the paper's experiments."""

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.model.rates import trace


def test_constant():
    left, right = trace("A", 7)
    assert left.tolist() == right.tolist() == [140.0] * 7


@pytest.mark.parametrize(("part", "peak"), [("B", 250), ("E", 50)])
def test_peaks(part, peak):
    left, right = trace(part, 300)
    high_left, high_right = left == peak, right == 240
    assert set(left) == {150, peak}
    assert set(right) == {160, 240}
    assert high_left.sum() == high_right.sum() == 60  # two peaks of 30 s
    assert (high_left & high_right).sum() == 30  # one of them at the same time


def test_triangles_add_up_to_a_constant():
    left, right = trace("C", 300)
    assert left + right == pytest.approx(np.full(300, 300))
    assert left.min() == right.min() == pytest.approx(100, abs=2)
    assert left.max() == right.max() == pytest.approx(200, abs=2)
    assert np.abs(np.diff(left)).max() == pytest.approx(400 / 300)


def test_sinusoids_have_different_periods():
    left, right = trace("D", 300)
    crossings = [int((np.diff(np.sign(side - 150)) != 0).sum()) for side in (left, right)]
    assert crossings == [5, 3]  # three periods and two, without their ends


def test_parts_follow_each_other():
    left, right = trace()
    assert len(left) == len(right) == 1500
    assert trace("CA", 20)[0].tolist() == [*trace("C", 20)[0], *trace("A", 20)[0]]


@pytest.mark.parametrize(("parts", "intervals"), [("", 5), ("AX", 5), ("a", 5), ("A", 0)])
def test_bad_trace(parts, intervals):
    with pytest.raises(sj.SpecError, match="expected"):
        trace(parts, intervals)
