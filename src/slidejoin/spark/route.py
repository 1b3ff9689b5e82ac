"""Router: which groups a row of a distributed join goes to.

One side is *at home*: each of its rows lives in one group. The other is *replicated*: a row goes to every
group where a partner can live, so each matching pair meets in exactly one group. Nothing is sampled, kept or
agreed on: groups follow from the keys alone, by sums and hashes that are fixed for ever, since the state of a
running query is spread by them.

- ``hash``: equalities, and bands of one value, by a hash of all their keys together. Nothing is copied.
- ``cells``: a band by cell(x) = floor(x / width), hashed; a row is copied where its reach meets a border, and
  width is 32 to 64 times the reach. Runs of cells are dealt evenly, far cells at random.
- ``hash+cells``: both, hashed together, so that one hot key still spreads.
- ``broadcast``: half lines and ``not_equal``; home rows are dealt by a hash of their keys and timestamps, the
  others go everywhere.

Rows that match nothing (a null or NaN in a key, a null timestamp) go to group 0.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SpecError
from slidejoin.join_type import join_type
from slidejoin.keys import BoundKey, BoundSpec, BoundTime
from slidejoin.keys.extract import SIDES, Mask
from slidejoin.keys.types import key_type
from slidejoin.spec import JoinSpec

Words: TypeAlias = NDArray[np.uint64]
Keys: TypeAlias = NDArray[Any]

MAX_GROUPS = 2**16

_KEY_PARTS = ("left", "right", "op", "ranges", "verify")

_WIDTH = 32  # cells by the reach of a band, at least
_NEAR = 8  # gaps of a union count while they make it at most so many times wider
_BORDER = 0.382  # where cells begin, by their width: off round numbers, which would all be copied
_RUN_BITS = 6  # cells in a run that is dealt evenly, as a power of two
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: its multiples are the most even ones
_SEED = np.uint64(0xD1B54A32D192ED03)  # keeps 0 away from group 0, where the nulls are
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class Routed:
    """Rows by group: row numbers of a table, one for each copy, and the group of each.

    Sorted by group; within a group the rows are in their order.
    """

    rows: NDArray[np.int64]
    groups: NDArray[np.int32]


class Routing:
    """The way of every row of a join to its groups; made once, sent to every task as JSON.

    Parameters
    ----------
    bound : BoundSpec
        The join, bound to the columns of both sides.
    how : str
        The join type. A full join is not one routing: its rows would need two homes.
    groups : int
        Number of groups, 1 to 65,536.

    Attributes
    ----------
    home : int
        The side whose rows live in one group each: 0 left, 1 right.
    kind : {"hash", "cells", "hash+cells", "broadcast"}
        How groups are chosen.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.keys import bind
    >>> from slidejoin.predicate import band
    >>> from slidejoin.spec import join_spec
    >>> columns = pa.schema({"a": pa.int64()})
    >>> routing = Routing(bind(join_spec(band("a", within=5), 100), columns, columns), "inner", 4)
    >>> routing.describe()
    "cells 2**9 wide of band('a', 'a') in 4 groups; right rows at home, left rows copied to their reach"
    >>> routing.route(pa.table({"a": [0, 315, 9000]}), side=0)
    Routed(rows=array([1, 2, 0, 1]), groups=array([1, 1, 3, 3], dtype=int32))
    """

    def __init__(self, bound: BoundSpec, how: str, groups: int) -> None:
        home = join_type(how).home
        if home is None:
            raise SpecError(f"how={how!r} has no one home for its rows; route a left join and a right one")
        if bound.spec.self_join:
            raise SpecError("a self-join has one stream, a routing two sides; join the stream with itself")
        if isinstance(groups, bool) or not hasattr(groups, "__index__") or not 1 <= groups <= MAX_GROUPS:
            raise SpecError(f"groups={groups!r}; expected a number from 1 to {MAX_GROUPS}")
        self.bound = bound
        self.how = how
        self.groups = int(groups)
        self.home = home
        self._equal = [i for i, key in enumerate(bound.keys) if _is_equality(key)]
        bands = [i for i, key in enumerate(bound.keys) if key.is_band]
        self._banded = next((i for i in bands if i not in self._equal), None)
        self._cells = None if self._banded is None else _Cells(bound.keys[self._banded])
        kinds = ["hash"] * bool(self._equal) + ["cells"] * (self._cells is not None)
        self.kind = "+".join(kinds) or "broadcast"

    def route(self, table: pa.Table, side: int) -> Routed:
        """The groups of the rows of a batch, which follow from each row alone.

        Parameters
        ----------
        side : int
            0 for left rows, 1 for right ones.

        Notes
        -----
        Cost: O(copies); with one key some 30 ns for a row at home, 40 to 70 for one that may be copied.
        """
        rows = np.arange(table.num_rows)
        if self.groups == 1:
            return Routed(rows, np.zeros(len(rows), np.int32))
        keys, lost = self._read(table, side)
        if self.kind == "broadcast":
            if side != self.home:
                return self._everywhere(rows, lost)
            return self._sorted(rows, self._dealt(keys, table, side), lost)
        hashed = self._equal_hashes(keys, side)
        if self._cells is None or self._banded is None:
            return self._sorted(rows, self._group(hashed), lost)
        values = keys[self._banded]
        if side == self.home:
            return self._sorted(rows, self._group(hashed, self._cells.at(values)), lost)
        return self._replicated(rows, hashed, self._cells.partners(values, side), lost)

    def first_groups(self, table: pa.Table, side: int) -> NDArray[np.int32]:
        """One group of each row, the first that it goes to: where the row counts. Cost: that of a route."""
        routed = self.route(table, side)
        first = np.zeros(table.num_rows, np.int32)
        first[routed.rows[::-1]] = routed.groups[::-1]
        return first

    def describe(self) -> str:
        """What decides the groups, for a reader."""
        home, other = SIDES[self.home], SIDES[1 - self.home]
        if self.kind == "broadcast":
            return f"{home} rows dealt to {self.groups} groups, {other} rows copied to all of them"
        parts = []
        if self._equal:
            parts.append("hash of " + ", ".join(map(self._name, self._equal)))
        if self._cells is None or self._banded is None:
            return f"{parts[0]} in {self.groups} groups; nothing is copied"
        parts.append(f"cells 2**{self._cells.log_width} wide of {self._name(self._banded)}")
        return (
            f"{' with '.join(parts)} in {self.groups} groups; "
            f"{home} rows at home, {other} rows copied to their reach"
        )

    def to_json(self) -> dict[str, Any]:
        """The routing as JSON values, exactly; :meth:`from_json` reads them back."""
        keys, time = self.bound.keys, self.bound.time
        types = [key.common for key in keys] + ([] if time is None else [time.type])
        schema = pa.schema([(str(i), type_) for i, type_ in enumerate(types)])
        return {
            "spec": self.bound.spec.to_json(),
            "how": self.how,
            "groups": self.groups,
            "types": base64.b64encode(schema.serialize().to_pybytes()).decode(),
            "keys": [{name: getattr(key, name) for name in _KEY_PARTS} for key in keys],
            "time": None if time is None else {k: v for k, v in asdict(time).items() if k != "type"},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Routing":
        """Read a routing back from the JSON values that :meth:`to_json` gave."""
        try:
            types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["types"]))).types
            keys = tuple(_key(part, type_) for part, type_ in zip(data["keys"], types, strict=False))
            time = None if data["time"] is None else BoundTime(type=types[len(keys)], **data["time"])
            return cls(BoundSpec(JoinSpec.from_json(data["spec"]), keys, time), data["how"], data["groups"])
        except (TypeError, KeyError, ValueError, IndexError, pa.ArrowException) as error:
            raise SpecError(f"{data!r} is not the JSON form of a routing: {error!r}") from None

    def _name(self, number: int) -> str:
        key = self.bound.keys[number]
        return f"{key.op}({key.left!r}, {key.right!r})"

    def _read(self, table: pa.Table, side: int) -> tuple[list[Keys], Mask]:
        """All keys of a batch, and which rows can match nothing (``None``: no row)."""
        keys, lost = [], []
        for key in self.bound.keys:
            values, mask = key.extract(table, side)
            keys.append(values)
            lost.append(mask)
            if key.key.kind == "f" and (nan := np.isnan(values)).any():
                lost.append(nan)
        if self.bound.time is not None:
            lost.append(self.bound.time.extract(table, side)[1])
        masks = [mask for mask in lost if mask is not None]
        return keys, np.logical_or.reduce(masks) if masks else None

    def _equal_hashes(self, keys: Sequence[Keys], side: int) -> Words | None:
        """One hash of what must be equal in a match; ``None`` where nothing must."""
        hashed: Words | None = None
        for i in self._equal:
            words = _words(keys[i], self.bound.keys[i], side)
            hashed = _mix(words + (_SEED if hashed is None else hashed))
        return hashed

    def _dealt(self, keys: Sequence[Keys], table: pa.Table, side: int) -> Words:
        """Groups of home rows whose partners may be anywhere: a row's own, whichever task reads it."""
        hashed: Any = _SEED
        for values in keys:
            hashed = _mix(_bits(values) + hashed)
        if self.bound.time is not None:
            hashed = _mix(self.bound.time.extract(table, side)[0].view(np.uint64) + hashed)
        return self._group(hashed)

    def _group(self, hashed: Words | None, cells: Words | None = None) -> Words:
        """The home of each hash and cell: the group whose part of the hashes it falls in.

        Multiples of the golden ratio deal neighbouring cells evenly; the mix of each run's number keeps
        keys at regular distances from following them.
        """
        total: Any = _SEED if hashed is None else hashed
        if cells is not None:
            total = total + cells * _GOLDEN + _mix(cells >> np.uint64(_RUN_BITS))
        group: Words = ((total >> np.uint64(32)) * np.uint64(self.groups)) >> np.uint64(32)
        return group

    def _sorted(self, rows: NDArray[np.int64], groups: NDArray[Any], lost: Mask) -> Routed:
        """Copies by group; ``lost`` are the rows among them that go to group 0."""
        short = groups.astype(np.uint8 if self.groups <= 2**8 else np.uint16)  # sorted by radix
        if lost is not None:
            short[lost] = 0
        order = np.argsort(short, kind="stable")
        counts = np.bincount(short, minlength=self.groups)
        return Routed(rows[order], np.repeat(np.arange(self.groups, dtype=np.int32), counts))

    def _everywhere(self, rows: NDArray[np.int64], lost: Mask) -> Routed:
        valid = rows if lost is None else rows[~lost]
        counts = [len(rows)] + [len(valid)] * (self.groups - 1)
        groups = np.repeat(np.arange(self.groups, dtype=np.int32), counts)
        return Routed(np.concatenate([rows] + [valid] * (self.groups - 1)), groups)

    def _replicated(
        self,
        rows: NDArray[np.int64],
        hashed: Words | None,
        reach: Sequence[tuple[Words, Words]],
        lost: Mask,
    ) -> Routed:
        """Copies in all groups of the cells that a row reaches; most rows reach one cell."""
        first = reach[0][0]
        several = np.zeros(len(rows), np.bool_)
        for low, high in reach:
            several |= high != first
            if low is not first:
                several |= low != first
        if lost is not None:
            several &= ~lost
        groups = self._group(hashed, first)
        wide = np.flatnonzero(several)
        if not len(wide):
            return self._sorted(rows, groups, lost)
        copied, targets = self._copies(
            None if hashed is None else hashed[wide], [(low[wide], high[wide]) for low, high in reach]
        )
        counts = np.ones(len(rows), np.int64)
        counts[wide] = np.bincount(copied, minlength=len(wide))
        copies = np.repeat(rows, counts)
        all_groups = groups[copies]
        all_groups[several[copies]] = targets
        return self._sorted(copies, all_groups, None if lost is None else lost[copies])

    def _copies(
        self, hashed: Words | None, reach: Sequence[tuple[Words, Words]]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Rows and the distinct groups of all cells of their reach, by row; all groups where cells abound."""
        numbers = np.arange(len(reach[0][0]))
        beyond = np.zeros(len(numbers), np.bool_)
        codes = []
        for low, high in reach:
            steps = np.minimum(high - low, np.uint64(self.groups)).astype(np.int64)
            full = steps >= self.groups
            beyond |= full
            counts = np.where(full, 0, steps + 1)
            row = np.repeat(numbers, counts)
            step = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            group = self._group(None if hashed is None else hashed[row], low[row] + step.astype(np.uint64))
            codes.append(row * self.groups + group.astype(np.int64))
        everywhere = np.flatnonzero(beyond)[:, None] * self.groups + np.arange(self.groups)
        rising = np.sort(np.concatenate([*codes, everywhere.ravel()]))
        distinct = rising[np.append(True, rising[1:] != rising[:-1])]  # np.unique is several times slower
        row = distinct // self.groups
        return row, (distinct - row * self.groups).astype(np.uint64)


class _Cells:
    """Numbers the cells of a band's keys: a function that never falls, as words that may wrap."""

    def __init__(self, key: BoundKey) -> None:
        self._ranges: list[tuple[Any, Any]] = [(lower[1], upper[1]) for lower, upper in key.ranges]
        self._dtype = key.key
        self._whole = key.key.kind != "f"
        width = _log_width(self._ranges, self._whole)
        if self._whole:
            self.log_width = min(width, 63)
            # The sum may wrap: a reach across the end then seems to go all the way round, and is copied
            # everywhere. One that does go round must not seem narrow, so the widest cells begin at 0.
            self._border = int(_BORDER * 2**width) if width < 63 else 0
        else:
            self.log_width = max(-900, min(width, 1000))  # scaling loses neither the small nor the large
            self._scale = 2.0**-self.log_width
            # From here on neighbouring floats are at least a cell apart.
            self._digits = 23 if key.key == np.float32 else 52

    def at(self, values: Keys) -> Words:
        """The cells of keys."""
        if self._whole:
            wide = values.astype(np.int64 if self._dtype.kind == "i" else np.uint64, copy=False)
            return ((wide + wide.dtype.type(self._border)) >> wide.dtype.type(self.log_width)).view(np.uint64)
        with np.errstate(over="ignore"):
            scaled = values.astype(np.float64) * self._scale + _BORDER
        near = np.abs(scaled) < 2.0**self._digits
        if near.all():
            return np.floor(scaled).astype(np.int64).view(np.uint64)
        # Far away every float is a cell of its own, numbered on in the order of floats; so are infinities.
        bits = np.abs(scaled).view(np.int64) - np.float64(2.0**self._digits).view(np.int64)
        far = 2**self._digits + (bits >> (52 - self._digits))
        cells = np.floor(np.where(near, scaled, 0.0)).astype(np.int64)
        numbers: NDArray[np.int64] = np.where(near, cells, np.where(scaled < 0, -far, far))
        return numbers.view(np.uint64)

    def partners(self, values: Keys, side: int) -> list[tuple[Words, Words]]:
        """The first and the last cell where partners of keys on a side can lie, for each range."""
        ends = self._whole_ends if self._whole else self._float_ends
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for lower, upper in self._ranges:
                low, high = ends(values, side, lower, upper)
                found.append((self.at(low), self.at(high)))
        return found

    def _whole_ends(self, values: Keys, side: int, lower: int, upper: int) -> tuple[Keys, Keys]:
        if side == 0:
            return _cut_sum(values, lower), _cut_sum(values, upper)
        return _cut_sum(values, -upper), _cut_sum(values, -lower)

    def _float_ends(self, values: Keys, side: int, lower: float, upper: float) -> tuple[Keys, Keys]:
        low, high = self._dtype.type(lower), self._dtype.type(upper)
        if side == 0:
            return values + low, values + high
        # Let r+ be the float after r. If the rounded left + lower is at most r, the exact one is below r+,
        # so left < r+ - lower, and left, a float, is at most that difference rounded. Widening the rounded
        # r - lower instead is not enough: 1e-17 + 1 is 1, far from the floats next to 1 - 1.
        infinity = self._dtype.type(np.inf)
        return np.nextafter(values, -infinity) - high, np.nextafter(values, infinity) - low


def _is_equality(key: BoundKey) -> bool:
    """Whether a left key has one right partner; the empty band, which has none, counts as such."""
    if len(key.ranges) != 1:
        return False
    lower, upper = key.ranges[0]
    return lower[0] == upper[0] != "none" and lower[1] >= upper[1]


def _log_width(ranges: Sequence[tuple[int | float, int | float]], whole: bool) -> int:
    """The width of a band's cells, a power of two: 32 to 64 times its reach, gaps of a union included.

    Ranges that are far apart would make cells too wide to spread; a row is copied for each of them instead.
    """
    exact = [(Fraction(lower), Fraction(upper)) for lower, upper in ranges]
    reach = exact[-1][1] - exact[0][0]
    covered = sum(upper - lower + whole for lower, upper in exact)
    width = _WIDTH * (min(reach, _NEAR * covered) if covered else reach)
    log = width.numerator.bit_length() - width.denominator.bit_length()
    return log + (Fraction(2) ** log < width)


def _cut_sum(values: Keys, offset: int) -> Keys:
    """Integers plus an offset, cut to the range of their type."""
    limits = np.iinfo(values.dtype)
    most = int(limits.max) - int(limits.min)
    offset = max(-most, min(most, offset))
    if offset >= 0:
        values = np.minimum(values, values.dtype.type(limits.max - offset))
    else:
        values = np.maximum(values, values.dtype.type(limits.min - offset))
    # The offset itself may need one bit more than the type; the sum does not, so it may wrap on the way.
    wrapped = np.array([offset % 2**limits.bits], f"u{values.itemsize}").view(values.dtype)
    return values + wrapped


def _words(values: Keys, key: BoundKey, side: int) -> Words:
    """Keys of an equality as words: the same for a left and a right key that match."""
    kind, offset = key.ranges[0][0]
    shifted = kind == "sum" and side == 0
    if key.key.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            values = values + key.key.type(offset if shifted else 0.0)  # never -0.0
        return values.view(f"u{key.key.itemsize}").astype(np.uint64, copy=False)
    words = values.astype(np.int64 if key.key.kind == "i" else np.uint64, copy=False).view(np.uint64)
    return words + np.uint64(int(offset) % 2**64) if shifted else words


def _bits(values: Keys) -> Words:
    """The bits of keys as words."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)


def _mix(words: Words) -> Words:
    """Spread every bit over all others: the finaliser of SplitMix64, by D. Stafford."""
    mixed = words ^ (words >> np.uint64(30))
    mixed *= _FACTORS[0]
    mixed ^= mixed >> np.uint64(27)
    mixed *= _FACTORS[1]
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _key(data: Mapping[str, Any], common: pa.DataType) -> BoundKey:
    ranges = tuple(((lower[0], lower[1]), (upper[0], upper[1])) for lower, upper in data["ranges"])
    return BoundKey(key=key_type(common), common=common, **{**data, "ranges": ranges})


def group_ids(groups: int, partitions: int) -> list[int]:
    """Ids of groups that Spark spreads evenly: that of group i goes to shuffle partition i % partitions.

    Cost: about ``groups + partitions * log(partitions)`` hashes.

    Examples
    --------
    >>> ids = group_ids(4, 2)
    >>> [(each, spark_hash(each) % 2) for each in ids]
    [(2, 0), (0, 1), (4, 0), (1, 1)]
    """
    if groups < 1 or partitions < 1:
        raise SpecError(f"{groups} groups in {partitions} partitions; expected at least 1 of each")
    found: list[list[int]] = [[] for _ in range(partitions)]
    missing, number = groups, 0
    while missing:
        place = spark_hash(number) % partitions
        if place + len(found[place]) * partitions < groups:
            found[place].append(number)
            missing -= 1
        number += 1
    return [found[i % partitions][i // partitions] for i in range(groups)]


def spark_hash(number: int, seed: int = 42) -> int:
    """Spark SQL's ``hash`` of one int: Murmur3 of 32 bits, by A. Appleby, of its 4 bytes."""
    mixed = (number & _LOW) * 0xCC9E2D51 & _LOW
    mixed = _rotated(mixed, 15) * 0x1B873593 & _LOW
    state = (_rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & _LOW
    state ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & _LOW
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


_LOW = 2**32 - 1


def _rotated(word: int, places: int) -> int:
    return (word << places | word >> (32 - places)) & _LOW
