"""CSV in blocks: rows do not depend on where a file is cut, and errors come in the order of the file."""

import csv
import gzip
import io
import random

import pyarrow as pa
import pytest

from slidejoin.errors import SchemaError
from slidejoin.run import csv_blocks
from slidejoin.run.files import open_input

TEXTS = ["plain", "", 'a "quoted" word', "a, comma", "two\nlines", '"\n"', "\r\n", "é" * 9, '""', "\n\n"]


def texts(rows, seed=0, ending="\n"):
    """Rows whose texts have everything that a cut could break, and the file that holds them."""
    rng = random.Random(seed)
    values = [(number, rng.choice(TEXTS)) for number in range(rows)]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=ending, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["id", "text"])
    writer.writerows(values)
    return values, file.getvalue().encode()


def read(path, rows=10_000):
    found = open_input(str(path))
    table = pa.concat_tables([found.schema.empty_table(), *found.batches(rows)])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("block", [8, 31, 100, 1000, 2**20])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_rows_do_not_depend_on_the_blocks(tmp_path, monkeypatch, block, ending, packed):
    expected, text = texts(200, ending=ending)
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    assert read(path) == expected
    monkeypatch.setattr(csv_blocks, "BLOCK", block)
    monkeypatch.setattr(csv_blocks, "_LONGEST_QUOTE", 10**6)
    assert read(path) == expected
    assert read(path, rows=7) == expected


def test_a_stray_quote_does_not_read_the_file_into_one_block(tmp_path, monkeypatch):
    rows = [(number, '5" pipe' if number == 3 else "pipe") for number in range(2000)]
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{number},{text}\n" for number, text in rows))
    monkeypatch.setattr(csv_blocks, "BLOCK", 512)
    assert max(map(len, csv_blocks._blocks(str(tmp_path / "a.csv"), 512))) < 4096
    assert read(tmp_path / "a.csv") == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"id,text\n1,a", [(1, "a")]),
        (b"\xef\xbb\xbfid,text\r\n1,a\r\n", [(1, "a")]),
        (b"\n\nid,text\n\n\n1,a\n\n", [(1, "a")]),
        (b"id,text\r1,a\r2,b\r", [(1, "a"), (2, "b")]),
        (b"id,text\n", []),
        (b"id,text", []),
        (b'"id","text"\n1,""\n2,\n', [(1, ""), (2, None)]),
    ],
)
@pytest.mark.parametrize("block", [4, 2**20])
def test_headers_and_ends(tmp_path, monkeypatch, text, rows, block):
    (tmp_path / "a.csv").write_bytes(text)
    monkeypatch.setattr(csv_blocks, "BLOCK", block)
    assert open_input(str(tmp_path / "a.csv")).schema.names == ["id", "text"]
    assert read(tmp_path / "a.csv") == rows


def test_later_files_may_have_other_orders_and_columns(tmp_path):
    for name, text in (("a", "id,text\n1,a\n"), ("b", "text,more,id\nb,9,2\n"), ("c", "id\n3\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    assert read(tmp_path) == [(1, "a"), (2, "b"), (3, None)]


def test_only_wanted_columns_are_parsed(tmp_path):
    (tmp_path / "a.csv").write_text("id,n,text\n" + "1,2,a\n" * 200_000 + "1,bad,a\n")
    found = open_input(str(tmp_path / "a.csv"))
    with pytest.raises(SchemaError, match=r"row 200001 .*column 'n': 'bad' is not of type int64"):
        list(found.batches(2**16))
    narrow = found.with_columns(["text", "id"])
    assert narrow.schema.names == ["id", "text"]
    assert sum(batch.num_rows for batch in narrow.batches(2**16)) == 200_001
    assert found.count_rows() == 200_001


def test_the_first_error_is_raised_whatever_thread_finds_another_first(tmp_path, monkeypatch):
    lines = ["1\n"] * 50_000
    lines[40_000], lines[200] = "late\n", "early\n"
    (tmp_path / "a.csv").write_text("id\n" + "".join(lines))
    monkeypatch.setattr(csv_blocks, "BLOCK", 100)
    monkeypatch.setattr(csv_blocks, "FIRST_BLOCK", 100)
    found = open_input(str(tmp_path / "a.csv"))
    rows = []
    with pytest.raises(SchemaError, match=r"row 201 .*'early'"):
        rows += [batch.num_rows for batch in found.batches(1000)]


@pytest.mark.parametrize("zone", ["", "Z"])
def test_nanoseconds_are_read(tmp_path, zone):
    stamp = f"2024-01-01 00:00:00.123456789{zone}"
    (tmp_path / "a.csv").write_text(f"id,ts\n1,2024-01-01 00:00:00{zone}\n2,{stamp}\n")
    (tmp_path / "a.json").write_text(f'{{"id": 1, "ts": "{stamp}"}}\n')
    for name in ("a.csv", "a.json"):
        found = open_input(str(tmp_path / name), time="ts")
        assert found.schema.field("ts").type == pa.timestamp("ns", "UTC" if zone else None)
        assert pa.concat_tables(found.batches(10))["ts"].cast(pa.int64()).to_pylist()[-1] % 1000 == 789


def test_nanoseconds_behind_the_first_rows_are_refused_with_a_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_blocks, "FIRST_BLOCK", 64)
    rows = "2024-01-01 00:00:00.5\n" * 100 + "2024-01-01 00:00:00.123456789\n"
    (tmp_path / "a.csv").write_text("ts\n" + rows)
    found = open_input(str(tmp_path / "a.csv"))
    with pytest.raises(SchemaError, match=r"row 101 .*timestamp\[us\]: the first rows have at most micro"):
        list(found.batches(10))


def test_a_bad_time_among_nanoseconds_names_its_row(tmp_path):
    (tmp_path / "a.csv").write_text("ts\n2024-01-01 00:00:00.123456789\n2024-01-01 00:00:0x\n")
    found = open_input(str(tmp_path / "a.csv"), time="ts")
    with pytest.raises(SchemaError, match=r"row 2 .*'2024-01-01 00:00:0x' is not of type timestamp\[ns\]"):
        list(found.batches(10))
