"""Columns: which ones of each side a join stores, and which ones its results have, under which names.

Without ``columns=`` a join stores and returns all. With it, the names are those of the result, after
suffixes. What neither these nor the join itself need is dropped before it is converted or stored. The names
of one side decide the suffixes of the other, so all names are remembered. As long as the other side is not
known, every column is stored that may turn out to be wanted. Nothing here costs more than O(columns).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from slidejoin.errors import SchemaError, missing_column
from slidejoin.source import Side
from slidejoin.spec import JoinSpec


class Layout(NamedTuple):
    """How a result is made of the columns of the stores.

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns of the result.
    taken : pyarrow.Schema
        The same columns in the order in which they are taken: left ones first.
    picks : tuple of list of int, optional
        For each side that results have columns of, those that are taken from its store; None: all.
    order : list of int, optional
        Where each column of the result is among those taken; None: in the same place.
    """

    schema: pa.Schema
    taken: pa.Schema
    picks: tuple[list[int], ...] | None = None
    order: list[int] | None = None

    def ordered(self, table: pa.Table) -> pa.Table:
        """A table of taken columns as the result. Cost: O(columns)."""
        return table if self.order is None else table.select(self.order)


def sides_of(spec: JoinSpec) -> tuple[Side, Side]:
    """The two sides of a join, neither of them known yet, that drop what the join does not need."""
    if spec.columns is None:
        return Side("left", needs=spec.reads(0)), Side("right", needs=spec.reads(1))
    left = Side("left", needs=spec.reads(0), wants=lambda name: wants(0, name))
    right = Side("right", needs=spec.reads(1), wants=lambda name: wants(1, name))

    def wants(side: int, name: str) -> bool:
        return may_return(spec, side, name, (right, left)[side].names)

    return left, right


def may_return(spec: JoinSpec, side: int, name: str, others: Sequence[str] | None) -> bool:
    """Whether results have a column of a side, as far as can be told.

    Parameters
    ----------
    others : sequence of str, optional
        All names of the other side, once they are known: they decide about suffixes.
    """
    wanted, only = spec.columns, spec.join_type.only
    if wanted is None:
        return True
    if only is not None:
        return side == only and name in wanted
    if spec.self_join:
        return any(name + suffix in wanted for suffix in spec.suffixes)
    suffixed = name + spec.suffixes[side]
    if others is None:
        return name in wanted or suffixed in wanted
    return (suffixed if name in others else name) in wanted


def output_schema(
    left: pa.Schema, right: pa.Schema, suffixes: tuple[str, str] = ("", "_right"), only: int | None = None
) -> pa.Schema:
    """Columns of a join: all left ones, then all right ones; with ``only``, those of that side.

    A name on both sides gets the suffixes. A name that is still there twice is a SchemaError.

    Examples
    --------
    >>> import pyarrow as pa
    >>> side = pa.schema([("ts", pa.int64()), ("price", pa.float64())])
    >>> output_schema(side, side).names
    ['ts', 'price', 'ts_right', 'price_right']
    """
    if only is not None:
        return (left, right)[only]
    fields: dict[str, pa.Field] = {}
    origins: dict[str, tuple[int, str]] = {}
    for name, side, column in result_names((left.names, right.names), suffixes, None):
        if name in origins:
            raise _clash(name, origins[name], (side, column), suffixes)
        origins[name] = side, column
        fields[name] = (left, right)[side].field(column).with_name(name)
    return pa.schema(list(fields.values()))


def layout(spec: JoinSpec, stored: Sequence[pa.Schema | None], names: Sequence[Sequence[str]]) -> Layout:
    """The columns of results, by the columns that are stored of each side and all names that it has.

    A name in ``columns=`` that the result does not have, or that two columns would have, is a SchemaError.
    The side that semi and anti joins do not return may be unknown.
    """
    only = spec.join_type.only
    if spec.columns is None:
        left, right = stored
        schema = output_schema(left, right, spec.suffixes, only)
        return Layout(schema, schema)
    origins = picked(spec, spec.columns, names)
    sides = spec.join_type.sides
    taken = [name for side in sides for name in spec.columns if origins[name][0] == side]
    picks: tuple[list[int], ...] = tuple([] for _ in sides)
    fields: dict[str, pa.Field] = {}
    for name in taken:
        side, column = origins[name]
        schema = stored[side]
        assert schema is not None, "its names are known"
        picks[sides.index(side)].append(schema.get_field_index(column))
        fields[name] = schema.field(column).with_name(name)
    whole = pa.schema([fields[name] for name in spec.columns])
    order = [taken.index(name) for name in spec.columns]
    is_ordered = order == sorted(order)
    return Layout(whole, pa.schema(list(fields.values())), picks, None if is_ordered else order)


def picked(
    spec: JoinSpec, columns: Sequence[str], names: Sequence[Sequence[str]]
) -> dict[str, tuple[int, str]]:
    """The side of each of these columns of a result, and its name there. SchemaError as in :func:`layout`."""
    origins: dict[str, tuple[int, str]] = {}
    for name, side, column in result_names(names, spec.suffixes, spec.join_type.only):
        if name in origins and name in columns:
            raise _clash(name, origins[name], (side, column), spec.suffixes)
        origins.setdefault(name, (side, column))
    for name in columns:
        if name not in origins:
            raise missing_column("the result", name, list(origins), "columns= names it")
    return {name: origins[name] for name in columns}


def alone(spec: JoinSpec, side: int, stored: pa.Schema) -> list[str]:
    """The stored columns of a side that are returned if the other side never comes, in the order wanted."""
    if spec.columns is None:
        return list(stored.names)
    suffix = spec.suffixes[side]
    columns = {**{name + suffix: name for name in stored.names}, **{name: name for name in stored.names}}
    return list(dict.fromkeys(columns[name] for name in spec.columns if name in columns))


def result_names(
    names: Sequence[Sequence[str]], suffixes: tuple[str, str], only: int | None
) -> Iterator[tuple[str, int, str]]:
    """Every column of a result: its name, its side, and its name there."""
    if only is not None:
        yield from ((name, only, name) for name in names[only])
        return
    shared = set(names[0]) & set(names[1])
    for side in (0, 1):
        for name in names[side]:
            yield (name + suffixes[side] if name in shared else name), side, name


def _clash(
    name: str, first: tuple[int, str], second: tuple[int, str], suffixes: tuple[str, str]
) -> SchemaError:
    one, other = (f"the {('left', 'right')[side]} column {column!r}" for side, column in (first, second))
    return SchemaError(
        f"the result would have two columns {name!r}: {one} and {other}; "
        f"suffixes are {tuple(suffixes)!r}, give others or rename a column"
    )
