"""Sources: whatever speaks Arrow becomes a table whose columns the join knows.

:func:`to_table` reads a batch, :class:`Side` fixes the columns of a side at its first batch and fits every
later one to them, :func:`split_arrivals` takes an interleaved batch apart. None of them copies a column that
needs no change; the cost of a batch is O(columns) and the rows of the columns that are cast.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.column_store import gathered
from slidejoin.errors import SchemaError

EXPECTED = (
    "expected a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, a DuckDB relation, "
    "or anything else with __arrow_c_stream__"
)


def to_table(data: Any, name: str = "data") -> pa.Table:
    """A batch of rows as a pyarrow table.

    Parameters
    ----------
    data : object
        A pyarrow Table, RecordBatch or RecordBatchReader; a pandas DataFrame, whose index is left out; a
        Polars DataFrame; a DuckDB relation or result; any object with ``__arrow_c_stream__`` or with
        ``__arrow_c_array__`` of a struct; a dict of arrays.
    name : str
        What errors call it.

    Notes
    -----
    Cost: O(columns) where the data is in Arrow's form already; pandas and dicts are copied.

    Examples
    --------
    >>> to_table({"id": [1, 2]}).schema
    id: int64
    """
    if isinstance(data, pa.Table):
        return data
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and isinstance(data, pandas.DataFrame):
            _unique([str(column) for column in data.columns], name)
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return pa.table(data)
        if isinstance(data, Mapping):
            return pa.table({str(column): values for column, values in data.items()})
        for method in ("to_arrow_table", "fetch_arrow_table"):  # results of DuckDB
            if hasattr(data, method):
                return to_table(getattr(data, method)(), name)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        kind = type(data).__name__
        raise SchemaError(f"{name} is a {kind} that is no table of columns ({error}); {EXPECTED}") from error
    hint = "; call .collect() on it" if type(data).__name__ == "LazyFrame" else ""
    raise SchemaError(f"{name} is a {type(data).__qualname__}{hint}; {EXPECTED}")


class Side:
    """The columns of one side: fixed by the first batch, the same for every later one.

    A later batch may have its columns in another order, and a column in another type that says the same,
    since pandas and Polars give one column several types:

    - string, large_string and string_view; binary, large_binary and binary_view;
    - dictionary or plain, in either direction;
    - any type, for a batch that has no value in the column;
    - integers and floats of another width, times of another unit, decimals of another scale, if **every
      value** of the batch survives. A float column of whole numbers becomes an integer one, which is
      what pandas makes of integers with gaps. A float64 never becomes a float32.

    Anything else is a SchemaError that names the column. Dictionary columns with indices of 8 or 16 bits
    are given 32 bits, since later batches may have more values. All columns may be null, and metadata of
    the schema (pandas writes some) is left behind.

    Parameters
    ----------
    name : str
        What errors call it, such as ``"left"``.
    schema : pyarrow.Schema, optional
        The columns, where they are known before the first batch.

    Examples
    --------
    >>> side = Side("left")
    >>> table = side.check({"id": [1, 2], "name": ["a", None]})
    >>> side.fix(table.schema)
    >>> side.check({"name": [None], "id": [3]}).schema
    id: int64
    name: string
    """

    def __init__(self, name: str, schema: pa.Schema | None = None) -> None:
        self.name = name
        self.schema: pa.Schema | None = None
        if schema is not None:
            self.fix(schema)

    def check(self, data: Any) -> pa.Table:
        """The rows of a batch with this side's columns; SchemaError if they do not fit. Changes nothing.

        Notes
        -----
        Cost: O(columns), and O(rows) for each column that is cast.
        """
        table = to_table(data, self.name)
        if self.schema is not None and table.schema.equals(self.schema) and not table.schema.metadata:
            return table
        _unique(table.column_names, self.name)
        expected = _normal(table.schema) if self.schema is None else self.schema
        self._same_names(table.column_names, expected.names)
        columns = [self._fit(table.column(field.name), field) for field in expected]
        if not columns:
            return table.select([]).replace_schema_metadata(None)
        return pa.Table.from_arrays(columns, schema=expected)

    def fix(self, schema: pa.Schema) -> None:
        """Make this the schema, if there is none yet: called once a checked batch is accepted."""
        if self.schema is None:
            _unique(schema.names, self.name)
            self.schema = _normal(schema)

    def _same_names(self, came: Sequence[str], expected: Sequence[str]) -> None:
        missing = [column for column in expected if column not in came]
        extra = [column for column in came if column not in expected]
        if missing:
            raise SchemaError(
                f"{self.name} has no column {missing[0]!r}; it has {', '.join(map(repr, came)) or 'none'}, "
                "expected the columns of the first batch"
            )
        if extra:
            raise SchemaError(
                f"{self.name} has a new column {extra[0]!r}; the first batch had "
                f"{', '.join(map(repr, expected)) or 'none'}, leave it out"
            )

    def _fit(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        if column.type == field.type:
            return column
        if pa.types.is_null(field.type) and column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column))])
        problem = f"{self.name} column {field.name!r} has type {column.type}, expected {field.type}"
        if pa.types.is_null(field.type):
            raise SchemaError(
                f"{problem}: the first batch had no value in it, so its type is not known; "
                f"cast it to {column.type} there, or give the join schemas=(left, right)"
            )
        if column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column), field.type)])
        if not _may_cast(column.type, field.type):
            raise SchemaError(
                f"{problem} as in the first batch; cast it, or give the join schemas=(left, right)"
            )
        try:
            return _cast(column, field.type)
        except pa.ArrowException as error:
            raise SchemaError(f"{problem}, and not every value survives a cast ({error})") from None


def split_arrivals(
    table: pa.Table, side_column: str, left: pa.Schema | None = None, right: pa.Schema | None = None
) -> tuple[NDArray[np.uint8], pa.Table, pa.Table]:
    """Take an interleaved batch apart: the side of each row, the left rows and the right rows.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of both sides in the order of their arrival, over the union of both sides' columns.
    side_column : str
        Column with ``"left"`` and ``"right"`` (also dictionary-encoded), or with 0 and 1, or false and true.
    left, right : pyarrow.Schema, optional
        Columns of either side where they are fixed already. A side without a schema has all columns but
        ``side_column``; to give the sides different columns, push an empty batch of each first, or pass their
        schemas to the join.

    Returns
    -------
    sides : array of uint8
        0 for a left row, 1 for a right one.
    left_rows, right_rows : pyarrow.Table
        The rows of each side with its own columns, in order; to be checked by :class:`Side`.

    Notes
    -----
    Cost: O(rows), one filter for each column and side.

    Examples
    --------
    >>> sides, left, right = split_arrivals(to_table({"side": ["left", "right"], "x": [1, 2]}), "side")
    >>> sides, left.to_pylist(), right.to_pylist()
    (array([0, 1], dtype=uint8), [{'x': 1}], [{'x': 2}])
    """
    _unique(table.column_names, "arrivals")
    if side_column not in table.column_names:
        raise SchemaError(
            f"arrivals have no column {side_column!r} that tells the side; "
            f"they have {', '.join(map(repr, table.column_names)) or 'none'}"
        )
    sides = _sides(table.column(side_column), side_column)
    others = [column for column in table.column_names if column != side_column]
    wanted = [others if schema is None else schema.names for schema in (left, right)]
    for column in others:
        if column not in wanted[0] and column not in wanted[1]:
            raise SchemaError(
                f"arrivals have a column {column!r} that neither side has; left has "
                f"{', '.join(wanted[0])}, right has {', '.join(wanted[1])}"
            )
    # A column that arrivals lack stays out here, so that the side's own check can say so.
    tables = [table.select([name for name in names if name in others]) for names in wanted]
    return sides, rows_of(tables[0], np.flatnonzero(sides == 0)), rows_of(tables[1], np.flatnonzero(sides))


def _sides(column: pa.ChunkedArray, name: str) -> NDArray[np.uint8]:
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        if not len(numbers) or (numbers.min() >= 0 and numbers.max() <= 1):
            return np.ascontiguousarray(numbers, np.uint8)
    plain = column
    if pa.types.is_dictionary(column.type):
        plain = _cast(column, _wide(column.type.value_type))
    type_ = _wide(plain.type)
    if pa.types.is_boolean(type_):
        choices: list[Any] = [False, True]
    elif pa.types.is_integer(type_):
        choices = [0, 1]
    elif type_ == pa.large_string():
        choices = ["left", "right"]
    elif not len(column):
        return np.zeros(0, np.uint8)
    else:
        raise SchemaError(
            f"arrivals column {name!r} has type {column.type}; expected 'left' and 'right', or 0 and 1"
        )
    found = pc.index_in(plain.cast(type_), value_set=pa.array(choices, type_))
    if found.null_count:
        row = pc.index(found.is_null(), True).as_py()
        raise SchemaError(
            f"arrivals column {name!r} is {column[row].as_py()!r} in row {row}; "
            f"expected {choices[0]!r} or {choices[1]!r}"
        )
    return np.asarray(found.to_numpy()).astype(np.uint8)


def rows_of(table: pa.Table, rows: NDArray[np.int64], rising: bool = True) -> pa.Table:
    """Rows of a table, also for the types that Arrow cannot take from; each once, unless not ``rising``."""
    if (rising and len(rows) == table.num_rows) or not table.num_columns:
        return table.slice(0, len(rows))
    rows = np.ascontiguousarray(rows, np.int64)
    columns = [_numbers_at(column, rows) or _column_rows(column, pa.array(rows)) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _numbers_at(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array | None:
    """Rows of a column of whole bytes without nulls; None for others."""
    type_ = column.type
    if not pa.types.is_primitive(type_) or type_.bit_width % 8 or column.null_count:
        return None
    dtype = np.dtype(f"u{type_.bit_width // 8}")
    chunks = [
        np.frombuffer(chunk.buffers()[1], dtype, len(chunk), chunk.offset * dtype.itemsize)
        for chunk in column.chunks
        if len(chunk)
    ]
    in_place = len(chunks) == 1 and chunks[0].flags.aligned
    values = chunks[0] if in_place else np.concatenate([np.empty(0, dtype), *chunks])
    return pa.Array.from_buffers(type_, len(rows), [None, pa.py_buffer(gathered(values, rows))])


def _column_rows(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    # A take is three times as fast as a filter by a mask that changes with every row.
    wide = _wide(column.type)
    for type_ in (column.type, wide):  # views in their own type, then in one that has a take
        try:
            return _cast(pc.take(_cast(column, type_), rows, boundscheck=False), column.type)
        except pa.ArrowNotImplementedError:
            pass
    pieces = [column.slice(row, 1).chunk(0) for row in rows.to_pylist()]  # nested views, run-end encoded
    return pa.chunked_array([pa.concat_arrays(pieces)] if pieces else [], column.type)


def _unique(names: Sequence[str], owner: str) -> None:
    if len(set(names)) < len(names):
        twice = next(column for i, column in enumerate(names) if column in names[:i])
        raise SchemaError(f"{owner} has two columns {twice!r}; rename one")


def _normal(schema: pa.Schema) -> pa.Schema:
    """A schema as a join keeps it: every column may be null, room in dictionaries, no metadata of its own."""
    fields = []
    for field in schema:
        type_ = field.type
        if pa.types.is_dictionary(type_) and type_.index_type.bit_width < 32:
            type_ = pa.dictionary(pa.int32(), type_.value_type, type_.ordered)
        fields.append(field.with_type(type_).with_nullable(True))
    return pa.schema(fields)


# Types of one row say the same, apart from values that do not fit; a cast tells.
_FAMILIES = (
    lambda t: t in (pa.string(), pa.large_string(), pa.string_view()),
    lambda t: t in (pa.binary(), pa.large_binary(), pa.binary_view()),
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)


def _may_cast(came: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a value of one type can be said in the other at all."""
    kind = pa.types
    if came == expected or kind.is_null(came):
        return True
    if kind.is_dictionary(came) or kind.is_dictionary(expected):
        return _may_cast(*(t.value_type if kind.is_dictionary(t) else t for t in (came, expected)))
    if kind.is_integer(came):
        return bool(kind.is_integer(expected) or kind.is_floating(expected))
    if kind.is_floating(came):
        wider = kind.is_floating(expected) and expected.bit_width > came.bit_width
        return bool(wider or kind.is_integer(expected))
    if kind.is_timestamp(came) and kind.is_timestamp(expected):
        return bool(came.tz == expected.tz)
    if kind.is_struct(came) and kind.is_struct(expected):
        return [f.name for f in came] == [f.name for f in expected] and all(
            _may_cast(one.type, other.type) for one, other in zip(came, expected, strict=True)
        )
    lists = (kind.is_list, kind.is_large_list, kind.is_list_view, kind.is_large_list_view)
    if any(test(came) for test in lists) and any(test(expected) for test in lists):
        return _may_cast(came.value_type, expected.value_type)
    return any(test(came) and test(expected) for test in _FAMILIES)


def _wide(type_: pa.DataType) -> pa.DataType:
    """The same values in a type that Arrow computes with."""
    if type_ in (pa.string(), pa.string_view()):
        return pa.large_string()
    if type_ in (pa.binary(), pa.binary_view()):
        return pa.large_binary()
    if pa.types.is_dictionary(type_) and _wide(type_.value_type) != type_.value_type:
        return pa.dictionary(type_.index_type, _wide(type_.value_type), type_.ordered)
    return type_


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if column.type == type_:
        return column
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(type_):
        wide = _wide(column.type)
        column = column.cast(wide).cast(wide.value_type)
    elif pa.types.is_dictionary(type_) and not pa.types.is_dictionary(column.type):
        column = column.cast(_wide(type_.value_type)).dictionary_encode()
    return column.cast(type_)


def plain_text(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """A column of text or binary in a plain type in which values can be compared."""
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if pa.types.is_run_end_encoded(chunked.type):
        chunked = pa.chunked_array([pc.run_end_decode(chunk) for chunk in chunked.chunks])
    return _cast(chunked, type_)
