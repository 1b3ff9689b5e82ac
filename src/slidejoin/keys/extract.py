"""Columns: from Arrow to contiguous NumPy arrays of exact numbers, or of hashes.

A column in one chunk that needs no change is read in place; everything else costs a pass over its rows. What
stands under a null is anything.
"""

import math
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from slidejoin import _core
from slidejoin.errors import SchemaError, missing_column
from slidejoin.keys.types import decoded, family, tick
from slidejoin.spec import KEY_TYPES

Mask: TypeAlias = NDArray[np.bool_] | None

SIDES = ("left", "right")


def column_type(schema: pa.Schema, side: int, name: str, origin: str = "") -> pa.DataType:
    """The type of a column, or a SchemaError that lists what there is and what names the column."""
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return schema.field(places[0]).type
    if places:
        raise SchemaError(f"{SIDES[side]} column {name!r} is there {len(places)} times; rename all but one")
    raise missing_column(SIDES[side], name, schema.names, origin)


def find(table: pa.Table, side: int, name: str, common: pa.DataType) -> pa.ChunkedArray:
    """A column of a batch, if it is of the family that the join was bound to."""
    type_ = column_type(table.schema, side, name)
    if family(type_) != family(common):
        raise SchemaError(
            f"{SIDES[side]} column {name!r} has type {type_}; the join compares it as {common}, cast it"
        )
    return table.column(name)


_IN_PLACE = {pa.from_numpy_dtype(name): np.dtype(name) for name in KEY_TYPES}
_INT64 = np.dtype(np.int64)
_OFFSETS: dict[int, np.dtype[Any]] = {
    **dict.fromkeys((pa.string().id, pa.binary().id), np.dtype(np.int32)),
    **dict.fromkeys((pa.large_string().id, pa.large_binary().id), _INT64),
}


def readable(type_: pa.DataType, common: pa.DataType) -> int | None:
    """How the core reads a column as keys of a common type, in the terms of ``NativeBatch.read``.

    None if it does not: the values need a change.
    """
    if common.id in _OFFSETS:
        return -_OFFSETS[type_.id].itemsize if type_.id in _OFFSETS else None
    return _IN_PLACE[common].num if type_ == common and common in _IN_PLACE else None


def integers(
    column: pa.ChunkedArray, where: str, unit: Fraction, dtype: np.dtype[Any], limit: str
) -> tuple[NDArray[Any], Mask]:
    """The values of an exact column as whole numbers of ``unit``; SchemaError if one is not whole.

    Parameters
    ----------
    where, limit : str
        The column and what its values must fit, for the message.
    """
    array = one_array(column)
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    mask = nulls(array)
    raw, wide = _stored(array)
    ratio, least, most = _fit(array.type, unit, dtype)
    if ratio.denominator > 1 and not types.is_date(array.type):
        raise SchemaError(f"{where} has type {array.type}, which is finer than {limit}; cast it")
    stored = np.iinfo(raw.dtype)
    wrong = wide
    if stored.min < least or stored.max > most:
        wrong = wrong | (raw < least) | (raw > most)
    if ratio.denominator > 1:
        wrong = wrong | (raw % ratio.denominator != 0)
    if mask is not None:
        wrong = wrong & ~mask
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise SchemaError(f"{where} holds {_shown(array, row, raw)} in row {row}, which does not fit {limit}")
    if ratio == 1:
        return raw.astype(dtype, copy=False), mask
    if ratio.numerator > np.iinfo(dtype).max:  # only zeros are left
        return np.zeros(len(raw), dtype), mask
    # Narrowing comes last, widening first, so that no valid value is cut on the way.
    whole = raw // ratio.denominator if ratio.denominator > 1 else raw
    return whole.astype(dtype, copy=False) * dtype.type(ratio.numerator), mask


def floats(column: pa.ChunkedArray, where: str, dtype: np.dtype[Any]) -> tuple[NDArray[Any], Mask]:
    """The values of a column of floats."""
    array = one_array(column)
    if array.type.bit_width > 8 * dtype.itemsize:
        raise SchemaError(f"{where} has type {array.type}; the join compares it as {dtype}, cast it")
    return _buffer(array, np.dtype(array.type.to_pandas_dtype())).astype(dtype, copy=False), nulls(array)


def hashes(column: pa.ChunkedArray) -> tuple[NDArray[np.uint64], Mask]:
    """The hash of each value of a column of text or binary; of a dictionary's values, once for each."""
    if column.num_chunks == 1 and column.type.id in _OFFSETS:
        return _hashed(column.chunk(0)), nulls(column.chunk(0))
    if not types.is_dictionary(column.type):
        array = one_array(_plain(column).cast(pa.large_binary()))
        return _hashed(array), nulls(array)
    parts = [_dictionary_hashes(chunk) for chunk in column.chunks]
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([np.empty(0, np.uint64), *(values for values, _ in parts)])
    if all(mask is None for _, mask in parts):
        return values, None
    return values, np.concatenate(
        [np.zeros(len(part), np.bool_) if mask is None else mask for part, mask in parts]
    )


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one plain array; in place if it is one already."""
    column = _plain(column)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nulls(array: pa.Array) -> Mask:
    """True where an array is null; ``None`` where it nowhere is."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without dictionary and runs."""
    if types.is_run_end_encoded(column.type):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type.value_type)
    return column.cast(decoded(column.type)) if types.is_dictionary(column.type) else column


def _buffer(array: pa.Array, dtype: np.dtype[Any], words: int = 1) -> NDArray[Any]:
    """The numbers of an array as they stand in memory, so many for each value."""
    if len(array) == 0:
        return np.empty(0, dtype)
    size = dtype.itemsize * words
    values = np.frombuffer(array.buffers()[1], dtype, count=len(array) * words, offset=array.offset * size)
    return values if values.flags.aligned else values.copy()


@cache
def _fit(type_: pa.DataType, unit: Fraction, dtype: np.dtype[Any]) -> tuple[Fraction, int, int]:
    """How many units one tick of a type is, and the least and the greatest number of ticks that fit."""
    ratio, limits = tick(type_) / unit, np.iinfo(dtype)
    return ratio, math.ceil(limits.min / ratio), math.floor(limits.max / ratio)


def _stored(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | np.bool_]:
    """The whole numbers behind an array, and where one has more than 64 bits."""
    if types.is_integer(array.type):
        return _buffer(array, np.dtype(array.type.to_pandas_dtype())), np.False_
    words = max(array.type.bit_width // 64, 1)
    values = _buffer(array, np.dtype(np.int32 if array.type.bit_width == 32 else np.int64), words)
    if words == 1:
        return values, np.False_
    table = values.reshape(-1, words)
    low = np.ascontiguousarray(table[:, 0])
    return low, np.any(table[:, 1:] != (low >> 63)[:, None], axis=1)


def _shown(array: pa.Array, row: int, raw: NDArray[Any]) -> str:
    try:
        return str(array[row])
    except (ValueError, OverflowError):  # beyond what Python can write as a date
        return f"{raw[row]} as {array.type}"


def _hashed(array: pa.Array) -> NDArray[np.uint64]:
    """The hashes of an array of text or binary."""
    if len(array) == 0:
        return np.empty(0, np.uint64)
    width = _OFFSETS[array.type.id]
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, width, len(array) + 1, width.itemsize * array.offset)
    if not offsets.flags.aligned:
        offsets = offsets.copy()
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    hashed: NDArray[np.uint64] = _core.hash_bytes(offsets, content)
    return hashed


def _dictionary_hashes(array: pa.DictionaryArray) -> tuple[NDArray[np.uint64], Mask]:
    values = array.dictionary.cast(pa.large_binary())
    if len(values) > len(array):
        taken = values.take(array.indices)
        return _hashed(taken), nulls(taken)
    mask = nulls(array.indices)
    if len(values) == 0:  # nothing but nulls
        return np.zeros(len(array), np.uint64), mask
    places = _buffer(array.indices, np.dtype(array.indices.type.to_pandas_dtype()))
    if mask is not None:
        places = np.where(mask, 0, places)
    missing = nulls(values)
    if missing is not None:
        mask = missing[places] if mask is None else mask | missing[places]
    return _hashed(values)[places], mask
