"""Picked columns on Spark: frames without what a join does not need, and the names of its result.

What is dropped never leaves the JVM, and is in no state.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from slidejoin.columns import picked, result_names
from slidejoin.errors import missing_column
from slidejoin.keys.extract import SIDES
from slidejoin.spark.columns import arrow_schema
from slidejoin.spec import JoinSpec


class Picked(NamedTuple):
    """The frames that are joined, and how each column of their join is called in the result."""

    left: DataFrame
    right: DataFrame
    names: list[tuple[str, str]]

    def result(self, joined: DataFrame, added: Sequence[str]) -> DataFrame:
        """The picked columns of a join, and the ones that are added behind them."""
        columns = [quoted(name).alias(called) for name, called in self.names]
        return joined.select(*columns, *(quoted(name) for name in added))


def pick(left: DataFrame, right: DataFrame, spec: JoinSpec) -> Picked:
    """Drop what a join with ``columns=`` does not need. SchemaError for names that its result has not."""
    assert spec.columns is not None, "the caller has seen to it"
    frames = (left, right)
    names = [frame.columns for frame in frames]
    for side, frame in enumerate(frames):
        if len(set(names[side])) < len(names[side]):
            arrow_schema(frame.schema, SIDES[side])  # which refuses it
        for column, origin in spec.reads(side).items():
            if column not in names[side]:
                raise missing_column(SIDES[side], column, names[side], origin)
    origins = picked(spec, spec.columns, names)
    needed = {(side, column) for side in (0, 1) for column in spec.reads(side)} | set(origins.values())
    kept = [[name for name in names[side] if (side, name) in needed] for side in (0, 1)]
    few = [
        frame if kept[side] == names[side] else frame.select(*map(quoted, kept[side]))
        for side, frame in enumerate(frames)
    ]
    joined = {
        (side, column): name for name, side, column in result_names(kept, spec.suffixes, spec.join_type.only)
    }
    return Picked(few[0], few[1], [(joined[origin], name) for name, origin in origins.items()])


def quoted(name: str) -> Column:
    """The column of this very name, which may have dots."""
    return F.col("`" + name.replace("`", "``") + "`")
