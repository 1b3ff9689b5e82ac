"""The running join: an engine, the rows of both sides, and what its join type makes of them.

Batches that were read by ``source`` go in, tables of results come out. A batch is validated whole before
anything changes; a failure in the middle of a change ends the join. :class:`slidejoin.WindowJoin` is the face
in front of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.bound_join import BoundJoin
from slidejoin.errors import CapacityError, OrderError, SchemaError, SpecError
from slidejoin.keys import BoundSpec, bind
from slidejoin.keys.extract import SIDES
from slidejoin.keys.types import finer
from slidejoin.native import read_state, scaled_state
from slidejoin.result import RowStore, output_schema, result_table, together
from slidejoin.source import Side, plain_text, rows_of
from slidejoin.spec import JoinSpec

COUNTERS = (
    "rows_left", "rows_right", "matches", "late_left", "late_right",
    "null_left", "null_right", "stored_left", "stored_right",
)  # fmt: skip


class LiveJoin:
    """A join under way. ``ended`` says why it takes no more batches, or is empty."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.ended = ""
        self.sides = (Side("left", needs=spec.columns(0)), Side("right", needs=spec.columns(1)))
        self.stores: list[RowStore | None] = [None, None]
        self.engine: BoundJoin | None = None
        only = spec.join_type.only
        self.outcome = _core.NativeOutcome(spec.join_type.preserves, -1 if only is None else only)
        self.late: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self.unequal = 0  # candidates whose hashes were equal and whose values were not
        # Final rows that wait for the columns of the other side, to come out with them.
        self.held: list[pa.Table] = []
        self.held_side = 0
        self._output: pa.Schema | None = None

    # --- what happens to it ---

    def fix(self, schemas: tuple[pa.Schema, ...]) -> None:
        """Make the columns known before the first batch."""
        for side, schema in zip(self.sides, schemas, strict=False):
            side.fix(schema)
        self.engine = self.engine_for({})

    def validate(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table]) -> None:
        """Raise what :meth:`push` raises for bad values and types. Changes nothing."""
        self.engine_for(tables).read(sides, tables)

    def push(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table], store: bool = True) -> pa.Table:
        """Join a batch of checked tables, in the order that ``sides`` tells."""
        engine = self.engine_for(tables)
        columns = engine.read(sides, tables)  # raises before anything has changed, as do new stores
        stores = {i: self._store(i, table.schema) for i, table in tables.items()}
        with self._whole():
            found = engine.push(sides, columns, store)
            for i, table in tables.items():
                self.sides[i].fix(table.schema)
                self.stores[i] = stores[i]
            self._keep(sides, tables, found[2])
            result = self._outcome(engine, found[0], found[1])
            self._forget(engine)
            return self._together([result])

    def advance(self, to: Any, side: int) -> pa.Table:
        """Promise that no row before a time comes any more on a side, or on ``BOTH``."""
        engine = self._running()
        if not self.complete:  # the side to come may have finer times: keep the promise exactly
            assert engine.bound.time is not None
            engine = self.engine_for({}, engine.bound.time.unit_for(to))
        with self._whole():
            engine.advance(to, side)
            return self._moved(engine)

    def idle(self, side: int) -> pa.Table:
        """Let a side no longer hold the watermark back."""
        engine = self._running()
        with self._whole():
            engine.native.idle(side)
            return self._moved(engine)

    def finish(self) -> pa.Table:
        """The rows that still wait for a partner. Nothing comes any more."""
        with self._whole():
            results = [self._rows(*self.outcome.finish())]
            result = self._together(results)
            if self.held:  # the other side never came
                result = pa.concat_tables(self.held)
                self.held.clear()
        self.ended = "finished"
        return result

    def take_late(self, side: int) -> pa.Table:
        """The late rows of a side since the last call."""
        late, schema = list(self.late[side]), self.sides[side].schema
        self.late[side].clear()
        if schema is None:
            return pa.table({})
        return pa.concat_tables(late) if late else schema.empty_table()

    # --- what can be asked of it ---

    @property
    def seen(self) -> int:
        """How many rows came, late ones too."""
        stats = self.stats()
        return sum(int(stats[f"{what}_{side}"]) for what in ("rows", "late") for side in SIDES)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """The positions that each side holds: the first, and the next to come."""
        return [(0, 0) if store is None else (store.first, store.next) for store in self.stores]

    @property
    def complete(self) -> bool:
        """Whether the columns of both sides are known."""
        return all(side.schema is not None for side in self._both(self.sides))

    @property
    def output(self) -> pa.Schema | None:
        """The columns of results, once they are known."""
        if self._output is None:
            schemas = [side.schema for side in self._both(self.sides)]
            if all(schemas[side] is not None for side in self.spec.join_type.sides):
                self._output = self._columns(*schemas)
        return self._output

    def empty(self) -> pa.Table:
        """A result without rows; without columns until they are known."""
        return pa.table({}) if self.output is None else self.output.empty_table()

    def stats(self) -> dict[str, Any]:
        """The counters of ``WindowJoin.stats``."""
        if self.engine is None:
            return {**dict.fromkeys(COUNTERS, 0), "watermark": None, "memory_bytes": 0}
        native = self.engine.native.stats()
        stats = {name: native[name] for name in COUNTERS}
        stats["matches"] -= self.unequal
        watermark, time = native["watermark"], self.engine.bound.time
        stats["watermark"] = watermark if watermark is None or time is None else time.to_value(watermark)
        rows = sum(store.nbytes for store in self.stores if store is not None)
        waiting = sum(table.nbytes for table in (*self.held, *self.late[0], *self.late[1]))
        stats["memory_bytes"] = native["memory_bytes"] + rows + waiting + self.outcome.memory_bytes
        if self.ended:
            stats["stored_left"] = stats["stored_right"] = 0
        return stats

    # --- one batch ---

    def _store(self, side: int, schema: pa.Schema) -> RowStore:
        store = self.stores[side]
        return RowStore(schema) if store is None else store

    def _keep(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table], late: NDArray[np.int64]) -> None:
        """Store the rows that came in time, and set the others aside."""
        in_time = np.ones(len(sides), bool)
        in_time[late] = False
        for i, table in tables.items():
            store = self.stores[i]
            assert store is not None
            if not len(late):
                store.append(table)
            else:
                mask = in_time[sides == i]
                store.append(rows_of(table, np.flatnonzero(mask)))
                if self.spec.window.returns_late and not mask.all():  # a copy, also of a whole table
                    self.late[i].append(rows_of(table, np.flatnonzero(~mask), rising=False))
            self.outcome.extend(i, store.next)

    def _outcome(self, engine: BoundJoin, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        """What comes out for these candidates and for the rows that the engine's last call made final."""
        self.engine = engine
        wanted = self._verified(engine, left, right)
        if self.spec.how != "inner":
            return self._rows(*self.outcome.write(left, right, wanted, engine.native.finals()))
        if wanted is not None:
            left, right = left[wanted], right[wanted]
        return self._rows(left, right)

    def _verified(
        self, engine: BoundJoin, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Which of the candidates are equal where their hashes are; ``None``: all."""
        all_wanted = None
        for key in engine.plan.keys:
            if key.verify is None or not len(left):
                continue
            stores = self._both(self.stores)
            compare = pc.equal if key.verify == "equal" else pc.not_equal
            a = plain_text(stores[0].take_column(key.left, left), key.common)
            b = plain_text(stores[1].take_column(key.right, right), key.common)
            wanted = compare(a, b).to_numpy()
            if not wanted.all():
                all_wanted = wanted if all_wanted is None else all_wanted & wanted
        if all_wanted is not None:
            self.unequal += int((~all_wanted).sum())
        return all_wanted

    def _rows(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        """The rows at these positions; -1 for no partner."""
        if self.output is None:
            self._hold(left, right)
            return self.empty()
        stores, positions = self._both(self.stores), (left, right)
        parts = [self._taken(stores[side], side, positions[side]) for side in self.spec.join_type.sides]
        return result_table(self.output, *parts)

    def _taken(self, store: RowStore | None, side: int, positions: NDArray[np.int64]) -> list[Any]:
        if store is not None:
            return store.take(positions)
        return [pa.nulls(len(positions), field.type) for field in self.sides[side].schema or ()]

    def _hold(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
        """Keep final rows of the one side that is known."""
        for i, (positions, store) in enumerate(zip((left, right), self.stores, strict=True)):
            if store is not None and len(positions):
                self.held_side = i
                self.held.append(result_table(store.schema, store.take(positions)))

    def _together(self, results: list[pa.Table]) -> pa.Table:
        """Several results as one, behind the rows that were held back until the columns were known."""
        if self.held and self.output is not None:
            rows, other = pa.concat_tables(self.held), self.sides[1 - self.held_side].schema
            absent = [pa.nulls(len(rows), field.type) for field in other or ()]
            parts = (absent, rows.columns) if self.held_side else (rows.columns, absent)
            self.held.clear()
            results = [result_table(self.output, *parts), *results]
        return together(results)

    def _moved(self, engine: BoundJoin) -> pa.Table:
        """The result of a call that only moved time."""
        none = np.empty(0, np.int64)
        result = self._outcome(engine, none, none)
        self._forget(engine)
        return self._together([result])

    def _forget(self, engine: BoundJoin) -> None:
        """Forget the rows that the engine has forgotten, and follow it where it gave new positions."""
        stats = engine.native.stats()
        for i, store in enumerate(self.stores):
            if store is None:
                continue
            first, after = stats[f"first_{SIDES[i]}"], stats[f"next_{SIDES[i]}"]
            moved = engine.native.renumbered(i)
            kept = first if len(moved) else after
            store.truncate(kept)  # rows that only probed
            self.outcome.limit(i, store.first, kept)
            if len(moved):
                store.append(result_table(store.schema, store.take(moved)))
                self.outcome.renumber(i, moved, first)
            store.drop_before(first)
            self.outcome.limit(i, first, after)

    # --- the engine ---

    def engine_for(self, tables: dict[int, pa.Table], unit: str | None = None) -> BoundJoin:
        """The engine for these batches: the present one, or a new one if a side becomes known.

        Its unit of time is not coarser than ``unit``, nor than that of the present engine.
        """
        came = [tables[i].schema if i in tables else None for i in range(2)]
        schemas = [c if s.schema is None else s.schema for s, c in zip(self.sides, came, strict=True)]
        left, right = self._both(schemas)
        complete = left is not None and right is not None
        if self.engine is not None and (self.complete or not (complete or unit)):
            return self.engine
        if complete:
            self._columns(left, right)  # a clash of names is an error before any row
        present = None if self.engine is None else self.engine.bound.time
        if present is not None and present.unit is not None:
            unit = finer(unit or present.unit, present.unit)
        bound = self._bound(left, right, unit)
        if self.engine is not None and bound == self.engine.bound:
            return self.engine
        engine = BoundJoin(bound, self.spec.join_type.preserves)
        if self.engine is not None:
            ticks = 1 if bound.time is None or present is None else bound.time.ticks_in(present)
            unseen = [self.unseen(side, *positions) for side, positions in enumerate(self.positions)]
            engine.load(scaled_state(read_state(self.engine.native), ticks), self.stores, unseen)
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
            return bind(self.spec, left, right, unit)

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

    def _columns(self, left: pa.Schema, right: pa.Schema) -> pa.Schema:
        return output_schema(left, right, self.spec.suffixes, self.spec.join_type.only)

    def _running(self) -> BoundJoin:
        assert self.engine is not None, "the caller has seen to it"
        return self.engine

    def _both(self, pair: Any) -> Any:
        return (pair[0], pair[0]) if self.spec.self_join else pair

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What changes the engine and the rows, both or neither: a failure half way ends the join."""
        before, self.ended = self.ended, "unusable since an error in the middle of a call"
        try:
            yield
        except (OrderError, CapacityError, SchemaError):  # the core refused, and has changed nothing
            self.ended = before
            raise
        except BaseException as error:
            self.ended += f": {error!r}"
            raise
        self.ended = before
