"""``slidejoin run`` and ``slidejoin demo`` on Spark: the rows of the embedded engine and of brute force."""

import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import run_cases as cases
from rich.console import Console

from slidejoin.demo.spark import feed
from slidejoin.demo.spark import job as demo
from slidejoin.errors import SchemaError, SpecError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.run import embedded
from slidejoin.run import spark as engine
from slidejoin.run.job import make_job
from slidejoin.run.session import SparkError

ON = "equal('symbol') & band('price', within=0.5)"
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
WINDOW = "interval('5s', '1s', time='ts', lateness='3s')"


@pytest.fixture(autouse=True, scope="module")
def active(session):
    """The session that a run finds."""
    setting = "spark.sql.parquet.outputTimestampType"
    before = session.conf.get(setting)
    session.conf.set(setting, "TIMESTAMP_MICROS")
    session.createDataFrame([], "a int")  # makes it the active one, whichever other tests have used before
    yield session
    session.conf.set(setting, before)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=150)


def job(tmp_path, output="out", on=ON, window=WINDOW, **options):
    left, right = (str(tmp_path / name) for name in ("left", "right"))
    return make_job(left, right, on=on, window=window, output=tmp_path / output, **options)


def write(tmp_path, seed=1, sizes=(200, 250), files=2, format_="parquet", **shape):
    rng = np.random.default_rng(seed)
    tables = [cases.side(rng, rows, name, **shape) for rows, name in zip(sizes, ("a", "b"), strict=True)]
    for table, name in zip(tables, ("left", "right"), strict=True):
        cases.write(table, tmp_path / name, files, format_)
    return tables


@pytest.mark.parametrize("how", JOIN_TYPES)
def test_both_engines_give_the_same_rows(tmp_path, console, how):
    tables = write(tmp_path, disorder=2.0)
    expected = cases.joined(*tables, cases.near(5, 1, 0.5), how)
    assert len(expected) > 20
    ours = embedded.run(job(tmp_path, "embedded", how=how), console)
    theirs = engine.run(job(tmp_path, "spark", how=how), console, partitions=3)
    assert cases.result(tmp_path / "embedded") == expected
    assert cases.result(tmp_path / "spark") == expected
    assert ours.result_rows == theirs.result_rows == expected.total()
    assert (theirs.left_rows, theirs.right_rows) == (200, 250)


@pytest.mark.parametrize("format_", ["csv", "json"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_both_engines_read_texts_alike(tmp_path, console, format_, zone):
    write(tmp_path, format_=format_, zone=zone)
    window = "within('3s', time='ts')"
    embedded.run(job(tmp_path, "embedded", how="full", window=window), console)
    engine.run(job(tmp_path, "spark", how="full", window=window), console)
    assert cases.result(tmp_path / "spark") == cases.result(tmp_path / "embedded")
    assert cases.result(tmp_path / "spark").total() > 300


def test_batch_leaves_nothing_where_a_task_fails(tmp_path, console):
    """The value that is no number stands behind those that the type was inferred from."""
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
    rows = [f"{i},A,1,2024-03-01 09:30:00\n" for i in range(60_000)]
    (tmp_path / "left" / "a.csv").write_text(
        "a,symbol,price,ts\n" + "".join(rows) + "1,A,many,2024-03-01 09:30:00\n"
    )
    (tmp_path / "right" / "b.csv").write_text("b,symbol,price,ts\n1,A,1,2024-03-01 09:30:00\n")
    with pytest.raises(SparkError, match="Spark failed") as failed:
        engine.run(job(tmp_path), console)
    assert "left/a.csv" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["left", "right"]


def test_stream_goes_on_from_its_checkpoint(tmp_path, console):
    tables = write(tmp_path, sizes=(150, 225), files=3, disorder=2.0, nulls=0.0, zone=None)
    for name in ("left", "right"):  # Spark takes the oldest file first
        for number in range(3):
            os.utime(tmp_path / name / f"{number:03}.parquet", (number + 1, number + 1))
        (tmp_path / name / "002.parquet").rename(tmp_path / f"{name}.later")
    first = engine.run(job(tmp_path), console, stream=True, files_per_batch=1)
    for name in ("left", "right"):
        (tmp_path / f"{name}.later").rename(tmp_path / name / "002.parquet")
    second = engine.run(job(tmp_path), console, stream=True, files_per_batch=1)
    expected = cases.joined(*tables, cases.near(5, 1, 0.5))
    assert cases.result(tmp_path / "out") == expected
    assert first.result_rows < second.result_rows == expected.total()
    assert (first.left_rows, second.left_rows) == (100, 50)
    assert (first.right_rows, second.right_rows) == (150, 75)
    assert (first.late_rows, second.late_rows) == (0, 0)
    text = console.file.getvalue()
    assert text.count("micro-batch 0 ") == text.count("micro-batch 1 ") == 1
    assert text.count("going on from") == 1


def test_stream_refuses_a_directory_that_is_not_its_own(tmp_path, console):
    write(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").write_text("")
    with pytest.raises(SpecError, match="not empty"):
        engine.run(job(tmp_path), console, stream=True)


@pytest.mark.parametrize("how", ["left", "full"] if LONG else ["full"])
def test_stream_of_single_files_and_an_outer_join(tmp_path, console, how):
    tables = write(tmp_path, files=1, nulls=0.0)
    paths = [str(tmp_path / name / "000.parquet") for name in ("left", "right")]
    one = make_job(*paths, on=ON, window=WINDOW, output=tmp_path / "out", how=how)
    summary = engine.run(one, console, stream=True)
    came, whole = cases.result(tmp_path / "out"), cases.joined(*tables, cases.near(5, 1, 0.5), how)
    assert came < whole  # some rows without a partner wait for a watermark that does not come
    assert all(row[5] is None or row[0] is None for row in whole - came)
    assert any("are still in the window" in note for note in summary.notes)
    assert (summary.left_rows, summary.right_rows) == (200, 250)


def test_what_spark_cannot_do_is_said_before_it_starts(tmp_path, console):
    table = pa.table({"a": [1], "ts": pa.array([1], pa.timestamp("ns"))})
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "a.parquet")
    with pytest.raises(SchemaError, match=r"nanoseconds in 'ts'.*coerce_timestamps='us'"):
        engine.run(job(tmp_path, on="equal('a')"), console)
    with pytest.raises(SpecError, match=r"rows\(\.\.\.\).*--engine embedded"):
        engine.run(job(tmp_path, on="equal('a')", window="rows(5)"), console)


def test_demo_checks_itself(tmp_path, console):
    setup = feed.Setup(rows=20_000, batches=3, band=20)
    summary = demo.run(setup, console, tmp_path / "result", partitions=2)
    summary.print(console)
    text = console.file.getvalue()
    assert summary.failure is None
    assert "check passed" in text
    assert sum(batch.rows for batch in summary.batches) == 20_000
    assert summary.results == len(pq.read_table(tmp_path / "result")) > 1000
    assert text.count("micro-batch ") >= 3
    assert str(tmp_path / "result") in text


def test_demo_finds_a_lost_result(tmp_path, console, monkeypatch):
    read = pq.read_table
    monkeypatch.setattr(demo.pq, "read_table", lambda path: read(path).slice(1))
    summary = demo.run(feed.Setup(rows=4_000, batches=1, band=50), console, tmp_path / "result", partitions=1)
    assert "1 of" in summary.failure
    assert "pairs are missing" in summary.failure
