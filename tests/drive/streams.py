"""Sources for the tests of runs, and what a run must give: the result of one push of all rows."""

import threading
import time

import pyarrow as pa

import slidejoin as sj

ON = sj.equal("k") & sj.band("v", within=2)


def rows(count, seed=0, step=1):
    """Rows in the order of time."""
    return [
        {"id": n, "k": (n * 7 + seed) % 3, "v": (n * 13 + seed * 5) % 11, "ts": n * step}
        for n in range(count)
    ]


def merged(left, right):
    """Both sides in the order of (time, side), as arrivals."""
    both = [(row["ts"], 0, row) for row in left] + [(row["ts"], 1, row) for row in right]
    both.sort(key=lambda each: each[:2])
    return [{**row, "side": side} for _, side, row in both]


def pushed(join, arrivals):
    """What one big push gives, and finish."""
    parts = [join.push(arrivals=arrivals)] if arrivals else []
    return sj.concat([*parts, join.finish()]).to_pylist()


def collected(run):
    return sj.concat(run).to_pylist()


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("slidejoin")]


def eventually(condition, seconds=10.0):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


class Closing:
    """An iterator that counts calls of its close()."""

    def __init__(self, items):
        self._items = iter(items)
        self.closed = 0

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)

    def close(self):
        self.closed += 1


def chunked(all_rows, sizes, form=list):
    """Rows in batches of these sizes, repeated; a size of 1 is a single row."""
    place = turn = 0
    while place < len(all_rows):
        size = sizes[turn % len(sizes)]
        part = all_rows[place : place + size]
        yield part[0] if size == 1 else form(part)
        place += size
        turn += 1


def table(part):
    return pa.Table.from_pylist(part)
