"""The band join that a Python user writes with NumPy: what ``NumericJoin`` is measured against.

Both forms keep each side as words of 64 bits, the key above the tuple's position, because NumPy sorts words
several times faster than it finds the order of keys. A batch is sorted once and serves twice: it becomes part
of its own side, and it probes the other side in ascending order, which ``searchsorted`` likes. Pairs come out
by key; the order of arrival, which slidejoin restores, is spared them.
"""

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_BIAS = 2**31  # makes the order of signed keys that of unsigned ones
_MOST = 2**32 - 1


class _Windows(ABC):
    """A join of int32 keys over the last ``window`` tuples of each side, at most 2^32 tuples a side.

    A push stores the whole batch first. Then each tuple meets what stands in its band, and the pairs that it
    may not see, with tuples still to come or gone already, are struck out.
    """

    def __init__(self, window: int, lower: int, upper: int) -> None:
        self._window = window
        self._bands = ((lower, upper), (-upper, -lower))  # as a left and as a right tuple sees it
        self._arrived = [0, 0]

    def push(self, sides: NDArray[np.uint8], keys: NDArray[np.int32]) -> tuple[Numbers, Numbers]:
        """Join a batch; left and right positions of its pairs."""
        rights = np.cumsum(sides, dtype=np.int64)
        batches: list[tuple[Words, Numbers]] = []
        for side in (0, 1):
            at = np.flatnonzero(sides == side)
            before = self._arrived[1 - side] + (rights[at] if side == 0 else at + 1 - rights[at])
            positions = np.arange(self._arrived[side], self._arrived[side] + len(at), dtype=np.uint64)
            words = ((keys[at].astype(np.int64) + _BIAS).astype(np.uint64) << _HALF) | positions
            words.sort()
            batches.append((words, before))
        for side, (words, _) in enumerate(batches):
            self._store(side, words, self._arrived[side] - self._window)
        found = [self._probe(side, words, before) for side, (words, before) in enumerate(batches)]
        for side, (words, _) in enumerate(batches):
            self._arrived[side] += len(words)
        (left, met_right), (right, met_left) = found
        return np.concatenate([left, met_left]), np.concatenate([met_right, right])

    @abstractmethod
    def _store(self, side: int, words: Words, first: int) -> None:
        """Make a sorted batch part of its side, of which positions from ``first`` on are still needed."""

    @abstractmethod
    def _runs(self, side: int) -> list[Words]:
        """The sorted runs that a side consists of."""

    def _probe(self, side: int, words: Words, before: Numbers) -> tuple[Numbers, Numbers]:
        """Own and met positions of a batch's pairs; ``before`` has, for each tuple, the others' arrivals."""
        lower, upper = self._bands[side]
        keys = (words >> _HALF).astype(np.int64)
        own = (words & _LOW).astype(np.int64)
        newest = before[own - self._arrived[side]] - 1  # position of the last one that it may see
        lows = np.clip(keys + lower, 0, _MOST).astype(np.uint64) << _HALF
        highs = (np.clip(keys + upper, 0, _MOST).astype(np.uint64) << _HALF) | _LOW
        outside = (keys + lower > _MOST) | (keys + upper < 0)
        owns, mets = [], []
        for run in self._runs(1 - side):
            starts = np.searchsorted(run, lows)
            counts = np.searchsorted(run, highs, side="right") - starts
            counts[outside] = 0
            probes = np.repeat(np.arange(len(words)), counts)
            first = starts - (np.cumsum(counts) - counts)
            met = (run[first[probes] + np.arange(len(probes))] & _LOW).astype(np.int64)
            # Ages are 0 to window - 1; those to come have a negative one, which is a huge unsigned number.
            seen = np.flatnonzero((newest[probes] - met).view(np.uint64) < np.uint64(self._window))
            owns.append(own[probes[seen]])
            mets.append(met[seen])
        return np.concatenate(owns), np.concatenate(mets)


class Resorted(_Windows):
    """Each push sorts the whole window anew."""

    def __init__(self, window: int, lower: int, upper: int) -> None:
        super().__init__(window, lower, upper)
        # In the order of arrival, each with the position behind its last one.
        self._batches: tuple[list[tuple[int, Words]], ...] = ([], [])
        self._sorted: list[Words] = [np.empty(0, np.uint64)] * 2

    def _store(self, side: int, words: Words, first: int) -> None:
        if not len(words):
            return
        batches = self._batches[side]
        batches.append((self._arrived[side] + len(words), words))
        while batches[0][0] <= first:
            del batches[0]
        self._sorted[side] = np.sort(np.concatenate([batch for _, batch in batches]))

    def _runs(self, side: int) -> list[Words]:
        return [self._sorted[side]]


class Merged(_Windows):
    """Two levels: batches are merged into a young run, and that into the old one when it has grown.

    A stable sort of two sorted runs, one behind the other, is how NumPy merges in linear time.
    """

    def __init__(self, window: int, lower: int, upper: int, share: float = 0.25) -> None:
        super().__init__(window, lower, upper)
        self._limit = share * window  # of the young run
        self._old: list[Words] = [np.empty(0, np.uint64)] * 2
        self._young: list[Words] = [np.empty(0, np.uint64)] * 2

    def _store(self, side: int, words: Words, first: int) -> None:
        young = _merged(self._young[side], words)
        if len(young) > self._limit:
            old = self._old[side]
            kept = old[(old & _LOW) >= np.uint64(max(first, 0))]
            self._old[side] = _merged(kept, young)
            young = young[:0]
        self._young[side] = young

    def _runs(self, side: int) -> list[Words]:
        return [run for run in (self._old[side], self._young[side]) if len(run)] or [self._old[side]]


def _merged(one: Words, other: Words) -> Words:
    if not len(one) or not len(other):
        return one if len(one) else other
    return np.sort(np.concatenate([one, other]), kind="stable")


NUMPY_JOINS = {"re-sort": Resorted, "two-level merge": Merged}
