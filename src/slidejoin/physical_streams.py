"""Physical streams of a join: their rows wait in an Order until their turn, and are joined then.

:class:`Source` is the handle that users push into, :class:`PhysicalStreams` what stands behind all of them.

The order needs timestamps in one unit, which is known for certain only when the timestamp columns of both
sides are. Until then the unit is that of the known one; the order is rescaled when it becomes finer.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError, UsageError
from slidejoin.keys import BoundTime, bind_time
from slidejoin.keys.extract import SIDES, column_type
from slidejoin.live import LiveJoin
from slidejoin.order import Order, Ready, SourceInfo
from slidejoin.window import interval

# Joins rows whose turn has come, and then calls what it is given.
Joining: TypeAlias = Callable[[NDArray[np.uint8], dict[int, pa.Table], bool, Callable[[], None]], None]


class PhysicalStreams:
    """The sources of a join. Nothing changes if the join refuses the rows that are ready."""

    def __init__(self, live: LiveJoin) -> None:
        self._live = live
        self.order = Order(strict=not live.spec.window.has_watermark, show=self._shown)
        # Timestamp columns, where the window names none.
        self.columns: list[str | None] = [None, None]
        self.clock: BoundTime | None = None  # the unit of times, of the columns that are known so far
        self._seen: dict[tuple[int, str], int] = {}  # processing time of the last push

    def open(self, side: int, name: str, time: str | None, now: int) -> None:
        """Open a source, or find the open one of this name. Changes nothing if its times do not fit."""
        if not isinstance(name, str):
            raise UsageError(f"name={name!r}; expected a text")
        window_time = self._live.spec.time
        expected = window_time[side] if window_time else self.columns[side]
        if time is not None and expected not in (None, time):
            raise UsageError(f"time={time!r}; timestamps of {SIDES[side]} are in {expected!r}")
        if time is None and expected is None:
            raise UsageError(
                f"{self._live.spec.window} names no timestamps to order sources by; "
                f"use join.source({SIDES[side]!r}, {name!r}, time='column')"
            )
        columns = [*self.columns]
        columns[side] = time or expected
        self.need(columns)
        clock = self._clock_of(self._schemas(), columns)
        order = self._rescaled(clock)
        if not order.is_open(side, name):
            order = copy(order)  # an interrupt leaves the old one or the new one
            order.add(side, name)
        self.order, self.clock, self.columns = order, clock, columns
        self._seen.setdefault((side, name), now)

    def need(self, columns: Sequence[str | None]) -> None:
        """Store these timestamp columns, also if results do not have them."""
        for side, column in enumerate(columns):
            if column is not None:
                self._live.need(side, column, "join.source() takes its timestamps")

    def push(
        self, side: int, name: str, table: pa.Table, join: Joining, now: int, idle_after: int | None
    ) -> None:
        """Deliver rows of a source, and join what became ready."""
        self._validate(side, table)
        schemas = self._schemas()
        schemas[side] = schemas[side] or table.schema
        clock = self._clock_of(schemas, self.columns)
        assert clock is not None
        times, nulls = clock.extract(table, side)
        silent = [] if idle_after is None else self._silent(now, idle_after, (side, name))
        order = self._rescaled(clock)
        if silent:  # nothing is released for a batch that is refused
            order.check(side, name, times, nulls)
            for key in silent:
                self._commit(self.order, self.clock, self.order.idle(*key), join)
            order = self._rescaled(clock)
        ready = order.push(side, name, table, times, nulls)
        self._commit(order, clock, ready, join, {side: table.slice(0, 0)})
        if len(table):
            self._seen[side, name] = now

    def _rescaled(self, clock: BoundTime | None) -> Order:
        """The order with times in the unit of a clock; a new one, so that a refused batch changes nothing."""
        if clock is None or clock == self.clock:
            return self.order
        order = copy(self.order)
        order.rescale(1 if self.clock is None else clock.ticks_in(self.clock), clock.to_value)
        return order

    def _validate(self, side: int, table: pa.Table) -> None:
        """Raise now what the join would raise when it is the rows' turn; what waits may meet new types."""
        self._live.validate(side, {side: table})
        engine = self._live.engine_for({side: table})
        if engine is not self._live.engine:
            for i, rows in self.order.waiting_tables():
                engine.read(i, {i: rows})

    def finish(self, side: int, name: str, join: Joining) -> None:
        """End a source, and join what waited for it alone."""
        self._commit(self.order, self.clock, self.order.finish(side, name), join)

    def idle(self, side: int, name: str, join: Joining) -> None:
        """Do not wait for a source until its next row."""
        self._commit(self.order, self.clock, self.order.idle(side, name), join)

    def finish_all(self, join: Joining) -> None:
        """End all sources, and join what waits."""
        self._commit(self.order, self.clock, self.order.finish_all(), join)

    def refuse_waiting(self, sides: tuple[int, ...], to: Any) -> None:
        """Raise UsageError if a promise would make rows late that wait here."""
        if self.clock is None:
            return
        number = self.clock.to_number(to)
        for side in sides:
            waiting = self.order.waiting_before(side, number)
            if waiting:
                raise UsageError(
                    f"{waiting} rows of {SIDES[side]} before {to} wait for other sources and would become "
                    "late; finish those sources or declare them idle first"
                )

    def infos(self) -> list[SourceInfo]:
        """What is known of each source."""
        return [
            info._replace(
                side=SIDES[info.side], latest=None if info.latest is None else self._shown(info.latest)
            )
            for info in self.order.sources()
        ]

    def describe(self) -> list[tuple[str, str]]:
        """A line about each source, for explain()."""
        lines = []
        for info in self.infos():
            state = "finished" if not info.is_open else "idle" if info.is_idle else "open"
            latest = "no row yet" if info.latest is None else f"up to {info.latest}"
            text = f"{info.name!r} of {info.side}: {state}, {latest}, {info.waiting} rows wait"
            lines.append(("source", text))
        return lines

    def restore(self, state: dict[str, Any], waiting: dict[tuple[int, str], pa.Table]) -> None:
        """Go on from the state of the order and the rows that waited."""
        clock = self._clock_of(self._schemas(), self.columns)
        held = {}
        for (side, name), table in waiting.items():
            assert clock is not None
            held[side, name] = (table, *clock.extract(table, side))
        if state["strict"] is self._live.spec.window.has_watermark:
            raise StateError("the order of sources is of another window")
        self.order = Order.restore(state, held, self._shown)
        self.clock = clock

    # --- what is ready ---

    def _commit(
        self,
        order: Order,
        clock: BoundTime | None,
        ready: Ready,
        join: Joining,
        known: dict[int, pa.Table] | None = None,
    ) -> None:
        """Join the rows that are ready; once they are, the order goes on behind them."""
        after = order.committed(ready)

        def then() -> None:
            self.order, self.clock = after, clock

        tables = {**(known or {}), **ready.tables}
        if tables:
            join(ready.sides, tables, True, then)
        else:
            then()

    def _silent(self, now: int, after: int, speaking: tuple[int, str]) -> list[tuple[int, str]]:
        """Streams that brought nothing for so long; after a restore the time starts anew."""
        return [
            key
            for key in self.order.holding()
            if now - self._seen.setdefault(key, now) >= after and key != speaking
        ]

    # --- time ---

    def _schemas(self) -> list[pa.Schema | None]:
        return [side.schema for side in self._live.sides]

    def _clock_of(self, schemas: list[pa.Schema | None], columns: list[str | None]) -> BoundTime | None:
        """The timestamp columns that are known, in the unit of the join; ``None`` if there are none."""
        names = self._live.spec.time or columns
        known = [
            (name, column_type(schema, side, name))
            for side, (name, schema) in enumerate(zip(names, schemas, strict=True))
            if name is not None and schema is not None
        ]
        if not known:
            return None
        (left, left_type), (right, right_type) = known[0], known[-1]
        window = self._live.spec.window
        if not window.uses_time:  # it has no duration, so any will do
            window = interval(0, 0)
        return bind_time(window, (left, right), left_type, right_type)

    def _shown(self, number: int) -> object:
        return number if self.clock is None else self.clock.to_value(number)


class _Owner(Protocol):
    """The join behind a handle."""

    def _source_push(self, side: int, name: str, batch: Any) -> pa.Table: ...
    def _source_finish(self, side: int, name: str) -> pa.Table: ...
    def _source_idle(self, side: int, name: str) -> pa.Table: ...
    def _source_open(self, side: int, name: str) -> bool: ...


class Source:
    """One physical stream of a side: rows in the order of time, joined when their turn comes.

    Made by :meth:`WindowJoin.source`. A row waits until no open source can bring one that sorts before it by
    (time, side, name of the source), so the matches and their order do not depend on which source is quick.
    Every call returns the matches of all rows, also of other sources, whose turn came with it.

    Notes
    -----
    Cost: O(sources) for a call, and as much at most for each row, on top of what the join costs. Rows are
    kept while they wait: a source that stays silent makes all others wait, until it is idle or finished.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slidejoin as sj
    >>> join = sj.WindowJoin(sj.equal("id"), sj.within(10, time="ts"))
    >>> north, south = join.source("left", "north"), join.source("left", "south")
    >>> east = join.source("right", "east")
    >>> _ = north.push(pa.table({"id": [1], "ts": [3]}))
    >>> _ = south.push(pa.table({"id": [2], "ts": [5]}))
    >>> east.push(pa.table({"id": [1], "ts": [4]})).num_rows  # north may bring a time up to 4 yet
    0
    >>> north.finish().to_pylist()
    [{'id': 1, 'ts': 3, 'id_right': 1, 'ts_right': 4}]
    """

    def __init__(self, owner: _Owner, side: int, name: str) -> None:
        self._owner = owner
        self._side = side
        self._name = name

    @property
    def side(self) -> str:
        """``"left"`` or ``"right"``."""
        return SIDES[self._side]

    @property
    def name(self) -> str:
        """What it is called among the sources of its side, and sorted by where times are equal."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Whether rows may still be pushed."""
        return self._owner._source_open(self._side, self._name)

    def push(self, batch: Any) -> pa.Table:
        """Deliver the next rows, in the order of time; return the matches of the rows whose turn came.

        Parameters
        ----------
        batch : object
            Rows as for :meth:`WindowJoin.push`. A time smaller than one before it is an OrderError, and
            changes nothing.
        """
        return self._owner._source_push(self._side, self._name, batch)

    def finish(self) -> pa.Table:
        """End this source: nothing waits for it any more. Return the matches of what waited for it alone."""
        return self._owner._source_finish(self._side, self._name)

    def idle(self) -> pa.Table:
        """Do not wait for this source until its next row; return the matches of what waited for it alone.

        With ``within`` and ``rows`` windows a row that comes back too late is then an OrderError.
        """
        return self._owner._source_idle(self._side, self._name)

    def __repr__(self) -> str:
        return f"Source({self.side!r}, {self._name!r}{'' if self.is_open else ', finished'})"
