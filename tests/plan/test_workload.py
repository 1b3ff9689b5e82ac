import numpy as np
import pytest

import slidejoin as sj
from slidejoin import SpecError
from slidejoin.plan.workload import Workload, broadcast, make_rates


def workload(window, left, right, selectivity=0.5, interval=1.0):
    return Workload(window, make_rates("left", left), make_rates("right", right), selectivity, interval)


def test_steady_windows_are_full():
    (load,) = workload(sj.rows(left=10, right=30), 100, 300).loads()
    assert (load.left, load.right) == (10, 30)
    # A left row meets 30 right rows, a right one 10 left rows; three of four rows are right ones.
    assert load.matches == pytest.approx(0.5 * (30 * 0.25 + 10 * 0.75))
    (load,) = workload(sj.within("2s"), 100, 300).loads()
    assert (load.left, load.right) == (200, 600)


def test_windows_of_a_trace_fill():
    loads = workload(sj.rows(250), [100, 100, 100, 100], [1, 1, 1, 1]).loads()
    assert [load.left for load in loads] == [100, 200, 250, 250]
    loads = workload(sj.within("1500ms"), [100, 200, 300], [0, 0, 0]).loads()
    assert [load.left for load in loads] == [100, 250, 400]


def test_event_time_keeps_rows_for_later_ones():
    (load,) = workload(sj.interval("5s", "1s", time="t", lateness="2s"), 10, 10, 1.0).loads()
    # A left row waits for right rows that are up to 1 s later, and 2 s more for late ones.
    assert (load.left, load.right) == (30, 70)
    assert (load.left_seen, load.right_seen) == (10, 50)
    assert load.matches == 30


def test_a_silent_trace_has_no_matches():
    (load,) = workload(sj.within("1s"), 0, 0).loads()
    assert load.matches == 0
    assert load.stored == (1, 1)


def test_the_hardest_loads_are_the_busiest_and_the_fullest():
    trace = workload(sj.within("3s"), [5, 5, 5, 9, 0, 0], [5, 5, 5, 0, 0, 0])
    assert max(load.rate for load in trace.hardest()) == 10
    assert max(load.left + load.right for load in trace.hardest()) == 30


def test_the_most_comparisons_are_hard_even_if_hardly_any_matches():
    trace = workload(sj.rows(1000), [100, 10, 10, 99, 1], [100, 10, 1000, 99, 1], 1e-9)
    most = max(load.rate * (load.left + load.right) for load in trace.loads())
    assert most in [load.rate * (load.left + load.right) for load in trace.hardest()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((sj.rows(5), [1, 2], [1]), "2 left and 1 right rates"),
        ((sj.rows(5), 1, 1, 0.0), "selectivity 0 is not in"),
        ((sj.rows(5), 1, 1, 1.5), "selectivity 1.5 is not in"),
        ((sj.rows(5), 1, 1, 0.5, 0.0), "interval of 0 seconds"),
        ((sj.within(5), 1, 1), "has no unit"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(SpecError, match=message):
        workload(*arguments)


@pytest.mark.parametrize("rates", [-1, [1, -2], np.nan, [np.inf], "many", [], [[1.0, 2.0]], None, [None]])
def test_refused_rates(rates):
    with pytest.raises(SpecError, match="left_rate"):
        make_rates("left_rate", rates)


def test_a_steady_side_lasts_as_long_as_the_other():
    left, _ = broadcast(make_rates("l", 5), make_rates("r", [1, 2, 3]))
    assert left.tolist() == [5, 5, 5]
    _, left = broadcast(make_rates("r", [1, 2, 3]), make_rates("l", 5))
    assert left.tolist() == [5, 5, 5]
