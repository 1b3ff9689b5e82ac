"""Calibration with next to no time: its figures mean little, but each must be one."""

import math
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from slidejoin.calibration import calibrate, spark
from slidejoin.calibration.indexes import EFFORTS
from slidejoin.cli.commands import app
from slidejoin.errors import SpecError, UsageError
from slidejoin.index import PARAMETERS
from slidejoin.model import Costs
from slidejoin.model.cost_file import to_json


@pytest.fixture(scope="module")
def measured():
    told = []
    costs = calibrate(seconds=0.1, progress=lambda what, share: told.append((what, share)))
    return costs, told


def test_every_index_is_measured(measured):
    costs, _ = measured
    assert costs.measured
    assert costs.indexes == tuple(PARAMETERS)
    for index in costs.indexes:
        for listed in (True, False):
            total = costs.arrival(index, window=2**20, matches=100, batch=1000, listed=listed).total
            assert 0 < total < math.inf
        assert costs.memory(index, 1000) > 0
    assert costs.machine["cpu"]
    assert costs.machine["instruction_set"]


def test_progress_goes_from_nothing_to_all(measured):
    _, told = measured
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert {name for name, _ in told} >= set(PARAMETERS)


def test_it_says_how_sure_it_is(measured):
    costs, _ = measured
    assert set(costs.spread) == {"calls", "listing", "window_row", "speedups", "spark"}
    assert all(0 <= spread < math.inf for spread in costs.spread.values())
    assert all(0 < each.spread < math.inf for each in costs.index_costs.values())


def test_larger_windows_and_more_matches_cost_no_less(measured):
    costs, _ = measured
    for index in costs.indexes:
        for batch in (1, 100, 10_000):
            totals = [
                costs.arrival(index, window=2**log, matches=matches, batch=batch).total
                for log, matches in [(6, 1), (9, 1), (14, 1), (14, 10), (14, 40), (20, 1000)]
            ]
            assert totals == sorted(totals)


def test_the_result_can_be_saved(measured, tmp_path):
    costs, _ = measured
    again = Costs.load(costs.save(tmp_path / "costs.json"))
    assert to_json(Costs.load(again.save(tmp_path / "again.json"))) == to_json(again)


def test_more_time_measures_larger_windows():
    tops = [effort.windows[-1] for effort in EFFORTS]
    assert tops == sorted(tops, reverse=True)


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_time_must_be_positive(seconds):
    with pytest.raises(SpecError, match="expected a positive number"):
        calibrate(seconds=seconds)


def test_the_command_writes_a_file_and_prints_a_table(tmp_path):
    file = tmp_path / "costs.json"
    result = CliRunner().invoke(
        app, ["model", "calibrate", "--seconds", "0.1", "--output", str(file)], env={"COLUMNS": "120"}
    )
    assert result.exit_code == 0, result.output
    assert "bucket-tree" in result.output
    assert "a call of push" in result.output
    assert f"written to {file}; plan reads it with --costs" in result.output
    assert Costs.load(file).measured


def test_the_command_writes_the_file_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("SLIDEJOIN_CALIBRATION", str(tmp_path / "mine.json"))
    result = CliRunner().invoke(app, ["model", "calibrate", "--seconds", "0.1"])
    assert result.exit_code == 0, result.output
    assert "--costs" not in result.output
    assert Costs.load().measured


def test_the_command_refuses_in_one_line(tmp_path):
    for words in (["--seconds", "0"], ["--seconds", "0.1", "--output", str(tmp_path)]):
        result = CliRunner().invoke(app, ["model", "calibrate", *words])
        assert result.exit_code == 1
        assert len(result.stderr.strip().splitlines()) == 1


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    def measure(*_):
        raise AssertionError("nothing may be measured")

    monkeypatch.setattr("slidejoin.cli.calibrate.measure", measure)
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "costs.json"):
        result = CliRunner().invoke(app, ["model", "calibrate", "--output", str(place)])
        assert (result.exit_code, len(result.output.strip().splitlines())) == (1, 1), result.output


def test_short_calibrations_say_what_is_extrapolated(tmp_path):
    words = ["model", "calibrate", "--seconds", "0.1", "--output", str(tmp_path / "costs.json")]
    assert "were not measured in this time" in CliRunner().invoke(app, words).output


def test_sparks_floor_and_row_are_those_of_its_batches(monkeypatch):
    def run(setup, _console, _output, partitions):
        assert partitions == 1  # a row's seconds are those of one partition
        rows = setup.rows // setup.batches
        times = [9.0, 5.0, *[0.2 + 2e-6 * rows] * (setup.batches - 2)]  # the first ones start the workers
        batches = [SimpleNamespace(rows=rows, seconds=time) for time in times]
        return SimpleNamespace(failure=None, batches=[*batches, SimpleNamespace(rows=0, seconds=1.0)])

    monkeypatch.setattr(spark, "run", run)
    costs, spread = spark.measure_spark()
    assert costs.floor == pytest.approx(0.2)
    assert costs.row == pytest.approx(2e-6)
    assert spread == pytest.approx(0, abs=1e-9)
    wrong = SimpleNamespace(failure="a pair is missing", batches=[])
    monkeypatch.setattr(spark, "run", lambda *_, **__: wrong)
    with pytest.raises(UsageError, match="a pair is missing"):
        spark.measure_spark()
