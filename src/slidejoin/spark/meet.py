"""Meetings: what comes out where the rows of two runs meet, for every join type."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.columns import Layout
from slidejoin.join_type import JOIN_TYPES
from slidejoin.spark.live import Live
from slidejoin.spark.output import ROWS, results
from slidejoin.spark.recipe import Half, Recipe
from slidejoin.table_join import taken


class Meeting:
    """Makes results of runs that meet; ``figures`` counts them."""

    def __init__(self, plan: Recipe, figures: Counter[str]) -> None:
        self._plan = plan
        self._layout = Layout(plan.matched, plan.matched)
        self._figures = figures

    def overlap(self, left: Live, right: Live) -> bool:
        """Whether rows of two runs can be within the interval."""
        (first, last), (earliest, newest) = left.span, right.span
        return earliest <= last + self._plan.time.after and newest >= first - self._plan.time.before

    def met(self, half: Half, left: Live, right: Live) -> Iterator[pa.Table]:
        """What comes out where the rows of two runs meet; notes which rows have matched."""
        both, type_ = (left, right), half.type
        runs = left.rows.run, right.rows.run
        tables = left.rows.table, right.rows.table
        only = type_.only
        if only is not None and not half.kernel.hashed:
            fresh = both[only].match(half.kernel.matched(*runs, only))
            if type_.is_semi and len(fresh):
                yield self._alone(tables[only], fresh)
            return
        for pair in half.kernel.pairs(*runs, limit=ROWS):
            numbers = verified(half, tables, pair)
            for side in (0, 1):
                if type_.preserves[side] or only == side:
                    fresh = both[side].match(numbers[side])
                    if type_.is_semi and len(fresh):
                        yield self._alone(tables[side], fresh)
            if only is None and len(numbers[0]):
                self._figures["matches"] += len(numbers[0])
                yield results(self._plan, taken(self._layout, tables, numbers, JOIN_TYPES["inner"]))

    def unmatched(self, side: int, table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
        """Rows of one side without a partner."""
        if self._plan.spec.join_type.only is not None:
            return self._alone(table, rows)
        tables = [schema.empty_table() for schema in self._plan.schemas]
        numbers = [np.full(len(rows), -1), np.full(len(rows), -1)]
        tables[side], numbers[side] = table, rows
        return results(self._plan, taken(self._layout, tables, numbers, JOIN_TYPES["full"]))

    def _alone(self, table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
        """Rows of the one side that a semi or anti join has."""
        both = [table, table], [rows, rows]
        return results(self._plan, taken(self._layout, *both, self._plan.spec.join_type))


def verified(half: Half, tables: Any, pair: Any) -> Any:
    """The pairs whose texts are what their hashes say; all of them where no condition is on a hash."""
    for key in half.plan.keys:
        if key.verify is None:
            continue
        values = [
            tables[side].column(name).take(pa.array(numbers))
            for side, (name, numbers) in enumerate(zip((key.left, key.right), pair, strict=True))
        ]
        test = pc.equal if key.verify == "equal" else pc.not_equal
        wanted = test(values[0], values[1]).to_numpy(zero_copy_only=False).astype(np.bool_)
        if not wanted.all():
            pair = tuple(numbers[wanted] for numbers in pair)
    return pair
