"""Rules that only WindowJoin has: sides that become idle by the clock, returned late rows, output."""

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj


def rows(*times, key=1):
    return pa.table({"k": pa.array([key] * len(times), pa.int64()), "ts": pa.array(times, pa.int64())})


class Clocked:
    """A join on integer times whose clock stands still until it is told."""

    def __init__(self, **options):
        window = sj.interval(5, 5, time="ts", lateness=0, late="return", idle_after="10ns")
        self.join = sj.WindowJoin(sj.equal("k"), window, **options)
        self.now = 1000
        self.join._clock = lambda: self.now
        self.join._last_seen = [self.now] * 2

    def push(self, after=0, **batch):
        self.now += after
        self.join.push(**batch)
        self.join.check()
        return self.join.stats["watermark"]


def test_a_side_without_rows_holds_the_watermark_back_until_it_is_idle():
    run = Clocked()
    assert run.push(left=rows(100)) is None
    assert run.push(9, left=rows(101)) is None
    assert run.push(1, left=rows(102)) == 102  # silent for ten
    assert run.push(left=rows(101)) == 102
    assert run.join.stats["late_left"] == 1


def test_an_idle_side_wakes_with_its_next_row_also_with_a_late_one():
    run = Clocked()
    run.push(right=rows(50))
    assert run.push(10, left=rows(100)) == 100
    assert run.push(right=rows(60)) == 100  # late, and awake again: the watermark waits for it
    assert run.join.stats["late_right"] == 1
    assert run.push(left=rows(200)) == 100
    assert run.push(right=rows(150)) == 150
    assert run.push(9, left=rows(201)) == 150
    assert run.push(1, left=rows(202)) == 202


def test_an_empty_batch_is_silence_and_lets_time_pass():
    run = Clocked()
    run.push(left=rows(100))
    run.push(right=rows())
    assert run.push(9, left=rows(101)) is None
    assert run.push(1, right=rows()) == 101  # left spoke one before, right never


def test_an_empty_batch_is_no_word():
    run = Clocked()
    run.push(left=rows(100))
    run.push(9, right=rows())
    assert run.push(1, left=rows(101)) == 101  # right has never spoken


def test_advance_counts_as_a_word():
    run = Clocked()
    run.push(left=rows(100))
    run.now += 9
    run.join.advance(20, side="right")
    assert run.join.stats["watermark"] == 20
    assert run.push(9, left=rows(101)) == 20
    assert run.push(1, left=rows(102)) == 102


def test_a_promise_of_one_side_says_nothing_about_the_other():
    run = Clocked()
    run.push(left=rows(100))
    run.join.advance(200, side="left")
    assert run.join.stats["watermark"] is None
    run.join.advance(150, side="right")
    assert run.join.stats["watermark"] == 150


def test_when_both_sides_are_silent_nothing_moves():
    run = Clocked()
    run.push(left=rows(100))
    run.push(right=rows(50))
    assert run.push(100, right=rows()) == 50
    assert run.push(left=rows(100)) == 100  # right is idle, left speaks


def test_a_side_that_wakes_brings_its_promise_back():
    """Also where only promises move the watermark: it moves after every row."""
    window = sj.interval(5, 5, time="ts", idle_after="10ns")
    join = sj.WindowJoin(sj.equal("k"), window)
    now = 1000
    join._clock = lambda: now
    join._last_seen = [now] * 2
    join.push(left=rows())
    join.push(right=rows())
    join.advance(50, side="left")
    now += 10
    join.push(left=rows())  # both sides are silent
    assert join.stats["watermark"] is None
    join.push(left=rows(60))
    assert join.stats["watermark"] == 50
    join.push(right=rows(40))
    assert join.stats["late_right"] == 1


def test_silence_while_the_other_side_is_not_known():
    """The right side's first batch changes the types: what the silence made late stays late."""
    run = Clocked()
    run.push(left=rows(100))
    assert run.push(10, left=rows(100, 101)) == 101
    wide = pa.table({"k": pa.array([1, 1], pa.int64()), "ts": pa.array([100, 105], pa.int32())})
    run.push(right=wide)
    assert run.join.stats["late_right"] == 1
    assert run.join.stats["matches"] == 3
    other = Clocked()
    other.push(left=rows(100))
    other.push(10, left=rows(100, 101))
    narrow = pa.table({"k": pa.array([1, 1], pa.int8()), "ts": pa.array([100, 105], pa.int64())})
    other.push(right=narrow)
    assert {**other.join.stats, "memory_bytes": 0} == {**run.join.stats, "memory_bytes": 0}


def test_late_rows_are_handed_over_once():
    run = Clocked()
    assert run.join.take_late("left").num_columns == 0
    run.push(left=rows(100))
    run.push(right=rows(100))
    mixed = pa.table({"side": [0, 1, 0, 1], "k": [1, 1, 1, 1], "ts": [90, 101, 101, 80]})
    run.push(arrivals=mixed)
    run.push(left=rows(70))
    assert run.join.take_late("left")["ts"].to_pylist() == [90, 70]
    assert run.join.take_late("left")["ts"].to_pylist() == []
    assert run.join.take_late("right")["ts"].to_pylist() == [80]
    with pytest.raises(sj.UsageError, match="side='both'"):
        run.join.take_late("both")
    run.push(left=rows(60))
    run.join.finish()
    assert run.join.take_late("left")["ts"].to_pylist() == [60]


def test_all_left_columns_then_all_right_ones():
    join = sj.WindowJoin(sj.equal("k"), 5, suffixes=("_a", "_b"))
    left = pa.table({"p": [[1], None], "k": [1, 2], "x": pa.array(["u", "v"]).dictionary_encode()})
    right = pa.table({"k": [2], "p": [{"q": 1.5}], "y": [b"z"]})
    assert join.push(left=left).num_columns == 0
    result = join.push(right=right)
    assert result.column_names == ["p_a", "k_a", "x", "k_b", "p_b", "y"]
    assert result.to_pylist() == [{"p_a": None, "k_a": 2, "x": "v", "k_b": 2, "p_b": {"q": 1.5}, "y": b"z"}]
    assert result.schema.field("x").type.value_type == pa.string()
    assert join.push(left=left.slice(0, 0)).schema == result.schema
    assert join.finish().schema == result.schema


def test_a_batch_pushed_twice_is_two_batches():
    join = sj.WindowJoin(sj.equal("k"), 5)
    join.push(left=rows(1))
    assert join.push(right=rows(1)).num_rows == 1
    assert join.push(right=rows(1)).num_rows == 1
    assert join.push(left=rows(1)).num_rows == 2


def test_batches_may_be_changed_after_a_push():
    keys = np.array([1, 2, 3])
    join = sj.WindowJoin(sj.equal("k"), 5)
    join.push(left={"k": keys})
    keys[:] = 9
    assert join.push(right={"k": [2, 9]}).to_pylist() == [{"k": 2, "k_right": 2}]
