"""Two inputs as one sequence of arrivals, and their join: read and joined batch by batch.

- ``within`` and ``interval``: by time. The next batch is read from the side that is behind in time; rows of
  the other side wait, at most one batch of them. Rows of ``within`` must be sorted by time on each side. A
  row of ``interval`` that follows a row with a later timestamp keeps its place, and is late if it is more
  than the lateness behind.
- ``rows``: by the columns that the job names, which must be sorted on each side; otherwise a left row, a
  right row, and so on, and the rest of the longer side follows.

Rows with equal times arrive left ones first. The side that ends first no longer holds the watermark back. The
sequence, and so the result, does not depend on the size of the batches. Memory: the window, two batches
of each side, and the results of one batch; inputs that are sorted here are held whole.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.column_store import empty_table
from slidejoin.errors import CapacityError, OrderError, StateError
from slidejoin.keys import BoundTime, bind, bind_time
from slidejoin.keys.extract import column_type
from slidejoin.live import LiveJoin
from slidejoin.meter import clock
from slidejoin.order import Order, Ready
from slidejoin.run.files import Input
from slidejoin.run.job import Job
from slidejoin.sampling import take

_RESULT_ROWS = 2**20  # of one push, about: many results a row make the next pushes smaller
_FIRST_PUSH, _SMALLEST_PUSH = 4096, 256
_BEFORE_ALL = int(np.iinfo(np.int64).min)
_SORTED_SHARE = 0.25  # of this machine's memory that an input may take to be sorted


class Merge:
    """Both inputs as one sequence of arrivals, and their join.

    Parameters
    ----------
    job : Job
        The inputs and the join.
    join : LiveJoin, optional
        A join to go on with.
    joined : (int, int)
        How many rows of each side it has joined: the first ones of the inputs.
    """

    def __init__(self, job: Job, join: LiveJoin | None = None, joined: Sequence[int] = (0, 0)) -> None:
        if join is None:
            bind(job.spec, job.left.schema, job.right.schema)  # errors name all columns
            join = LiveJoin(job.spec)
            join.fix((job.read[0].schema, job.read[1].schema))
        take(join)  # the rows of an earlier run do not count as throughput
        self.join = join
        self.joined = list(joined)  # rows of each side so far; others were read and wait
        self.read = [0, 0]  # rows of each side so far
        self.is_over = False
        self._job = job
        self._window = job.spec.window
        self._clock = _clock(job)
        self._order = Order(strict=True, show=self._shown)
        for side in (0, 1):
            self._order.add(side, "file")
        self._latest = [_BEFORE_ALL] * 2  # time of each side, in the unit of the clock
        self._is_released = False  # whether a side has ended and does not hold the watermark back

    @property
    def rows(self) -> int:
        """Rows joined so far."""
        return sum(self.joined)

    @property
    def late(self) -> int:
        """Late rows so far."""
        assert self.join.engine is not None
        stats = self.join.engine.native.stats()
        return int(stats["late_left"] + stats["late_right"])

    def results(self, batch: int) -> Iterator[pa.Table]:
        """Read all rows and yield the results. At each, ``joined`` counts the rows joined."""
        readers = [_Reader(self._job, side, batch) for side in (0, 1)]
        for number, reader in enumerate(readers):
            self._skip(number, reader, batch)
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
            if len(ready.sides):  # a push also joins about as many waiting rows of the other side
                wanted = _RESULT_ROWS * len(ready.sides) // max(2 * result.num_rows, 1)
                step = min(max(wanted, _SMALLEST_PUSH), batch)
        self.join.finish()
        self.is_over = True
        yield self.join.collect()

    def _skip(self, side: int, reader: "_Reader", batch: int) -> None:
        """Read the rows that were joined by an earlier run."""
        while self.read[side] < self.joined[side]:
            table = reader.next(min(batch, self.joined[side] - self.read[side]))
            if table is None:
                raise StateError(
                    f"{self._job.inputs[side].name} has fewer rows than the interrupted run has read"
                )
            self._times(side, self.join.sides[side].check(table))
            self.read[side] += table.num_rows

    def _behind(self) -> int | None:
        """The side to read next: the one that the other waits for."""
        open_sides = [source for source in self._order.sources() if source.is_open]
        return min(open_sides, key=lambda source: source.waiting).side if open_sides else None

    def _arrived(self, ready: Ready) -> pa.Table:
        self._order.commit(ready)
        cut, ended = self._end_of_a_side(ready.sides)
        if ended is None:
            self._push(ready.sides, ready.tables)
        else:
            counts = np.bincount(ready.sides[:cut], minlength=2)
            self._push(ready.sides[:cut], {i: table.slice(0, counts[i]) for i, table in ready.tables.items()})
            self.join.idle(ended)
            self._is_released = True
            self._push(ready.sides[cut:], {i: table.slice(counts[i]) for i, table in ready.tables.items()})
        return self.join.collect()

    def _push(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table]) -> None:
        if len(sides):
            begin, meter = clock(), self.join.meter
            self.join.push(sides, {i: table for i, table in tables.items() if table.num_rows})
            now = clock()
            meter.record(now - begin)
            if now >= meter.next_sample:
                take(self.join)
            for side, count in enumerate(np.bincount(sides, minlength=2).tolist()):
                self.joined[side] += count

    def _end_of_a_side(self, sides: NDArray[np.uint8]) -> tuple[int, int | None]:
        """How many of these arrivals come up to the last row of the side that ends first, and this side."""
        if self._is_released or self._window.lateness is None:
            return 0, None
        ended = [source.side for source in self._order.sources() if not (source.is_open or source.waiting)]
        after_last = [(int(np.flatnonzero(sides == side).max(initial=-1)) + 1, side) for side in ended]
        return min(after_last, default=(0, None))

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
        given, before = self._shown(int(times[row])), self._shown(int(latest[row]))
        name = (self._clock.left, self._clock.right)[side]
        both = ",".join(dict.fromkeys((self._clock.left, self._clock.right)))
        interval = ", or use interval(..., lateness=...)" if self._window.uses_time else ""
        raise OrderError(
            f"{self._job.inputs[side].name}, row {self.read[side] + row + 1}: {name!r} is {given} after "
            f"{before}, but each input must be in the order of this column; give --sort-by {both}{interval}"
        )

    def _shown(self, number: int) -> object:
        return number if self._clock is None else self._clock.to_value(number)


class _Reader:
    """The batches of an input, cut to the size of the next push."""

    def __init__(self, job: Job, side: int, batch: int) -> None:
        files = job.read[side]
        self._batches = files.batches(batch)
        if job.sorts:
            assert job.arrive_by is not None
            self._batches = _sorted(files, job.arrive_by[side], batch)
        self._rest: pa.Table | None = None

    def next(self, rows: int) -> pa.Table | None:
        """The next rows, at most ``rows``; None at the end."""
        table = next(self._batches, None) if self._rest is None else self._rest
        if table is None:
            return None
        self._rest = table.slice(rows) if table.num_rows > rows else None
        return table.slice(0, rows)


def _sorted(files: Input, column: str, rows: int) -> Iterator[pa.Table]:
    """The rows in the order of a column, those without a value last; equal ones in the order of the files."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SORTED_SHARE
    parts, size = [empty_table(files.schema)], 0
    for part in files.batches(rows):
        parts.append(part)
        size += part.nbytes
        if size > most:
            raise CapacityError(
                f"{files.name} has more than {most / 1e9:.1f} GB of rows, a quarter of this machine's memory "
                "and the most that --sort-by sorts; sort the files before, or use interval(..., lateness=...)"
            )
    table = pa.concat_tables(parts).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(column, "ascending")])
    for start in range(0, table.num_rows, rows):
        yield table.take(order.slice(start, rows))


def _clock(job: Job) -> BoundTime | None:
    """How the columns that rows arrive by are counted in one unit."""
    if job.arrive_by is None:
        return None
    types = [column_type(job.inputs[side].schema, side, job.arrive_by[side]) for side in (0, 1)]
    return bind_time(job.spec.window, job.arrive_by, types[0], types[1])
