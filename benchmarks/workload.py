"""The workload of most measurements: two streams of uniform keys over full count windows.

Left and right tuples alternate, keys are uniform 32-bit integers, each side keeps ``window``
tuples and the band is so wide that a probe meets ``matches`` of them on average. The sequence is a
function of the seed and the arrival's number alone; ``benchmarks/peers/workload.hpp`` generates the
same one.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.numeric import NumericJoin

_BLOCK = 1 << 20
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Workload:
    """Two alternating streams and the band that joins them."""

    window: int
    matches: float = 2
    seed: int = 1

    @property
    def width(self) -> int:
        """How many keys a probe asks for."""
        return int(self.matches * 2**32 / self.window)

    @property
    def lower(self) -> int:
        """Lower bound of the band, on right - left."""
        return -(self.width // 2)

    @property
    def upper(self) -> int:
        """Upper bound of the band."""
        return self.width - self.width // 2 - 1

    @property
    def warm(self) -> int:
        """Arrivals that come before a measurement: they fill both windows and replace them once."""
        return 4 * self.window

    def keys(self, start: int, count: int) -> NDArray[np.int32]:
        """Generate the keys of the arrivals ``start`` to ``start + count``."""
        return (self._bits(start, count) >> np.uint64(32)).astype(np.uint32).view(np.int32)

    def _bits(self, start: int, count: int) -> NDArray[np.uint64]:
        """64 random bits for each of these arrivals."""
        number = np.arange(start + 1, start + count + 1, dtype=np.uint64)
        mixed = number * _GOLDEN + np.full(1, self.seed, np.uint64)  # splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def sides(self, start: int, count: int) -> NDArray[np.uint8]:
        """Generate the sides of the same arrivals: left and right in turn."""
        return ((np.arange(count) + start) % 2).astype(np.uint8)

    def join(self, index: str = "b-tree", group: int | None = None, **options: Any) -> NumericJoin:
        """Make a join of this workload whose windows are full; the options are those of NumericJoin."""
        join = NumericJoin(self.window, self.lower, self.upper, np.int32, index, group=group, **options)
        for start in range(0, self.warm, _BLOCK):
            count = min(_BLOCK, self.warm - start)
            join.count(self.sides(start, count), self.keys(start, count))
        return join


@dataclass(frozen=True)
class Gaussian(Workload):
    """The same with normally distributed keys whose mean may drift.

    Parameters
    ----------
    drift : float
        The ``r`` of "Parallel Index-based Stream Join on a Multicore CPU", section 5.2: the mean moves by
        ``r`` while the windows are replaced once, where the standard deviation is 0.125. It turns back where
        keys would leave their 32 bits.
    """

    drift: float = 0

    _DEVIATION = 2**25  # of the keys; no arrival is further than 7 from its mean
    _LIMIT = 48  # where the mean turns back, in deviations

    @property
    def _speed(self) -> float:
        """Deviations that the mean moves while the windows are replaced once."""
        return self.drift / 0.125

    @property
    def width(self) -> int:
        """How many keys a probe asks for: by the density of its distances to the tuples of a window."""
        density = 1 / math.sqrt(4 * math.pi)
        if self._speed:
            density = math.erf(self._speed / 2) / (2 * self._speed)
        return int(self.matches * self._DEVIATION / (density * self.window))

    def keys(self, start: int, count: int) -> NDArray[np.int32]:
        """Generate the keys of the arrivals ``start`` to ``start + count``."""
        bits = self._bits(start, count)
        radius = np.sqrt(-2 * np.log(((bits >> np.uint64(32)).astype(np.float64) + 1) / 2**32))
        angle = (bits & np.uint64(2**32 - 1)).astype(np.float64) * (2 * np.pi / 2**32)
        way = self._speed * np.arange(start, start + count) / (2 * self.window) % (4 * self._LIMIT)
        mean = np.where(way < 2 * self._LIMIT, way - self._LIMIT, 3 * self._LIMIT - way)
        keys: NDArray[np.float64] = np.floor(self._DEVIATION * (mean + radius * np.cos(angle)))
        return keys.astype(np.int32)


def power(window: int) -> str:
    """A window as lines of a report name it.

    Examples
    --------
    >>> power(2**20)
    '2^20'
    """
    return f"2^{window.bit_length() - 1}"


class Feed:
    """Pushes the stream into a warm join, run after run."""

    def __init__(
        self, workload: Workload, push: int, index: str = "b-tree", group: int | None = None, **options: Any
    ) -> None:
        self.join = workload.join(index, group, **options)
        self._workload = workload
        self._push = push
        self._next = workload.warm

    def next_pushes(self, tuples: int) -> list[tuple[NDArray[np.uint8], NDArray[np.int32]]]:
        """Generate the next arrivals of the stream, cut into pushes."""
        sides = self._workload.sides(self._next, tuples)
        keys = self._workload.keys(self._next, tuples)
        self._next += tuples
        return [
            (sides[start : start + self._push], keys[start : start + self._push])
            for start in range(0, tuples, self._push)
        ]
