"""``slidejoin simulate``: what is printed and written, exit codes, what is refused."""

import json

import pyarrow.csv as pa_csv
import pytest
from typer.testing import CliRunner

from slidejoin.cli.commands import app

SHORT = ["--window", "20s", "--rate", "50", "--keys", "500"]


def run(*words):
    return CliRunner().invoke(app, ["simulate", *words], env={"COLUMNS": "100"})


def test_a_run_is_summarised():
    result = run(*SHORT)
    assert result.exit_code == 0, result.output
    assert "4 nodes, 60 partition-groups, 50 tuples/s of each stream" in result.output
    for words in (
        "production delay   1.0",
        "results ",
        "master ",
        "heaviest group",
        "moves              0 groups",
    ):
        assert words in result.output
    assert (
        len([line for line in result.output.splitlines() if "%" in line and line.split()[0].isdigit()]) == 4
    )


def test_many_nodes_are_summarised():
    result = run(*SHORT, "--nodes", "100", "--masters", "3", "--slots", "5", "--adaptive")
    assert "100 nodes, 1,000 partition-groups" in result.output
    assert "greatest" in result.output
    assert "nodes active on average" in result.output


def test_all_options(tmp_path):
    result = run(
        *SHORT, "--nodes", "5", "--minutes", "2", "--warmup", "0.5", "--groups", "20", "--skew", "0.6",
        "--hot-share", "0.1", "--hot-period", "30s", "--epoch", "1", "--reorganise", "5", "--slots", "2",
        "--fixed-order", "--masters", "2", "--no-tuning", "--adaptive", "--choice", "random",
        "--moves", "files", "--speeds", "1,2,0.5", "--background", "40:0:0.5", "--fails", "50:1",
        "--fails", "60:2", "--joins", "70:3", "--costs", "bucket-tree", "--detail", "tuples", "--seed", "7",
        "--json", "--csv", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.png"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    settings = found["settings"]
    assert (settings["seconds"], settings["warmup"], settings["window"]) == (120, 30, 20)
    assert settings["failures"] == [[50, 1], [60, 2]]
    assert settings["background"] == [[40, 0, 0.5]]
    assert settings["costs"]["comparison"] == 0
    assert found["tuples"]["lost"] == 0
    assert pa_csv.read_csv(tmp_path / "a.csv").num_rows == 120
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"


def test_lost_tuples_are_told():
    result = run(*SHORT, "--fails", "30:1")
    assert "lost with nodes" in result.output


def test_overload_ends_with_exit_code_2():
    words = ("--window", "60s", "--rate", "30000", "--nodes", "1", "--detail", "counts", "--skew", "0.5")
    result = run(*words)
    assert result.exit_code == 2
    assert "cannot keep up, delays grow without bound: nodes are overloaded; add nodes" in result.stderr
    result = run(*words, "--json")
    assert (result.exit_code, json.loads(result.stdout)["saturated"]) == (2, "nodes")


def test_a_figure(tmp_path, monkeypatch):
    monkeypatch.setattr("slidejoin.cluster.figures.KEYS", 10**5)
    monkeypatch.setattr("slidejoin.cluster.figures.EPOCHS", (2, 6))
    words = ("--figure", "13", "--csv", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.svg"))
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "Figure 13: Average production delay against the distribution epoch" in result.output
    assert pa_csv.read_csv(tmp_path / "a.csv").column_names == ["panel", "line", "x", "y"]
    assert b"<?xml" in (tmp_path / "a.svg").read_bytes()
    rows = json.loads(run("--figure", "13", "--json").stdout)
    assert [row["x"] for row in rows] == [2, 6]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--window", "10"], "--window 10 has no unit; write 10s or 10min"),
        (["--window", "ten"], "ten"),
        (["--nodes", "0"], "nodes 0"),
        (["--rate", "-5"], "rate -5"),
        (["--fails", "5"], "--fails 5; expected SECONDS:NODE, such as 700:0"),
        (["--fails", "5:x"], "--fails 5:x; expected numbers"),
        (["--background", "5:1"], "expected SECONDS:NODE:SHARE"),
        (["--fails", "5:9"], "node 9 of 4"),
        (["--speeds", "fast"], "--speeds fast; expected numbers"),
        (["--costs", "btree"], "did you mean 'b-tree'"),
        (["--moves", "disk"], "moves 'disk'; expected network or files"),
        (["--figure", "4"], "figure '4'; expected one of 5, 6"),
        (["--figure", "5", "--detail", "all"], "detail 'all'"),
        (["--minutes", "5"], "nothing is left to measure"),
        ([*SHORT, "--plot", "a.xyz"], "cannot be drawn"),
    ],
)
def test_refused(words, message):
    result = run(*words)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
