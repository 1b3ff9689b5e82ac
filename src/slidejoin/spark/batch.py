"""Batch mode: the rows of a partition as sorted runs, each joined with those of the other side.

Rows go to partitions as those of streams do, and meet by the same kernel. They are cut into slices by time,
about as long as the window and of some thousand rows at least, so that a row has few candidates that only its
time rules out; each slice is a run. What a side has beyond ``LIMIT`` bytes waits in files.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.spark import recipe
from slidejoin.spark.arrivals import Arrivals
from slidejoin.spark.files import Folder, LocalFolder
from slidejoin.spark.heads import StoredRun
from slidejoin.spark.live import Live
from slidejoin.spark.meet import Meeting
from slidejoin.spark.output import ROWS
from slidejoin.spark.recipe import Half, Recipe
from slidejoin.spark.runs import checksum

LIMIT = 2**27  # bytes of both sides that wait to be sorted
SLICE = 2**14  # rows of a slice, at least


def run(text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the rows of a task; what ``mapInArrow`` calls."""
    with tempfile.TemporaryDirectory(prefix="slidejoin-", dir=_local_dir()) as directory:
        for table in _BatchTask(recipe.read(text), LocalFolder(directory)).results(batches):
            yield from table.to_batches(max_chunksize=ROWS)


class _BatchTask:
    def __init__(self, plan: Recipe, folder: Folder) -> None:
        self._plan = plan
        self._folder = folder
        self._meeting = Meeting(plan, Counter())
        self._runs: list[tuple[list[Live], list[Live]]] = [([], []) for _ in plan.halves]
        self._files = 0

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        arrivals = Arrivals(self._plan)
        for batch in batches:
            arrivals.add(batch)
            if arrivals.nbytes > LIMIT:
                yield from self._sort(arrivals, spill=True)
                arrivals = Arrivals(self._plan)
        yield from self._sort(arrivals, spill=False)
        for half, (left, right) in zip(self._plan.halves, self._runs, strict=True):
            for one in left:
                for other in right:
                    if self._meeting.overlap(one, other):
                        yield from self._meeting.met(half, one, other)
            for side, runs in enumerate((left, right)):
                if half.type.preserves[side]:
                    for live in runs:
                        rows = np.flatnonzero(~live.bits)
                        for start in range(0, len(rows), ROWS):
                            some = rows[start : start + ROWS]
                            yield self._meeting.unmatched(side, live.rows.table, some)

    def _sort(self, arrivals: Arrivals, spill: bool) -> Iterator[pa.Table]:
        """Make runs of rows; those that match nothing come out where unmatched rows do."""
        for half, sides, runs in zip(self._plan.halves, arrivals.sides(), self._runs, strict=True):
            for side, arrived in enumerate(sides):
                if not len(arrived.table):
                    continue
                columns = half.kernel.columns(arrived.table, side)
                times, null_times = columns[half.kernel.time_at]
                timed = np.arange(len(times)) if null_times is None else np.flatnonzero(~null_times)
                order = timed[np.argsort(times[timed], kind="stable")]
                lost = np.ones(len(times), np.bool_)
                for part in _slices(times[order], self._plan.time.before + self._plan.time.after):
                    rows, table, some = order[part], arrived.table, columns
                    if len(rows) < len(table):
                        some = [(v[rows], None if nulls is None else nulls[rows]) for v, nulls in columns]
                        table = table.take(pa.array(rows))
                    else:  # all rows as they are: a slice is sorted by key anyway
                        rows = np.arange(len(table))
                    sorted_, kept = half.formats[side].sorted(table, some, arrived.plain_hashes(rows))
                    lost[rows[kept]] = False
                    if len(sorted_):
                        live = Live(half.formats[side], self._folder, new_rows=sorted_)
                        runs[side].append(self._spilled(half, side, live) if spill else live)
                if half.type.preserves[side] and lost.any():
                    yield self._meeting.unmatched(side, arrived.table, np.flatnonzero(lost))

    def _spilled(self, half: Half, side: int, live: Live) -> Live:
        content = half.formats[side].content(live.rows)
        self._files += 1
        (least, greatest), middle = live.span, live.rows.middle
        stored = StoredRun(
            f"{self._files}.arrow", checksum(content), content.size, live.count, least, middle, greatest
        )
        self._folder.write({stored.file: content}, sync=False)
        return Live(half.formats[side], self._folder, stored)


def _slices(times: NDArray[np.int64], length: int) -> Iterator[slice]:
    """Ascending times in slices of about a length and enough rows."""
    start = 0
    while start < len(times):
        end = min(int(times[start]) + length, np.iinfo(np.int64).max)
        stop = max(int(np.searchsorted(times, end, side="right")), start + SLICE)
        yield slice(start, min(stop, len(times)))
        start = stop


def _local_dir() -> str | None:
    """Where Spark puts what does not fit in memory; ``None``: the system's temporary directory."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return directory if os.path.isdir(directory) else None
