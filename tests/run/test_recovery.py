"""Runs that are interrupted or killed and continued write what a run without a break writes."""

import contextlib
import io
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import run_cases as cases
from rich.console import Console

import slidejoin as sj
from slidejoin.errors import OrderError, SpecError, StateError
from slidejoin.run import csv_blocks, embedded, merge, recovery, write
from slidejoin.run.files import open_input
from slidejoin.run.job import make_job
from slidejoin.run.output import open_writer, work_directory
from slidejoin.run.recovery import Interrupted, seconds_of
from slidejoin.run.target import find_target

OUTPUTS = ["out.csv", "out.tsv", "out.json", "out.arrow", "out.arrows", "out.parquet", "out"]
WINDOWS = {
    "rows": "rows(left=40, right=25)",
    "within": "within(6, time='ts')",
    "interval": "interval(4, 3, time='ts', lateness=8)",
    "sorted": "interval(4, 3, time='ts', lateness=0)",
}
ON = "left.key = right.key"
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"


def content(path):
    """The bytes of a file, or of all files of a directory by name."""
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return path.read_bytes()


def rows_of(path):
    if path.is_dir():
        return pq.read_table(path).to_pylist()
    given = open_input(str(path))
    return pa.concat_tables([given.schema.empty_table(), *given.batches(10_000)]).to_pylist()


@pytest.fixture
def inputs(tmp_path):
    """Times that the window of the run needs: sorted ones, or disordered ones with late rows."""

    def written(kind, lengths=(700, 400)):
        rng = np.random.default_rng(4)
        for rows, name in zip(lengths, ("left", "right"), strict=True):
            times = np.arange(rows) // 2
            if kind in ("interval", "sorted"):
                times = times + rng.integers(0, 15, rows)
            mask = (times % 17 == 3) & (kind == "interval")  # rows without a time
            table = pa.table(
                {
                    name: np.arange(rows),
                    "key": rng.integers(0, 5, rows),
                    "ts": pa.array(times, mask=mask),
                    "text": [f'{name} "{i}"' for i in range(rows)],
                }
            )
            cases.write(table, tmp_path / name, files=2)
        return tmp_path

    return written


def job_of(tmp_path, kind, output, **options):
    return make_job(
        str(tmp_path / "left"), str(tmp_path / "right"), on=ON, window=WINDOWS[kind],
        output=tmp_path / output, sort_by="ts" if kind == "sorted" else None, **options,
    )  # fmt: skip


def run(job, **options):
    return embedded.run(job, Console(file=io.StringIO()), **options)


class Killed(BaseException):
    """What ends a run here: nothing may depend on being told."""


@pytest.fixture
def small_steps(monkeypatch):
    """Small pushes, groups and files, so that there is much to be cut."""
    for name, value in (("_FIRST_PUSH", 32), ("_SMALLEST_PUSH", 8), ("_RESULT_ROWS", 100)):
        monkeypatch.setattr(merge, name, value)
    monkeypatch.setattr(write, "GROUP_ROWS", 64)
    defaults = write.PartWriter.__init__.__defaults__
    monkeypatch.setattr(write.PartWriter.__init__, "__defaults__", (defaults[0], 256, defaults[2]))


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(
    ("output", "kind", "how"),
    [
        case
        for case in itertools.product(OUTPUTS, WINDOWS, ["inner", "full"])
        if LONG or case[0] == "out.csv" or case[1:] == ("interval", "full")
    ],
)
def test_killed_again_and_again(tmp_path, inputs, monkeypatch, output, kind, how):
    """At random moments: between two pushes, and while the output is written or a snapshot."""
    inputs(kind, lengths=(300, 700) if how == "full" else (700, 400))
    run(job_of(tmp_path, kind, f"whole-{output}" if output != "out" else "whole", how=how))
    expected = tmp_path / (f"whole-{output}" if output != "out" else "whole")
    rng = random.Random(f"{output} {kind} {how}")
    places = [
        (merge.Merge, ["_push"]),
        (recovery.SnapshotWriter, ["whole"]),
        (write.StreamWriter, ["write", "save", "finish"]),
        (write.PartWriter, ["write", "save", "finish", "_end_file"]),
    ]
    left = [0]

    def killing(original):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            found = original(*arguments, **options)
            if left[0] == 1:
                left[0] = 0
                raise Killed
            return found

        return call

    for owner, names in places:
        for name in names:
            monkeypatch.setattr(owner, name, killing(getattr(owner, name)))
    kills = 0
    for attempt in itertools.count():
        left[0] = rng.randrange(2, 40) if attempt < 25 else 10**9
        job = job_of(tmp_path, kind, output, how=how)
        try:
            summary = run(job, resume=True, snapshot_every=1e-9 if attempt % 3 else 0)
            break
        except Killed:
            kills += 1
            assert not (tmp_path / output).exists()
    assert kills > 2
    assert content(tmp_path / output) == content(expected)
    assert summary.result_rows == len(rows_of(expected)) > 100
    assert not work_directory(tmp_path / output).exists()


@pytest.mark.usefixtures("small_steps")
def test_continued_run_equals_the_join(tmp_path, inputs, monkeypatch):
    """Not only another run, but the join of rows that arrive one by one."""
    inputs("rows")
    calls = itertools.count()
    original = merge.Merge._push

    def dying(self, *arguments):
        if next(calls) == 5:
            raise Killed
        return original(self, *arguments)

    monkeypatch.setattr(merge.Merge, "_push", dying)
    with pytest.raises(Killed):
        run(job_of(tmp_path, "rows", "out.arrow"), snapshot_every=1e-9)
    summary = run(job_of(tmp_path, "rows", "out.arrow"), resume=True)
    assert summary.notes[0].startswith("continued after ")
    tables = [pq.read_table(tmp_path / name) for name in ("left", "right")]
    join = sj.WindowJoin(sj.equal("key"), sj.rows(left=40, right=25), order="full")
    sides = list(zip(("left", "right"), tables, strict=True))
    pushes = [{name: table.slice(row, 1)} for row in range(700) for name, table in sides if row < len(table)]
    expected = sj.concat([*(join.push(**push) for push in pushes), join.finish()])
    assert rows_of(tmp_path / "out.arrow") == expected.to_pylist()


@pytest.fixture
def interrupted(tmp_path, inputs, monkeypatch):
    """A run that got a Ctrl-C after its second push."""
    inputs("rows")
    calls = itertools.count()
    original = merge.Merge._push

    def pressing(self, *arguments):
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)

    monkeypatch.setattr(merge, "_FIRST_PUSH", 32)
    monkeypatch.setattr(merge, "_RESULT_ROWS", 100)
    monkeypatch.setattr(merge.Merge, "_push", pressing)
    with pytest.raises(
        Interrupted, match=r"interrupted after \d+ rows; continue with the same command and --res"
    ):
        run(job_of(tmp_path, "rows", "out.csv"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not (tmp_path / "out.csv").exists()
    return tmp_path


def test_interrupted_run_is_not_forgotten(interrupted):
    with pytest.raises(
        SpecError, match=r"left its state in .*continue it with --resume, or start anew with --over"
    ):
        run(job_of(interrupted, "rows", "out.csv"))
    run(job_of(interrupted, "rows", "other.csv"))
    run(job_of(interrupted, "rows", "out.csv"), resume=True)
    assert content(interrupted / "out.csv") == content(interrupted / "other.csv")
    run(job_of(interrupted, "rows", "out.csv", overwrite=True))
    assert content(interrupted / "out.csv") == content(interrupted / "other.csv")


def test_interrupted_run_can_be_started_anew(interrupted):
    run(job_of(interrupted, "rows", "out.csv", overwrite=True))
    run(job_of(interrupted, "rows", "other.csv"))
    assert content(interrupted / "out.csv") == content(interrupted / "other.csv")
    assert not work_directory(interrupted / "out.csv").exists()


def test_another_run_does_not_continue_it(interrupted):
    for options, says in (
        ({"how": "left"}, "condition, window or join type differ; repeat its command"),
        ({"columns": "left,right"}, "--columns differ"),
        ({"merge_by": "ts"}, "--sort-by or --merge-by differ"),
    ):
        with pytest.raises(StateError, match=says):
            run(job_of(interrupted, "rows", "out.csv", **options), resume=True)
    table = pq.read_table(interrupted / "left" / "001.parquet")
    pq.write_table(table.slice(1), interrupted / "left" / "001.parquet")
    with pytest.raises(StateError, match="left input differ"):
        run(job_of(interrupted, "rows", "out.csv"), resume=True)


def test_damage_is_noticed(interrupted):
    work = work_directory(interrupted / "out.csv")
    (work / "result").write_bytes(b"")
    with pytest.raises(StateError, match="the unfinished result is shorter than it was"):
        run(job_of(interrupted, "rows", "out.csv"), resume=True)
    (interrupted / "elsewhere").write_text("precious")
    (work / "result").unlink()
    (work / "result").symlink_to(interrupted / "elsewhere")
    with pytest.raises(SpecError, match="is a symbolic link, which no run makes"):
        run(job_of(interrupted, "rows", "out.csv"), resume=True)
    assert (interrupted / "elsewhere").read_text() == "precious"
    (work / "result").unlink()
    (work / "state").write_bytes((work / "state").read_bytes()[:-3])
    with pytest.raises(StateError):
        run(job_of(interrupted, "rows", "out.csv"), resume=True)


def test_disorder_behind_a_snapshot_is_noticed(tmp_path):
    cases.write(pa.table({"key": [1, 2, 3, 4], "ts": [1, 2, 3, 1]}), tmp_path / "left")
    cases.write(pa.table({"key": [1], "ts": [9]}), tmp_path / "right")
    job = job_of(tmp_path, "rows", "out.csv", merge_by="ts")
    join = merge.Merge(job).join
    with pytest.raises(OrderError, match="left, row 4: 'ts' is 1 after 3"):
        list(merge.Merge(job, join, (3, 0)).results(3))


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("output", ["out.csv", "out.parquet", "out"])
def test_csv_inputs_and_picked_columns_are_continued(tmp_path, inputs, monkeypatch, output):
    """Threads read ahead of the join and write behind it: a snapshot has what was joined and written."""
    inputs("interval")
    for name in ("left", "right"):
        table = pq.read_table(tmp_path / name)
        for file in (tmp_path / name).iterdir():
            file.unlink()
        cases.write(table, tmp_path / name, files=2, format_="csv")
    monkeypatch.setattr(csv_blocks, "BLOCK", 300)
    picked = {"columns": "text_right,left,ts_right", "how": "full"}
    run(job_of(tmp_path, "interval", f"whole-{output}" if output != "out" else "whole", **picked))
    original, pushes = merge.Merge._push, itertools.count(1)

    def pressing(self, *arguments):
        if next(pushes) % 9 == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *arguments)

    monkeypatch.setattr(merge.Merge, "_push", pressing)
    stops = 0
    while True:
        try:
            run(job_of(tmp_path, "interval", output, **picked), resume=True)
            break
        except Interrupted:
            stops += 1
    assert stops >= 2
    whole = tmp_path / (f"whole-{output}" if output != "out" else "whole")
    assert content(tmp_path / output) == content(whole)


def test_resume_without_a_state_starts_at_the_beginning(tmp_path, inputs):
    inputs("rows")
    summary = run(job_of(tmp_path, "rows", "out.csv"), resume=True)
    assert summary.notes == []
    run(job_of(tmp_path, "rows", "other.csv"))
    assert content(tmp_path / "out.csv") == content(tmp_path / "other.csv")
    with pytest.raises(SpecError, match=r"out\.csv exists"):
        run(job_of(tmp_path, "rows", "out.csv"), resume=True)


def test_interrupt_without_a_window_leaves_nothing(tmp_path, inputs, monkeypatch):
    inputs("rows")
    monkeypatch.setattr(embedded, "join", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    job = make_job(str(tmp_path / "left"), str(tmp_path / "right"), on=ON, output=tmp_path / "out.csv")
    with pytest.raises(KeyboardInterrupt):
        run(job)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["left", "right"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_writers_continue(tmp_path, output, monkeypatch):
    """Saved after every number of rows, with rows written behind it that are lost."""
    monkeypatch.setattr(write, "GROUP_ROWS", 4)
    table = pa.table({"id": range(30), "text": [str(i) for i in range(30)]})
    target = find_target(tmp_path / output)
    contents = set()
    for cut in (None, *range(31)):
        place = tmp_path / f"{cut}" / "result"
        place.parent.mkdir()
        if target.is_directory:
            place.mkdir()
        if cut is None:
            with open_writer(target, place, table.schema) as writer:
                writer.write(table)
                writer.finish()
        else:
            with open_writer(target, place, table.schema) as writer:
                writer.write(table.slice(0, cut))
                saved = writer.save()
                writer.write(table.slice(0, 9))
            with open_writer(target, place, table.schema, saved) as writer:
                writer.write(table.slice(cut))
                writer.finish()
        assert writer.rows == 30
        contents.add(repr(content(place)))
    assert len(contents) == 1


@pytest.mark.parametrize("output", ["out.parquet", "out.arrow", "out.arrows", "out"])
def test_writers_keep_the_types_of_segments(tmp_path, output):
    table = pa.table(
        {
            "c": pa.array(["x", None, "y"]).dictionary_encode(),
            "l": pa.array([[1], None, []], pa.list_(pa.int8())),
            "t": pa.array([1, 2, None], pa.timestamp("ns", "Europe/Berlin")),
            "d": pa.array([1, None, 3], pa.duration("us")),
            "n": pa.array([Decimal("1.50"), None, Decimal("-2.25")]),
            "s": pa.array(["a", "", None], pa.large_string()),
            "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
        }
    )
    target, place = find_target(tmp_path / output), tmp_path / "result"
    if target.is_directory:
        place.mkdir()
    with open_writer(target, place, table.schema) as writer:
        for row in range(3):
            writer.write(table.slice(row, 1))
            writer.save()
        writer.finish()
    given = open_input(str(place), target.format)
    assert given.schema == table.schema
    assert pa.concat_tables(given.batches(10)).to_pylist() == table.to_pylist()


def test_durations():
    assert [seconds_of(text) for text in ("0s", "250ms", "2min")] == [0.0, 0.25, 120.0]
    for text in ("5", "-1s", "often"):
        with pytest.raises(SpecError):
            seconds_of(text)


# --- real processes ---

DRIVER = """
import time
import slidejoin.run.merge as merge
merge._FIRST_PUSH, merge._SMALLEST_PUSH, merge._RESULT_ROWS = 32, 8, 100
original = merge.Merge._arrived
def slow(self, ready):
    time.sleep(0.02)
    return original(self, ready)
merge.Merge._arrived = slow
from slidejoin.cli import main
main()
"""


@pytest.mark.parametrize("output", ["out.csv", "out.parquet", "out"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_processes_that_are_stopped(tmp_path, inputs, output, sent):
    inputs("interval")
    run(job_of(tmp_path, "interval", f"whole-{output}" if output != "out" else "whole", how="full"))
    words = [
        "run", "left", "right", "--on", ON, "--window", WINDOWS["interval"], "--how", "full",
        "--output", output, "--snapshot-every", "5ms", "--resume",
    ]  # fmt: skip
    rng, stops = random.Random(f"{output} {sent}"), 0
    state = work_directory(tmp_path / output) / "state"
    for attempt in range(30):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if attempt < 2:
            before = _modified(state)
            while process.poll() is None and _modified(state) == before:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.1))
            process.send_signal(sent)
        _, errors = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        stops += 1
        assert not (tmp_path / output).exists()
        if sent == signal.SIGINT:
            assert process.returncode == 130
            assert b"continue with the same command and --resume" in errors
        else:
            assert process.returncode == -sent
    assert stops >= 1
    expected = tmp_path / (f"whole-{output}" if output != "out" else "whole")
    assert content(tmp_path / output) == content(expected)
    assert not state.parent.exists()


def _modified(path):
    with contextlib.suppress(OSError):
        return os.stat(path).st_mtime_ns
    return None


def test_what_a_killed_process_has_left_is_removed_by_the_next_run(tmp_path, inputs):
    """It was killed before its first snapshot, so there is nothing to continue."""
    inputs("rows")
    work = work_directory(tmp_path / "out.csv")
    words = ["run", "left", "right", "--on", ON, "--window", WINDOWS["rows"], "--output", "out.csv"]
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not (work / "result").exists():
            time.sleep(0.005)
        process.kill()
    assert (work / "result").exists()
    run(job_of(tmp_path, "rows", "out.csv"))
    run(job_of(tmp_path, "rows", "other.csv"))
    assert content(tmp_path / "out.csv") == content(tmp_path / "other.csv")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["left", "other.csv", "out.csv", "right"]
