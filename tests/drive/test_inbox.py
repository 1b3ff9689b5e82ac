"""When a micro-batch is due, by a clock that the test sets; order and room of the inbox."""

import pyarrow as pa

from slidejoin.drive.inbox import ROOM, Inbox
from slidejoin.drive.items import UNMARKED, Chunk

MS = 1_000_000


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def make(max_rows=4, max_delay=5 * MS):
    clock, woken = Clock(), []
    return Inbox(max_rows, max_delay, clock, lambda: woken.append(clock.now)), clock, woken


def chunk(rows):
    return Chunk(pa.table({"x": list(range(rows))}), UNMARKED)


def test_a_batch_is_due_when_its_first_row_has_waited_max_delay():
    inbox, clock, _ = make()
    assert inbox.due_at() is None
    clock.now = 10 * MS
    inbox.put(0, {"x": 1})
    clock.now = 13 * MS
    inbox.put(1, {"x": 2})
    assert inbox.due_at() == 15 * MS


def test_a_batch_is_due_at_once_when_it_has_max_rows():
    inbox, clock, _ = make(max_rows=3)
    clock.now = 10 * MS
    for n in range(3):
        assert inbox.due_at() != 10 * MS
        inbox.put(n % 2, {"x": n})
    assert inbox.due_at() == 10 * MS


def test_rows_that_are_left_over_are_due_by_their_own_first_row():
    inbox, clock, _ = make(max_rows=2)
    inbox.put(0, {"x": 0})
    inbox.put(0, {"x": 1})
    clock.now = 4 * MS
    inbox.put(0, {"x": 2})
    assert [item["x"] for _, item, _ in inbox.take().entries] == [0, 1]
    assert inbox.due_at() == 9 * MS


def test_the_end_of_a_source_is_due_at_once_and_only_until_it_is_taken():
    inbox, clock, _ = make()
    inbox.put(0, {"x": 0})
    inbox.end(1, None)
    assert inbox.due_at() == 0
    inbox.take()
    clock.now = 20 * MS
    inbox.put(0, {"x": 1})
    assert inbox.due_at() == 25 * MS


def test_the_order_of_arrival_over_both_sides_is_kept_and_batches_are_not_split():
    inbox, _, _ = make(max_rows=4)
    inbox.put(1, {"x": 0})
    inbox.put_chunk(0, chunk(5))
    inbox.put(1, {"x": 1})
    assert [side for side, _, _ in inbox.take().entries] == [1, 0]
    assert [side for side, _, _ in inbox.take().entries] == [1]
    assert inbox.take().entries == []


def test_the_consumer_is_woken_by_the_first_row_and_then_by_a_full_batch_only():
    inbox, _, woken = make(max_rows=3)
    inbox.expect()
    inbox.put(0, {})
    assert len(woken) == 1
    inbox.put(0, {})
    assert len(woken) == 1
    inbox.take()
    inbox.put(0, {})
    inbox.expect()  # something is there already
    inbox.put(0, {})
    assert len(woken) == 1
    inbox.put(0, {})
    assert len(woken) == 2
    inbox.end(1, None)
    assert len(woken) == 3


def test_single_rows_behind_a_batch_are_taken_as_such():
    inbox, _, _ = make(max_rows=4)
    inbox.put(0, {})
    inbox.put_chunk(1, chunk(1))
    assert not inbox.take().is_plain
    inbox.put(0, {})
    inbox.put(1, {})
    assert inbox.take() == ([(0, {}, 0), (1, {}, 0)], True)


def test_a_side_has_no_room_until_its_rows_were_joined_and_the_other_side_has():
    inbox, _, _ = make(max_rows=2)
    assert [inbox.put(0, {}) for _ in range(ROOM * 2)] == [True] * (ROOM * 2 - 1) + [False]
    assert inbox.put(1, {})
    called = []
    assert not inbox.has_room(0, lambda: called.append(0))
    inbox.take()
    inbox.make_room((0, 0))
    assert not called  # taken, but waiting in the merge
    inbox.make_room((2, 0))
    assert called == [0]
    inbox.make_room((4, 1))
    assert called == [0]


def test_closing_lets_a_side_that_waits_for_room_go_on():
    inbox, _, _ = make(max_rows=1)
    inbox.put_chunk(0, chunk(9))
    called = []
    assert not inbox.has_room(0, lambda: called.append(0))
    inbox.close()
    assert called == [0]
    assert inbox.has_room(0, lambda: None)


def test_a_reader_that_ends_because_the_inbox_was_closed_is_not_the_end_of_its_source():
    inbox, _, _ = make()
    inbox.close()
    inbox.end(0, None)
    assert inbox.take().entries == []
