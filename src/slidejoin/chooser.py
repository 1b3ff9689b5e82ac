"""Which index fits a stream: decided from the window and the first batch.

The rule of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen) for batches: sorted subwindows
where batches or results are large, otherwise range partitions, or, for keys that move, wide leaves. Streams
that come tuple by tuple get the tree of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani,
Jacobsen). :func:`observe` looks at a batch, :func:`choose` decides; neither keeps anything, and the same
batch leads to the same index.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCANNED = 64  # tuples of a window that is scanned faster than searched
CACHED = 2**13  # tuples of a window whose B+-tree stays in the nearest caches
BATCHED = 64  # tuples of a side in a batch for which sorting it begins to pay
SUBWINDOW = 7  # a full window has as many of them
MERGED = 64  # a batch of at least this part of a subwindow is worth merging into it
LARGE = 2**16  # a batch that is large beside any subwindow
MANY = 128  # matches of a probe that are better named or copied as a stretch than picked out

_PROBES = 1024  # keys that are looked up to estimate matches


@dataclass(frozen=True)
class FirstBatch:
    """What a first batch tells of a stream."""

    size: int  # tuples of the side that has more of them
    density: float  # share of the other side's keys that a key matches
    moving: bool  # whether keys rise or fall from one end of the batch to the other


def choose(window: int | None, batch: FirstBatch) -> str:
    """Name the index for a window of so many tuples a side, or of a number that is not known, as of time.

    Examples
    --------
    >>> choose(2**20, FirstBatch(size=1, density=2e-6, moving=False))
    'pim-tree'
    >>> choose(2**20, FirstBatch(size=2**17, density=2e-6, moving=False))
    'bi-sort'
    >>> choose(2**20, FirstBatch(size=512, density=2e-6, moving=True))
    'wib-tree'
    """
    if window is not None and window <= SCANNED:
        return "nested-loop"
    held = max(window or 0, batch.size)  # at least as many tuples meet each other
    if window is not None and batch.size * SUBWINDOW * MERGED >= window and batch.size >= BATCHED:
        return "bi-sort"
    if batch.size >= LARGE or batch.density * held >= MANY:
        return "bi-sort"
    if batch.size < BATCHED:
        return "b-tree" if window is not None and window <= CACHED else "pim-tree"
    return "wib-tree" if batch.moving else "rap-table"


def observe(left: NDArray[Any], right: NDArray[Any], lower: float, upper: float) -> FirstBatch:
    """Look at the keys of both sides of a batch, in the order of arrival; a self-join gives its keys twice.

    The band is ``left + lower <= right <= left + upper``. NaN keys do not count. Cost: a sort of the right
    keys and about a thousand searches.

    Examples
    --------
    >>> keys = np.arange(1000)
    >>> batch = observe(keys, keys[::-1], -5, 5)
    >>> batch.size, round(batch.density, 3), batch.moving
    (1000, 0.011, True)
    """
    left, right = left[left == left], right[right == right]  # noqa: PLR0124 - NaN differs from itself
    size = max(len(left), len(right))
    if not len(left) or not len(right):
        return FirstBatch(size, 0.0, _moves(left) or _moves(right))
    numbers, others = _distances(left[:: -(-len(left) // _PROBES)], right)
    others = np.sort(others)
    found = np.searchsorted(others, numbers + upper, "right") - np.searchsorted(others, numbers + lower)
    return FirstBatch(size, float(np.maximum(found, 0).mean() / len(others)), _moves(left) or _moves(right))


def _distances(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keys as distances from the least one, which keeps the differences of large integers apart."""
    least = min(left.min(), right.min())
    if left.dtype.kind == "f":
        return left.astype(np.float64) - float(least), right.astype(np.float64) - float(least)
    # The distance of two integers of 64 bits fits into 64 bits without a sign.
    first = np.uint64(int(least) % 2**64)
    return tuple((keys.astype(np.uint64) - first).astype(np.float64) for keys in (left, right))  # type: ignore


def _moves(keys: NDArray[Any]) -> bool:
    """Whether the middle half of the last quarter lies beyond that of the first one."""
    quarter = len(keys) // 4
    if quarter < BATCHED // 4:
        return False
    ends = (np.sort(keys[:quarter]), np.sort(keys[-quarter:]))
    (low, high), (last_low, last_high) = ((end[quarter // 4], end[-1 - quarter // 4]) for end in ends)
    return bool(high < last_low or last_high < low)
