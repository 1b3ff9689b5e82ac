"""Partitioning: which partitions a row of a distributed join goes to.

One side is *at home*: each of its rows lives in one partition. The other side is *copied*: a row goes to
every partition where a partner can live, so each matching pair meets in exactly one partition. Expressions of
SQL give one or more hashes of a row's keys; its partitions are these hashes modulo the number of partitions.
The hashes are stored with the row: a task checks its rows by them, and a restart with another number of
partitions distributes them anew. They depend on the row alone and never change: stored rows rely on them.

- ``hash``: equalities, by a hash of their keys together. Both sides are at home.
- ``cells``: a band by a hash of cell(x) = floor(x / width + 0.382). The width is a power of two, at least 32
  times the length of the band, so partners of a row lie in one or two cells for each range of the band.
- ``hash+cells``: both, hashed together, so that the rows of one frequent key still spread.
- ``broadcast``: all else. Home rows are dealt by a hash of their keys and time, other rows go everywhere.

Rows that match nothing (a null or NaN in a key, a null time) have null hashes and go to partition 0.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from slidejoin.errors import SpecError
from slidejoin.join_type import join_type
from slidejoin.keys import BoundKey, BoundSpec
from slidejoin.keys.extract import SIDES
from slidejoin.keys.types import HASHED, family, key_tick

Hashes: TypeAlias = Sequence[pa.Array | pa.ChunkedArray]
Rows: TypeAlias = NDArray[np.bool_]

_SPANS = 32  # least width of cells by the length of a band
_NEAR = 8  # ranges of a union are one range if that is at most so many times their total length
_BORDER = 0.382  # where cells begin, by their width: not at round numbers, which are frequent


class Partitioning:
    """Which partitions a row of a distributed join goes to: Spark expressions, and NumPy on what they gave.

    Parameters
    ----------
    bound : BoundSpec
        The join, bound to the columns of both sides.
    how : str
        The join type. ``"full"`` only where both sides are at home (kind ``hash``): otherwise its unmatched
        rows have two homes; use a ``left`` and a ``right_anti`` partitioning.

    Attributes
    ----------
    kind : {"hash", "cells", "hash+cells", "broadcast"}
        How partitions are chosen.
    hashes : int
        Number of hash columns of a copied row. Rows at home use the first alone.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.keys import bind
    >>> from slidejoin.predicate import band
    >>> from slidejoin.spec import join_spec
    >>> columns = pa.schema({"a": pa.int64()})
    >>> ways = Partitioning(bind(join_spec(band("a", within=5), 100), columns, columns), "inner")
    >>> ways.kind, ways.hashes, ways.is_home(0), ways.is_home(1)
    ('cells', 2, False, True)
    >>> ways.describe()
    "cells 2**9 wide of band('a', 'a'); right rows at home, left rows copied to their reach"
    >>> reached = [pa.array([4, 6], pa.int32()), pa.array([5, 6], pa.int32())]
    >>> ways.here(0, reached, partition=1, count=2)
    array([ True, False])
    """

    def __init__(self, bound: BoundSpec, how: str) -> None:
        if bound.spec.self_join:
            raise SpecError(
                "a self-join has one stream, a partitioning two sides; join the stream with itself"
            )
        self.bound = bound
        self._equal = [key for key in bound.keys if _is_equality(key)]
        self._cells = next((cells for key in bound.keys if (cells := _cells(key))), None)
        kinds = ["hash"] * bool(self._equal) + ["cells"] * (self._cells is not None)
        self.kind = "+".join(kinds) or "broadcast"
        self.hashes = 1 if self._cells is None else 2 * len(self._cells.ranges)
        self._home = join_type(how).home
        if self._home is None and self.kind != "hash":
            raise SpecError(
                f"how={how!r} has no one home for its rows; use two partitionings, 'left' and 'right_anti'"
            )

    def is_home(self, side: int) -> bool:
        """Whether each row of a side is in one partition."""
        return self.kind == "hash" or side == self._home

    def hash_columns(self, side: int, column: Callable[[str], Column]) -> list[Column]:
        """The hashes of a row, ``self.hashes`` expressions of type int.

        All are null for rows that match nothing; all but the first are null for rows at home.

        Parameters
        ----------
        side : int
            0 for left rows, 1 for right rows.
        column : callable
            Gives the column of a name, such as ``frame.__getitem__``.
        """
        own = self.bound.spec.reads(side)
        floats = [_name(key, side) for key in self.bound.keys if key.key.kind == "f"]
        known = [column(name).isNotNull() for name in own] + [~F.isnan(column(name)) for name in floats]
        valid = reduce(and_, known)
        if self.kind == "broadcast":
            home = F.hash(*map(column, own)) if self.is_home(side) else F.lit(0)
            return [F.when(valid, home)]
        parts = [_comparable(column(_name(key, side)), key) for key in self._equal]
        if self._cells is None:
            return [F.when(valid, F.hash(*parts))]
        band = column(_name(self._cells.key, side))
        cells = [self._cells.at(band)] if self.is_home(side) else self._cells.reach(band, side)
        found = [F.when(valid, F.hash(*parts, cell)) for cell in cells]
        return found + [F.lit(None).cast("int")] * (self.hashes - len(found))

    def partitions(self, side: int, hashes: Sequence[Column], count: int) -> Column:
        """The distinct partitions of a row by its hashes, as an array of int.

        Parameters
        ----------
        hashes : sequence of Column
            What :meth:`hash_columns` gave, or columns with their values.
        count : int
            Number of partitions.
        """
        if self.is_home(side):
            return F.array(self.home_partition(side, hashes, count))
        lost = F.when(hashes[0].isNull(), F.array(F.lit(0)))
        if self.kind == "broadcast":
            return lost.otherwise(F.sequence(F.lit(0), F.lit(count - 1)))
        first, *others = (F.pmod(each, F.lit(count)) for each in hashes)
        # Most rows reach one cell; array_distinct costs more than all else.
        single = reduce(and_, (other == first for other in others))
        return lost.when(single, F.array(first)).otherwise(F.array_distinct(F.array(first, *others)))

    def home_partition(self, side: int, hashes: Sequence[Column], count: int) -> Column:
        """The partition of a row at home by its hashes, as an int; SpecError if the side is copied."""
        if not self.is_home(side):
            raise SpecError(f"{SIDES[side]} rows are copied and have several partitions; use partitions()")
        return F.coalesce(F.pmod(hashes[0], F.lit(count)), F.lit(0))

    def here(self, side: int, hashes: Hashes, partition: int, count: int) -> Rows:
        """Whether each row may be in a partition. Cost: O(rows).

        Parameters
        ----------
        hashes : sequence of pyarrow.Array or pyarrow.ChunkedArray
            The hash columns of the rows, of type int32.
        """
        found: Rows = (_targets(hashes, count) == partition).any(axis=0)
        return found | ~_null(hashes[0]) if self._goes_everywhere(side) else found

    def first(self, side: int, hashes: Hashes, partition: int, count: int) -> Rows:
        """Whether the copies in a partition are the ones that count: each row has one. Cost: O(rows)."""
        if self._goes_everywhere(side):
            return np.full(len(hashes[0]), partition == 0)
        found: Rows = _targets(hashes[:1], count)[0] == partition
        return found

    def kept(self, side: int, hashes: Hashes, old: tuple[int, int], new: tuple[int, int]) -> Rows:
        """Which rows of an old partition a new one takes over when their number changes. Cost: O(rows).

        From all old partitions together, a new one takes each of its rows once.

        Parameters
        ----------
        old, new : (int, int)
            A partition and the number of partitions.
        """
        if self._goes_everywhere(side):
            lost = _null(hashes[0])
            return np.where(lost, old[0] == new[0] == 0, old[0] == new[0] % old[1])
        # The first of the hashes that lead to the new partition decides, and it leads to one old partition.
        now = _targets(hashes, new[1]) == new[0]
        was = _targets(hashes, old[1]) == old[0]
        taken: Rows = now.any(axis=0) & was[now.argmax(axis=0), np.arange(len(hashes[0]))]
        return taken

    def describe(self) -> str:
        """What decides the partitions, for a reader."""
        parts = [f"hash of {', '.join(map(_shown, self._equal))}"] if self._equal else []
        if self.kind == "hash":
            return f"{parts[0]}; nothing is copied"
        assert self._home is not None
        home, other = SIDES[self._home], SIDES[1 - self._home]
        if self._cells is None:
            return f"{home} rows dealt to all partitions, {other} rows copied to all of them"
        parts.append(f"cells 2**{self._cells.log_width} wide of {_shown(self._cells.key)}")
        return f"{' with '.join(parts)}; {home} rows at home, {other} rows copied to their reach"

    def _goes_everywhere(self, side: int) -> bool:
        return self.kind == "broadcast" and not self.is_home(side)


class _WholeCells:
    """Cells of a band on an exact type other than decimals, in bigint.

    Sums are exact: one outside the range of bigint has no partner and is replaced by the end of the range. An
    interval of partners is at most width / 32 long, so it meets at most one border between cells.
    """

    def __init__(self, key: BoundKey) -> None:
        self.key = key
        ranges = [(Fraction(low[1]), Fraction(high[1])) for low, high in key.ranges]
        self.ranges, length = _joined(ranges, Fraction(1))
        self.log_width = _log2(_SPANS * length)
        self.fits = self.log_width <= 62 and all(abs(end) <= 2**62 for pair in ranges for end in pair)

    def at(self, column: Column) -> Column:
        """The cell of a key."""
        return self._cell(self._read(column))

    def reach(self, column: Column, side: int) -> list[Column]:
        """The first and the last cell of the partners of a key on a side, for each range."""
        number = self._read(column)
        ends = [(low, high) if side == 0 else (-high, -low) for low, high in self.ranges]
        return [self._cell(_cut_sum(number, int(end))) for pair in ends for end in pair]

    def _read(self, column: Column) -> Column:
        return _WHOLE[family(self.key.common) or ""](column)

    def _cell(self, number: Column) -> Column:
        """floor(number / width + 0.382), in parts so that nothing overflows."""
        within = number.bitwiseAND(F.lit(2**self.log_width - 1)) + F.lit(int(_BORDER * 2**self.log_width))
        return F.shiftright(number, self.log_width) + F.shiftright(within, self.log_width)


class _DoubleCells:
    """Cells of a band on floats or decimals, in double.

    The interval of a row's partners is widened on both ends by (abs(x) + abs(bound)) / 2**digits. This
    exceeds the sum of all rounding errors, each at most half a unit in the last place of abs(x) + abs(bound):
    those of the join's own sum, of the sum here and of the widening; for decimals also those of converting
    both keys and the bound. The cells from 2**(digits - 2) cells away from 0 on are one cell on each side.

    An interval meets at most one border between cells, since it is shorter than a width. If no end of it is
    within 2**(digits - 2) widths of 0, it is in one outermost cell: it is far shorter than its distance from
    0. Otherwise, as widths are at least abs(bound) / 2**(digits - 5), its length is at most
    width * (1/32 + 2 * (1/4 + 1/16) + 6/32) < width: the range, the widening, and six rounding errors.

    Infinity is treated as a large number. If a key is infinite or a sum overflows, both keys of a pair are in
    an outermost cell, since widths, and bounds with them, are limited to a small part of the largest float.
    """

    def __init__(self, key: BoundKey) -> None:
        self.key = key
        exact = key.key.kind != "f"
        unit = key_tick(key.common) if exact else Fraction(1)
        ranges = [(Fraction(low[1]) * unit, Fraction(high[1]) * unit) for low, high in key.ranges]
        self._digits, most, self._infinity = _PRECISION["decimal" if exact else key.key.name]
        self.ranges, length = _joined(ranges, unit if exact else Fraction(0))
        farthest = max(abs(end) for pair in ranges for end in pair)
        self.log_width = max(-900, _log2(max(_SPANS * length, farthest / 2 ** (self._digits - 5))))
        self.fits = self.log_width <= most

    def at(self, column: Column) -> Column:
        """The cell of a key."""
        return self._cell(self._read(column))

    def reach(self, column: Column, side: int) -> list[Column]:
        """The first and the last cell of the partners of a key on a side, for each range."""
        number = self._read(column)
        found = []
        for low, high in self.ranges:
            ends = (low, high) if side == 0 else (-high, -low)
            for end, sign in zip(map(float, ends), (-1, 1), strict=True):
                error = (F.abs(number) + F.lit(abs(end))) * F.lit(sign * 2.0**-self._digits)
                found.append(self._cell(number + F.lit(end) + error))
        return found

    def _read(self, column: Column) -> Column:
        """A key in double, without infinity and NaN, which is the greatest number to Spark."""
        return _cut(column.cast("double"), self._infinity)

    def _cell(self, number: Column) -> Column:
        scaled = number * F.lit(2.0**-self.log_width) + F.lit(_BORDER)
        return F.floor(_cut(scaled, 2.0 ** (self._digits - 2)))


def _microseconds(interval: Column) -> Column:
    """A day-time interval in whole minutes and the rest: Spark 3.5 cannot cast more than 10**18 at once."""
    minutes = interval.cast("interval minute").cast("bigint")
    seconds = F.extract(F.lit("SECOND"), interval.cast("interval day to second"))
    return minutes * F.lit(60_000_000) + (seconds * F.lit(1_000_000)).cast("bigint")


# Keys of exact types as bigint. Timestamps without a zone are read by a difference: a cast to a timestamp
# would depend on the session's zone.
_WHOLE: dict[str, Callable[[Column], Column]] = {
    "integer": lambda column: column.cast("bigint"),
    "date": lambda column: F.unix_date(column).cast("bigint"),
    "zoned timestamp": F.unix_micros,
    "naive timestamp": lambda column: _microseconds(column - F.expr("timestamp_ntz'1970-01-01 00:00:00'")),
    "duration": _microseconds,
}

# Digits of the widening, the greatest width as a power of two, and what stands for infinity.
_PRECISION = {
    "float64": (51, 900, 2.0**1000),
    "float32": (22, 100, 2.0**127),
    "decimal": (50, 900, 2.0**1000),
}


def _cells(key: BoundKey) -> _WholeCells | _DoubleCells | None:
    """The cells of a band of which no end is open; None for other conditions and too wide bands."""
    if not key.is_band or _is_equality(key):
        return None
    cells = _WholeCells(key) if family(key.common) in _WHOLE else _DoubleCells(key)
    return cells if cells.fits else None


def _is_equality(key: BoundKey) -> bool:
    return key.op == "equal" or key.ranges == ((("sum", 0), ("sum", 0)),)


def _joined(
    ranges: list[tuple[Fraction, Fraction]], unit: Fraction
) -> tuple[list[tuple[Fraction, Fraction]], Fraction]:
    """Ranges of a band, as one where they are near each other, and the length that the width goes by.

    Ranges that are far apart would make cells too wide to spread: a row is copied for each of them instead.
    """
    reach = ranges[-1][1] - ranges[0][0] + unit
    covered = sum((high - low + unit for low, high in ranges), Fraction(0))
    if reach <= _NEAR * covered:
        return [(ranges[0][0], ranges[-1][1])], max(reach, unit)
    return ranges, max(_NEAR * covered, unit)


def _log2(number: Fraction) -> int:
    """The binary logarithm of a positive number, rounded up."""
    log = number.numerator.bit_length() - number.denominator.bit_length()
    return log + (Fraction(2) ** log < number)


def _cut(number: Column, most: float) -> Column:
    return F.greatest(F.least(number, F.lit(most)), F.lit(-most))


def _cut_sum(number: Column, offset: int) -> Column:
    """A bigint plus an offset, cut to the range of bigint."""
    if offset >= 0:
        return F.least(number, F.lit(2**63 - 1 - offset)) + F.lit(offset)
    return F.greatest(number, F.lit(-(2**63) - offset)) + F.lit(offset)


def _comparable(column: Column, key: BoundKey) -> Column:
    """A key column in a type of which equal keys have equal hashes on both sides."""
    kind, common = family(key.common), key.common
    if kind == "integer":
        return column.cast("bigint")
    if kind == "float":
        return column.cast("double") + F.lit(0.0)  # never -0.0
    if kind in HASHED:
        return column.cast("binary")  # by value, whatever the collation
    if kind == "decimal":
        wide = column.cast(f"decimal({min(common.precision, 38)},{common.scale})")
        if common.precision <= 38:
            return wide
        # Keys fit 64 bits at the common scale; the join refuses others, which must not overflow here.
        return F.when(F.abs(column.cast("double")) < F.lit(2.0**63 / 10.0**common.scale), wide)
    return column


def _name(key: BoundKey, side: int) -> str:
    return (key.left, key.right)[side]


def _shown(key: BoundKey) -> str:
    return f"{key.op}({key.left!r}, {key.right!r})"


def _null(column: pa.Array | pa.ChunkedArray) -> Rows:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _targets(hashes: Hashes, count: int) -> NDArray[np.int32]:
    """The partition of each hash, by hash and row; where it is null, 0 for the first hash and else -1."""
    targets = np.empty((len(hashes), len(hashes[0])), np.int32)
    for number, (target, column) in enumerate(zip(targets, hashes, strict=True)):
        target[:] = column.fill_null(0).to_numpy(zero_copy_only=False) % count
        if number and column.null_count:
            target[_null(column)] = -1
    return targets
