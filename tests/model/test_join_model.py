"""JoinModel: each equation by hand, its limits and invariances, and what it refuses."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.model import JoinModel
from slidejoin.model.table import COLUMNS

COSTS = {"alpha": 2e-8, "beta": 1e-7, "selectivity": 0.01}


def model(window="2s", **options):
    return JoinModel(sj.within(window), **(COSTS | options))


def test_comparisons_work_and_throughput():
    # 2 s windows, rates 100 and 50. Interval 0: windows 100 and 50, 50*100 + 100*50 = 10,000 comparisons (4);
    # later 100*100 + 200*50 = 20,000. A comparison takes 2e-8 + 0.01 * 1e-7 = 2.1e-8 s: 0.21 and 0.42 ms (5).
    table = model().run([100, 100, 100], [50, 50, 50])
    assert table["window_left"].tolist() == [100, 200, 200]
    assert table["window_right"].tolist() == [50, 100, 100]
    assert table["comparisons"].tolist() == [10_000, 20_000, 20_000]
    assert table["work"] == pytest.approx([2.1e-4, 4.2e-4, 4.2e-4], rel=1e-12)
    assert table["throughput"].tolist() == table["comparisons"].tolist()


def test_latency_of_the_join():
    # Interval 1: a left tuple meets 100 right ones, one of which matches: (1 + 1) * 2.1e-8 / 0.02 = 2.1e-6 s
    # (8). A right tuple meets 200: (2 + 1) * 2.1e-8 / 0.02 = 3.15e-6. Two thirds are left: 2.45e-6 (9).
    table = model().run([100, 100], [50, 50])
    assert table["latency_join"][1] == pytest.approx(2.45e-6, rel=1e-12)
    assert table["latency"].tolist() == table["latency_join"].tolist()
    assert table["latency_in"].tolist() == table["latency_out"].tolist() == [0, 0]


def test_figure_3():
    # A tuple meets 16 others, every fourth matches, alpha = 3, beta = 2: matches after 14, 28, 42 and 56 s.
    table = JoinModel(sj.rows(16), alpha=3, beta=2, selectivity=0.25, interval=1e6).run([1], [1])
    assert table["latency_join"][0] == pytest.approx((14 + 28 + 42 + 56) / 4)


def test_rows():
    # Interval 0 fills the windows with 100 and 50 tuples: 50*100 + 100*50 = 10,000 comparisons. From interval
    # 1 on they are full: 60*100 + 150*50 = 13,500.
    table = JoinModel(sj.rows(left=150, right=60), **COSTS).run([100, 100, 100], [50, 50, 50])
    assert table["comparisons"].tolist() == [10_000, 13_500, 13_500]


def test_other_intervals():
    # Intervals of 0.5 s, window 1 s: windows of 50 and 25, then 100 and 50; (50*100 + 100*50) * 0.5 = 5,000.
    table = model("1s", interval=0.5).run([100, 100, 100], [50, 50, 50])
    assert table["comparisons"].tolist() == [2_500, 5_000, 5_000]


def test_overload():
    # 100 and 100 a second, window 1 s: 20,000 comparisons of 2.1e-4 s are 4.2 s of work in each of two
    # intervals. At a quota of 0.7 an interval does 0.7 s, 3333 1/3 comparisons (15), so 8.4 s take 12
    # intervals: six for each. Interval 3 works for interval 0, 3 s late; interval 7 for interval 1, 6 s late.
    table = model("1s", alpha=2e-4, beta=1e-3, quota=0.7).run([100, 100, *[0] * 12], [100, 100, *[0] * 12])
    assert table["throughput"][:12] == pytest.approx(np.full(12, 0.7 / 2.1e-4))
    assert table["throughput"][13] == 0
    assert table["throughput"].sum() == pytest.approx(table["comparisons"].sum())
    at_once = (0.01 * 100 + 1) * 2.1e-4 / 0.02
    assert table["latency_join"][[0, 3, 7]] == pytest.approx([at_once, at_once + 3, at_once + 6])


def test_units():
    # Three units with a third of each window: the same comparisons and work in all (22), a third of the
    # window in equation 8: (0.01 * 600 / 3 + 1) * 2.1e-8 / 0.02 = 3.15e-6 s (23).
    table = JoinModel(sj.rows(600), **COSTS, units=3).run([1000], [1000])
    alone = JoinModel(sj.rows(600), **COSTS).run([1000], [1000])
    for name in ("comparisons", "work", "throughput"):
        assert table[name].tolist() == alone[name].tolist()
    assert table["latency_join"][0] == pytest.approx(3.15e-6, rel=1e-12)
    assert table["latency_out"][0] == 0  # only deterministic joins merge their outputs


def test_units_share_overload():
    # 4.2 s of work: three units of quota 0.7 do 2.1 s of it in each interval.
    table = model("1s", alpha=2e-4, beta=1e-3, quota=0.7, units=3).run([100, 0, 0], [100, 0, 0])
    assert table["throughput"] == pytest.approx([10_000, 10_000, 0])
    assert table["latency"][2] == 0  # an error of rounding is not work left over


def test_waits_of_one_stream_each():
    # R and S at 140 a second: half a period on average (18).
    table = model(deterministic=True).run([140], [140])
    assert table["latency_in"][0] == pytest.approx(1 / 280, rel=1e-12)
    assert table["latency"][0] == pytest.approx(table["latency_in"][0] + table["latency_join"][0])


def test_waits_of_several_streams():
    # By hand in test_readiness.py: 27/140 s for 12 tuples (21), and 26/140 s by the definition.
    even = model(deterministic=True, left_streams=3, right_streams=2).run([140], [140])
    given = model(deterministic=True, left_streams=3, right_streams=2).run([[140 / 3] * 3], [[70, 70]])
    assert even["latency_in"][0] == given["latency_in"][0] == pytest.approx(27 / 140 / 12, rel=1e-6)
    exact = model(deterministic=True, left_streams=3, right_streams=2, exact=True).run([140], [140])
    assert exact["latency_in"][0] == pytest.approx(26 / 140 / 12, rel=1e-6)


def test_streams_of_different_rates():
    # R at 2 and 4 a second, S at 4: offsets 0, e, 2e are the case of test_readiness.py: 3/2 s for 5 tuples.
    table = model(deterministic=True, left_streams=2).run([[2, 4]], [[4]])
    assert table["latency_in"][0] == pytest.approx(1.5 / 5, rel=1e-9)


def test_given_offsets():
    # R at 0, 1/10, …, S at 3/100, 13/100, …: R waits for 0.03 s, S for 0.07 s.
    table = model(deterministic=True, right_offsets=[0.03]).run([10], [10])
    assert table["latency_in"][0] == pytest.approx(0.05)
    table = model(deterministic=True, left_offsets=[0.3], right_offsets=[0.3]).run([10], [10])
    assert table["latency_in"][0] == 0


def test_merge_of_units():
    # Full windows of 600: 1000 * 600 * 2 * 0.01 = 12,000 matches a second, 4,000 of a unit. A unit delivers
    # at most with each of the 2,000 arrivals: a period of 0.5 ms. The first unit waits for 2e-10 s, the
    # other two for a period, give or take 1e-10 s (24, 25).
    table = JoinModel(sj.rows(600), **COSTS, units=3, deterministic=True).run([1000], [1000])
    assert table["latency_out"][0] == pytest.approx(2 / 3 * 5e-4, rel=1e-6)
    # A tenth of the selectivity: 400 matches a second of a unit, fewer than arrivals.
    table = JoinModel(sj.rows(600), **(COSTS | {"selectivity": 0.001}), units=3, deterministic=True).run(
        [1000], [1000]
    )
    assert table["latency_out"][0] == pytest.approx(2 / 3 / 400, rel=1e-6)


def test_given_offsets_of_units():
    # 100 matches a second of each unit, at 0 and 4 ms: they wait for 4 and 6 ms.
    options = COSTS | {"selectivity": 1.0, "units": 2, "deterministic": True, "unit_offsets": [0, 0.004]}
    table = JoinModel(sj.rows(1), **options).run([100], [100])
    assert table["latency_out"][0] == pytest.approx(0.005)


def test_latency_is_the_sum_of_its_parts():
    table = model(deterministic=True, units=3, left_streams=3, right_streams=2).run([140, 90], [140, 160])
    parts = table["latency_in"] + table["latency_join"] + table["latency_out"]
    assert table["latency"].tolist() == parts.tolist()
    assert (parts > 0).all()


class Flat:
    """A cost that remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def seconds(self, window_left, window_right, matches):
        self.asked.append((window_left, window_right, matches))
        return 1e-3


def test_cost_of_an_index():
    # 150 arrivals a second of 1 ms each are 0.15 s. Of 20,000 pairs, 200 match: 4/3 of each arrival.
    cost = Flat()
    table = JoinModel(sj.within("2s"), selectivity=0.01, cost=cost).run([100, 100], [50, 50])
    assert cost.asked[1] == pytest.approx((200, 100, 4 / 3))
    assert table["comparisons"].tolist() == [10_000, 20_000]
    assert table["work"] == pytest.approx([0.15, 0.15])
    assert table["latency_join"].tolist() == [1e-3, 1e-3]
    assert table["throughput"].tolist() == [10_000, 20_000]


def test_cost_of_an_index_that_is_overloaded():
    # A tenth of a second can be done of the 0.15 s of work: two thirds of the comparisons, then what is left.
    table = JoinModel(sj.within("2s"), selectivity=0.01, cost=Flat(), quota=0.1).run([100, 0], [50, 0])
    assert table["throughput"] == pytest.approx([10_000 * 2 / 3, 10_000 / 3])
    assert table["latency_join"] == pytest.approx([1e-3, 1 + 1e-3])


def test_cost_of_units():
    cost = Flat()
    table = JoinModel(sj.within("2s"), selectivity=0.01, cost=cost, units=2).run([100], [50])
    assert cost.asked == [pytest.approx((50, 25, 1 / 3))]
    assert table["work"] == pytest.approx([0.3])


def test_nothing_arrives():
    for options in ({}, {"deterministic": True, "units": 3}, {"cost": Flat(), "alpha": None, "beta": None}):
        table = model(**options).run([0, 0], [0, 0])
        for name in COLUMNS:
            assert table[name].tolist() == [0, 0]


def test_one_side_is_silent():
    # No comparison is made; latencies are those of equation 9 with an empty window, and no tuple waits.
    table = model(deterministic=True, units=2).run([100], [0])
    assert table["comparisons"][0] == table["work"][0] == table["throughput"][0] == 0
    assert table["latency_in"][0] == table["latency_out"][0] == 0
    assert table["latency_join"][0] == pytest.approx(2.1e-8 / 0.02)


def test_one_tuple():
    table = JoinModel(sj.rows(1), **COSTS).run([1], [1])
    assert table["comparisons"][0] == 2


def test_no_interval():
    table = model(deterministic=True).run([], [])
    assert table.intervals == 0
    assert repr(table).startswith("ModelTable of 0 intervals")


def test_saturation():
    # At 1 s of work for each second, nothing is carried over; a little more falls behind for ever.
    rate = (1 / (2 * 2.1e-8)) ** 0.5
    table = JoinModel(sj.within("1s"), **COSTS).run(np.full(50, rate * 0.999), np.full(50, rate * 0.999))
    assert (table["latency"] < 0.01).all()
    table = JoinModel(sj.within("1s"), **COSTS).run(np.full(50, rate * 1.1), np.full(50, rate * 1.1))
    assert (np.diff(table["latency"])[1:] > 0).mean() > 0.9
    assert table["throughput"] == pytest.approx(np.full(50, 1 / 2.1e-8))


def test_table():
    table = model().run([100, 100], [50, 50])
    assert tuple(table) == tuple(table.keys()) == COLUMNS
    assert len(table) == 9
    assert isinstance(table.to_arrow(), pa.Table)
    assert table.to_arrow().num_rows == 2
    assert "comparisons" in repr(table)
    with pytest.raises(ValueError):
        table["work"][0] = 1


RATES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=12)
OPTIONS = st.fixed_dictionaries(
    {
        "units": st.integers(1, 4),
        "deterministic": st.booleans(),
        "quota": st.sampled_from([1.0, 0.3]),
        "left_streams": st.integers(1, 3),
        "right_streams": st.integers(1, 3),
    }
)
SLOW = {"alpha": 5e-6, "beta": 1e-5, "selectivity": 0.01}


def same(got, expected, factors):
    for name in COLUMNS:
        assert got[name] == pytest.approx(expected[name] * factors.get(name, 1.0), rel=1e-6, abs=1e-8), name


@given(RATES, OPTIONS, st.sampled_from([0.1, 0.5, 4.0, 60.0]))
def test_time_can_be_scaled(rates, options, factor):
    # A run that is slower by a factor in everything is the same run, with longer times.
    left, right = np.array(rates, dtype=float).T
    offsets = {
        "left_offsets": [0.0, 0.001, 0.002][: options["left_streams"]],
        "right_offsets": [0.003, 0.004, 0.005][: options["right_streams"]],
        "unit_offsets": [0.0, 0.001, 0.002, 0.003][: options["units"]],
    }
    scaled = {name: [offset * factor for offset in values] for name, values in offsets.items()}
    expected = JoinModel(sj.within("3s"), **SLOW, **options, **offsets).run(left, right)
    slow = SLOW | {"alpha": SLOW["alpha"] * factor, "beta": SLOW["beta"] * factor}
    got = JoinModel(sj.within(f"{round(3000 * factor)}ms"), **slow, **options, **scaled, interval=factor).run(
        left / factor, right / factor
    )
    times = ("work", "latency", "latency_in", "latency_join", "latency_out")
    same(got, expected, dict.fromkeys(times, factor))


@given(RATES, OPTIONS, st.sampled_from([sj.within("3s"), sj.rows(200), sj.rows(left=10, right=400)]))
def test_sides_can_be_swapped(rates, options, window):
    left, right = np.array(rates, dtype=float).T
    offsets = [
        [0.0, 0.001, 0.002][: options["left_streams"]],
        [0.003, 0.004, 0.005][: options["right_streams"]],
    ]
    expected = JoinModel(window, **SLOW, **options, left_offsets=offsets[0], right_offsets=offsets[1]).run(
        left, right
    )
    swapped = options | {"left_streams": options["right_streams"], "right_streams": options["left_streams"]}
    if window.kept[0] != window.kept[1]:
        window = sj.rows(left=400, right=10)
    got = JoinModel(window, **SLOW, **swapped, left_offsets=offsets[1], right_offsets=offsets[0]).run(
        right, left
    )
    for name in COLUMNS:
        mirrored = {"window_left": "window_right", "window_right": "window_left"}.get(name, name)
        assert got[name] == pytest.approx(expected[mirrored], rel=1e-9, abs=1e-15)


@given(RATES)
def test_comparisons_are_conserved(rates):
    left, right = np.array(rates + [(0, 0)] * 200, dtype=float).T
    table = JoinModel(sj.within("3s"), **SLOW, quota=0.3).run(left, right)
    assert table["throughput"].sum() == pytest.approx(table["comparisons"].sum())
    assert (table["throughput"] * 5.1e-6 <= 0.3 * (1 + 1e-9)).all()


def test_a_run_of_the_paper_takes_less_than_a_second():
    seconds = np.arange(1500)
    left = 150 * (1 + 0.3 * np.sin(seconds / 30))
    right = 140 * (1 + 0.3 * np.sin(seconds / 50))
    for rates in ((left, right), (np.round(left), np.round(right)), (700 * left, 700 * right)):
        began = time.process_time()
        model("60s", deterministic=True, left_streams=3, right_streams=2, units=3).run(*rates)
        assert time.process_time() - began < 1


def test_high_rates():
    # n and n + 1 tuples a second, as in test_readiness.py.
    n = 100_003
    table = model("1s", deterministic=True, right_offsets=[1e-12]).run([n], [n + 1])
    sums = (n - 1) / (2 * (n + 1)) + 1 / 2 + 1 / n
    assert table["latency_in"][0] == pytest.approx(sums / (2 * n + 1), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": sj.within(30)}, "has no unit"),
        ({"window": "30s"}, "expected a window"),
        ({"window": None}, "expected a window"),
        ({"window": sj.interval("-1s", "5s")}, "before and after >= 0"),
        ({"alpha": 0}, "alpha 0; expected seconds above 0"),
        ({"alpha": -1e-8}, "alpha -1e-08"),
        ({"alpha": float("nan")}, "alpha nan"),
        ({"alpha": float("inf")}, "alpha inf"),
        ({"alpha": "fast"}, "alpha 'fast'"),
        ({"alpha": "1e-8"}, "alpha '1e-8'"),
        ({"alpha": True}, "alpha True"),
        ({"alpha": 10**400}, "alpha 1000"),
        ({"alpha": None}, "alpha None"),
        ({"beta": None}, "beta None"),
        ({"beta": -1}, "beta -1; expected seconds, 0 or more"),
        ({"alpha": None, "beta": None}, "alpha and beta, or cost"),
        ({"cost": Flat()}, "give one of the two forms"),
        ({"cost": 5, "alpha": None, "beta": None}, "has no seconds"),
        ({"selectivity": 0}, "selectivity 0; expected above 0 and up to 1"),
        ({"selectivity": 1.01}, "selectivity 1.01"),
        ({"selectivity": -0.5}, "selectivity -0.5"),
        ({"quota": 0}, "quota 0; expected above 0 and up to 1"),
        ({"quota": 1.5}, "quota 1.5"),
        ({"units": 0}, "units 0; expected a whole number, 1 or more"),
        ({"units": 1.5}, "units 1.5"),
        ({"units": True}, "units True"),
        ({"units": 10**400}, "units 1000"),
        ({"quota": True}, "quota True"),
        ({"left_streams": 0}, "left_streams 0"),
        ({"right_streams": -1}, "right_streams -1"),
        ({"interval": 0}, "interval 0; expected seconds, 1e-9 or more"),
        ({"interval": 1e-13}, "interval 1e-13"),
        ({"left_offsets": [0, 1]}, "left_offsets has 2 values; expected 1"),
        ({"right_offsets": [-1]}, "right_offsets -1"),
        ({"unit_offsets": []}, "unit_offsets has 0 values"),
        ({"unit_offsets": 3}, "unit_offsets 3; expected a sequence"),
        ({"unit_offsets": "0"}, "unit_offsets '0'; expected a sequence"),
    ],
)
def test_bad_description(options, message):
    with pytest.raises(sj.SpecError, match=message):
        JoinModel(**({"window": sj.within("2s")} | COSTS | options))


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([1, -2], [1, 1], r"left_rates have -2.0 in interval 1; expected 0 to 10\^12"),
        ([1, 1], [float("nan"), 1], "right_rates have nan in interval 0"),
        ([1, 1], [1, float("inf")], "right_rates have inf in interval 1"),
        ([1, 1], [1], "left_rates have 2 intervals, right_rates 1"),
        ([[1, 1]], [1], "left_rates have 2 columns; expected 1, as left_streams says"),
        (5, [1], "left_rates have 0 dimensions"),
        ([[[1]]], [1], "left_rates have 3 dimensions"),
        (["a"], [1], "left_rates are not numbers"),
        (["1"], [1], "left_rates are not numbers"),
        ([True], [1], "left_rates are not numbers"),
        ([10**400], [1], "left_rates are not numbers"),
        ([[1], [1, 2]], [1], "left_rates are not numbers"),
        (None, [1], "left_rates"),
    ],
)
def test_bad_rates(left, right, message):
    with pytest.raises(sj.SpecError, match=message):
        model().run(left, right)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_bad_costs_of_an_arrival(seconds):
    class Wrong:
        def seconds(self, *_):
            return seconds

    with pytest.raises(sj.SpecError, match="expected seconds, 0 or more"):
        JoinModel(sj.rows(5), selectivity=1, cost=Wrong()).run([1], [1])


def test_units_that_deliver_at_the_same_times_do_not_wait():
    # 20 n comparisons of which 1/n match are 10 matches a second for each of two units, in floats a little
    # more or less. A unit that begins 0.7 s later delivers at the same times as the other one.
    for n in range(10, 200):
        table = JoinModel(
            sj.rows(1000), alpha=1e-9, beta=0, selectivity=1 / n, units=2, deterministic=True,
            unit_offsets=[0, 0.7],
        ).run([n], [10])  # fmt: skip
        assert table["latency_out"][0] == 0, n
