"""The output directory: whole or not at all, never over something else, in files of a bounded size."""

import os
import pathlib

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from slidejoin.errors import SpecError
from slidejoin.run.output import ParquetFiles, published


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def fill(output, overwrite=False, name="a"):
    with published(output, overwrite) as directory:
        (directory / name).write_text("result")


def test_directory_appears_at_the_end(tmp_path):
    output = tmp_path / "new" / "out"
    with published(output, False) as directory:
        (directory / "a").write_text("result")
        assert not output.exists()
    assert names(output) == ["a"]
    assert names(tmp_path / "new") == ["out"]
    assert output.stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_broken_run_leaves_nothing(tmp_path, error):
    def broken():
        with published(tmp_path / "out", False) as directory:
            (directory / "a").write_text("half")
            raise error

    with pytest.raises(error):
        broken()
    assert names(tmp_path) == []


def test_broken_run_leaves_the_old_result(tmp_path):
    fill(tmp_path / "out")

    def broken():
        with published(tmp_path / "out", True) as directory:
            (directory / "b").write_text("half")
            raise ValueError

    with pytest.raises(ValueError):
        broken()
    assert names(tmp_path / "out") == ["a"]
    assert names(tmp_path) == ["out"]


def test_directory_that_holds_something_is_refused_before_the_work(tmp_path):
    fill(tmp_path / "out")
    with pytest.raises(SpecError, match="not empty; choose another directory or give --overwrite"):
        published(tmp_path / "out", False).__enter__()
    fill(tmp_path / "out", overwrite=True, name="b")
    assert names(tmp_path / "out") == ["b"]
    assert names(tmp_path) == ["out"]


def test_directory_that_was_filled_meanwhile_is_refused(tmp_path):
    def meanwhile():
        with published(tmp_path / "out", False):
            fill(tmp_path / "out")

    with pytest.raises(SpecError):
        meanwhile()
    assert names(tmp_path / "out") == ["a"]


def test_empty_directory_is_taken_and_a_file_is_not(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "empty")
    assert names(tmp_path / "empty") == ["a"]
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="is a file"):
        fill(tmp_path / "file", overwrite=True)
    monkeypatch.chdir(tmp_path)
    fill(pathlib.Path("relative"))
    assert names(tmp_path / "relative") == ["a"]


@pytest.mark.parametrize("sizes", [[1] * 25, [25], [7, 0, 18], [10, 10, 5], [3] * 8 + [1]])
def test_files_are_bounded(tmp_path, sizes):
    start = 0
    with ParquetFiles(tmp_path, file_rows=10) as files:
        for size in sizes:
            files.write(pa.table({"id": pa.array(range(start, start + size), pa.int64())}))
            start += size
        files.finish(pa.schema([("id", pa.int64())]))
    assert names(tmp_path) == [f"part-{number:05}.parquet" for number in range(3)]
    assert [pq.read_metadata(tmp_path / name).num_rows for name in names(tmp_path)] == [10, 10, 5]
    assert (files.rows, files.files) == (25, 3)
    assert pyarrow.dataset.dataset(tmp_path).to_table()["id"].to_pylist() == list(range(25))


def test_bytes_bound_a_file_too(tmp_path):
    with ParquetFiles(tmp_path, file_bytes=2**20) as files:
        for _ in range(4):
            files.write(pa.table({"id": pa.array(range(2**17), pa.int64())}))
        files.finish(pa.schema([("id", pa.int64())]))
    assert files.files == 4


def test_small_results_are_written_together(tmp_path):
    with ParquetFiles(tmp_path) as files:
        for _ in range(1000):
            files.write(pa.table({"id": [1, 2, 3]}))
        files.finish(pa.schema([("id", pa.int64())]))
    assert pq.read_metadata(tmp_path / "part-00000.parquet").num_row_groups == 1


def test_no_rows_leave_a_file_with_the_columns(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with ParquetFiles(tmp_path) as files:
        files.finish(schema)
    assert pyarrow.dataset.dataset(tmp_path).schema == schema
    assert (files.rows, files.files) == (0, 1)
