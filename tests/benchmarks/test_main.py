"""``python -m benchmarks``."""

import json
from dataclasses import replace

import typer
from typer.testing import CliRunner

from benchmarks import BENCHMARKS
from benchmarks.__main__ import main
from benchmarks.report import Report
from slidejoin import StateError

app = typer.Typer()
app.command()(main)


def run(*words):
    return CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})


def test_no_name_lists_the_benchmarks():
    result = run()
    assert result.exit_code == 0
    for benchmark in BENCHMARKS.values():
        assert benchmark.name in result.output
        assert benchmark.about[:20] in result.output


def test_unknown_benchmark_lists_them_and_fails():
    result = run("nonsense")
    assert result.exit_code == 1
    assert "no benchmark 'nonsense'" in result.output
    assert all(name in result.output for name in BENCHMARKS)


def test_quick_benchmark_says_so_and_writes_json(tmp_path):
    path = tmp_path / "new" / "foundation.json"
    result = run("foundation", "--quick", "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "a smoke run, its figures mean nothing" in result.output
    assert "targets met" not in result.output
    assert json.loads(path.read_text())["quick"] is True


def test_benchmark_whose_contenders_disagree_fails(monkeypatch):
    def disagree(_quick, _say):
        raise StateError("two contenders disagree")

    broken = type(BENCHMARKS["foundation"])("foundation", "", disagree)
    monkeypatch.setitem(BENCHMARKS, "foundation", broken)
    result = run("foundation")
    assert result.exit_code == 1
    assert "two contenders disagree" in result.output


def test_command_draws_the_figures(tmp_path, monkeypatch):
    def draw(path):
        path.write_text("figure")

    machine = {"cpu": "", "cores": 1, "instruction_set": "", "load_before": None, "load_after": None}
    made = Report("model", True, machine, {}, [], {"one.svg": draw})
    monkeypatch.setitem(BENCHMARKS, "model", replace(BENCHMARKS["model"], run=lambda *_: made))
    result = run("model", "--plot", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "one.svg").read_text() == "figure"
