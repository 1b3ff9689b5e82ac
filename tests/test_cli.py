"""The command line: what it prints and how it exits."""

import io
import pathlib
import re
import subprocess
import sys

import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pytest
import typer
from typer.testing import CliRunner

import slidejoin
from slidejoin import cli
from slidejoin.cli import run as run_command
from slidejoin.cli.commands import app
from slidejoin.demo.embedded import job
from slidejoin.demo.spark import job as spark_job
from slidejoin.run import spark as spark_engine
from slidejoin.run.session import SparkError
from slidejoin.run.text import parse_condition

TINY = [
    "demo", "--engine", "embedded", "--rows", "4000", "--window", "300", "--batch", "512", "--band", "40",
]  # fmt: skip
TRADES = "trade,price,ts\n1,10.0,1\n2,20.0,2\n3,20.1,3\n"
QUOTES = "quote,price,ts\n7,20.0,2\n8,10.3,9\n"


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"slidejoin {slidejoin.__version__}\n"


def test_demo_verifies_itself():
    result = run(*TINY)
    assert result.exit_code == 0, result.output
    assert "passed" in result.output
    assert "matches per row" in result.output
    assert "\x1b" not in result.output  # no control codes where there is no terminal


@pytest.mark.parametrize("wrong_row", [0, 2000, 3999])
def test_demo_fails_on_a_wrong_result(monkeypatch, wrong_row):
    """A pair too few in the push that holds the row, which need not be a checked one."""
    monkeypatch.setattr(job, "NumericJoin", _losing_join(wrong_row))
    result = run(*TINY[:-1], str(2**20))
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "the result is WRONG" in result.output


def _losing_join(wrong_row):
    class LosingJoin(slidejoin.NumericJoin):
        seen = 0

        def push(self, sides, keys, times=None):
            left, right = super().push(sides, keys, times)
            first, self.seen = self.seen, self.seen + len(keys)
            if first <= wrong_row < self.seen:
                return left[:-1], right[:-1]
            return left, right

    return LosingJoin


def test_demo_refuses_impossible_sizes_in_one_line():
    result = run("demo", "--engine", "embedded", "--rows", "10", "--window", str(2**40))
    assert result.exit_code == 1
    assert "tuples of one side, the most there can be" in result.output
    assert "Traceback" not in result.output


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two small inputs, in the directory that a run is started in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trades.csv").write_text(TRADES)
    (tmp_path / "quotes.csv").write_text(QUOTES)
    return tmp_path


def run_files(*more, on="band('price', within=0.5)", window="interval(5, 1, time='ts', lateness=3)"):
    return run("run", "trades.csv", "quotes.csv", "--on", on, "--window", window, "--output", "out", *more)


def test_run_writes_parquet_and_sums_up(files):
    result = run_files()
    assert result.exit_code == 0, result.output
    rows = pyarrow.dataset.dataset(files / "out").to_table().select(["trade", "quote"]).to_pylist()
    assert sorted(row["trade"] for row in rows) == [2, 3]
    assert [line for line in result.output.splitlines() if "result in out" in line]
    for what, value in (("left rows", 3), ("right rows", 2), ("result rows", 2), ("late rows", 0)):
        assert re.search(rf"{what} *│ *{value} ", result.output)
    assert "rows per second" in result.output
    assert "\x1b" not in result.output


def test_run_takes_join_types_formats_and_suffixes(files):
    (files / "trades.csv").rename(files / "trades.txt")
    (files / "quotes.csv").rename(files / "quotes.txt")
    result = run(
        "run", "trades.txt", "quotes.txt", "--on", "equal('price')", "--window", "rows(10)",
        "--output", "out", "--how", "full", "--format", "csv", "--suffixes", "_l,_r",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    table = pyarrow.dataset.dataset(files / "out").to_table()
    assert table.column_names == ["trade", "price_l", "ts_l", "quote", "price_r", "ts_r"]
    assert table.num_rows == 4


def test_run_replaces_only_what_it_may(files):
    (files / "out").mkdir()
    (files / "out" / "old.txt").write_text("old")
    result = run_files()
    assert result.exit_code == 1
    assert "out is not empty; choose another directory or give --overwrite" in result.output
    assert sorted(entry.name for entry in files.iterdir()) == ["out", "quotes.csv", "trades.csv"]
    assert (files / "out" / "old.txt").exists()
    assert run_files("--overwrite").exit_code == 0
    assert [entry.name for entry in (files / "out").iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on": "bnad('price', within=1)"}, "did you mean 'band'?"),
        ({"on": "equal('cost')"}, "left has no column 'cost'"),
        ({"window": "interval('5s', '1s', time='ts')"}, "integers have no unit, but the window's 5s has one"),
        ({"window": "5"}, "5 is not a window"),
    ],
)
def test_run_says_what_is_wrong_in_one_line(files, options, says):
    result = run_files(**options)
    assert result.exit_code == 1
    assert says in result.output
    assert len(result.output.splitlines()) == 1
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--suffixes", "x"], "expected two texts with a comma between"),
        (["--how", "outer"], "how='outer'; expected one of inner"),
        (["--partitions", "2"], "--partitions is for --engine spark"),
        (["--stream"], "--stream is for --engine spark"),
        (["--engine", "spark", "--files-per-batch", "1"], "--files-per-batch is for --stream"),
        (["--format", "cvs"], "--format 'cvs'; expected one of parquet, csv, tsv, json, arrow; did you mean"),
        (["--output-format", "xml"], "--output-format 'xml'; expected one of"),
        (
            ["--engine", "spark", "--output-format", "csv"],
            "Spark writes a directory of Parquet files, not out",
        ),
        (["--engine", "spark", "--sort-by", "ts"], "leave --sort-by out"),
        (["--engine", "spark", "--resume"], "--resume is for --engine embedded"),
        (["--snapshot-every", "-5s"], "--snapshot-every '-5s' is negative"),
        (
            ["--snapshot-every", "5"],
            "--snapshot-every: duration '5' is not a number with a unit; write '10s'",
        ),
        (["--merge-by", "trade"], "--merge-by is for rows(...)"),
        (["--watch-port", "0"], "--watch-port is for --watch; give both"),
        (["--engine", "spark", "--watch"], "on Spark --watch shows micro-batches; give --stream"),
    ],
)
@pytest.mark.usefixtures("files")
def test_run_refuses_options_that_do_not_fit(more, says):
    result = run_files(*more)
    assert result.exit_code == 1
    assert says in result.output
    assert len(result.output.splitlines()) == 1


def test_run_says_which_file_is_damaged(files):
    (files / "trades.csv").write_text("trade,price,ts\n1,10.0\n")
    result = run_files()
    assert result.exit_code == 1
    assert "trades.csv" in result.output
    assert "Traceback" not in result.output


TABLES = pyarrow.csv.read_csv(io.BytesIO(TRADES.encode())), pyarrow.csv.read_csv(io.BytesIO(QUOTES.encode()))
NEAR = slidejoin.join(*TABLES, slidejoin.band("price", within=0.5))
SQL = "abs(left.price - right.price) <= 0.5"


def run_whole(*more, on=SQL, output="near.csv"):
    return run("run", "trades.csv", "quotes.csv", "--on", on, "--output", output, *more)


def test_run_joins_all_rows_without_a_window(files):
    result = run_whole()
    assert result.exit_code == 0, result.output
    assert pyarrow.csv.read_csv(files / "near.csv") == NEAR
    assert "late rows" not in result.output
    assert "result in near.csv" in result.output


def test_run_picks_columns(files):
    assert run_whole("--columns", "quote,trade").exit_code == 0
    assert pyarrow.csv.read_csv(files / "near.csv") == NEAR.select(["quote", "trade"])
    result = run_whole("--columns", "quote,trad", output="other.csv")
    assert result.exit_code == 1
    assert "the result has no column 'trad'" in result.output
    assert "did you mean 'trade'?" in result.output
    assert len(result.output.splitlines()) == 1


def test_quiet_run_prints_nothing(files):
    result = run_whole("--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert pyarrow.csv.read_csv(files / "near.csv") == NEAR
    result = run_whole("--quiet")
    assert result.exit_code == 1
    assert result.stderr == "near.csv exists; choose another name or give --overwrite\n"
    assert result.stdout == ""


def test_result_on_standard_output(files):  # noqa: ARG001
    result = run_whole("--output-format", "json", output="-")
    assert result.exit_code == 0, result.output
    assert pyarrow.json.read_json(io.BytesIO(result.stdout.encode())) == NEAR
    assert "result in standard output" in result.stderr


def test_explain_prints_the_plan_and_ends(files):
    result = run_files("--explain", on=SQL)
    assert result.exit_code == 0, result.output
    assert re.search(r"^join +inner on band\('price', within=0.5\)$", result.output, re.MULTILINE)
    assert re.search(r"^left +trades.csv: 1 csv file; trade int64, price double", result.output, re.MULTILINE)
    assert sorted(entry.name for entry in files.iterdir()) == ["quotes.csv", "trades.csv"]
    assert run_files("--explain", on="left.cost = right.price").exit_code == 1


LATE = "trade,price,ts\n1,10.0,1\n2,20.0,2\n3,20.1,90\n4,20.0,2\n5,20.2,91\n"


def test_fail_on_late(files):
    (files / "trades.csv").write_text(LATE)
    (files / "quotes.csv").write_text(QUOTES + "9,20.0,95\n9,20.0,95\n")
    result = run_files("--fail-on-late")
    assert result.exit_code == 3
    assert "1 rows were late (--fail-on-late); the result is complete without them" in result.stderr
    whole = pyarrow.dataset.dataset(files / "out").to_table()
    assert whole["trade"].to_pylist() == [2]
    assert run_files("--overwrite").exit_code == 0
    assert pyarrow.dataset.dataset(files / "out").to_table() == whole
    result = run_files("--fail-on-late", "--overwrite", "--sort-by", "ts")
    assert result.exit_code == 0, result.output
    assert "both inputs were sorted in memory by ts" in result.output
    assert sorted(pyarrow.dataset.dataset(files / "out").to_table()["trade"].to_pylist()) == [2, 4]


def test_log_level(files):
    (files / "trades.csv").write_text(LATE)
    (files / "quotes.csv").write_text(QUOTES + "9,20.0,95\n")
    command = [
        sys.executable, "-m", "slidejoin", "run", "trades.csv", "quotes.csv", "--on", SQL, "--quiet",
        "--window", "interval(5, 1, time='ts', lateness=3)", "--output", "-",
    ]  # fmt: skip
    for level, shown in (("warning", True), ("error", False)):
        done = subprocess.run([*command, "--log-level", level], capture_output=True, text=True, check=True)
        assert ("WARNING 1 late row in the join" in done.stderr) is shown
        assert done.stdout.splitlines()[0] == '"trade","price","ts","quote","price_right","ts_right"'


def test_errors_of_a_condition_point_at_the_place(files):  # noqa: ARG001
    result = run_whole(on="left.price < right.price or left.ts = right.ts")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[1:] == [
        "  left.price < right.price or left.ts = right.ts",
        "                           ^",
    ]


def test_bad_value_is_one_line(files):
    (files / "trades.csv").write_text(
        TRADES * 1 + "".join(f"{i},1.5,4\n" for i in range(200_000)) + "5,x,9\n"
    )
    result = run_whole()
    assert result.exit_code == 1
    assert (
        result.stderr == "trades.csv, row 200004 (line 200005), column 'price': 'x' is not of type double\n"
    )
    assert not (files / "near.csv").exists()


def test_wrong_usage_exits_with_2(files):  # noqa: ARG001
    assert run("run", "trades.csv", "quotes.csv", "--output", "near.csv").exit_code == 2
    assert run_whole("--colums", "a").exit_code == 2
    assert run_whole("--log-level", "loud").exit_code == 2


def test_closed_pipe_is_no_traceback(files):
    (files / "trades.csv").write_text(TRADES + "".join(f"{i},20.0,4\n" for i in range(100_000)))
    command = [
        sys.executable,
        "-m",
        "slidejoin",
        "run",
        "trades.csv",
        "quotes.csv",
        "--on",
        SQL,
        "-q",
        "-o",
        "-",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b'"trade","price","ts","quote","price_right","ts_right"\n'
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("words", [["demo"], ["demo", "--engine", "spark"]])
def test_demo_without_java_is_one_clear_line(monkeypatch, tmp_path, words):
    _without_java(monkeypatch, tmp_path)
    result = run(*words)
    assert result.exit_code == 1
    assert "install Java 17 or newer" in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_run_on_spark_without_java_is_one_clear_line(files, monkeypatch, more):
    _without_java(monkeypatch, files)
    result = run_files("--engine", "spark", *more)
    assert result.exit_code == 1
    assert "install Java 17 or newer" in result.output
    assert len(result.output.splitlines()) == 1
    assert sorted(entry.name for entry in files.iterdir()) == ["quotes.csv", "trades.csv"]


def _without_java(monkeypatch, empty):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(empty))


def test_demo_refuses_options_of_the_other_engine():
    for words, says in (
        (["--window", "5"], "--window is for --engine embedded"),
        (["--engine", "embedded", "--batches", "5"], "--batches is for --engine spark"),
    ):
        result = run("demo", *words)
        assert result.exit_code == 1
        assert says in result.output


def test_failure_of_spark_is_one_line(files, monkeypatch):
    def failing(*_):
        raise SparkError("Spark failed: the disk is full (its log is /tmp/x)")

    monkeypatch.setattr(spark_engine, "_run_batch", failing)
    monkeypatch.setattr(spark_engine, "check_spark", lambda: None)
    result = run_files("--engine", "spark")
    assert (result.exit_code, result.output.strip()) == (
        1,
        "Spark failed: the disk is full (its log is /tmp/x)",
    )
    assert not (files / "out").exists()


def test_demo_on_spark_fails_on_a_wrong_result(monkeypatch):
    class Wrong:
        failure = "a pair is missing"

        def print(self, console):
            console.print("the table")

    monkeypatch.setattr(spark_job, "run", lambda *_: Wrong())
    result = run("demo")
    assert result.exit_code == 1
    assert "the table" in result.output
    assert "the result is WRONG: a pair is missing" in result.output


@pytest.mark.parametrize("library", ["rich", "typer"])
def test_missing_library_is_one_clear_line(monkeypatch, capsys, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(sys, "argv", ["slidejoin", "demo"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert capsys.readouterr().err == (
        f"the slidejoin command needs {library}: pip install 'slidejoin[cli]'\n"
    )


def test_version_needs_no_library(monkeypatch, capsys):
    for library in ("rich", "typer"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(sys, "argv", ["slidejoin", "--version"])
    cli.main()
    assert capsys.readouterr().out == f"slidejoin {slidejoin.__version__}\n"


@pytest.mark.parametrize("command", ["run", "demo"])
def test_help_shows_defaults(command):
    """Of every option that has a value and may be left out."""
    options = typer.main.get_command(app).commands[command].params
    free = [each for each in options if not each.required and not getattr(each, "is_flag", False)]
    assert len(free) > 5
    assert run(command, "--help").output.count("[default:") == len(free)


def test_interrupt_while_inputs_are_read(files, monkeypatch):  # noqa: ARG001
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "make_job", interrupted)
    result = run_whole()
    assert (result.exit_code, result.stderr) == (130, "interrupted; there is no complete result\n")


PAGE = (pathlib.Path(__file__).parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")


def test_page_has_every_option_and_exit_code():
    for option in typer.main.get_command(app).commands["run"].params:
        for name in option.opts:
            assert option.param_type_name == "argument" or f"`{name}" in PAGE or f" {name} " in PAGE, name
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == ["0", "1", "2", str(run_command.LATE), "130"]


def test_page_has_right_conditions():
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)
    pairs = [(sql, python) for sql, python in rows if "left." in sql]
    assert len(pairs) > 5
    for sql, python in pairs:
        assert parse_condition(sql) == parse_condition(python)


def test_completion_is_offered():
    assert "--install-completion" in run("--help").output


def test_entry_point_runs_the_app(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["slidejoin", "--help"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out
