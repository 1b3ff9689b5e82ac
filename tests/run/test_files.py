"""Inputs: which files are found, in which order, with which types; what is refused, and how."""

import gzip
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.errors import SchemaError, SpecError
from slidejoin.run.files import open_input

TABLE = pa.table({"id": [1, 2, 3, 4, 5], "name": ["a", None, "c", "", "e"]})


def ids(given, rows=2):
    return [value for batch in given.batches(rows) for value in batch.column("id").to_pylist()]


@pytest.fixture
def directory(tmp_path):
    """Three files whose names are not in the order of their making, and some that are none."""
    where = tmp_path / "in"
    (where / "deep" / "a=1").mkdir(parents=True)
    for name, start in (("b.parquet", 2), ("deep/a=1/c.parquet", 4), ("a.parquet", 0)):
        pq.write_table(TABLE.slice(start, 2), where / name)
    for name in ("_SUCCESS", ".a.parquet.crc", "_old.parquet"):
        (where / name).write_text("nothing to read")
    (where / "_spark_metadata").mkdir()
    (where / "_spark_metadata" / "0.parquet").write_text("nothing to read")
    return where


def test_file_directory_and_glob(directory):
    assert ids(open_input(str(directory / "b.parquet"))) == [3, 4]
    assert ids(open_input(str(directory))) == [1, 2, 3, 4, 5]
    assert ids(open_input(str(directory / "*.parquet"))) == [1, 2, 3, 4]
    assert ids(open_input(str(directory / "d*"))) == [5]
    assert ids(open_input(str(directory.parent / "i?"))) == [1, 2, 3, 4, 5]


def test_file_that_is_named_is_taken_whatever_its_name(tmp_path):
    pq.write_table(TABLE, tmp_path / "_a[1].parquet")
    assert ids(open_input(str(tmp_path / "_a[1].parquet"))) == [1, 2, 3, 4, 5]


def test_parquet_tells_its_rows_and_has_no_more_columns_than_its_files(directory):
    given = open_input(str(directory))
    assert given.count_rows() == 5
    assert given.schema.names == ["id", "name"]
    assert given.format == "parquet"


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_batches_have_at_most_the_rows_wanted(tmp_path, rows):
    pq.write_table(pa.table({"id": np.arange(1000)}), tmp_path / "a.parquet", row_group_size=300)
    sizes = [batch.num_rows for batch in open_input(str(tmp_path)).batches(rows)]
    assert sum(sizes) == 1000
    assert max(sizes) <= rows
    assert min(sizes) > 0


def test_csv_reads_empty_fields_as_null_and_nothing_else(tmp_path):
    (tmp_path / "a.csv").write_text('id,name,price\n1,NA,1.5\n2,,\n3,"",NaN\n')
    (table,) = open_input(str(tmp_path / "a.csv")).batches(10)
    assert table.column("name").to_pylist() == ["NA", None, ""]
    assert table.column("price").to_pylist()[:2] == [1.5, None]
    assert np.isnan(table.column("price").to_pylist()[2])


@pytest.mark.parametrize(
    ("first", "second", "zone"),
    [
        ("2024-03-01 09:30:00", "2024-03-01 09:30:00.5", None),
        ("2024-03-01T09:30:00.250000", "2024-03-01T09:30:00", None),
        ("2024-03-01T09:30:00Z", "2024-03-01T09:30:00.5Z", "UTC"),
        ("2024-03-01T10:30:00.000+01:00", "2024-03-01T09:30:00Z", "UTC"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_timestamps_of_texts_are_microseconds_whatever_the_first_rows_have(
    tmp_path, ending, first, second, zone
):
    """The type is inferred from the first block, in which the second form does not appear."""
    rows = [first] * 60_000 + [second]
    file = tmp_path / f"a.{ending}"
    if ending == "csv":
        file.write_text("id,ts\n" + "".join(f"{i},{ts}\n" for i, ts in enumerate(rows)))
    else:
        file.write_text("".join(f'{{"id": {i}, "ts": "{ts}"}}\n' for i, ts in enumerate(rows)))
    given = open_input(str(file), time="ts")
    assert given.schema.field("ts").type == pa.timestamp("us", zone)
    times = [value for batch in given.batches(10_000) for value in batch.column("ts").to_pylist()]
    expected = [datetime.fromisoformat(text) for text in (first, second)]
    if zone is None:
        assert [times[0], times[-1]] == expected
    else:
        assert [times[0], times[-1]] == [time.astimezone(UTC) for time in expected]


def test_json_column_without_a_value_is_text(tmp_path):
    (tmp_path / "a.json").write_text('{"id": 1, "note": null}\n')
    assert open_input(str(tmp_path / "a.json")).schema.field("note").type == pa.string()


def test_format_can_be_told(tmp_path):
    (tmp_path / "a.txt").write_text("id,name\n1,x\n")
    with pytest.raises(SpecError, match="give --format"):
        open_input(str(tmp_path / "a.txt"))
    assert ids(open_input(str(tmp_path / "a.txt"), "csv")) == [1]
    with pytest.raises(SpecError, match="expected one of parquet, csv, tsv, json, arrow"):
        open_input(str(tmp_path / "a.txt"), "xml")


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(SpecError, match="is not there"):
        open_input(str(tmp_path / "nothing.parquet"))
    with pytest.raises(SpecError, match="is not there"):
        open_input(str(tmp_path / "*.parquet"))
    with pytest.raises(SpecError, match="has no files"):
        open_input(str(tmp_path))


def test_several_formats_are_refused(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,name\n1,x\n")
    with pytest.raises(SpecError, match=r"several formats.*b\.csv.*a\.parquet"):
        open_input(str(tmp_path))


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(SchemaError, match=r"cannot be read.*a\.parquet"):
        open_input(str(tmp_path))
    lines = "".join(f"{number},1\n" for number in range(300_000))
    (tmp_path / "b.csv").write_text("id,price\n" + lines + "1,many\n")
    given = open_input(str(tmp_path / "b.csv"))
    with pytest.raises(
        SchemaError, match=r"b\.csv, row 300001 \(line 300002\), column 'price': 'many' is not of type"
    ):
        list(given.batches(1000))


def test_rows_are_estimated_or_counted(tmp_path):
    (tmp_path / "b.csv").write_text("id,price\n" + "1,2\n3,4\n" * 50_000)
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("id\n1\n")
    text, parquet, packed = (open_input(str(tmp_path / name)) for name in ("b.csv", "a.parquet", "c.csv.gz"))
    assert text.expected_rows() == pytest.approx(100_000, rel=0.01)
    assert (parquet.expected_rows(), packed.expected_rows()) == (5, None)
    assert (text.count_rows(), parquet.count_rows()) == (100_000, 5)
