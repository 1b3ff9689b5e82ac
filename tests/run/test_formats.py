"""Formats: what is written is read back, from files, directories, pipes; bad values name their row."""

import gzip
import io
import subprocess
import sys
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import run_cases as cases
from rich.console import Console

import slidejoin as sj
from slidejoin.errors import SchemaError, SpecError
from slidejoin.run import embedded
from slidejoin.run.files import open_input
from slidejoin.run.formats import ENDINGS
from slidejoin.run.job import make_job
from slidejoin.run.output import open_writer, published
from slidejoin.run.target import find_target

TABLE = pa.table(
    {
        "id": pa.array([1, 2**60, None, -4], pa.int64()),
        "price": pa.array([0.1, None, 1e300, -2.5]),
        "name": pa.array(["a", None, 'say "x", \t ü\\', ""]),
        "ok": pa.array([True, None, False, True]),
        "at": pa.array(
            [datetime(2024, 3, 1, 9, 30, 0, i, tzinfo=UTC) for i in range(4)], pa.timestamp("us", "UTC")
        ),
        "day": pa.array([date(2024, 3, 1), None, date(1999, 12, 31), date(2000, 1, 1)]),
    }
)
FILES = [ending for endings in ENDINGS.values() for ending in endings]


def write(table, path, format_=None, size=1, overwrite=False):
    target = find_target(path, format_)
    with published(target, overwrite) as place, open_writer(target, place, table.schema) as writer:
        for start in range(0, table.num_rows, size):
            writer.write(table.slice(start, size))
        writer.finish()


def read(path, **options):
    given = open_input(str(path), **options)
    return pa.concat_tables([given.schema.empty_table(), *given.batches(3)])


@pytest.mark.parametrize("ending", FILES)
def test_round_trip(tmp_path, ending):
    write(TABLE, tmp_path / f"a{ending}")
    back = read(tmp_path / f"a{ending}", time="at")
    expected = TABLE
    if ending in ENDINGS["json"]:  # dates are texts there
        expected = TABLE.set_column(5, "day", TABLE["day"].cast(pa.string()))
        if back.schema.field("day").type != pa.string():
            expected = TABLE.set_column(5, "day", TABLE["day"].cast(back.schema.field("day").type))
    assert back.to_pylist() == expected.to_pylist()
    assert [entry.name for entry in tmp_path.iterdir()] == [f"a{ending}"]


@pytest.mark.parametrize("ending", FILES)
def test_no_rows(tmp_path, ending):
    write(TABLE.slice(0, 0), tmp_path / f"a{ending}")
    if ending not in ENDINGS["json"]:  # which has no place for columns
        assert read(tmp_path / f"a{ending}").column_names == TABLE.column_names


@pytest.mark.parametrize("format_", list(ENDINGS))
def test_named_formats(tmp_path, format_):
    write(TABLE, tmp_path / "a.txt", format_)
    assert read(tmp_path / "a.txt", format_=format_, time="at")["id"].to_pylist() == TABLE["id"].to_pylist()


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv.gz", ".json.gz"])
def test_gzip_is_read(tmp_path, ending):
    plain = tmp_path / f"a{ending}".removesuffix(".gz")
    write(TABLE, plain)
    (tmp_path / f"b{ending}").write_bytes(gzip.compress(plain.read_bytes()))
    assert read(tmp_path / f"b{ending}").to_pylist() == read(plain).to_pylist()
    with pytest.raises(SpecError, match=r"--output - \| gzip"):
        find_target(f"a{ending}")


def test_arrow_file_and_stream_differ(tmp_path):
    write(TABLE, tmp_path / "a.arrow")
    write(TABLE, tmp_path / "a.arrows")
    assert pa.ipc.open_file(tmp_path / "a.arrow").read_all() == TABLE
    assert pa.ipc.open_stream(tmp_path / "a.arrows").read_all() == TABLE
    assert pyarrow.feather.read_table(tmp_path / "a.arrow") == TABLE


def test_arrow_files_with_other_columns_are_refused(tmp_path):
    (tmp_path / "in").mkdir()
    write(TABLE, tmp_path / "in" / "a.arrow")
    write(TABLE.select(["id"]), tmp_path / "in" / "b.arrow")
    with pytest.raises(SchemaError, match=r"b\.arrow"):
        read(tmp_path / "in")


def test_json_has_no_nan(tmp_path):
    write(pa.table({"x": [float("nan"), float("inf"), 2.0], "l": [[1], None, []]}), tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == (
        '{"x": null, "l": [1]}\n{"x": null, "l": null}\n{"x": 2.0, "l": []}\n'
    )


def test_json_of_other_types(tmp_path):
    table = pa.table(
        {"b": [b"x", None], "d": pa.array(["y", "z"]).dictionary_encode(), "s": [{"a": 1}, None]}
    )
    write(table, tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == (
        '{"b": "x", "d": "y", "s": {"a": 1}}\n{"b": null, "d": "z", "s": null}\n'
    )


def test_groups_do_not_depend_on_the_tables(tmp_path):
    table = pa.table({"id": range(150_000)})
    contents = []
    for size in (1000, 70_000, 150_000):
        write(table, tmp_path / f"{size}.parquet", size=size)
        contents.append((tmp_path / f"{size}.parquet").read_bytes())
    assert pq.read_metadata(tmp_path / "1000.parquet").num_row_groups == 3
    assert contents[0] == contents[1] == contents[2]


# --- the whole way ---


@pytest.fixture
def inputs(tmp_path):
    left = pa.table({"id": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.5]})
    right = pa.table({"id": [10, 20, 30], "x": [2.25, 9.5, 4.25]})
    for name, table in (("left", left), ("right", right)):
        for format_ in ENDINGS:
            write(table, tmp_path / f"{name}.{format_}")
    return left, right


@pytest.mark.parametrize("format_", list(ENDINGS))
@pytest.mark.parametrize("window", [None, "rows(3)"])
def test_formats_in_and_out(tmp_path, inputs, format_, window):
    job = make_job(
        str(tmp_path / f"left.{format_}"),
        str(tmp_path / f"right.{format_}"),
        on="band('x', within=0.5)",
        window=window,
        output=tmp_path / f"out.{format_}",
        how="full",
    )
    summary = embedded.run(job, Console(file=io.StringIO()))
    found = read(tmp_path / f"out.{format_}")
    on = sj.band("x", within=0.5)
    if window is None:
        expected = sj.join(*inputs, on, "full")
    else:
        join = sj.WindowJoin(on, sj.rows(3), "full", order="full")
        arrivals = [
            push
            for i in range(4)
            for push in ({"left": inputs[0].slice(i, 1)}, {"right": inputs[1].slice(i, 1)})
        ]
        expected = sj.concat([*(join.push(**push) for push in arrivals), join.finish()])
    assert found.to_pylist() == expected.to_pylist()
    assert summary.result_rows == expected.num_rows


def slidejoin(*words, **options):
    command = [sys.executable, "-m", "slidejoin", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=300, **options)


def test_pipes(tmp_path, inputs):
    """Standard input and output; the two inputs have different formats."""
    expected = sj.join(*inputs, sj.band("x", within=0.5))
    done = slidejoin(
        "run",
        "-",
        tmp_path / "right.arrow",
        "--on",
        "band('x', within=0.5)",
        "--output",
        "-",
        "--format",
        "csv,arrow",
        input=(tmp_path / "left.csv").read_bytes(),
    )
    assert done.returncode == 0, done.stderr
    assert pyarrow.csv.read_csv(io.BytesIO(done.stdout)) == expected
    assert b"result in standard output" in done.stderr
    done = slidejoin(
        "run",
        tmp_path / "left.json",
        "-",
        "--on",
        "band('x', within=0.5)",
        "--output",
        "-",
        "--format",
        ",arrow",
        "--output-format",
        "arrow",
        "--quiet",
        input=(tmp_path / "right.arrow").read_bytes(),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert pa.ipc.open_stream(done.stdout).read_all() == expected


def test_standard_input_is_refused_where_it_cannot_be(tmp_path, inputs, monkeypatch):  # noqa: ARG001
    right = str(tmp_path / "right.csv")
    with pytest.raises(
        SpecError, match=r"standard input \(-\) has no name that shows its format; give --format"
    ):
        make_job("-", right, on="equal('id')", output="-")
    with pytest.raises(SpecError, match="both inputs are standard input"):
        make_job("-", "-", on="equal('id')", output="-", format_="csv")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"id,x\n1,2\n1\n")))
    with pytest.raises(SchemaError, match=r"standard input, row 2 \(line 3\): .*Expected 2 columns, got 1"):
        make_job("-", right, on="equal('id')", output="-", format_="csv")


def test_inputs_are_never_replaced(tmp_path, inputs):  # noqa: ARG001
    left, right = tmp_path / "left.csv", tmp_path / "right.csv"
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    for output in (left, right, tmp_path / "link" / "right.csv", tmp_path):
        with pytest.raises(SpecError, match="would replace the input"):
            make_job(str(left), str(right), on="equal('id')", output=output, overwrite=True)


def test_output_is_not_written_into_an_input_directory(tmp_path, inputs):  # noqa: ARG001
    (tmp_path / "in").mkdir()
    (tmp_path / "left.csv").rename(tmp_path / "in" / "left.csv")
    with pytest.raises(SpecError, match=r"out\.csv lies in the input .*in; choose a place outside"):
        make_job(
            str(tmp_path / "in"),
            str(tmp_path / "right.csv"),
            on="equal('id')",
            output=tmp_path / "in" / "out.csv",
        )


def test_targets(tmp_path):
    assert find_target("a.csv").format == "csv"
    assert (find_target("a").is_directory, find_target("a/").is_directory) == (True, True)
    assert find_target("a.parquet").is_directory is False
    assert find_target("a", "json").is_directory is False
    (tmp_path / "b.parquet").mkdir()
    assert find_target(tmp_path / "b.parquet").is_directory is True
    for name, meant in (("near.cvs", r"\.csv"), ("near.PARQET", r"\.parquet"), ("out/near.prq", r"\.pq")):
        with pytest.raises(SpecError, match=rf"tells no format .*{name}/ for a directory.*mean '{meant}'"):
            find_target(name)
    with pytest.raises(SpecError, match=r"the ending \.2 tells no format"):
        find_target("run-1.2")
    assert find_target("run-1.2/").is_directory
    assert find_target("run-1.2", "csv").format == "csv"
    assert find_target(".hidden").is_directory
    with pytest.raises(SpecError, match="a directory, which holds Parquet; name a file for csv"):
        find_target(tmp_path, "csv")
    with pytest.raises(
        SpecError, match=r"--output-format 'cvs'; expected one of parquet, csv, .*; did you mean 'csv'"
    ):
        find_target("a", "cvs")


def test_files_are_replaced_only_on_request(tmp_path):
    write(TABLE, tmp_path / "a.csv")
    with pytest.raises(SpecError, match=r"a\.csv exists; choose another name or give --overwrite"):
        write(TABLE, tmp_path / "a.csv")
    write(TABLE.slice(0, 1), tmp_path / "a.csv", overwrite=True)
    assert read(tmp_path / "a.csv").num_rows == 1


def test_types_that_a_text_cannot_hold_are_refused_before_the_work(tmp_path):
    pq.write_table(pa.table({"id": [1], "l": [[1, 2]]}), tmp_path / "a.parquet")
    file = str(tmp_path / "a.parquet")
    with pytest.raises(
        SchemaError, match=r"column 'l' has type list.*, which csv cannot hold; leave it out with"
    ):
        make_job(file, file, on="equal('id')", output=tmp_path / "out.csv")
    job = make_job(file, file, on="equal('id')", output=tmp_path / "out.csv", columns="id_right,id")
    embedded.run(job, Console(file=io.StringIO()))
    assert (tmp_path / "out.csv").read_text() == '"id_right","id"\n1,1\n'


# --- bad values ---

BAD = {
    "csv": ("id,price\n", "{0},{1}\n", "many", "'many'"),
    "tsv": ("id\tprice\n", "{0}\t{1}\n", "many", "'many'"),
    "json": ("", '{{"id": {0}, "price": {1}}}\n', '"many"', "'many'"),
}


@pytest.mark.parametrize("format_", list(BAD))
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("row", [90_000, 140_000])
def test_bad_value_names_its_row(tmp_path, format_, packed, row):
    """Beyond the first block, by which types are found; a good file and an empty line come before it."""
    header, line, bad, shown = BAD[format_]
    lines = [line.format(number, 1.5) for number in range(150_000)]
    lines[row - 1] = line.format(row, bad)
    text = header + "\n" + "".join(lines)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{format_}").write_text(header + line.format(1, 1.5))
    file = tmp_path / "in" / f"b.{format_}{'.gz' * packed}"
    file.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())
    with pytest.raises(SchemaError) as refused:
        read(tmp_path / "in")
    at = row + 1 + bool(header)
    assert (
        str(refused.value) == f"{file}, row {row} (line {at}), column 'price': {shown} is not of type double"
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "id,price\n1,2\n3\n", r"a\.csv, row 2 \(line 3\): .*Expected 2 columns, got 1"),
        ("a.json", '{"id": 1}\n{"id": }\n', r"a\.json, row 2 \(line 2\): .*[Ii]nvalid"),
        ("a.json", '{"id": 1}\n{"id": "x"}\n', r"a\.json, row 2 \(line 2\): its types differ"),
        ("a.json", "[1, 2]\n", r"a\.json, row 1 \(line 1\): "),
    ],
)
def test_rows_that_cannot_be_split(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=says):
        open_input(str(tmp_path / name))


def test_stream_of_sides_in_every_format(tmp_path):
    """A larger join, by brute force."""
    rng = np.random.default_rng(3)
    tables = [cases.side(rng, rows, name) for rows, name in ((200, "a"), (250, "b"))]
    write(tables[0], tmp_path / "left.tsv")
    write(tables[1], tmp_path / "right.arrows")
    job = make_job(
        str(tmp_path / "left.tsv"),
        str(tmp_path / "right.arrows"),
        on="equal('symbol') & band('price', within=0.5)",
        window="interval('5s', '1s', time='ts', lateness='3s')",
        output=tmp_path / "out",
    )
    embedded.run(job, Console(file=io.StringIO()))
    assert cases.result(tmp_path / "out") == cases.joined(*tables, cases.near(5, 1, 0.5))
