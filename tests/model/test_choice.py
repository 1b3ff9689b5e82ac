"""The limits of ``index="auto"``: from which costs they come, and that unusable ones do not stop a join."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.model import Costs
from slidejoin.model.choice import choice, limits_of
from slidejoin.model.surface import Surface

DEFAULT = Costs.default()


@pytest.fixture
def costs_file(tmp_path, monkeypatch):
    """The file of this machine's costs, which the process has not read yet."""
    monkeypatch.setenv("SLIDEJOIN_CALIBRATION", str(tmp_path / "costs.json"))
    choice.cache_clear()
    yield tmp_path / "costs.json"
    choice.cache_clear()


def explained():
    join = sj.WindowJoin(sj.band("k", within=1), 1000)
    join.push(left={"k": [1, 2, 3]})
    return repr(join.explain())


def with_base(index, factor):
    """The default costs with one index so many times as expensive."""
    costs = DEFAULT.index_costs[index]
    base = Surface(
        costs.base.rows, costs.base.columns, [[factor * time for time in row] for row in costs.base.seconds]
    )
    return replace(DEFAULT, index_costs={**DEFAULT.index_costs, index: replace(costs, base=base)})


def test_limits_are_numbers_for_ascending_windows():
    limits = limits_of(DEFAULT)
    sizes = [live for live, *_ in limits]
    assert sizes == sorted(set(sizes))
    for _, share, plain_share, many, counted in limits:
        assert 1 / 64 <= share <= 1 / 2 or share == np.inf
        assert share <= plain_share
        assert min(many, counted) >= 64


@pytest.mark.parametrize(
    ("place", "index"), [(1, "sorted-run"), (2, "sorted-run"), (3, "im-tree"), (4, "bi-sort")]
)
def test_limits_follow_the_costs(place, index):
    cheap, dear = ([limits[place] for limits in limits_of(with_base(index, factor))] for factor in (0.1, 100))
    assert all(one <= other for one, other in zip(cheap, dear, strict=True))
    assert min(cheap) < min(dear)


@pytest.mark.usefixtures("costs_file")
def test_without_a_file_the_default_decides():
    assert choice().source == "default costs"
    assert choice().limits == limits_of(DEFAULT)
    assert "automatically, by default costs: " in explained()


def test_the_costs_of_this_machine_decide(costs_file):
    with_base("im-tree", 0.1).save(costs_file)
    assert choice().limits == limits_of(Costs.load(costs_file)) != limits_of(DEFAULT)
    assert "automatically, by the costs measured on this machine: " in explained()


@pytest.mark.parametrize(("factor", "index"), [(100, "bucket-tree"), (1, "sorted-run")])
def test_a_join_goes_by_these_limits(costs_file, factor, index):
    with_base("sorted-run", factor).save(costs_file)
    join = sj.NumericJoin(4096, -1, 1, np.int32, self_join=True)
    rng = np.random.default_rng(1)
    for _ in range(8):
        join.push(np.zeros(8192, np.uint8), rng.integers(0, 2**30, 8192).astype(np.int32))
    assert join.index == index


def test_a_broken_file_is_reported_and_joins_run(costs_file, caplog):
    costs_file.write_text("{")
    with caplog.at_level(logging.WARNING, logger="slidejoin"):
        text = explained()
    assert "by default costs (the costs in" in text
    assert "slidejoin model calibrate" in text
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "index='auto' goes by default costs" in caplog.text
    caplog.clear()
    explained()  # the file is read once
    assert not caplog.records


def test_a_named_index_needs_no_costs(costs_file):
    costs_file.write_text("{")
    sj.NumericJoin(1000, -1, 1, index="b-tree").count(np.zeros(1, np.uint8), np.zeros(1))
    assert choice.cache_info().currsize == 0
