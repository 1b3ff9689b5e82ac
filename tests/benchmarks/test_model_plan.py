"""The comparison of the planner's choices with the best index."""

import pytest
from benchmark_programs import check_lines

from benchmarks.model_plan import QUICK, Sizes, candidates, cases, choice, lines
from slidejoin.model import Costs

COSTS = Costs.default()


def test_workloads_are_many_different_and_the_same_every_time():
    drawn = list(cases(Sizes(), 2))
    assert len({str(case) for case in drawn}) == len(drawn) >= 30
    assert list(map(str, drawn)) == list(map(str, cases(Sizes(), 2)))
    assert any(case.workers == 2 for case in drawn)
    for case in drawn:
        assert Sizes.least_window <= case.workload.window <= Sizes.most_window
        assert 0.5 <= case.workload.matches <= case.workload.window / 8
        assert case.batch * case.workload.matches <= Sizes.most_pairs


def test_the_choice_is_the_cheapest_by_the_costs():
    for case in cases(Sizes(workloads=12), 1):

        def seconds(index, case=case):
            return COSTS.arrival(
                index, window=case.workload.window, matches=case.workload.matches, batch=case.batch
            ).total

        assert seconds(choice(case, COSTS)) == pytest.approx(min(map(seconds, COSTS.indexes)))


def test_only_the_nested_loop_is_left_out_of_large_windows():
    small, large = (
        next(case for case in cases(Sizes(), 1) if (case.workload.window <= 2**12) == wanted)
        for wanted in (True, False)
    )
    assert candidates(small, COSTS, Sizes()) == list(COSTS.indexes)
    assert set(COSTS.indexes) - set(candidates(large, COSTS, Sizes())) == {"nested-loop"}


def test_lines():
    results = list(lines(QUICK, COSTS, 2, lambda _: None))
    check_lines(results)
    assert [result.target for result in results][:2] == [">= 0.9", ">= 0.7"]
    assert len(results) == 2 + QUICK.workloads
    assert all(0 < result.value <= 1 for result in results)
