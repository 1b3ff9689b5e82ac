"""The checked description of a join: every error about an argument is raised here.

:func:`join_spec` checks what ``WindowJoin`` is given, :func:`numeric_spec` what ``NumericJoin`` is given.
Neither knows the types of columns; ``keys`` binds a :class:`JoinSpec` to two schemas.
"""

import hashlib
import inspect
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from slidejoin import window as windows
from slidejoin.errors import SpecError, suggestion
from slidejoin.index import check_index, parse_index, parse_strategy
from slidejoin.join_type import JOIN_TYPES, How, JoinType, join_type
from slidejoin.limits import NO_LIMITS, Limits, check_limits
from slidejoin.predicate import Predicate, example
from slidejoin.window import Window, is_whole, rows

Number: TypeAlias = int | float | Fraction | Decimal

_INTEGERS = (f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
KEY_TYPES = (*_INTEGERS, "float32", "float64")

ORDERS = ("none", "arrival", "full")
SUFFIXES = ("", "_right")

# The most live tuples of one side that the core can address.
MAX_LIVE = 2**31 - 2**20

# The most threads of one join.
MAX_WORKERS = 256


@dataclass(frozen=True)
class JoinSpec:
    """A checked join of two streams of rows: what ``WindowJoin`` runs. Made by :func:`join_spec`."""

    on: Predicate
    window: Window
    how: How
    index: str
    workers: int
    order: str
    suffixes: tuple[str, str]
    self_join: bool
    columns: tuple[str, ...] | None = None
    limits: Limits = NO_LIMITS

    @property
    def join_type(self) -> JoinType:
        """What ``how`` means."""
        return JOIN_TYPES[self.how]

    def __str__(self) -> str:
        parts = [repr(self.on), repr(self.window), f"how={self.how!r}"]
        parts += [f"index={self.index!r}"] if self.index != "auto" else []
        parts += [f"order={self.order!r}"] if self.order != "arrival" else []
        parts += [f"suffixes={self.suffixes!r}"] if self.suffixes != SUFFIXES else []
        parts += ["self_join=True"] if self.self_join else []
        parts += [f"{name}={value!r}" for name, value in self.limits.to_json().items()]
        parts += [f"columns={list(self.columns)!r}"] if self.columns is not None else []
        return ", ".join(parts)

    def reads(self, side: int) -> dict[str, str]:
        """The columns of a side that the join reads, each with what names it, for messages."""
        names = [((conjunct.left, conjunct.right), repr(conjunct)) for conjunct in self.on.conjuncts]
        names += [(self.time, repr(self.window))] if self.time else []
        columns: dict[str, str] = {}
        for pair, origin in names:
            both = " for both sides" if pair[0] == pair[1] and not self.self_join else ""
            columns.setdefault(pair[side], f"{origin} names it{both}")
        return columns

    @property
    def time(self) -> tuple[str, str] | None:
        """Names of the left and the right timestamp column, for windows of time."""
        name = self.window.time
        return (name, name) if isinstance(name, str) else name

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values, exactly; :meth:`from_json` reads them back.

        Without ``columns`` they are those that versions without it wrote.
        """
        picked = {} if self.columns is None else {"columns": list(self.columns)}
        return {
            "on": self.on.to_json(),
            "window": self.window.to_json(),
            "how": self.how,
            "index": self.index,
            "workers": self.workers,
            "order": self.order,
            "suffixes": list(self.suffixes),
            "self_join": self.self_join,
            **self.limits.to_json(),
            **picked,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "JoinSpec":
        """Read a spec back from the JSON values that :meth:`to_json` gave."""
        try:
            parts = dict(data)
            on, window = Predicate.from_json(parts.pop("on")), windows.from_json(parts.pop("window"))
            return join_spec(on, window, **parts)
        except (TypeError, KeyError, ValueError) as error:
            raise SpecError(f"{data!r} is not the JSON form of a join: {error}") from None

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the JSON form, which identifies the results; equal in all processes and versions.

        The index and the number of workers are left out: they decide speed, never results, so that a
        checkpoint can be continued with others.
        """
        meaning = {name: part for name, part in self.to_json().items() if name not in ("index", "workers")}
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


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
    workers: int = 1
    strategy: str = "auto"


def refuse_unknown(unknown: Mapping[str, object], of: type) -> None:
    """Raise SpecError for the first argument that a join of this class does not have."""
    for name in unknown:
        known = [each for each in inspect.signature(of).parameters if each != "unknown"]
        hint = suggestion(name, known) or f"; it has {', '.join(known)}"
        if name == "strategy":
            hint = "; NumericJoin has it, WindowJoin chooses how its workers share a push: leave it out"
        raise SpecError(f"{of.__name__} has no argument {name!r}{hint}")


def join_spec(
    on: Predicate,
    window: int | tuple[int, int] | Window,
    how: str = "inner",
    index: str = "auto",
    workers: int = 1,
    order: str = "arrival",
    suffixes: tuple[str, str] = SUFFIXES,
    self_join: bool = False,
    columns: Sequence[str] | None = None,
    *,
    max_rows: int | tuple[int, int] | None = None,
    max_memory: int | float | str | None = None,
    max_fanout: int | None = None,
    when_full: str = "error",
) -> JoinSpec:
    """Check the arguments of a WindowJoin and normalize them.

    Examples
    --------
    >>> from slidejoin.predicate import band
    >>> join_spec(band("price", within=0.5), 1000).window
    rows(1000)
    """
    if not isinstance(on, Predicate):
        raise SpecError(f"on={on!r}; expected a predicate, such as {example(on)}")
    checked = check_window(window)
    if checked.uses_time and checked.time is None:
        raise SpecError("the window does not name its timestamps; add time='column'")
    type_ = join_type(how)
    if how != "inner" and self_join:
        raise SpecError(f"how={how!r} in a self-join, which has one stream; use 'inner'")
    check_index(index)
    if order not in ORDERS:
        raise SpecError(f"order={order!r}; expected one of {', '.join(ORDERS)}{suggestion(order, ORDERS)}")
    threads = check_workers(workers)
    _check_flag(self_join)
    if self_join:
        _check_self_join(checked)
        for conjunct in on.conjuncts:
            if conjunct.left != conjunct.right:
                raise SpecError(
                    f"a self-join compares a column with itself, not {conjunct.left!r} with "
                    f"{conjunct.right!r}; push the stream as left and as right instead"
                )
        if isinstance(checked.time, tuple):
            raise SpecError(
                f"a self-join has one stream and one timestamp, not {checked.time}; "
                f"use time={checked.time[0]!r}"
            )
    limits = check_limits(max_rows, max_memory, max_fanout, when_full, bool(self_join))
    pair, picked = _check_suffixes(suffixes), _check_columns(columns)
    return JoinSpec(on, checked, type_.name, index, threads, order, pair, bool(self_join), picked, limits)


def _check_flag(self_join: bool) -> None:
    if not isinstance(self_join, bool | np.bool):
        raise SpecError(f"self_join={self_join!r}; expected True or False")


def _check_self_join(window: Window) -> None:
    left, right = window.kept
    if left != right:
        raise SpecError(f"a self-join has one stream and one window, not {window}; use rows({left})")


def _check_suffixes(suffixes: tuple[str, str]) -> tuple[str, str]:
    if (
        not isinstance(suffixes, tuple | list)
        or len(suffixes) != 2
        or not all(isinstance(suffix, str) for suffix in suffixes)
    ):
        raise SpecError(f"suffixes={suffixes!r}; expected a pair of texts, such as ('', '_right')")
    left, right = suffixes
    if left == right:
        raise SpecError(f"suffixes {left!r} and {right!r} are the same; columns of one name need two names")
    return left, right


def _check_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    example = [columns] if isinstance(columns, str) else ["symbol", "price"]
    if (
        not isinstance(columns, list | tuple)
        or not columns
        or not all(isinstance(name, str) for name in columns)
    ):
        raise SpecError(
            f"columns={columns!r}; expected a list of names of columns of the result, such as {example!r}"
        )
    if len(set(columns)) < len(columns):
        twice = next(name for i, name in enumerate(columns) if name in columns[:i])
        raise SpecError(f"columns has {twice!r} twice; name each column once")
    return tuple(columns)


def numeric_spec(
    window: int | tuple[int, int] | Window,
    lower: Number,
    upper: Number,
    key: DTypeLike,
    index: str,
    workers: int,
    self_join: bool,
    group: int | None,
    strategy: str = "auto",
) -> NumericSpec:
    """Check the arguments of a NumericJoin and normalize them."""
    dtype = check_key(key)
    checked = check_window(window)
    if checked.has_watermark:
        raise SpecError("NumericJoin has rows and within windows; for interval windows use WindowJoin")
    if checked.purge != "cross":
        raise SpecError(f"NumericJoin has no purge={checked.purge!r}; use WindowJoin for it")
    _check_flag(self_join)
    if self_join:
        _check_self_join(checked)
    low, high = check_bounds(lower, upper, dtype)
    if parse_strategy(strategy)[0] == "shared-index" and parse_index(index)[0] != "pim-tree":
        raise SpecError(f"strategy={strategy!r} shares a pim-tree, not index={index!r}; add index='pim-tree'")
    return NumericSpec(
        window=checked,
        lower=low,
        upper=high,
        key=dtype,
        index=check_index(index),
        self_join=bool(self_join),
        group=check_group(group),
        workers=check_workers(workers),
        strategy=strategy,
    )


def check_workers(workers: int) -> int:
    """A number of threads; more than the core can use are as many as it can."""
    if not is_whole(workers) or workers < 1:
        raise SpecError(f"workers={workers!r}; expected a whole number of threads, 1 at least")
    return min(int(workers), MAX_WORKERS)


def check_spill(spill: Any) -> str | None:
    """The path of a directory for rows, or None; ``slidejoin.spill`` looks at the directory itself."""
    if spill is None:
        return None
    path = os.fspath(spill) if isinstance(spill, os.PathLike) else spill
    if not isinstance(path, str) or not path or "\0" in path:
        raise SpecError(f"spill={spill!r}; expected the path of a directory, or None for rows in memory")
    return path


def check_key(key: DTypeLike) -> np.dtype[Any]:
    """The dtype of the keys; SpecError if a join cannot order them."""
    try:
        dtype = np.dtype(key)
    except (TypeError, ValueError):
        raise SpecError(f"key={key!r} is not a NumPy type; use one of {', '.join(KEY_TYPES)}") from None
    if dtype.name not in KEY_TYPES or not dtype.isnative:
        raise SpecError(f"key type {dtype} cannot be joined; use one of {', '.join(KEY_TYPES)}")
    return dtype


def check_window(window: int | tuple[int, int] | Window) -> Window:
    """A window, from any form that users can write."""
    if isinstance(window, tuple):
        if len(window) != 2:
            raise SpecError(f"window={window!r}; a pair (left, right) has two numbers")
        window = rows(left=window[0], right=window[1])
    elif not isinstance(window, Window):
        if not is_whole(window):
            within = f"sj.within({window!r}, time='ts')" if isinstance(window, str) else "sj.within(...)"
            raise SpecError(
                f"window={window!r}; expected a number of rows, a pair (left, right), "
                f"sj.rows(...), {within} or sj.interval(...)"
            )
        window = rows(window)
    if max(window.kept) > MAX_LIVE:
        raise SpecError(f"{window} holds more than 2**31 - 2**20 tuples of one side, the most there can be")
    return window


def check_bounds(lower: Number, upper: Number, dtype: np.dtype[Any]) -> tuple[int, int] | tuple[float, float]:
    """The bounds of a band in the type of the keys: whole numbers rounded inwards, or floats."""
    lower, upper = _number("lower", lower), _number("upper", upper)
    if lower > upper:
        raise SpecError(f"band lower {lower} > upper {upper}; bounds are on right - left, swap them")
    if dtype.kind != "f":
        return math.ceil(lower), math.floor(upper)
    return round_bound("lower", lower, dtype), round_bound("upper", upper, dtype)


def _number(name: str, bound: Any) -> Number:
    """A finite Python number; NumPy integers are converted, since NumPy may round them to floats."""
    if isinstance(bound, np.integer | np.floating):
        bound = bound.item()
    if isinstance(bound, bool) or not isinstance(bound, int | float | Fraction | Decimal):
        raise SpecError(f"band {name} is {bound!r}; expected a number")
    finite = (
        bound.is_finite()
        if isinstance(bound, Decimal)
        else isinstance(bound, int | Fraction) or math.isfinite(bound)
    )
    if not finite:
        raise SpecError(f"band {name} is {bound}; bounds must be finite")
    return bound


def round_bound(name: str, bound: Number, dtype: np.dtype[Any]) -> float:
    """A bound rounded to a float type; raises SpecError if it is infinite there."""
    try:
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(float(bound)))
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded):
        raise SpecError(f"band {name} {bound} is beyond the range of {dtype}")
    return rounded


# The most arrivals that are processed together; an index may process fewer at a time.
GROUP = 2**18


def check_group(group: int | None) -> int:
    """The most arrivals that are processed together; ``None`` is the default."""
    if group is None:
        return GROUP
    if not is_whole(group) or not 1 <= group <= 2**20:
        raise SpecError(f"group={group!r}; expected a number from 1 to {2**20}, or None")
    return int(group)
