"""Output: what a join gives, in the columns of the result."""

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.keys.extract import SIDES
from slidejoin.spark.recipe import Recipe

ROWS = 2**17  # rows that are made together at most


def results(recipe: Recipe, table: pa.Table) -> pa.Table:
    """Results with the columns that are added to those of both sides."""
    columns = list(table.columns)
    if recipe.event_time is not None:
        left = recipe.schemas[0]
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
