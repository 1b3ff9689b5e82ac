"""The exact meaning of every join, by brute force: slow and simple. The tests compare all engines with it.

Nothing is evicted, indexed or batched. Every accepted row stays in a list, every arrival is
compared with every row of that list, and each rule of the semantics is one expression below. A
call costs O(rows so far), a run over n rows O(n^2).

Keys are plain Python values: integers (also for times and decimals, counted in their smallest
unit), floats, strings, bytes, and tuples for a conjunction. `None` and NaN are keys that never
match. Timestamps and durations are integers of one unit; `None` is a null timestamp. A result is
a pair of positions `(left, right)`. `None` stands for a missing partner and, in semi and anti
joins, for the side that is not returned.

The file reads top to bottom: predicates, windows, the join, the merge of several physical streams
into one arrival sequence, and the comparison that each `order=` allows.
"""

import ctypes
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

LEFT, RIGHT = 0, 1
BEFORE_ALL_TIME = -math.inf

Kind: TypeAlias = Literal["int", "float64", "float32"]
Bound: TypeAlias = int | float | Fraction | Decimal
Predicate: TypeAlias = Callable[[Any, Any], bool]
Result: TypeAlias = tuple[int | None, int | None]
How: TypeAlias = Literal[
    "inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"
]
Order: TypeAlias = Literal["none", "arrival", "full"]

# The sides whose unmatched rows are returned when they leave the window.
_UNMATCHED_SIDES: dict[str, tuple[int, ...]] = {
    "inner": (),
    "left": (LEFT,),
    "right": (RIGHT,),
    "full": (LEFT, RIGHT),
    "left_semi": (),
    "left_anti": (LEFT,),
    "right_semi": (),
    "right_anti": (RIGHT,),
}
# The sides of semi joins: a row is returned at its first match. Semi and anti joins return no pairs.
_SEMI_SIDE = {"left_semi": LEFT, "right_semi": RIGHT}
_ANTI = ("left_anti", "right_anti")


# --- Predicates: functions of (left key, right key), called only with keys that can match ---


def never_matches(key: Any) -> bool:
    """Tell whether a key is null or NaN, or a tuple with such a part."""
    if isinstance(key, tuple):
        return any(never_matches(part) for part in key)
    return key is None or (isinstance(key, float) and math.isnan(key))


def to_float32(value: float) -> float:
    """Round to the nearest float32; correctly also for the float64 sum of two float32 values."""
    return ctypes.c_float(value).value


def band(lower: Bound | None, upper: Bound | None, kind: Kind = "int") -> Predicate:
    """Match `left + lower <= right <= left + upper`, the sums in the type of the keys.

    Integer sums are exact, so a sum outside the range of the type matches no right key. Fractional
    bounds on integers are rounded inwards. Float sums are rounded to the type. `None` is an open end.

    Examples
    --------
    >>> band(10, 20)(120, 127)
    False
    >>> band(-0.3, 0.3, "float64")(0.1, 0.4)
    True
    """
    if lower is None or upper is None:
        ends = [less_equal(lower, kind)] if lower is not None else []
        ends += [greater_equal(upper, kind)] if upper is not None else []
        if not ends:
            raise ValueError("band without bounds; give one at least")
        return ends[0]
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"band [{lower}, {upper}]; bounds are finite numbers")
    if lower > upper:
        raise ValueError(f"band lower {lower} > upper {upper}; bounds are on right - left")
    if kind == "int":
        least, most = math.ceil(lower), math.floor(upper)
        return lambda left, right: left + least <= right <= left + most

    rounded = to_float32 if kind == "float32" else float
    low, high = rounded(float(lower)), rounded(float(upper))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"band [{lower}, {upper}] is infinite as {kind}; use smaller bounds")
    return lambda left, right: rounded(left + low) <= right <= rounded(left + high)


def bands(ranges: Iterable[tuple[Bound, Bound]], kind: Kind = "int") -> Predicate:
    """Match when any of the bands does; overlapping ranges count once."""
    members = [band(lower, upper, kind) for lower, upper in ranges]
    if not members:
        raise ValueError("bands without ranges; give at least one (lower, upper)")
    return lambda left, right: any(member(left, right) for member in members)


def equal() -> Predicate:
    """Match `left == right`."""
    return operator.eq


def not_equal() -> Predicate:
    """Match `left != right`."""
    return operator.ne


def less(offset: Bound = 0, kind: Kind = "int") -> Predicate:
    """Match `left + offset < right`, the sum in the type of the keys.

    Examples
    --------
    >>> less(5)(10, 15), less(Fraction(9, 2))(10, 15), less(0.3, "float64")(0.1, 0.4)
    (False, True, False)
    """
    return _compared(operator.lt, offset, kind)


def less_equal(offset: Bound = 0, kind: Kind = "int") -> Predicate:
    """Match `left + offset <= right`, the sum in the type of the keys."""
    return _compared(operator.le, offset, kind)


def greater(offset: Bound = 0, kind: Kind = "int") -> Predicate:
    """Match `left + offset > right`, the sum in the type of the keys."""
    return _compared(operator.gt, offset, kind)


def greater_equal(offset: Bound = 0, kind: Kind = "int") -> Predicate:
    """Match `left + offset >= right`, the sum in the type of the keys."""
    return _compared(operator.ge, offset, kind)


def _compared(compare: Predicate, offset: Bound, kind: Kind) -> Predicate:
    if not math.isfinite(offset):
        raise ValueError(f"offset {offset}; it is a finite number")
    if offset == 0:
        return compare
    if kind == "int":
        exact = Fraction(offset)
        return lambda left, right: compare(left + exact, right)
    rounded = to_float32 if kind == "float32" else float
    step = rounded(float(offset))
    if not math.isfinite(step):
        raise ValueError(f"offset {offset} is infinite as {kind}; use a smaller one")
    return lambda left, right: compare(rounded(left + step), right)


def all_of(*predicates: Predicate) -> Predicate:
    """Match tuple keys, one part for each predicate, when every predicate holds for its part.

    Examples
    --------
    >>> all_of(equal(), band(-1, 1))(("a", 5), ("a", 6))
    True
    """
    return lambda left, right: all(
        holds(left_part, right_part)
        for holds, left_part, right_part in zip(predicates, left, right, strict=True)
    )


# --- Windows: which rows see each other ---


@dataclass(frozen=True)
class Rows:
    """The last `left` tuples of the left side and the last `right` tuples of the right side."""

    left: int
    right: int

    def __post_init__(self) -> None:
        if self.left < 1 or self.right < 1:
            raise ValueError(f"rows({self.left}, {self.right}); a window holds at least 1 row")


@dataclass(frozen=True)
class Within:
    """Tuples not older than `duration`; timestamps never decrease over both sides together.

    With `purge="cross"` the age of a row is measured at the timestamp of the arrival. With
    `purge="self"` a row leaves only when time moves on its own side, so that an arrival may see
    older rows of a slow side. These are the two procedures for time-based windows in "Performance
    Modeling of Stream Joins" by Gulisano, Papadopoulos, Nikolakopoulos, Papatriantafilou and Tsigas.
    """

    duration: int
    purge: Literal["cross", "self"] = "cross"

    def __post_init__(self) -> None:
        if self.duration <= 0:
            raise ValueError(f"within({self.duration}); the duration is positive")


@dataclass(frozen=True)
class Interval:
    """Event time in any arrival order: `-before <= right.ts - left.ts <= after`.

    With `lateness=None` only `advance` moves the watermark. With `late="return"` late rows can be
    fetched by `take_late`.
    """

    before: int
    after: int
    lateness: int | None = None
    late: Literal["drop", "return"] = "drop"

    def __post_init__(self) -> None:
        if -self.before > self.after:
            raise ValueError(f"interval -before {-self.before} > after {self.after}; swap them")
        if self.lateness is not None and self.lateness < 0:
            raise ValueError(f"lateness {self.lateness}; it is 0 or more, or None")


Window: TypeAlias = Rows | Within | Interval


# --- The join ---


class Arrival(NamedTuple):
    """A tuple that arrives at a join; with `store=False` it is probe-only."""

    side: int
    key: Any
    ts: int | None = None
    store: bool = True


@dataclass
class _Row:
    position: int
    key: Any
    ts: int | None
    null: bool
    store: bool
    matched: bool = False
    final: bool = False

    @property
    def time(self) -> int:
        assert self.ts is not None, "rows without a timestamp are null and never compared by time"
        return self.ts


def _alone(side: int, row: _Row) -> Result:
    return (row.position, None) if side == LEFT else (None, row.position)


class ReferenceJoin:
    """One join, fed row by row; every call returns its results in `order="full"`.

    A probe-only row (`store=False`) is treated as any other row (it takes a position and a place
    in `Rows`, moves time, is counted) except that no later arrival sees it. It is therefore final
    as soon as it was compared with the stored rows.

    In a self-join the side is ignored and the stream is counted as left. For every join type,
    `matches` counts the matching pairs and `stored_*` the rows that may still match.

    Parameters
    ----------
    matches
        The predicate, a function of the left and the right key.
    window
        `Rows`, `Within` or `Interval`.
    how
        The join type. A self-join must be "inner".

    Examples
    --------
    >>> join = ReferenceJoin(band(-1, 1), Rows(2, 2), how="left")
    >>> join.push(LEFT, 10), join.push(RIGHT, 11), join.push(LEFT, 50), join.finish()
    ([], [(0, 0)], [], [(1, None)])
    """

    def __init__(
        self, matches: Predicate, window: Window, how: How = "inner", self_join: bool = False
    ) -> None:
        if how not in _UNMATCHED_SIDES:
            raise ValueError(f"how={how!r}; expected one of {', '.join(_UNMATCHED_SIDES)}")
        if self_join and how != "inner":
            raise ValueError(f"how={how!r} in a self-join; only 'inner' has a meaning there")
        self._matches = matches
        self._window = window
        self._has_watermark = isinstance(window, Interval)
        self._lateness = window.lateness if isinstance(window, Interval) else None
        self._how = how
        self._self_join = self_join
        self._sides = (LEFT,) if self_join else (LEFT, RIGHT)
        self._rows: tuple[list[_Row], list[_Row]] = ([], [])
        self._late: tuple[list[Arrival], list[Arrival]] = ([], [])
        self._late_count = [0, 0]
        self._match_count = 0
        self._greatest_ts: list[float] = [BEFORE_ALL_TIME, BEFORE_ALL_TIME]
        self._advanced_to: list[float] = [BEFORE_ALL_TIME, BEFORE_ALL_TIME]
        self._idle = [False, False]
        self._watermark: float = BEFORE_ALL_TIME
        self._finished = False

    def push(self, side: int, key: Any, ts: int | None = None, store: bool = True) -> list[Result]:
        """Process one arrival; return its matches, then the rows that became final by it."""
        self._refuse_after_finish()
        side = self._checked(side)
        if isinstance(self._window, Within) and ts is not None and ts < max(self._greatest_ts):
            raise ValueError(f"timestamp {ts} after {max(self._greatest_ts)}; it must not decrease")
        if isinstance(self._window, Interval) and ts is not None:
            self._idle[side] = False
            if ts < self._watermark:
                self._late_count[side] += 1
                if self._window.late == "return":
                    self._late[side].append(Arrival(side, key, ts, store))
                return []

        null = never_matches(key) or (ts is None and not isinstance(self._window, Rows))
        row = _Row(len(self._rows[side]), key, ts, null, store)
        results = [] if null else self._meet(row, side)
        self._rows[side].append(row)
        if ts is not None:
            self._greatest_ts[side] = max(self._greatest_ts[side], ts)
        self._move_watermark()
        return results + self._newly_final()

    def advance(self, to: int, side: int | None = None) -> list[Result]:
        """Promise that no row with `ts < to` will arrive, on one side or on both."""
        self._refuse_after_finish()
        self._refuse_without_watermark()
        for each in self._sides if side is None else (self._checked(side),):
            self._advanced_to[each] = max(self._advanced_to[each], to)
            self._idle[each] = False
        self._move_watermark()
        return self._newly_final()

    def idle(self, side: int) -> list[Result]:
        """Ignore a silent side in the watermark until its next row or `advance`."""
        self._refuse_after_finish()
        self._refuse_without_watermark()
        self._idle[self._checked(side)] = True
        self._move_watermark()
        return self._newly_final()

    def finish(self) -> list[Result]:
        """End the input; return the unmatched rows that are not final yet."""
        self._finished = True
        return self._newly_final()

    def take_late(self, side: int) -> list[Arrival]:
        """Return the late rows of a side since the last call; always empty with `late="drop"`."""
        rows = self._late[self._checked(side)]
        taken = list(rows)
        rows.clear()
        return taken

    @property
    def stats(self) -> dict[str, int | float | None]:
        """The counters of `join.stats`, except the memory."""
        stored = [sum(not self._is_gone(row, side) for row in self._rows[side]) for side in (0, 1)]
        nulls = [sum(row.null for row in self._rows[side]) for side in (0, 1)]
        return {
            "rows_left": len(self._rows[LEFT]),
            "rows_right": len(self._rows[RIGHT]),
            "matches": self._match_count,
            "late_left": self._late_count[LEFT],
            "late_right": self._late_count[RIGHT],
            "null_left": nulls[LEFT],
            "null_right": nulls[RIGHT],
            "stored_left": stored[LEFT],
            "stored_right": stored[RIGHT],
            "watermark": None if self._watermark == BEFORE_ALL_TIME else self._watermark,
        }

    def _meet(self, arrival: _Row, side: int) -> list[Result]:
        other = side if self._self_join else 1 - side
        results: list[Result] = []
        for stored in self._rows[other]:
            pair = self._pair(stored, other, arrival)
            if pair is None:
                continue
            left, right = pair
            self._match_count += 1
            if self._how in _SEMI_SIDE:
                semi = _SEMI_SIDE[self._how]
                if not pair[semi].matched:
                    results.append(_alone(semi, pair[semi]))
            elif self._how not in _ANTI:
                results.append((left.position, right.position))
            left.matched = right.matched = True
        return results

    def _pair(self, stored: _Row, stored_side: int, arrival: _Row) -> tuple[_Row, _Row] | None:
        if stored.null or not stored.store:
            return None
        for role in self._roles(stored_side):
            left, right = (stored, arrival) if role == LEFT else (arrival, stored)
            seen = self._sees(arrival, stored, stored_side, role)
            if seen and self._matches(left.key, right.key):
                return left, right
        return None

    def _roles(self, side: int) -> tuple[int, ...]:
        # In a self-join the earlier tuple is tried as left first. A pair that matches both ways is
        # returned once, in that form.
        return (LEFT, RIGHT) if self._self_join else (side,)

    def _sees(self, arrival: _Row, stored: _Row, stored_side: int, role: int) -> bool:
        """Tell whether the arrival, not yet in its list, sees a stored row in that role."""
        match self._window:
            case Within(duration, "cross"):
                return stored.time >= arrival.time - duration
            case Interval(before, after):
                gap = arrival.time - stored.time if role == LEFT else stored.time - arrival.time
                return -before <= gap <= after
            case _:
                return not self._is_forgotten(stored, stored_side, role)

    def _is_forgotten(self, row: _Row, side: int, role: int) -> bool:
        """Tell whether no future arrival can see a row in that role."""
        match self._window:
            case Rows(left, right):
                return row.position < len(self._rows[side]) - (left if role == LEFT else right)
            case Within(duration, "cross"):
                return max(self._greatest_ts) > row.time + duration
            case Within(duration, "self"):
                return self._greatest_ts[side] > row.time + duration
            case Interval(before, after):
                return row.time + (after if role == LEFT else before) < self._watermark
        raise AssertionError(f"unknown window {self._window!r}")

    def _is_gone(self, row: _Row, side: int) -> bool:
        if self._finished or row.null or not row.store:
            return True
        return all(self._is_forgotten(row, side, role) for role in self._roles(side))

    def _newly_final(self) -> list[Result]:
        results: list[Result] = []
        for side in _UNMATCHED_SIDES[self._how]:
            for row in self._rows[side]:
                if row.final or not self._is_gone(row, side):
                    continue
                row.final = True
                if not row.matched:
                    results.append(_alone(side, row))
        return results

    def _move_watermark(self) -> None:
        progress = [self._progress(side) for side in self._sides if not self._idle[side]]
        if progress:
            self._watermark = max(self._watermark, min(progress))

    def _progress(self, side: int) -> float:
        if self._lateness is None:
            return self._advanced_to[side]
        return max(self._advanced_to[side], self._greatest_ts[side] - self._lateness)

    def _checked(self, side: int) -> int:
        if side not in (LEFT, RIGHT):
            raise ValueError(f"side {side!r}; expected {LEFT} for left or {RIGHT} for right")
        return LEFT if self._self_join else side

    def _refuse_after_finish(self) -> None:
        if self._finished:
            raise ValueError("the join is finished; start a new one")

    def _refuse_without_watermark(self) -> None:
        if not self._has_watermark:
            raise ValueError(f"{self._window} has no watermark; use an Interval")


def join(
    arrivals: Iterable[Arrival],
    matches: Predicate,
    window: Window,
    how: How = "inner",
    self_join: bool = False,
) -> list[list[Result]]:
    """Run a whole join: one list of results for each arrival, and a last one for the end of input.

    Examples
    --------
    >>> join([Arrival(LEFT, 1), Arrival(RIGHT, 2)], less(), Rows(9, 9))
    [[], [(0, 0)], []]
    """
    reference = ReferenceJoin(matches, window, how, self_join)
    return [*(reference.push(*arrival) for arrival in arrivals), reference.finish()]


# --- Several physical streams per side ---


@dataclass
class _Stream:
    latest: float = BEFORE_ALL_TIME
    delivered: int = 0
    holds_back: bool = True
    finished: bool = False


class ReadyOrder:
    """Merge physical streams, each in timestamp order, into one arrival sequence.

    Tuples are sorted by (timestamp, side, stream, sequence). A tuple waits until no other open
    stream can deliver a tuple that sorts before it. The merged sequence is then the same for every
    interleaving of the streams. A null timestamp sorts with the tuple before it in its stream.

    A stream that was added late or was idle may deliver a tuple that sorts before one already
    released. That is an error. With `strict=False`, which is for an `Interval`, such a tuple is
    released at once instead. The place of the last released tuple never moves back.

    Examples
    --------
    >>> order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
    >>> order.push(0, Arrival(LEFT, "a", 5)), order.push(0, Arrival(RIGHT, "b", 5))
    ([], [Arrival(side=0, key='a', ts=5, store=True)])
    """

    def __init__(self, streams: Iterable[tuple[int, int]] = (), strict: bool = True) -> None:
        self._strict = strict
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._waiting: list[tuple[tuple[float, int, int, int], Arrival]] = []
        self._last_released: tuple[float, int, int, int] | None = None
        for side, stream in streams:
            self.add(side, stream)

    def add(self, side: int, stream: int) -> None:
        """Open a stream; from now on the others wait for it."""
        if (side, stream) in self._streams:
            raise ValueError(f"stream {stream} of side {side} exists; use another number")
        self._streams[side, stream] = _Stream()

    def push(self, stream: int, arrival: Arrival) -> list[Arrival]:
        """Deliver a tuple of an open stream; return the tuples that are ready, in order."""
        source = self._open(arrival.side, stream)
        ts = source.latest if arrival.ts is None else arrival.ts
        place = (ts, arrival.side, stream, source.delivered)
        if ts < source.latest:
            raise ValueError(f"timestamp {ts} after {source.latest} in one stream; sort the stream")
        if self._strict and self._is_too_late(place):
            raise ValueError(f"{place} came after {self._last_released} was handed out")
        source.latest = ts
        source.delivered += 1
        source.holds_back = True
        self._waiting.append((place, arrival))
        return self._release()

    def finish(self, side: int, stream: int) -> list[Arrival]:
        """End a stream; return the tuples that waited only for it."""
        source = self._open(side, stream)
        source.finished = True
        source.holds_back = False
        return self._release()

    def idle(self, side: int, stream: int) -> list[Arrival]:
        """Stop waiting for a stream until its next tuple; return the tuples that waited only for it."""
        self._open(side, stream).holds_back = False
        return self._release()

    def _open(self, side: int, stream: int) -> _Stream:
        source = self._streams.get((side, stream))
        if source is None or source.finished:
            raise ValueError(f"stream {stream} of side {side} is not open")
        return source

    def _is_too_late(self, place: tuple[float, int, int, int]) -> bool:
        return self._last_released is not None and place < self._last_released

    def _is_ready(self, ts: float, side: int, stream: int) -> bool:
        others = {name: s for name, s in self._streams.items() if name != (side, stream)}
        return all(
            source.latest > ts if name < (side, stream) else source.latest >= ts
            for name, source in others.items()
            if source.holds_back
        )

    def _release(self) -> list[Arrival]:
        self._waiting.sort(key=operator.itemgetter(0))
        ready = [
            (place, arrival)
            for place, arrival in self._waiting
            if self._is_ready(*place[:3]) or self._is_too_late(place)
        ]
        if ready:
            self._waiting = [entry for entry in self._waiting if entry not in ready]
            if not self._is_too_late(ready[-1][0]):
                self._last_released = ready[-1][0]
        return [arrival for _, arrival in ready]


# --- Comparison with the output of an engine ---


def agrees(
    actual: Sequence[Result],
    expected: Sequence[Sequence[Result]],
    order: Order = "full",
    how: How = "inner",
) -> bool:
    """Compare the output of an engine with that of the reference, as strictly as `order` allows.

    "none" compares the results as a multiset. "arrival" allows any order among the matches of one
    arrival; the rows that became final by the arrival follow in their fixed order. "full" compares
    the exact sequence.

    Parameters
    ----------
    actual
        The results of all calls, one after the other.
    expected
        The results of the reference, one list for each arrival.

    Examples
    --------
    >>> agrees([(1, 0), (0, 0)], [[(0, 0), (1, 0)]], order="arrival")
    True
    """
    flat = [result for chunk in expected for result in chunk]
    if order == "none":
        return Counter(actual) == Counter(flat)
    if order == "full":
        return list(actual) == flat
    if len(actual) != len(flat):
        return False
    start = 0
    for chunk in expected:
        same = list(actual[start : start + len(chunk)])
        matched = len(chunk) if how in _SEMI_SIDE else sum(None not in pair for pair in chunk)
        if Counter(same[:matched]) != Counter(chunk[:matched]) or same[matched:] != chunk[matched:]:
            return False
        start += len(chunk)
    return True
