"""WindowJoin: the join that users write. Tables of arriving rows in, a table of the new matches out."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.engine import Engine
from slidejoin.errors import CapacityError, OrderError, SchemaError, SpecError, UsageError
from slidejoin.keys import BoundSpec, bind
from slidejoin.plan import Explanation, explain
from slidejoin.predicate import Predicate
from slidejoin.result import RowStore, output_schema, result_table
from slidejoin.source import Side, plain_text, rows_of, split_arrivals, to_table
from slidejoin.spec import join_spec
from slidejoin.window import Interval, Window

_SIDES = ("left", "right")
_COUNTERS = (
    "rows_left", "rows_right", "matches", "late_left", "late_right",
    "null_left", "null_right", "stored_left", "stored_right",
)  # fmt: skip


class WindowJoin:
    """Join two streams of rows over a sliding window.

    Rows are pushed in the order of their arrival, a batch at a time. Each row meets the rows of the other
    side that its window lets it see; every match comes out once, with the push of its later row.

    Parameters
    ----------
    on : Predicate
        Condition on columns of both sides: ``sj.band("price", within=0.5)``, ``sj.equal("symbol")`` and
        their like, joined by ``&``.
    window : Window or int
        ``sj.rows(n)``, ``sj.within("10s", time="ts")`` or ``sj.interval(...)``; a number means ``rows``.
    how : str
        Only ``"inner"`` for now.
    index : str
        ``nested-loop``, ``b-tree`` or ``auto``. Decides speed, never results.
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
        side's first batch tells.

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
        how: str = "inner",
        index: str = "auto",
        workers: int = 1,
        order: str = "arrival",
        suffixes: tuple[str, str] = ("", "_right"),
        self_join: bool = False,
        *,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
    ) -> None:
        self.spec = join_spec(on, window, how, index, workers, order, suffixes, self_join)
        self._sides = (Side("left"), Side("right"))
        self._stores: list[RowStore | None] = [None, None]
        self._engine: Engine | None = None
        self._output: pa.Schema | None = None
        self._late: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self._lock = threading.Lock()
        self._closed = ""
        self._unequal = 0  # candidates whose hashes were equal and whose values were not
        self._clock: Callable[[], int] = time.monotonic_ns
        self._last_seen = [self._clock()] * 2
        if schemas is not None:
            for side, schema in zip(self._sides, self._checked(schemas), strict=False):
                side.fix(schema)
            self._engine = self._engine_for({})

    def push(
        self,
        batch: Any = None,
        /,
        *,
        left: Any = None,
        right: Any = None,
        arrivals: Any = None,
        side: str = "side",
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
        with self._turn():
            if arrivals is not None:
                known = (self._sides[0].schema, self._sides[1].schema)
                sides, *parts = split_arrivals(to_table(arrivals, "arrivals"), side, *known)
                tables = {i: self._sides[i].check(part) for i, part in enumerate(parts)}
            else:
                own = 1 if right is not None else 0
                tables = {own: self._sides[own].check(next(iter(given.values())))}
                sides = np.full(tables[own].num_rows, own, np.uint8)
            if not len(sides) and any(self._untyped(i, table) for i, table in tables.items()):
                return self._empty()
            return self._join(sides, tables)

    def advance(self, to: Any, side: str | None = None) -> pa.Table:
        """Promise that no row with a timestamp up to ``to`` comes any more, on one side or on both.

        Moves the watermark of an ``interval`` window. Returns the rows that became final: none in an inner
        join.
        """
        with self._turn():
            engine = self._timed_engine("advance()")
            for i in self._named(side):
                with self._whole():
                    engine.advance(to, i)
                    self._drop(engine)
                self._last_seen[i] = self._clock()
            return self._empty()

    def finish(self) -> pa.Table:
        """End the input. Returns the rows that became final: none in an inner join."""
        with self._turn():
            self._closed = "finished"
            return self._empty()

    def take_late(self, side: str) -> pa.Table:
        """Late rows of a side since the last call, for windows with ``late="return"``."""
        window = self.spec.window
        if not isinstance(window, Interval) or window.late != "return":
            raise UsageError("late rows are not kept; make the window with interval(..., late='return')")
        with self._turn(open_only=False):
            i = self._named(side)[0]
            schema = self._sides[i].schema
            late = list(self._late[i])
            self._late[i].clear()
            if schema is None:
                return pa.table({})
            return pa.concat_tables(late) if late else schema.empty_table()

    @property
    def stats(self) -> dict[str, Any]:
        """Counters: rows, matches, late and null rows, rows that may still match, watermark, bytes."""
        with self._turn(open_only=False):
            return self._stats()

    def explain(self) -> Explanation:
        """Say which conjunct is indexed and by what, which filter, and how much state to expect."""
        with self._turn(open_only=False):
            return explain(
                self.spec, self._engine.plan if self._engine else None, self._stats(), self._closed
            )

    def check(self) -> None:
        """Verify the join's own invariants; StateError where one is broken. Cost: O(window)."""
        with self._turn(open_only=False):
            if self._engine:
                self._engine.check(self._stores)

    def close(self) -> None:
        """Release the rows. The counters stay."""
        with self._turn(open_only=False):
            final = self._stats()
            self._closed = "closed"
            self._final = {**final, "stored_left": 0, "stored_right": 0, "memory_bytes": 0}
            self._engine = None
            self._stores = [None, None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"WindowJoin({self.spec.on!r}, {self.spec.window!r})"

    # --- one batch ---

    def _checked(self, schemas: Any) -> tuple[pa.Schema, ...]:
        if self.spec.self_join and isinstance(schemas, pa.Schema):
            return (schemas,)
        if (
            not isinstance(schemas, tuple | list)
            or len(schemas) != 2
            or not all(isinstance(schema, pa.Schema) for schema in schemas)
        ):
            raise SpecError(f"schemas={schemas!r}; expected two pyarrow schemas, (left, right)")
        return tuple(schemas)

    def _join(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table]) -> pa.Table:
        engine = self._engine_for(tables)
        columns = engine.read(sides, tables)  # raises before anything has changed, as do new stores
        stores = {i: self._store(i, table.schema) for i, table in tables.items()}
        if isinstance(self.spec.window, Interval) and self.spec.window.idle_after is not None:
            self._rest_silent_sides(engine, tables, self.spec.window.idle_after)
        with self._whole():
            return self._accept(engine, sides, tables, stores, engine.push(sides, columns))

    def _accept(
        self,
        engine: Engine,
        sides: NDArray[np.uint8],
        tables: dict[int, pa.Table],
        stores: dict[int, RowStore],
        found: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    ) -> pa.Table:
        """Keep the rows of a batch that the engine has taken, and make the table of its matches."""
        left, right, late = found
        self._engine = engine
        in_time = np.ones(len(sides), bool)
        in_time[late] = False
        for i, table in tables.items():
            self._sides[i].fix(table.schema)
            self._stores[i] = stores[i]
            if not len(late):
                stores[i].append(table)
                continue
            mask = in_time[sides == i]
            stores[i].append(rows_of(table, np.flatnonzero(mask)))
            if isinstance(self.spec.window, Interval) and self.spec.window.late == "return":
                self._late[i].append(rows_of(table, np.flatnonzero(~mask)))
        engine.remember(sides, tables, known=self._known())
        result = self._result(engine, left, right)
        self._drop(engine)
        return result

    def _result(self, engine: Engine, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        stores = self._both(self._stores)
        if stores[0] is None or stores[1] is None:
            return self._empty()
        left, right = self._verified(engine, stores, left, right)
        if self._output is None:
            self._output = output_schema(stores[0].schema, stores[1].schema, self.spec.suffixes)
        return result_table(self._output, stores[0].take(left), stores[1].take(right))

    def _verified(
        self, engine: Engine, stores: Any, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of the candidates, those whose values agree where their hashes do."""
        for key in engine.plan.keys:
            if key.verify is None or not len(left):
                continue
            compare = pc.equal if key.verify == "equal" else pc.not_equal
            a = plain_text(stores[0].take_column(key.left, left), key.common)
            b = plain_text(stores[1].take_column(key.right, right), key.common)
            wanted = compare(a, b).to_numpy()
            if not wanted.all():
                self._unequal += int((~wanted).sum())
                left, right = left[wanted], right[wanted]
        return left, right

    # --- the state around it ---

    def _store(self, side: int, schema: pa.Schema) -> RowStore:
        store = self._stores[side]
        return RowStore(schema) if store is None else store

    def _engine_for(self, tables: dict[int, pa.Table]) -> Engine:
        """The engine for these batches: the one there is, or a new one where a side becomes known."""
        came = [tables[i].schema if i in tables else None for i in range(2)]
        schemas = [c if s.schema is None else s.schema for s, c in zip(self._sides, came, strict=True)]
        left, right = self._both(schemas)
        complete = left is not None and right is not None
        if self._engine is not None and (self._engine.complete or not complete):
            return self._engine
        if complete:
            output_schema(left, right, self.spec.suffixes)  # a clash of names is an error before any row
        bound = self._bound(left, right)
        if self._engine is not None and bound == self._engine.bound:
            return self._engine
        engine = Engine(bound, complete)
        if self._engine is not None:
            engine.replay(self._engine)
        return engine

    def _bound(self, left: pa.Schema | None, right: pa.Schema | None) -> BoundSpec:
        """The spec bound to the columns; those of a side that is not known yet are guessed."""
        if left is not None and right is not None:
            return bind(self.spec, left, right)
        known, side = (right, 1) if left is None else (left, 0)

        def guessed(wide: bool) -> BoundSpec:
            schemas = [known, self._guess(known, side, wide)]
            return bind(self.spec, *(schemas if side == 0 else schemas[::-1]))

        try:
            return guessed(False)
        except (SchemaError, SpecError) as error:
            try:  # what does not fit the types of the one side may fit wider ones of the other
                return guessed(True)
            except (SchemaError, SpecError):
                raise error from None

    def _guess(self, schema: pa.Schema, side: int, wide: bool) -> pa.Schema:
        """The key columns of the side that is not known yet, in the types of the other side's."""
        names = [(c.left, c.right) for c in self.spec.on.conjuncts]
        names += [self.spec.time] if self.spec.time else []
        fields: dict[str, pa.DataType] = {}
        for pair in names:
            if pair[side] not in schema.names:
                names_there = ", ".join(map(repr, schema.names))
                raise SchemaError(f"{_SIDES[side]} has no column {pair[side]!r}; it has {names_there}")
            type_ = schema.field(pair[side]).type
            if wide and pa.types.is_floating(type_):
                type_ = pa.float64()
            elif wide and pa.types.is_integer(type_) and type_ != pa.uint64():
                type_ = pa.int64()
            fields.setdefault(pair[1 - side], type_)
        return pa.schema(list(fields.items()))

    def _untyped(self, side: int, table: pa.Table) -> bool:
        """Whether an empty first batch does not know the types of its columns, as pandas makes them."""
        return self._sides[side].schema is None and any(
            pa.types.is_null(field.type) for field in table.schema
        )

    def _both(self, pair: Any) -> Any:
        return (pair[0], pair[0]) if self.spec.self_join else pair

    def _known(self) -> bool:
        return all(side.schema is not None for side in self._both(self._sides))

    def _rest_silent_sides(self, engine: Engine, tables: dict[int, pa.Table], after: int) -> None:
        now = self._clock()
        for i in range(1 if self.spec.self_join else 2):
            if i in tables and tables[i].num_rows:
                self._last_seen[i] = now
            elif now - self._last_seen[i] >= after:
                with self._whole():
                    engine.idle(i)
                    self._drop(engine)

    def _drop(self, engine: Engine) -> None:
        """Forget the rows that the engine has forgotten, and follow it where it gave new positions."""
        stats = engine.native.stats()
        for i, store in enumerate(self._stores):
            if store is None:
                continue
            moved = engine.native.renumbered(i)
            if len(moved):
                store.append(result_table(store.schema, store.take(moved)))
            store.drop_before(stats[f"first_{_SIDES[i]}"])

    def _stats(self) -> dict[str, Any]:
        if self._closed == "closed":
            return dict(self._final)
        if self._engine is None:
            return {**dict.fromkeys(_COUNTERS, 0), "watermark": None, "memory_bytes": 0}
        native = self._engine.native.stats()
        stats = {name: native[name] for name in _COUNTERS}
        stats["matches"] -= self._unequal
        watermark = native["watermark"]
        bound_time = self._engine.bound.time
        stats["watermark"] = (
            watermark if watermark is None or bound_time is None else bound_time.to_value(watermark)
        )
        stored = sum(store.nbytes for store in self._stores if store is not None)
        stats["memory_bytes"] = native["memory_bytes"] + stored + self._engine.told_bytes
        if self._closed:
            stats["stored_left"] = stats["stored_right"] = 0
        return stats

    def _timed_engine(self, what: str) -> Engine:
        if not isinstance(self.spec.window, Interval):
            raise UsageError(
                f"{what} moves the watermark of an interval window; this join has {self.spec.window}"
            )
        if self._engine is None:
            raise UsageError(f"{what} before the type of time is known; push a batch first, if an empty one")
        return self._engine

    def _named(self, side: str | None) -> tuple[int, ...]:
        if self.spec.self_join:
            return (0,)
        if side is None:
            return (0, 1)
        if side not in _SIDES:
            raise UsageError(f"side={side!r}; expected 'left' or 'right'")
        return (_SIDES.index(side),)

    def _empty(self) -> pa.Table:
        left, right = self._both([side.schema for side in self._sides])
        if left is None or right is None:
            return pa.table({})
        return output_schema(left, right, self.spec.suffixes).empty_table()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What changes the engine and the rows, both or neither: a failure half way ends the join."""
        before, self._closed = self._closed, "unusable since an error in the middle of a call"
        try:
            yield
        except (OrderError, CapacityError, SchemaError):  # the core refused, and has changed nothing
            self._closed = before
            raise
        except BaseException as error:
            self._closed += f": {error!r}"
            raise
        self._closed = before

    @contextmanager
    def _turn(self, open_only: bool = True) -> Iterator[None]:
        """One thread at a time: a second one is told so."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("this join is in use by another thread")
        try:
            if open_only and self._closed:
                raise UsageError(f"the join is {self._closed}; make a new one")
            yield
        finally:
            self._lock.release()
