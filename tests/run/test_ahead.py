"""Threads ahead of and behind the join: order, bounds, errors, and an end that leaves no thread."""

import threading
import time

import pytest

from slidejoin.run.ahead import Behind, in_threads


def threads_end(before):
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    return threading.active_count() <= before


def test_results_come_in_order():
    def slow(number):
        time.sleep(0.002 * (number % 3))
        return number

    before = threading.active_count()
    tasks = (lambda number=number: slow(number) for number in range(50))
    assert list(in_threads(tasks, 4)) == list(range(50))
    assert threads_end(before)


def test_results_that_wait_are_bounded_and_an_abandoned_reader_ends():
    before, started = threading.active_count(), []
    results = in_threads((lambda number=number: started.append(number) for number in range(1000)), 2)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 6
    results.close()
    assert threads_end(before)


def test_an_error_comes_after_the_results_before_it():
    def fail():
        raise ValueError("third")

    for tasks in ([lambda: 1, lambda: 2, fail, fail], "12"):
        seen = []
        with pytest.raises((ValueError, TypeError)):
            seen += [seen.append(result) for result in in_threads(iter(tasks), 2)]
        assert seen == ([1, 2] if tasks != "12" else [])


def test_an_error_of_the_iterator_is_raised():
    def tasks():
        yield lambda: 1
        raise OSError("the disk is gone")

    results = in_threads(tasks(), 2)
    assert next(results) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


def test_a_writer_behind_keeps_the_order_and_its_error_is_raised():
    seen, before = [], threading.active_count()

    def write(value):
        time.sleep(0.001)
        if value == 7:
            raise OSError("full")
        seen.append(value)

    def put_all():
        with Behind(write, room=2) as behind:
            for value in range(100):
                behind.put(value)
            behind.wait()

    with pytest.raises(OSError, match="full"):
        put_all()
    assert seen == list(range(7))
    assert threads_end(before)


def test_a_writer_behind_has_written_all_after_waiting():
    seen = []
    with Behind(seen.append) as behind:
        for value in range(20):
            behind.put(value)
        behind.wait()
        assert seen == list(range(20))
