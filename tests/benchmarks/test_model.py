"""The benchmark of the performance model: the schedule, the program that replays it, lines and figures."""

import json
import sys
import time
from collections import deque

import numpy as np
import pytest
from benchmark_programs import check_lines

from benchmarks import BENCHMARKS, model_nested, model_saturation, peer
from benchmarks.model_replay import Comparison, Experiment, percentage_errors, replay, whiskers
from benchmarks.model_saturation import Search, predicted
from benchmarks.model_schedule import TUPLE, Sources, paced, ready_times, schedule
from slidejoin.errors import UsageError
from slidejoin.window import Rows, rows, within

needs_program = pytest.mark.skipif(peer.program("model_peer") is None, reason="needs `make peers`")
SEVERAL = Sources(3, 2, (0.0, 0.004, 0.011, 0.001, 0.008))
TARGETS = ["<= 1"] * 2 + ["<= 6"] * 2 + ["<= 1"] * 2 + ["<= 5"] * 2 + ["<= 4"] * 2 + ["<= 10"] * 2


def quiet(_):
    pass


def constant(seconds, left, right):
    return np.full(seconds, float(left)), np.full(seconds, float(right))


def tuples_at(arrivals):
    """Tuples of both sides in turn that all match."""
    tuples = np.zeros(len(arrivals), TUPLE)
    tuples["arrival"] = tuples["ready"] = arrivals
    tuples["side"] = np.arange(len(tuples)) % 2
    return tuples


# --- The schedule ---


def test_sources_keep_their_pace_when_the_rate_changes():
    times = paced(np.array([2.0, 4.0, 1.5, 0.5]))
    np.testing.assert_allclose(times, [0, 0.5, 1, 1.25, 1.5, 1.75, 2, 2 + 2 / 3])


def test_streams_share_the_rate_of_their_side():
    streams = SEVERAL.arrivals(*constant(10, 30, 8))
    assert [len(times) for times in streams] == [100, 100, 100, 40, 40]
    for times, offset in zip(streams, SEVERAL.offsets, strict=True):
        np.testing.assert_allclose(
            np.diff(times, prepend=offset - (times[1] - times[0])), times[1] - times[0]
        )


def test_each_stream_has_an_offset():
    with pytest.raises(ValueError, match="2 offsets of 3 streams; expected one each"):
        Sources(1, 2, (0.0, 0.1))


@pytest.mark.parametrize("seed", range(5))
def test_tuples_are_ready_when_no_earlier_one_can_come(seed):
    random = np.random.default_rng(seed)
    streams = [np.cumsum(random.integers(1, 4, 20)).astype(float) for _ in range(4)]  # with ties
    for j, (arrivals, ready) in enumerate(zip(streams, ready_times(streams), strict=True)):
        for arrival, at in zip(arrivals, ready, strict=True):
            for now in np.unique(np.concatenate(streams)):
                latest = [times[times <= now].max(initial=-1) for times in streams]
                is_ready = now >= arrival and all(
                    x == j or (latest[x] > arrival if x < j else latest[x] >= arrival) for x in range(4)
                )
                assert is_ready == (now >= at)


def test_tuples_are_processed_in_order_once_they_are_ready():
    tuples = schedule(SEVERAL, *constant(3, 30, 20), deterministic=True)
    assert (np.diff(tuples["arrival"]) >= 0).all()
    assert (np.diff(tuples["ready"]) >= 0).all()
    assert (tuples["ready"] >= tuples["arrival"]).all()
    assert 3 * 50 - 20 < len(tuples) < 3 * 50  # the last ones are never ready
    at_once = schedule(SEVERAL, *constant(3, 30, 20), deterministic=False)
    np.testing.assert_array_equal(at_once["ready"], at_once["arrival"])
    assert len(at_once) == 150


# --- The program ---


def by_hand(tuples, window):
    """Comparisons and matches of the three-step procedure, self-purging."""
    kept = [deque(), deque()]
    comparisons = matches = 0
    for each in tuples:
        comparisons += len(kept[1 - each["side"]])
        for other in kept[1 - each["side"]]:
            near = abs(int(each["x"]) - int(other["x"])) <= 10
            matches += near and abs(float(each["y"]) - float(other["y"])) <= 10
        own = kept[each["side"]]
        own.append(each)
        if isinstance(window, Rows):
            if len(own) > window.left:
                own.popleft()
        else:
            while int(1e9 * each["arrival"]) - int(1e9 * own[0]["arrival"]) > window.duration:
                own.popleft()
    return comparisons, matches


@needs_program
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("window", [rows(70), within("2s"), within("1s")])
def test_program_compares_and_finds_what_the_three_steps_do(window, units):
    tuples = schedule(SEVERAL, *constant(8, 31, 23), deterministic=True)
    with replay(tuples, 8, window, units=units) as running:
        answers = [running.run() for _ in range(2)]
    comparisons, matches = by_hand(tuples, window)
    for answer in answers:
        assert sum(answer["comparisons"]) == comparisons
        assert sum(answer["outputs"]) == answer["matches"] == matches > 50
        assert 0 < sum(answer["emitting"]) < sum(answer["service"])
        assert 0 < sum(answer["joined"]) <= sum(answer["pushed"])
    assert answers[0]["checksum"] == answers[1]["checksum"]


@needs_program
def test_matches_are_stamped_while_the_window_is_scanned():
    tuples = tuples_at(np.arange(4000) / 1e3)
    with replay(tuples, 4, rows(2000), counted=1) as running:
        answer = running.run()
    # All match: the mean of a tuple's stamps is half of its time.
    assert 0.48 < sum(answer["joined"]) / sum(answer["pushed"]) < 0.52


@needs_program
def test_latency_is_the_wait_for_other_streams_and_the_scan():
    tuples = schedule(SEVERAL, *constant(6, 30, 20), deterministic=True)
    tuples["x"], tuples["y"] = 1, 1.0  # all match
    with replay(tuples, 6, rows(10**6), counted=1) as running:
        answer = running.run()
    waits = tuples["ready"] - tuples["arrival"]
    outputs = [np.count_nonzero(tuples["side"][:i] != side) for i, side in enumerate(tuples["side"])]
    assert sum(answer["waited"]) == pytest.approx(float(waits @ outputs), rel=1e-6)
    assert sum(answer["released"]) == sum(outputs)
    assert sum(answer["merged"]) == 0


@needs_program
def test_units_wait_for_each_other_as_ties_demand():
    """The first unit waits for the others' matches of the tuple, the others for its matches of the next."""
    period = 0.01
    with replay(tuples_at(period * np.arange(600)), 6, rows(600), units=3, counted=1) as running:
        answer = running.run()
    merged = np.array(answer["merged"][2:5]) / answer["released"][2:5]
    np.testing.assert_allclose(merged, 2 / 3 * period, rtol=0.01)


@needs_program
def test_a_unit_works_for_its_quota_of_each_second():
    with replay(tuples_at([0.0] * 6), 7, rows(10), quota=1e-9, counted=1) as running:
        answer = running.run()
    assert answer["comparisons"] == [0, 1, 1, 2, 2, 3, 0]  # one tuple a second
    assert np.floor(answer["queued"]).tolist() == [0, 1, 2, 6, 8, 15, 0]
    assert 5 < answer["backlog"] < 6


@needs_program
def test_tuples_queue_for_a_busy_unit():
    tuples = tuples_at([0.0] * 3000)
    with replay(tuples, 1, rows(1000), counted=1) as running:
        answer = running.run()
    assert answer["backlog"] == pytest.approx(sum(answer["service"]), rel=1e-6)
    assert sum(answer["queued"]) > 100 * sum(answer["joined"])


@needs_program
def test_real_time_takes_its_time_and_finds_the_same():
    tuples = schedule(Sources(), *constant(2, 40, 40), deterministic=False)
    with replay(tuples, 2, rows(50)) as one, replay(tuples, 2, rows(50), real=1.5) as other:
        logical = one.run()
        began = time.perf_counter()
        real = other.run()
        assert time.perf_counter() - began > 0.45
    assert [real[name] for name in ("matches", "checksum")] == [
        logical[name] for name in ("matches", "checksum")
    ]
    assert sum(real["comparisons"]) == sum(logical["comparisons"])


@needs_program
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 0}, "--units: expected at least one"),
        ({"units": 2, "real": 0}, "and one with --real"),
        ({"quota": -1}, "--quota '-1'; expected a number from 0"),
        ({"speed": 1}, "unknown option, or no value: --speed"),
    ],
)
def test_program_says_what_is_wrong(options, message):
    with pytest.raises(UsageError, match=message), replay(tuples_at([0.0]), 1, rows(1), **options):
        pass


# --- The model against it ---


@needs_program
@pytest.mark.parametrize(("sources", "units"), [(Sources(), 1), (SEVERAL, 1), (SEVERAL, 3)])
def test_deterministic_latency_is_what_the_model_says(sources, units):
    """By a clock that counts comparisons. Windows are large enough for a match in each unit."""
    experiment = Experiment("deterministic", sources, deterministic=True, units=units)
    comparison = Comparison(experiment, "tuple", rows(2000), constant(24, 300, 180), since=12)
    with comparison.start(counted=1) as running:
        comparison.add(running.run())
    assert np.median(comparison.errors("latency")) < 2
    assert np.median(comparison.errors("throughput")) < 1


def test_costs_are_sums_of_medians():
    comparison = Comparison(Experiment("any", Sources()), "tuple", rows(10), constant(2, 1, 1))
    for service in ([1.0, 1.0], [1.2, 1.0], [9.0, 1.2]):
        comparison.add(
            {"comparisons": [100, 300], "outputs": [2, 6], "service": service, "emitting": [0.4, 0.2]}
        )
    costs = comparison.costs
    assert costs["alpha"] == pytest.approx((1.2 + 1.0 - 0.6) / 400)
    assert costs["beta"] == pytest.approx(0.6 / 8)
    assert costs["selectivity"] == pytest.approx(8 / 400)


def test_errors_and_whiskers():
    actual, model = np.array([2.0, 0.0, np.nan, 4.0]), np.array([1.0, 1.0, 1.0, 5.0])
    assert percentage_errors(actual, model) == [50, 25]
    assert whiskers([1.0, 2.0, 3.0, 4.0, 100.0]) == (1, 4)


def test_predicted_saturation_fills_an_interval():
    costs = {"alpha": 1e-6, "beta": 2e-5, "selectivity": 0.1}  # 3 microseconds a comparison
    assert predicted(rows(1000), costs) == pytest.approx(1 / (2 * 1000 * 3e-6), rel=1e-9)
    assert predicted(within("500ms"), costs) == pytest.approx((2 * 0.5 * 3e-6) ** -0.5, rel=1e-9)


def test_saturation_is_searched_for_around_the_prediction(monkeypatch):
    monkeypatch.setattr(model_saturation, "_keeps_up", lambda _window, rate, _search: rate < 1300)
    comparison = Comparison(Experiment("any", Sources()), "tuple", rows(10), constant(1, 1, 1))
    comparison.costs = {"alpha": 1e-3 / 20, "beta": 0.0, "selectivity": 0.5}
    error, model, found = model_saturation.saturation(comparison, Search(rows=10, steps=20, rounds=2), quiet)
    assert model.value == pytest.approx(1.0)
    assert found.samples == pytest.approx([1.3, 1.3], rel=1e-4)
    assert error.value == pytest.approx(100 * 0.3 / 1.3, rel=1e-2)
    assert (error.target, error.ok) == ("<= 10", False)


@needs_program
@pytest.mark.parametrize("window", [rows(500), within("10ms")])
def test_a_join_keeps_up_with_slow_streams_and_not_with_fast_ones(window):
    search = Search(tuples=2000)
    assert model_saturation._keeps_up(window, 500.0, search)
    assert not model_saturation._keeps_up(window, 1e8 if isinstance(window, Rows) else 1e6, search)


# --- Lines and figures ---


@pytest.fixture(scope="module")
def report():
    if peer.program("model_peer") is None:
        pytest.skip("needs `make peers`")
    return BENCHMARKS["model"].run(True, quiet)


def test_smoke_run_fills_the_whole_table(report):
    nested = [result for result in report.results if result.target in TARGETS]
    assert [result.target for result in nested][: len(TARGETS)] == TARGETS
    check_lines(report.results)
    for part in (
        "throughput, centralised",
        "overload",
        "real time / logical",
        "3 units",
        "alpha",
        "end of a push",
    ):
        assert any(part in result.what for result in report.results), part
    errors = [result for result in report.results if "error of the model" in result.what and result.note]
    # A fast machine has no backlog in the few tuples of a smoke run.
    assert all("whiskers" in result.note or "no second had" in result.note for result in errors)
    assert report.parameters["nested"]["part"] == model_nested.QUICK.part
    assert report.quick


def test_figures_are_drawn_and_not_part_of_the_json(report, tmp_path):
    assert "figures" not in json.loads(report.to_json())
    paths = report.draw(tmp_path / "new")
    names = {f"model-validation{name}.png" for name in ("", "-overload", "-parts")}
    assert names <= {path.name for path in paths}
    for path in paths:
        assert path.stat().st_size > 10_000


def test_figures_without_matplotlib_name_the_extra(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"slidejoin\[plot\]"):
        report.draw(tmp_path)


def test_without_the_program_a_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(model_nested, "program", lambda _: None)
    (line,), figures = model_nested.measure(model_nested.QUICK, quiet)
    assert (line.value, line.note, figures) == (None, peer.BUILD, {})
