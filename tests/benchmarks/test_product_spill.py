"""The benchmark of spilled rows in its smallest form."""

import sys

import numpy as np
import pytest

from benchmarks import product_spill
from benchmarks.product_spill import QUICK, Sizes
from slidejoin import spill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def test_smoke_run_measures_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "SEGMENT", 2**14)  # as small as the rows
    said = []
    results = list(product_spill.lines(QUICK, said.append, tmp_path))
    assert [result.target for result in results if result.target] == [">= 0.3", "<= 1"]
    assert len({result.what for result in results}) == len(results) == 11
    assert all(
        result.value is not None and np.isfinite(result.value) and result.value > 0 for result in results
    )
    ratio = next(result.value for result in results if result.what.startswith("size of its files"))
    assert ratio >= QUICK.times
    assert list(tmp_path.iterdir()) == []
    assert len(said) == 1


def test_rows_take_the_stated_multiple_of_the_cap():
    for cap in (2**20, 2**26, 10**9):
        sizes = Sizes(cap=cap)
        assert 2 * sizes.window * product_spill.ROW >= sizes.times * cap
        assert sizes.window & (sizes.window - 1) == 0
