"""Keys: a join's description bound to the columns of two Arrow schemas.

:func:`bind` finds the columns of every condition, the type in which both sides are compared, and what each
predicate means on the native numbers of that type: ranges of right keys for a left key. Every error about
types is raised here, before the first row; what only a value can tell is raised by ``extract``, before any
row of its batch is used.

``types`` says what compares with what, ``extract`` reads Arrow memory, ``time`` binds the timestamps of a
window.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SchemaError, SpecError
from slidejoin.keys.extract import (
    SIDES,
    Mask,
    column_type,
    find,
    floats,
    hashes,
    integers,
    readable,
)
from slidejoin.keys.time import BoundTime, bind_time
from slidejoin.keys.types import HASHED, TIMED, common_type, described, family, key_tick, key_type
from slidejoin.native import Bound
from slidejoin.predicate import Conjunct
from slidejoin.spec import JoinSpec, round_bound
from slidejoin.window import format_duration

__all__ = ["Bound", "BoundKey", "BoundSpec", "BoundTime", "bind", "bind_time"]

Ranges: TypeAlias = tuple[tuple[Bound, Bound], ...]

_OPEN: Bound = ("none", 0)
_SAME: Bound = ("step", 0)
_NEXT: Bound = ("step", 1)
_PREVIOUS: Bound = ("step", -1)

# Where the right key of a match lies, by the left key.
COMPARISONS: dict[str, Ranges] = {
    "equal": ((_SAME, _SAME),),
    "not_equal": ((_OPEN, _PREVIOUS), (_NEXT, _OPEN)),
    "less": ((_NEXT, _OPEN),),
    "less_equal": ((_SAME, _OPEN),),
    "greater": ((_OPEN, _PREVIOUS),),
    "greater_equal": ((_OPEN, _SAME),),
}


@dataclass(frozen=True)
class BoundKey:
    """A condition on two columns in the native type that the core joins on.

    Attributes
    ----------
    left, right, op : str
        The columns and the predicate.
    key : numpy.dtype
        The native type: that of both columns' common type, or uint64 for the hashes of text and binary.
    common : pyarrow.DataType
        The type in which both sides are compared. Dates of both kinds are compared by the day.
    ranges : tuple of (Bound, Bound)
        Where the right keys of a match lie; a union, in rising order. Ranges of floats may still meet
        after rounding. A band with no whole number in it is one range whose lower end is above its upper.
    verify : str, optional
        ``"equal"`` or ``"not_equal"`` where keys are hashes and the values must be compared.
    """

    left: str
    right: str
    op: str
    key: np.dtype[Any]
    common: pa.DataType
    ranges: Ranges
    verify: str | None

    @property
    def is_band(self) -> bool:
        """Whether it is a band, or several, of which no end is open."""
        return self.op in ("band", "bands") and _OPEN not in self.ranges[0]

    def readable(self, type_: pa.DataType) -> int | None:
        """How the core reads keys out of a column of a type (``NativeBatch.read``); None if it does not."""
        return readable(type_, self.common)

    def extract(self, table: pa.Table, side: int) -> tuple[NDArray[Any], Mask]:
        """The keys of a batch, contiguous, and where they are null (``None``: nowhere).

        What stands under a null is anything. A value that the common type cannot hold is a SchemaError.
        Cost: O(rows); nothing for one chunk of the key's own type.
        """
        name = (self.left, self.right)[side]
        where = f"{SIDES[side]} column {name!r}"
        column = find(table, side, name, self.common)
        kind = family(self.common)
        if kind in HASHED:
            return hashes(column)
        if kind == "float":
            return floats(column, where, self.key)
        limit = str(self.common)
        if kind == "decimal":
            limit = f"64 bits at scale {self.common.scale}, that of both columns together"
        elif kind == "date":
            limit = f"whole days in {self.key}"
        return integers(column, where, key_tick(self.common), self.key, limit)


@dataclass(frozen=True)
class BoundSpec:
    """A join bound to its columns: the conjuncts in their order, and the time of its window if it has one."""

    spec: JoinSpec
    keys: tuple[BoundKey, ...]
    time: BoundTime | None


def bind(
    spec: JoinSpec, left: pa.Schema, right: pa.Schema, unit: str | None = None, known: int | None = None
) -> BoundSpec:
    """Bind a join to the columns of two schemas; raises SchemaError if they do not fit.

    Times are counted in a unit that is not coarser than ``unit``. If the columns of one side are a guess,
    ``known`` is the other side, which errors name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.predicate import less
    >>> from slidejoin.spec import join_spec
    >>> bound = bind(join_spec(less("a"), 10), pa.schema({"a": pa.int8()}), pa.schema({"a": pa.uint8()}))
    >>> bound.keys[0].key, bound.keys[0].ranges
    (dtype('int16'), ((('step', 1), ('none', 0)),))
    """
    if spec.self_join:
        known = 0
    lefts, rights = (
        {name: column_type(schema, side, name, origin) for name, origin in spec.reads(side).items()}
        for side, schema in enumerate((left, right))
    )
    keys = tuple(_bind_key(each, lefts[each.left], rights[each.right], known) for each in spec.on.conjuncts)
    time = None
    if spec.time is not None:
        time = bind_time(spec.window, spec.time, lefts[spec.time[0]], rights[spec.time[1]], unit, known)
    return BoundSpec(spec, keys, time)


def _bind_key(conjunct: Conjunct, left: pa.DataType, right: pa.DataType, known: int | None) -> BoundKey:
    pair = described((conjunct.left, conjunct.right), left, right, known)
    common = common_type(pair, left, right)
    key = key_type(common)
    verify = None
    if family(common) in HASHED:
        if conjunct.op not in ("equal", "not_equal"):
            raise SchemaError(
                f"{conjunct.op} on {pair}: text and binary have no order here; use equal or not_equal"
            )
        verify = conjunct.op
        ranges = COMPARISONS["equal"] if verify == "equal" else ((_OPEN, _OPEN),)
    elif conjunct.ranges:
        ranges = _sum_ranges(conjunct, pair, common, key)
    else:
        ranges = COMPARISONS[conjunct.op]
    return BoundKey(conjunct.left, conjunct.right, conjunct.op, key, common, ranges, verify)


def _sum_ranges(conjunct: Conjunct, pair: str, common: pa.DataType, key: np.dtype[Any]) -> Ranges:
    """The ranges of a conjunct in the key's type: sorted, without empty ones, those that meet merged."""
    kind = family(common)
    if kind == "boolean":
        raise SchemaError(
            f"{conjunct.op} on {pair}: booleans have no distance; use equal, or less without an offset"
        )
    sample = next(bound for bound in reversed(conjunct.ranges[0]) if bound is not None)
    if kind in TIMED and not conjunct.timed and any(bound for pair in conjunct.ranges for bound in pair):
        raise SchemaError(
            f"{conjunct.op} on {pair}: the bound {sample} is a plain number; "
            f"give it a unit, such as '{sample}{'d' if kind == 'date' else 's'}'"
        )
    if conjunct.timed and kind not in TIMED:
        raise SchemaError(
            f"{conjunct.op} on {pair}: the bound '{format_duration(sample)}' is a duration; "
            "give a plain number"
        )
    unit = Fraction(1) if kind == "float" else key_tick(common)
    strict = conjunct.op in ("less", "greater")
    try:
        ranges = [
            (_end("lower", lower, unit, key, strict), _end("upper", upper, unit, key, strict))
            for lower, upper in conjunct.ranges
        ]
    except SpecError as error:
        raise SpecError(f"{conjunct.op} on {pair}: {error}") from None
    return tuple(ranges) if len(ranges) == 1 else _merged(ranges, kind != "float")


def _end(name: str, bound: Fraction | None, unit: Fraction, key: np.dtype[Any], strict: bool) -> Bound:
    """The lower or upper end of a range: a float, or the last whole number inside."""
    if bound is None:
        return _OPEN
    if key.kind == "f":
        return "beyond" if strict else "sum", round_bound(name, bound, key)
    sign = 1 if name == "lower" else -1
    exact = sign * bound / unit
    return "sum", sign * (math.floor(exact) + 1 if strict else math.ceil(exact))


def _merged(ranges: Sequence[tuple[Bound, Bound]], whole: bool) -> Ranges:
    """Closed ranges in rising order, each number in one of them; at least one, if only an empty one."""
    pairs = [(lower[1], upper[1]) for lower, upper in ranges]
    merged: list[tuple[int | float, int | float]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if merged and low <= merged[-1][1] + whole:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple((("sum", low), ("sum", high)) for low, high in merged or pairs[:1])
