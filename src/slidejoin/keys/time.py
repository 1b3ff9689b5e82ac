"""The timestamps of a window: whole numbers of one unit, in which every duration of the window is exact."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SchemaError
from slidejoin.keys.extract import SIDES, Mask, find, integers, readable
from slidejoin.keys.types import DAY, NANOSECONDS, common_type, decoded, described, family, tick
from slidejoin.native import Bound
from slidejoin.window import Window, format_duration

_FAMILIES = ("integer", "date", "naive timestamp", "zoned timestamp")
_NUMPY_SECONDS = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60, "s": 1}
_NUMPY_FRACTIONS = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class BoundTime:
    """The timestamp columns of a window, and its durations in their common unit.

    ``unit`` is the coarsest of s, ms, us and ns in which both columns and all durations are whole, or
    ``None`` for integers. ``duration`` is that of ``within`` windows, ``before``, ``after`` and ``lateness``
    are those of ``interval`` windows.
    """

    left: str
    right: str
    type: pa.DataType
    unit: str | None
    duration: int = 0
    before: int = 0
    after: int = 0
    lateness: int | None = None

    @property
    def ranges(self) -> tuple[tuple[Bound, Bound]]:
        """Where the right timestamp of a match lies, by the left one: an interval as a band."""
        return ((("sum", -self.before), ("sum", self.after)),)

    def readable(self, type_: pa.DataType) -> int | None:
        """How the core reads timestamps out of a column of a type; None if it does not."""
        if self.unit is not None and pa.types.is_timestamp(type_) and type_.unit == self.unit:
            type_ = pa.int64()
        return readable(type_, pa.int64())

    def extract(self, table: pa.Table, side: int) -> tuple[NDArray[np.int64], Mask]:
        """The timestamps of a batch in the unit, and where they are null. Cost: O(rows) at most."""
        name = (self.left, self.right)[side]
        limit = f"64 bits of {self.unit}" if self.unit else "int64"
        where = f"{SIDES[side]} column {name!r}"
        return integers(
            find(table, side, name, self.type), where, Fraction(self.tick), np.dtype(np.int64), limit
        )

    def to_number(self, value: object) -> int:
        """A point in time in the unit, rounded up: a timestamp is before the one iff it is before the other.

        Raises SchemaError if it is of another kind than the columns.
        """
        number = math.ceil(self._to_instant(value) / self.tick)
        if not _INT64.min <= number <= _INT64.max:
            raise SchemaError(f"advance to {value!r} does not fit 64 bits of {self.unit or 'time'}")
        return number

    def unit_for(self, value: object) -> str | None:
        """The coarsest unit in which a point in time is a whole number, or ns if it is finer still."""
        if self.unit is None:
            return None
        instant = self._to_instant(value)
        return next((unit for unit, per in NANOSECONDS.items() if instant % per == 0), "ns")

    def _to_instant(self, value: object) -> Fraction:
        """A point in time exactly: in nanoseconds, or the number itself for integers."""
        kind, instant = _instant(value)
        mine = str(family(self.type))
        if instant is None or (kind != mine and (kind, mine) != ("naive timestamp", "date")):
            received = f"{kind} {value!r}" if kind else f"{value!r} of type {type(value).__name__}"
            raise SchemaError(
                f"{received} is not a point in time of columns of type {self.type}; give {_WANTED[mine]}"
            )
        return instant

    def ticks_in(self, other: "BoundTime") -> int:
        """How many of this unit make one unit of ``other``, which is not finer."""
        ratio = Fraction(other.tick, self.tick)
        assert ratio.denominator == 1, "units of time only become finer"
        return ratio.numerator

    def to_value(self, number: int) -> Any:
        """The point in time of a number: an int for integers, else a datetime.

        Beyond what datetime can hold it is a ``pandas.Timestamp`` or a ``numpy.datetime64`` (in UTC).
        """
        if self.unit is None:
            return number
        if self.unit == "ns" and number % 1000 == 0:
            unit, number = "us", number // 1000
        else:
            unit = self.unit
        try:
            return pa.scalar(number, pa.timestamp(unit, getattr(self.type, "tz", None))).as_py()
        except (ValueError, OverflowError):
            return np.int64(number).view(f"datetime64[{unit}]")

    @property
    def tick(self) -> int:
        """The unit in nanoseconds, or 1 for integers."""
        return 1 if self.unit is None else NANOSECONDS[self.unit]


_WANTED = {
    "integer": "a whole number",
    "date": "a date or a datetime without a zone",
    "naive timestamp": "a datetime without a zone",
    "zoned timestamp": "a datetime with a zone",
}


def bind_time(
    window: Window,
    names: tuple[str, str],
    left: pa.DataType,
    right: pa.DataType,
    unit: str | None = None,
    known: int | None = None,
) -> BoundTime:
    """Bind a window to the types of its timestamp columns; see ``keys.bind`` for ``unit`` and ``known``."""
    pair = described(names, left, right, known)
    for type_ in (left, right):
        if family(type_) not in _FAMILIES:
            raise SchemaError(
                f"{pair} cannot be the times of a window: {type_} is not a point in time; "
                "use timestamps, dates or integers"
            )
    common = common_type(pair, left, right)
    needed = [amount or 0 for amount in window.durations.values()]
    scale = 1
    if family(common) == "integer":
        unit = None
        if window.timed:
            shown = format_duration(max(needed))
            raise SchemaError(
                f"{pair}: integers have no unit, but the window's {shown} has one; "
                "give whole numbers, or cast to timestamps"
            )
    else:
        if not window.timed and any(needed):
            raise SchemaError(
                f"{pair}: times have a unit, but the window's {max(needed)} is a plain number; "
                f"give it a unit, such as '{max(needed)}s'"
            )
        finest = min(tick(decoded(left)), tick(decoded(right)), Fraction(NANOSECONDS[unit or "s"]))
        unit, scale = next(
            (unit, per)
            for unit, per in NANOSECONDS.items()
            if finest % per == 0 and all(amount % per == 0 for amount in needed)
        )
    amounts: dict[str, Any] = {
        name: None if part is None else part // scale for name, part in window.durations.items()
    }
    return BoundTime(
        left=names[0],
        right=names[1],
        type=common,
        unit=unit,
        **amounts,
    )


def _instant(value: object) -> tuple[str | None, Fraction | None]:
    """What kind of time a value is, and how many nanoseconds after 1970 (or which number) it stands for."""
    if isinstance(value, pa.Scalar):
        kind = family(value.type)
        if kind not in _FAMILIES or not value.is_valid:
            return kind, None
        number = value.as_py() if kind == "integer" else value.value
        return kind, number * tick(value.type)
    if isinstance(value, datetime):
        if hasattr(value, "to_datetime64"):  # pandas, with nanoseconds
            kind = "naive timestamp" if value.tzinfo is None else "zoned timestamp"
            return kind, _numpy_instant(value.to_datetime64())
        if value.utcoffset() is None:
            since = value.replace(tzinfo=None) - datetime(1970, 1, 1)
            return "naive timestamp", Fraction(since // timedelta(microseconds=1) * 1000)
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        return "zoned timestamp", Fraction(since // timedelta(microseconds=1) * 1000)
    if isinstance(value, date):
        return "date", (value - date(1970, 1, 1)).days * DAY
    if isinstance(value, np.datetime64):
        return "naive timestamp", _numpy_instant(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return "integer", Fraction(int(value))
    return None, None


def _numpy_instant(value: np.datetime64) -> Fraction | None:
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    number = int(value.astype(np.int64)) * count * 10**9
    return number * (Fraction(_NUMPY_SECONDS.get(unit, 1), _NUMPY_FRACTIONS.get(unit, 1)))
