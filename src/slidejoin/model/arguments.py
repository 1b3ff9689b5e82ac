"""Numbers that the model and the planner are given: checked, and refused with what was expected."""

import math
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from slidejoin.errors import SpecError
from slidejoin.model.rational import Floats
from slidejoin.window import is_whole


def as_number(
    name: str,
    given: Any,
    expected: str,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """A finite number between these limits; texts, True and False are none.

    Examples
    --------
    >>> as_number("quota", 0.5, "above 0 and up to 1", above=0, most=1)
    0.5
    """
    number = math.nan
    if isinstance(given, Real | Decimal) and not isinstance(given, bool):
        try:
            number = float(given)
        except (OverflowError, ValueError):
            number = math.inf
    if not (above < number < math.inf and least <= number <= most):
        raise SpecError(f"{name} {given!r}; expected {expected}")
    return number


def as_count(name: str, given: Any, most: int = 2**40) -> int:
    """A whole number from 1 on.

    Examples
    --------
    >>> as_count("units", 3)
    3
    """
    if not is_whole(given) or not 1 <= given <= most:
        raise SpecError(f"{name} {given!r}; expected a whole number, 1 or more, {most:,} at most")
    return int(given)


def as_floats(name: str, given: Any) -> Floats:
    """An array of numbers, of any shape; texts, True and False are none.

    Examples
    --------
    >>> as_floats("left_rates", [1, 2])
    array([1., 2.])
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind in "iufO":
            return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise SpecError(f"{name} are not numbers; expected tuples a second, [intervals] or [intervals, streams]")
