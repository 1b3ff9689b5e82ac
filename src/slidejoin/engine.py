"""An engine: a native join bound to the columns of two Arrow schemas.

It reads keys and timestamps out of tables and gives positions back; rows are the business of the RowStores
beside it. While only one side has shown its columns, the other side's types are guessed, and the engine
remembers what it was told: when the guess was wrong, a new engine is told the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import OrderError, SpecError, StateError
from slidejoin.keys import BoundSpec
from slidejoin.native import native_join
from slidejoin.plan import Plan, plan
from slidejoin.result import RowStore
from slidejoin.window import Interval, Rows

_SIDES = ("left", "right")


class Engine:
    """A native join bound to columns. Until both sides are known it remembers what it was told."""

    def __init__(self, bound: BoundSpec, complete: bool) -> None:
        self.bound = bound
        self.complete = complete
        self.plan: Plan = plan(bound)
        spec = bound.spec
        self.native = native_join(
            [(key.key.name, key.ranges) for key in self.plan.keys],
            _core_window(bound),
            index=self.plan.index,
            self_join=spec.self_join,
            ordered=spec.order == "full",
            group=self.plan.group,
        )
        self._told: list[Callable[[Engine], object]] = []
        self._rested: tuple[int, int] | None = None  # the last idle side told, and how much was told then
        self.told_bytes = 0

    def read(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table]) -> tuple[list[Any], Any, Any]:
        """The keys and timestamps of a batch, in the order of arrival."""
        keys = [_merged(sides, {i: key.extract(t, i) for i, t in tables.items()}) for key in self.plan.keys]
        times = nulls = None
        if self.bound.time is not None:
            times, nulls = _merged(sides, {i: self.bound.time.extract(t, i) for i, t in tables.items()})
        return keys, times, nulls

    def push(self, sides: NDArray[np.uint8], columns: tuple[list[Any], Any, Any]) -> tuple[Any, Any, Any]:
        """Join a batch: positions of its matches, numbers of its late rows."""
        try:
            return self.native.push_rows(sides, *columns)
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
        """Move a side's progress to a point in time."""
        self._advance(to, side)
        self._tell(lambda engine: engine._advance(to, side))

    def _advance(self, to: Any, side: int) -> None:
        assert self.bound.time is not None
        self.native.advance(self.bound.time.to_number(to), side)

    def idle(self, side: int) -> None:
        """Let a side no longer hold the watermark back."""
        self.native.idle(side)
        if self._rested != (side, len(self._told)):  # told twice in a row it means the same
            self._tell(lambda engine: engine.native.idle(side))
            self._rested = (side, len(self._told))

    def remember(self, sides: NDArray[np.uint8], tables: dict[int, pa.Table], *, known: bool) -> None:
        """Note a batch that was joined, unless both sides are known: a copy of its keys and timestamps."""
        if known:
            self.complete = True
            self._told.clear()
            self.told_bytes = 0
            return
        copies = {i: _copied(table.select(self._columns(i))) for i, table in tables.items()}
        self.told_bytes += sum(table.nbytes for table in copies.values()) + sides.nbytes
        self._tell(lambda engine: engine.push(sides, engine.read(sides, copies)))

    def _columns(self, side: int) -> list[str]:
        """The columns of a side that a join looks at."""
        names = {(key.left, key.right)[side]: None for key in self.bound.keys}
        if self.bound.time is not None:
            names[(self.bound.time.left, self.bound.time.right)[side]] = None
        return list(names)

    def replay(self, earlier: "Engine") -> None:
        """Do again what an engine was told that had guessed the types of a side."""
        for tell in earlier._told:
            tell(self)

    def check(self, stores: list[RowStore | None]) -> None:
        """Verify the index, and that the rows kept are those that it holds."""
        self.native.check()
        stats = self.native.stats()
        for side, store in zip(_SIDES, stores, strict=True):
            if store is not None and (
                store.next != stats[f"next_{side}"] or store.first > stats[f"first_{side}"]
            ):
                raise StateError(
                    f"{side}: rows {store.first} to {store.next} are kept, the index has {stats}"
                )

    def _tell(self, what: "Callable[[Engine], object]") -> None:
        if not self.complete:
            self._told.append(what)


def _core_window(bound: BoundSpec) -> dict[str, Any]:
    window, times = bound.spec.window, bound.time
    if isinstance(window, Rows) or times is None:
        assert isinstance(window, Rows)
        return {"window": "rows", "left": window.left, "right": window.right}
    if isinstance(window, Interval):
        unit = times.unit or "time"
        for name in ("before", "after", "lateness"):
            value = getattr(times, name) or 0
            if abs(value) >= 2**63:
                raise SpecError(f"interval {name} {value} does not fit into 64 bits of {unit}")
        return {
            "window": "event",
            "before": times.before,
            "after": times.after,
            "lateness": times.lateness,
        }
    return {"window": "time", "duration": times.duration, "self_purge": window.purge == "self"}


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


def _copied(table: pa.Table) -> pa.Table:
    """The same rows in memory of their own, which nobody else can change."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()
