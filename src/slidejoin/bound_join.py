"""An engine: a native join bound to the columns of two Arrow schemas.

It reads keys and timestamps out of tables and gives positions back; rows are the business of the RowStores
beside it. A new engine can go on where another one stands, from its state and the rows: after a restore, and
when the types of a side turn out to be others than were guessed.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.column_store import Keeper
from slidejoin.errors import OrderError, StateError
from slidejoin.indexed import Plan, plan
from slidejoin.keys import BoundKey, BoundSpec, BoundTime
from slidejoin.keys.extract import SIDES
from slidejoin.native import native_join, native_state, read_state
from slidejoin.result import RowStore

BOTH = 2  # for advance

Sides: TypeAlias = NDArray[np.uint8] | int  # of each row, or of all
Column: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_] | None]  # values, and where they are null
Columns: TypeAlias = tuple[list[Any], Any, Any]  # keys, timestamps, and where those are null


class Part(NamedTuple):
    """The rows of one side in a batch, and where they go."""

    table: pa.Table
    store: RowStore
    next: int  # position of the first row
    batch: _core.NativeBatch  # of the columns that the core stores
    others: dict[int, Keeper]  # the other columns, these rows behind those that are stored


Parts: TypeAlias = dict[int, Part]  # by side


class BoundJoin:
    """A native join bound to columns.

    Parameters
    ----------
    bound : BoundSpec
        The join and the types of its columns.
    outcome : NativeOutcome
        What its join type makes of matches; goes on from one engine to the next.
    crew : NativeCrew
        Threads that share the work of a batch.
    """

    def __init__(self, bound: BoundSpec, outcome: _core.NativeOutcome, crew: _core.NativeCrew) -> None:
        self.bound = bound
        self.plan: Plan = plan(bound)
        self._readable: dict[int, tuple[RowStore, list[tuple[int, int]]]] = {}  # by side
        self.hashed = [key for key in self.plan.keys if key.verify is not None]
        spec = bound.spec
        time = () if bound.time is None else (bound.time,)
        self._bound_columns: tuple[BoundKey | BoundTime, ...] = (*self.plan.keys, *time)
        self.native = native_join(
            [(key.key.name, key.ranges) for key in self.plan.keys],
            {**spec.window.native(bound.time.tick if bound.time else 1), "most": spec.limits.kept_rows},
            index=self.plan.index,
            self_join=spec.self_join,
            ordered=spec.order == "full",
            group=self.plan.group,
            equalities=self.plan.equalities,
            banded=self.plan.banded,
            outcome=outcome,
            hashed=bool(self.hashed),
            workers=crew.workers,
            crew=crew,
        )

    def read(self, sides: Sides, tables: dict[int, pa.Table], parts: Parts | None = None) -> Columns:
        """The keys and timestamps of a batch, in the order of arrival; ``parts`` are for speed."""
        read = [self._read(i, tables[i], parts[i] if parts else None) for i in sorted(tables)]
        if len(read) == 1:
            columns = read[0]
        else:
            assert not isinstance(sides, int)
            columns = [_merged(sides, pair) for pair in zip(*read, strict=True)]
        return (columns, None, None) if self.bound.time is None else (columns[:-1], *columns[-1])

    def _read(self, side: int, table: pa.Table, part: Part | None) -> list[Column]:
        """The keys of one side's rows, and their timestamps behind them if there are any."""
        if part is not None:
            known = self._readable.get(side)
            if known is None or known[0] is not part.store:
                known = self._readable[side] = (part.store, self._places(side, part.store))
            if known[1] and (columns := part.batch.read(known[1])) is not None:
                return columns
        return [column.extract(table, side) for column in self._bound_columns]

    def _places(self, side: int, store: RowStore) -> list[tuple[int, int]]:
        """What ``NativeBatch.read`` is to read; nothing if it cannot read all."""
        places = []
        for column in self._bound_columns:
            i = store.schema.get_field_index((column.left, column.right)[side])
            how = column.readable(store.schema.field(i).type)
            if how is None or i not in store.places:
                return []
            places.append((store.places[i], how))
        return places

    def push(self, sides: Sides, columns: Columns, store: bool, limit: int) -> None:
        """Join a batch, or its first rows: until about ``limit`` matches are listed.

        Time that goes back is an OrderError that names the row.
        """
        try:
            self.native.push_rows(sides, *columns, store, limit)
        except OrderError as error:
            raise self._named(error, sides) from None

    def rehearse(
        self, sides: Sides, columns: Columns, store: bool, exact: bool, enough: int | None
    ) -> tuple[int, int, int, int]:
        """What a batch would do: the most rows of each side, the most matches of a row, and its number."""
        try:
            return self.native.rehearse(sides, *columns, store, exact, enough)
        except OrderError as error:
            raise self._named(error, sides) from None

    def _named(self, error: OrderError, sides: Sides) -> OrderError:
        """An error of the core with the name and the values of the user's column."""
        row, *times = error.refused
        assert self.bound.time is not None
        side = sides if isinstance(sides, int) else sides[row]
        name = (self.bound.time.left, self.bound.time.right)[side]
        came, last = (self.bound.time.to_value(value) for value in times)
        return OrderError(
            f"row {row}: {name!r} is {came}, earlier than {last} before it; rows of both sides "
            "must arrive in the order of time, or use interval() for any order"
        )

    def advance(self, to: Any, side: int) -> None:
        """Move the progress of a side, or of ``BOTH``, to a point in time."""
        assert self.bound.time is not None
        self.native.advance(self.bound.time.to_number(to), side)

    def state(self) -> dict[str, Any]:
        """All but the rows, as JSON values; :meth:`load` reads it. ``unit`` is that of its times."""
        unit = None if self.bound.time is None else self.bound.time.unit
        return {"native": read_state(self.native), "unit": unit}

    def load(
        self,
        native: dict[str, Any],
        stores: list[RowStore | None],
        unseen: list[NDArray[np.bool_]],
    ) -> None:
        """Go on from a state of the core, its times in the unit of this engine, whose rows are in the stores.

        ``unseen`` tells for each side which of its rows no arrival may meet.
        """
        held = []
        for i, store in enumerate(stores):
            part = native[SIDES[i]] = {"dropped": 0, **native[SIDES[i]]}  # which old snapshots do not have
            held.append(self._held(i, store, part["first"], part["next"], unseen[i]))
        self.native.load(native_state(native), *held)

    def _held(
        self, side: int, store: RowStore | None, first: int, after: int, unseen: NDArray[np.bool_]
    ) -> tuple[Any, ...]:
        if store is None:
            keys: list[Any] = [(np.empty(0, key.key), None) for key in self.plan.keys]
            times, nulls = (None, None) if self.bound.time is None else (np.empty(0, np.int64), None)
        else:
            names = self._columns(side)
            positions = np.arange(first, after)
            table = pa.table({name: store.take_column(name, positions) for name in names})
            keys, times, nulls = self.read(np.full(len(positions), side, np.uint8), {side: table})
        return keys, times, nulls, unseen

    def _columns(self, side: int) -> list[str]:
        """The columns of a side that a join looks at."""
        return list(dict.fromkeys((column.left, column.right)[side] for column in self._bound_columns))

    def check(self, stores: list[RowStore | None]) -> None:
        """Verify the index, and that the rows kept are those that it holds."""
        self.native.check()
        stats = self.native.stats()
        for side, store in zip(SIDES, stores, strict=True):
            if store is not None and (
                store.next != stats[f"next_{side}"] or store.first > stats[f"first_{side}"]
            ):
                raise StateError(
                    f"{side}: rows {store.first} to {store.next} are kept, the index has {stats}"
                )


def _merged(sides: NDArray[np.uint8], parts: tuple[Column, Column]) -> Column:
    """Values of both sides in the order of arrival, and their nulls. Cost: about 1 ns for each."""
    (left, left_nulls), (right, right_nulls) = parts
    values = _core.interleave(sides, left, right)
    if left_nulls is None and right_nulls is None:
        return values, None
    masks = (
        np.zeros(len(part), bool) if mask is None else mask
        for part, mask in ((left, left_nulls), (right, right_nulls))
    )
    return values, _core.interleave(sides, *masks)
