"""Interrupts at random moments: a call happens or does not, the join goes on, no result is lost or doubled.

A timer raises KeyboardInterrupt while a call of a join is under way; in half of the runs a thread does.
A call that was interrupted is repeated if it did not happen. In the end the results are those of a join that
nobody interrupted.
"""
# ruff: noqa: B023  (functions are called at once)

import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import spill

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that raises signals"),
    # An interrupt inside a callback of the garbage collector, as Hypothesis has one, is reported and dropped
    # by Python itself.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
INTERRUPTS = 1000 if LONG else 55  # of each case


class Interrupter:
    """Raises KeyboardInterrupt in the code of a ``with`` block, at a random moment."""

    def __init__(self, seed, by_thread):
        self.random = random.Random(seed)
        self.by_thread = by_thread
        self.count = 0
        self.armed = False
        self.typical = 1e-4

    @contextlib.contextmanager
    def handling(self):
        before = signal.signal(signal.SIGALRM, self._handle)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _handle(self, _number, _frame):
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def run(self, call):
        """The result of a call and whether it was interrupted instead."""
        delay = max(self.random.uniform(0, 1.2) * self.typical, 2e-6)
        thread, interrupted, result = None, False, None
        begin = time.perf_counter()
        try:
            self.armed = True
            if self.by_thread:
                thread = threading.Thread(target=self._raise, args=(threading.get_ident(), delay))
                thread.start()
            else:
                signal.setitimer(signal.ITIMER_REAL, delay)
            result = call()
            self.armed = False
        except KeyboardInterrupt:
            self.armed = False
            interrupted = True
        self._drain(thread)
        self.count += interrupted
        if not interrupted:
            self.typical = 0.9 * self.typical + 0.1 * (time.perf_counter() - begin)
        return result, interrupted

    def _drain(self, thread):
        """Let an exception pass that was raised too late to meet the call."""
        while True:
            try:
                if thread is not None:
                    thread.join()
                time.sleep(0)
                return
            except KeyboardInterrupt:
                pass

    def _raise(self, thread, delay):
        time.sleep(delay)
        if self.armed:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
            )


TAGS = pa.list_(pa.int64())


def left(rng, count, clock):
    return pa.table(
        {
            "ts": clock + rng.integers(-40, 20, count),
            "k": [f"key {number}" for number in rng.integers(0, 12, count)],
            "x": rng.integers(0, 9, count),
            "tags": pa.array([[n] * (n % 3) for n in rng.integers(0, 9, count).tolist()], TAGS),
        }
    )


WINDOWS = {
    "rows": lambda: sj.rows(left=40, right=25),
    "within": lambda: sj.within(60, time="ts"),
    "interval": lambda: sj.interval(40, 30, time="ts", lateness=25, late="return"),
}
CASES = [
    ("rows", "inner"), ("rows", "full"), ("within", "left"), ("within", "inner"),
    ("interval", "inner"), ("interval", "left"), ("interval", "full"), ("interval", "left_semi"),
    ("rows in files", "inner"), ("interval in files", "full"),
]  # fmt: skip


def batches(window, rng):
    """The calls of a stream, without end: a side and its rows."""
    clock = 100
    while True:
        clock += int(rng.integers(0, 15))
        table = left(rng, int(rng.integers(1, 6)), clock)
        if window == "within":
            times = np.sort(rng.integers(clock, clock + 15, len(table)))
            table = table.set_column(0, "ts", pa.array(times))
            clock = int(times[-1])
        side = str(rng.choice(["left", "right"]))
        if side == "right":
            table = table.rename_columns(["ts", "k", "y", "tags"]).drop_columns(["tags"])
        yield side, table


def rows_seen(join):
    stats = join.stats
    return sum(stats[f"{what}_{side}"] for what in ("rows", "late") for side in ("left", "right"))


@pytest.mark.parametrize("by_thread", [False, True], ids=["signal", "thread"])
@pytest.mark.parametrize(("window", "how"), CASES)
def test_every_call_survives_interrupts(window, how, by_thread, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "SEGMENT", 4096)
    monkeypatch.setattr(spill, "BLOCK", 100)
    files = tmp_path if window.endswith(" in files") else None
    window = window.removesuffix(" in files")
    seed = hash((window, how)) % 1000
    on = sj.equal("k") & sj.less_equal("x", "y")
    join, plain = (
        sj.WindowJoin(on, WINDOWS[window](), how=how, order="full", spill=path) for path in (files, None)
    )
    stream = batches(window, np.random.default_rng(seed))
    interrupter = Interrupter(seed, by_thread)
    results, expected, late, expected_late = [], [], [], []
    with interrupter.handling():
        while interrupter.count < INTERRUPTS:
            side, table = next(stream)
            before = rows_seen(join)
            # Not push(**...): Python looks for an interrupt once that has returned, which loses the result.
            calls = {"left": lambda: join.push(left=table), "right": lambda: join.push(right=table)}
            result, interrupted = interrupter.run(calls[side])
            if interrupted and rows_seen(join) == before:  # it did not happen
                result = join.push(**{side: table})
            results.append(result)
            expected.append(plain.push(**{side: table}))
            if window == "interval" and interrupter.random.random() < 0.2:
                to = int(table["ts"][0].as_py()) - 20
                result, interrupted = interrupter.run(lambda: join.advance(to))
                results += [result, join.advance(to)]
                expected.append(plain.advance(to))
            if window == "interval" and interrupter.random.random() < 0.2:
                rows, interrupted = interrupter.run(lambda: join.take_late("left"))
                late += [rows, join.take_late("left")]
                expected_late.append(plain.take_late("left"))
            if interrupter.random.random() < 0.1:
                interrupter.run(join.snapshot)
                interrupter.run(join.snapshot_since)
            if interrupter.random.random() < 0.05:
                join = sj.WindowJoin.restore(join.snapshot(), spill=files)
            if interrupter.random.random() < 0.05:
                join.check()
        result, interrupted = interrupter.run(join.finish)
        if interrupted:
            result = join.finish()
    results.append(result)
    expected.append(plain.finish())
    assert together(results) == together(expected)
    assert together(late) == together(expected_late)


def together(results):
    return [row for table in results if table is not None for row in table.to_pylist()]


@pytest.mark.parametrize("by_thread", [False, True], ids=["signal", "thread"])
def test_sources_survive_interrupts(by_thread):
    rng = np.random.default_rng(5)
    interrupter = Interrupter(7, by_thread)
    on, window = sj.equal("k"), sj.within(50, time="ts")
    join, plain = (sj.WindowJoin(on, window, how="full") for _ in range(2))
    names = [("left", "a"), ("left", "b"), ("right", "c")]
    for side, name in names:
        join.source(side, name)
        plain.source(side, name)
    clocks = dict.fromkeys(names, 0)
    results, expected = [], []

    def delivered():
        return rows_seen(join) + sum(source.waiting for source in join.sources)

    with interrupter.handling():
        while interrupter.count < 2 * INTERRUPTS:
            side, name = names[int(rng.integers(len(names)))]
            times = np.sort(rng.integers(clocks[side, name], clocks[side, name] + 9, int(rng.integers(1, 5))))
            clocks[side, name] = int(times[-1])
            table = pa.table({"ts": times, "k": rng.integers(0, 5, len(times)), "n": [side] * len(times)})
            before = delivered()
            source = join.source(side, name)
            result, interrupted = interrupter.run(lambda: source.push(table))
            if interrupted and delivered() == before:
                result = source.push(table)
            results.append(result)
            expected.append(plain.source(side, name).push(table))
            if interrupter.random.random() < 0.05:
                join = sj.WindowJoin.restore(join.snapshot())
    results.append(join.finish())
    expected.append(plain.finish())
    assert together(results) == together(expected)


@pytest.mark.parametrize("by_thread", [False, True], ids=["signal", "thread"])
def test_numeric_joins_survive_interrupts(by_thread):
    rng = np.random.default_rng(5)
    interrupter = Interrupter(8, by_thread)
    join, plain = (sj.NumericJoin(500, -2, 2, np.int32) for _ in range(2))
    results, expected = [], []

    def rows():
        return join.stats["rows_left"] + join.stats["rows_right"]

    # A call is over before most threads wake up: one in a hundred is interrupted.
    wanted = INTERRUPTS // 2 if by_thread and not LONG else 2 * INTERRUPTS
    with interrupter.handling():
        while interrupter.count < wanted:
            count = int(rng.integers(1, 60))
            sides, keys = rng.integers(0, 2, count, np.uint8), rng.integers(0, 99, count, np.int32)
            kind = interrupter.random.choice(["push", "push", "count", "ranges"])
            before = rows()
            call = getattr(join, kind)
            result, interrupted = interrupter.run(lambda: call(sides, keys))
            if interrupted and rows() == before:
                result = call(sides, keys)
            elif interrupted:  # what could not be returned comes first
                result = call(sides[:0], keys[:0])
            results.append((kind, pairs_of(result)))
            expected.append((kind, pairs_of(getattr(plain, kind)(sides, keys))))
    assert results == expected


def pairs_of(result):
    if isinstance(result, int):
        return result
    left, right = result.expand() if isinstance(result, sj.Ranges) else result
    return list(zip(left.tolist(), right.tolist(), strict=True))


def test_this_interpreter_looks_for_interrupts_only_where_we_think():
    """The last lines of a call must not be torn; free-threaded builds would need another way."""
    assert sys.implementation.name == "cpython"
    assert getattr(sys, "_is_gil_enabled", lambda: True)()


class Interrupting:
    """Stands for an object, and raises once after a call of one of its methods."""

    def __init__(self, target, method):
        self._target = target
        self._method = method

    def __getattr__(self, name):
        found = getattr(self._target, name)
        if name != self._method:
            return found

        def call(*arguments):
            self._method = None
            found(*arguments)
            raise KeyboardInterrupt

        return call


def test_rows_that_moved_survive_an_interrupt_while_the_others_are_dropped():
    join = sj.WindowJoin(sj.equal("id"), sj.interval(1, 1, time="ts", lateness=None))
    join.push(right={"id": [0], "ts": [0]})
    join.push(left={"id": [7], "ts": [10**9]})
    join.push(left={"id": np.arange(9000), "ts": np.arange(9000)})
    store = join._live.stores[0]
    native, store.native = store.native, Interrupting(store.native, "limit")
    with pytest.raises(KeyboardInterrupt):
        join.advance(20000)
    store.native = native
    assert join.push(right={"id": [7], "ts": [10**9]}).num_rows == 1
    assert join.stats["stored_left"] == 1


def test_held_rows_survive_an_interrupt_and_a_snapshot(monkeypatch):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(1), how="left")
    join.push(left={"id": [1, 2, 3]})
    collected = join._live.collected
    monkeypatch.setattr(join._live, "collected", interrupt)
    with pytest.raises(KeyboardInterrupt):
        join.push(right={"id": [5]})
    monkeypatch.setattr(join._live, "collected", collected)
    rest = sj.WindowJoin.restore(join.snapshot()).finish()
    assert sorted(rest["id"].to_pylist()) == [1, 2, 3]


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["inner", "left"])
def test_finish_can_be_repeated_though_its_result_is_empty(how, monkeypatch):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(1), how=how)
    join.push(left={"id": [1]})
    join.push(right={"id": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(join._live, "collected", interrupt)
        with pytest.raises(KeyboardInterrupt):
            join.finish()
    assert join.finish().schema.names == ["id", "id_right"]
    with pytest.raises(sj.UsageError, match="finished"):
        join.finish()


def test_opening_a_source_survives_an_interrupt(monkeypatch):
    """The source is open with all that belongs to it, or it is not there."""
    join = sj.WindowJoin(sj.equal("id"), sj.rows(5))
    join.source("left", "a", time="ts")
    order = type(join._sources.order)
    add = order.add

    def interrupted(*arguments):
        add(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(order, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            join.source("right", "b", time="ts")
    assert [source.name for source in join.sources] == ["a"]
    assert join.source("left", "a").push({"id": [1], "ts": [1]}).num_rows == 0
    assert join.source("right", "b", time="ts").push({"id": [1], "ts": [1]}).num_rows == 0
    assert join.finish().num_rows == 1


def interrupted_at(count, function, call):
    """Make a call and interrupt it at a line of a function, the last one excepted; whether it had so many."""
    code = function.__code__
    last = max(line for _, _, line in code.co_lines() if line)

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code is not code:
            return None
        if event == "line" and frame.f_lineno != last:
            count -= 1
            if count < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ranges_survive_an_interrupt_at_every_line():
    """Runs that a result refers to are there for it, also those that left the window with its batch."""
    sides, keys = np.zeros(3000, np.uint8), np.arange(3000, dtype=np.int32)
    probe = np.ones(2, np.uint8), np.array([7, 8], np.int32)
    batch = [np.concatenate(arrays) for arrays in zip(probe, (sides, keys), probe, strict=True)]
    lines = 0
    while True:
        join, plain = (sj.NumericJoin(2000, -(10**6), 10**6, np.int32, index="bi-sort") for _ in range(2))
        for each in (join, plain):
            each.count(sides, keys)
            each.ranges(*probe)  # the core hands over each run once
        before = join.stats["rows_left"]
        if not interrupted_at(lines, sj.NumericJoin.ranges, lambda: join.ranges(*batch)):
            break
        rest = join.ranges(*batch if join.stats["rows_left"] == before else (sides[:0], keys[:0]))
        assert pairs_of(rest) == pairs_of(plain.ranges(*batch))
        assert pairs_of(join.ranges(*probe)) == pairs_of(plain.ranges(*probe))
        lines += 1
    assert lines > 5
