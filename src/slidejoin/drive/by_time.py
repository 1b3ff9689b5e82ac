"""Two sources merged by time: rows are joined by (time, side, place in the source).

A row waits until the other source can bring no earlier one: until its latest time is not before, or it has
ended or is idle (``order``). So the sequence depends on the rows alone, not on how quick the sources are.
A row of an ``interval`` window that follows a row with a later time of its source keeps its place behind it;
the other windows refuse it with an OrderError. Rows that wait are part of a run's snapshots.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.drive.by_arrival import Arrivals, Ended, Step
from slidejoin.drive.tables import from_text, to_text
from slidejoin.keys import BoundTime, bind_time
from slidejoin.keys.extract import column_type
from slidejoin.order import Order, Ready
from slidejoin.source import Side
from slidejoin.spec import JoinSpec
from slidejoin.window import interval

_NAME = "run"  # of the one source of each side in the order
_BEFORE_ALL = int(np.iinfo(np.int64).min)


class ByTime:
    """The rows of two sources in the order of time.

    Parameters
    ----------
    spec : JoinSpec
        The join.
    columns : (str, str)
        The left and the right column of time.
    checks : list of Side
        The columns of each side, as far as they are known.
    """

    def __init__(self, spec: JoinSpec, columns: tuple[str, str], checks: Sequence[Side]) -> None:
        self._spec, self._columns, self._checks = spec, columns, checks
        self._in_any_order = spec.window.has_watermark
        self._order = Order(strict=not self._in_any_order, show=self._shown)
        for side in (0, 1):
            self._order.add(side, _NAME)
        self._clock: BoundTime | None = None  # when the types of both columns are known
        self._early: list[pa.Table | None] = [None, None]  # what came before that
        self._ended: list[int] = []  # sides whose last rows wait
        self._latest = [_BEFORE_ALL] * 2

    def add(self, arrivals: Arrivals) -> Iterator[Step]:
        """Rows were read; hand out those whose turn it is."""
        for side, table in arrivals.tables.items():
            if self._clock is None:
                before = self._early[side]
                self._early[side] = table if before is None else pa.concat_tables([before, table])
                yield from self._started()
            else:
                yield from self._pushed(side, table)

    def end(self, side: int) -> Iterator[Step]:
        """A source has ended; rows of the other one no longer wait for it."""
        self._ended.append(side)
        if self._clock is None:
            yield from self._started()
        else:
            yield from self._handed(self._order.finish(side, _NAME))

    def idle(self, side: int) -> Iterator[Step]:
        """A source is silent; rows of the other one do not wait for it, not even for its columns."""
        if self._clock is None and any(self.waiting_rows()):
            yield from self._started(anyway=True)
        if self._clock is not None and self._order.is_open(side, _NAME):
            yield from self._handed(self._order.idle(side, _NAME))

    def _started(self, anyway: bool = False) -> Iterator[Step]:
        """Once the columns of time are known, hand out what came before."""
        if not self._binds(anyway) and len(self._ended) < 2:
            return
        early, self._early = self._early, [None, None]
        for side, table in enumerate(early):
            if table is not None:
                yield from self._pushed(side, table)
        for side in list(self._ended):
            if self._order.is_open(side, _NAME):
                yield from self._handed(self._order.finish(side, _NAME))

    def _binds(self, anyway: bool = False) -> bool:
        """Bind the columns of time if their types are known; a side that has ended may have none."""
        types: list[pa.DataType | None] = []
        for side, check in enumerate(self._checks):
            known = check.schema
            types.append(None if known is None else column_type(known, side, self._columns[side]))
        if not anyway and any(each is None and side not in self._ended for side, each in enumerate(types)):
            return False
        left, right = types[0] or types[1], types[1] or types[0]
        if left is None or right is None:
            return False
        window = self._spec.window if self._spec.window.uses_time else interval(0, 0)
        self._clock = bind_time(window, self._columns, left, right)
        return True

    def _pushed(self, side: int, table: pa.Table) -> Iterator[Step]:
        assert self._clock is not None
        if not table.num_rows:
            yield Arrivals(side, {side: table})
            return
        times, nulls = self._clock.extract(table, side)
        if self._in_any_order:
            times, self._latest[side] = _running(times, nulls, self._latest[side])
        yield from self._handed(self._order.push(side, _NAME, table, times, nulls))

    def _handed(self, ready: Ready) -> Iterator[Step]:
        """Hand rows out, and the end of a side right after its last row."""
        self._order.commit(ready)
        sides, tables = ready.sides, ready.tables
        start = 0
        for cut, side in sorted(self._cuts(sides)):
            yield from _part(sides, tables, start, cut)
            start = cut
            self._ended.remove(side)
            yield Ended(side)
        yield from _part(sides, tables, start, len(sides))

    def _cuts(self, sides: NDArray[np.uint8]) -> list[tuple[int, int]]:
        """Where sides end among rows that are handed out: the place behind the last row, and the side."""
        infos = {info.side: info for info in self._order.sources()}
        over = [side for side in self._ended if not infos[side].waiting and not infos[side].is_open]
        return [(int(np.flatnonzero(sides == side).max(initial=-1)) + 1, side) for side in over]

    def _shown(self, number: int) -> object:
        return number if self._clock is None else self._clock.to_value(number)

    # --- snapshots ---

    def waiting(self) -> dict[str, Any]:
        """Rows that wait, and the state of the order, as JSON values."""
        if self._clock is None:
            early = enumerate(self._early)
            return {"rows": {side: to_text(table) for side, table in early if table is not None}}
        state, tables = self._order.state()
        rows = {side: to_text(table) for (side, _), table in tables.items()}
        return {"rows": rows, "order": state, "latest": self._latest}

    def waiting_rows(self) -> list[int]:
        """How many rows of each side wait."""
        early = [0 if table is None else table.num_rows for table in self._early]
        return [info.waiting + early[info.side] for info in self._order.sources()]

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what :meth:`waiting` gave; sources that had ended are open again."""
        tables = {int(side): from_text(text) for side, text in saved["rows"].items()}
        for side, table in tables.items():
            self._checks[side].fix(table.schema)
        if "order" in saved:
            self._binds(anyway=True)
            sources = [{**source, "is_open": True} for source in saved["order"]["sources"]]
            held = {}
            for side, table in tables.items():
                assert self._clock is not None
                times, nulls = self._clock.extract(table, side)
                if self._in_any_order:
                    times, _ = _running(times, nulls, _BEFORE_ALL)  # the first is later than all joined ones
                held[side, _NAME] = (table, times, nulls)
            self._order = Order.restore({**saved["order"], "sources": sources}, held, self._shown)
            self._latest = [int(latest) for latest in saved["latest"]]
        else:
            self._early = [tables.get(side) for side in (0, 1)]


def _running(
    times: NDArray[np.int64], nulls: NDArray[np.bool_] | None, latest: int
) -> tuple[NDArray[np.int64], int]:
    """The latest time up to each row, and up to the last one."""
    dated = times if nulls is None else np.where(nulls, _BEFORE_ALL, times)
    running = np.maximum.accumulate(np.concatenate([[latest], dated]))
    return running[1:], int(running[-1])


def _part(sides: NDArray[np.uint8], tables: dict[int, pa.Table], start: int, stop: int) -> Iterator[Arrivals]:
    if start == stop:
        return
    part = sides[start:stop]
    before = np.bincount(sides[:start], minlength=2)
    counts = np.bincount(part, minlength=2)
    cut = {side: tables[side].slice(before[side], counts[side]) for side in (0, 1) if counts[side]}
    yield Arrivals(next(iter(cut)) if len(cut) == 1 else part, cut)
