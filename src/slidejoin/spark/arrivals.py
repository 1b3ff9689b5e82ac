"""Arrivals: rows as they cross to the tasks, and as a task takes them apart again.

Both sides cross in one stream of rows: a tag that says which partition a row goes to and which side (and
which half of a full join) it is of, the hashes that routed it if it is to be stored, the time of the
micro-batch if anybody needs it, and the columns. Columns of one type serve both sides, so that a row is about
as wide as that of its own side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F  # noqa: N812

from slidejoin.spark.recipe import Recipe
from slidejoin.spark.spark_hash import partition_ids

_SLICES = 64  # of a batch, beyond which filtering costs less


def placed(left: Sequence[Any], right: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the columns of both sides stand among those that cross, by their types.

    Examples
    --------
    >>> placed(["int", "text", "int"], ["text", "double", "int"])
    ((0, 1, 2), (1, 3, 0))
    """
    free = list(enumerate(left))
    count, places = len(left), []
    for type_ in right:
        shared = next((i for i, other in free if other == type_), None)
        if shared is None:
            shared, count = count, count + 1
        else:
            free = [(i, other) for i, other in free if i != shared]
        places.append(shared)
    return tuple(range(len(left))), tuple(places)


def crossing(recipe: Recipe, left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows of both sides, each in the partitions of its number."""
    kinds: dict[int, types.DataType] = {}
    for frame, places in zip((left, right), recipe.places, strict=True):
        kinds |= dict(zip(places, (field.dataType for field in frame.schema.fields), strict=True))
    sides = [_sent(recipe, frame, side, kinds) for side, frame in enumerate((left, right))]
    rows = sides[0].union(sides[1])
    # Whatever columns the shuffle has go to the tasks: a projection behind it would let Spark's adaptive
    # execution skip the tasks of a micro-batch without rows, which is often the first one.
    tag = F.shiftleft("p", 2) + F.col("s")
    rows = rows.select(tag.alias("tag"), *rows.columns[2:])
    ids = F.array(*(F.lit(number) for number in partition_ids(recipe.partitions)))
    return rows.repartition(recipe.partitions, F.element_at(ids, F.shiftright("tag", 2) + 1))


def _sent(recipe: Recipe, frame: DataFrame, side: int, kinds: dict[int, types.DataType]) -> DataFrame:
    """The rows of a side with partition, half and side, and hashes: once for each partition."""
    names = frame.columns
    plain = frame.toDF(*(f"u{i}" for i in range(len(names))))  # names may need quotes
    column = {name: F.col(f"u{i}") for i, name in enumerate(names)}
    own = {place: F.col(f"u{i}") for i, place in enumerate(recipe.places[side])}
    extra = [F.unix_micros(F.current_timestamp()).alias("now")] if recipe.window.idle_after else []
    hashed = plain.select(*extra, *plain.columns, *_hashes(recipe, side, column))
    columns = [
        own.get(place, F.lit(None)).cast(kind).alias(f"c{place}") for place, kind in sorted(kinds.items())
    ]
    extra = [F.col("now")] * len(extra)
    width = recipe.hashes
    if len(recipe.halves) == 1:
        half = recipe.halves[0].partitioning
        mine = [F.col(f"x0_{i}") for i in range(half.hashes)]
        partition = (
            half.home_partition(side, mine, recipe.partitions)
            if half.is_home(side)
            else F.explode(half.partitions(side, mine, recipe.partitions))
        )
        tag = F.lit(side).cast("byte").alias("s")
        return hashed.select(
            partition.alias("p"), tag, *(mine[i].alias(f"h{i}") for i in range(width)), *extra, *columns
        )
    copies = []
    for number, each in enumerate(recipe.halves):
        mine = [F.col(f"x{number}_{i}") for i in range(each.partitioning.hashes)]
        padded = [*mine, *[F.lit(None).cast("int")] * (width - len(mine))]
        tag = F.lit(2 * number + side).cast("byte").alias("s")
        fields = [tag, *(padded[i].alias(f"h{i}") for i in range(width))]
        parts = each.partitioning.partitions(side, mine, recipe.partitions)
        copies.append(_with_partitions(parts, fields))
    row = F.explode(F.concat(*copies)).alias("row")
    spread = hashed.select(row, *extra, *columns)
    routing = ["p", "s", *(f"h{i}" for i in range(width))]
    return spread.select(
        *(F.col(f"row.{part}").alias(part) for part in routing),
        *extra,
        *(f"c{place}" for place in sorted(kinds)),
    )


def _with_partitions(partitions: Column, fields: list[Column]) -> Column:
    """A struct of some fields for each partition of an array."""
    return F.transform(partitions, lambda p: F.struct(p.alias("p"), *fields))


def _hashes(recipe: Recipe, side: int, column: dict[str, Column]) -> list[Column]:
    return [
        expression.alias(f"x{number}_{i}")
        for number, half in enumerate(recipe.halves)
        for i, expression in enumerate(half.partitioning.hash_columns(side, column.__getitem__))
    ]


@dataclass(frozen=True)
class Arrived:
    """Rows of one side that came to a task."""

    table: pa.Table
    hashes: list[pa.Array]  # with nulls for rows that match nothing

    def plain_hashes(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """The hashes of some rows; what stands for a null is anything."""
        return [part.fill_null(0).to_numpy()[rows] for part in self.hashes]


class Arrivals:
    """Rows of a task, by half and side."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._timed = recipe.window.idle_after is not None
        self._found: list[list[pa.RecordBatch]] = [[] for _ in range(2 * len(recipe.halves))]
        self.nbytes = 0
        self.now: int | None = None  # the time of the micro-batch in microseconds, if it crossed

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows as they crossed."""
        if not batch.num_rows:
            return
        self.nbytes += batch.nbytes
        if self._timed:
            self.now = max(self.now or 0, batch.column(1 + self._recipe.hashes)[0].as_py())
        for tag, part in _by_tag(batch):
            self._found[tag].append(part)

    def sides(self) -> list[tuple[Arrived, Arrived]]:
        """The rows of both sides, for each half."""
        return [(self._arrived(i, 0), self._arrived(i, 1)) for i in range(len(self._recipe.halves))]

    def _arrived(self, half: int, side: int) -> Arrived:
        recipe, parts = self._recipe, self._found[2 * half + side]
        schema, start = recipe.schemas[side], 1 + recipe.hashes + self._timed
        if not parts:
            return Arrived(schema.empty_table(), [])
        hashes = [
            _joined([part.column(1 + i) for part in parts]) for i in range(recipe.halves[half].hashes(side))
        ]
        columns = [
            _conformed(_joined([part.column(start + place) for part in parts]), field.type)
            for place, field in zip(recipe.places[side], schema, strict=True)
        ]
        return Arrived(pa.Table.from_arrays(columns, schema=schema), hashes)


def _by_tag(batch: pa.RecordBatch) -> Iterable[tuple[int, pa.RecordBatch]]:
    """The rows of a batch by half and side: slices, since those of one map task come together."""
    tags: NDArray[np.int32] = batch.column(0).to_numpy()
    cuts = np.flatnonzero(tags[1:] != tags[:-1]) + 1
    if len(cuts) < _SLICES:
        for start, stop in zip([0, *cuts], [*cuts, len(tags)], strict=True):
            yield int(tags[start]) & 3, batch.slice(start, stop - start)
        return
    for tag in np.unique(tags):
        yield int(tag) & 3, batch.filter(pa.array(tags == tag))


def _joined(parts: list[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _conformed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column as Spark hands it over in the type of the join."""
    return column if column.type.equals(type_) else column.cast(type_)
