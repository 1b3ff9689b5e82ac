"""Types: which columns can be compared, in what type, and what one unit of their numbers is worth.

Two columns compare if they are of one family; their common type is the wider or the finer of both. All but
floats, text and binary are whole numbers of a *tick*: 1 for integers, 10**-scale for decimals, and a number
of nanoseconds for times. Two columns meet at the tick of their common type, exactly.
"""

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from slidejoin.errors import SchemaError

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = Fraction(86_400 * 10**9)

TIMED = frozenset({"date", "naive timestamp", "zoned timestamp", "duration", "time of day"})
HASHED = frozenset({"text", "binary"})

_FAMILIES = {
    "boolean": (types.is_boolean,),
    "integer": (types.is_integer,),
    "float": (types.is_floating,),
    "decimal": (types.is_decimal,),
    "date": (types.is_date,),
    "duration": (types.is_duration,),
    "time of day": (types.is_time,),
    "text": (types.is_string, types.is_large_string, types.is_string_view),
    "binary": (
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
    ),
}


def decoded(type_: pa.DataType) -> pa.DataType:
    """The type of a column's values, behind a dictionary or runs."""
    return type_.value_type if types.is_dictionary(type_) or types.is_run_end_encoded(type_) else type_


@cache
def family(type_: pa.DataType) -> str | None:
    """What kind of values a type holds; ``None`` if a join cannot compare them."""
    runs, type_ = types.is_run_end_encoded(type_), decoded(type_)
    if runs and (types.is_string_view(type_) or types.is_binary_view(type_)):
        return None  # Arrow cannot decode them
    if types.is_timestamp(type_):
        return "naive timestamp" if type_.tz is None else "zoned timestamp"
    for name, tests in _FAMILIES.items():
        if any(test(type_) for test in tests):
            return name
    return None


def described(names: tuple[str, str], left: pa.DataType, right: pa.DataType, known: int | None) -> str:
    """Both columns of a condition, or that of the one known side, for messages."""
    columns = f"left column {names[0]!r} ({left})", f"right column {names[1]!r} ({right})"
    return " and ".join(columns) if known is None else columns[known]


def common_type(pair: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which two columns are compared, or a SchemaError that says why they cannot be."""
    kind, other = family(left), family(right)
    if kind is None or other is None:
        wrong = left if kind is None else right
        hint = ": no value says which type is meant; give the column one" if pa.types.is_null(wrong) else ""
        raise SchemaError(f"{pair} cannot be compared: keys of type {wrong} are not supported{hint}")
    if kind != other:
        remedy = "give the naive one a zone" if kind.split()[-1] == other.split()[-1] else "cast one of them"
        raise SchemaError(f"{pair} cannot be compared: {kind} with {other}; {remedy}")
    common = _promoted(kind, decoded(left), decoded(right))
    if common is None:
        raise SchemaError(
            f"{pair} cannot be compared: no integer type holds both; cast one of them, such as to int64"
        )
    return common


def _promoted(kind: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type of two types of one family."""
    if kind in ("integer", "float"):
        promoted = np.promote_types(left.to_pandas_dtype(), right.to_pandas_dtype())
        if kind == "integer":
            return None if promoted.kind == "f" else pa.from_numpy_dtype(promoted)
        return pa.float64() if promoted == np.float64 else pa.float32()
    if kind == "decimal":
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale
        make = pa.decimal256 if max(digits, scale) > 38 else pa.decimal128
        return make(min(max(digits, 1), 76), scale)
    if kind == "date":
        return left if left == right else pa.date64()
    if kind == "time of day":
        unit = finer(left.unit, right.unit)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if kind == "duration":
        return pa.duration(finer(left.unit, right.unit))
    if kind.endswith("timestamp"):
        zone = left.tz if left.tz == right.tz else "UTC"
        return pa.timestamp(finer(left.unit, right.unit), zone)
    return {"boolean": pa.bool_(), "text": pa.large_string(), "binary": pa.large_binary()}[kind]


def finer(left: str, right: str) -> str:
    """The finer of two units of time."""
    return min(left, right, key=NANOSECONDS.__getitem__)


def key_type(common: pa.DataType) -> np.dtype[Any]:
    """The type of the numbers that the core joins on."""
    kind = family(common)
    if kind in ("integer", "float"):
        native: np.dtype[Any] = np.dtype(common.to_pandas_dtype())
        return native
    if kind == "boolean":
        return np.dtype(np.uint8)
    if kind in HASHED:
        return np.dtype(np.uint64)
    return np.dtype(np.int32 if types.is_date32(common) or types.is_time32(common) else np.int64)


def tick(type_: pa.DataType) -> Fraction:
    """What 1 stands for in the whole numbers that Arrow stores: a number, or nanoseconds."""
    if types.is_decimal(type_):
        return Fraction(1, 10**type_.scale) if type_.scale >= 0 else Fraction(10**-type_.scale)
    if types.is_date32(type_):
        return DAY
    if types.is_date64(type_):
        return Fraction(NANOSECONDS["ms"])
    return Fraction(NANOSECONDS[type_.unit]) if family(type_) in TIMED else Fraction(1)


def key_tick(common: pa.DataType) -> Fraction:
    """What 1 stands for in the keys of a common type; dates of both kinds are compared by the day."""
    return DAY if types.is_date(common) else tick(common)
