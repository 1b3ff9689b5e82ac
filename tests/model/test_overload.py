"""Equations 10 to 15: work that is carried over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.model.overload import serve


def equations(work, latency, budget, interval):
    """Equations 11 to 14, as they are written: residuals, work by interval and origin, and the latency."""
    count = len(work)
    residual = np.zeros((count, count))
    done = np.zeros((count, count))
    for now in range(count):
        for origin in range(now + 1):
            before = done[now, :origin].sum()
            left = work[now] if origin == now else residual[now - 1, origin]
            residual[now, origin] = max(left - max(budget - before, 0.0), 0.0)
            done[now, origin] = left - residual[now, origin]
    late = [
        sum(done[i, m] * (latency[m] + (i - m) * interval) for m in range(i + 1)) / done[i].sum()
        if done[i].sum()
        else latency[i]
        for i in range(count)
    ]
    return done.sum(axis=1), np.array(late)


def test_the_quota_is_not_exceeded():
    work, latency = np.array([0.5, 1.0, 0.25]), np.array([0.1, 0.2, 0.3])
    done, late = serve(work, work * 10, latency, 1.0, 1.0)
    assert done.tolist() == [5, 10, 2.5]
    assert late.tolist() == latency.tolist()


def test_worked_example():
    # One second of work fits into an interval of 1 s; a second of work is 1000 comparisons. The latency is
    # 1 ms if the work starts at once.
    #   interval       0     1     2     3     4     5
    #   work K         0.5   2.25  1.0   0.5   0.25  0.0
    #   interval 0: 0.5 of its own; nothing left.
    #   interval 1: 1.0 of its own; 1.25 left.
    #   interval 2: 1.0 of interval 1, 1 s late; 0.25 of it and 1.0 left.
    #   interval 3: 0.25 of interval 1, 2 s late; 0.75 of interval 2, 1 s late; 0.25 of 2 and 0.5 left.
    #   interval 4: 0.25 of interval 2, 2 s late; 0.5 of interval 3, 1 s late; 0.25 of its own.
    #   interval 5: nothing is left and nothing comes.
    # Latency of interval 3: 0.001 + 0.25 * 2 + 0.75 * 1 = 1.251.
    # Latency of interval 4: 0.001 + 0.25 * 2 + 0.5 * 1 = 1.001.
    work = np.array([0.5, 2.25, 1.0, 0.5, 0.25, 0.0])
    done, late = serve(work, work * 1000, np.full(6, 0.001), 1.0, 1.0)
    assert done.tolist() == [500, 1000, 1000, 1000, 1000, 0]
    assert late == pytest.approx([0.001, 0.001, 1.001, 1.251, 1.001, 0.001], rel=1e-12)


def test_longer_intervals_are_later():
    done, late = serve(np.array([3.0, 0.0]), np.array([30.0, 0.0]), np.full(2, 0.5), 2.0, 4.0)
    assert done.tolist() == [20, 10]
    assert late.tolist() == [0.5, 4.5]


def test_a_join_that_is_always_overloaded_falls_behind():
    # 2 s of work in each interval of 1 s: interval i does the first half of the work of interval i / 2, or
    # the second half of that of (i - 1) / 2.
    done, late = serve(np.full(9, 2.0), np.full(9, 2.0), np.zeros(9), 1.0, 1.0)
    assert done.tolist() == [1.0] * 9
    assert late.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]


WORK = st.lists(st.floats(0, 5), min_size=1, max_size=30)


@given(WORK, st.floats(0.1, 3), st.floats(0.1, 10))
def test_equations_as_they_are_written(work, budget, interval):
    work = np.array(work)
    latency = np.linspace(0.01, 0.02, len(work))
    done, late = serve(work, work, latency, budget, interval)
    expected_done, expected_late = equations(work, latency, budget, interval)
    assert done == pytest.approx(expected_done, abs=1e-9)
    busy = expected_done > 1e-6
    assert late[busy] == pytest.approx(expected_late[busy], abs=1e-4)


@given(WORK, st.floats(0.5, 3))
def test_work_is_conserved(work, budget):
    idle = int(sum(work) / budget) + 1
    work = np.array(work + [0.0] * idle)
    comparisons = work * 7
    done, late = serve(work, comparisons, np.full(len(work), 0.25), budget, 1.0)
    assert done.sum() == pytest.approx(comparisons.sum())
    assert (done / 7 <= budget * (1 + 1e-9)).all()
    assert np.cumsum(done) == pytest.approx(np.minimum(np.cumsum(done), np.cumsum(comparisons)))
    assert (late >= 0.25).all()
