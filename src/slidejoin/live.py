"""The running join: an engine, the rows of both sides, and what its join type makes of them.

Batches that were read by ``source`` go in, tables of results come out. A batch is validated whole before
anything changes; an interrupt leaves the state before a call or the state after it (``progress``).
:class:`slidejoin.WindowJoin` is the face in front of it.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.bound_join import BOTH, BoundJoin, Part, Parts, Sides
from slidejoin.capacity import require_capacity
from slidejoin.column_store import empty_table, nulls
from slidejoin.columns import Layout, alone, layout, sides_of
from slidejoin.errors import CapacityError, Error, SchemaError, SpecError
from slidejoin.keys import BoundSpec, bind
from slidejoin.keys.types import finer
from slidejoin.log import JoinLog
from slidejoin.meter import Meter
from slidejoin.native import read_state, scaled_state
from slidejoin.progress import Owed, Remainder, Step, Trim, Waiting
from slidejoin.result import RowStore, matched_rows, result_table
from slidejoin.source import plain_text, rows_of
from slidejoin.spec import JoinSpec
from slidejoin.stats import COUNTERS, JoinStats

# Matches of a push that are listed together: beyond some MB of positions, a larger part is no faster.
PORTION = 2**20


class LiveJoin:
    """A join under way. Results of its calls are owed until :meth:`collect` hands them over."""

    def __init__(self, spec: JoinSpec, spill: _core.NativeSpill | None = None) -> None:
        self.spec = spec
        self.spill = spill  # where the rows are, if not in memory
        self.step: Step | None = None  # a call of the engine under way
        self.trim: Trim | None = None  # of a step whose rows were not trimmed yet
        self.owed: Owed = ()
        self.remainder: Remainder | None = None  # of a push that is not complete
        self.sourced = False  # whether rows come from physical streams
        self.waiting = Waiting()
        self.log = JoinLog(spec)
        self.meter = Meter()
        self.sides = sides_of(spec)
        self.stores: list[RowStore | None] = [None, None]
        self.engine: BoundJoin | None = None
        self._only = spec.join_type.only
        self.crew = _core.NativeCrew(spec.workers)
        self.outcome = _core.NativeOutcome(spec.join_type.preserves, -1 if self._only is None else self._only)
        self._layout: Layout | None = None
        self._empty: pa.Table | None = None
        self._complete = False

    # --- what happens to it ---

    def fix(self, schemas: tuple[pa.Schema, ...]) -> None:
        """Make the columns known before the first batch."""
        for side, schema in zip(self.sides, schemas, strict=False):
            side.declare(schema)
        self.engine = self.engine_for({})

    def need(self, side: int, column: str, origin: str) -> None:
        """Store a column of a side that has no row yet, also if results do not have it."""
        if self.spec.columns is None:
            return
        schema = self.sides[side].need(column, origin)
        if schema is not None:
            self.sides[side].schema, self.stores[side], self._layout = schema, None, None

    def validate(self, sides: Sides, tables: dict[int, pa.Table]) -> None:
        """Raise what :meth:`push` raises for bad values and types. Changes nothing."""
        engine = self.engine_for(tables)
        parts = self._parts(tables)
        columns = engine.read(sides, tables, parts)
        self._require_capacity(engine, Remainder(sides, tables, columns, True, None), parts)

    def push(
        self,
        sides: Sides,
        tables: dict[int, pa.Table],
        store: bool = True,
        then: Callable[[], None] | None = None,
        limit: int | None = None,
    ) -> None:
        """Join a batch of checked tables, in the order that ``sides`` tells.

        Parameters
        ----------
        sides : array of uint8 or int
            The side of each row; a number where all rows are of one side.
        then : callable, optional
            Called when the batch has been taken, even if an interrupt ends this call before. Calling it twice
            must do no harm.
        limit : int, optional
            Stop when so many results are owed, or a few more; :meth:`go_on` does the rest. All unless given.
        """
        engine, parts = self.engine_for(tables), self._parts(tables)
        columns = engine.read(sides, tables, parts)  # raises before anything has changed, as do the parts
        rows = Remainder(sides, tables, columns, store, then)
        self._require_capacity(engine, rows, parts)
        self._push(engine, rows, parts, limit or PORTION)
        if limit is None:
            self.drain()

    def go_on(self, limit: int | None = None) -> None:
        """Join more of what is left of a push: about ``limit`` further results become owed."""
        rows, engine, limit = self.remainder, self._running(), limit or PORTION
        assert rows is not None, "the caller has seen to it"
        if rows.listing:
            step = Step(engine, engine.native.calls, {}, rows)
            self._run(step, engine.native.list_more, limit)
        else:
            self._push(engine, rows, self._parts(rows.tables), limit)

    def drain(self) -> None:
        """Join all that is left of a push."""
        while self.remainder is not None:
            self.go_on()

    def abandon(self) -> None:
        """Join all that is left of a push, and drop its results, those that are owed among them."""
        if self.remainder is not None:
            self.remainder = self.remainder._replace(wanted=False)
        self.owed = ()
        self.drain()

    def keep_remainder(self) -> None:
        """Copy what is left of a push: it reads the caller's memory no longer."""
        if self.remainder is not None and self.remainder.size:
            self.remainder = self.remainder.copy()

    def _require_capacity(self, engine: BoundJoin, rows: Remainder, parts: Parts) -> None:
        limits = self.spec.limits
        if limits:
            growth = sum(part.store.growth(part.batch) for part in parts.values())
            # Rows of sources were in memory before, and were checked when they came.
            memory = None if self.sourced else self.stats()["memory_bytes"] + growth
            require_capacity(limits, engine, rows, memory)

    def _push(self, engine: BoundJoin, rows: Remainder, parts: Parts, limit: int) -> None:
        step = Step(engine, engine.native.calls, parts, rows)
        self._run(step, engine.push, rows.sides, rows.columns, rows.store, limit)

    def advance(self, to: Any, side: int) -> None:
        """Promise that no row before a time comes any more on a side, or on ``BOTH``."""
        engine = self._running()
        time = engine.bound.time
        assert time is not None
        if not self.complete:  # the side to come may have finer times: keep the promise exactly
            engine = self.engine_for({}, time.unit_for(to))
        self._run(_call_of(engine), engine.advance, to, side)

    def idle(self, side: int) -> None:
        """Let a side no longer hold the watermark back."""
        engine = self._running()
        self._run(_call_of(engine), engine.native.idle, side)

    def wake(self) -> None:
        """Let sides that were idle hold the watermark back again, where it stands now."""
        engine = self._running()
        watermark = engine.native.stats()["watermark"]
        if watermark is not None:
            self._run(_call_of(engine), engine.native.advance, watermark, BOTH)

    def finish(self) -> None:
        """The rows that still wait for a partner become owed. Nothing comes any more."""
        owed, waiting = self._results(*self.outcome.finish())
        if waiting.held and self.output is None:  # the other side never came
            rows = pa.concat_tables(waiting.held)
            rows = rows.select(alone(self.spec, waiting.held_side, rows.schema))
            owed, waiting = (*owed, rows), waiting._replace(held=())
        # A result is owed even if it is empty: finish() can be repeated until it is returned.
        owed, waiting = owed or (self.empty(),), waiting._replace(ended="finished")
        self.owed, self.waiting = owed, waiting

    def settle(self) -> None:
        """Complete what an interrupt left undone. Cost: nothing, as a rule."""
        try:
            if self.step is not None:
                if self.step.happened:
                    self._follow(self.step)
                else:
                    self.step = None
            if self.trim is not None:
                self._trim(*self.trim)
        except (MemoryError, CapacityError) as error:
            what = "memory" if isinstance(error, MemoryError) else "room in files"
            raise CapacityError(
                f"{what} ran out after the rows were joined ({error}); nothing is lost: free memory, and "
                "their results come first in the next one"
            ) from error

    def collected(self) -> tuple[pa.Table, Owed, Waiting]:
        """The owed results as one table, and what is owed and waits once it is returned. Changes nothing."""
        results, waiting, chosen = self.owed, self.waiting, self.layout
        if waiting.held and chosen is not None:  # rows that were held back until the columns were known
            rows, other = pa.concat_tables(waiting.held), self.sides[1 - waiting.held_side].schema
            absent = [nulls(len(rows), field.type) for field in other or ()]
            parts = (absent, rows.columns) if waiting.held_side else (rows.columns, absent)
            results = (_side_by_side(chosen, *parts), *results)
            waiting = waiting._replace(held=())
        if not results:
            return self.empty(), (), waiting
        return results[0] if len(results) == 1 else pa.concat_tables(results), (), waiting

    def collect(self) -> pa.Table:
        """Hand over the owed results."""
        result, self.owed, self.waiting = self.collected()
        return result

    def late_rows(self, side: int) -> tuple[pa.Table, Owed, Waiting]:
        """The late rows of a side since the last time, and what is owed and waits once they are returned."""
        late, schema = self.waiting.late, self.sides[side].schema
        if schema is None:
            return pa.table({}), self.owed, self.waiting
        rows = pa.concat_tables(late[side]) if late[side] else schema.empty_table()
        waiting = self.waiting._replace(late=((), late[1]) if side == 0 else (late[0], ()))
        return rows, self.owed, waiting

    # --- what can be asked of it ---

    @property
    def seen(self) -> int:
        """How many rows came, late ones too."""
        stats = self.stats()
        return stats["rows_left"] + stats["rows_right"] + stats["late_left"] + stats["late_right"]

    @property
    def positions(self) -> list[tuple[int, int]]:
        """The positions that each side holds: the first, and the next to come."""
        return [(0, 0) if store is None else (store.first, store.next) for store in self.stores]

    @property
    def complete(self) -> bool:
        """Whether the columns of both sides are known."""
        if not self._complete:
            self._complete = all(side.schema is not None for side in self._both(self.sides))
        return self._complete

    @property
    def output(self) -> pa.Schema | None:
        """The columns of results, once they are known."""
        chosen = self.layout
        return None if chosen is None else chosen.schema

    @property
    def layout(self) -> Layout | None:
        """How results are made of the columns of both stores, once these are known."""
        if self._layout is None:
            schemas = [side.schema for side in self._both(self.sides)]
            if all(schemas[side] is not None for side in self.spec.join_type.sides):
                self._layout = self._columns(*schemas)
        return self._layout

    def empty(self) -> pa.Table:
        """A result without rows; without columns until they are known."""
        if self._empty is None:
            if self.output is None:
                return pa.table({})
            self._empty = empty_table(self.output)
        return self._empty

    @property
    def ended(self) -> str:
        """Why it takes no more batches, or empty."""
        return self.waiting.ended

    def stats(self) -> JoinStats:
        """The counters of ``WindowJoin.stats``."""
        native = {} if self.engine is None else self.engine.native.stats()
        watermark, memory = native.get("watermark"), native.get("memory_bytes", 0)
        if watermark is not None and self.engine is not None and self.engine.bound.time is not None:
            watermark = self.engine.bound.time.to_value(watermark)
        stores = [store for store in self.stores if store is not None]
        memory += sum(store.nbytes for store in stores)
        spilled = sum(store.spilled for store in stores)
        tables = (*self.owed, *self.waiting.late[0], *self.waiting.late[1], *self.waiting.held)
        # Nothing comes between the look at the step and the reading: a thread that watches may ask, too.
        flags = self.outcome.memory_bytes if self.step is None else 0
        memory += sum(table.nbytes for table in tables) + flags
        counters = {name: native.get(name, 0) for name in COUNTERS}
        sizes = {"memory_bytes": memory, "spilled_bytes": spilled}
        stats = cast("JoinStats", {**counters, "watermark": watermark, **sizes})
        if self.ended:
            stats["stored_left"] = stats["stored_right"] = 0
        return stats

    # --- one call of the engine ---

    def _parts(self, tables: dict[int, pa.Table]) -> Parts:
        """The rows of a batch as the stores of their sides will take them; SchemaError if one cannot."""
        parts = {}
        for i, table in tables.items():
            store = self.stores[i]
            if store is None:
                store = RowStore(table.schema, crew=self.crew, spill=self.spill)
            parts[i] = Part(table, store, store.next, store.batch(table), store.extended(table))
        return parts

    def _run(self, step: Step, call: Callable[..., None], *arguments: Any) -> None:
        """Call the engine and follow it. A call that it refuses changes nothing."""
        self.step = step
        try:
            call(*arguments)
        except Error:
            self.step = None
            raise
        self.settle()

    def _follow(self, step: Step) -> None:
        """Store the rows of a step that happened, and owe its results. Can be repeated until then."""
        native = step.engine.native
        if self.engine is not step.engine:
            native.set_workers(self.crew.workers)  # which may have changed since the engine was made
        self.engine = step.engine
        left, right, late_rows, candidates, positions, taken, more = native.record
        late, rows, remainder = self.waiting.late, step.rows, None
        if rows is not None and not rows.listing:
            remainder = rows.after(taken, more)
            if remainder is not None and remainder.size:
                rows = rows.first(taken)
        elif rows is not None:
            remainder, late_rows = rows.after(0, more), None
        for i, part in step.parts.items():
            table, store, first, batch, others = part
            if self.stores[i] is None:
                self.sides[i].fix(table.schema)
                self.stores[i] = store
            assert rows is not None, "a step with parts has rows"
            is_stored = store.next != first  # by a call that was interrupted
            if rows is not step.rows and not is_stored:  # only some rows were taken
                table = rows.tables[i]
                batch, others = store.batch(table), store.extended(table)
            if late_rows is not None:
                table = rows.tables[i]
                in_time = np.ones(rows.size, bool)
                in_time[late_rows] = False
                mask = in_time if isinstance(rows.sides, int) else in_time[rows.sides == i]
                if self.spec.window.returns_late and not mask.all():  # a copy, also of a whole table
                    added = (*late[i], rows_of(table, np.flatnonzero(~mask), rising=False))
                    late = (late[0], added) if i else (added, late[1])
                if not is_stored:
                    store.append(rows_of(table, np.flatnonzero(mask)))
            elif not is_stored:
                store.add(table.num_rows, batch, others)
        if candidates:
            native.resolve(self._verified(step.engine, left, right))
            left, right, *_ = native.record
        wanted = rows is None or rows.wanted
        owed, waiting = self._results(left, right) if wanted else (self.owed, self.waiting)
        if late is not waiting.late:
            waiting = waiting._replace(late=late)
        then = rows.then if rows is not None and remainder is None else None
        trim = None if more else (positions, then)  # what is listed later may need any row that is here
        self.step, self.trim, self.owed, self.waiting, self.remainder = None, trim, owed, waiting, remainder
        if late_rows is not None:
            self.log.late(len(late_rows))

    def _verified(
        self, engine: BoundJoin, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Which of the candidates are equal where their hashes are; ``None``: all."""
        all_wanted = None
        stores = self._both(self.stores)
        for key in engine.hashed:
            places = [store.place_of(name) for store, name in zip(stores, (key.left, key.right), strict=True)]
            if places[0] is not None and places[1] is not None:
                wanted = stores[0].native.same(places[0], left, stores[1].native, places[1], right)
            else:
                a = plain_text(stores[0].take_column(key.left, left), key.common)
                b = plain_text(stores[1].take_column(key.right, right), key.common)
                wanted = pc.equal(a, b).to_numpy()
            if key.verify == "not_equal":
                wanted = np.zeros(len(left), bool) if wanted is None else ~wanted
            if wanted is not None and not wanted.all():
                all_wanted = wanted if all_wanted is None else all_wanted & wanted
        return all_wanted

    def _results(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[Owed, Waiting]:
        """What is owed and waits with the rows at these positions, held until the columns are known."""
        owed, waiting = self.owed, self.waiting
        if not len(left):
            return owed, waiting
        chosen = self.layout
        a, b = self._both(self.stores)
        if chosen is not None:
            both = ((a, left), (b, right))
            if self._only is not None:
                rows = matched_rows(chosen, (both[self._only],))
            elif a is not None and b is not None:
                rows = matched_rows(chosen, both)
            else:  # a side that never came
                rows = _side_by_side(chosen, self._taken(a, 0, left), self._taken(b, 1, right))
            return (*owed, rows), waiting
        side, store, positions = (0, a, left) if a is not None else (1, b, right)
        held = result_table(store.schema, store.take(positions))
        return owed, waiting._replace(held=(*waiting.held, held), held_side=side)

    def _taken(self, store: RowStore | None, side: int, positions: NDArray[np.int64]) -> list[Any]:
        if store is not None:
            return store.take(positions)
        return [nulls(len(positions), field.type) for field in self.sides[side].schema or ()]

    def _trim(self, positions: Any, then: Callable[[], None] | None) -> None:
        """Drop the rows that left the window, and follow the engine where it gave new positions."""
        if positions[0][2] is not None or positions[1][2] is not None:
            # A stage of its own: once rows are dropped, those that moved can no longer be read again.
            for store, (first, _, moved) in zip(self.stores, positions, strict=True):
                if store is not None and moved is not None:
                    store.truncate(first)
                    store.repeat(moved)
            positions = tuple((first, after, None) for first, after, _ in positions)
            self.trim = (positions, then)
        for store, (first, after, _) in zip(self.stores, positions, strict=True):
            if store is not None and (store._held[0] != first or store._held[1] != after):
                store.limit(first, after)
        if then is not None:
            then()
        self.trim = None

    # --- the engine ---

    def engine_for(self, tables: dict[int, pa.Table], unit: str | None = None) -> BoundJoin:
        """The engine for these batches: the present one, or a new one if a side becomes known.

        Its unit of time is not coarser than ``unit``, nor than that of the present engine.
        """
        if self.engine is not None and self.complete:
            return self.engine
        came = [tables[i].schema if i in tables else None for i in range(2)]
        schemas = [c if s.schema is None else s.schema for s, c in zip(self.sides, came, strict=True)]
        left, right = self._both(schemas)
        complete = left is not None and right is not None
        if self.engine is not None and not (complete or unit):
            return self.engine
        if complete or (self._only is not None and (left, right)[self._only] is not None):
            self._columns(left, right)  # a wrong name is an error before any row
        present = None if self.engine is None else self.engine.bound.time
        if present is not None and present.unit is not None:
            unit = finer(unit or present.unit, present.unit)
        bound = self._bound(left, right, unit)
        if self.engine is not None and bound == self.engine.bound:
            return self.engine
        engine = BoundJoin(bound, self.outcome, self.crew)
        if self.engine is not None:
            ticks = 1 if bound.time is None or present is None else bound.time.ticks_in(present)
            unseen = [self.unseen(side, *positions) for side, positions in enumerate(self.positions)]
            engine.load(scaled_state(read_state(self.engine.native), ticks), self.stores, unseen)
            engine.native.rejected = self.engine.native.rejected
        return engine

    def unseen(self, side: int, first: int, after: int) -> NDArray[np.bool_]:
        """Which of the rows at these positions no arrival may meet. Cost: O(positions)."""
        return self._running().native.unseen(side, first, after).view(np.bool_)

    def _bound(self, left: pa.Schema | None, right: pa.Schema | None, unit: str | None) -> BoundSpec:
        """The spec bound to the columns; those of a side that is not known yet are guessed."""
        if left is not None and right is not None:
            return bind(self.spec, left, right, unit)
        known, side = (right, 1) if left is None else (left, 0)

        def guessed(wide: bool) -> BoundSpec:
            guess = self._guess(known, side, wide)
            left, right = (known, guess) if side == 0 else (guess, known)
            return bind(self.spec, left, right, unit, known=side)

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
            type_ = schema.field(pair[side]).type
            if wide and pa.types.is_floating(type_):
                type_ = pa.float64()
            elif wide and pa.types.is_integer(type_) and type_ != pa.uint64():
                type_ = pa.int64()
            fields.setdefault(pair[1 - side], type_)
        return pa.schema(list(fields.items()))

    def _columns(self, left: pa.Schema | None, right: pa.Schema | None) -> Layout:
        names = [side.seen if side.names is None else side.names for side in self._both(self.sides)]
        return layout(self.spec, (left, right), names)

    def _running(self) -> BoundJoin:
        assert self.engine is not None, "the caller has seen to it"
        return self.engine

    def _both(self, pair: Any) -> Any:
        return (pair[0], pair[0]) if self.spec.self_join else pair


def _side_by_side(chosen: Layout, left: list[Any], right: list[Any]) -> pa.Table:
    """A result of all stored columns of both sides."""
    if chosen.picks is not None:
        left, right = (
            [part[i] for i in some] for part, some in zip((left, right), chosen.picks, strict=True)
        )
    return chosen.ordered(result_table(chosen.taken, left, right))


def _call_of(engine: BoundJoin) -> Step:
    """A call of the engine without rows."""
    return Step(engine, engine.native.calls, {}, None)
