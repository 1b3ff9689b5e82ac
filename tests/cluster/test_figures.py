"""The figures: each runs by name and seed and can be drawn; their shapes, in short, are the paper's."""

import dataclasses

import numpy as np
import pytest

from slidejoin.cluster import figures
from slidejoin.cluster.figures import FIGURES, Bench, figure
from slidejoin.cluster.plot import save_figure, save_run, save_sheet
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.simulation import simulate
from slidejoin.errors import SpecError, UsageError


@pytest.fixture(scope="module")
def bench():
    """The paper's cluster with few points, in time that is shorter by 10 and so with smaller windows."""
    return Bench(scale=0.1)


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    monkeypatch.setattr(figures, "KEYS", 10**6)  # the shares of the groups take less time
    monkeypatch.setattr(figures, "RATES", (1000, 4000, 9000, 16_000))
    monkeypatch.setattr(figures, "EPOCHS", (0.5, 2, 6))
    monkeypatch.setattr(figures, "DEGREES", (1, 2, 4))
    monkeypatch.setattr(figures, "SCALES", (10, 100))
    monkeypatch.setattr(figures, "STATES", (100, 600))
    monkeypatch.setattr(figures, "HOT_SHARES", (0.0, 2e-2))


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_runs_and_is_drawn(bench, name, tmp_path):
    found = figure(name, bench)
    assert found.name == name
    for panel in found.panels:
        for values in panel.series.values():
            assert len(values) == len(panel.x)
            assert np.isfinite(values).any()
    save_figure(tmp_path / "figure.png", found)
    assert (tmp_path / "figure.png").read_bytes()[1:4] == b"PNG"


def lines(bench, name):
    (panel,) = figure(name, bench).panels
    return panel.series


def test_delay_is_flat_and_then_sharp_and_more_nodes_bear_more(bench):
    few, many = lines(bench, "5"), lines(bench, "6")
    one, six = few["1 node"], many["6 nodes"]
    assert one[0] < 2.5
    assert one[-2] > 10
    assert six[:3].max() < 2.5
    saturated = [(values > 5).sum() for values in (*few.values(), *many.values())]
    assert saturated == sorted(saturated, reverse=True)
    assert saturated[0] > saturated[-1]


def test_communication_grows_with_the_nodes_and_the_rate(bench):
    eleven, twelve = lines(bench, "11"), lines(bench, "12")
    assert (np.diff(eleven["of all nodes"]) > 0).all()
    assert eleven["of a node"][1] < eleven["of a node"][0]
    assert eleven["of all nodes, adaptive"][-1] < 0.7 * eleven["of all nodes"][-1]
    spread = twelve["greatest"] - twelve["least"]
    assert (np.diff(spread) > 0).all()
    assert (twelve["greatest, fixed order"] < 1.1 * twelve["least"]).all()


def test_delay_and_communication_trade_off_by_the_epoch(bench):
    assert (np.diff(lines(bench, "13")["4 nodes"]) > 0).all()
    assert (np.diff(lines(bench, "14")["4 nodes"]) < 0).all()


def test_a_sheet_has_all_figures(bench, tmp_path):
    save_sheet(tmp_path / "sheet.svg", [figure(name, bench) for name in ("13", "14", "hot-key")])
    assert (tmp_path / "sheet.svg").read_text().count('id="axes_') == 4


def test_progress_and_seeds():
    told = []
    bench = Bench(seed=5, scale=0.05, progress=lambda what, share: told.append((what, share)))
    first = lines(bench, "13")["4 nodes"]
    assert told[0][0] == "epochs"
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-1][1] > 0.95
    np.testing.assert_array_equal(first, lines(Bench(seed=5, scale=0.05), "13")["4 nodes"])
    assert (first != lines(Bench(seed=6, scale=0.05), "13")["4 nodes"]).any()


def test_refused(tmp_path):
    with pytest.raises(SpecError, match=r"figure 'hotkey'; expected one of 5, 6.*did you mean 'hot-key'"):
        figure("hotkey")
    result = simulate(Settings(seconds=20, warmup=10, window=5, rate=10, keys=100))
    save_run(tmp_path / "run.svg", result)
    with pytest.raises(UsageError, match="cannot be drawn"):
        save_run(tmp_path / "run.xyz", result)


def test_spreading_a_hot_key_takes_the_load_from_its_group(bench):
    alone = simulate(figures.hot_cluster(bench, 2e-3))
    spread = simulate(dataclasses.replace(alone.settings, hot_cells=64))
    assert spread.group_load < alone.group_load / 10
    assert spread.outputs == pytest.approx(alone.outputs, rel=0.1)  # what waits when the key changes
