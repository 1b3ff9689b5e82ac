"""Progress without a terminal: plain lines at intervals, and always the last one."""

import contextlib
import io

import pytest
from rich.console import Console

from slidejoin.run.progress import RowProgress


def lines_of(terminal):
    clock = iter(range(1000)).__next__  # a second passes with every look at it
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
    with RowProgress(console, rows=1000, every=3.0, clock=clock) as progress:
        for row in range(100, 1001, 100):
            progress.update(row, matches=2 * row)
    return console.file.getvalue().splitlines()


def test_plain_lines_at_intervals():
    lines = lines_of(terminal=False)
    assert lines == [
        "300 rows  0.00 M rows/s  600 matches  30%, 7 s left",
        "600 rows  0.00 M rows/s  1,200 matches  60%, 4 s left",
        "900 rows  0.00 M rows/s  1,800 matches  90%, 1 s left",
        "1,000 rows  0.00 M rows/s  2,000 matches",
    ]


def test_bar_on_a_terminal():
    assert "1,000 rows" in "".join(lines_of(terminal=True))


def test_notes_stay_and_texts_are_replaced_on_a_terminal():
    for terminal in (False, True):
        console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
        with RowProgress(console, rows=None) as progress:
            progress.show("stage 1")
            progress.note("micro-batch 0", rows=10, matches=3)
            progress.note("micro-batch 1", rows=20, matches=5)
        lines = console.file.getvalue().splitlines()
        if terminal:
            assert any("micro-batch 0" in line for line in lines)
            assert any("20 rows" in line and "5 matches" in line for line in lines)
        else:
            assert lines == ["stage 1", "micro-batch 0", "micro-batch 1"]


@pytest.mark.parametrize("rows", [10, None])
def test_last_rows_are_shown_once(rows):
    console = Console(file=io.StringIO(), width=100)
    with RowProgress(console, rows=rows, clock=lambda: 0.0) as progress:
        for matches in range(3):
            progress.update(10, matches)
    (line,) = console.file.getvalue().splitlines()
    assert line.endswith("2 matches")


def test_a_failed_run_has_no_last_line():
    console = Console(file=io.StringIO(), width=100)
    with contextlib.suppress(OSError), RowProgress(console, rows=10, clock=lambda: 0.0) as progress:
        progress.update(10, matches=1)
        raise OSError
    assert console.file.getvalue() == ""


def test_the_last_line_does_not_show_an_estimate():
    console = Console(file=io.StringIO(), width=100)
    with RowProgress(console, rows=1000, clock=lambda: 0.0) as progress:
        progress.update(900, matches=1)
    assert console.file.getvalue().endswith(" 1 matches\n")
