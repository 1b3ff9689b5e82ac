"""Output: what the join of a group gives, so many rows at a time, in the columns of the result."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.keys.extract import SIDES
from slidejoin.spark.recipe import Recipe
from slidejoin.window_join import WindowJoin

RESULTS = 2**20  # rows that should come out together at most
ROWS = 2**17  # rows of a push
_GROWTH = 16


def pushed(join: WindowJoin, side: int, table: pa.Table) -> Iterator[pa.Table]:
    """Push rows in pieces, so that a key with many partners does not make all its results at once.

    The first piece is one whose every row may match all that is stored; the others follow from what came out.
    """
    stats = join.stats
    stored = stats["stored_left"] if side else stats["stored_right"]
    start, rows = 0, max(1, RESULTS // max(stored, 1))
    while start < table.num_rows:
        piece = table.slice(start, min(rows, ROWS))
        found = join.push(**{SIDES[side]: piece})
        yield found
        start += len(piece)
        rows = max(1, min(len(piece) * _GROWTH, RESULTS * len(piece) // max(len(found), 1)))


def results(recipe: Recipe, table: pa.Table, unmatched: bool) -> pa.Table:
    """Results of a group: those without a left partner, or all, with the columns that are added."""
    left = recipe.schemas[0]
    if unmatched:  # a left key is never null in a match
        key = left.get_field_index(recipe.spec.on.conjuncts[0].left)
        table = table.filter(pc.is_null(table.column(key)))
    columns = list(table.columns)
    if recipe.event_time is not None:
        places = left.get_field_index(recipe.time.left), recipe.schemas[1].get_field_index(recipe.time.right)
        times = columns[places[0]], columns[len(left) + places[1]]
        columns.append(pc.if_else(pc.greater(*times), *times))
    if recipe.late:
        columns.append(pa.nulls(len(table), pa.string()))
    return pa.Table.from_arrays(columns, schema=recipe.output)


def late_rows(recipe: Recipe, table: pa.Table, side: int) -> pa.Table:
    """Late rows of a side among the results: its columns, and which side it is. The others are null."""
    sides = recipe.spec.join_type.sides
    if side not in sides:
        return recipe.output.empty_table()
    columns = [pa.nulls(len(table), field.type) for field in recipe.output]
    start = len(recipe.schemas[0]) if side > sides[0] else 0
    columns[start : start + table.num_columns] = table.columns
    columns[-1] = pa.array([SIDES[side]] * len(table), pa.string())
    return pa.Table.from_arrays(columns, schema=recipe.output)
