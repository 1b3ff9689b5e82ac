"""Joins of rows that are kept sorted: runs, whose keys were sorted once and are then only searched.

A run is the rows of one side in the order of the core's index keys. Its arrays may be memory-mapped files:
they are read in place, and only where partners can be (``core/join/run_join.hpp``). :class:`RunKernel` sorts
new rows and finds the pairs of two runs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SpecError
from slidejoin.indexed import Plan
from slidejoin.keys import BoundKey, BoundTime
from slidejoin.keys.extract import Mask
from slidejoin.native import native_runs

Column: TypeAlias = tuple[NDArray[Any], Mask]


class Run(NamedTuple):
    """Rows of one side in ascending order of their keys.

    Attributes
    ----------
    keys : numpy.ndarray
        The core's index keys, uint32 or uint64, as :meth:`RunKernel.sort` returns them.
    columns : list of numpy.ndarray
        The values of each condition in the same order, in its native type; no nulls.
    """

    keys: NDArray[Any]
    columns: list[NDArray[Any]]


class RunKernel:
    """The conditions of a join, for rows that are kept sorted.

    Arrays must be contiguous and aligned, else there is a TypeError. Native work runs without the GIL, and
    several threads may use one kernel.

    Parameters
    ----------
    chosen : Plan
        The conditions, and which of them rows are sorted by.
    time : BoundTime, optional
        That of an interval, which is one more band: behind the equalities where the plan has the time there,
        else a filter. Rows without a timestamp have no partner.

    Attributes
    ----------
    hashed : bool
        Whether some conditions are on hashes of text, so that pairs are candidates until values are compared.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slidejoin as sj
    >>> from slidejoin.keys import bind
    >>> from slidejoin.indexed import plan
    >>> from slidejoin.spec import join_spec
    >>> tables = pa.table({"x": [20, 10, None]}), pa.table({"x": [11, 40, 9]})
    >>> spec = join_spec(sj.band("x", within=1), sj.rows(1))
    >>> kernel = RunKernel(plan(bind(spec, tables[0].schema, tables[1].schema)))
    >>> runs, orders = [], []
    >>> for side, table in enumerate(tables):
    ...     columns = kernel.columns(table, side)
    ...     order, keys = kernel.sort(columns)
    ...     runs.append(Run(keys, [values[order] for values, _ in columns]))
    ...     orders.append(order)
    >>> for left, right in kernel.pairs(*runs, limit=1000):
    ...     print(orders[0][left], orders[1][right])
    [1 1] [2 0]
    """

    def __init__(self, chosen: Plan, time: BoundTime | None = None) -> None:
        self.hashed = any(key.verify is not None for key in chosen.keys)
        self._chosen = chosen
        self._time = time
        self._bounds: list[BoundKey | BoundTime] = chosen.with_time(
            list(chosen.keys), [] if time is None else [time]
        )
        on = [(key.key.name, key.ranges) for key in chosen.keys]
        self._native = native_runs(
            chosen.with_time(on, [] if time is None else [("int64", time.ranges)]),
            equalities=chosen.equalities,
            banded=chosen.banded_conjunct,
        )

    def columns(self, table: pa.Table, side: int) -> list[Column]:
        """The values of each condition, the time among them, and where they are null (``None``: nowhere).

        Text is hashed. A value that a condition cannot hold is a SchemaError. Cost: O(rows) at most.
        """
        times = [] if self._time is None else [self._time.extract(table, side)]
        return self._chosen.with_time([key.extract(table, side) for key in self._chosen.keys], times)

    @property
    def time_at(self) -> int:
        """The place of the time among the conditions."""
        assert self._time is not None, "the caller has given one"
        return self._bounds.index(self._time)

    def in_place(self, schema: pa.Schema, side: int) -> list[bool]:
        """For each condition, whether its values stand in a column as they are: reading them costs O(1)."""
        types = [schema.field((bound.left, bound.right)[side]).type for bound in self._bounds]
        ways = [bound.readable(type_) for bound, type_ in zip(self._bounds, types, strict=True)]
        return [way is not None and way >= 0 for way in ways]

    def column(self, table: pa.Table, side: int, condition: int) -> NDArray[Any]:
        """The values of one condition; those of one chunk that are there in place are not copied."""
        return self._bounds[condition].extract(table, side)[0]

    def sort(self, columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The order of a run: row numbers by ascending key, equal keys by row, and those keys.

        Rows with a null or NaN in any condition match nothing and are left out. Cost: about 20 ns a row.
        """
        return self._native.sort(list(columns))

    def pairs(
        self, left: Run, right: Run, limit: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """All pairs of rows of two runs as (left, right) row numbers, each once, in any order.

        Every chunk has ``limit`` pairs at most, and one at least. Cost: the shorter run is read, the longer
        one only where partners can be; 40 to 120 ns a row of the shorter run, and 2 ns a pair.
        """
        if limit < 1:
            raise SpecError(f"limit={limit!r}; expected a whole number, 1 at least")
        found = self._native.pairs(_arrays(left), _arrays(right))
        while len((chunk := found.next(limit))[0]):
            yield chunk

    def matched(self, left: Run, right: Run, side: int) -> NDArray[np.bool_]:
        """Which rows of one side (0: left, 1: right) have a partner in the other run.

        Cost: as for pairs; if the rows of ``side`` are not many more than the others, each of them is tested
        up to its first partner only.
        """
        return self._native.matched(_arrays(left), _arrays(right), side)


def _arrays(run: Run) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
    return run.keys, tuple(run.columns)
