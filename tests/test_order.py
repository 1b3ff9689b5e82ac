"""Order by example: which rows are ready, what is refused with which message, what is kept and copied."""

import re

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.errors import OrderError, SchemaError, StateError, UsageError
from slidejoin.order import Order, interleave
from slidejoin.physical_streams import Source

LEFT, RIGHT = 0, 1


def rows(times, **columns):
    """A table, its times and its nulls, as a join hands them over."""
    filled = np.array([0 if time is None else time for time in times], np.int64)
    nulls = np.array([time is None for time in times], bool)
    return pa.table({"ts": pa.array(times, pa.int64()), **columns}), filled, nulls if nulls.any() else None


def make(*keys, strict=True, **options):
    order = Order(strict, **options)
    for key in keys:
        order.add(*key)
    return order


def push(order, side, name, times):
    """Push and commit; what came out as (side, ts) in the order of arrival."""
    return accept(order, order.push(side, name, *rows(times)))


def accept(order, ready):
    order.commit(ready)
    left = {side: iter(table["ts"].to_pylist()) for side, table in ready.tables.items()}
    return [(int(side), next(left[side])) for side in ready.sides]


class TestReady:
    def test_one_source_is_never_kept_waiting(self):
        order = make((RIGHT, "a"))
        assert push(order, RIGHT, "a", [1, 1, 2]) == [(1, 1), (1, 1), (1, 2)]

    @pytest.mark.parametrize(
        ("first", "second", "out"),
        [((LEFT, "a"), (LEFT, "b"), True), ((LEFT, "b"), (LEFT, "a"), False),
         ((LEFT, "b"), (RIGHT, "a"), True), ((RIGHT, "a"), (LEFT, "b"), False)],
    )  # fmt: skip
    def test_a_tie_waits_for_the_sources_that_sort_before(self, first, second, out):
        order = make(first, second)
        assert push(order, *first, [5]) == []
        assert len(push(order, *second, [5])) == 1
        waiting = {(info.side, info.name): info.waiting for info in order.sources()}
        assert waiting == {first: int(not out), second: int(out)}

    def test_nulls_sort_with_the_row_before_them(self):
        order = make((LEFT, "a"), (RIGHT, "b"))
        assert push(order, LEFT, "a", [None, 2, None, 4]) == [(0, None)]  # nothing sorts before it
        assert push(order, LEFT, "a", [None]) == []
        assert push(order, RIGHT, "b", [None, 3, None]) == [
            (1, None), (0, 2), (0, None), (1, 3), (1, None),
        ]  # fmt: skip

    def test_nulls_of_several_batches_sort_before_all_times(self):
        order = make((LEFT, "a"), (LEFT, "b"), (RIGHT, "c"))
        push(order, LEFT, "b", [None])
        push(order, LEFT, "b", [None, -5])
        push(order, RIGHT, "c", [-9])
        assert accept(order, order.finish_all()) == [(0, None), (0, None), (1, -9), (0, -5)]

    def test_the_least_time_comes_after_rows_without_one(self):
        least = -(2**63)
        order = make((LEFT, "a"), (LEFT, "b"))
        push(order, LEFT, "a", [least])
        assert push(order, LEFT, "b", [None, least]) == [(0, None), (0, least)]
        assert accept(order, order.finish_all()) == [(0, least)]

    def test_finish_and_idle_release_what_waited(self):
        order = make((LEFT, "a"), (LEFT, "b"), (LEFT, "c"))
        push(order, LEFT, "a", [1, 2])
        push(order, LEFT, "c", [1])
        assert accept(order, order.idle(LEFT, "b")) == [(0, 1), (0, 1)]
        assert accept(order, order.finish(LEFT, "c")) == [(0, 2)]

    def test_a_push_ends_idleness_an_empty_one_does_not(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        order.commit(order.idle(LEFT, "b"))
        push(order, LEFT, "b", [])
        assert push(order, LEFT, "a", [1]) == [(0, 1)]
        push(order, LEFT, "b", [1])
        assert push(order, LEFT, "a", [2]) == [(0, 1)]

    def test_a_late_row_is_ready_at_once_if_not_strict(self):
        order = make((LEFT, "a"), strict=False)
        push(order, LEFT, "a", [5])
        order.add(LEFT, "b")
        assert push(order, LEFT, "a", [6]) == []
        assert push(order, LEFT, "b", [None, 3, 7]) == [(0, None), (0, 3), (0, 6)]
        order.add(LEFT, "c")
        order.add(LEFT, "d")
        assert push(order, LEFT, "c", [5]) == [(0, 5)]  # 6 was handed out
        assert push(order, LEFT, "c", [5]) == [(0, 5)]  # and still is
        assert push(order, LEFT, "c", [6]) == []
        assert order.waiting() == 2

    def test_rows_of_several_sources_are_taken_in_order(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        name = pa.array(["x", "y"])
        order.commit(order.push(LEFT, "a", *rows([1, 3], name=name, kind=name.dictionary_encode())))
        other = pa.array(["p", "q"])
        ready = order.push(LEFT, "b", *rows([0, 2], name=other, kind=other.dictionary_encode()))
        assert ready.tables[0].to_pylist() == [
            {"ts": time, "name": value, "kind": value} for time, value in [(0, "p"), (1, "x"), (2, "q")]
        ]

    def test_more_than_a_take_can_join(self, monkeypatch):
        monkeypatch.setattr(interleave, "_MAX_BYTES", 100)
        order = make((LEFT, "a"), (LEFT, "b"), (LEFT, "c"), (LEFT, "d"))
        random = np.random.default_rng(1)
        for name in "abc":
            push(order, LEFT, name, np.sort(random.integers(0, 50, 40)).tolist())
        times = [time for _, time in accept(order, order.finish_all())]
        assert len(times) == 120
        assert times == sorted(times)

    def test_a_side_with_one_source_is_not_taken(self, monkeypatch):
        monkeypatch.setattr(interleave, "rows_of", None)
        order = make((LEFT, "a"), (RIGHT, "a"))
        push(order, LEFT, "a", [1, 2, 3])
        push(order, LEFT, "a", [4, 5])
        assert push(order, RIGHT, "a", [2, 4]) == [(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (1, 4)]

    def test_waiting_rows_are_those_of_the_push_not_of_the_array(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        times = np.array([1, 2])
        order.commit(order.push(LEFT, "a", pa.table({"ts": times}), times, None))
        times[:] = 9
        assert push(order, LEFT, "b", [1]) == [(0, 1), (0, 1)]
        assert accept(order, order.finish_all()) == [(0, 2)]


class TestRefused:
    def refused(self, order, error, text, call, *arguments):
        before = order.state()
        with pytest.raises(error, match=re.escape(text)):
            call(*arguments)
        assert order.state() == before

    def test_a_time_that_decreases(self):
        order = make((LEFT, "a"))
        text = "source 'a' of left, row 3: time 5 after 7 in the row before; sort the source"
        self.refused(order, OrderError, text, order.push, LEFT, "a", *rows([None, 6, 7, 5, 1]))

    def test_a_time_that_decreases_from_batch_to_batch(self):
        order = make((RIGHT, "b"))
        push(order, RIGHT, "b", [7])
        text = "source 'b' of right, row 0: time 5 after 7 in the batch before; sort the source"
        self.refused(order, OrderError, text, order.push, RIGHT, "b", *rows([5]))
        text = "source 'b' of right, row 1: time 5 after 7 in the row before; sort the source"
        self.refused(order, OrderError, text, order.push, RIGHT, "b", *rows([None, 5]))

    def test_times_as_the_user_writes_them(self):
        order = make((LEFT, "a"), show=lambda time: f"{time} s")
        text = "row 1: time 5 s after 7 s in"
        self.refused(order, OrderError, text, order.push, LEFT, "a", *rows([7, 5]))

    @pytest.mark.parametrize(("time", "shown"), [(4, "time 4"), (None, "without a time")])
    def test_a_row_before_one_handed_out(self, time, shown):
        order = make((LEFT, "a"))
        push(order, LEFT, "a", [5])
        order.add(LEFT, "b")
        text = (
            f"source 'b' of left, row 0: {shown} sorts before time 5 of source 'a' of left, which was joined"
        )
        self.refused(order, OrderError, text, order.push, LEFT, "b", *rows([time, 8]))
        assert push(order, LEFT, "b", [5]) == []

    def test_the_place_handed_out_stays_after_its_source_is_gone(self):
        order = make((LEFT, "a"), (RIGHT, "b"))
        push(order, LEFT, "a", [5])
        order.commit(order.finish(RIGHT, "b"))
        order.commit(order.finish(LEFT, "a"))
        order.add(LEFT, "A")
        text = "source 'A' of left, row 0: time 5 sorts before time 5 of source 'a' of left"
        self.refused(order, OrderError, text, order.push, LEFT, "A", *rows([5]))

    def test_sources_that_are_not_open(self):
        order = make((LEFT, "a"), (RIGHT, "b"))
        text = "source 'b' of left does not exist; add it first, existing ones: source 'a' of left, source"
        self.refused(order, UsageError, text, order.push, LEFT, "b", *rows([1]))
        self.refused(order, UsageError, "exists; use another name", order.add, LEFT, "a")
        order.commit(order.finish(LEFT, "a"))
        text = "source 'a' of left is finished"
        for call in (order.finish, order.idle):
            self.refused(order, UsageError, text, call, LEFT, "a")
        self.refused(order, UsageError, text, order.push, LEFT, "a", *rows([1]))
        text = "source 'a' of left existed and is finished; use another name"
        self.refused(order, UsageError, text, order.add, LEFT, "a")

    def test_what_was_made_ready_before_a_change(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        other = make((LEFT, "a"), (LEFT, "b"))
        text = "before the sources changed; ask for them again"
        ready = order.push(LEFT, "a", *rows([1]))
        self.refused(order, UsageError, text, order.commit, other.push(LEFT, "a", *rows([1])))
        order.commit(ready)
        self.refused(order, UsageError, text, order.commit, ready)
        for change in (lambda: order.add(LEFT, "c"), lambda: order.rescale(2)):
            ready = order.finish_all()
            change()
            self.refused(order, UsageError, text, order.commit, ready)


class TestRescale:
    def test_all_times_are_multiplied(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        assert push(order, LEFT, "b", [None, -3]) == []
        assert push(order, LEFT, "a", [-4, -2]) == [(0, None), (0, -4), (0, -3)]
        order.rescale(1000)
        assert [info.latest for info in order.sources()] == [-2000, -3000]
        with pytest.raises(OrderError, match="time -2001 after -2000 in the batch before"):
            order.push(LEFT, "a", *rows([-2001]))
        assert push(order, LEFT, "b", [-2000, -1999]) == [(0, -2)]
        order.add(LEFT, "c")
        with pytest.raises(OrderError, match="sorts before time -2000 of source 'a'"):
            order.push(LEFT, "c", *rows([-2500]))

    @pytest.mark.parametrize("times", [[2**62], [-(2**62) - 1, 0]])
    def test_no_room(self, times):
        order = make((LEFT, "a"), (LEFT, "b"))
        push(order, LEFT, "a", times)
        before = order.state()
        with pytest.raises(SchemaError, match=f"time {times[0]} of a source does not fit 64 bits"):
            order.rescale(2)
        assert order.state() == before
        order.rescale(1)

    def test_the_frontier_needs_room_too(self):
        order = make((LEFT, "a"))
        push(order, LEFT, "a", [2**62])
        order.commit(order.finish(LEFT, "a"))
        with pytest.raises(SchemaError):
            order.rescale(2)

    def test_only_finer(self):
        with pytest.raises(UsageError, match=r"rescale\(0\); the unit of time only becomes finer"):
            make().rescale(0)


class TestState:
    def test_counts(self):
        order = make((RIGHT, "a"), (LEFT, "b"))
        assert (order.waiting(), order.nbytes) == (0, 0)
        push(order, RIGHT, "a", [1, 2, 3])
        assert (order.waiting(), order.nbytes) == (3, 48)
        order.commit(order.finish(RIGHT, "a"))
        order.commit(order.idle(LEFT, "b"))
        assert order.sources() == [(LEFT, "b", True, True, None, 0), (RIGHT, "a", False, False, 3, 0)]
        assert order.is_open(LEFT, "b")
        assert not order.is_open(RIGHT, "a")
        assert not order.is_open(LEFT, "z")

    def test_nulls_in_front_keep_the_time_of_a_row_that_is_gone(self):
        order = make((LEFT, "a"))
        push(order, LEFT, "a", [5])
        order.add(LEFT, "b")
        assert push(order, LEFT, "a", [None]) == []
        state, tables = order.state()
        again = Order.restore(state, {key: (table, *rows([None])[1:]) for key, table in tables.items()})
        for each in (order, again):
            assert push(each, LEFT, "b", []) == []
            assert push(each, LEFT, "b", [5, 6]) == [(0, None)]

    def test_other_rows_than_were_saved(self):
        order = make((LEFT, "a"), (LEFT, "b"))
        push(order, LEFT, "a", [5])
        with pytest.raises(StateError, match="source 'a' of left has 0 rows waiting, expected 1"):
            Order.restore(order.state()[0], {})


class TestSource:
    def test_delegates(self):
        calls = []

        class Owner:
            def _source_push(self, side, name, batch):
                calls.append(("push", side, name, batch))
                return "pushed"

            def _source_finish(self, side, name):
                calls.append(("finish", side, name))
                return "finished"

            def _source_idle(self, side, name):
                calls.append(("idle", side, name))
                return "idle"

            def _source_open(self, side, name):
                return ("finish", side, name) not in calls

        source = Source(Owner(), RIGHT, "east")
        assert (source.side, source.name, source.is_open) == ("right", "east", True)
        assert repr(source) == "Source('right', 'east')"
        assert [source.push("rows"), source.idle(), source.finish()] == ["pushed", "idle", "finished"]
        assert calls == [("push", 1, "east", "rows"), ("idle", 1, "east"), ("finish", 1, "east")]
        assert not source.is_open
        assert repr(source) == "Source('right', 'east', finished)"
