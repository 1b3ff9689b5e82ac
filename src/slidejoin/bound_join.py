"""An engine: a native join bound to the columns of two Arrow schemas.

It reads keys and timestamps out of tables and gives positions back; rows are the business of the RowStores
beside it. A new engine can go on where another one stands, from its state and the rows: after a restore, and
when the types of a side turn out to be others than were guessed.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import OrderError, StateError
from slidejoin.keys import BoundSpec
from slidejoin.keys.extract import SIDES
from slidejoin.native import native_join, native_state, read_state
from slidejoin.plan import Plan, plan
from slidejoin.result import RowStore

BOTH = 2  # for advance


class BoundJoin:
    """A native join bound to columns.

    Parameters
    ----------
    bound : BoundSpec
        The join and the types of its columns.
    finals : (bool, bool)
        Of which sides it tells the rows that became final.
    """

    def __init__(self, bound: BoundSpec, finals: tuple[bool, bool]) -> None:
        self.bound = bound
        self.plan: Plan = plan(bound)
        spec = bound.spec
        self.native = native_join(
            [(key.key.name, key.ranges) for key in self.plan.keys],
            spec.window.native(bound.time.tick if bound.time else 1),
            index=self.plan.index,
            self_join=spec.self_join,
            ordered=spec.order == "full",
            group=self.plan.group,
            equalities=self.plan.equalities,
            banded=self.plan.banded,
            finals=finals,
        )

    def read(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table]) -> tuple[list[Any], Any, Any]:
        """The keys and timestamps of a batch, in the order of arrival."""
        keys = [_merged(sides, {i: key.extract(t, i) for i, t in tables.items()}) for key in self.plan.keys]
        times = nulls = None
        if self.bound.time is not None:
            times, nulls = _merged(sides, {i: self.bound.time.extract(t, i) for i, t in tables.items()})
        return keys, times, nulls

    def push(
        self, sides: NDArray[np.uint8], columns: tuple[list[Any], Any, Any], store: bool = True
    ) -> tuple[Any, Any, Any]:
        """Join a batch: positions of its matches, numbers of its late rows."""
        try:
            return self.native.push_rows(sides, *columns, store)
        except OrderError:
            raise OrderError(self._disorder(sides, *columns[1:])) from None

    def _disorder(
        self, sides: NDArray[np.uint8], times: NDArray[np.int64], nulls: NDArray[np.bool_] | None
    ) -> str:
        """Say which row of a batch goes back in time."""
        assert self.bound.time is not None
        rows = np.arange(len(times)) if nulls is None else np.flatnonzero(~nulls)
        latest = self.native.stats()["latest"]
        before = np.maximum.accumulate(np.concatenate([[latest], times[rows]]))[:-1]
        at = int(np.flatnonzero(times[rows] < before)[0])
        row = int(rows[at])
        names = (self.bound.time.left, self.bound.time.right)
        came, last = (self.bound.time.to_value(int(value)) for value in (times[row], before[at]))
        return (
            f"row {row}: {names[sides[row]]!r} is {came}, earlier than {last} before it; rows of both sides "
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
            part = native[SIDES[i]]
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
        names = {(key.left, key.right)[side]: None for key in self.bound.keys}
        if self.bound.time is not None:
            names[(self.bound.time.left, self.bound.time.right)[side]] = None
        return list(names)

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


def _merged(
    sides: NDArray[np.uint8], parts: dict[int, tuple[NDArray[Any], NDArray[np.bool_] | None]]
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Values of both sides in the order of arrival, and their nulls."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    dtype = parts[0][0].dtype
    values = np.empty(len(sides), dtype)
    nulls = np.zeros(len(sides), bool) if any(mask is not None for _, mask in parts.values()) else None
    for i, (part, mask) in parts.items():
        here = np.flatnonzero(sides == i)  # assigning by places is three times as fast as by a mask
        values[here] = part
        if nulls is not None and mask is not None:
            nulls[here] = mask
    return values, nulls
