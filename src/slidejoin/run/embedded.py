"""The join of two sets of files in this process: read, joined and written batch by batch.

Both inputs are read side by side and merged into one sequence of arrivals:

- ``within`` and ``interval``: by time. The next batch is read from the side that is behind in time; rows of
  the other side wait, at most one batch of them. Rows of ``within`` must be sorted by time on each side. A
  row of ``interval`` that follows a row with a later timestamp keeps its place, and is late if it is more
  than the lateness behind.
- ``rows``: a left row, a right row, and so on; the rest of the longer side follows.

The sequence, and so the result, does not depend on the size of the batches. Memory: the window, two batches
of each side, and the results of one batch.
"""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from slidejoin.errors import OrderError
from slidejoin.keys import BoundTime, bind_time
from slidejoin.keys.extract import column_type
from slidejoin.live import LiveJoin
from slidejoin.order import Order, Ready
from slidejoin.run.files import Input
from slidejoin.run.job import Job, Summary
from slidejoin.run.output import ParquetFiles, published
from slidejoin.run.progress import RowProgress

BATCH = 2**16
_RESULT_ROWS = 2**20  # of one push, about: many results a row make the next pushes smaller
_FIRST_PUSH, _SMALLEST_PUSH = 4096, 256
_BEFORE_ALL = int(np.iinfo(np.int64).min)


def run(job: Job, console: Console, batch: int = BATCH) -> Summary:
    """Join, show progress and publish the result."""
    merge = Merge(job)
    begin = time.perf_counter()
    with published(job.output, job.overwrite) as directory, ParquetFiles(directory) as files:
        counts = [side.known_rows() for side in (job.left, job.right)]
        total = None if None in counts else sum(count or 0 for count in counts)
        with RowProgress(console, total) as progress:
            for table in merge.results(batch):
                files.write(table)
                progress.update(merge.rows, files.rows)
        files.finish(merge.schema)
    stats = merge.join.stats()
    late = stats["late_left"] + stats["late_right"]
    notes = []
    window = job.spec.window
    if window.has_watermark and window.lateness is None:
        notes.append("the window has no lateness, so all rows were kept until the end")
    if late:
        notes.append(f"{late:,} late rows were dropped: they were more than the lateness behind")
    return Summary(
        engine="embedded",
        left_rows=merge.read[0],
        right_rows=merge.read[1],
        result_rows=files.rows,
        files=files.files,
        seconds=time.perf_counter() - begin,
        output=job.output,
        late_rows=late,
        notes=notes,
    )


class Merge:
    """Both inputs as one sequence of arrivals, and their join."""

    def __init__(self, job: Job) -> None:
        self.join = LiveJoin(job.spec)
        self.join.fix((job.left.schema, job.right.schema))
        self.read = [0, 0]  # rows of each side so far
        self._inputs = (job.left, job.right)
        self._window = job.spec.window
        self._clock = _clock(job)
        self._order = Order(strict=True, show=self._shown)
        for side in (0, 1):
            self._order.add(side, "file")
        self._latest = [_BEFORE_ALL] * 2  # time of each side, in the unit of the clock

    @property
    def rows(self) -> int:
        """Rows joined so far; others were read and wait."""
        return self.join.seen

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        assert self.join.output is not None, "both sides are known from the start"
        return self.join.output

    def results(self, batch: int) -> Iterator[pa.Table]:
        """Read all rows and yield the results."""
        readers = [_Reader(side, batch) for side in self._inputs]
        step = min(batch, _FIRST_PUSH)
        while (side := self._behind()) is not None:
            table = readers[side].next(step)
            if table is None:
                ready = self._order.finish(side, "file")
            else:
                checked = self.join.sides[side].check(table)
                ready = self._order.push(side, "file", checked, *self._times(side, checked))
                self.read[side] += table.num_rows
            result = self._arrived(ready)
            yield result
            if (final := self._promise()) is not None:
                yield final
            if len(ready.sides):  # a push also joins about as many waiting rows of the other side
                wanted = _RESULT_ROWS * len(ready.sides) // max(2 * result.num_rows, 1)
                step = min(max(wanted, _SMALLEST_PUSH), batch)
        self.join.finish()
        yield self.join.collect()

    def _behind(self) -> int | None:
        """The side to read next: the one that the other waits for."""
        open_sides = [source for source in self._order.sources() if source.is_open]
        return min(open_sides, key=lambda source: source.waiting).side if open_sides else None

    def _arrived(self, ready: Ready) -> pa.Table:
        if ready.tables:
            self.join.push(ready.sides, ready.tables)
        self._order.commit(ready)
        return self.join.collect()

    def _times(self, side: int, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """What the rows sort by, and which have no time."""
        if self._clock is None:
            first = self.read[side]
            return np.arange(first, first + table.num_rows), None
        times, nulls = self._clock.extract(table, side)
        dated = times if nulls is None else np.where(nulls, _BEFORE_ALL, times)
        latest = np.maximum.accumulate(np.concatenate([[self._latest[side]], dated]))
        if not self._window.has_watermark:
            self._refuse_disorder(side, dated, latest, nulls)
        self._latest[side] = int(latest[-1])
        return latest[1:], nulls

    def _refuse_disorder(
        self,
        side: int,
        times: NDArray[np.int64],
        latest: NDArray[np.int64],
        nulls: NDArray[np.bool_] | None,
    ) -> None:
        drops = times < latest[:-1]
        if nulls is not None:
            drops &= ~nulls
        if not drops.any():
            return
        row = int(drops.argmax())
        assert self._clock is not None
        came, before = self._shown(int(times[row])), self._shown(int(latest[row]))
        raise OrderError(
            f"{self._inputs[side].path}, row {self.read[side] + row}: "
            f"{(self._clock.left, self._clock.right)[side]!r} is {came} after {before}, but within() needs "
            "each input in the order of time; sort it, or use interval(..., lateness=...)"
        )

    def _promise(self) -> pa.Table | None:
        """When one input has ended, advance its watermark with the other side, so that rows expire."""
        if self._window.lateness is None or self._clock is None:
            return None
        ended = [source.side for source in self._order.sources() if not source.is_open]
        if len(ended) != 1 or self._latest[1 - ended[0]] == _BEFORE_ALL:
            return None
        self.join.advance(self._instant(self._latest[1 - ended[0]]), ended[0])
        return self.join.collect()

    def _instant(self, number: int) -> object:
        """A number of the clock as a point in time, also beyond what datetime can hold."""
        assert self._clock is not None
        if self._clock.unit is None:
            return number
        return pa.scalar(number, pa.timestamp(self._clock.unit, getattr(self._clock.type, "tz", None)))

    def _shown(self, number: int) -> object:
        return number if self._clock is None else self._clock.to_value(number)


class _Reader:
    """The batches of an input, cut to the size of the next push."""

    def __init__(self, files: Input, batch: int) -> None:
        self._batches = files.batches(batch)
        self._rest: pa.Table | None = None

    def next(self, rows: int) -> pa.Table | None:
        """The next rows, at most ``rows``; None at the end."""
        table = next(self._batches, None) if self._rest is None else self._rest
        if table is None:
            return None
        self._rest = table.slice(rows) if table.num_rows > rows else None
        return table.slice(0, rows)


def _clock(job: Job) -> BoundTime | None:
    """How the timestamps of both sides are counted in one unit."""
    if job.spec.time is None:
        return None
    schemas = (job.left.schema, job.right.schema)
    types = [column_type(schemas[side], side, job.spec.time[side]) for side in (0, 1)]
    return bind_time(job.spec.window, job.spec.time, types[0], types[1])
