"""The logic of measuring, on made-up figures: no time is taken here."""

import os

import pytest

from benchmarks import measure


def test_contenders_take_turns_and_warmups_do_not_count():
    order = []

    def contender(name, figures):
        def run():
            order.append(name)
            return next(figures)

        return run

    samples = measure.alternate(
        {"a": contender("a", iter([9.0, 1.0, 2.0])), "b": contender("b", iter([9.0, 3.0, 4.0]))},
        rounds=2,
        warmups=1,
    )
    assert order == ["a", "b"] * 3
    assert samples == {"a": [1.0, 2.0], "b": [3.0, 4.0]}


def test_at_least_five_rounds_unless_told():
    counts = []
    measure.alternate({"a": lambda: counts.append(1) or 1.0}, warmups=0)
    assert len(counts) == measure.MIN_ROUNDS == 5


@pytest.mark.parametrize(("contenders", "rounds"), [({}, 5), ({"a": lambda: 1.0}, 0)])
def test_nothing_to_measure_is_refused(contenders, rounds):
    with pytest.raises(ValueError, match="expected at least one"):
        measure.alternate(contenders, rounds)


def test_ratios_are_taken_within_a_round():
    # The second round ran on a machine half as fast: the ratio does not notice.
    assert measure.ratios([2.0, 4.0], [1.0, 2.0]) == [2.0, 2.0]
    with pytest.raises(ValueError):
        measure.ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [([5.0], 0.0), ([3.0, 3.0, 3.0], 0.0), ([1.0, 2.0, 3.0, 4.0, 5.0], 2 / 3), ([-1.0, 1.0], 0.0)],
)
def test_spread_is_the_distance_of_the_quartiles(samples, expected):
    assert measure.spread(samples) == pytest.approx(expected)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot pin")
def test_one_core_is_left_again():
    before = os.sched_getaffinity(0)
    with measure.one_core() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before


def test_one_core_where_the_system_cannot_pin(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with measure.one_core() as core:
        assert core is None
