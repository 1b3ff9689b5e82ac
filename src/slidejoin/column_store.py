"""Keepers: the values of one column by row, one kind for each kind of type.

=============================  =====================================================================
fixed width, bool              one NumPy array; a take is one ``np.take``
strings, binary, their views   offsets and bytes in two NumPy arrays, read by one Arrow take
dictionary                     indices as above, into one dictionary that forgets unused values
extension, run-end encoded     the keeper of what they wrap
everything else (nested)       Arrow blocks that double in size, a take for each block touched
=============================  =====================================================================

Arrow's own take on chunked arrays joins all chunks first, so it costs O(live rows) for each batch; this is
why columns are kept contiguous. An append costs O(rows) amortised, O(rows log(live / rows)) for nested
columns, and O(values in use) when it brings a new dictionary; a take costs O(positions). Memory stays within
a small factor of the live rows: input is copied, so no batch is kept alive by a row of it.
"""

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.errors import SchemaError

# The bytes that 32-bit offsets can address; a longer column of strings comes out in several chunks.
MAX_BYTES = 2**31 - 1
# Elements that are not worth giving back.
SLACK = 256


# Bytes from which on memory is asked of Arrow, which keeps it for the next result: the system's has to be
# cleared each time.
LARGE = 2**20


def gathered(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Values of an unsigned type, by row."""
    size = len(rows) * values.itemsize
    if size < LARGE:
        out = np.empty(len(rows), values.dtype)
    else:
        out = np.frombuffer(pa.allocate_buffer(size), values.dtype)
    _core.take(values, rows, out)
    return out


class Picks:
    """Rows to take, counted from the first one kept, and which of them are missing (row 0, if so)."""

    def __init__(self, rows: NDArray[np.int64], missing: NDArray[np.bool_] | None) -> None:
        self.rows = rows
        self.missing = missing

    @cached_property
    def arrow(self) -> pa.Array:
        return pa.array(self.rows, mask=self.missing)

    @cached_property
    def present(self) -> pa.Buffer | None:
        """The bitmap of the rows that are not missing, or None if none is."""
        return None if self.missing is None else _bitmap(~self.missing)

    def halves(self) -> tuple["Picks", "Picks"]:
        middle = len(self.rows) // 2
        first, second = slice(None, middle), slice(middle, None)
        missing = self.missing
        return (
            Picks(self.rows[first], None if missing is None else missing[first]),
            Picks(self.rows[second], None if missing is None else missing[second]),
        )


class Keeper(Protocol):
    @property
    def nbytes(self) -> int: ...
    def append(self, array: pa.Array) -> None: ...
    def truncate(self, rows: int) -> None: ...
    def drop(self, rows: int) -> None: ...
    def take(self, picks: Picks) -> pa.Array | pa.ChunkedArray: ...


class Flat:
    """A NumPy array that grows at its end and is dropped from its start."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.data: NDArray[Any] = np.zeros(SLACK, dtype)
        self.start = self.stop = 0

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def live(self) -> NDArray[Any]:
        return self.data[self.start : self.stop]

    def extend(self, count: int) -> NDArray[Any]:
        """Room for more elements at the end, to be filled by the caller."""
        if self.stop + count > len(self.data):
            needed = len(self) + count
            self._move(len(self.data) if needed <= len(self.data) // 2 else 2 * needed)
        self.stop += count
        return self.data[self.stop - count : self.stop]

    def drop(self, count: int) -> None:
        self.start += count
        if self.start == self.stop:
            self.start = self.stop = 0
        if len(self.data) > 8 * len(self) + SLACK:
            self._move(2 * len(self) + SLACK)

    def _move(self, capacity: int) -> None:
        """Bring the live elements to the front, of a new array if the capacity changes."""
        size = len(self)
        data = self.data if capacity == len(self.data) else np.zeros(capacity, self.data.dtype)
        data[:size] = self.live
        self.data, self.start, self.stop = data, 0, size


class Validity:
    """Which rows of a column are not null: a byte for each, once there has been a null."""

    def __init__(self) -> None:
        self._flat: Flat | None = None
        self._rows = 0

    @property
    def nbytes(self) -> int:
        return self._flat.data.nbytes if self._flat else 0

    def append(self, array: pa.Array) -> None:
        if array.null_count and self._flat is None:
            self._flat = Flat(np.dtype(np.uint8))
            self._flat.extend(self._rows)[:] = 1
        if self._flat is not None:
            self._flat.extend(len(array))[:] = _bits(array, 0) if array.null_count else 1
        self._rows += len(array)

    def truncate(self, rows: int) -> None:
        if self._flat is not None:
            self._flat.stop = self._flat.start + rows
        self._rows = rows
        if not rows:
            self._flat = None

    def drop(self, rows: int) -> None:
        self._rows -= rows
        if self._flat is not None:
            self._flat.drop(rows)
            if not self._rows:
                self._flat = None

    def take(self, picks: Picks) -> pa.Buffer | None:
        """The bitmap of the rows taken, or None if all are valid."""
        if self._flat is None:
            return picks.present
        valid = self._flat.live.take(picks.rows, mode="clip")
        if picks.missing is not None:
            valid[picks.missing] = 0
        return None if valid.all() else _bitmap(valid)


class Fixed:
    """Values of a fixed width."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._is_bool = pa.types.is_boolean(type_)
        width = 1 if self._is_bool else type_.byte_width
        self._values = Flat(np.dtype(f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"))
        self._validity = Validity()

    @property
    def nbytes(self) -> int:
        return self._values.data.nbytes + self._validity.nbytes

    def append(self, array: pa.Array) -> None:
        if not len(array):
            return
        room = self._values.extend(len(array))
        room[:] = _bits(array, 1) if self._is_bool else _elements(array, 1, room.dtype, len(array))
        self._validity.append(array)

    def borrow(self, array: pa.Array) -> bool:
        """Read the values where they stand, for takes only; False where they cannot be."""
        if self._is_bool or not len(array):
            return False
        values = _elements(array, 1, self._values.data.dtype, len(array))
        if not values.flags.aligned:
            return False
        self._values.data, self._values.stop = values, len(array)
        self._validity.append(array)
        return True

    def truncate(self, rows: int) -> None:
        self._values.stop = self._values.start + rows
        self._validity.truncate(rows)

    def drop(self, rows: int) -> None:
        self._values.drop(rows)
        self._validity.drop(rows)

    @property
    def live(self) -> NDArray[Any]:
        return self._values.live

    def values(self, picks: Picks) -> tuple[pa.Buffer | None, NDArray[Any]]:
        """The bitmap and the values of the rows taken; what stands under a null means nothing."""
        # One element more than live, so that there is a row 0 even when all rows are missing.
        start = self._values.start
        source = self._values.data[start : max(self._values.stop, start + 1)]
        if source.dtype.kind == "u":
            return self._validity.take(picks), gathered(source, picks.rows)
        return self._validity.take(picks), source.take(picks.rows, mode="clip")

    def take(self, picks: Picks) -> pa.Array:
        bitmap, values = self.values(picks)
        data = _bitmap(values) if self._is_bool else pa.py_buffer(values.view(np.uint8))
        return pa.Array.from_buffers(self._type, len(values), [bitmap, data])


class Bytes:
    """Strings and binary values: 64-bit offsets and bytes, whatever the offsets of their type."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        is_text = type_ in (pa.string(), pa.large_string(), pa.string_view())
        self._large = pa.large_string() if is_text else pa.large_binary()
        self._narrow = type_ in (pa.string(), pa.binary())
        self._offsets = Flat(np.dtype(np.int64))  # one more than rows
        self._offsets.extend(1)
        self._data = Flat(np.dtype(np.uint8))
        self._validity = Validity()

    @property
    def nbytes(self) -> int:
        return self._offsets.data.nbytes + self._data.data.nbytes + self._validity.nbytes

    def append(self, array: pa.Array) -> None:
        if array.type in (pa.string_view(), pa.binary_view()):
            array = array.cast(self._large)
        if not len(array):
            return
        width = np.dtype(np.int32 if self._narrow else np.int64)
        offsets = _elements(array, 1, width, len(array) + 1)
        data = array.buffers()[2]
        begin, end = int(offsets[0]), int(offsets[-1])
        before = self._data.start
        room = self._data.extend(end - begin)
        if data is not None:
            room[:] = np.frombuffer(data, np.uint8)[begin:end]
        self._moved(before)
        ends = self._offsets.extend(len(array))
        np.subtract(offsets[1:], begin - (self._data.stop - (end - begin)), out=ends, dtype=np.int64)
        self._validity.append(array)

    def truncate(self, rows: int) -> None:
        self._offsets.stop = self._offsets.start + rows + 1
        self._data.stop = int(self._offsets.live[-1])
        self._validity.truncate(rows)

    def drop(self, rows: int) -> None:
        self._offsets.drop(rows)
        begin = int(self._offsets.live[0])
        self._data.drop(begin - self._data.start)
        self._moved(begin)
        self._validity.drop(rows)

    def _moved(self, before: int) -> None:
        """Follow the bytes, which began at ``before``, to where they begin now."""
        if self._data.start != before:
            self._offsets.live[:] -= before - self._data.start

    def take(self, picks: Picks) -> pa.Array | pa.ChunkedArray:
        count = len(picks.rows)
        if len(self._offsets) == 1:  # no row to stand in for the missing ones
            return pa.nulls(count, self._type)
        offsets, data = _core.take_bytes(self._offsets.live, self._data.data, picks.rows)
        if self._narrow:
            if offsets[-1] > MAX_BYTES and count > 1:
                return _chunked(self._type, [self.take(half) for half in picks.halves()])
            offsets = offsets.astype(np.int32)
        type_ = self._type if self._narrow else self._large
        buffers = [self._validity.take(picks), pa.py_buffer(offsets), pa.py_buffer(data)]
        array = pa.Array.from_buffers(type_, count, buffers)
        return array if type_ == self._type else array.cast(self._type)


class Dictionary:
    """Indices into one dictionary: the values of all batches so far, those in use at least."""

    def __init__(self, type_: pa.DictionaryType) -> None:
        self._type = type_
        self._index_type = np.dtype(type_.index_type.to_pandas_dtype())
        self._indices = Fixed(pa.int64())
        self._plain = _plain(type_.value_type)
        self._values = pa.nulls(0, self._plain)
        self._output = pa.nulls(0, type_.value_type)
        self._batch = self._output  # the latest batch's dictionary, and its place in ours
        self._places: NDArray[np.int64] = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._indices.nbytes + int(self._values.get_total_buffer_size()) + self._places.nbytes

    def append(self, array: pa.DictionaryArray) -> None:
        if not len(array):
            return
        if len(array.dictionary) != len(self._batch) or not array.dictionary.equals(self._batch):
            self._learn(array.dictionary)
        indices = array.indices
        if not len(self._places):  # nothing but nulls
            self._indices.append(pa.nulls(len(array), pa.int64()))
            return
        codes = indices.fill_null(0).to_numpy(zero_copy_only=False)
        places = self._places.take(codes.astype(np.int64, copy=False))
        self._indices.append(pa.array(places, mask=_bits(indices, 0) == 0 if indices.null_count else None))

    def _learn(self, batch: pa.Array) -> None:
        """Add the values of a batch's dictionary that ours lacks."""
        if len(self._values) > 2 * (len(self._indices.live) + len(self._batch)) + SLACK:
            self._forget()
        values = batch if self._plain == batch.type else batch.cast(self._plain)
        known = len(self._values)
        try:
            found = pc.index_in(values, value_set=self._values)
        except pa.ArrowNotImplementedError:  # nested values: kept again for every new dictionary
            found = pa.nulls(len(values), pa.int32())
        new = found.is_null()
        places = found.fill_null(0).to_numpy().astype(np.int64)
        is_new = _bits(new, 1).view(np.bool_)
        places[is_new] = np.arange(known, known + int(is_new.sum()))
        self._set_values(pa.concat_arrays([self._values, values.filter(new)]))
        self._batch, self._places = pa.concat_arrays([batch]), places

    def _forget(self) -> None:
        """Drop the values that no live row has."""
        live = self._indices.live
        used, renumbered = np.unique(live, return_inverse=True)
        live[:] = renumbered
        self._set_values(self._values.take(pa.array(used)))

    def _set_values(self, values: pa.Array) -> None:
        self._values = values
        self._output = values if values.type == self._type.value_type else values.cast(self._type.value_type)

    def truncate(self, rows: int) -> None:
        self._indices.truncate(rows)

    def drop(self, rows: int) -> None:
        self._indices.drop(rows)

    def take(self, picks: Picks) -> pa.Array | pa.ChunkedArray:
        bitmap, indices = self._indices.values(picks)
        values = self._output
        if len(values) > int(np.iinfo(self._index_type).max) + 1:
            used, indices = np.unique(indices, return_inverse=True)
            if len(used) > int(np.iinfo(self._index_type).max) + 1:
                return _chunked(self._type, [self.take(half) for half in picks.halves()])
            values = self._values.take(pa.array(used)).cast(self._type.value_type)
        codes = pa.py_buffer(indices.astype(self._index_type, copy=False))
        return pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(self._type.index_type, len(indices), [bitmap, codes]),
            values,
            ordered=self._type.ordered,
            safe=False,
        )


class Blocks:
    """Any other type: Arrow arrays, each at least twice as long as the next one."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._plain = _plain(type_)
        self._blocks: list[pa.Array] = []
        self._dead = 0  # rows of the first block that were dropped
        sample = pa.nulls(1, type_).cast(self._plain)  # fails here if the type can never be taken
        pa.concat_arrays([sample, sample]).take(pa.array([1])).cast(type_)

    @property
    def nbytes(self) -> int:
        return sum(int(block.get_total_buffer_size()) for block in self._blocks)

    def append(self, array: pa.Array) -> None:
        blocks = self._blocks
        blocks.append(_copy(array if array.type == self._plain else array.cast(self._plain)))
        while len(blocks) > 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
            dead = self._dead if len(blocks) == 2 else 0
            try:
                older = _copy(blocks[-2].slice(dead)) if dead else blocks[-2]
                merged = pa.concat_arrays([older, blocks[-1]])
            except pa.ArrowInvalid:  # too long for 32-bit offsets
                break
            blocks[-2:] = [merged]
            self._dead -= dead

    def truncate(self, rows: int) -> None:
        excess = sum(map(len, self._blocks)) - self._dead - rows
        while excess > 0:
            last = self._blocks.pop()
            if len(last) > excess:
                self._blocks.append(last.slice(0, len(last) - excess))
            excess -= len(last)
        self._dead = self._dead if self._blocks else 0

    def drop(self, rows: int) -> None:
        self._dead += rows
        while self._blocks and self._dead >= len(self._blocks[0]):
            self._dead -= len(self._blocks.pop(0))
        if self._blocks and self._dead > len(self._blocks[0]) // 2:
            self._blocks[0] = _copy(self._blocks[0].slice(self._dead))
            self._dead = 0

    def take(self, picks: Picks) -> pa.Array | pa.ChunkedArray:
        try:
            if picks.missing is None:
                taken = self._gather(picks.rows)
            else:
                present = ~picks.missing
                places = pa.array(np.cumsum(present) - 1, mask=picks.missing)
                taken = pc.take(self._gather(picks.rows[present]), places, boundscheck=False)
            # The copy of views of lists leaves the values of other rows behind.
            return (_copy(taken) if "list_view" in str(self._type) else taken).cast(self._type)
        except pa.ArrowInvalid:  # too long for 32-bit offsets
            if len(picks.rows) < 2:
                raise
            return _chunked(self._type, [self.take(half) for half in picks.halves()])

    def _gather(self, rows: NDArray[np.int64]) -> pa.Array:
        if not len(rows):
            return pa.nulls(0, self._plain)
        rows = rows + self._dead
        starts = np.cumsum([0, *map(len, self._blocks)])
        block_of = np.searchsorted(starts, rows, side="right") - 1
        counts = np.bincount(block_of, minlength=len(self._blocks))
        order = np.argsort(block_of.astype(np.uint8), kind="stable") if (counts > 0).sum() > 1 else None
        grouped = rows if order is None else rows[order]
        parts = []
        for block, start, count in zip(self._blocks, starts, counts, strict=False):
            if count:
                parts.append(pc.take(block, pa.array(grouped[:count] - start), boundscheck=False))
                grouped = grouped[count:]
        if order is None:
            return parts[0]
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return pc.take(pa.concat_arrays(parts), pa.array(places), boundscheck=False)


class Wrapped:
    """A type that stands for another one: extension types, run-end encoding."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._is_extension = isinstance(type_, pa.BaseExtensionType)
        self._inner = _for_type(type_.storage_type if self._is_extension else type_.value_type)

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    def append(self, array: pa.Array) -> None:
        self._inner.append(array.storage if self._is_extension else pc.run_end_decode(array))

    def truncate(self, rows: int) -> None:
        self._inner.truncate(rows)

    def drop(self, rows: int) -> None:
        self._inner.drop(rows)

    def take(self, picks: Picks) -> pa.Array | pa.ChunkedArray:
        taken = self._inner.take(picks)
        if isinstance(taken, pa.ChunkedArray):
            return _chunked(self._type, [self._wrap(chunk) for chunk in taken.chunks])
        return self._wrap(taken)

    def _wrap(self, array: pa.Array) -> pa.Array:
        if self._is_extension:
            return pa.ExtensionArray.from_storage(self._type, array)
        return pc.run_end_encode(array, run_end_type=self._type.run_end_type)


def keeper(field: pa.Field) -> Keeper:
    try:
        return _for_type(field.type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"column {field.name!r} has type {field.type}, which cannot be kept for a join ({error}); "
            "cast it to a plainer type"
        ) from None


def take_once(column: pa.ChunkedArray, field: pa.Field, picks: Picks) -> pa.Array | pa.ChunkedArray:
    """Rows of a column that is not kept. Cost: as a take, and a copy of what is not one chunk of numbers."""
    kept = keeper(field)
    if not len(picks.rows):
        return pa.nulls(0, field.type)
    borrowed = isinstance(kept, Fixed) and column.num_chunks == 1 and kept.borrow(column.chunk(0))
    if not borrowed:
        for chunk in column.chunks:
            kept.append(chunk)
    return kept.take(picks)


def _for_type(type_: pa.DataType) -> Keeper:
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType) or kind.is_run_end_encoded(type_):
        return Wrapped(type_)
    if kind.is_dictionary(type_):
        return Dictionary(type_)
    if type_ in _BYTES:
        return Bytes(type_)
    is_fixed = kind.is_primitive(type_) or kind.is_decimal(type_) or kind.is_fixed_size_binary(type_)
    if (is_fixed and type_.bit_width) or type_ == pa.month_day_nano_interval():
        return Fixed(type_)
    return Blocks(type_)


_BYTES = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
)


def _plain(type_: pa.DataType) -> pa.DataType:
    """A type with the same values that Arrow can take from without keeping more than them."""
    kind = pa.types
    if type_ == pa.string_view():
        return pa.large_string()
    if type_ == pa.binary_view():
        return pa.large_binary()
    if kind.is_dictionary(type_):
        return _plain(type_.value_type)
    if kind.is_struct(type_):
        return pa.struct([field.with_type(_plain(field.type)) for field in type_])
    if kind.is_map(type_):
        return pa.map_(_plain(type_.key_type), type_.item_field.with_type(_plain(type_.item_type)))
    if kind.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_plain(type_.value_type)), type_.list_size)
    if kind.is_list(type_):
        return pa.list_(type_.value_field.with_type(_plain(type_.value_type)))
    if kind.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_plain(type_.value_type)))
    return type_


def _copy(array: pa.Array) -> pa.Array:
    """A copy that keeps nothing of a longer parent alive."""
    if "dense_union" in str(array.type):  # a concatenation keeps their values whole
        return pc.take(array, pa.array(np.arange(len(array))), boundscheck=False)
    return pa.concat_arrays([array])


def _chunked(type_: pa.DataType, parts: list[pa.Array | pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [c for part in parts for c in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.chunked_array(chunks, type_)


def _elements(array: pa.Array, buffer: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Elements of a buffer from the array's first row on."""
    return np.frombuffer(array.buffers()[buffer], dtype, count, array.offset * dtype.itemsize)


def _bits(array: pa.Array, buffer: int) -> NDArray[np.uint8]:
    """Bits of a buffer, one byte each, from the array's first row on."""
    first, skipped = divmod(array.offset, 8)
    packed = np.frombuffer(array.buffers()[buffer], np.uint8, (skipped + len(array) + 7) // 8, first)
    return np.unpackbits(packed, count=skipped + len(array), bitorder="little")[skipped:]


def _bitmap(bits: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
