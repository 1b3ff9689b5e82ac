"""Windows: which tuples of the other side an arrival may meet.

``rows(n)`` keeps the last n tuples of each side; ``within(d)`` keeps what arrived at most d before.
"""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import TypeAlias

from slidejoin.errors import SpecError

Duration: TypeAlias = int | str | timedelta

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}


@dataclass(frozen=True)
class Rows:
    """The last ``left`` left tuples and the last ``right`` right tuples; see :func:`rows`."""

    left: int
    right: int


@dataclass(frozen=True)
class Within:
    """What arrived at most ``duration`` earlier; see :func:`within`.

    ``duration`` is in nanoseconds where it was given as a text or a timedelta (``timed``), else in the
    units of the integer timestamps.
    """

    duration: int
    timed: bool
    time: str | tuple[str, str] | None


Window: TypeAlias = Rows | Within


def rows(n: int | None = None, *, left: int | None = None, right: int | None = None) -> Rows:
    """Count window: an arrival meets the last tuples of the other side.

    Parameters
    ----------
    n : int, optional
        Tuples kept of each side.
    left, right : int, optional
        Tuples kept of either side, where they differ. Give both.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.rows(1000)
    Rows(left=1000, right=1000)
    >>> sj.rows(left=1000, right=50)
    Rows(left=1000, right=50)
    """
    if n is not None and (left is not None or right is not None):
        raise SpecError("rows() got a number for both sides and one for a single side; give one form")
    if n is None and (left is None or right is None):
        raise SpecError("rows() needs a number of tuples: rows(1000) or rows(left=1000, right=50)")
    kept = {"left": n if left is None else left, "right": n if right is None else right}
    for side, count in kept.items():
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise SpecError(f"rows() got {count!r} for the {side} side; expected a whole number")
        if count < 1:  # type: ignore[operator]
            raise SpecError(f"a window of {count} rows on the {side} side is empty; keep at least 1")
    return Rows(int(kept["left"]), int(kept["right"]))  # type: ignore[arg-type]


def within(duration: Duration, *, time: str | tuple[str, str] | None = None) -> Within:
    """Arrival-time window: an arrival meets what arrived at most ``duration`` before it.

    Tuples of both sides together must arrive in the order of their timestamps.

    Parameters
    ----------
    duration : int, str or timedelta
        A whole number for integer timestamps; a text such as ``"10s"`` (ns, us, ms, s, m or min, h, d) or
        a timedelta for ``datetime64`` timestamps.
    time : str or (str, str), optional
        Name of the timestamp column, or of the left and the right one. Joins on arrays get their
        timestamps with each push and need no name.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.within("10s").duration
    10000000000
    """
    amount, timed = _parse_duration(duration)
    if amount <= 0:
        raise SpecError(f"within({duration!r}) is empty; expected a duration above 0, such as '10s'")
    if amount >= 2**64:
        raise SpecError(
            f"within({duration!r}) does not fit into 64 bits of {'nanoseconds' * timed or 'time'}"
        )
    return Within(amount, timed, time)


def _parse_duration(duration: Duration) -> tuple[int, bool]:
    """A duration as (whole number, whether it counts nanoseconds)."""
    if isinstance(duration, timedelta):
        return (duration // timedelta(microseconds=1)) * 1000, True
    if isinstance(duration, str):
        number = duration.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = duration.strip()[len(number) :]
        try:
            nanoseconds = Fraction(number.strip()) * _NANOSECONDS[unit]
        except (ValueError, ZeroDivisionError, KeyError):
            units = ", ".join(_NANOSECONDS)
            raise SpecError(
                f"duration {duration!r} is not a number with a unit; write '10s' or '1.5h' ({units})"
            ) from None
        if nanoseconds.denominator != 1:
            raise SpecError(f"duration {duration!r} is not a whole number of nanoseconds")
        return int(nanoseconds), True
    if isinstance(duration, bool) or not hasattr(duration, "__index__"):
        raise SpecError(
            f"duration {duration!r} has type {type(duration).__name__}; "
            "expected an int, a text such as '10s' or a timedelta"
        )
    return int(duration), False
