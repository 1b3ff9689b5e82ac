"""What a join reports to the logger "slidejoin", and how often."""

import logging

import pytest

import slidejoin as sj
from slidejoin import log
from slidejoin.log import EVERY, LOOK, SLOW, JoinLog

INDEX = ("b-tree", "few rows", 0)


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, "slidejoin")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 5

    monkeypatch.setattr(log.time, "monotonic_ns", lambda: Clock.now)
    return Clock


def late_join():
    join = sj.WindowJoin(sj.equal("k"), sj.interval(5, 5, time="ts", lateness=0))
    join.push(left={"k": [1], "ts": [100]})
    join.push(right={"k": [1], "ts": [100]})
    return join


def test_the_first_late_rows_are_reported_and_then_the_count_since(messages, clock):
    join = late_join()
    join.push(left={"k": [1, 1], "ts": [1, 2]})
    assert messages() == [
        (
            "WARNING",
            "2 late rows in the join equal('k'), interval(5, 5, time='ts', lateness=0), how='inner'; "
            "a larger lateness of the window would accept them",
        )
    ]
    clock.now += EVERY - 1
    join.push(arrivals={"side": [0, 1], "k": [1, 1], "ts": [1, 2]})
    assert len(messages()) == 1
    clock.now += 1
    join.push(right={"k": [1], "ts": [1]})
    assert len(messages()) == 2
    assert messages()[1][1].startswith("3 late rows in")
    clock.now += EVERY
    join.push(right={"k": [1], "ts": [1]})
    assert messages()[2][1].startswith("1 late row in")


def test_rows_in_time_are_not_reported(messages):
    join = late_join()
    join.push(left={"k": [1], "ts": [100]})
    assert messages() == []


def test_slow_pushes_are_reported_rarely(messages):
    reports = JoinLog("j")
    reports.pushed(7, SLOW - 1, 0, INDEX)
    assert messages() == []
    reports.pushed(7, SLOW, 10, INDEX)
    reports.pushed(7, SLOW, 11, INDEX)
    reports.pushed(8, 2 * SLOW, 10 + EVERY, INDEX)
    assert messages() == [
        ("WARNING", "a push of 7 rows took 1.0 s in the join j; 1 slow push since the last message"),
        ("WARNING", "a push of 8 rows took 2.0 s in the join j; 2 slow pushes since the last message"),
    ]


def test_a_change_of_the_index_is_reported(messages):
    reports = JoinLog("j")
    reports.pushed(1, 0, 0, INDEX)
    reports.pushed(1, 0, LOOK, ("im-tree", "many matches", 1))
    reports.pushed(1, 0, 2 * LOOK, ("im-tree", "many matches", 1))
    assert messages() == [("INFO", "index im-tree in the join j: many matches")]


def test_a_join_reports_its_slow_pushes_and_looks_at_its_index_now_and_then(messages):
    join = sj.WindowJoin(sj.equal("k"), 5)
    ticks = iter([0, SLOW, 2 * SLOW, 2 * SLOW, 2 * SLOW, 2 * SLOW + 1])
    join._clock = lambda: next(ticks)
    join.push(left={"k": [1, 2]})
    ((level, text),) = messages()
    assert (level, text[:28]) == ("WARNING", "a push of 2 rows took 1.0 s ")
    assert join._live.log.next_look == SLOW + LOOK
    join.push(left={"k": [1]})
    assert join._live.log.next_look == 2 * SLOW + LOOK
    join.push(left={"k": [1]})
    assert join._live.log.next_look == 2 * SLOW + LOOK
    assert len(messages()) == 1


def test_late_rows_are_reported_once_and_not_by_every_advance(monkeypatch):
    join = late_join()
    seen = []
    monkeypatch.setattr(join._live.log, "late", seen.append)
    join.push(left={"k": [1, 1], "ts": [-50, -60]})
    join.advance(10**6)
    join.advance(10**7)
    assert seen == [2]
