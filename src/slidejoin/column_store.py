"""Columns of rows that are kept, by position: which types the core stores itself, and keepers for the others.

=============================  ========================================================================
fixed width, bool              in the core, contiguous
strings, binary                in the core: offsets and bytes
their views                    the same, cast on the way in and out (:class:`Converted`)
extension, run-end encoded     the keeper of what they wrap (:class:`Converted`)
dictionary                     indices in the core, into one dictionary that forgets unused values
everything else (nested)       Arrow blocks that double in size (``slidejoin.column_blocks``)
=============================  ========================================================================

A keeper is not changed by an append: it returns the keeper that has the new rows, and the caller replaces
the one by the other, all columns at once. Memory behind the last row may be shared by both, so that of two
keepers only the one that is kept in the end may be used. An append costs O(rows) amortised, and O(values in
use) when it brings a new dictionary; a take costs O(positions). Input is copied.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.column_blocks import Blocks, chunked, plain_type
from slidejoin.errors import SchemaError

# The bytes that 32-bit offsets can address; a longer column of strings comes out in several chunks.
MAX_BYTES = 2**31 - 1
# Values of a dictionary that are not worth giving back.
SLACK = 256

Positions = NDArray[np.int64]


class Keeper(Protocol):
    """The values of one column by position; -1 stands for a null."""

    @property
    def nbytes(self) -> int: ...  # in memory
    @property
    def spilled(self) -> int: ...  # bytes in files
    def appended(self, at: int, array: pa.Array) -> "Keeper": ...
    def limited(self, first: int, after: int) -> "Keeper": ...
    def take(self, positions: Positions) -> pa.Array | pa.ChunkedArray: ...


# The kinds of types whose parameters do not matter, by the number of the type.
_KINDS: dict[int, int] = {
    type_.id: kind
    for kind, types in (
        (0, (pa.bool_(),)),
        (1, (pa.int8(), pa.uint8())),
        (2, (pa.int16(), pa.uint16(), pa.float16())),
        (4, (pa.int32(), pa.uint32(), pa.float32(), pa.date32(), pa.time32("s"))),
        (8, (pa.int64(), pa.uint64(), pa.float64(), pa.date64(), pa.time64("us"))),
        (8, (pa.timestamp("s"), pa.duration("s"))),
        (16, (pa.month_day_nano_interval(),)),
        (-4, (pa.string(), pa.binary())),
        (-8, (pa.large_string(), pa.large_binary())),
    )
    for type_ in types
}


def native_kind(type_: pa.DataType) -> int | None:
    """How the core stores a type: its width, 0 for bits, the width of offsets below 0; None if not at all."""
    kind = _KINDS.get(type_.id)
    if kind is None and (pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_)):
        return type_.bit_width // 8 or None
    return kind


def native_batch(table: pa.Table, crew: _core.NativeCrew | None = None) -> _core.NativeBatch:
    """A table as the core reads it. Cost: O(columns)."""
    batch = _core.NativeBatch(crew)
    table.to_reader()._export_to_c(batch.address)  # quicker than __arrow_c_stream__
    return batch


def taken_batches(take: Callable[[Any], int | None], schema: pa.Schema, rows: Any) -> list[pa.RecordBatch]:
    """What the core takes for ``rows``, an array or several of one length, in as few batches as possible.

    Parameters
    ----------
    take : callable
        Gives the address of an ArrowArray, or None where a column is too long for its offsets.
    """
    address = take(rows)
    if address is not None:
        return [pa.RecordBatch._import_from_c(address, schema)]
    parts = rows if isinstance(rows, tuple) else (rows,)
    middle = len(parts[0]) // 2
    if not middle:
        raise SchemaError(f"a value of more than {MAX_BYTES} bytes; use large_string or large_binary columns")
    halves = [tuple(part[:middle] for part in parts), tuple(part[middle:] for part in parts)]
    return [
        batch
        for half in halves
        for batch in taken_batches(take, schema, half if isinstance(rows, tuple) else half[0])
    ]


class Plain:
    """A column of a type that the core stores."""

    def __init__(
        self,
        type_: pa.DataType,
        first: int,
        crew: _core.NativeCrew | None = None,
        spill: _core.NativeSpill | None = None,
    ) -> None:
        kind = native_kind(type_)
        assert kind is not None, "the caller has chosen by it"
        self._schema = pa.schema([("", type_)])
        self.rows = _core.NativeRows([kind], first, crew, spill)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    @property
    def spilled(self) -> int:
        return self.rows.spilled

    def appended(self, at: int, array: pa.Array | pa.ChunkedArray) -> Self:
        self.rows.write(at, native_batch(pa.Table.from_arrays([array], schema=self._schema)))
        return self

    def limited(self, first: int, after: int) -> Self:
        self.rows.limit(first, after)
        return self

    def take(self, positions: Positions) -> pa.Array | pa.ChunkedArray:
        batches = taken_batches(lambda rows: self.rows.take(rows, MAX_BYTES), self._schema, positions)
        columns = [batch.column(0) for batch in batches]
        return columns[0] if len(columns) == 1 else pa.chunked_array(columns)


class Dictionary:
    """Indices into one dictionary: the values of all batches so far, those in use at least."""

    def __init__(
        self,
        type_: pa.DictionaryType,
        first: int,
        crew: _core.NativeCrew | None,
        spill: _core.NativeSpill | None,
    ) -> None:
        self._type = type_
        self._index_type = np.dtype(type_.index_type.to_pandas_dtype())
        self._crew, self._spill = crew, spill
        self._indices = Plain(pa.int64(), first, crew, spill)
        self._plain = plain_type(type_.value_type)
        self._values = pa.nulls(0, self._plain)
        self._output = pa.nulls(0, type_.value_type)
        self._batch = self._output  # the latest batch's dictionary, and its place in ours
        self._places: Positions = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._indices.nbytes + int(self._values.get_total_buffer_size()) + self._places.nbytes

    @property
    def spilled(self) -> int:
        return self._indices.spilled

    def appended(self, at: int, array: pa.DictionaryArray) -> "Dictionary":
        if not len(array):
            return self
        _check_indices(array)
        new = self
        if len(array.dictionary) != len(self._batch) or not array.dictionary.equals(self._batch):
            new = copy(self)
            new._learn(array.dictionary, at)
        indices = array.indices
        if not len(new._places):  # nothing but nulls
            new._indices.appended(at, pa.nulls(len(array), pa.int64()))
            return new
        codes = indices.fill_null(0).to_numpy(zero_copy_only=False)
        places = new._places.take(codes.astype(np.int64, copy=False))
        mask = indices.is_null().to_numpy(zero_copy_only=False) if indices.null_count else None
        new._indices.appended(at, pa.array(places, mask=mask))
        return new

    def _learn(self, batch: pa.Array, at: int) -> None:
        """Add the values of a batch's dictionary that ours lacks."""
        if len(self._values) > 2 * (at - self._indices.rows.first + len(self._batch)) + SLACK:
            self._forget(at)
        values = batch if self._plain == batch.type else batch.cast(self._plain)
        known = len(self._values)
        try:
            found = pc.index_in(values, value_set=self._values)
        except pa.ArrowNotImplementedError:  # nested values: kept again for every new dictionary
            found = pa.nulls(len(values), pa.int32())
        is_new = found.is_null().to_numpy(zero_copy_only=False)
        places = found.fill_null(0).to_numpy().astype(np.int64)
        places[is_new] = np.arange(known, known + int(is_new.sum()))
        self._set_values(pa.concat_arrays([self._values, values.filter(pa.array(is_new))]))
        self._batch, self._places = pa.concat_arrays([batch]), places

    def _forget(self, after: int) -> None:
        """Drop the values that no stored row has."""
        first = self._indices.rows.first
        live = self._indices.take(np.arange(first, after))
        used, renumbered = np.unique(_codes(live), return_inverse=True)
        mask = live.is_null().to_numpy(zero_copy_only=False) if live.null_count else None
        kept = Plain(pa.int64(), first, self._crew, self._spill)
        self._indices = kept.appended(first, pa.array(renumbered, pa.int64(), mask=mask))
        self._set_values(self._values.take(pa.array(used)))

    def _set_values(self, values: pa.Array) -> None:
        self._values = values
        self._output = values if values.type == self._type.value_type else values.cast(self._type.value_type)

    def limited(self, first: int, after: int) -> Self:
        self._indices.limited(first, after)
        return self

    def take(self, positions: Positions) -> pa.Array | pa.ChunkedArray:
        taken = self._indices.take(positions)
        indices, values = _codes(taken), self._output
        if len(values) > int(np.iinfo(self._index_type).max) + 1:
            used, indices = np.unique(indices, return_inverse=True)
            if len(used) > int(np.iinfo(self._index_type).max) + 1:
                middle = len(positions) // 2
                return chunked(self._type, [self.take(positions[:middle]), self.take(positions[middle:])])
            values = self._values.take(pa.array(used)).cast(self._type.value_type)
        codes = pa.py_buffer(indices.astype(self._index_type, copy=False))
        return pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(self._type.index_type, len(indices), [taken.buffers()[0], codes]),
            values,
            ordered=self._type.ordered,
            safe=False,
        )


class Converted:
    """A type that stands for another one: views, extension types, run-end encoding."""

    def __init__(
        self,
        type_: pa.DataType,
        first: int,
        crew: _core.NativeCrew | None,
        spill: _core.NativeSpill | None,
    ) -> None:
        self._type = type_
        if isinstance(type_, pa.BaseExtensionType):
            inner = type_.storage_type
        elif pa.types.is_run_end_encoded(type_):
            inner = type_.value_type
        else:
            inner = plain_type(type_)
        self._inner = _for_type(inner, first, crew, spill)
        self._inner_type = inner

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    @property
    def spilled(self) -> int:
        return self._inner.spilled

    def appended(self, at: int, array: pa.Array) -> "Converted":
        new = copy(self)
        new._inner = self._inner.appended(at, self._unwrapped(array))
        return new

    def limited(self, first: int, after: int) -> "Converted":
        new = copy(self)
        new._inner = self._inner.limited(first, after)
        return new

    def take(self, positions: Positions) -> pa.Array | pa.ChunkedArray:
        most = _longest(self._type)
        if len(positions) > most:
            parts = np.split(positions, range(most, len(positions), most))
            return chunked(self._type, [self.take(part) for part in parts])
        taken = self._inner.take(positions)
        if isinstance(taken, pa.ChunkedArray):
            return chunked(self._type, [self._wrapped(chunk) for chunk in taken.chunks])
        return self._wrapped(taken)

    def _unwrapped(self, array: pa.Array) -> pa.Array:
        if isinstance(self._type, pa.BaseExtensionType):
            return array.storage
        if pa.types.is_run_end_encoded(self._type):
            return pc.run_end_decode(array)
        return array.cast(self._inner_type)

    def _wrapped(self, array: pa.Array) -> pa.Array:
        if isinstance(self._type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(self._type, array)
        if pa.types.is_run_end_encoded(self._type):
            return pc.run_end_encode(array, run_end_type=self._type.run_end_type)
        return array.cast(self._type)


def keeper(
    field: pa.Field,
    first: int = 0,
    crew: _core.NativeCrew | None = None,
    spill: _core.NativeSpill | None = None,
) -> Keeper:
    """The keeper of a column whose first row has this position. A type that cannot be kept: SchemaError."""
    try:
        return _for_type(field.type, first, crew, spill)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"column {field.name!r} has type {field.type}, which cannot be kept for a join ({error}); "
            "cast it to a plainer type"
        ) from None


class BorrowedRows:
    """Rows of a table that is not kept, to be taken by number: the columns of types that the core stores.

    Attributes
    ----------
    columns : list of int
        The numbers of these columns.

    Notes
    -----
    Cost: O(columns), and a copy of what cannot be read in place. A take costs O(positions) for each column.
    """

    def __init__(self, table: pa.Table) -> None:
        kinds = [native_kind(type_) for type_ in table.schema.types]
        self.columns = [i for i, kind in enumerate(kinds) if kind is not None]
        if len(self.columns) < len(kinds):
            table = table.select(self.columns)
        self._schema = table.schema
        self._rows = _core.NativeRows([kind for kind in kinds if kind is not None], 0)
        self._rows.write(0, native_batch(table), borrow=True)

    def take(self, positions: Positions) -> pa.Table:
        """The rows at these numbers."""
        batches = taken_batches(lambda part: self._rows.take(part, MAX_BYTES), self._schema, positions)
        return pa.Table.from_batches(batches)


def appended(kept: Keeper, at: int, column: pa.ChunkedArray, field: pa.Field) -> Keeper:
    """A keeper with the rows of a column from a position on. Values that Arrow cannot read: SchemaError."""
    try:
        for chunk in column.chunks:
            kept = kept.appended(at, chunk)
            at += len(chunk)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} of type {field.type} cannot be read ({error}); "
            "validate(full=True) of a pyarrow column tells what is wrong with it"
        ) from None
    return kept


def nulls(count: int, type_: pa.DataType) -> pa.ChunkedArray:
    """A column of nulls, in as many chunks as its type needs."""
    most = _longest(type_)
    return pa.chunked_array([pa.nulls(min(most, count - at), type_) for at in range(0, count, most)], type_)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows. ``Schema.empty_table`` loads pandas first, which takes a third of a second.

    Examples
    --------
    >>> empty_table(pa.schema([("id", pa.int64())])).num_rows
    0
    """
    return pa.Table.from_arrays([pa.nulls(0, type_) for type_ in schema.types], schema=schema)


def _for_type(
    type_: pa.DataType, first: int, crew: _core.NativeCrew | None, spill: _core.NativeSpill | None
) -> Keeper:
    if native_kind(type_) is not None:
        return Plain(type_, first, crew, spill)
    is_view = type_ in (pa.string_view(), pa.binary_view())
    if is_view or isinstance(type_, pa.BaseExtensionType) or pa.types.is_run_end_encoded(type_):
        return Converted(type_, first, crew, spill)
    if pa.types.is_dictionary(type_):
        return Dictionary(type_, first, crew, spill)
    return Blocks(type_, first, files=spill)


def _longest(type_: pa.DataType) -> int:
    """The values that one array of a type can have: with run ends of 16 bits, no more than these count."""
    width = type_.run_end_type.bit_width if pa.types.is_run_end_encoded(type_) else 64
    return int(2 ** (width - 1)) - 1


def _check_indices(array: pa.DictionaryArray) -> None:
    limits = pc.min_max(array.indices).as_py()
    for index in limits.values():
        if index is not None and not 0 <= index < len(array.dictionary):
            raise pa.ArrowIndexError(f"index {index} into a dictionary of {len(array.dictionary)} values")


def _codes(array: pa.Array) -> Positions:
    """The numbers of an array of int64; what stands under a null means nothing."""
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
