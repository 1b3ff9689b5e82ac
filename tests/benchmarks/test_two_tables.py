"""The benchmark of whole tables in its smallest form: all contenders find the pairs that there are."""

import importlib.util

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks import BENCHMARKS, two_tables
from slidejoin.errors import StateError

SIZES = two_tables.Sizes(rows=1000, matches=3, rounds=1)


def test_smoke_run_measures_every_line():
    said = []
    report = BENCHMARKS["join"].run(True, said.append)
    assert [result.target for result in report.results if result.target] == [">= 4", ">= 4"]
    assert all(result.value is not None and result.value > 0 for result in report.results)
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.quick
    assert said


def test_contenders_find_the_pairs_that_there_are():
    tables = two_tables.Tables.of(SIZES)
    left, right = (table["key"].to_numpy().astype(np.int64) for table in (tables.left, tables.right))
    lower, upper, _ = tables.bounds
    apart = right[None, :] - left[:, None]
    wanted = np.argwhere((apart >= lower) & (apart <= upper))
    assert 2 * SIZES.rows < len(wanted) < 4 * SIZES.rows
    for table in (
        two_tables.by_slidejoin(tables),
        two_tables.by_duckdb(tables, duckdb.connect()),
        pa.table(two_tables.by_polars(tables)),
    ):
        ids = np.column_stack([table["id"], table["id_right"]])
        assert (ids[np.lexsort(ids.T[::-1])] == wanted).all()
        assert (left[ids[:, 0]] == table["key"].to_numpy()).all()
        assert (right[ids[:, 1]] == table["key_right"].to_numpy()).all()


def test_a_contender_that_errs_is_found_out():
    table = pa.table({"id": [1, 2]})
    runs = two_tables._agreeing({"right": lambda: table, "wrong": lambda: table.slice(1)})
    runs["right"]()
    with pytest.raises(StateError, match="disagree"):
        runs["wrong"]()


def test_peers_that_are_not_installed_are_named(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(two_tables, "find_spec", lambda name: None if name == "duckdb" else there(name))
    results = list(two_tables.results(SIZES, lambda _: None))
    (absent,) = (result for result in results if result.value is None)
    assert absent.note == "duckdb is not installed: pip install duckdb"
