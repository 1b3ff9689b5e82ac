"""Sources: batches in any form that Arrow can read become tables with the columns that the join expects.

:func:`to_table` reads a batch. :class:`Side` fixes the columns of a side at its first batch and casts every
later batch to them. :func:`split_arrivals` splits an interleaved batch into its sides. None of them copies a
column that needs no change. Cost of a batch: O(columns), and O(rows) for each column that is cast.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.column_store import BorrowedRows, appended, keeper, nulls
from slidejoin.errors import SchemaError, listed, missing_column, suggestion

EXPECTED = (
    "expected a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, a DuckDB relation, a dict of "
    "columns, a list of dicts, or anything else with __arrow_c_stream__"
)

Pick: TypeAlias = Callable[[list[str]], list[str]]  # of all columns of a batch, those that are wanted


def to_table(data: Any, name: str = "data", pick: Pick | None = None) -> pa.Table:
    """A batch of rows as a pyarrow table.

    Parameters
    ----------
    data : object
        A pyarrow Table, RecordBatch or RecordBatchReader; a pandas DataFrame, without its index; a Polars
        DataFrame; a DuckDB relation or result; any object with ``__arrow_c_stream__`` or with
        ``__arrow_c_array__`` of a struct; a dict of arrays; a list of dicts, one for each row, in which
        a missing key is a null.
    name : str
        What errors call it.
    pick : callable, optional
        Tells which columns are wanted; others are not converted.

    Notes
    -----
    Cost: O(columns) where the data is in Arrow's form already; pandas, dicts and lists are copied.

    Examples
    --------
    >>> to_table({"id": [1, 2]}).schema
    id: int64
    >>> to_table([{"id": 1}, {"id": 2, "name": "b"}]).to_pydict()
    {'id': [1, 2], 'name': [None, 'b']}
    """
    if isinstance(data, pa.Table):
        return _picked(data, pick)
    # Another thread may be importing pandas at this moment: then the module has no DataFrame yet.
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    try:
        if frame is not None and isinstance(data, frame):
            names = {str(column): column for column in data.columns}
            _unique([str(column) for column in data.columns], name)
            wanted = [names[column] for column in _wanted(names, pick)]
            if not wanted:  # Arrow would drop the rows of a frame that has an index only
                return pa.table({"": pa.nulls(len(data))}).select([])
            return pa.Table.from_pandas(data, preserve_index=False, columns=None if pick is None else wanted)
        if isinstance(data, pa.RecordBatchReader):
            return _picked(data.read_all(), pick)
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return _picked(pa.table(data), pick)
        if isinstance(data, Mapping):
            columns = {str(column): values for column, values in data.items()}
            columns = {column: columns[column] for column in _wanted(columns, pick)}
            for column, values in columns.items():
                _refuse_single(f"{name} column {column!r}", values)
            return pa.table(columns)
        if isinstance(data, list | tuple) and all(issubclass(kind, Mapping) for kind in set(map(type, data))):
            rows = _columns_of(data, pick)
            return pa.table({column: _array(values, column, name) for column, values in rows})
        for method in ("to_arrow_table", "fetch_arrow_table"):  # results of DuckDB
            if hasattr(data, method):
                return to_table(getattr(data, method)(), name, pick)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        kind = type(data).__name__
        raise SchemaError(f"{name} is a {kind} that is not a table ({error}); {EXPECTED}") from error
    hint = "; call .collect() on it" if type(data).__name__ == "LazyFrame" else ""
    raise SchemaError(f"{name} is a {type(data).__qualname__}{hint}; {EXPECTED}")


def _picked(table: pa.Table, pick: Pick | None) -> pa.Table:
    if pick is None:
        return table
    wanted = pick(table.column_names)
    return table if len(wanted) == table.num_columns else table.select(wanted)


def _wanted(names: Mapping[str, Any], pick: Pick | None) -> list[str]:
    return list(names) if pick is None else pick(list(names))


def _columns_of(rows: Sequence[Mapping[Any, Any]], pick: Pick | None) -> list[tuple[str, Sequence[Any]]]:
    """The columns of some rows by name; a missing value is None. Cost: O(values)."""
    if set(map(type, rows)) == {dict} and len(set(map(len, rows))) == 1:
        names = {str(name): name for name in rows[0]}
        try:  # half the time, if every row has all columns
            return [(name, list(map(itemgetter(names[name]), rows))) for name in _wanted(names, pick)]
        except KeyError:
            pass
    names = {str(name): name for name in chain.from_iterable(rows)}
    return [(name, [row.get(names[name]) for row in rows]) for name in _wanted(names, pick)]


def _array(values: Sequence[Any], column: str, owner: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"{owner} column {column!r} cannot be read ({error}); give its values one type that Arrow has"
        ) from error


def _refuse_single(what: str, values: Any) -> None:
    """Refuse one value in the place of a column: a text would be read as a column of letters."""
    columns = ("__iter__", "__arrow_c_array__", "__arrow_c_stream__")
    single = isinstance(values, str | bytes | bytearray | Mapping)
    if single or not any(hasattr(values, method) for method in columns):
        raise SchemaError(
            f"{what} is {values!r}, a single value; expected a list or an array, such as [{values!r}]"
        )


class Side:
    """The columns of one side: fixed by the first batch, the same for every later one.

    A later batch may have its columns in another order, and a column in another type with the same values,
    since pandas and Polars give one column several types:

    - string, large_string and string_view; binary, large_binary and binary_view;
    - dictionary or plain, in either direction;
    - any type, for a batch that has no value in the column;
    - integers and floats of another width, times of another unit, decimals of another scale, if **every
      value** of the batch survives the cast. A float column of whole numbers becomes an integer one: pandas
      turns integers with nulls into floats. A float64 never becomes a float32.

    Anything else is a SchemaError that names the column. Dictionary columns with indices of 8 or 16 bits
    get 32 bits, since later batches may have more values. All columns may be null. Metadata of the schema
    (pandas writes some) is dropped.

    Parameters
    ----------
    name : str
        What errors call it, such as ``"left"``.
    schema : pyarrow.Schema, optional
        The columns, where they are known before the first batch.
    needs : mapping of str to str
        Columns that the join reads, which the first batch must have, and what names each, for errors.
    wants : callable, optional
        Whether a column that the join does not read may be in its results. Columns that it neither reads nor
        wants are dropped; batches may have them or not. None: all are wanted.

    Attributes
    ----------
    schema : pyarrow.Schema, optional
        The columns that are stored, once they are fixed.
    names : tuple of str, optional
        All names, also those of columns that are dropped, once they are fixed.

    Examples
    --------
    >>> side = Side("left")
    >>> table = side.check({"id": [1, 2], "name": ["a", None]})
    >>> side.fix(table.schema)
    >>> side.check({"name": [None], "id": [3]}).schema
    id: int64
    name: string
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema | None = None,
        needs: Mapping[str, str] | None = None,
        wants: Callable[[str], bool] | None = None,
    ) -> None:
        self.name = name
        self._needs = dict(needs or {})
        self._wants = wants
        self._declared: pa.Schema | None = None  # all columns, if they were known before the first batch
        self.seen: tuple[str, ...] = ()  # all names of the latest batch
        self.names: tuple[str, ...] | None = None
        self.schema: pa.Schema | None = None
        if schema is not None:
            self.declare(schema)

    def check(self, data: Any) -> pa.Table:
        """The rows of a batch with this side's columns; SchemaError if they do not fit. Changes nothing.

        Notes
        -----
        Cost: O(columns), and O(rows) for each column that is cast.
        """
        self.seen = ()
        table = to_table(data, self.name, self._pick if self._wants else None)
        if self.schema is not None and (schema := table.schema).equals(self.schema) and not schema.metadata:
            return table
        self.seen = self.seen or tuple(table.column_names)
        if not (isinstance(data, Mapping) or self.seen or table.num_rows):  # [], an empty DataFrame
            return table if self.schema is None else self.schema.empty_table()
        _unique(table.column_names, self.name)
        self._has(list(self._needs) if self.schema is None else self.schema.names, table.column_names, data)
        expected = _normal(table.schema) if self.schema is None else self.schema
        columns = [self._fit(table.column(field.name), field) for field in expected]
        if not columns:
            return table.select([]).replace_schema_metadata(None)
        return pa.Table.from_arrays(columns, schema=expected)

    def fix(self, schema: pa.Schema) -> None:
        """Make this the schema, if there is none yet: called once a checked batch is accepted."""
        if self.schema is None:
            _unique(schema.names, self.name)
            self.names = self.seen or tuple(schema.names)
            self.schema = _normal(schema)

    def declare(self, schema: pa.Schema) -> None:
        """Make all columns known before the first batch. The schema has those that are stored."""
        if self.schema is None:
            stored = self._pick(schema.names)
            if self._wants is not None:
                self._has(list(self._needs), stored, schema)
            self._declared = schema
            self.fix(pa.schema([schema.field(name) for name in stored]))

    def need(self, column: str, origin: str) -> pa.Schema | None:
        """Store a column that the join reads, too, from the first row on.

        Returns
        -------
        pyarrow.Schema, optional
            What the schema has to become, if it was fixed without the column before the first batch. If a
            batch has fixed it, a SchemaError is raised.
        """
        self._needs.setdefault(column, origin)
        if self.schema is None or column in self.schema.names or column not in (self.names or ()):
            return None
        if self._declared is None:
            raise SchemaError(
                f"{self.name} column {column!r} is not stored, since columns= leaves it out and the first "
                "batch has fixed the columns; open sources before the first batch, or add it to columns="
            )
        stored = {*self.schema.names, column}
        return _normal(pa.schema([field for field in self._declared if field.name in stored]))

    def stores(self, name: str) -> bool:
        """Whether a column of a batch is stored, or has to be refused since it is new; others are ignored."""
        if self.schema is not None and self.names is not None and name in self.names:
            return name in self.schema.names
        return name in self._needs or self._wants is None or self._wants(name)

    def _pick(self, names: list[str]) -> list[str]:
        _unique(names, self.name)
        self.seen = tuple(names)
        return [name for name in names if self.stores(name)]

    def _has(self, expected: Sequence[str], given: Sequence[str], data: Any) -> None:
        """Check the names of a batch: all that are needed of the first one, the same in every later one."""
        for column in expected:
            if column not in given:
                given = self.seen
                origin = "the first batch had it" if self.schema else self._needs[column]
                index = getattr(data, "index", None)  # of a pandas DataFrame
                if column in getattr(index, "names", ()):
                    origin = f"{column!r} is the index of the DataFrame, call reset_index()"
                raise missing_column(self.name, column, given, origin)
        extra = [column for column in given if column not in expected]
        if extra and self.schema is not None:
            raise SchemaError(
                f"{self.name} has a new column {extra[0]!r}; the first batch had "
                f"{listed(expected)}, leave it out"
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
            return nulls(len(column), field.type)
        if not _may_cast(column.type, field.type):
            raise SchemaError(
                f"{problem} as in the first batch; cast it, or give the join schemas=(left, right)"
            )
        try:
            return _cast(column, field.type)
        except pa.ArrowException as error:
            raise SchemaError(
                f"{problem}, and not every value survives a cast ({error}); cast the column to {column.type} "
                "in the first batch, or give the join schemas=(left, right)"
            ) from None


def split_arrivals(
    table: pa.Table, side_column: str, left: pa.Schema | None = None, right: pa.Schema | None = None
) -> tuple[NDArray[np.uint8], pa.Table, pa.Table]:
    """Split an interleaved batch: the side of each row, the left rows and the right rows.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of both sides in the order of their arrival, over the union of both sides' columns.
    side_column : str
        Column with ``"left"`` and ``"right"`` (also dictionary-encoded), or with 0 and 1, or false and true.
    left, right : pyarrow.Schema, optional
        Columns of a side that are fixed already. A side without a schema has all columns except
        ``side_column``. To give the sides different columns, push an empty batch of each first, or pass their
        schemas to the join.

    Returns
    -------
    sides : array of uint8
        0 for a left row, 1 for a right one.
    left_rows, right_rows : pyarrow.Table
        The rows of each side with its own columns, in order; to be checked by :class:`Side`.

    Notes
    -----
    Cost: O(rows), a take of all columns for each side.

    Examples
    --------
    >>> sides, left, right = split_arrivals(to_table({"side": ["left", "right"], "x": [1, 2]}), "side")
    >>> sides, left.to_pylist(), right.to_pylist()
    (array([0, 1], dtype=uint8), [{'x': 1}], [{'x': 2}])
    """
    names = table.schema.names
    _unique(names, "arrivals")
    if not names and not table.num_rows:
        return np.zeros(0, np.uint8), table, table
    if side_column not in names:
        raise SchemaError(
            f"arrivals have no column {side_column!r} that tells the side; they have {listed(names)}"
            f"{suggestion(side_column, names) or ', name it by side='}"
        )
    sides = _sides(table.column(side_column), side_column)
    others = [column for column in names if column != side_column]
    wanted = [others if schema is None else schema.names for schema in (left, right)]
    for column in others:
        if column not in wanted[0] and column not in wanted[1]:
            raise SchemaError(
                f"arrivals have a column {column!r} that neither side has; left has {listed(wanted[0])}, "
                f"right has {listed(wanted[1])}"
            )
    is_right = sides.view(np.bool_)
    rows = [(~is_right).nonzero()[0], is_right.nonzero()[0]]
    # A column that arrivals do not have is left out here, so that the check of its side reports it.
    if wanted[0] == wanted[1]:
        return sides, *_parts_of(_existing(table, wanted[0], others), rows)
    left_rows, right_rows = (
        rows_of(_existing(table, each, others), own) for each, own in zip(wanted, rows, strict=True)
    )
    return sides, left_rows, right_rows


def _existing(table: pa.Table, wanted: Sequence[str], among: Sequence[str]) -> pa.Table:
    return table.select([name for name in wanted if name in among])


def _sides(column: pa.ChunkedArray, name: str) -> NDArray[np.uint8]:
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = np.array(column.to_numpy())  # a copy: the caller's memory may change meanwhile
        if not (numbers >> 1).any():  # 0 and 1 only
            return numbers.astype(np.uint8, copy=False)
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
    """Rows of a table, also for the types that Arrow cannot take from; each once, unless not ``rising``.

    Cost: O(rows), and a copy of the table's columns that are in several chunks.
    """
    return _parts_of(table, [np.ascontiguousarray(rows, np.int64)], rising)[0]


def _parts_of(table: pa.Table, parts: Sequence[NDArray[np.int64]], rising: bool = True) -> list[pa.Table]:
    """Several parts of the rows of a table, each row in one of them at most, unless not ``rising``."""
    if (rising and any(len(rows) == table.num_rows for rows in parts)) or not table.num_columns:
        return [table.slice(0, len(rows)) for rows in parts]
    borrowed, schema, made = BorrowedRows(table), table.schema, []
    for rows in parts:
        taken = borrowed.take(rows)
        if taken.num_columns < len(schema):
            plain = dict(zip(borrowed.columns, taken.columns, strict=True))
            columns = [
                plain[i] if i in plain else _column_rows(table.column(i), field, rows)
                for i, field in enumerate(schema)
            ]
            taken = pa.Table.from_arrays(columns, schema=schema)
        made.append(taken)
    return made


def _column_rows(
    column: pa.ChunkedArray, field: pa.Field, rows: NDArray[np.int64]
) -> pa.Array | pa.ChunkedArray:
    # A take is three times as fast as a filter by a mask that changes with every row.
    for type_ in (column.type, _wide(column.type)):  # views in their own type, then in one that has a take
        try:
            return _cast(pc.take(_cast(column, type_), pa.array(rows), boundscheck=False), column.type)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            pass
    # Nested views, run-end encoded, too long for one array.
    return appended(keeper(field), 0, column, field).take(rows) if len(rows) else pa.nulls(0, field.type)


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


# Types that one of these tests accepts hold the same values; a cast finds those that do not fit.
_FAMILIES = (
    lambda t: t in (pa.string(), pa.large_string(), pa.string_view()),
    lambda t: t in (pa.binary(), pa.large_binary(), pa.binary_view()),
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)


def _may_cast(given: pa.DataType, expected: pa.DataType) -> bool:
    """Whether some values of one type have an equal value in the other."""
    kind = pa.types
    if given == expected or kind.is_null(given):
        return True
    if kind.is_dictionary(given) or kind.is_dictionary(expected):
        return _may_cast(*(t.value_type if kind.is_dictionary(t) else t for t in (given, expected)))
    if kind.is_integer(given):
        return bool(kind.is_integer(expected) or kind.is_floating(expected))
    if kind.is_floating(given):
        wider = kind.is_floating(expected) and expected.bit_width > given.bit_width
        return bool(wider or kind.is_integer(expected))
    if kind.is_timestamp(given) and kind.is_timestamp(expected):
        return bool(given.tz == expected.tz)
    if kind.is_struct(given) and kind.is_struct(expected):
        return [f.name for f in given] == [f.name for f in expected] and all(
            _may_cast(one.type, other.type) for one, other in zip(given, expected, strict=True)
        )
    lists = (kind.is_list, kind.is_large_list, kind.is_list_view, kind.is_large_list_view)
    if any(test(given) for test in lists) and any(test(expected) for test in lists):
        return _may_cast(given.value_type, expected.value_type)
    return any(test(given) and test(expected) for test in _FAMILIES)


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
