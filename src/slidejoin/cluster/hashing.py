"""How keys become partition-groups and mini-partition-groups: one hash, two independent parts of it.

The high 32 bits of the hash choose the group, the low ones go to the group's directory
(:mod:`~slidejoin.cluster.extendible`). Cost: a few nanoseconds a key.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.load import Ints


def hashed(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """A 64-bit hash of whole numbers, alike on every machine (the finaliser of splitmix64).

    Examples
    --------
    >>> import numpy as np
    >>> hashed(np.array([1, 2]))
    array([10451216379200822465, 10905525725756348110], dtype=uint64)
    """
    mixed = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def group_of(hashes: NDArray[np.uint64], groups: int) -> Ints:
    """The partition-group of each hash: 0 to groups - 1.

    Examples
    --------
    >>> import numpy as np
    >>> group_of(hashed(np.arange(6)), 3)
    array([0, 1, 1, 0, 2, 2])
    """
    return ((hashes >> np.uint64(32)) % np.uint64(groups)).astype(np.int64)


def bits_of(hashes: NDArray[np.uint64], depth: int) -> Ints:
    """The last bits of each hash, which index a directory of this depth.

    Examples
    --------
    >>> import numpy as np
    >>> bits_of(np.array([5, 6], np.uint64), 2)
    array([1, 2])
    """
    return (hashes & np.uint64((1 << depth) - 1)).astype(np.int64)
