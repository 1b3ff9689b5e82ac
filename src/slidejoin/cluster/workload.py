"""The streams of the paper: Poisson arrivals, keys by the b-model.

The b-model halves the range of keys again and again; at each level one half gets a share b of the tuples. So
each bit of a key is 0 with probability b, and 0.7 is near the 80/20 law.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.hashing import group_of, hashed
from slidejoin.cluster.load import Floats, Ints

_DRAWN = 12  # bits that one random number decides
_CHUNK = 1 << 20


class BModel:
    """Draws keys 0 to ``keys`` by the b-model.

    Examples
    --------
    >>> import numpy as np
    >>> model = BModel(keys=1023, b=0.7)
    >>> drawn = model.draw(10_000, np.random.default_rng(1))
    >>> int(drawn.max()) <= 1023, round(float((drawn < 512).mean()), 1)
    (True, 0.7)
    """

    def __init__(self, keys: int, b: float) -> None:
        self.keys, self.b = keys, b
        self.levels = max(1, int(keys).bit_length())
        self._parts = [
            min(_DRAWN, self.levels - at) for at in range(0, self.levels, _DRAWN)
        ]  # bits of each random number
        self._tables = {bits: np.cumsum(leaf_shares(bits, b)) for bits in self._parts}

    def draw(self, count: int, random: np.random.Generator) -> Ints:
        """So many keys. Cost: about 100 ns a key."""
        leaves = np.zeros(count, np.int64)
        for bits in self._parts:
            table = self._tables[bits]
            drawn = np.searchsorted(table, random.random(count) * table[-1], side="right")
            leaves = (leaves << bits) | np.minimum(drawn, len(table) - 1)
        return self._scaled(leaves)

    def _scaled(self, leaves: Ints) -> Ints:
        return leaves * (self.keys + 1) >> self.levels

    def group_shares(self, groups: int) -> tuple[Floats, Floats]:
        """For each partition-group, its share of the tuples, and how likely two tuples of it match.

        Over all keys; uniform keys are taken as even over the groups. Cost: 0.1 µs a key, once for given
        arguments.
        """
        if self.b == 0.5:
            return np.full(groups, 1 / groups), np.full(groups, min(groups / (self.keys + 1), 1.0))
        return _group_shares(self.keys, self.b, groups)

    def shares_by_key(self) -> Floats:
        """The probability of each key."""
        shares = np.zeros(self.keys + 1)
        for start in range(0, 1 << self.levels, _CHUNK):
            leaves = np.arange(start, min(start + _CHUNK, 1 << self.levels))
            ones = np.bitwise_count(leaves).astype(np.float64)
            weights = self.b ** (self.levels - ones) * (1 - self.b) ** ones
            keys = self._scaled(leaves)
            part = np.bincount(keys - keys[0], weights=weights)
            shares[keys[0] : keys[0] + len(part)] += part
        return shares


def leaf_shares(levels: int, b: float) -> Floats:
    """The share of each of 2^levels leaves.

    Examples
    --------
    >>> leaf_shares(2, 0.75)
    array([0.5625, 0.1875, 0.1875, 0.0625])
    """
    ones = np.bitwise_count(np.arange(1 << levels)).astype(np.float64)
    shares: Floats = b ** (levels - ones) * (1 - b) ** ones
    return shares


@lru_cache(maxsize=8)
def _group_shares(keys: int, b: float, groups: int) -> tuple[Floats, Floats]:
    shares = BModel(keys, b).shares_by_key()
    total, squares = np.zeros(groups), np.zeros(groups)
    for start in range(0, len(shares), _CHUNK):
        part = shares[start : start + _CHUNK]
        group = group_of(hashed(np.arange(start, start + len(part))), groups)
        total += np.bincount(group, weights=part, minlength=groups)
        squares += np.bincount(group, weights=part**2, minlength=groups)
    meets = np.divide(squares, total**2, out=np.zeros(groups), where=total > 0)
    return total, meets


def hot_key(settings_keys: int, number: int) -> int:
    """The hot key of a period: another one each time, all over the range.

    Examples
    --------
    >>> hot_key(1000, 0) != hot_key(1000, 1)
    True
    """
    return int(hashed(np.array([number + 12345]))[0] % np.uint64(settings_keys + 1))


def poisson_times(rate: float, start: float, end: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Sorted times of a Poisson process with this rate in [start, end).

    Examples
    --------
    >>> import numpy as np
    >>> times = poisson_times(1000, 2, 4, np.random.default_rng(1))
    >>> 1900 < len(times) < 2100
    True
    """
    count = int(random.poisson(rate * (end - start)))
    return np.sort(random.random(count)) * (end - start) + start
