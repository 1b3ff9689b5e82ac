"""The benchmark of the command line in its smallest form, and what its figures rest on."""

import numpy as np
import pyarrow.csv as pc_csv
import pytest

import slidejoin as sj
from benchmarks import product_cli
from slidejoin.errors import Error
from slidejoin.run.text import parse_condition, parse_window


def test_smoke_run_measures_every_line():
    said = []
    results = list(product_cli.lines(product_cli.Sizes(rows=500, rounds=1), said.append))
    assert [result.target for result in results if result.target] == ["<= 3"] * 3
    assert all(np.isfinite(result.value) and result.value > 0 for result in results)
    assert len({result.what for result in results}) == len(results) == 3 * len(product_cli.CASES)
    assert said


def test_a_row_has_about_one_match(tmp_path):
    files = [product_cli.write_stream(tmp_path / name, 20_000, seed) for seed, name in enumerate("ab")]
    left, right = map(pc_csv.read_csv, files)
    join = sj.WindowJoin(parse_condition(product_cli.CONDITION), parse_window(product_cli.CASES[0].window))
    count = join.push(left=left).num_rows + join.push(right=right).num_rows
    assert 0.7 < count / 20_000 < 1.3


def test_a_failed_process_is_told(monkeypatch):
    monkeypatch.setattr(product_cli, "CONDITION", "left.x = right.x")
    with pytest.raises(Error, match="no column 'x'"):
        list(product_cli.lines(product_cli.Sizes(rows=10, rounds=1), lambda _: None))
