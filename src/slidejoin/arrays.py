"""Arrays: sides, keys and timestamps as users give them, in the form that the core reads.

No value is ever changed: one that the type of the join cannot hold exactly is refused, and the error names
its place and a type that can hold it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slidejoin.errors import SchemaError
from slidejoin.spec import KEY_TYPES
from slidejoin.window import Window

_TWO_ARRAYS = (
    "two arrays are joined by pushing one, then the other: "
    "push(np.zeros(len(left), np.uint8), left), push(np.ones(len(right), np.uint8), right)"
)
_DATETIMES = "np.asarray(times, 'datetime64[ns]')"


def same_length(array: NDArray[Any], name: str, keys: NDArray[Any]) -> NDArray[Any]:
    if len(array) != len(keys):
        raise SchemaError(f"{name} has {len(array)} elements and keys has {len(keys)}; expected as many")
    return array


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Anything one-dimensional as NumPy reads it."""
    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else np.False_
    if masked.any():
        raise SchemaError(
            f"{name}[{masked.argmax()}] is masked; fill the masked values with .filled(...) or drop them"
        )
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{name} is not a one-dimensional array: {error}") from None
    if array.ndim != 1:
        raise SchemaError(f"{name} has {array.ndim} dimensions; expected a one-dimensional array")
    return array


def sides_of(sides: ArrayLike | None) -> NDArray[np.uint8]:
    """Sides as uint8; the core checks the values of arrays that have this type already."""
    if sides is None:
        raise SchemaError("sides is missing; give 0 for left or 1 for right for each key")
    array = _array("sides", sides)
    if not array.size:
        return np.empty(0, np.uint8)
    if array.dtype != np.uint8:
        if array.dtype.kind not in "iub":
            raise SchemaError(
                f"sides has type {array.dtype}; it tells which side each key is on, 0 for left or 1 for "
                f"right; {_TWO_ARRAYS}"
            )
        wrong = (array != 0) & (array != 1)
        if wrong.any():
            i = int(wrong.argmax())
            raise SchemaError(f"sides[{i}] is {array[i]}; expected 0 for left or 1 for right; {_TWO_ARRAYS}")
    return np.ascontiguousarray(array, np.uint8)


def column(name: str, values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A contiguous one-dimensional array of the dtype, without changing any value.

    Integers become floats if every value is exact as a float. Any other conversion that may lose digits is
    refused by its type, so that a stream fails at its first push. Python lists are converted by their values.
    """
    array = _array(name, values)
    if not array.size:
        return np.empty(0, dtype)
    if not hasattr(values, "__array__"):
        return _from_list(name, list(values), array, dtype)  # type: ignore[arg-type]
    if array.dtype.kind == "f" and not isinstance(values, np.ndarray):
        _check_nullable(name, values, array)
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.dtype.kind == "O":
        return _from_list(name, array.tolist(), array, dtype)
    if array.dtype.kind not in "iufb":
        expected = "integers, or " + _DATETIMES if name == "times" else f"{dtype}{_as_number(array.dtype)}"
        raise SchemaError(f"{name} has type {array.dtype}; expected {expected}")
    to_float = array.dtype.kind in "iu" and dtype.kind == "f"
    if to_float or not np.can_cast(array.dtype, dtype, "safe"):
        kept = _kept(array, dtype)
        if not kept.all():
            i = int(kept.argmin())
            raise SchemaError(_refusal(name, i, array[i].item(), dtype))
        if not to_float:
            other = array.dtype.name if array.dtype.name in KEY_TYPES else "float64"
            instead = f"make the join with key=np.{other}, or " if name == "keys" else ""
            raise SchemaError(
                f"{name} has type {array.dtype}, expected {dtype}; {instead}"
                f"convert with .astype(np.{dtype.name}), which keeps every value here"
            )
    return array.astype(dtype)


def _check_nullable(name: str, values: ArrayLike, array: NDArray[Any]) -> None:
    """Refuse integers with nulls, of Arrow, pandas or Polars, that were rounded to float64."""
    type_ = str(getattr(values, "dtype", getattr(values, "type", "")))
    large = np.abs(array) >= 2**53
    if type_.lower().startswith(("int", "uint")) and large.any():
        raise SchemaError(
            f"{name}[{large.argmax()}] is beyond 2**53, and {type_} with nulls becomes float64 in NumPy, "
            "which rounds it; drop the nulls and make the join with key=np.int64"
        )


def _as_number(dtype: np.dtype[Any]) -> str:
    if dtype.kind != "M":
        return ""
    return f"; drop NaT and use .astype(np.int64), whole {np.datetime_data(dtype)[0]} since 1970"


def _kept(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Which numbers the dtype holds exactly."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(dtype)
        if (array.dtype.kind == "f") == (dtype.kind == "f"):
            return np.asarray((converted == array) | np.isnan(array))
        # From floats to integers, or the other way round; values out of range must not be cast.
        floats, integer = (array, dtype) if array.dtype.kind == "f" else (converted, array.dtype)
        limits = np.iinfo(integer)
        inside = (floats >= float(limits.min)) & (floats < 2.0 ** int(limits.max).bit_length())
        return np.asarray(inside & (np.where(inside, floats, 0).astype(integer) == array))


def _from_list(name: str, values: list[Any], array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert Python numbers one by one: NumPy turns some lists of integers (``array``) into floats."""
    exact = array.dtype.kind in "iu" or (
        array.dtype == dtype and {type(value) for value in values} == {float}
    )
    if exact and (array.dtype == dtype or _kept(array, dtype).all()):
        return array.astype(dtype)
    return np.array([_number(name, i, value, dtype) for i, value in enumerate(values)], dtype)


def _number(name: str, i: int, value: Any, dtype: np.dtype[Any]) -> int | float:
    """A Python number as the dtype holds it: exactly, but floats are rounded to float32, None is NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None and dtype.kind == "f":
        return math.nan
    try:
        if not isinstance(value, int | float):
            raise ValueError
        with np.errstate(over="ignore"):
            held: int | float = dtype.type(value if dtype.kind == "f" else int(value)).item()
    except (ValueError, OverflowError):
        raise SchemaError(_refusal(name, i, value, dtype)) from None
    rounded = isinstance(value, float) and dtype.kind == "f" and math.isinf(held) == math.isinf(value)
    if held != value and not rounded:
        raise SchemaError(_refusal(name, i, value, dtype))
    return held


def _refusal(name: str, i: int, value: Any, dtype: np.dtype[Any]) -> str:
    """Why a value is refused, and which key type would hold it."""
    what = f"{name}[{i}] is {value!r}"
    number = isinstance(value, int | float | np.floating)
    if name == "times":
        return (
            f"{what}; expected whole numbers of 64 bits, or {_DATETIMES} and a window such as within('10s')"
        )
    if not number and str(value) not in ("None", "<NA>", "NaT"):
        return f"{what}; expected numbers"
    if not number or (not isinstance(value, int) and math.isnan(value)):
        return (
            f"{what}, and {dtype} has no nulls; drop them, or make the join with key=np.float64, where NaN "
            "never matches (whole numbers are exact up to 2**53)"
        )
    if isinstance(value, int):
        holds = [key for key in ("int64", "uint64") if np.iinfo(key).min <= value <= np.iinfo(key).max]
    else:
        holds = ["float64"] if dtype != np.float64 else []
    remedy = f"make the join with key=np.{holds[0]}" if holds else "no key type does; convert it first"
    if dtype.kind == "f" and not isinstance(value, int) and abs(value) <= float(np.finfo(dtype).max):
        remedy += f", or round the keys yourself with .astype(np.{dtype.name})"
    return f"{what}, which {dtype} cannot hold exactly; {remedy}"


def timestamps(times: ArrayLike | None, window: Window) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Timestamps as int64, and a mask of those that are missing (NaT), where there are any."""
    if times is None:
        raise SchemaError("times are missing; a time window needs one timestamp for each key")
    array = _array("times", times)
    if not array.size:
        return np.empty(0, np.int64), None
    if window.timed and array.dtype.kind != "M":
        raise SchemaError(_not_datetimes(array))
    if array.dtype.kind != "M":
        return column("times", times, np.dtype(np.int64)), None
    if not window.timed:
        raise SchemaError(
            f"times have type {array.dtype}, but the window's duration is the plain number "
            f"{window.durations['duration']}; give it a unit, such as '10s'"
        )
    nanoseconds = array.astype("datetime64[ns]", copy=False)
    missing = np.isnat(array)
    kept = missing | (nanoseconds.astype(array.dtype, copy=False) == array)
    if not kept.all():
        i = int(kept.argmin())
        raise SchemaError(f"times[{i}] is {array[i]}, beyond the range or the precision of datetime64[ns]")
    return np.ascontiguousarray(nanoseconds).view(np.int64), missing if missing.any() else None


def _not_datetimes(array: NDArray[Any]) -> str:
    """The error about times that are not datetime64, for a window whose duration has a unit."""
    for i, time in enumerate(array):
        if getattr(time, "tzinfo", None) is not None:
            return (
                f"times[{i}] is {time!r}, which has a time zone; take UTC without one: .tz_convert(None) "
                "of a pandas index, .dt.tz_convert(None) of a series, "
                "[t.astimezone(timezone.utc).replace(tzinfo=None) for t in times] of a list"
            )
    cure = f"give {_DATETIMES}" if array.dtype.kind not in "iufb" else "give datetime64 timestamps"
    return (
        f"times have type {array.dtype}, but the window's duration has a unit; {cure}, "
        "or the duration as a whole number and the times as integers"
    )
