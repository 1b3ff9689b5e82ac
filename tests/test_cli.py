"""The command line: what it prints and how it exits."""

import json
import sys

import pytest
from typer.testing import CliRunner

import slidejoin
from slidejoin import cli
from slidejoin.bench import BENCHMARKS, foundation
from slidejoin.cli.commands import app
from slidejoin.demo import job
from slidejoin.errors import StateError

TINY = ["demo", "--rows", "4000", "--window", "300", "--batch", "512", "--band", "40"]


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"slidejoin {slidejoin.__version__}\n"


def test_bench_alone_lists_the_benchmarks():
    result = run("bench")
    assert result.exit_code == 0
    for benchmark in BENCHMARKS.values():
        assert benchmark.name in result.output
        assert benchmark.about[:20] in result.output


def test_unknown_benchmark_lists_them_and_fails():
    result = run("bench", "nonsense")
    assert result.exit_code == 1
    assert "no benchmark 'nonsense'" in result.output
    assert all(name in result.output for name in BENCHMARKS)


def test_quick_benchmark_says_so_and_writes_json(tmp_path):
    path = tmp_path / "new" / "foundation.json"
    result = run("bench", "foundation", "--quick", "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "a smoke run, its figures mean nothing" in result.output
    assert "targets met" not in result.output
    assert json.loads(path.read_text())["quick"] is True


def test_benchmark_whose_contenders_disagree_fails(monkeypatch):
    def disagree(_quick, _say):
        raise StateError("two contenders disagree")

    broken = type(BENCHMARKS["foundation"])("foundation", "", disagree)
    monkeypatch.setitem(BENCHMARKS, "foundation", broken)
    result = run("bench", "foundation")
    assert result.exit_code == 1
    assert "two contenders disagree" in result.output


def test_demo_verifies_itself():
    result = run(*TINY)
    assert result.exit_code == 0, result.output
    assert "passed" in result.output
    assert "matches per row" in result.output
    assert "\x1b" not in result.output  # no control codes where there is no terminal


@pytest.mark.parametrize("wrong_row", [0, 2000, 3999])
def test_demo_fails_on_a_wrong_result(monkeypatch, wrong_row):
    """A pair too few in the push that holds the row, which need not be a checked one."""
    monkeypatch.setattr(job, "NumericJoin", _losing_join(wrong_row))
    result = run(*TINY[:-1], str(2**20))
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "the result is WRONG" in result.output


def _losing_join(wrong_row):
    class LosingJoin(slidejoin.NumericJoin):
        seen = 0

        def push(self, sides, keys, times=None):
            left, right = super().push(sides, keys, times)
            first, self.seen = self.seen, self.seen + len(keys)
            if first <= wrong_row < self.seen:
                return left[:-1], right[:-1]
            return left, right

    return LosingJoin


def test_demo_refuses_impossible_sizes_in_one_line():
    result = run("demo", "--rows", "10", "--window", str(2**40))
    assert result.exit_code == 1
    assert "tuples of one side, the most there can be" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_foundation_benchmark_outside_a_checkout_says_so_once(monkeypatch, quick):
    monkeypatch.setattr(foundation, "checkout", lambda: None)
    result = run("bench", "foundation", *quick)
    assert result.exit_code == 1
    assert result.output.count("needs a source checkout") == 1
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("library", ["rich", "typer"])
def test_missing_library_is_one_clear_line(monkeypatch, capsys, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(sys, "argv", ["slidejoin", "demo"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert capsys.readouterr().err == (
        f"the slidejoin command needs {library}: pip install 'slidejoin[cli]'\n"
    )


def test_version_needs_no_library(monkeypatch, capsys):
    for library in ("rich", "typer"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(sys, "argv", ["slidejoin", "--version"])
    cli.main()
    assert capsys.readouterr().out == f"slidejoin {slidejoin.__version__}\n"


def test_entry_point_runs_the_app(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["slidejoin", "bench"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert "foundation" in capsys.readouterr().out
