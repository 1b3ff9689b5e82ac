"""Progress without a terminal: plain lines at intervals, and always the last one."""

import io

from rich.console import Console

from slidejoin.demo.progress import RowProgress


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
        "300 rows  0.00 M rows/s  600 matches",
        "600 rows  0.00 M rows/s  1,200 matches",
        "900 rows  0.00 M rows/s  1,800 matches",
        "1,000 rows  0.00 M rows/s  2,000 matches",
    ]


def test_bar_on_a_terminal():
    assert "1,000 rows" in "".join(lines_of(terminal=True))
