"""WindowJoin: the join that users write. Tables of arriving rows in, a table of the new matches out."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.bound_join import BOTH
from slidejoin.errors import SpecError, UsageError
from slidejoin.join_type import How
from slidejoin.keys.extract import SIDES
from slidejoin.live import LiveJoin
from slidejoin.order import SourceInfo
from slidejoin.physical_streams import PhysicalStreams, Source
from slidejoin.plan import Explanation, explain
from slidejoin.predicate import Predicate
from slidejoin.result import together
from slidejoin.snapshot.binary import Data
from slidejoin.snapshot.chunks import Increment
from slidejoin.snapshot.save import FANOUT, SnapshotWriter, restored
from slidejoin.source import split_arrivals, to_table
from slidejoin.spec import JoinSpec, join_spec
from slidejoin.window import Window


class WindowJoin:
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
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` (left rows at their first match),
        ``"left_anti"`` (left rows that left the window without a match), ``"right_semi"`` or
        ``"right_anti"``.
    index : str
        ``auto`` goes by what it sees, and may change while the join runs (:meth:`explain`);
        ``bucket-tree``, ``bi-sort``, ``pim-tree`` and others, with parameters in brackets:
        ``"im-tree(merge_ratio=0.0625)"`` (docs/indexes.md). Decides speed, never results.
    workers : int
        Threads; 1 for now.
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

    def _start(self, live: LiveJoin) -> None:
        self._live = live
        self._sources: PhysicalStreams | None = None
        self._snapshots = SnapshotWriter(live)
        self._lock = threading.Lock()
        self._final: dict[str, Any] | None = None  # the counters of a closed join
        self.note: str | None = None  # what was saved with the snapshot that this join goes on from
        self._clock: Callable[[], int] = time.monotonic_ns
        self._last_seen = [self._clock()] * 2

    @property
    def spec(self) -> JoinSpec:
        """What is joined, checked."""
        return self._live.spec

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
            Rows of one side: anything that speaks Arrow (pyarrow, pandas, Polars, DuckDB results), or a dict
            of columns.
        arrivals
            Rows of both sides in the order of their arrival, over the union of both sides' columns, with a
            column that tells the side: ``"left"``/``"right"`` or 0/1.
        side : str
            Name of that column.
        store : bool
            With False the rows only probe: they meet the stored rows and are not kept for later ones.

        Returns
        -------
        pyarrow.Table
            All left columns, then all right ones. Empty, and without columns, until both sides are known.
        """
        given = {"a batch without a side": batch, "left": left, "right": right, "arrivals": arrivals}
        given = {name: data for name, data in given.items() if data is not None}
        expected = (
            "push(batch)" if self.spec.self_join else "push(left=...), push(right=...) or push(arrivals=...)"
        )
        if len(given) != 1 or (batch is not None) != self.spec.self_join:
            came = " and ".join(given) or "nothing"
            raise UsageError(f"push got {came}; expected {expected}")
        if not isinstance(store, bool | np.bool):
            raise UsageError(f"store={store!r}; expected True or False")
        with self._turn():
            if self._sources is not None:
                raise UsageError("this join has sources, push into them; join.source(side, name) gives one")
            checks = self._live.sides
            if arrivals is not None:
                known = (checks[0].schema, checks[1].schema)
                sides, *parts = split_arrivals(to_table(arrivals, "arrivals"), side, *known)
                tables = {i: checks[i].check(part) for i, part in enumerate(parts)}
            else:
                own = 1 if right is not None else 0
                tables = {own: checks[own].check(next(iter(given.values())))}
                sides = np.full(tables[own].num_rows, own, np.uint8)
            if not len(sides) and any(self._untyped(i, table) for i, table in tables.items()):
                return self._live.empty()
            return self._join(sides, tables, bool(store))

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
        with self._turn():
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

    def advance(self, to: Any, side: str | None = None) -> pa.Table:
        """Promise that no row with a timestamp before ``to`` comes any more, on one side or on both.

        Moves the watermark of an ``interval`` window. Returns the rows that became final.
        """
        with self._turn():
            self._need_watermark("advance()")
            named = self._named(side)
            if self._sources is not None:
                self._sources.refuse_waiting(named, to)
            result = self._live.advance(to, named[0] if len(named) == 1 else BOTH)
            for i in named:
                self._last_seen[i] = self._clock()
            return result

    def finish(self) -> pa.Table:
        """End the input. Returns what was still waiting: rows of sources, unmatched rows of outer joins."""
        with self._turn():
            waiting = self._live.empty()
            if self._sources is not None:
                waiting = self._sources.finish_all(self._join)
            final = self._live.finish()
            return pa.concat_tables([waiting, final]) if waiting.num_rows else final

    def take_late(self, side: str) -> pa.Table:
        """Late rows of a side since the last call, for windows with ``late="return"``."""
        if not self.spec.window.returns_late:
            raise UsageError("late rows are not kept; make the window with interval(..., late='return')")
        if side not in SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        with self._turn(open_only=False):
            return self._live.take_late(self._named(side)[0])

    def snapshot(self, path: str | PathLike[str] | None = None, *, note: str | None = None) -> bytes:
        """All of the join's state, to go on later or elsewhere with :meth:`restore`.

        Parameters
        ----------
        path : path, optional
            Also write it to this file: whole or not at all, and on disk when the call returns. (A process
            that is killed meanwhile may leave a ``.slidejoin-*.tmp`` beside it.)
        note : str, optional
            Anything of yours that belongs to this state, such as how far the input was read; ``join.note``
            of the restored join.

        Returns
        -------
        bytes
            Rows, counters, watermark, sources and what waits in them; no code. Checksums guard it.

        Notes
        -----
        Cost: a copy of the rows held. To save a long window often, see :meth:`snapshot_since`.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
        >>> _ = join.push(left={"id": [1, 2]})
        >>> again = sj.WindowJoin.restore(join.snapshot())
        >>> again.push(right={"id": [2]}).to_pylist()
        [{'id': 2, 'id_right': 2}]
        """
        with self._turn():
            return self._snapshots.whole(self._sources, path, self._noted(note))

    def snapshot_since(
        self,
        token: str | None = None,
        *,
        note: str | None = None,
        fanout: int = FANOUT,
        history: int | None = None,
    ) -> Increment:
        """What a snapshot has that an earlier one had not: new chunks of rows, and which ones are dead.

        Parameters
        ----------
        token : str, optional
            ``token`` of the last increment that was kept; None for the first time, or to begin anew.
        note : str, optional
            As for :meth:`snapshot`.
        fanout : int
            Chunks of about one size before they are written anew as one, 2 at least: with more of them fewer
            bytes are written, and there are more chunks to read back.
        history : int, optional
            How many increments back a token stays known, 1 at least; 1024 unless told. The head names every
            chunk that died since then.

        Returns
        -------
        Increment
            Keep its ``chunks`` by their ids, delete those in ``dead``, replace ``head``. Then
            ``WindowJoin.restore(head, chunks=kept)`` goes on from here.

        Notes
        -----
        Cost: a copy of the rows that are new since the token; small chunks are joined now and then, so that a
        row is written O(log window) times at most. Outer joins add a bit for each row held.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join, kept, token = sj.WindowJoin(sj.equal("id"), sj.rows(10)), {}, None
        >>> for ids in ([1, 2], [3]):
        ...     _ = join.push(left={"id": ids})
        ...     new = join.snapshot_since(token)
        ...     kept.update(new.chunks)
        ...     token, head = new.token, new.head
        >>> sj.WindowJoin.restore(head, chunks=kept).push(right={"id": [2, 3]}).num_rows
        2
        """
        with self._turn():
            if not _is_from(fanout, 2):
                raise UsageError(f"fanout={fanout!r}; expected a number of chunks, 2 at least")
            if history is not None and not _is_from(history, 1):
                raise UsageError(f"history={history!r}; expected a number of increments, 1 at least, or None")
            return self._snapshots.since(self._sources, token, self._noted(note), fanout, history)

    @classmethod
    def restore(
        cls,
        data: Data | str | PathLike[str],
        *,
        chunks: Mapping[str, Data] | None = None,
        index: str | None = None,
    ) -> Self:
        """Go on from a snapshot: the same positions, the same future results.

        Parameters
        ----------
        data : bytes or path
            What :meth:`snapshot` gave, or the file it wrote; or the ``head`` of an increment.
        chunks : mapping of id to bytes, optional
            The chunks that were kept, for a head. Others than the head names are ignored.
        index : str, optional
            Another index than before.

        Raises
        ------
        StateError
            The snapshot is truncated, damaged, or of a newer version.
        """
        read = restored(data, chunks, index)
        join = cls.__new__(cls)
        join._start(read.live)
        join._sources, join._snapshots, join.note = read.sources, read.writer, read.note
        return join

    @property
    def sources(self) -> list[SourceInfo]:
        """The sources in their order: side, name, whether open or idle, the latest time, rows that wait."""
        with self._turn(open_only=False):
            return [] if self._sources is None else self._sources.infos()

    @property
    def stats(self) -> dict[str, Any]:
        """Counters: rows, matches, late and null rows, rows that may still match, watermark, bytes."""
        with self._turn(open_only=False):
            return self._stats()

    @property
    def index(self) -> str | None:
        """The name of the index in use, once the types of the keys are known with the first batch."""
        with self._turn(open_only=False):
            engine = self._live.engine
            return engine.native.index()[0] if engine else None

    def explain(self) -> Explanation:
        """Say what is indexed and by what, what filters, how much state to expect, how its sources stand."""
        with self._turn(open_only=False):
            engine = self._live.engine
            waiting = self._sources.describe() if self._sources else []
            return explain(
                self.spec,
                engine.plan if engine else None,
                self._stats(),
                engine.native.index() if engine else None,
                self._live.ended,
                waiting,
            )

    def check(self) -> None:
        """Verify the join's own invariants; StateError where one is broken. Cost: O(window)."""
        with self._turn(open_only=False):
            if self._live.engine:
                self._live.engine.check(self._live.stores)

    def close(self) -> None:
        """Release the rows. The counters stay."""
        with self._turn(open_only=False):
            final = self._stats()
            self._final = {**final, "stored_left": 0, "stored_right": 0, "memory_bytes": 0}
            self._live = LiveJoin(self.spec)
            self._live.ended = "closed"
            self._sources, self._snapshots = None, SnapshotWriter(self._live)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a join is not pickled or copied; use join.snapshot() and WindowJoin.restore()")

    def __repr__(self) -> str:
        return f"WindowJoin({self.spec.on!r}, {self.spec.window!r})"

    # --- one batch ---

    def _join(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table], store: bool = True) -> pa.Table:
        """Join a batch behind the rows that a silence made final."""
        idle_after = self.spec.window.idle_after
        silent = [] if idle_after is None else self._silent_sides(tables, idle_after)
        if silent:
            self._live.validate(sides, tables)  # their silence counts only if the batch is taken
            if self._live.engine is None:  # nothing came yet
                self._live.push(sides[:0], {i: table.slice(0, 0) for i, table in tables.items()})
        results = [self._live.idle(side) for side in silent]
        results.append(self._live.push(sides, tables, store))
        now = self._clock()
        for i, table in tables.items():
            if table.num_rows:
                self._last_seen[i] = now
        return together(results)

    def _silent_sides(self, tables: dict[int, pa.Table], after: int) -> list[int]:
        now = self._clock()
        sides = range(1 if self.spec.self_join else 2)
        speaking = [i for i, table in tables.items() if table.num_rows]
        return [i for i in sides if i not in speaking and now - self._last_seen[i] >= after]

    def _untyped(self, side: int, table: pa.Table) -> bool:
        """Whether an empty first batch does not know the types of its columns, as pandas makes them."""
        return self._live.sides[side].schema is None and any(
            pa.types.is_null(field.type) for field in table.schema
        )

    # --- sources: what their handles call ---

    def _source_push(self, side: int, name: str, batch: Any) -> pa.Table:
        with self._turn():
            sources = self._opened()
            table = self._live.sides[side].check(batch)
            if not table.num_rows and self._untyped(side, table):
                return self._live.empty()
            after = self.spec.window.idle_after
            return sources.push(side, name, table, self._join, self._clock(), after)

    def _source_finish(self, side: int, name: str) -> pa.Table:
        with self._turn():
            return self._opened().finish(side, name, self._join)

    def _source_idle(self, side: int, name: str) -> pa.Table:
        with self._turn():
            return self._opened().idle(side, name, self._join)

    def _source_open(self, side: int, name: str) -> bool:
        return self._sources is not None and not self._live.ended and self._sources.order.is_open(side, name)

    def _opened(self) -> PhysicalStreams:
        if self._sources is None:
            raise UsageError("this join has no sources; join.source(side, name) opens one")
        return self._sources

    # --- the state around it ---

    @staticmethod
    def _noted(note: str | None) -> str | None:
        if note is not None and not isinstance(note, str):
            raise UsageError(f"note={note!r}; expected a text, such as json.dumps(...) gives")
        return note

    def _stats(self) -> dict[str, Any]:
        if self._final is not None:
            return dict(self._final)
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

    @contextmanager
    def _turn(self, open_only: bool = True) -> Iterator[None]:
        """One thread at a time: a second one is told so."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("this join is in use by another thread")
        try:
            if open_only and self._live.ended:
                raise UsageError(f"the join is {self._live.ended}; make a new one")
            yield
        finally:
            self._lock.release()


def _is_from(number: Any, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


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
