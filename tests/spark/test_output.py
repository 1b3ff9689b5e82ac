"""Results come out in pieces: one key with many partners does not make all of them at once."""

import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from slidejoin.spark import output

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def rows(keys, start=0):
    return pa.table({"id": range(start, start + len(keys)), "k": keys}, schema=SCHEMA)


def test_pieces_of_a_hot_key(monkeypatch):
    monkeypatch.setattr(output, "RESULTS", 1000)
    monkeypatch.setattr(output, "ROWS", 64)
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10_000), schemas=(SCHEMA, SCHEMA))
    join.push(right=rows([7] * 200))
    keys = [1] * 500 + [7] * 50 + [2] * 500  # cold, hot, cold again
    found = list(output.pushed(join, 0, rows(keys)))
    assert sum(map(len, found)) == 50 * 200
    assert max(map(len, found)) <= 64 * 200  # a piece that grew while all was cold
    assert len([part for part in found if len(part)]) >= 4
    pairs = pa.concat_tables(found).to_pydict()
    assert len(set(zip(pairs["id"], pairs["id_right"], strict=True))) == 50 * 200
    assert join.stats["stored_left"] == len(keys)


def test_cold_rows_are_pushed_in_few_pieces():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10**6), schemas=(SCHEMA, SCHEMA))
    join.push(right=rows(list(range(300_000))))
    found = list(output.pushed(join, 0, rows(list(range(200_000)))))
    assert sum(map(len, found)) == 200_000
    assert len(found) <= 8
    assert list(output.pushed(join, 0, rows([]))) == []
