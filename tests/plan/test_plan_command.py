"""The command ``slidejoin plan``."""

import json

import pytest
from typer.testing import CliRunner

from slidejoin.cli.commands import app
from slidejoin.model import Costs

BASIC = ["--window", "rows(1000)", "--left-rate", "100", "--matches", "2"]


@pytest.fixture(autouse=True)
def default_costs(monkeypatch, tmp_path):
    monkeypatch.setenv("SLIDEJOIN_CALIBRATION", str(tmp_path / "none.json"))


def plan(*words):
    return CliRunner().invoke(app, ["plan", *words], env={"COLUMNS": "120"})


def test_text():
    result = plan(*BASIC)
    assert result.exit_code == 0, result.output
    for name in ("plan", "busy", "latency", "memory", "first limit", "costs"):
        assert f"\n{name}" in f"\n{result.output}"
    assert "default ones" in result.output


def test_json():
    result = plan(*BASIC, "--json", "--batch", "64", "--cores", "1", "--index", "b-tree")
    values = json.loads(result.output)
    assert (values["index"], values["batch"], values["workers"]) == ("b-tree", 64, 1)


def test_targets_that_cannot_be_held_end_with_2():
    result = plan(*BASIC, "--memory", "10kB")
    assert result.exit_code == 2
    assert "MISSES" in result.output
    assert "memory, exceeded already" in result.output


def test_costs_of_a_file(tmp_path):
    Costs.default().save(tmp_path / "mine.json")
    result = plan(*BASIC, "--costs", str(tmp_path / "mine.json"))
    assert result.exit_code == 0, result.output
    assert "measured on" in result.output
    assert "default ones" not in result.output


def test_a_trace_and_samples(tmp_path):
    (tmp_path / "rates.csv").write_text("left,right\n" + "100,200\n" * 50)
    (tmp_path / "sample.csv").write_text("x\n" + "\n".join(map(str, range(1000))))
    sample = str(tmp_path / "sample.csv")
    result = plan(
        "--window", "within('10s')", "--trace", str(tmp_path / "rates.csv"), "--sample-left", sample,
        "--sample-right", sample, "--on", "band('x', within=3)",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "matches of the samples" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--window", "rows(5)", "--matches", "1"], "give the rates"),
        ([*BASIC, "--trace", "x.csv"], "give the rates"),
        (["--window", "rows(5)", "--trace", "x.csv", "--right-rate", "1", "--matches", "1"], "both columns"),
        ([*BASIC, "--sample-left", "x.csv"], "give both"),
        ([*BASIC, "--selectivity", "0.5"], "give one of --selectivity"),
        ([*BASIC, "--latency", "soon"], "soon"),
        ([*BASIC, "--costs", "nowhere.json"], "nowhere.json"),
        (["--window", "rows(", "--left-rate", "1", "--matches", "1"], "window is not understood"),
    ],
)
def test_bad_input_is_one_line(words, message):
    result = plan(*words)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_a_trace_without_columns_is_refused(tmp_path):
    (tmp_path / "rates.csv").write_text("a,b\n1,2\n")
    result = plan("--window", "rows(5)", "--trace", str(tmp_path / "rates.csv"), "--matches", "1")
    assert result.exit_code == 1
    assert "expected left and right" in result.output


def test_workers_and_sources_are_taken():
    many = [*BASIC, "--json", "--cores", "4"]
    assert json.loads(plan(*many, "--workers", "2").output)["workers"] == 2
    calm = json.loads(plan(*many, "--ordered").output)
    waits = json.loads(plan(*many, "--ordered", "--sources", "5,5").output)
    assert waits["latency"] != calm["latency"]
    assert json.loads(plan(*many).output)["latency"] != waits["latency"]
    for words, says in (
        (["--sources", "2,2"], "--sources is for --ordered"),
        (["--ordered", "--sources", "2"], "expected two whole numbers above 0"),
        (["--ordered", "--sources", "0,1"], "such as 3,2"),
    ):
        result = plan(*BASIC, *words)
        assert result.exit_code == 1
        assert says in result.output


def test_windows_beyond_the_measured_ones_are_marked():
    large = ["--window", "rows(50_000_000)", "--left-rate", "100", "--matches", "2"]
    assert "were not measured, but extrapolated from" in plan(*large).output
    assert "extrapolated" not in plan(*BASIC, "--cores", "1").output
