"""The output directory: whole or not at all, never over something else, in files of a bounded size."""

import os
import pathlib

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from slidejoin.errors import SpecError
from slidejoin.run.output import published, work_directory
from slidejoin.run.target import Target
from slidejoin.run.write import PartWriter

IDS = pa.schema([("id", pa.int64())])


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def place(output):
    return Target(output, "parquet", is_directory=True)


def fill(output, overwrite=False, name="a"):
    with published(place(output), overwrite) as directory:
        (directory / name).write_text("result")


def test_directory_appears_at_the_end(tmp_path):
    output = tmp_path / "new" / "out"
    with published(place(output), False) as directory:
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
        with published(place(tmp_path / "out"), False) as directory:
            (directory / "a").write_text("half")
            raise error

    with pytest.raises(error):
        broken()
    assert names(tmp_path) == []


def test_broken_run_leaves_the_old_result(tmp_path):
    fill(tmp_path / "out")

    def broken():
        with published(place(tmp_path / "out"), True) as directory:
            (directory / "b").write_text("half")
            raise ValueError

    with pytest.raises(ValueError):
        broken()
    assert names(tmp_path / "out") == ["a"]
    assert names(tmp_path) == ["out"]


def test_directory_that_holds_something_is_refused_before_the_work(tmp_path):
    fill(tmp_path / "out")
    with pytest.raises(SpecError, match="not empty; choose another directory or give --overwrite"):
        published(place(tmp_path / "out"), False).__enter__()
    fill(tmp_path / "out", overwrite=True, name="b")
    assert names(tmp_path / "out") == ["b"]
    assert names(tmp_path) == ["out"]


def test_directory_that_was_filled_meanwhile_is_refused(tmp_path):
    def meanwhile():
        with published(place(tmp_path / "out"), False):
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "a").write_text("of someone else")

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


def test_what_a_killed_run_has_left_is_removed(tmp_path):
    work = work_directory(tmp_path / "out")
    (work / "result").mkdir(parents=True)
    (work / "result" / "half").write_text("")
    (work / "elsewhere").symlink_to(tmp_path / "kept", target_is_directory=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("")
    fill(tmp_path / "out")
    assert names(tmp_path) == ["kept", "out"]
    assert names(tmp_path / "out") == ["a"]
    assert names(tmp_path / "kept") == ["file"]


def test_two_runs_do_not_write_one_output(tmp_path):
    def both():
        with published(place(tmp_path / "out"), False):
            fill(tmp_path / "out")

    with pytest.raises(SpecError, match="another run is writing here"):
        both()
    assert names(tmp_path) == []


def test_links_are_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real", target_is_directory=True)
    with pytest.raises(SpecError, match=r"out is a symbolic link to .*real; name that one"):
        fill(tmp_path / "out")
    work_directory(tmp_path / "other").symlink_to(tmp_path / "real", target_is_directory=True)
    with pytest.raises(SpecError, match="results are not written through one"):
        fill(tmp_path / "other")
    assert names(tmp_path / "real") == []


@pytest.fixture
def result(tmp_path):
    (tmp_path / "result").mkdir()
    return tmp_path / "result"


@pytest.mark.parametrize("sizes", [[1] * 25, [25], [7, 0, 18], [10, 10, 5], [3] * 8 + [1]])
def test_files_are_bounded(result, sizes):
    start = 0
    with PartWriter(place(result), result, IDS, file_rows=10) as files:
        for size in sizes:
            files.write(pa.table({"id": pa.array(range(start, start + size), pa.int64())}))
            start += size
        files.finish()
    assert names(result) == [f"part-{number:05}.parquet" for number in range(3)]
    assert [pq.read_metadata(result / name).num_rows for name in names(result)] == [10, 10, 5]
    assert (files.rows, files.files) == (25, 3)
    assert pyarrow.dataset.dataset(result).to_table()["id"].to_pylist() == list(range(25))


def test_bytes_bound_a_file_too(result):
    with PartWriter(place(result), result, IDS, file_bytes=2**20) as files:
        for _ in range(4):
            files.write(pa.table({"id": pa.array(range(2**17), pa.int64())}))
        files.finish()
    assert files.files == 4


def test_small_results_are_written_together(result):
    with PartWriter(place(result), result, IDS) as files:
        for _ in range(1000):
            files.write(pa.table({"id": [1, 2, 3]}))
        files.finish()
    assert pq.read_metadata(result / "part-00000.parquet").num_row_groups == 1


def test_no_rows_leave_a_file_with_the_columns(result):
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with PartWriter(place(result), result, schema) as files:
        files.finish()
    assert pyarrow.dataset.dataset(result).schema == schema
    assert (files.rows, files.files) == (0, 1)
