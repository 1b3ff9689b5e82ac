"""Predicates: which left and right tuples match, by their columns.

Every function makes a :class:`Predicate` of one condition; ``&`` combines predicates. Bounds are kept as
exact fractions, so that equal descriptions are equal, have equal hashes and survive JSON. A float bound
stands for the decimal number that it prints as: 0.3 is 3/10, also on decimal columns. Types are checked
later, when a join binds its predicate to the columns of two schemas.

Bounds and offsets are added to the left column, in every condition: ``band`` is
``left + lower <= right <= left + upper``, ``less`` is ``left + offset < right``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from slidejoin.errors import SpecError
from slidejoin.window import format_duration, mixes_units, parse_duration

Bound: TypeAlias = int | float | Fraction | Decimal | str | timedelta | np.timedelta64

Range: TypeAlias = tuple[Fraction | None, Fraction | None]

_UPWARDS = ("less", "less_equal")  # the offset is the lower end of a half line
_DOWNWARDS = ("greater", "greater_equal")  # it is the upper end
COMPARISONS = ("equal", "not_equal", *_UPWARDS, *_DOWNWARDS)


@dataclass(frozen=True, repr=False)
class Conjunct:
    """One condition on a left and a right column.

    ``ranges`` holds the (lower, upper) bounds on right - left of ``band`` and ``bands``, and of a comparison
    with an offset; ``None`` is an open end. They are in nanoseconds if they were given as durations
    (``timed``).
    """

    op: str
    left: str
    right: str
    ranges: tuple[Range, ...] = ()
    timed: bool = False

    def __repr__(self) -> str:
        parts = [repr(self.left)] if self.left == self.right else [repr(self.left), repr(self.right)]
        ranges = [(self._literal(lower), self._literal(upper)) for lower, upper in self.ranges]
        if self.op == "bands":
            parts.append(f"ranges=[{', '.join(f'({lower}, {upper})' for lower, upper in ranges)}]")
        elif self.op in COMPARISONS:
            parts += [f"offset={bound}" for pair in ranges for bound in pair if bound is not None]
        else:
            ((lower, upper),), ((low, high),) = self.ranges, ranges
            if lower is not None and upper == -lower:
                parts.append(f"within={high}")
            else:
                parts += [
                    f"{name}={end}" for name, end in (("lower", low), ("upper", high)) if end is not None
                ]
        return f"{self.op}({', '.join(parts)})"

    def to_json(self) -> dict[str, Any]:
        """The conjunct as JSON values."""
        data: dict[str, Any] = {"op": self.op, "left": self.left, "right": self.right}
        if self.ranges:
            write = format_duration if self.timed else str
            data["ranges"] = [[None if end is None else write(end) for end in pair] for pair in self.ranges]
        return data

    def _literal(self, bound: Fraction | None) -> str | None:
        if bound is None:
            return None
        return repr(format_duration(bound)) if self.timed else _number_literal(bound)


@dataclass(frozen=True, repr=False)
class Predicate:
    """Conditions that all hold for a match; made by :func:`band`, :func:`equal` and their like, and ``&``."""

    conjuncts: tuple[Conjunct, ...]

    def __and__(self, other: object) -> "Predicate":
        if not isinstance(other, Predicate):
            raise SpecError(f"{self} & {other!r}; {other!r} is not a predicate, such as {example(other)}")
        return Predicate(self.conjuncts + other.conjuncts)

    def __rand__(self, other: object) -> "Predicate":
        raise SpecError(f"{other!r} & {self}; {other!r} is not a predicate, such as {example(other)}")

    def __or__(self, other: object) -> "Predicate":
        raise SpecError("conditions are joined by & only; a union of bands is bands(..., ranges=[...])")

    __ror__ = __or__

    def __invert__(self) -> "Predicate":
        raise SpecError("a condition has no ~; use not_equal, or the comparison the other way round")

    def __bool__(self) -> bool:
        raise SpecError("a predicate is neither true nor false; combine predicates with &, not with 'and'")

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.conjuncts))

    def to_json(self) -> dict[str, Any]:
        """The predicate as JSON values, exactly: bounds are texts such as ``"1/3"`` and ``"5s"``.

        Examples
        --------
        >>> band("price", within=0.5).to_json()["conjuncts"][0]["ranges"]
        [['-1/2', '1/2']]
        """
        return {"conjuncts": [conjunct.to_json() for conjunct in self.conjuncts]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Predicate":
        """Read a predicate back from the JSON values that :meth:`to_json` gave."""
        try:
            conjuncts = [part for entry in data["conjuncts"] for part in _from_json(entry).conjuncts]
            if not conjuncts:
                raise SpecError("it has no conjuncts")
        except (TypeError, KeyError, ValueError, ZeroDivisionError) as error:
            raise SpecError(f"{data!r} is not the JSON form of a predicate: {error}") from None
        return cls(tuple(conjuncts))


def example(given: Any) -> str:
    """A predicate as users write it: what was probably meant by something else, or any one."""
    parts = [given] if isinstance(given, str) else given
    if isinstance(parts, list | tuple) and parts and all(isinstance(part, str | Predicate) for part in parts):
        return " & ".join(f"sj.equal({part!r})" if isinstance(part, str) else f"sj.{part}" for part in parts)
    return "sj.band('price', within=0.5)"


def band(
    left: str,
    right: str | None = None,
    *,
    within: Bound | None = None,
    lower: Bound | None = None,
    upper: Bound | None = None,
) -> Predicate:
    """Match ``left + lower <= right <= left + upper``.

    Parameters
    ----------
    left, right : str
        Names of the columns; the right one is the left one's unless given.
    within : number, str or timedelta, optional
        The band from ``-within`` to ``within``. Numbers for numeric columns, durations (``"5s"`` or a
        timedelta) for columns of times.
    lower, upper : number, str or timedelta, optional
        The bounds on right - left, where they are not symmetric. One alone leaves the other end open.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.band("price", within=0.5)
    band('price', within=0.5)
    >>> sj.band("x", "y", lower=-3, upper=10)
    band('x', 'y', lower=-3, upper=10)
    >>> sj.band("x", lower=5)  # left + 5 <= right
    band('x', lower=5)
    """
    _refuse_number("band", left, right, "within")
    if within is not None:
        if lower is not None or upper is not None:
            raise SpecError("band got within and lower or upper; give within=0.5 or lower=-0.5, upper=0.5")
        reach, timed = _exact("band within", within)
        if reach < 0:
            raise SpecError(f"band within {within} is negative; expected a distance of 0 or more")
        return _predicate("band", left, right, ((-reach, reach),), timed)
    low: Fraction | None = None
    high: Fraction | None = None
    if lower is not None and upper is not None:
        low, high, timed = _range("band", lower, upper)
    elif lower is not None:
        low, timed = _exact("band lower", lower)
    elif upper is not None:
        high, timed = _exact("band upper", upper)
    else:
        try:
            parse_duration(right)  # type: ignore[arg-type]
        except SpecError:
            raise SpecError(
                "band got no bound; give within=..., lower=..., upper=... or both of them"
            ) from None
        raise _meant("band", left, right, "within")
    return _predicate("band", left, right, ((low, high),), timed)


def bands(left: str, right: str | None = None, *, ranges: Iterable[tuple[Bound, Bound]]) -> Predicate:
    """Match when any band of ``ranges`` does; where they overlap a match counts once.

    Parameters
    ----------
    left, right : str
        Names of the columns; the right one is the left one's unless given.
    ranges : iterable of (lower, upper)
        Bounds on right - left, as in :func:`band`.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.bands("a", "b", ranges=[(-5, 5), (20, 35)])
    bands('a', 'b', ranges=[(-5, 5), (20, 35)])
    """
    if isinstance(ranges, str) or not isinstance(ranges, Iterable):
        raise SpecError(f"bands ranges is {ranges!r}; expected pairs, such as [(-5, 5), (20, 35)]")
    exact, units = [], []
    for number, pair in enumerate(ranges):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SpecError(f"bands ranges[{number}] is {pair!r}; expected a pair (lower, upper)")
        low, high, timed = _range(f"bands ranges[{number}]", *pair)
        exact.append((low, high))
        units += [(low, timed), (high, timed)]
    if not exact:
        raise SpecError("bands got no ranges; give at least one, such as ranges=[(-5, 5)]")
    if mixes_units(units):
        raise SpecError("bands ranges mix plain numbers and durations; give all of them units, or none")
    return _predicate("bands", left, right, tuple(exact), any(timed for _, timed in units))


def equal(left: str, right: str | None = None) -> Predicate:
    """Match ``left == right``.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.equal("symbol") & sj.band("price", within=0.01)
    equal('symbol') & band('price', within=0.01)
    """
    return _predicate("equal", left, right)


def not_equal(left: str, right: str | None = None) -> Predicate:
    """Match ``left != right``; null and NaN match nothing here either."""
    return _predicate("not_equal", left, right)


def less(left: str, right: str | None = None, *, offset: Bound = 0) -> Predicate:
    """Match ``left + offset < right``.

    Parameters
    ----------
    left, right : str
        Names of the columns; the right one is the left one's unless given.
    offset : number, str or timedelta
        What is added to the left column: a number for numeric columns, a duration (``"5s"`` or a timedelta)
        for columns of times.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.less("bid", "ask", offset=0.5)  # bid + 0.5 < ask
    less('bid', 'ask', offset=0.5)
    """
    return _comparison("less", left, right, offset)


def less_equal(left: str, right: str | None = None, *, offset: Bound = 0) -> Predicate:
    """Match ``left + offset <= right``; see :func:`less`."""
    return _comparison("less_equal", left, right, offset)


def greater(left: str, right: str | None = None, *, offset: Bound = 0) -> Predicate:
    """Match ``left + offset > right``; see :func:`less`."""
    return _comparison("greater", left, right, offset)


def greater_equal(left: str, right: str | None = None, *, offset: Bound = 0) -> Predicate:
    """Match ``left + offset >= right``; see :func:`less`."""
    return _comparison("greater_equal", left, right, offset)


MAKERS: dict[str, Callable[..., Predicate]] = {
    make.__name__: make for make in (band, bands, equal, not_equal, less, less_equal, greater, greater_equal)
}


def _comparison(op: str, left: str, right: str | None, offset: Bound) -> Predicate:
    _refuse_number(op, left, right, "offset")
    exact, timed = _exact(f"{op} offset", offset)
    if not exact:
        return _predicate(op, left, right)
    return _predicate(op, left, right, ((exact, None) if op in _UPWARDS else (None, exact),), timed)


def _refuse_number(op: str, left: str, right: object, option: str) -> None:
    if isinstance(right, int | float | Fraction | Decimal | timedelta | np.number):
        raise _meant(op, left, right, option)


def _meant(op: str, left: str, right: object, option: str) -> SpecError:
    return SpecError(f"{op} right is {right!r}; did you mean {op}({left!r}, {option}={right!r})?")


def _predicate(
    op: str,
    left: str,
    right: str | None,
    ranges: tuple[Range, ...] = (),
    timed: bool = False,
) -> Predicate:
    right = left if right is None else right
    for side, name in (("left", left), ("right", right)):
        if not isinstance(name, str):
            raise SpecError(f"{op} {side} is {name!r}; expected the name of a column, such as 'price'")
    return Predicate((Conjunct(op, str(left), str(right), ranges, timed),))


def _range(what: str, lower: Bound, upper: Bound) -> tuple[Fraction, Fraction, bool]:
    (low, low_timed), (high, high_timed) = _exact(f"{what} lower", lower), _exact(f"{what} upper", upper)
    if mixes_units([(low, low_timed), (high, high_timed)]):
        plain = upper if low_timed else lower
        raise SpecError(
            f"{what} lower {lower!r} and upper {upper!r} mix a plain number and a duration; "
            f"give both a unit, such as '{plain}s', or none"
        )
    if low > high:
        raise SpecError(f"{what} lower {lower} > upper {upper}; bounds are on right - left, swap them")
    return low, high, low_timed or high_timed


def _exact(what: str, bound: Bound) -> tuple[Fraction, bool]:
    """A bound as (exact number, whether it counts nanoseconds)."""
    if isinstance(bound, str | timedelta | np.timedelta64):
        try:
            return parse_duration(bound)
        except SpecError as error:
            raise SpecError(f"{what}: {error}") from None
    if isinstance(bound, bool) or not isinstance(
        bound, int | float | Fraction | Decimal | np.integer | np.floating
    ):
        raise SpecError(f"{what} is {bound!r}; expected a number, a text such as '5s' or a timedelta")
    if isinstance(bound, int | Fraction | np.integer):
        number = bound if isinstance(bound, Fraction) else Fraction(int(bound))
    else:
        decimal = bound if isinstance(bound, Decimal) else Decimal(repr(float(bound)))
        if not decimal.is_finite():
            raise SpecError(f"{what} is {bound}; bounds must be finite")
        if abs(decimal.adjusted()) > 1000:
            raise SpecError(f"{what} is {bound}, which is beyond the range of every key")
        number = Fraction(decimal)
    if max(abs(number.numerator), number.denominator).bit_length() > 8000:
        raise SpecError(f"{what} has thousands of digits, which is beyond the range of every key")
    return number, False


def _number_literal(number: Fraction) -> str:
    """Python that evaluates to a bound: as short as it can be read exactly."""
    if number.denominator == 1:
        return str(number.numerator)
    try:
        if Fraction(repr(float(number))) == number:
            return repr(float(number))
    except OverflowError:
        pass
    return f"Fraction({number.numerator}, {number.denominator})"


def _from_json(data: Mapping[str, Any]) -> Predicate:
    op, left, right = data["op"], data["left"], data["right"]
    if op in COMPARISONS and len(data) == 3:
        return _predicate(op, left, right)
    if op not in ("band", "bands", *_UPWARDS, *_DOWNWARDS) or len(data) != 4:
        raise SpecError(f"unknown condition {op!r} or parts of it")
    ranges: Any = [(_bound_from_json(lower), _bound_from_json(upper)) for lower, upper in data["ranges"]]
    if op == "bands":
        return bands(left, right, ranges=ranges)
    ((lower, upper),) = ranges
    if op == "band":
        return band(left, right, lower=lower, upper=upper)
    offset, other = (lower, upper) if op in _UPWARDS else (upper, lower)
    if other is not None:
        raise SpecError(f"{op} has two ends")
    return _comparison(op, left, right, offset)


def _bound_from_json(text: str | None) -> Bound | None:
    return Fraction(text) if text is not None and re.fullmatch("-?[0-9]+(/[0-9]+)?", text) else text
