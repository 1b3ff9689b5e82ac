"""NumericJoin: NumPy arrays in, positions of matching tuples out. The thin face of the native core."""

from collections.abc import Callable
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from slidejoin.arrays import column, same_length, sides_of, timestamps
from slidejoin.errors import OrderError, SchemaError
from slidejoin.native import native_join
from slidejoin.ranges import Ranges
from slidejoin.spec import Number, NumericSpec, check_workers, numeric_spec
from slidejoin.window import Window

_ndarray = np.ndarray  # looked up once: a push of one tuple takes about a microsecond
_BY_TIME = (
    "merge both sides by time before pushing: order = np.argsort(np.concatenate([left_times, right_times]), "
    "kind='stable'), and take sides, keys and times in this order"
)


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
        ``auto`` goes by what it sees, and may change while the join runs (:attr:`index`);
        ``bucket-tree``, ``bi-sort``, ``pim-tree`` and others, with parameters in brackets:
        ``"im-tree(merge_ratio=0.0625)"`` (docs/indexes.md). Decides speed, never results.
    workers : int
        Threads that share the work of a push; can be changed at any time (:attr:`workers`). They help from
        three threads and 2,048 arrivals a push on, in large windows and with many matches from two on
        (docs/guide/threads.md). Decides speed, never results.
    self_join : bool
        One stream plays both sides. Sides are ignored; a tuple never meets itself, and a pair that matches
        both ways comes out once, the earlier tuple as the left one. Its counters are those of the left
        side.
    group : int, optional
        At most how many arrivals go through the index together: 1 is tuple by tuple, up to 16 overlaps
        memory accesses, more sorts them. Decides speed, never results.
    strategy : str
        How several workers share the work: ``auto``, ``phases``, ``shared-index``, ``round-robin`` or
        ``subwindows`` (docs/concurrency.md). Decides speed, never results.

    Notes
    -----
    Cost per tuple: O(log window) plus its matches. NaN keys and NaT times take a position
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
        strategy: str = "auto",
    ) -> None:
        spec = numeric_spec(window, lower, upper, key, index, workers, self_join, group, strategy)
        self._spec = spec
        self._native = native_join(
            [(spec.key.name, [(("sum", spec.lower), ("sum", spec.upper))])],
            spec.window.native(),
            index=spec.index,
            self_join=spec.self_join,
            group=spec.group,
            workers=spec.workers,
            strategy=spec.strategy,
        )
        self._workers = spec.workers
        # Results that an interrupt kept from being returned.
        self._owed_pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._owed_counts: list[int] = []
        self._owed_ranges: list[Any] = []
        self._runs: dict[int, NDArray[np.int64]] = {}  # that results of the core may still refer to

    @property
    def spec(self) -> NumericSpec:
        """The checked description of this join."""
        return self._spec

    @property
    def index(self) -> str:
        """The index in use, which is the one that was asked for or the present choice of ``auto``."""
        name, _, _ = self._native.index()
        return name

    @property
    def workers(self) -> int:
        """Threads that share the work of a push. Can be set while another thread is in a push."""
        return self._workers

    @workers.setter
    def workers(self, workers: int) -> None:
        self._workers = check_workers(workers)
        self._native.set_workers(self._workers)

    @property
    def strategy(self) -> str:
        """How several workers share the work, as was asked for or as ``auto`` has chosen."""
        return self._native.strategy()

    def __repr__(self) -> str:
        spec = self._spec
        return (
            f"NumericJoin(window={spec.window}, lower={spec.lower}, upper={spec.upper}, "
            f"key={spec.key.name!r}, index={spec.index!r}, workers={self._workers}, "
            f"self_join={spec.self_join}, group={spec.group})"
        )

    def push(
        self,
        sides: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Join a batch of arrivals and return its matches.

        Parameters
        ----------
        sides : array of integers or booleans
            For each key, 0 if its tuple is a left one, 1 if it is a right one. Ignored by self-joins, which
            are called as ``push(None, keys)``.
        keys : array
            Keys that the join's key type holds exactly; anything else is refused. Contiguous arrays of this
            type are read in place. Python floats are rounded to float32, as NumPy does.
        times : array of int64 or datetime64, optional
            Timestamps, for time windows only. They must not decrease, over both sides together.

        Returns
        -------
        left, right : arrays of int64
            Positions of the tuples of each match: results of an earlier arrival first, those of one arrival
            by the position of its partner.
        """
        owed = self._owed_pairs
        self._run(owed, self._native.push, sides, keys, times)
        result = owed[0] if len(owed) == 1 else cast(Any, _concatenated(list(owed)))
        self._owed_pairs = []
        return result

    def count(
        self,
        sides: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> int:
        """Join a batch as :meth:`push` does, but only count its matches."""
        owed = self._owed_counts
        self._run(owed, self._native.count, sides, keys, times)
        result = sum(owed)
        self._owed_counts = []
        return result

    def ranges(
        self,
        sides: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Ranges:
        """Join a batch as :meth:`push` does, but name matches instead of listing them where possible.

        Takes the same arrays, does the same work and leaves the same state behind. An index that keeps
        sorted runs, as ``bi-sort`` does, names what an arrival matches in a run that it sees whole by the
        place where it begins and where it ends; the rest, and all matches of other indexes, are pairs.
        :meth:`Ranges.expand` makes pairs of all.

        Cost: as :meth:`count`, plus O(1) for each record, and a copy of each run the first time that a result
        refers to it. The join keeps these copies, 8 bytes a tuple, until the next call of ``ranges`` after
        the run has left the window.

        Examples
        --------
        >>> import numpy as np
        >>> import slidejoin as sj
        >>> join = sj.NumericJoin(window=10**4, lower=-10**6, upper=10**6, key=np.int32, index="bi-sort")
        >>> _ = join.count(np.zeros(5000, np.uint8), np.arange(5000, dtype=np.int32))
        >>> found = join.ranges(np.ones(2, np.uint8), np.array([7, 8], np.int32))
        >>> len(found), len(found.probe) < 20
        (10000, True)
        >>> left, right = found.expand()
        >>> left[:3], right[:3]
        (array([0, 1, 2]), array([0, 0, 0]))
        """
        owed = self._owed_ranges
        self._run(owed, self._native.ranges, sides, keys, times, keeps_sides=True)
        for _, (_, _, _, handed, _) in owed:
            for number, run in handed:
                run.flags.writeable = False
                self._runs[number] = run
        found = Ranges(*_one_batch(owed), self._runs)
        gone = {number for _, (_, _, _, _, gone) in owed for number in gone.tolist()}
        kept = {number: run for number, run in self._runs.items() if number not in gone}
        self._runs, self._owed_ranges = kept, []
        return found

    @property
    def stats(self) -> NumericStats:
        """The counters of rows, null keys, matches, tuples that may still match, and bytes in use."""
        stats = self._native.stats()
        return cast(NumericStats, {name: stats[name] for name in NumericStats.__annotations__})

    def check(self) -> None:
        """Verify the invariants of the index; raises StateError where one is broken. Cost: O(window)."""
        self._native.check()

    def _run(
        self,
        owed: list[Any],
        call: Callable[..., Any],
        sides: ArrayLike | None,
        keys: ArrayLike | None,
        times: ArrayLike | None,
        keeps_sides: bool = False,
    ) -> None:
        """Call the core and append its result to what is owed, with the sides that it has read if wanted.

        The core is called from inside ``extend``, so that no interrupt can come between its work and the
        list: results that an interrupt keeps back come first in the next result of their kind.
        """
        # Arrays that need nothing done to them. Subclasses of ndarray may need it: masked ones do.
        plain = type(keys) is _ndarray and (sides is None or type(sides) is _ndarray)
        if plain and times is None and not keeps_sides:
            try:
                owed.extend(map(call, (sides,), (keys,), (None,)))
                return
            except TypeError:
                pass
        arrays = self._arrays(sides, keys, times)
        if keeps_sides and arrays[0] is not None:  # the caller's array may change
            arrays = (arrays[0].copy(), *arrays[1:])
        try:
            results = map(call, *((array,) for array in arrays))
            owed.extend(zip((arrays[0],), results, strict=True) if keeps_sides else results)
        except OrderError as error:
            raise OrderError(self._explained(*error.refused)) from None

    def _arrays(
        self, sides: ArrayLike | None, keys: ArrayLike | None, times: ArrayLike | None
    ) -> tuple[NDArray[np.uint8] | None, NDArray[Any], NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        """The arrays in the form that the core reads; refuses what would lose or change a value."""
        if keys is None:
            how = "a self-join takes (None, keys)" if self._spec.self_join else "expected (sides, keys)"
            raise SchemaError(f"keys is missing; {how}")
        side_array = None if self._spec.self_join else sides_of(sides)
        key_array = column("keys", keys, self._spec.key)
        time_array = null_times = None
        if side_array is not None:
            side_array = same_length(side_array, "sides", key_array)
        if self._spec.window.uses_time:
            time_array, null_times = timestamps(times, self._spec.window)
            time_array = same_length(time_array, "times", key_array)
        elif times is not None:
            raise SchemaError("times were given, but a window of rows has no use for them; leave them out")
        return side_array, key_array, time_array, null_times

    def _explained(self, row: int, time: int, latest: int) -> str:
        """Which time goes back, with datetimes for nanoseconds, and the remedy."""
        shown = [_instant(each) if self._spec.window.timed else each for each in (time, latest)]
        return (
            f"times[{row}] is {shown[0]}, earlier than {shown[1]} before it; tuples of both sides must "
            f"arrive in time order: {_BY_TIME}"
        )


def _concatenated(results: list[tuple[NDArray[np.int64], ...]]) -> tuple[NDArray[np.int64], ...]:
    """The pairs of several batches as those of one."""
    return tuple(np.concatenate(arrays) for arrays in zip(*results, strict=True))


def _one_batch(
    results: list[tuple[NDArray[np.uint8] | None, Any]],
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...], NDArray[np.int64], Any]:
    """The records, pairs, positions and sides of several batches as those of one: arrivals count on."""
    arrived, records, pairs = 0, [], []
    for _, (found, listed, own, _, _) in results:
        records.append((found[0] + arrived, *found[1:]))
        pairs.append((*listed[:2], listed[2] + arrived))
        arrived += len(own)
    own = np.concatenate([result[2] for _, result in results])
    sides = [side for side, _ in results if side is not None]
    return _concatenated(records), _concatenated(pairs), own, np.concatenate(sides) if sides else None


def _instant(nanoseconds: int) -> str:
    return str(np.datetime64(nanoseconds, "ns")).rstrip("0").rstrip(".")
