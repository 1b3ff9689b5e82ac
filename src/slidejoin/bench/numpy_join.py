"""What a NumPy user writes today: a band join over sliding count windows, a batch at a time.

A tuple is one word, its key above its position, so that ``np.sort``, the fastest that NumPy has, orders both.
A side is a list of sorted runs: one large, and the batches since the large one was made, which are put into
it now and then; with ``recent=0`` every batch sorts the whole window anew. Arrivals look for their partners
with ``searchsorted``, drop what they may not see, and give the pairs of ``NumericJoin.push`` in its order.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_BITS = 30  # of positions; leaves room for a key plus a bound
_LOW = np.int64(2**_BITS - 1)


class NumpyJoin:
    """Join two streams of int32 keys on ``left + lower <= right <= left + upper``.

    Parameters
    ----------
    window : int
        Tuples kept of each side.
    lower, upper : int
        The band, on right - left.
    recent : int
        Batches that stay runs of their own before they are sorted into the large one.

    Notes
    -----
    Cost of a batch: a sort of it and of its pairs, two searches of it in each run, and every ``recent + 1``
    batches a sort of the window. For fewer than 2**30 tuples of a side.
    """

    def __init__(self, window: int, lower: int, upper: int, recent: int = 0) -> None:
        self._window = window
        self._recent = recent
        self._bounds = ((lower, upper), (-upper, -lower))
        self._next = [0, 0]
        self._runs: tuple[list[Words], list[Words]] = ([], [])

    def push(self, sides: NDArray[np.uint8], keys: NDArray[np.int32]) -> Pairs:
        """Join a batch and return its pairs."""
        rows = (np.flatnonzero(sides == 0), np.flatnonzero(sides))
        starts = tuple(self._next)
        position = np.empty(len(sides), np.int64)
        for side in (0, 1):
            position[rows[side]] = np.arange(len(rows[side])) + starts[side]
            self._insert(side, keys[rows[side]].astype(np.int64) << _BITS | position[rows[side]])
        lefts = np.cumsum(sides == 0)  # of the batch, up to each arrival
        seen = (starts[0] + lefts, starts[1] + np.arange(1, len(sides) + 1) - lefts)
        found = []
        for side in (0, 1):
            needles = np.sort(keys[rows[side]].astype(np.int64) << _BITS | rows[side])
            row = needles & _LOW
            low, high = ((needles >> _BITS) + bound << _BITS for bound in self._bounds[side])
            for run in self._runs[1 - side]:
                first = np.searchsorted(run, low)
                counts = np.searchsorted(run, high | _LOW) - first
                ends = np.cumsum(counts)
                slots = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
                which, partner = np.repeat(row, counts), run[slots] & _LOW
                last = seen[1 - side][which]
                visible = (partner < last) & (partner >= last - self._window)
                found.append((which << _BITS | partner)[visible])
        pairs = np.sort(np.concatenate(found))
        row, partner = pairs >> _BITS, pairs & _LOW
        own, is_left = position[row], sides[row] == 0
        return np.where(is_left, own, partner), np.where(is_left, partner, own)

    def _insert(self, side: int, words: Words) -> None:
        runs = self._runs[side]
        first = self._next[side] - self._window
        self._next[side] += len(words)
        if len(runs) > self._recent:
            live = [run[(run & _LOW) >= first] for run in runs]
            runs.clear()
            if self._recent:
                runs.append(np.sort(np.concatenate(live)))
            else:
                words = np.concatenate([*live, words])
        runs.append(np.sort(words))
