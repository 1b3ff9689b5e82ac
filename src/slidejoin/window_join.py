"""WindowJoin: the join that users write. Tables of arriving rows in, a table of the new matches out."""

from collections.abc import Callable, Iterator
from os import PathLike
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.bound_join import BOTH, Sides
from slidejoin.drive import AsyncRun, Run
from slidejoin.drive.options import MAX_DELAY, MAX_ROWS, Stop, run_options
from slidejoin.drive.session import DrivenJoin
from slidejoin.errors import SpecError, UsageError
from slidejoin.explain import Explanation, explain
from slidejoin.join_type import How
from slidejoin.keys.extract import SIDES
from slidejoin.live import LiveJoin
from slidejoin.log import SLOW
from slidejoin.order import SourceInfo
from slidejoin.physical_streams import PhysicalStreams, Source
from slidejoin.predicate import Predicate
from slidejoin.snapshot.save import SnapshotWriter
from slidejoin.source import split_arrivals, to_table
from slidejoin.spec import check_workers, join_spec
from slidejoin.stats import JoinStats
from slidejoin.window import Duration, Window

T = TypeVar("T")


class WindowJoin(DrivenJoin):
    """Join two streams of rows over a sliding window.

    Rows are pushed in the order of their arrival, a batch at a time. Each row meets the rows of the other
    side that its window lets it see; every match comes out once, with the push of its later row. Rows of an
    outer join that found no partner come out once, as soon as none can come any more.

    Parameters
    ----------
    on : Predicate
        Condition on columns of both sides: ``sj.band("price", within=0.5)``, ``sj.equal("symbol")`` and
        their like, joined by ``&``.
    window : Window or int
        ``sj.rows(n)``, ``sj.within("10s", time="ts")`` or ``sj.interval(...)``; a number means ``rows``.
    how : str
        A name of ``slidejoin.How``. ``"inner"`` returns pairs, outer joins such as ``"left"`` also unmatched
        rows. Semi joins such as ``"left_semi"`` return rows of one side at their first match, anti joins such
        as ``"right_anti"`` rows that left the window without a match.
    index : str
        ``auto`` goes by what it sees, and may change while the join runs (:meth:`explain`);
        ``bucket-tree``, ``bi-sort``, ``pim-tree`` and others, with parameters in brackets:
        ``"im-tree(merge_ratio=0.0625)"`` (docs/indexes.md). Decides speed, never results.
    workers : int
        Threads that share the work of a push; can be changed at any time (:attr:`workers`). Worth it from
        some hundred rows a push on. Decides speed, never results.
    order : str
        ``"arrival"``: results of an earlier arrival come first. ``"full"``: those of one arrival also by the
        partner's position, which is the same for every index. ``"none"``: no promise.
    suffixes : (str, str)
        Added to names that both sides have.
    self_join : bool
        One stream plays both sides, pushed by ``push(batch)``.
    schemas : (pyarrow.Schema, pyarrow.Schema), optional
        Columns of both sides, where they are known: errors of types then come at once. Otherwise each
        side's first batch tells; until then, unmatched rows of an outer join wait for the other's columns.

    Notes
    -----
    A refused batch changes nothing. A join is used by one thread at a time. Rows are copied, so batches may
    be changed or freed after a push. Cost per row: O(log window) plus its candidates, plus its matches.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slidejoin as sj
    >>> join = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(1000))
    >>> _ = join.push(left=pa.table({"trade": [1, 2], "price": [10.0, 20.0]}))
    >>> join.push(right=pa.table({"quote": ["a", "b"], "price": [20.25, 30.0]})).to_pylist()
    [{'trade': 2, 'price': 20.0, 'quote': 'a', 'price_right': 20.25}]
    """

    def __init__(
        self,
        on: Predicate,
        window: Window | int,
        how: How = "inner",
        index: str = "auto",
        workers: int = 1,
        order: str = "arrival",
        suffixes: tuple[str, str] = ("", "_right"),
        self_join: bool = False,
        *,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
    ) -> None:
        self._start(LiveJoin(join_spec(on, window, how, index, workers, order, suffixes, self_join)))
        if schemas is not None:
            self._live.fix(_checked_schemas(schemas, self.spec.self_join))

    def push(
        self,
        batch: Any = None,
        /,
        *,
        left: Any = None,
        right: Any = None,
        arrivals: Any = None,
        side: str = "side",
        store: bool = True,
    ) -> pa.Table:
        """Let rows arrive, and return their matches.

        Parameters
        ----------
        batch
            Rows of the one stream of a self-join.
        left, right
            Rows of one side: pyarrow, pandas, Polars or DuckDB tables, anything else that Arrow can read, a
            dict of columns or a list of dicts.
        arrivals
            Rows of both sides in the order of their arrival, over the union of both sides' columns, with a
            column that tells the side: ``"left"``/``"right"`` or 0/1.
        side : str
            Name of that column.
        store : bool
            False for probe-only rows: they look for matches but are not stored.

        Returns
        -------
        pyarrow.Table
            All left columns, then all right ones. Empty, and without columns, until both sides are known:
            :func:`slidejoin.concat` makes one table of all results, or give the join ``schemas=``.
        """
        return self._returned(self._live.collected, self._push, batch, left, right, arrivals, side, store)

    def source(self, side: str, name: str, *, time: str | None = None) -> Source:
        """One of several physical streams of a side: a handle to push into.

        Each source is in the order of time. Rows of all sources are joined in the order of time, side, source
        and place in the source, as soon as no source can bring an earlier one; the result then does not
        depend on how pushes into them interleave. A new name opens a source, whose silence holds the others
        back from then on, until it is finished or declared idle.

        Parameters
        ----------
        side : str
            ``"left"`` or ``"right"``.
        name : str
            Sources of one side with equal timestamps go in the order of their names.
        time : str, optional
            Timestamp column of the side, where the window does not name one: windows of rows.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.equal("id"), sj.within(10, time="ts"))
        >>> a, b = join.source("left", "a"), join.source("left", "b")
        >>> right = join.source("right", "only")
        >>> _ = a.push({"ts": [1, 5], "id": [7, 8]}), right.push({"ts": [2, 6], "id": [7, 9]})
        >>> b.push({"ts": [4], "id": [9]}).to_pylist()  # nothing before 4 can come any more
        [{'ts': 1, 'id': 7, 'ts_right': 2, 'id_right': 7}]
        >>> join.finish().num_rows
        1
        """
        return self._told(self._source, side, name, time)

    def run(
        self,
        batches: Any = None,
        /,
        *,
        left: Any = None,
        right: Any = None,
        merge: str | None = None,
        time: str | tuple[str, str] | None = None,
        max_rows: int = MAX_ROWS,
        max_delay: Duration = MAX_DELAY,
        stop: Stop = None,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: Duration | None = None,
        resume: bool = False,
        finish: bool = True,
    ) -> Run:
        """Drive the join from two iterables, and iterate over the results.

        Each source is read by a thread of its own, so one that blocks does not hold up the other. Rows are
        joined in micro-batches.

        Parameters
        ----------
        batches
            The one source of a self-join.
        left, right : iterable or callable
            Sources: iterables of batches (anything that :meth:`push` takes, but a dict is a row), of single
            rows (dicts), or of :class:`slidejoin.Batch`, which tells an offset. None in between is skipped. A
            callable gets an offset and returns the iterable from there on; the first offset is 0.
        merge : {"arrival", "time"}, optional
            ``"arrival"``: rows are joined in the order in which they are read. ``"time"``: in the order of
            time, left rows first where times are equal; a row waits until the other source has come as far.
            The default is ``"time"`` for ``within`` windows and where ``time=`` is given, ``"arrival"``
            otherwise.
        time : str or (str, str), optional
            Column to merge by, for windows of rows.
        max_rows : int
            A micro-batch is joined when it has so many rows,
        max_delay : str or timedelta
            or when its first row has waited so long.
        stop : Event or callable, optional
            Looked at twenty times a second: once it is set, or returns True, the run ends as by ``Run.stop``.
        snapshot : path, optional
            Write snapshots with the sources' offsets to this file, and one at the end.
        snapshot_every : str, timedelta or int, optional
            Time or rows between two of them; 30 seconds unless given.
        resume : bool
            Go on from the snapshot if the file exists. The sources must be callables.
        finish : bool
            Whether :meth:`finish` is called when both sources have ended.

        Returns
        -------
        Run
            An iterator of tables that are not empty. Its ``stop()`` ends the run gracefully, ``close()`` at
            once; ``offsets`` tells how far each source was joined.

        Notes
        -----
        Cost: about a microsecond for a single row, on top of what the join costs. Memory: two micro-batches
        of each side, and a batch. What a source raises is raised here, behind the results of the rows before
        it, with a note that names the source; the join stays usable. docs/drivers.md has the guarantees.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.band("price", within=0.5), sj.within(10, time="ts"))
        >>> trades = ({"ts": n, "price": float(n)} for n in range(3))
        >>> quotes = [[{"ts": 1, "price": 0.75}], [{"ts": 2, "price": 5.0}]]
        >>> for out in join.run(left=trades, right=quotes):
        ...     print(out.to_pylist())
        [{'ts': 1, 'price': 1.0, 'ts_right': 1, 'price_right': 0.75}]
        """
        options = run_options(
            self.spec, batches, left, right, merge=merge, time=time, max_rows=max_rows, max_delay=max_delay,
            stop=stop, snapshot=snapshot, snapshot_every=snapshot_every, resume=resume, finish=finish,
            takes_async=False,
        )  # fmt: skip
        return Run(self, options)

    def run_async(
        self,
        batches: Any = None,
        /,
        *,
        left: Any = None,
        right: Any = None,
        merge: str | None = None,
        time: str | tuple[str, str] | None = None,
        max_rows: int = MAX_ROWS,
        max_delay: Duration = MAX_DELAY,
        stop: Stop = None,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: Duration | None = None,
        resume: bool = False,
        finish: bool = True,
    ) -> AsyncRun:
        """Drive the join from async iterables, and iterate over the results with ``async for``.

        The parameters are those of :meth:`run`. Sources may be async or plain iterables; plain ones are read
        by threads. The join itself runs in the thread of the event loop: a micro-batch, and a snapshot, hold
        the loop up for as long as they take.

        Examples
        --------
        >>> import asyncio
        >>> import slidejoin as sj
        >>> async def feed():
        ...     for n in range(3):
        ...         yield {"n": n}
        >>> async def main():
        ...     join = sj.WindowJoin(sj.equal("n"), 10)
        ...     return sum([out.num_rows async for out in join.run_async(left=feed(), right=[{"n": 2}])])
        >>> asyncio.run(main())
        1
        """
        options = run_options(
            self.spec, batches, left, right, merge=merge, time=time, max_rows=max_rows, max_delay=max_delay,
            stop=stop, snapshot=snapshot, snapshot_every=snapshot_every, resume=resume, finish=finish,
            takes_async=True,
        )  # fmt: skip
        return AsyncRun(self, options)

    def advance(self, to: Any, side: str | None = None) -> pa.Table:
        """Promise that no row with a timestamp before ``to`` comes any more, on one side or on both.

        Moves the watermark of an ``interval`` window. Returns the rows that became final. The watermark never
        moves back: a ``to`` before an earlier promise, or before what rows have shown, changes nothing.
        """
        return self._returned(self._live.collected, self._advance, to, side)

    def finish(self) -> pa.Table:
        """End the input. Returns what was still waiting: rows of sources, unmatched rows of outer joins."""
        return self._returned(self._live.collected, self._finish, open_only=not self._live.owed)

    def take_late(self, side: str) -> pa.Table:
        """Late rows of a side since the last call, for windows with ``late="return"``."""
        if not self.spec.window.returns_late:
            raise UsageError("late rows are not kept; make the window with interval(..., late='return')")
        if side not in SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        return self._returned(lambda: self._live.late_rows(self._named(side)[0]), open_only=False)

    @property
    def sources(self) -> list[SourceInfo]:
        """The sources in their order: side, name, whether open or idle, the latest time, rows that wait."""
        return self._told(lambda: self._sources.infos() if self._sources else [], open_only=False)

    @property
    def stats(self) -> JoinStats:
        """Counters: rows, matches, late and null rows, rows that may still match, watermark, bytes."""
        return self._told(self._stats, open_only=False)

    @property
    def index(self) -> str | None:
        """The name of the index in use, once the types of the keys are known with the first batch."""
        engine = self._live.engine
        return engine.native.index()[0] if engine else None

    @property
    def workers(self) -> int:
        """Threads that share the work of a push. Can be set while another thread is in a push."""
        return self._live.crew.workers

    @workers.setter
    def workers(self, workers: int) -> None:
        live = self._live
        live.crew.workers = check_workers(workers)
        if live.engine is not None:
            live.engine.native.set_workers(live.crew.workers)

    def explain(self) -> Explanation:
        """Say what is indexed and by what, what filters, how much state to expect, how its sources stand."""
        return self._told(self._explain, open_only=False)

    def check(self) -> None:
        """Verify the join's own invariants; StateError where one is broken. Cost: O(window)."""
        engine = self._live.engine
        if engine is not None:
            self._told(lambda: engine.check(self._live.stores), open_only=False)

    def close(self) -> None:
        """Release the rows, and results that an interrupt kept back. The counters stay."""
        self._told(self._close, open_only=False, settles=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a join is not pickled or copied; use join.snapshot() and WindowJoin.restore()")

    def __repr__(self) -> str:
        return f"WindowJoin({self.spec})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        stats = self.stats
        lines = [
            ("condition", repr(self.spec.on)),
            ("window", repr(self.spec.window)),
            ("how", self.spec.how),
            ("index", self.index or f"{self.spec.index}, not in use yet"),
            ("rows", f"{stats['rows_left']:,} left, {stats['rows_right']:,} right"),
            ("late rows", f"{stats['late_left']:,} left, {stats['late_right']:,} right"),
            ("matches", f"{stats['matches']:,}"),
            ("stored rows", f"{stats['stored_left']:,} left, {stats['stored_right']:,} right"),
            ("watermark", str(stats["watermark"])),
        ]
        return Explanation(lines)._repr_html_()

    # --- one call ---

    def _push(self, batch: Any, left: Any, right: Any, arrivals: Any, side: str, store: bool) -> None:
        live = self._live
        given = (batch is not None) + (left is not None) + (right is not None) + (arrivals is not None)
        if given != 1 or (batch is not None) != live.spec.self_join:
            raise UsageError(self._wrong_push(batch, left, right, arrivals))
        if not isinstance(store, _FLAGS):
            raise UsageError(f"store={store!r}; expected True or False")
        if self._sources is not None:
            raise UsageError("this join has sources, push into them; join.source(side, name) gives one")
        checks = live.sides
        sides: Sides
        if arrivals is not None:
            known = (checks[0].schema, checks[1].schema)
            sides, *parts = split_arrivals(to_table(arrivals, "arrivals"), side, *known)
            tables = {i: checks[i].check(part) for i, part in enumerate(parts)}
            count = len(sides)
        else:
            sides = 1 if right is not None else 0
            data = right if sides else left if batch is None else batch
            tables = {sides: checks[sides].check(data)}
            count = tables[sides].num_rows
        if not count and any(self._untyped(i, table) for i, table in tables.items()):
            return
        self._join(sides, tables, bool(store))

    def _wrong_push(self, *batches: Any) -> str:
        names = ("a batch without a side", "left", "right", "arrivals")
        given = [name for name, batch in zip(names, batches, strict=True) if batch is not None]
        expected = (
            "push(batch)" if self.spec.self_join else "push(left=...), push(right=...) or push(arrivals=...)"
        )
        return f"push got {' and '.join(given) or 'nothing'}; expected {expected}"

    def _join(
        self,
        sides: Sides,
        tables: dict[int, pa.Table],
        store: bool = True,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Join a batch behind the rows that a silence made final."""
        live = self._live
        idle_after = live.spec.window.idle_after
        if idle_after is not None:
            silent = self._silent_sides(tables, idle_after)
            if silent:
                live.validate(sides, tables)  # their silence counts only if the batch is taken
                if live.engine is None:  # nothing came yet
                    live.push(_none(sides), {i: table.slice(0, 0) for i, table in tables.items()})
            for side in silent:
                live.idle(side)
        begin = self._clock()
        live.push(sides, tables, store, then)
        now = self._clock()
        engine = live.engine
        if (now - begin >= SLOW or now >= live.log.next_look) and engine is not None:
            rows = sum(table.num_rows for table in tables.values())
            live.log.pushed(rows, now - begin, now, engine.native.index())
        if idle_after is not None:
            for i, table in tables.items():
                if table.num_rows:
                    self._last_seen[i] = now

    def _advance(self, to: Any, side: str | None) -> None:
        self._need_watermark("advance()")
        named = self._named(side)
        if self._sources is not None:
            self._sources.refuse_waiting(named, to)
        self._live.advance(to, named[0] if len(named) == 1 else BOTH)
        for i in named:
            self._last_seen[i] = self._clock()

    def _finish(self) -> None:
        if self._live.ended:  # an interrupt kept the results of finish() back
            return
        if self._sources is not None:
            self._sources.finish_all(self._join)
        self._live.finish()

    def _explain(self) -> Explanation:
        engine = self._live.engine
        waiting = self._sources.describe() if self._sources else []
        return explain(
            self.spec,
            engine.plan if engine else None,
            self._stats(),
            engine.native.index() if engine else None,
            self._live.ended,
            waiting,
            (self._live.crew.workers, engine.native.strategy()) if engine else None,
        )

    def _close(self) -> None:
        final = self._stats()
        final["stored_left"] = final["stored_right"] = final["memory_bytes"] = 0
        live = LiveJoin(self.spec)
        live.waiting = live.waiting._replace(ended="closed")
        snapshots = SnapshotWriter(live)
        self._final, self._live, self._sources, self._snapshots = final, live, None, snapshots

    def _silent_sides(self, tables: dict[int, pa.Table], after: int) -> list[int]:
        now = self._clock()
        sides = range(1 if self.spec.self_join else 2)
        speaking = [i for i, table in tables.items() if table.num_rows]
        return [i for i in sides if i not in speaking and now - self._last_seen[i] >= after]

    def _untyped(self, side: int, table: pa.Table) -> bool:
        """Whether an empty first batch does not know the types of its columns, as pandas makes them."""
        types = table.schema.types
        return self._live.sides[side].schema is None and (not types or any(map(pa.types.is_null, types)))

    # --- runs: what drive calls ---

    def _arrive(self, sides: Sides, tables: dict[int, pa.Table]) -> Iterator[pa.Table]:
        return iter((self._returned(self._live.collected, self._join, sides, tables),))

    def _rest(self, side: int) -> pa.Table:
        return self._returned(self._live.collected, self._live.idle, side)

    def _wake(self) -> pa.Table:
        return self._returned(self._live.collected, self._live.wake)

    # --- sources: what their handles call ---

    def _source(self, side: str, name: str, time: str | None) -> Source:
        if self.spec.self_join:
            raise UsageError("a self-join has one stream; push its batches in the order of time")
        if side not in SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        if self._sources is None and self._live.seen:
            raise UsageError("rows were pushed without a source; open sources before the first row")
        sources = self._sources or PhysicalStreams(self._live)
        sources.open(SIDES.index(side), name, time, self._clock())
        self._sources = sources
        return Source(self, SIDES.index(side), name)

    def _source_push(self, side: int, name: str, batch: Any) -> pa.Table:
        return self._returned(self._live.collected, self._push_source, side, name, batch)

    def _push_source(self, side: int, name: str, batch: Any) -> None:
        sources = self._opened()
        table = self._live.sides[side].check(batch)
        if not table.num_rows and self._untyped(side, table):
            return
        after = self.spec.window.idle_after
        sources.push(side, name, table, self._join, self._clock(), after)

    def _source_finish(self, side: int, name: str) -> pa.Table:
        return self._returned(self._live.collected, lambda: self._opened().finish(side, name, self._join))

    def _source_idle(self, side: int, name: str) -> pa.Table:
        return self._returned(self._live.collected, lambda: self._opened().idle(side, name, self._join))

    def _source_open(self, side: int, name: str) -> bool:
        return self._sources is not None and not self._live.ended and self._sources.order.is_open(side, name)

    def _opened(self) -> PhysicalStreams:
        if self._sources is None:
            raise UsageError("this join has no sources; join.source(side, name) opens one")
        return self._sources

    # --- the state around it ---

    def _stats(self) -> JoinStats:
        if self._final is not None:
            return self._final.copy()
        stats = self._live.stats()
        if self._sources is not None:
            stats["memory_bytes"] += self._sources.order.nbytes
        return stats

    def _need_watermark(self, what: str) -> None:
        if not self.spec.window.has_watermark:
            raise UsageError(
                f"{what} moves the watermark of an interval window; this join has {self.spec.window}"
            )
        if self._live.engine is None:
            raise UsageError(f"{what} before the type of time is known; push a batch first, if an empty one")

    def _named(self, side: str | None) -> tuple[int, ...]:
        if self.spec.self_join:
            return (0,)
        if side is None:
            return (0, 1)
        if side not in SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        return (SIDES.index(side),)


_FLAGS = (bool, np.bool)


def _none(sides: Sides) -> Sides:
    """The sides of no row."""
    return sides if isinstance(sides, int) else sides[:0]


def _checked_schemas(schemas: Any, self_join: bool) -> tuple[pa.Schema, ...]:
    if self_join and isinstance(schemas, pa.Schema):
        return (schemas,)
    if (
        not isinstance(schemas, tuple | list)
        or len(schemas) != 2
        or not all(isinstance(schema, pa.Schema) for schema in schemas)
    ):
        raise SpecError(f"schemas={schemas!r}; expected two pyarrow schemas, (left, right)")
    return tuple(schemas)
