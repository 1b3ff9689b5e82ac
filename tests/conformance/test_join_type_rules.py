"""Rules of WindowJoin about outer, semi and anti joins and probe-only rows: one rule, one small example.

Left rows are called a, b, c, right rows x, y, z. A result reads "ax" for a pair, "a-" and "-x" for a row that
came out unmatched, and "a" or "x" in semi and anti joins, which have the columns of one side.
"""

import math
from typing import get_args

import pyarrow as pa
import pytest
from window_cases import ONE_HASH

import slidejoin as sj
from slidejoin import reference
from slidejoin.join_type import JOIN_TYPES, How

HOWS = tuple(JOIN_TYPES)
EVERYTHING = sj.rows(100)


def batch(side, *rows, key=None):
    """Rows (name, key, ts) as a table; the names are the column that only this side has."""
    names, keys, times = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, key or pa.int64()),
            "ts": pa.array(times, pa.int64()),
            side: pa.array(names, pa.string()),
        }
    )


def read(table):
    """The results of a table by the names of their rows."""
    if not table.num_columns:
        assert table.num_rows == 0
        return []
    parts = [
        ["-" if name is None else name for name in table[side].to_pylist()]
        for side in ("left", "right")
        if side in table.column_names
    ]
    return ["".join(names) for names in zip(*parts, strict=True)]


class Run:
    """A join on equal keys, fed row by row; the columns of both sides are known from the start."""

    def __init__(self, how, window=EVERYTHING, *, key=None, known=True, **options):
        self.key = key
        schemas = (batch("left", key=key).schema, batch("right", key=key).schema) if known else None
        self.join = sj.WindowJoin(sj.equal("k"), window, how, order="full", schemas=schemas, **options)

    def left(self, *row, **options):
        return self.push("left", row, **options)

    def right(self, *row, **options):
        return self.push("right", row, **options)

    def push(self, side, *rows, **options):
        rows = [(*row, 0)[:3] for row in rows]
        return self._read(self.join.push(**{side: batch(side, *rows, key=self.key)}, **options))

    def advance(self, to, side=None):
        return self._read(self.join.advance(to, side))

    def finish(self):
        return self._read(self.join.finish())

    def stats(self, *names):
        return tuple(self.join.stats[name] for name in names)

    def _read(self, table):
        self.join.check()
        return read(table)


def event(before, after, **options):
    return sj.interval(before, after, time="ts", **options)


# --- What each type brings out ---


@pytest.mark.parametrize(
    ("how", "at_the_match", "at_the_end"),
    [
        ("inner", ["ax"], []),
        ("left", ["ax"], ["b-"]),
        ("right", ["ax"], ["-y"]),
        ("full", ["ax"], ["b-", "-y"]),
        ("left_semi", ["a"], []),
        ("left_anti", [], ["b"]),
        ("right_semi", ["x"], []),
        ("right_anti", [], ["y"]),
    ],
)
def test_every_join_type(how, at_the_match, at_the_end):
    run = Run(how)
    assert run.push("left", ("a", 1), ("b", 2)) == []
    assert run.push("right", ("x", 1), ("y", 3)) == at_the_match
    assert run.finish() == at_the_end


def test_an_unknown_type_is_refused():
    with pytest.raises(sj.SpecError, match="how='outer'; expected one of inner, left, right, full"):
        Run("outer")
    with pytest.raises(sj.SpecError, match="; did you mean 'left_anti'"):
        Run("leftanti")
    for how in (None, ["left"]):
        with pytest.raises(sj.SpecError, match="; expected one of"):
            Run(how)


def test_the_hint_for_type_checkers_names_every_type():
    assert get_args(How) == get_args(reference.How) == HOWS


@pytest.mark.parametrize("how", HOWS[1:])
def test_a_self_join_is_an_inner_join(how):
    with pytest.raises(sj.SpecError, match=f"how='{how}'.*inner"):
        sj.WindowJoin(sj.equal("k"), 5, how, self_join=True)


@pytest.mark.parametrize("how", HOWS)
def test_columns_are_all_left_then_all_right_or_those_of_one_side(how):
    join = sj.WindowJoin(sj.equal("k"), EVERYTHING, how, suffixes=("_l", "_r"))
    left = pa.table({"k": [1, 2], "p": pa.array(["u", "v"]).dictionary_encode(), "n": [[1], None]})
    right = pa.table({"q": [0.5, 1.5], "k": pa.array([1, 3], pa.int32())})
    tables = [join.push(left=left), join.push(right=right), join.finish()][1:]
    types = [pa.int64(), left.schema.field("p").type, pa.list_(pa.int64()), pa.float64(), pa.int32()]
    both = pa.schema(list(zip(["k_l", "p", "n", "q", "k_r"], types, strict=True)))
    one_sided = {"left_semi": left, "left_anti": left, "right_semi": right, "right_anti": right}
    for table in tables:
        assert table.schema == (one_sided[how].schema if how in one_sided else both)


def test_a_missing_partner_is_null_in_all_its_columns():
    join = sj.WindowJoin(sj.equal("k"), EVERYTHING, "full", order="full")
    join.push(left={"k": [1], "p": ["u"]})
    join.push(right={"k": [2], "q": [{"f": 1}]})
    assert join.finish().to_pylist() == [
        {"k": 1, "p": "u", "k_right": None, "q": None},
        {"k": None, "p": None, "k_right": 2, "q": {"f": 1}},
    ]


def test_semi_brings_a_left_row_once_at_its_first_match_whichever_side_comes_last():
    run = Run("left_semi")
    assert [run.left("a", 1), run.left("b", 1), run.right("x", 1)] == [[], [], ["a", "b"]]
    assert [run.right("y", 1), run.left("c", 1), run.right("z", 1)] == [[], ["c"], []]
    assert run.finish() == []


def test_right_semi_and_anti_joins_mirror_the_left_ones():
    run = Run("right_semi")
    assert [run.right("x", 1), run.left("a", 1), run.left("b", 1)] == [[], ["x"], []]
    assert run.right("y", 1) == ["y"]
    assert run.finish() == []
    run = Run("right_anti", sj.rows(left=9, right=1))
    assert [run.right("x", 1), run.right("y", 2), run.left("a", 2), run.right("z", 3)] == [[], ["x"], [], []]
    assert run.finish() == ["z"]


def test_anti_brings_a_left_row_when_it_leaves_unmatched():
    run = Run("left_anti", sj.rows(left=1, right=9))
    assert [run.left("a", 1), run.left("b", 2), run.right("x", 2), run.left("c", 3)] == [[], ["a"], [], []]
    assert run.finish() == ["c"]


def test_a_row_that_ever_matched_never_comes_out_unmatched():
    run = Run("full", sj.rows(1))
    results = [run.left("a", 1), run.right("x", 1), run.left("b", 2), run.right("y", 3)]
    assert results == [[], ["ax"], [], []]
    assert run.finish() == ["b-", "-y"]


def test_an_unmatched_row_comes_out_once():
    run = Run("left", sj.rows(1))
    assert [run.left("a", 1), run.left("b", 2), run.left("c", 3)] == [[], ["a-"], ["b-"]]
    assert run.finish() == ["c-"]


def test_every_copy_of_a_row_comes_out():
    run = Run("left")
    run.push("left", ("a", 1), ("a", 1))
    assert run.finish() == ["a-", "a-"]


@pytest.mark.parametrize("how", ["left", "left_anti", "left_semi"])
def test_texts_of_one_hash_are_no_partners(how):
    one, two = ONE_HASH[0]
    run = Run(how, sj.rows(2), key=pa.string())
    assert run.push("left", ("a", one), ("b", two)) == []
    assert run.right("x", two) == {"left": ["bx"], "left_anti": [], "left_semi": ["b"]}[how]
    assert run.left("c", two) == {"left": ["cx", "a-"], "left_anti": ["a"], "left_semi": ["c"]}[how]
    assert run.stats("matches") == (2,)


# --- The earliest moment: windows of rows ---


def test_rows_when_its_own_side_pushes_it_out():
    run = Run("full", sj.rows(left=2, right=1))
    assert [run.left("a", 1), run.left("b", 2), run.left("c", 3)] == [[], [], ["a-"]]
    assert [run.right("x", 8), run.right("y", 9)] == [[], ["-x"]]
    assert run.finish() == ["b-", "c-", "-y"]


def test_rows_of_the_other_side_push_nothing_out():
    run = Run("left", sj.rows(1))
    assert run.left("a", 1) == []
    assert run.push("right", *[("x", 9)] * 5) == []
    assert run.right("y", 1) == ["ay"]


def test_a_row_leaves_a_window_of_rows_in_the_middle_of_a_batch():
    run = Run("left", sj.rows(1))
    run.left("a", 1)
    mixed = pa.table({"side": [0, 1], "k": [2, 1], "ts": [0, 0], "left": ["b", None], "right": [None, "x"]})
    assert read(run.join.push(arrivals=mixed)) == ["a-"]  # b came first: x is too late for a
    assert run.finish() == ["b-"]


def test_nulls_and_probes_take_a_place_in_a_window_of_rows():
    run = Run("left", sj.rows(2))
    assert run.left("a", 1) == []
    assert run.left("b", None) == ["b-"]
    assert run.left("c", 9, store=False) == ["a-", "c-"]


# --- The earliest moment: within ---


@pytest.mark.parametrize("side", ["left", "right"])
def test_within_at_the_first_arrival_of_either_side_beyond_the_duration(side):
    run = Run("left", sj.within(10, time="ts"))
    assert run.left("a", 1, 0) == []
    assert run.push(side, ("b", 2, 10)) == []
    assert run.push(side, ("c", 3, 11)) == ["a-"]


def test_within_the_arrival_that_is_too_late_for_one_row_may_match_another():
    run = Run("full", sj.within(10, time="ts"))
    run.push("left", ("a", 1, 0), ("b", 1, 1))
    assert run.right("x", 1, 11) == ["bx", "a-"]


def test_within_self_purging_when_the_own_side_moves_on():
    run = Run("full", sj.within(10, time="ts", purge="self"))
    assert [run.left("a", 1, 0), run.right("x", 2, 50), run.left("b", 3, 50)] == [[], [], ["a-"]]
    assert [run.left("c", 2, 61), run.right("y", 9, 61)] == [["cx", "b-"], []]
    assert run.finish() == ["-y"]


def test_within_a_null_timestamp_moves_no_time():
    run = Run("full", sj.within(10, time="ts"))
    run.left("a", 1, 0)
    assert run.right("x", 1, None) == ["-x"]
    assert run.right("y", 1, 10) == ["ay"]


def test_within_a_refused_batch_makes_nothing_final():
    run = Run("left", sj.within(10, time="ts"))
    run.left("a", 1, 0)
    with pytest.raises(sj.OrderError):
        run.push("right", ("x", 2, 50), ("y", 2, 40))
    assert run.right("z", 1, 10) == ["az"]


# --- The earliest moment: interval ---


def test_interval_a_left_row_waits_for_after_and_a_right_row_for_before():
    run = Run("full", event(3, 7))
    run.left("a", 1, 10)
    run.right("x", 2, 10)
    assert [run.advance(to) for to in (13, 14, 17, 18)] == [[], ["-x"], [], ["a-"]]
    assert run.finish() == []


def test_interval_rows_move_the_watermark_and_make_rows_final():
    run = Run("left", event(5, 5, lateness=2))
    assert [run.left("a", 1, 10), run.left("b", 2, 30)] == [[], []]  # the right side holds it back
    assert run.right("x", 9, 17) == []  # watermark 15 = 10 + 5
    assert run.right("y", 9, 18) == ["a-"]


def test_interval_the_slower_side_decides():
    run = Run("left", event(5, 5))
    run.left("a", 1, 10)
    assert run.advance(16, "left") == []
    assert run.advance(15, "right") == []
    assert run.advance(16, "right") == ["a-"]


def test_interval_one_advance_of_both_sides_is_one_step():
    """Left rows come first, though x would have been final before a if one side had moved alone."""
    run = Run("full", event(9, 9, lateness=0))
    run.push("right", ("x", 2, 8), ("y", 3, 20))
    assert run.left("a", 1, 15) == []
    assert run.advance(40) == ["a-", "-x", "-y"]


def test_interval_silence_makes_rows_final_before_the_batch_arrives():
    run = Run("full", event(5, 5, lateness=0, idle_after="10ns"))
    now = 1000
    run.join._clock = lambda: now
    run.join._last_seen = [now] * 2
    run.right("x", 9, 96)
    now += 5
    assert run.push("left", ("a", 1, 100), ("b", 2, 110)) == []  # the watermark is 96
    now += 5
    assert run.push("right") == ["a-", "-x"]  # right is silent for 10, left is not: 110
    assert run.left("c", 2, 116) == ["b-"]


def test_interval_a_row_may_be_final_when_it_arrives():
    """With a negative bound a partner must have come already."""
    run = Run("left", event(5, -3))
    run.push("right", ("x", 1, 9))
    run.advance(11)
    assert run.left("a", 1, 12) == ["ax"]
    assert run.left("b", 2, 13) == ["b-"]  # 13 - 3 = 10
    assert run.left("c", 2, 14) == []
    assert run.stats("stored_left") == (1,)


def test_interval_any_order_of_arrival():
    run = Run("full", event(2, 2, lateness=100))
    assert [run.left("a", 1, 50), run.left("b", 1, 10), run.right("x", 1, 11)] == [[], [], ["bx"]]
    assert run.right("y", 1, 49) == ["ay"]
    assert run.finish() == []


@pytest.mark.parametrize("how", HOWS)
def test_a_late_row_appears_in_no_join_type(how):
    run = Run(how, event(5, 5, late="return"))
    run.advance(10)
    assert [run.left("a", 1, 9), run.right("x", 1, 9), run.left("b", None, 8)] == [[], [], []]
    assert run.left("c", 1, 3, store=False) == []
    assert run.finish() == []
    assert run.stats("late_left", "late_right", "rows_left", "matches") == (3, 1, 0, 0)
    assert run.join.take_late("left")["left"].to_pylist() == ["a", "b", "c"]


# --- Order ---


def test_after_the_pairs_of_an_arrival_come_the_rows_it_made_final_left_first_by_position():
    run = Run("full", sj.within(10, time="ts"))
    run.right("x", 1, 0)
    run.push("left", ("a", 2, 0), ("b", 3, 0))
    run.push("right", ("y", 4, 0), ("z", 5, 5))
    assert run.left("c", 5, 11) == ["cz", "a-", "b-", "-x", "-y"]


def test_rows_that_an_arrival_made_final_precede_the_pairs_of_the_next():
    run = Run("left", sj.rows(2))
    run.push("right", ("x", 1), ("y", 2))
    assert run.push("left", ("a", 9), ("b", 1), ("c", 2), ("d", 1)) == ["bx", "cy", "a-", "dx"]


# --- Keys and times that match nothing ---


@pytest.mark.parametrize(
    ("how", "left", "right"),
    [
        ("inner", [], []),
        ("left", ["a-"], []),
        ("right", [], ["-x"]),
        ("full", ["a-"], ["-x"]),
        ("left_semi", [], []),
        ("left_anti", ["a"], []),
        ("right_semi", [], []),
        ("right_anti", [], ["x"]),
    ],
)
@pytest.mark.parametrize("missing", ["null key", "NaN", "null time"])
def test_a_row_that_can_never_match_is_final_on_arrival(how, left, right, missing):
    row = {"null key": (None, 5), "NaN": (math.nan, 5), "null time": (1.0, None)}[missing]
    run = Run(how, event(5, 5), key=pa.float64())
    assert run.left("a", *row) == left
    assert run.right("x", *row) == right
    assert run.finish() == []
    assert run.stats("null_left", "null_right", "rows_left", "rows_right") == (1, 1, 1, 1)


def test_one_null_of_several_conditions_is_enough():
    on = sj.equal("k") & sj.not_equal("ts")
    join = sj.WindowJoin(on, EVERYTHING, "left", schemas=(batch("left").schema, batch("right").schema))
    assert read(join.push(left=batch("left", ("a", 1, None), ("b", 1, 1)))) == ["a-"]
    assert read(join.push(right=batch("right", ("x", 1, 2)))) == ["bx"]


# --- Rows held back until the other side is known ---


def test_without_the_other_sides_columns_final_rows_wait_and_come_first():
    run = Run("left", sj.rows(2), known=False)
    assert [run.left("a", None), run.left("b", 1), run.left("c", 2)] == [[], [], []]
    assert run.left("d", 3) == []  # b has left the window
    assert run.push("right", ("x", 3), ("y", 9)) == ["a-", "b-", "dx"]
    assert run.finish() == ["c-"]


def test_an_empty_batch_of_the_other_side_is_enough():
    run = Run("full", known=False)
    assert run.right("x", None) == []
    assert run.push("left") == ["-x"]
    assert run.push("left") == []


def test_schemas_given_at_the_start_hold_nothing_back():
    assert Run("left").left("a", None) == ["a-"]


@pytest.mark.parametrize(("side", "other"), [("left", "right"), ("right", "left")])
@pytest.mark.parametrize("full", [False, True])
def test_at_the_end_they_come_with_the_known_sides_columns_alone(side, other, full):
    run = Run("full" if full else side, known=False)
    run.push(side, ("n", None), ("m", 1))
    result = run.join.finish()
    assert result.column_names == ["k", "ts", side]
    assert result[side].to_pylist() == ["n", "m"]
    lone = Run(other, known=False)
    lone.push(side, ("n", None), ("m", 1))
    assert lone.join.finish().num_rows == 0  # rows of this side are not preserved


def test_advance_holds_back_too():
    run = Run("left", event(5, 5), known=False)
    run.left("a", 1, 10)
    assert run.advance(20) == []
    assert run.stats("stored_left", "watermark") == (0, 20)
    assert run.right("x", 1, 25) == ["a-"]


def test_anti_and_semi_joins_need_the_columns_of_their_side_only():
    run = Run("left_anti", sj.rows(1), known=False)
    assert run.push("left", ("a", None), ("b", 1), ("c", 2)) == ["a", "b"]
    assert run.finish() == ["c"]
    semi = Run("left_semi", known=False)
    assert semi.join.push(left=batch("left")).column_names == ["k", "ts", "left"]
    assert semi.left("a", 1) == []
    assert semi.right("x", 1) == ["a"]
    late = Run("right_semi", known=False)
    assert [late.left("a", 1), late.right("x", 1)] == [[], ["x"]]


def test_held_back_rows_keep_their_place_when_the_types_turn_out_wider():
    """The right side's keys are wider than the left side's, so the join is bound anew."""
    join = sj.WindowJoin(sj.equal("k"), sj.rows(2), "left", order="full")
    join.push(left=batch("left", ("a", None, 0), ("b", 1, 0), ("c", 2, 0), ("d", 3, 0), key=pa.int8()))
    assert read(join.push(right=batch("right", ("x", 3, 0), ("y", 300, 0)))) == ["a-", "b-", "dx"]
    join.check()
    assert read(join.finish()) == ["c-"]


# --- The end ---


@pytest.mark.parametrize("how", HOWS)
def test_the_end_comes_once(how):
    run = Run(how, event(5, 5))
    run.left("a", 1, 1)
    run.finish()
    for call in (run.finish, lambda: run.left("b", 1, 1), lambda: run.advance(9)):
        with pytest.raises(sj.UsageError, match="finished"):
            call()
    assert run.stats("stored_left", "stored_right", "rows_left") == (0, 0, 1)


@pytest.mark.parametrize("how", HOWS)
def test_the_end_of_nothing(how):
    assert sj.WindowJoin(sj.equal("k"), 5, how).finish().num_rows == 0
    assert Run(how).finish() == []


def test_the_end_brings_left_rows_first_by_position():
    run = Run("full")
    run.push("right", ("x", 1), ("y", 2))
    run.push("left", ("a", 3), ("b", 4))
    assert run.finish() == ["a-", "b-", "-x", "-y"]


# --- Counters ---


@pytest.mark.parametrize("how", HOWS)
def test_matches_counts_pairs_and_stored_the_rows_that_may_still_meet_one(how):
    run = Run(how)
    run.push("left", ("a", 1), ("b", 1), ("c", 2))
    run.push("right", ("x", 1), ("y", 1), ("z", None))
    counted = run.stats("matches", "rows_left", "rows_right", "null_right", "stored_left", "stored_right")
    assert counted == (4, 3, 3, 1, 3, 2)


# --- Probe-only rows ---


@pytest.mark.parametrize(
    ("how", "met", "alone"),
    [
        ("inner", ["ax"], []),
        ("left", ["ax"], ["b-"]),
        ("right", ["ax"], []),
        ("full", ["ax"], ["b-"]),
        ("left_semi", ["a"], []),
        ("left_anti", [], ["b"]),
        ("right_semi", ["x"], []),
        ("right_anti", [], []),
    ],
)
def test_a_probe_meets_the_stored_rows_and_is_final_at_once(how, met, alone):
    run = Run(how)
    run.right("x", 1)
    assert run.left("a", 1, store=False) == met
    assert run.left("b", 2, store=False) == alone
    assert run.stats("rows_left", "stored_left", "stored_right", "matches") == (2, 0, 1, 1)
    assert run.finish() == []


def test_nobody_sees_a_probe_later():
    run = Run("full")
    assert run.left("a", 1, store=False) == ["a-"]
    assert run.right("x", 1) == []
    assert run.left("b", 1) == ["bx"]
    assert run.right("y", 1, store=False) == ["by"]
    assert run.left("c", 1) == ["cx"]


def test_a_match_with_a_probe_counts_for_the_stored_row():
    run = Run("full", sj.rows(1))
    run.left("a", 1)
    assert run.right("x", 1, store=False) == ["ax"]
    assert run.left("b", 2) == []  # a leaves, and has matched
    assert run.finish() == ["b-"]


def test_probes_of_one_batch_do_not_meet():
    run = Run("full")
    mixed = pa.table({"side": [0, 1], "k": [1, 1], "ts": [0, 0], "left": ["a", None], "right": [None, "x"]})
    assert read(run.join.push(arrivals=mixed, store=False)) == ["a-", "-x"]
    assert run.stats("matches", "stored_left", "stored_right") == (0, 0, 0)


def test_a_probe_moves_time():
    within = Run("left", sj.within(10, time="ts"))
    within.left("a", 1, 0)
    assert within.right("x", 9, 11, store=False) == ["a-"]
    interval = Run("left", event(5, 5, lateness=0))
    interval.left("a", 1, 10)
    interval.right("x", 9, 12, store=False)
    assert interval.left("b", 9, 16, store=False) == ["b-"]
    assert interval.right("y", 9, 15, store=False) == []
    assert interval.right("z", 9, 16, store=False) == ["a-"]
    assert interval.stats("watermark", "stored_left", "stored_right") == (16, 0, 0)


def test_a_probe_may_be_late():
    run = Run("full", event(5, 5, late="return"))
    run.advance(10)
    assert run.left("a", 1, 9, store=False) == []
    assert run.stats("late_left", "rows_left") == (1, 0)
    assert run.join.take_late("left")["left"].to_pylist() == ["a"]


def test_a_probe_before_the_other_side_is_known_is_held_back():
    run = Run("left", known=False)
    assert run.left("a", 1, store=False) == []
    assert run.right("x", 1) == ["a-"]


def test_a_probe_in_a_self_join_meets_the_rows_before_it():
    join = sj.WindowJoin(sj.equal("k"), 5, self_join=True)
    join.push({"k": [1]})
    assert join.push({"k": [1, 1]}, store=False).num_rows == 2  # each with the first, not with each other
    assert join.push({"k": [1]}).num_rows == 1
    assert join.stats["stored_left"] == 2
    join.check()


def test_an_empty_probe_is_an_empty_batch():
    run = Run("full", known=False)
    assert run.push("left", store=False) == []
    assert run.right("x", None) == ["-x"]
