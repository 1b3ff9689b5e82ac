"""NumericJoin: NumPy arrays in, positions of matching tuples out. The thin face of the native core."""

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from slidejoin.errors import SchemaError
from slidejoin.native import native_join
from slidejoin.spec import Number, NumericSpec, numeric_spec
from slidejoin.window import Rows, Window, Within

T = TypeVar("T")


class NumericStats(TypedDict):
    """Counters of a :class:`NumericJoin`."""

    rows_left: int
    rows_right: int
    matches: int
    null_left: int
    null_right: int
    stored_left: int
    stored_right: int
    memory_bytes: int


class NumericJoin:
    """Join two streams of numbers over a sliding window on ``left + lower <= right <= left + upper``.

    Tuples are pushed in the order of their arrival. Each meets the tuples of the other side that arrived
    before it and are still in the window; every match comes out once, as the positions of its left and its
    right tuple. A position is a tuple's number on its own side, counted from 0 since the join was made.

    Parameters
    ----------
    window : int, (int, int), Rows or Within
        Tuples kept of each side, of the left and of the right side, or a window object.
    lower, upper : number
        The band, on right - left. Integer keys take the whole numbers inside it, float keys round the
        bounds to their own type.
    key : dtype
        Type of the keys: any integer or float type of NumPy up to 64 bits.
    index : str
        ``nested-loop``, ``b-tree`` or ``auto``. Decides speed, never results.
    workers : int
        Threads; 1 for now.
    self_join : bool
        One stream plays both sides. Sides are ignored; a tuple never meets itself, and a pair that matches
        both ways comes out once, the earlier tuple as the left one. Its counters are those of the left
        side.
    group : int, optional
        At most how many arrivals go through the index together: 1 is tuple by tuple, up to 16 overlaps
        memory accesses, more sorts them. Decides speed, never results.

    Notes
    -----
    Cost per tuple with ``b-tree``: O(log window) plus its matches. NaN keys and NaT times take a position
    and never match. A join is used by one thread at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import slidejoin as sj
    >>> join = sj.NumericJoin(window=1000, lower=-1, upper=1, key=np.int32)
    >>> sides = np.array([0, 1, 1, 0], np.uint8)  # left, right, right, left
    >>> keys = np.array([10, 11, 50, 49], np.int32)
    >>> left, right = join.push(sides, keys)
    >>> left, right
    (array([0, 1]), array([0, 1]))
    """

    def __init__(
        self,
        window: int | tuple[int, int] | Window,
        lower: Number,
        upper: Number,
        key: DTypeLike = np.float64,
        index: str = "auto",
        workers: int = 1,
        self_join: bool = False,
        *,
        group: int | None = None,
    ) -> None:
        spec = numeric_spec(window, lower, upper, key, index, workers, self_join, group)
        self._spec = spec
        self._native = native_join(
            [(spec.key.name, [(("sum", spec.lower), ("sum", spec.upper))])],
            _core_window(spec.window),
            index=spec.index,
            self_join=spec.self_join,
            group=spec.group,
        )

    @property
    def spec(self) -> NumericSpec:
        """The checked description of this join; ``spec.index`` is the index in use."""
        return self._spec

    def push(
        self, sides: ArrayLike | None, keys: ArrayLike, times: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Join a batch of arrivals and return its matches.

        Parameters
        ----------
        sides : array of uint8
            0 for a left tuple, 1 for a right one. Ignored by self-joins, which take ``None``.
        keys : array
            Keys, of the join's key type. Contiguous arrays are read in place.
        times : array of int64 or datetime64, optional
            Timestamps, for time windows only. They must not decrease, over both sides together.

        Returns
        -------
        left, right : arrays of int64
            Positions of the tuples of each match: results of an earlier arrival first, those of one arrival
            by the position of its partner.
        """
        return self._run(self._native.push, sides, keys, times)

    def count(self, sides: ArrayLike | None, keys: ArrayLike, times: ArrayLike | None = None) -> int:
        """Join a batch as :meth:`push` does, but only count its matches."""
        return self._run(self._native.count, sides, keys, times)

    @property
    def stats(self) -> NumericStats:
        """Counters: rows and null keys so far, matches, tuples that may still match, bytes in use."""
        stats = self._native.stats()
        return NumericStats(**{name: stats[name] for name in NumericStats.__annotations__})

    def check(self) -> None:
        """Verify the invariants of the index; raises StateError where one is broken. Cost: O(window)."""
        self._native.check()

    def _run(
        self,
        call: Callable[..., T],
        sides: ArrayLike | None,
        keys: ArrayLike,
        times: ArrayLike | None,
    ) -> T:
        if times is None:
            try:  # arrays that need nothing done to them
                return call(sides, keys, None)
            except TypeError:
                pass
        return call(*self._arrays(sides, keys, times))

    def _arrays(
        self, sides: ArrayLike | None, keys: ArrayLike, times: ArrayLike | None
    ) -> tuple[NDArray[np.uint8] | None, NDArray[Any], NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        """The arrays in the form that the core reads; refuses what would lose or change a value."""
        key_array = _column("keys", keys, self._spec.key)
        side_array = time_array = null_times = None
        if not self._spec.self_join:
            if sides is None:
                raise SchemaError("sides is missing; give 0 for left and 1 for right, as uint8")
            side_array = _same_length(_column("sides", sides, np.dtype(np.uint8)), "sides", key_array)
        if isinstance(self._spec.window, Within):
            time_array, null_times = _timestamps(times, self._spec.window)
            time_array = _same_length(time_array, "times", key_array)
        elif times is not None:
            raise SchemaError("times were given, but a window of rows has no use for them; leave them out")
        return side_array, key_array, time_array, null_times


def _core_window(window: Window) -> dict[str, Any]:
    if isinstance(window, Rows):
        return {"window": "rows", "left": window.left, "right": window.right}
    return {"window": "time", "duration": window.duration}


def _column(name: str, values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A contiguous one-dimensional array of the dtype, without changing any value."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise SchemaError(f"{name} has {array.ndim} dimensions; expected a one-dimensional array")
    if array.dtype != dtype:
        if isinstance(values, np.ndarray) or hasattr(values, "dtype"):
            if not np.can_cast(array.dtype, dtype, "safe"):
                raise SchemaError(
                    f"{name} has type {array.dtype}, which does not fit {dtype} without loss; "
                    f"convert it with .astype(np.{dtype.name})"
                )
            array = array.astype(dtype)
        else:
            array = _from_list(name, array, dtype)
    return np.ascontiguousarray(array)


def _from_list(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers of a Python list: any that the dtype can hold."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            cast = array.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"{name} holds {array.dtype} values; expected {dtype}") from None
    if dtype.kind != "f" and not np.array_equal(cast, array):
        raise SchemaError(f"{name} holds values that do not fit {dtype}")
    return cast


def _timestamps(
    times: ArrayLike | None, window: Within
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Timestamps as int64, and a mask of those that are missing (NaT), where there are any."""
    if times is None:
        raise SchemaError("times are missing; a time window needs one timestamp for each key")
    array = np.asarray(times)
    if array.dtype.kind != "M":
        if window.timed:
            raise SchemaError(
                f"times have type {array.dtype}, but the window's duration has a unit; give datetime64 "
                "timestamps, or the duration as a whole number"
            )
        return _column("times", times, np.dtype(np.int64)), None
    if not window.timed:
        raise SchemaError(
            f"times have type {array.dtype}, but the window's duration is the plain number "
            f"{window.duration}; give it a unit, such as '10s'"
        )
    if array.ndim != 1:
        raise SchemaError(f"times has {array.ndim} dimensions; expected a one-dimensional array")
    nanoseconds = array.astype("datetime64[ns]", copy=False)
    if nanoseconds is not array and not np.array_equal(
        nanoseconds.astype(array.dtype), array, equal_nan=True
    ):
        raise SchemaError(f"times of type {array.dtype} are beyond the range of datetime64[ns]")
    missing = np.isnat(nanoseconds)
    return np.ascontiguousarray(nanoseconds).view(np.int64), missing if missing.any() else None


def _same_length(array: NDArray[Any], name: str, keys: NDArray[Any]) -> NDArray[Any]:
    if len(array) != len(keys):
        raise SchemaError(f"{name} has {len(array)} elements and keys has {len(keys)}; expected as many")
    return array
