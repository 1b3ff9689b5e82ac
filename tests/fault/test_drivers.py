"""Runs in a broken world: sources that raise, consumers that leave, interrupts, kills, damaged snapshots."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from drive.streams import ON, Closing, collected, eventually, merged, pushed, rows, threads

import slidejoin as sj

LEFT, RIGHT = rows(300), rows(300, 1)
WITHIN = sj.within(5, time="ts")


def failing(items, error):
    yield from items
    raise error


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("merge", ["arrival", "time"])
def test_an_error_of_a_source_comes_behind_the_results_and_names_the_side(side, merge, tmp_path):
    sources = {"left": iter(LEFT), "right": iter(RIGHT)}
    sources[side] = failing((LEFT, RIGHT)[side == "right"][:100], KeyError("lost"))
    join = sj.WindowJoin(ON, sj.interval(5, 5, time="ts", lateness=0), order="full")
    found = []
    run = join.run(**sources, merge=merge, max_rows=16, snapshot=tmp_path / "state")
    with pytest.raises(KeyError, match="lost") as caught:  # noqa: PT012
        for out in run:
            found += out.to_pylist()
    assert caught.value.__notes__ == [f"raised by the {side} source of a run"]
    assert threads() == []
    assert join.stats["rows_left"] == run.offsets["left"]
    assert join.stats["rows_right"] == run.offsets["right"]
    assert run.result_rows == len(found)
    if merge == "arrival":
        assert run.offsets[side] == 100  # all rows before the error were joined
    again = sj.WindowJoin(ON, sj.interval(5, 5, time="ts", lateness=0), order="full")
    rest = again.run(
        left=lambda n: LEFT[n:],
        right=lambda n: RIGHT[n:],
        merge=merge,
        snapshot=tmp_path / "state",
        resume=True,
    )
    assert rest.result_rows == len(found)
    found += collected(rest)
    whole = pushed(sj.WindowJoin(ON, sj.interval(5, 5, time="ts", lateness=0)), merged(LEFT, RIGHT))
    assert sorted(map(str, found)) == sorted(map(str, whole))


def test_bad_rows_are_refused_with_their_place_and_change_nothing():
    bad = [*LEFT[:50], {**LEFT[50], "v": "high"}, *LEFT[51:]]
    for merge in ("arrival", "time"):
        join = sj.WindowJoin(ON, WITHIN)
        run = join.run(left=bad, right=RIGHT, max_rows=8) if merge == "time" else None
        run = run or join.run(left=bad, right=iter([]), merge="arrival", max_rows=8)
        with pytest.raises(sj.SchemaError, match="left column 'v'") as caught:
            collected(run)
        assert "before it: the left source at" in caught.value.__notes__[0]
        assert join.stats["rows_left"] == run.offsets["left"] <= 50
        join.check()
    with pytest.raises(sj.SchemaError, match="left source is a int"):
        collected(sj.WindowJoin(ON, 5).run(left=[1], right=[]))


def test_a_consumer_that_raises_leaves_no_thread_and_no_snapshot_of_what_it_did_not_handle(tmp_path):
    path = tmp_path / "state"
    join = sj.WindowJoin(ON, WITHIN, order="full")
    handled = []

    def consume(run):
        for out in run:
            if len(handled) == 3:
                raise ValueError("disk full")
            handled.append(out.num_rows)

    options = {"left": lambda n: LEFT[n:], "right": lambda n: RIGHT[n:], "snapshot": path, "max_rows": 20}
    with pytest.raises(ValueError, match="disk full"):
        consume(join.run(**options, snapshot_every=1))
    assert threads() == []
    again = sj.WindowJoin(ON, WITHIN, order="full").run(**options, resume=True)
    assert again.result_rows == sum(handled)  # the fourth table comes again
    found = sum(handled) + sum(out.num_rows for out in again)
    assert found == len(pushed(sj.WindowJoin(ON, WITHIN), merged(LEFT, RIGHT)))


def test_nothing_leaks_over_many_runs():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for turn in range(30):
        join = sj.WindowJoin(ON, WITHIN)
        left, right = Closing(iter(LEFT)), Closing(iter(RIGHT))
        run = join.run(left=left, right=right, max_rows=32)
        next(run)
        if turn % 3 == 0:
            run.close()
        elif turn % 3 == 1:
            del run
        else:
            run.stop()
            list(run)
        assert (left.closed, right.closed) == (1, 1)
    assert threads() == []
    assert descriptors() <= before


@pytest.fixture
def alarm():
    """Sets a timer after which the main thread runs a signal handler."""
    before = signal.getsignal(signal.SIGALRM)

    def at(seconds, handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield at
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("merge", ["arrival", "time"])
def test_ctrl_c_keeps_the_join_and_the_offsets_right(merge, alarm):
    """Interrupts at random moments of a run; another one with the rest finds what one run finds."""
    number = random.Random(5)
    options = {"merge": merge, "max_rows": 3, "max_delay": "0ms"}
    window = sj.interval(5, 5, time="ts", lateness=None)
    whole = pushed(sj.WindowJoin(ON, window), merged(LEFT, RIGHT))
    interrupts = 0
    for _ in range(12):
        join = sj.WindowJoin(ON, window)
        offsets = {"left": 0, "right": 0}
        for last in (False, False, True):
            left, right = LEFT[offsets["left"] :], RIGHT[offsets["right"] :]
            run = join.run(left=iter(left), right=iter(right), finish=last, **options)
            try:
                next(run, None)  # the threads have begun
                if not last:
                    alarm(0.0001 + number.random() * 0.01, signal.default_int_handler)
                for _ in run:
                    pass
                if not last:
                    time.sleep(1)  # it comes after the end
            except KeyboardInterrupt:
                interrupts += 1
            alarm(0, signal.default_int_handler)
            run.close()
            offsets = {side: offsets[side] + run.offsets[side] for side in offsets}
            assert join.stats["rows_left"] == offsets["left"]
            assert join.stats["rows_right"] == offsets["right"]
        # A table that was on its way to the loop may be lost; the join's count is not.
        assert join.stats["matches"] == len(whole)
    assert interrupts == 24
    eventually(lambda: threads() == [])


@pytest.mark.parametrize("happened", [True, False])
def test_an_interrupt_right_before_or_after_a_push(happened, monkeypatch):
    join = sj.WindowJoin(ON, 10)
    arrive = join._arrive

    def interrupted(*arguments):
        if happened:
            arrive(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(join, "_arrive", interrupted)
    run = join.run(left=[sj.Batch(LEFT[:5], offset="a")], right=[])
    with pytest.raises(KeyboardInterrupt):
        next(run)
    assert run.offsets == {"left": "a" if happened else 0, "right": 0}
    assert join.stats["rows_left"] == 5 * happened
    assert threads() == []


def test_a_signal_handler_can_stop_a_run_at_any_moment(alarm):
    number = random.Random(6)
    for _ in range(40):
        join = sj.WindowJoin(ON, sj.rows(50))
        run = join.run(left=itertools.cycle(LEFT), right=itertools.cycle(RIGHT), max_rows=3, max_delay="0ms")
        alarm(0.0001 + number.random() * 0.01, lambda *_, run=run: run.stop())
        for _ in run:
            pass
        assert join.stats["rows_left"] == run.offsets["left"]
        assert join.stats["rows_right"] == run.offsets["right"]


WORKER = """
import json, os, sys, time
import slidejoin as sj
from drive.streams import ON, rows

path, sink, slow = sys.argv[1], sys.argv[2], float(sys.argv[3])
left, right = rows(400), rows(400, 1)

def source(all_rows):
    def opened(offset):
        for row in all_rows[offset:]:
            time.sleep(slow)
            yield row
    return opened

join = sj.WindowJoin(ON, sj.within(5, time="ts"), how="left", order="full")
sources = {"left": source(left), "right": source(right)}
run = join.run(**sources, max_rows=8, snapshot=path, snapshot_every=20, resume=True)
with open(sink, "a+", encoding="utf-8") as out:
    out.seek(0)
    kept = out.readlines()[: run.result_rows]
    out.truncate(0)
    out.writelines(kept)
    for table in run:
        out.writelines(json.dumps(row) + "\\n" for row in table.to_pylist())
        out.flush()
"""


def test_killed_and_resumed_the_results_are_those_of_one_run(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    path, sink = tmp_path / "state", tmp_path / "out.jsonl"
    here = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": here}

    def start(slow):
        command = [sys.executable, script, path, sink, str(slow)]
        return subprocess.Popen(command, env=environment)

    for place in (1, 300):
        worker = start(0.002)
        end = time.monotonic() + 60
        while worker.poll() is None:
            if sink.exists() and len(sink.read_bytes().splitlines()) >= place and path.exists():
                break
            assert time.monotonic() < end
            time.sleep(0.01)
        worker.kill()
        worker.wait()
    assert path.exists()
    assert start(0).wait() == 0
    found = [json.loads(line) for line in sink.read_text().splitlines()]
    assert found == pushed(
        sj.WindowJoin(ON, WITHIN, how="left", order="full"), merged(rows(400), rows(400, 1))
    )


def test_snapshots_of_other_joins_and_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "state"
    options = {"left": lambda n: LEFT[n:], "right": lambda n: RIGHT[n:], "snapshot": path, "resume": True}
    collected(sj.WindowJoin(ON, WITHIN).run(**options))
    with pytest.raises(sj.StateError, match="is of another join"):
        sj.WindowJoin(ON, sj.within(6, time="ts")).run(**options)
    with pytest.raises(sj.StateError, match="merge='time', this one has 'arrival'"):
        sj.WindowJoin(ON, WITHIN).run(**options, merge="arrival")
    sj.WindowJoin(ON, WITHIN).run(**options)  # whole, and another index would be fine
    used = sj.WindowJoin(ON, WITHIN)
    used.push(left=LEFT)
    with pytest.raises(sj.UsageError, match="needs a new join"):
        used.run(**options)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(sj.StateError):
        sj.WindowJoin(ON, WITHIN).run(**options)
    used.snapshot(path, note="mine")
    with pytest.raises(sj.StateError, match="not the snapshot of a run"):
        sj.WindowJoin(ON, WITHIN).run(**options)


def test_a_restored_join_goes_on_from_its_own_snapshot(tmp_path):
    path = tmp_path / "state"
    options = {"left": lambda n: LEFT[n:], "right": lambda n: RIGHT[n:]}
    join = sj.WindowJoin(ON, WITHIN, order="full")
    run = join.run(**options, snapshot=path, snapshot_every=50, max_rows=20)
    found = []
    for out in run:
        found += out.to_pylist()
        if path.exists():
            break
    run.close()
    restored = sj.WindowJoin.restore(path)
    again = restored.run(**options, resume=True)
    del found[again.result_rows :]
    found += collected(again)
    assert found == pushed(sj.WindowJoin(ON, WITHIN, order="full"), merged(LEFT, RIGHT))


def test_offsets_that_json_has_not_are_refused(tmp_path):
    left = [sj.Batch(LEFT[:5], offset={1, 2})]
    with pytest.raises(sj.UsageError, match="an offset cannot be saved"):
        collected(sj.WindowJoin(ON, 5).run(left=left, right=[], snapshot=tmp_path / "state"))
    assert not (tmp_path / "state").exists()
