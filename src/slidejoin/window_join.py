"""WindowJoin: the join that users write. Tables of arriving rows in, a table of the new matches out."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Never, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.bound_join import BOTH, Sides
from slidejoin.capacity import require_memory
from slidejoin.chunks import Chunks
from slidejoin.drive import AsyncRun, Run
from slidejoin.drive.options import MAX_DELAY, MAX_ROWS, Stop, run_options
from slidejoin.drive.session import DrivenJoin
from slidejoin.errors import Error, SpecError, UsageError
from slidejoin.explain import Explanation, explain
from slidejoin.join_type import How
from slidejoin.keys.extract import SIDES
from slidejoin.live import LiveJoin
from slidejoin.log import SLOW
from slidejoin.metrics import Labels, metrics_text
from slidejoin.order import SourceInfo
from slidejoin.physical_streams import PhysicalStreams, Source
from slidejoin.predicate import Predicate
from slidejoin.sampling import Reading, read, take
from slidejoin.snapshot.save import SnapshotWriter
from slidejoin.source import Pick, split_arrivals, to_table
from slidejoin.spec import check_spill, check_workers, join_spec, refuse_unknown
from slidejoin.spill import open_spill
from slidejoin.stats import JoinStats
from slidejoin.window import Duration, Window, is_whole

T = TypeVar("T")

CHUNK_ROWS = 2**17  # of a table that push_iter returns


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
        Threads that share the work of a push; can be changed at any time (:attr:`workers`). They help from
        three threads and 2,048 rows a push on, in large windows and with costly conditions from two on
        (docs/guide/threads.md). Decides speed, never results.
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
    max_rows : int or (int, int), optional
        Most rows that are held of each side. A batch that would bring more is a ``CapacityError``, unless
        ``when_full`` says otherwise.
    max_memory : int or str, optional
        Most bytes, such as ``"2GB"``, of the rows that are held, the index, and what a push needs. A batch
        that may need more is a ``CapacityError``.
    max_fanout : int, optional
        Most matches of one arriving row. A batch with a row that has more is a ``CapacityError``.
    when_full : str
        ``"error"``, or ``"drop_oldest"``: beyond ``max_rows`` the row that arrived first is dropped before
        its time, and counted (``stats["dropped_left"]``), as if the window held the last ``max_rows`` rows.
    columns : list of str, optional
        Names of columns of the result, after suffixes, in the order in which they come out; all if None.
        Columns that neither these nor the condition nor the window need are dropped as rows are pushed:
        they are not stored, and batches may have them or not. A name that the result does not have is a
        SchemaError as soon as the columns are known.
    spill : path, optional
        A directory of yours, created if it is missing: the rows are kept in memory-mapped files there, so
        that a window may be larger than memory (docs/memory.md). Linux only. Decides speed and memory, never
        results.

    Notes
    -----
    A ``CapacityError`` applies nothing of its batch, and the join goes on.
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
    >>> near = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(1000), columns=["quote", "trade"])
    >>> _ = near.push(left=pa.table({"trade": [1, 2], "price": [10.0, 20.0], "venue": ["x", "y"]}))
    >>> near.push(right=pa.table({"quote": ["a", "b"], "price": [20.25, 30.0]})).to_pylist()
    [{'quote': 'a', 'trade': 2}]
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
        columns: Sequence[str] | None = None,
        max_rows: int | tuple[int, int] | None = None,
        max_memory: int | str | None = None,
        max_fanout: int | None = None,
        when_full: Literal["error", "drop_oldest"] = "error",
        spill: str | PathLike[str] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, type(self))
        spec = join_spec(
            on,
            window,
            how,
            index,
            workers,
            order,
            suffixes,
            self_join,
            columns,
            max_rows=max_rows,
            max_memory=max_memory,
            max_fanout=max_fanout,
            when_full=when_full,
        )
        self._start(LiveJoin(spec, open_spill(check_spill(spill))))
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
            All left columns, then all right ones, or those of ``columns=``. Empty, and without columns, until
            both sides are known: :func:`slidejoin.concat` makes one table of all results, or give the join
            ``schemas=``.

        Notes
        -----
        The whole result is in memory; :meth:`push_iter` returns it in chunks.
        """
        return self._returned(self._live.collected, self._push, batch, left, right, arrivals, side, store)

    def push_iter(
        self,
        batch: Any = None,
        /,
        *,
        left: Any = None,
        right: Any = None,
        arrivals: Any = None,
        side: str = "side",
        store: bool = True,
        chunk_rows: int = CHUNK_ROWS,
    ) -> Chunks:
        """Let rows arrive, and return their matches in tables of bounded size.

        The same results as :meth:`push`, in the same order, for pushes whose results do not fit into memory:
        rows with very many matches. The batch is accepted or refused by this call. An iterator that is
        closed, dropped, or overtaken by another call of the join has happened as a push; the rest of its
        results is dropped.

        Parameters
        ----------
        batch, left, right, arrivals, side, store
            As for :meth:`push`.
        chunk_rows : int
            Most rows of a table.

        Returns
        -------
        Chunks
            An iterator of tables that are not empty.

        Notes
        -----
        Cost: as :meth:`push`. Memory: some ``chunk_rows``, however many matches there are.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(1000))
        >>> _ = join.push(left={"id": [7] * 250})
        >>> [chunk.num_rows for chunk in join.push_iter(right={"id": [7, 7]}, chunk_rows=200)]
        [200, 50, 200, 50]
        """
        if not is_whole(chunk_rows) or chunk_rows < 1:
            raise UsageError(f"chunk_rows={chunk_rows!r}; expected a number of rows, 1 at least")
        chunks = Chunks(self, int(chunk_rows))
        self._told(self._begin_chunks, chunks, (batch, left, right, arrivals), side, store)
        return chunks

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
        """Late rows of a side since the last call, for windows with ``late="return"``.

        They have all columns of their side that are stored, under their own names (see ``columns``).
        """
        if not self.spec.window.returns_late:
            raise UsageError("late rows are not kept; make the window with interval(..., late='return')")
        if side not in SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        return self._returned(lambda: self._live.late_rows(self._named(side)[0]), open_only=False)

    @property
    def sources(self) -> list[SourceInfo]:
        """The sources in their order, each with its state, its latest time and the rows that wait in it."""
        return self._told(self._infos, open_only=False, counts=True)

    @property
    def stats(self) -> JoinStats:
        """The counters of rows, matches, late, null and stored rows, the watermark, and bytes in use."""
        return self._told(self._stats, open_only=False, counts=True)

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
        return self._told(self._explain, open_only=False, counts=True)

    def metrics(self, format: str = "prometheus", labels: Labels | None = None) -> str:  # noqa: A002
        """The join's figures as text for Prometheus: counters, window, watermark, memory, latency of pushes.

        Parameters
        ----------
        format : str
            ``"prometheus"``, its text format 0.0.4, or ``"openmetrics"``, version 1.0.0.
        labels : dict of str, optional
            Added to every sample, to tell several joins apart. :class:`slidejoin.MetricsCollector` has
            several joins in one text.

        Returns
        -------
        str
            The metrics of docs/watch.md.

        Notes
        -----
        Any thread may call it at any time. It does not wait: while a push runs, the figures are those of the
        last sample, a tenth of a second before the push at most. Cost: below a millisecond.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
        >>> _ = join.push(left={"id": [1, 2]})
        >>> [line for line in join.metrics().splitlines() if line.startswith("slidejoin_stored_rows")]
        ['slidejoin_stored_rows{side="left"} 2', 'slidejoin_stored_rows{side="right"} 0']
        """
        return metrics_text([(labels or {}, self._reading())], format)

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

    def _begin_chunks(self, chunks: Chunks, rows: tuple[Any, Any, Any, Any], side: str, store: bool) -> None:
        self._push(*rows, side, store, limit=chunks.rows)
        self._reader = weakref.ref(chunks)
        self._live.keep_remainder()  # batches may be changed or freed after this call

    def _next_chunk(self, chunks: Chunks) -> pa.Table:
        """The next chunk. An interrupt comes before the assignment that counts it, or after it."""
        if not chunks.is_ready:
            self._told(self._more_chunks, chunks, open_only=False, counts=True)
        table = chunks.ready[chunks.at]
        chunks.at += 1
        return table

    def _more_chunks(self, chunks: Chunks) -> None:
        live = self._live
        if chunks.ended:
            raise UsageError(
                f"{chunks.ended} and dropped its results; iterate to the end before the next call"
            )
        while not chunks.is_ready:
            if self._reader is None or self._reader() is not chunks:
                raise StopIteration
            if live.owed or (live.waiting.held and live.layout is not None):
                result, owed, waiting = live.collected()
                ready = chunks.cut(result)
                chunks.ready, chunks.at, live.owed, live.waiting = ready, 0, owed, waiting
            elif live.remainder is not None:
                live.go_on(chunks.rows)
            else:
                self._reader = None

    def _end_chunks(self, chunks: Chunks) -> None:
        chunks.drop()
        if self._reader is not None and self._reader() is chunks:
            self._told(self._end_reader, "", open_only=False, counts=True)

    def _push(
        self,
        batch: Any,
        left: Any,
        right: Any,
        arrivals: Any,
        side: str,
        store: bool,
        limit: int | None = None,
    ) -> None:
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
            sides, *parts = split_arrivals(to_table(arrivals, "arrivals", self._picked(side)), side, *known)
            tables = {i: checks[i].check(part) for i, part in enumerate(parts)}
            count = len(sides)
        else:
            sides = 1 if right is not None else 0
            data = right if sides else left if batch is None else batch
            tables = {sides: checks[sides].check(data)}
            count = tables[sides].num_rows
        if not count and any(self._untyped(i, table) for i, table in tables.items()):
            return
        self._join(sides, tables, bool(store), limit=limit)

    def _picked(self, side_column: str) -> Pick | None:
        """What is read of interleaved batches; all if there is no ``columns=``."""
        if self.spec.columns is None:
            return None
        left, right = self._live.sides
        return lambda names: [n for n in names if n == side_column or left.stores(n) or right.stores(n)]

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
        limit: int | None = None,
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
        begin, before = self._clock(), self._last_seen.copy()
        if idle_after is not None:
            for i, table in tables.items():
                if table.num_rows:
                    self._last_seen[i] = begin
        try:
            live.push(sides, tables, store, then, limit)
        except Error:
            self._last_seen = before
            raise
        now = self._clock()
        live.meter.record(now - begin)
        if now >= live.meter.next_sample:
            take(live, self._sources)
        engine = live.engine
        if (now - begin >= SLOW or now >= live.log.next_look) and engine is not None:
            rows = sum(table.num_rows for table in tables.values())
            live.log.pushed(rows, now - begin, now, engine.native.index())

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
            [None if side.schema is None else side.schema.names for side in self._live.sides],
            self._live.spill,
        )

    def _close(self) -> None:
        take(self._live)  # the index that was used stays known
        reader = self._reader() if self._reader is not None else None
        if reader is not None and (self._live.remainder is not None or self._live.owed or reader.is_ready):
            reader.drop()
            reader.ended = "the join was closed, which ended this push"
        self._reader = None
        final = self._stats()
        final["stored_left"] = final["stored_right"] = final["memory_bytes"] = final["spilled_bytes"] = 0
        live = LiveJoin(self.spec)
        live.meter = self._live.meter
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
        self._live.sourced = True
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
        if self.spec.limits.max_memory is not None:
            require_memory(self.spec.limits.max_memory, table, self._stats()["memory_bytes"])
        after = self.spec.window.idle_after
        sources.push(side, name, table, self._join, self._clock(), after)

    def _source_finish(self, side: int, name: str) -> pa.Table:
        return self._returned(self._live.collected, lambda: self._opened().finish(side, name, self._join))

    def _source_idle(self, side: int, name: str) -> pa.Table:
        return self._returned(self._live.collected, lambda: self._opened().idle(side, name, self._join))

    def _source_open(self, side: int, name: str) -> bool:
        return self._sources is not None and not self._live.ended and self._sources.order.is_open(side, name)

    def _infos(self) -> list[SourceInfo]:
        return self._sources.infos() if self._sources else []

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

    def _reading(self) -> Reading:
        """The figures, for any thread."""
        live, sources, final = self._live, self._sources, self._final
        return read(live, sources, final)

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
