"""Joins of two uniform streams, timed piece by piece: what all measurements of a calibration are made of.

Times are processor time of the calling thread, which other programs on the machine disturb little.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.numeric import NumericJoin

_POOL = 2**22  # arrivals, after which the keys repeat
_FILL = 2**18  # arrivals of a push that fills windows


@cache
def _pool() -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Sides, left and right in turn, and keys, uniform over 32 bits."""
    keys = np.random.default_rng(1).integers(-(2**31), 2**31, _POOL, np.int32)
    return (np.arange(_POOL) % 2).astype(np.uint8), keys


class Stream:
    """A join of two uniform streams whose windows are full, and the arrivals that come next.

    Parameters
    ----------
    index : str
        With its parameters.
    window : int
        Tuples of each side.
    matches : number
        Of an arrival, on average.
    one_sided : bool
        Whether only left tuples arrive, so that arrivals are inserted but find nothing to search.
    plain : bool
        Whether arrivals may be joined in one pass, as those of plain joins are (``slidejoin.model.costs``).
    """

    def __init__(
        self, index: str, window: int, matches: float = 1, one_sided: bool = False, plain: bool = True
    ) -> None:
        width = int(matches * 2**32 / window)
        kept = (window, 1) if one_sided else window
        strategy = "auto" if plain else "phases"  # which one worker has to itself
        lower, upper = -(width // 2), width - width // 2 - 1
        self.join = NumericJoin(kept, lower, upper, np.int32, index, strategy=strategy)
        self.window = window
        self._one_sided = one_sided
        self._next = 0
        arrivals = window if one_sided else 2 * window
        for push in self.pushes(arrivals, min(arrivals, _FILL)):
            self.join.count(*push)

    def pushes(self, arrivals: int, batch: int) -> list[tuple[NDArray[np.uint8], NDArray[np.int32]]]:
        """The next arrivals, at least one batch of them, in pushes of a size."""
        sides, keys = _pool()
        result = []
        for _ in range(max(arrivals // batch, 1)):
            start = self._next % (_POOL - batch)
            own = np.zeros(batch, np.uint8) if self._one_sided else sides[:batch]
            result.append((own, keys[start : start + batch]))
            self._next += batch
        return result

    def time(self, arrivals: int, batch: int, listed: bool = False) -> float:
        """Seconds of an arrival, over the next arrivals in pushes of a size."""
        return timed(self.join.push if listed else self.join.count, self.pushes(arrivals, batch))

    @property
    def bytes_per_tuple(self) -> float:
        """Bytes of the join for each tuple that it holds."""
        stats = self.join.stats
        return stats["memory_bytes"] / max(stats["stored_left"] + stats["stored_right"], 1)


def timed(
    call: Callable[..., Any], pushes: Sequence[tuple[Any, Any]], clock: Callable[[], float] = time.thread_time
) -> float:
    """Seconds of an arrival in these pushes."""
    start = clock()
    for sides, keys in pushes:
        call(sides, keys)
    return (clock() - start) / sum(len(keys) for _, keys in pushes)


class Figure:
    """Measurements of one figure."""

    def __init__(self, samples: Sequence[float]) -> None:
        self.mean = float(np.mean(samples))
        self.median = float(np.median(samples))
        deviation = float(np.std(samples)) / math.sqrt(len(samples))
        self.spread = deviation / abs(self.mean) if self.mean else 0.0
