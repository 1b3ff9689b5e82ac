"""Windows: which tuples of the other side an arrival may meet.

``rows(n)`` keeps the last n tuples of each side; ``within(d)`` keeps the tuples that arrived at most d
earlier; ``interval(before, after)`` pairs by event time, in any order of arrival. A window is a description:
it costs nothing until a join runs it.

What differs between windows is in the attributes and methods of :class:`Window`. A new window is a subclass,
and a function in :data:`MAKERS`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from slidejoin.errors import SpecError

Duration: TypeAlias = int | str | timedelta | np.timedelta64
TimeColumns: TypeAlias = str | tuple[str, str] | None

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
_NUMPY_UNITS = _NANOSECONDS | {"D": 86_400_000_000_000, "W": 7 * 86_400_000_000_000}
_NUMBER = r"[+-]?(?:[0-9]+/[0-9]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?)"
_DURATION = re.compile(rf"\s*({_NUMBER})\s*({'|'.join(_NANOSECONDS)})\s*")


class Window(ABC):
    """What a join asks of its window.

    Attributes
    ----------
    uses_time : bool
        Whether tuples have timestamps.
    has_watermark : bool
        Whether pairs are found by event time: tuples arrive in any order, may be late, and are forgotten
        when the watermark has passed them.
    time : str or (str, str), optional
        The timestamp columns.
    timed : bool
        Whether durations are in nanoseconds; else they are in the units of integer timestamps.
    purge : str
        Whose arrivals make a tuple leave.
    lateness : int, optional
        How far the watermark follows.
    idle_after : int, optional
        After how many nanoseconds of silence a side does not hold the watermark back.
    returns_late : bool
        Whether late tuples are kept for ``take_late``.
    """

    uses_time: bool = True
    has_watermark: bool = False
    time: TimeColumns = None
    timed: bool = False
    purge: str = "cross"
    lateness: int | None = None
    idle_after: int | None = None
    returns_late: bool = False

    @property
    def durations(self) -> dict[str, int | None]:
        """The durations by name, in the window's own units."""
        return {}

    @property
    def kept(self) -> tuple[int, int]:
        """The most left and right tuples that it holds, or (0, 0) where time decides."""
        return (0, 0)

    @abstractmethod
    def native(self, tick: int = 1) -> dict[str, Any]:
        """The arguments of the core, with durations in units of ``tick``."""

    @abstractmethod
    def describe(self) -> str:
        """What it lets a tuple meet, for a reader."""

    @abstractmethod
    def describe_state(self, self_join: bool) -> str:
        """Which rows a join has to keep, for a reader."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The window as JSON values; :func:`from_json` reads them back."""

    def _show(self, amount: int) -> str:
        return format_duration(amount) if self.timed else str(amount)

    def _literal(self, amount: int) -> str:
        """An amount of time as users write it."""
        return repr(self._show(amount)) if self.timed else str(amount)


@dataclass(frozen=True, repr=False)
class Rows(Window):
    """The last ``left`` left tuples and the last ``right`` right tuples; see :func:`rows`."""

    left: int
    right: int

    uses_time = False

    def __post_init__(self) -> None:
        for side, count in (("left", self.left), ("right", self.right)):
            if not is_whole(count):
                raise SpecError(f"rows() got {count!r} for the {side} side; expected a whole number")
            if count < 1:
                raise SpecError(f"a window of {count} rows on the {side} side is empty; keep at least 1")

    def __repr__(self) -> str:
        return f"rows({self.left if self.left == self.right else f'left={self.left}, right={self.right}'})"

    @property
    def kept(self) -> tuple[int, int]:
        return (self.left, self.right)

    def native(self, tick: int = 1) -> dict[str, Any]:  # noqa: ARG002
        return {"window": "rows", "left": self.left, "right": self.right}

    def describe(self) -> str:
        return f"the last {self.left} left and {self.right} right rows"

    def describe_state(self, self_join: bool) -> str:
        return f"at most {self.left + (0 if self_join else self.right)} rows"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rows", "left": self.left, "right": self.right}


@dataclass(frozen=True, repr=False)
class Within(Window):
    """Tuples that arrived at most ``duration`` earlier; see :func:`within`."""

    duration: int
    timed: bool
    time: TimeColumns
    purge: str = "cross"

    def __repr__(self) -> str:
        purge = None if self.purge == "cross" else self.purge
        return f"within({self._literal(self.duration)}{_options(time=self.time, purge=purge)})"

    @property
    def durations(self) -> dict[str, int | None]:
        return {"duration": self.duration}

    def native(self, tick: int = 1) -> dict[str, Any]:
        return {"window": "time", "duration": self.duration // tick, "self_purge": self.purge == "self"}

    def describe(self) -> str:
        return f"arrivals of the last {self._show(self.duration)}, purge {self.purge}"

    def describe_state(self, self_join: bool) -> str:  # noqa: ARG002
        return "the rows of one duration of both sides"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "within",
            "duration": self._show(self.duration),
            "time": _time_json(self.time),
            "purge": self.purge,
        }


@dataclass(frozen=True, repr=False)
class Interval(Window):
    """Pairs with ``-before <= right.ts - left.ts <= after``; see :func:`interval`."""

    before: int
    after: int
    timed: bool
    time: TimeColumns
    lateness: int | None = None
    late: str = "drop"
    idle_after: int | None = None

    has_watermark = True

    def __repr__(self) -> str:
        reach = f"{self._literal(self.before)}, {self._literal(self.after)}"
        lateness = "" if self.lateness is None else f", lateness={self._literal(self.lateness)}"
        late = None if self.late == "drop" else self.late
        idle_after = None if self.idle_after is None else format_duration(self.idle_after)
        options = _options(late=late, idle_after=idle_after)
        return f"interval({reach}{_options(time=self.time)}{lateness}{options})"

    @property
    def returns_late(self) -> bool:  # type: ignore[override]
        return self.late == "return"

    @property
    def durations(self) -> dict[str, int | None]:
        return {"before": self.before, "after": self.after, "lateness": self.lateness}

    def native(self, tick: int = 1) -> dict[str, Any]:
        parts = {name: None if part is None else part // tick for name, part in self.durations.items()}
        for name, part in parts.items():
            if abs(part or 0) >= 2**63:
                raise SpecError(f"interval {name} {part} does not fit into 64 bits of the timestamps' unit")
        return {"window": "event", **parts}

    def describe(self) -> str:
        follows = "moved by advance() only"
        if self.lateness is not None:
            follows = f"the watermark follows by {self._show(self.lateness)}"
        reach = f"-{self._show(self.before)} <= right - left <= {self._show(self.after)}"
        return f"event time, {reach}, {follows}"

    def describe_state(self, self_join: bool) -> str:  # noqa: ARG002
        if self.lateness is None:
            return "all rows, until advance() moves the watermark"
        return (
            f"left rows until the watermark is {self._show(self.after)} beyond their time, "
            f"right rows until it is {self._show(self.before)} beyond it"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "interval",
            "before": self._show(self.before),
            "after": self._show(self.after),
            "time": _time_json(self.time),
            "lateness": None if self.lateness is None else self._show(self.lateness),
            "late": self.late,
            "idle_after": None if self.idle_after is None else format_duration(self.idle_after),
        }


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
    rows(1000)
    >>> sj.rows(left=1000, right=50)
    rows(left=1000, right=50)
    """
    if n is not None and (left is not None or right is not None):
        raise SpecError("rows() got a number for both sides and one for a single side; give one form")
    if n is None and (left is None or right is None):
        raise SpecError("rows() needs a number of tuples: rows(1000) or rows(left=1000, right=50)")
    window = Rows(n if left is None else left, n if right is None else right)  # type: ignore[arg-type]
    return Rows(int(window.left), int(window.right))


def within(duration: Duration, *, time: TimeColumns = None, purge: str = "cross") -> Within:
    """Arrival-time window: an arrival meets what arrived at most ``duration`` before it.

    Tuples of both sides together must arrive in the order of their timestamps.

    Parameters
    ----------
    duration : int, str or timedelta
        A whole number for integer timestamps; a text such as ``"10s"`` (ns, us, ms, s, m or min, h, d) or
        a timedelta for timestamps with a unit.
    time : str or (str, str), optional
        Name of the timestamp column, or of the left and the right one. Joins on arrays get their
        timestamps with each push and need no name.
    purge : {"cross", "self"}
        Whose arrivals make a tuple leave the window. With ``"cross"`` an arrival measures the age of what it
        meets. With ``"self"`` a tuple leaves only when its own side moves on, so that an arrival may meet
        older tuples of a slow side: the variant of "Performance Modeling of Stream Joins", for experiments.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.within("10s", time="ts")
    within('10s', time='ts')
    """
    amount, timed = _whole("duration", duration)
    if amount <= 0:
        raise SpecError(f"within({duration!r}) is empty; expected a duration above 0, such as '10s'")
    _check_fits(f"within({duration!r})", amount, timed)
    if purge not in ("cross", "self"):
        raise SpecError(f"purge={purge!r}; expected 'cross' or 'self'")
    return Within(amount, timed, _check_time(time), purge)


def interval(
    before: Duration,
    after: Duration,
    *,
    time: TimeColumns = None,
    lateness: Duration | None = None,
    late: str = "drop",
    idle_after: Duration | None = None,
) -> Interval:
    """Event-time window: pairs with ``-before <= right.ts - left.ts <= after``, in any order of arrival.

    Parameters
    ----------
    before : int, str or timedelta
        How much earlier than its left tuple a right tuple may be: a whole number for integer timestamps; a
        text such as ``"10s"``, a timedelta or 0 for timestamps with a unit.
    after : int, str or timedelta
        How much later than its left tuple a right tuple may be. Either bound may be negative:
        ``interval("-1s", "5s")`` takes right tuples from 1 to 5 seconds later.
    time : str or (str, str), optional
        Name of the timestamp column, or of the left and the right one.
    lateness : int, str or timedelta, optional
        How far behind the latest timestamp of its side a tuple may arrive. The watermark is the least over
        both sides of (latest timestamp - lateness); tuples before it are late. ``0`` is for sides that are
        in order, ties allowed. ``None``: only ``advance`` moves the watermark.
    late : {"drop", "return"}
        Late tuples are dropped and counted; with ``"return"`` they are also kept for ``take_late``.
    idle_after : str or timedelta, optional
        A side that is silent for so long, by the clock, no longer holds the watermark back.

    Examples
    --------
    >>> import slidejoin as sj
    >>> sj.interval("5s", "1s", time="ts", lateness="2s")
    interval('5s', '1s', time='ts', lateness='2s')
    """
    given = {"before": before, "after": after}
    if lateness is not None:
        given["lateness"] = lateness
    amounts, timed = {}, {}
    for name, duration in given.items():
        amounts[name], timed[name] = _whole(name, duration)
        _check_fits(f"interval {name} {duration!r}", amounts[name], timed[name])
    if mixes_units(zip(amounts.values(), timed.values(), strict=True)):
        plain = next(name for name in given if amounts[name] and not timed[name])
        raise SpecError(
            f"interval {plain} {given[plain]!r} is a plain number while another part has a unit; give all of "
            f"them units, such as '{given[plain]}s', or none"
        )
    if -amounts["before"] > amounts["after"]:
        raise SpecError(
            f"interval before={before!r}, after={after!r} is empty: -before is above after; "
            "right.ts - left.ts goes from -before to after, swap or negate them"
        )
    if amounts.get("lateness", 0) < 0:
        raise SpecError(f"lateness {lateness!r} is negative; expected 0 or more, or None")
    if late not in ("drop", "return"):
        raise SpecError(f"late={late!r}; expected 'drop' or 'return'")
    return Interval(
        before=amounts["before"],
        after=amounts["after"],
        timed=any(timed.values()),
        time=_check_time(time),
        lateness=amounts.get("lateness"),
        late=late,
        idle_after=_check_idle(idle_after),
    )


MAKERS: dict[str, Callable[..., Window]] = {"rows": rows, "within": within, "interval": interval}


def from_json(data: Mapping[str, Any]) -> Window:
    """Read a window back from the JSON values that its ``to_json`` gave."""
    try:
        parts = dict(data)
        kind = parts.pop("kind")
        for name in ("duration", "before", "after", "lateness"):
            if parts.get(name) is not None and re.fullmatch("-?[0-9]+", parts[name]):
                parts[name] = int(parts[name])
        return MAKERS[kind](**parts)
    except (TypeError, KeyError, ValueError) as error:
        raise SpecError(f"{data!r} is not the JSON form of a window: {error}") from None


def parse_duration(duration: Duration) -> tuple[Fraction, bool]:
    """A duration as (exact number, whether it counts nanoseconds)."""
    if isinstance(duration, timedelta):
        # pandas counts nanoseconds on top of the microseconds of a timedelta
        nanoseconds = getattr(duration, "nanoseconds", 0)
        return Fraction((duration // timedelta(microseconds=1)) * 1000 + nanoseconds), True
    if isinstance(duration, np.timedelta64):
        unit, count = np.datetime_data(duration.dtype)
        if np.isnat(duration) or unit not in _NUMPY_UNITS:
            raise SpecError(f"duration {duration!r} has no length in nanoseconds; write '10s' or '1.5h'")
        return Fraction(int(duration.astype(np.int64)) * count * _NUMPY_UNITS[unit]), True
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        try:
            if match is not None:
                return Fraction(match[1]) * _NANOSECONDS[match[2]], True
        except (ValueError, ZeroDivisionError):
            pass  # too many digits, a zero below the line
        units = ", ".join(_NANOSECONDS)
        raise SpecError(f"duration {duration!r} is not a number with a unit; write '10s' or '1.5h' ({units})")
    if not is_whole(duration):
        raise SpecError(
            f"duration {duration!r} has type {type(duration).__name__}; "
            "expected an int, a text such as '10s' or a timedelta"
        )
    return Fraction(int(duration)), False


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number of Python or NumPy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def mixes_units(amounts: Iterable[tuple[int | Fraction, bool]]) -> bool:
    """Whether some of these amounts are durations and others plain numbers; a plain 0 is either."""
    return len({timed for amount, timed in amounts if amount or timed}) > 1


def format_duration(nanoseconds: int | Fraction) -> str:
    """A number of nanoseconds as the shortest text that :func:`parse_duration` reads back exactly.

    Examples
    --------
    >>> format_duration(90_000_000_000), format_duration(0)
    ('90s', '0s')
    """
    if nanoseconds == 0:
        return "0s"
    for unit in ("d", "h", "min", "s", "ms", "us"):
        if nanoseconds % _NANOSECONDS[unit] == 0:
            return f"{nanoseconds // _NANOSECONDS[unit]}{unit}"
    return f"{nanoseconds}ns"


def _whole(name: str, duration: Duration) -> tuple[int, bool]:
    amount, timed = parse_duration(duration)
    if amount.denominator != 1:
        raise SpecError(f"{name} {duration!r} is not a whole number of nanoseconds")
    return int(amount), timed


def _check_fits(what: str, amount: int, timed: bool) -> None:
    if abs(amount) >= 2**64:
        raise SpecError(f"{what} does not fit into 64 bits of {'nanoseconds' if timed else 'time'}")


def _check_idle(idle_after: Duration | None) -> int | None:
    if idle_after is None:
        return None
    amount, timed = _whole("idle_after", idle_after)
    if not timed or amount <= 0:
        raise SpecError(
            f"idle_after={idle_after!r}; expected a duration of the clock above 0, such as '30s', or None"
        )
    return amount


def _check_time(time: TimeColumns) -> TimeColumns:
    """The name of the timestamp column, or a pair of two different ones."""
    if time is None or isinstance(time, str):
        return time
    if not (
        isinstance(time, tuple | list) and len(time) == 2 and all(isinstance(name, str) for name in time)
    ):
        raise SpecError(f"time={time!r}; expected the name of a column or a pair of them, left and right")
    return time[0] if time[0] == time[1] else (time[0], time[1])


def _time_json(time: TimeColumns) -> str | list[str] | None:
    return list(time) if isinstance(time, tuple) else time


def _options(**given: Any) -> str:
    """The keyword arguments of a call that are not None."""
    return "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
