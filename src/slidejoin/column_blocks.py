"""Nested columns: Arrow arrays that double in size.

Arrow's own take on chunked arrays joins all chunks first, so it costs O(live rows) for each batch; here a
take reads each block that it touches. An append costs O(rows log(live / rows)) amortised. With ``spill=`` a
block that has become large goes to a mapped file, and is not joined with others any more.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core, spill


class Blocks:
    """Arrow arrays, each at least twice as long as the next one. Never changed: calls return a new one.

    The first ``in_files`` blocks are in files, and may have any length.
    """

    def __init__(
        self,
        type_: pa.DataType,
        first: int,
        blocks: tuple[pa.Array, ...] = (),
        dead: int = 0,
        files: _core.NativeSpill | None = None,
        in_files: int = 0,
    ) -> None:
        self._type = type_
        self._plain = plain_type(type_)
        self._first = first  # position of the first live row
        self._blocks = blocks
        self._dead = dead  # rows of the first block that were dropped
        self._files = files if blocks or (files and spill.can_spill(self._plain)) else None
        self._in_files = in_files
        if not blocks:  # fails here if the type can never be taken
            sample = pa.nulls(1, type_).cast(self._plain)
            pa.concat_arrays([sample, sample]).take(pa.array([1])).cast(type_)

    @property
    def nbytes(self) -> int:
        return sum(int(block.get_total_buffer_size()) for block in self._blocks[self._in_files :])

    @property
    def spilled(self) -> int:
        return sum(int(block.get_total_buffer_size()) for block in self._blocks[: self._in_files])

    def appended(self, at: int, array: pa.Array) -> "Blocks":
        before = self.limited(self._first, at)
        blocks, dead, in_files = list(before._blocks), before._dead, before._in_files
        blocks.append(_copy(array if array.type == self._plain else array.cast(self._plain)))
        while len(blocks) > in_files + 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
            gone = dead if len(blocks) == 2 else 0
            try:
                older = _copy(blocks[-2].slice(gone)) if gone else blocks[-2]
                merged = pa.concat_arrays([older, blocks[-1]])
            except pa.ArrowInvalid:  # too long for 32-bit offsets
                break
            blocks[-2:] = [merged]
            dead -= gone
        if self._files is not None and blocks[in_files].get_total_buffer_size() >= spill.BLOCK:
            blocks[in_files] = spill.spilled(self._files, blocks[in_files])
            in_files += 1
        return self._with(self._first, blocks, dead, in_files)

    def limited(self, first: int, after: int) -> "Blocks":
        blocks, dead, in_files = list(self._blocks), self._dead, self._in_files
        excess = sum(map(len, blocks)) - dead - (after - self._first)
        while excess > 0:
            last = blocks.pop()
            if len(last) > excess:
                blocks.append(last.slice(0, len(last) - excess))
            excess -= len(last)
        dead = dead if blocks else 0
        if first > self._first:
            dead += first - self._first
            while blocks and dead >= len(blocks[0]):
                dead -= len(blocks.pop(0))
                in_files = max(in_files - 1, 0)
            if blocks and not in_files and dead > len(blocks[0]) // 2:
                blocks[0] = _copy(blocks[0].slice(dead))
                dead = 0
        return self._with(max(first, self._first), blocks, dead if blocks else 0, min(in_files, len(blocks)))

    def _with(self, first: int, blocks: list[pa.Array], dead: int, in_files: int) -> "Blocks":
        return Blocks(self._type, first, tuple(blocks), dead, self._files, in_files)

    def take(self, positions: NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
        missing = positions == -1
        try:
            if not missing.any():
                taken = self._gather(positions - self._first)
            else:
                present = ~missing
                places = pa.array(np.cumsum(present) - 1, mask=missing)
                taken = pc.take(self._gather(positions[present] - self._first), places, boundscheck=False)
            # The copy of views of lists leaves the values of other rows behind.
            return (_copy(taken) if "list_view" in str(self._type) else taken).cast(self._type)
        except pa.ArrowInvalid:  # too long for 32-bit offsets
            if len(positions) < 2:
                raise
            middle = len(positions) // 2
            return chunked(self._type, [self.take(positions[:middle]), self.take(positions[middle:])])

    def _gather(self, rows: NDArray[np.int64]) -> pa.Array:
        if not len(rows):
            return pa.nulls(0, self._plain)
        rows = rows + self._dead
        starts = np.cumsum([0, *map(len, self._blocks)])
        block_of = np.searchsorted(starts, rows, side="right") - 1
        counts = np.bincount(block_of, minlength=len(self._blocks))
        number = np.uint8 if len(self._blocks) <= 256 else np.uint32  # few bits are sorted faster
        order = np.argsort(block_of.astype(number), kind="stable") if (counts > 0).sum() > 1 else None
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


def chunked(type_: pa.DataType, parts: list[Any]) -> pa.ChunkedArray:
    """Arrays and chunked arrays as one column."""
    chunks = [c for part in parts for c in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.chunked_array(chunks, type_)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """A type with the same values that Arrow can take from without keeping more than them."""
    kind = pa.types
    if type_ == pa.string_view():
        return pa.large_string()
    if type_ == pa.binary_view():
        return pa.large_binary()
    if kind.is_dictionary(type_):
        return plain_type(type_.value_type)
    if kind.is_struct(type_):
        return pa.struct([field.with_type(plain_type(field.type)) for field in type_])
    if kind.is_map(type_):
        return pa.map_(plain_type(type_.key_type), type_.item_field.with_type(plain_type(type_.item_type)))
    if kind.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)), type_.list_size)
    if kind.is_list(type_):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
    if kind.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(plain_type(type_.value_type)))
    return type_


def _copy(array: pa.Array) -> pa.Array:
    """A copy that keeps nothing of a longer parent alive."""
    if "dense_union" in str(array.type):  # a concatenation keeps their values whole
        return pc.take(array, pa.array(np.arange(len(array))), boundscheck=False)
    return pa.concat_arrays([array])
