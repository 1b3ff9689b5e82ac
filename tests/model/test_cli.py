"""``slidejoin model run``: where rates come from, what is printed and written, what is refused."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import slidejoin as sj
from slidejoin.cli.commands import app
from slidejoin.model import Costs, JoinModel
from slidejoin.model.plot import save_plot
from slidejoin.model.rates import trace

COSTS = ["--alpha", "2e-8", "--beta", "1e-7", "--selectivity", "0.01"]
CONSTANT = ["--left", "100", "--right", "50", "--intervals", "4"]


def run(*words, window="within('2s')"):
    return CliRunner().invoke(
        app, ["model", "run", "--window", window, *COSTS, *words], env={"COLUMNS": "80"}
    )


def written(file):
    return {name: column.to_numpy() for name, column in zip(*_columns(file), strict=True)}


def _columns(file):
    table = pa_csv.read_csv(file)
    return table.column_names, table.columns


def test_constant_rates(tmp_path):
    result = run(*CONSTANT, "--csv", str(tmp_path / "all.csv"))
    assert result.exit_code == 0, result.output
    assert "4 intervals of 1 s, within('2s')" in result.output
    assert "70 k comparisons, 700 matches" in result.output  # 10,000 + 3 * 20,000
    assert "quota" not in result.output
    rows = written(tmp_path / "all.csv")
    expected = JoinModel(sj.within("2s"), alpha=2e-8, beta=1e-7, selectivity=0.01).run([100] * 4, [50] * 4)
    assert rows["left"].tolist() == [100] * 4
    for name in expected:
        assert rows[name] == pytest.approx(expected[name])


def test_csv_on_the_output_is_alone():
    result = run(*CONSTANT, "--csv", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith('"left","right","window_left"')
    assert len(result.stdout.splitlines()) == 5


def test_all_options(tmp_path):
    result = run(
        "--trace", "AB", "--intervals", "10", "--interval", "2", "--quota", "0.5", "--units", "3",
        "--deterministic", "--left-streams", "3", "--right-streams", "2", "--csv", str(tmp_path / "all.csv"),
        window="rows(700)",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "…" not in result.output  # it fits into 80 columns
    expected = JoinModel(
        sj.rows(700), alpha=2e-8, beta=1e-7, selectivity=0.01, interval=2, quota=0.5, units=3,
        deterministic=True, left_streams=3, right_streams=2,
    ).run(*trace("AB", 10))  # fmt: skip
    rows = written(tmp_path / "all.csv")
    for name in expected:
        assert rows[name] == pytest.approx(expected[name])


COSTLESS = ["--selectivity", "0.01", "--window", "rows(700)", *CONSTANT]


def run_by_costs(tmp_path, *words):
    environment = {"COLUMNS": "120", "XDG_CACHE_HOME": str(tmp_path), "SLIDEJOIN_CALIBRATION": None}
    return CliRunner().invoke(app, ["model", "run", *COSTLESS, *words], env=environment)


def test_costs_of_the_nested_loop_may_be_left_out(tmp_path):
    result = run_by_costs(tmp_path, "--csv", str(tmp_path / "all.csv"))
    assert result.exit_code == 0, result.output
    assert "by shipped costs, not those of this machine" in result.output
    costs = Costs.default()
    expected = JoinModel(sj.rows(700), alpha=costs.alpha, beta=costs.beta, selectivity=0.01).run(
        [100] * 4, [50] * 4
    )
    assert written(tmp_path / "all.csv")["work"] == pytest.approx(expected["work"])
    result = run_by_costs(tmp_path, "--alpha", "1", "--beta", "1")
    assert "shipped" not in result.output


def test_index(tmp_path):
    result = run_by_costs(tmp_path, "--index", "im-tree", "--batch", "64", "--csv", str(tmp_path / "all.csv"))
    assert result.exit_code == 0, result.output
    cost = Costs.default().arrival("im-tree", window=(400, 200), matches=0.01 * 80_000 / 3 / 100, batch=64)
    assert written(tmp_path / "all.csv")["latency_join"][3] == pytest.approx(cost.total)
    assert "matches/s" in result.output  # an index makes no comparisons
    assert "compar" not in result.output


def test_long_runs_are_summarised():
    assert len(run("--trace", "ABCDE").output.splitlines()) < 25


def test_overload_is_told():
    result = run(*CONSTANT, "--quota", "0.0001")
    assert "4 intervals bring more work than the quota allows; 72.79% of the comparisons" in " ".join(
        result.output.split()
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rates_of_a_file(tmp_path, ending):
    table = pa.table({"left_1": [1, 4], "left_0": [2, 5], "right": [3.0, 6.5], "left_10": [7, 7]})
    file = tmp_path / f"rates.{ending}"
    pa_csv.write_csv(table, file) if ending == "csv" else pq.write_table(table, file)
    result = run("--rates", str(file), "--deterministic", "--csv", str(tmp_path / "all.csv"))
    assert result.exit_code == 0, result.output
    options = {"alpha": 2e-8, "beta": 1e-7, "selectivity": 0.01, "deterministic": True, "left_streams": 3}
    expected = JoinModel(sj.within("2s"), **options).run([[2, 1, 7], [5, 4, 7]], [3, 6.5])
    assert written(tmp_path / "all.csv")["latency_in"] == pytest.approx(expected["latency_in"])


@pytest.mark.parametrize("name", ["plot.png", "plot.svg"])
@pytest.mark.parametrize(
    "words", [CONSTANT, ["--left", "0", "--right", "0"], ["--trace", "B", "--deterministic"]]
)
def test_plot(tmp_path, name, words):
    result = run(*words, "--plot", str(tmp_path / name))
    assert result.exit_code == 0, result.output
    head = (tmp_path / name).read_bytes()[:100]
    assert (b"PNG" if name.endswith("png") else b"<?xml") in head


def test_plot_with_measured_figures(tmp_path):
    table = JoinModel(sj.within("2s"), alpha=2e-8, beta=1e-7, selectivity=0.01, left_streams=2).run(
        [[1, 2]] * 3, [5] * 3
    )
    measured = {"throughput": table["throughput"] * 1.1, "latency": table["latency"]}
    save_plot(tmp_path / "a.svg", table, np.array([[1, 2]] * 3), np.full(3, 5), measured=measured)
    assert b"<!-- measured -->" in (tmp_path / "a.svg").read_bytes()


def test_plot_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(*CONSTANT, "--plot", str(tmp_path / "a.png"))
    assert result.exit_code == 1
    assert "plots need matplotlib.figure: pip install 'slidejoin[plot]'" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of them"),
        ([*CONSTANT, "--trace", "A"], "give one of them"),
        (["--left", "5"], "--left and --right belong together"),
        (["--left", "-5", "--right", "5"], "left_rates have -5.0"),
        (["--trace", "X"], "expected letters of ABCDE"),
        (["--rates", "no/such.csv"], "no/such.csv is not there"),
        (["--rates", "{tmp}/text.csv"], "right rates that are not numbers"),
        (["--rates", "{tmp}/other.csv"], "has columns a, left; expected right, or right_0"),
        (["--rates", "{tmp}/empty.csv"], "has no rows"),
        (["--rates", "{tmp}/hole.csv"], "right_rates have nan in interval 0"),
        (["--rates", "{tmp}/hole.csv", "--intervals", "5"], "--intervals is not for --rates"),
        ([*CONSTANT, "--index", "b-tree"], "--alpha and --beta are costs of the nested loop"),
        ([*CONSTANT, "--batch", "5"], "--batch is for --index"),
        ([*CONSTANT, "--units", "0"], "units 0"),
        ([*CONSTANT, "--left-streams", "0"], "left_streams 0"),
        ([*CONSTANT, "--plot", "{tmp}/a.xyz"], "cannot be drawn"),
        ([*CONSTANT, "--plot", "{tmp}/no/a.png"], "No such file"),
        ([*CONSTANT, "--csv", "{tmp}/no/a.csv"], "Failed to open"),
    ],
)
def test_refused(tmp_path, words, message):
    for name, text in {
        "text": "left,right\n1,a\n", "other": "a,left\n1,2\n", "empty": "left,right\n",
        "hole": "left,right\n1,\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    result = run(*(word.replace("{tmp}", str(tmp_path)) for word in words))
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_unknown_index(tmp_path):
    assert "did you mean 'b-tree'" in run_by_costs(tmp_path, "--index", "btree").stderr


def test_bad_window():
    assert "has no unit" in run(*CONSTANT, window="within(2)").stderr
    assert "is not a window" in run(*CONSTANT, window="2").stderr
