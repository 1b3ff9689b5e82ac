"""A join's description, checked: every error about an argument is raised here."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from slidejoin import _core
from slidejoin.errors import SpecError
from slidejoin.window import Rows, Window, Within, rows

Number: TypeAlias = int | float | Fraction | Decimal

_INTEGERS = (f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
KEY_TYPES = (*_INTEGERS, "float32", "float64")

# Live tuples of one side that the core can address.
MAX_LIVE = 2**31


@dataclass(frozen=True)
class NumericSpec:
    """A checked join of numbers: what :class:`slidejoin.NumericJoin` runs."""

    window: Window
    lower: int | float
    upper: int | float
    key: np.dtype[Any]
    index: str
    self_join: bool
    group: int


def numeric_spec(
    window: int | tuple[int, int] | Window,
    lower: Number,
    upper: Number,
    key: DTypeLike,
    index: str,
    workers: int,
    self_join: bool,
    group: int | None,
) -> NumericSpec:
    """Check the arguments of a NumericJoin and bring them into one form."""
    dtype = check_key(key)
    checked = check_window(window)
    if self_join and isinstance(checked, Rows) and checked.left != checked.right:
        raise SpecError(f"a self-join has one stream and one window, not {checked}; use rows({checked.left})")
    low, high = check_bounds(lower, upper, dtype)
    if workers != 1:
        raise SpecError(f"workers={workers!r}; NumericJoin runs on one thread, use workers=1")
    return NumericSpec(
        window=checked,
        lower=low,
        upper=high,
        key=dtype,
        index=check_index(index, checked),
        self_join=bool(self_join),
        group=check_group(group),
    )


def check_key(key: DTypeLike) -> np.dtype[Any]:
    """The dtype of the keys, if it is one that a join can order."""
    try:
        dtype = np.dtype(key)
    except TypeError:
        raise SpecError(f"key={key!r} is not a NumPy type; use one of {', '.join(KEY_TYPES)}") from None
    if dtype.name not in KEY_TYPES or not dtype.isnative:
        raise SpecError(f"key type {dtype} cannot be joined; use one of {', '.join(KEY_TYPES)}")
    return dtype


def check_window(window: int | tuple[int, int] | Window) -> Window:
    """A window object, from any of the forms that users write."""
    if isinstance(window, tuple):
        if len(window) != 2:
            raise SpecError(f"window={window!r}; a pair (left, right) has two numbers")
        window = rows(left=window[0], right=window[1])
    elif not isinstance(window, Rows | Within):
        if isinstance(window, bool) or not hasattr(window, "__index__"):
            raise SpecError(
                f"window={window!r}; expected a number of rows, a pair (left, right), "
                "sj.rows(...) or sj.within(...)"
            )
        window = rows(window)
    if isinstance(window, Rows) and max(window.left, window.right) > MAX_LIVE:
        raise SpecError(f"{window} holds more than 2**31 tuples of one side, the most a join can hold")
    return window


def check_bounds(lower: Number, upper: Number, dtype: np.dtype[Any]) -> tuple[int, int] | tuple[float, float]:
    """The bounds of a band in the key's own type: whole numbers inside the given ones, or floats."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, bool) or not isinstance(
            bound, int | float | Fraction | Decimal | np.integer | np.floating
        ):
            raise SpecError(f"band {name} is {bound!r}; expected a number")
        if not isinstance(bound, int | Fraction) and not math.isfinite(bound):
            raise SpecError(f"band {name} is {bound}; bounds must be finite")
    if lower > upper:
        raise SpecError(f"band lower {lower} > upper {upper}; bounds are on right - left, swap them")
    if dtype.kind != "f":
        return math.ceil(lower), math.floor(upper)
    return _rounded("lower", lower, dtype), _rounded("upper", upper, dtype)


def _rounded(name: str, bound: Number, dtype: np.dtype[Any]) -> float:
    try:
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(float(bound)))
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded):
        raise SpecError(f"band {name} {bound} is beyond the range of {dtype}")
    return rounded


def check_index(index: str, window: Window) -> str:
    """The name of an index, with ``auto`` decided."""
    names = _core.indexes()
    if index == "auto":
        # A window of a few dozen tuples is scanned faster than searched.
        small = isinstance(window, Rows) and max(window.left, window.right) <= 64
        return "nested-loop" if small else "b-tree"
    if index not in names:
        raise SpecError(f"index={index!r}; expected one of {', '.join(names)}, auto")
    return index


def check_group(group: int | None) -> int:
    """How many arrivals go through together; ``None`` leaves it to us."""
    if group is None:
        return 4096
    if isinstance(group, bool) or not hasattr(group, "__index__") or not 1 <= group <= 2**20:
        raise SpecError(f"group={group!r}; expected a number from 1 to {2**20}, or None")
    return int(group)
