"""Partition tuning: extendible hashing keeps the mini-partition-groups of a group within [θ, 2θ].

A directory has 2^d entries, indexed by the d least significant bits of a hash. A bucket, which is a
mini-partition-group, has a local depth d' and the d' bits that its keys have in common. It splits above 2θ;
the directory doubles where d' = d. A bucket below θ merges with its buddy if both have the same depth and are
below 2θ together. The paper's buddy formula assumes the first bits of a hash while its text takes the last
ones; here it is the last ones throughout, and the buddy of bits b at depth d' is b XOR 2^(d'-1).

Directories are immutable. Cost: lookup O(1) by the table; a split or merge O(2^d).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_number

MOST_DEPTH = 24


@dataclass(frozen=True, order=True)
class Bucket:
    """A mini-partition-group: the hashes whose ``depth`` last bits are ``bits``."""

    depth: int
    bits: int

    def __post_init__(self) -> None:
        if not (0 <= self.depth <= MOST_DEPTH and 0 <= self.bits < 1 << self.depth):
            raise SpecError(f"bucket of depth {self.depth} and bits {self.bits}; bits are below 2^depth")

    def holds(self, hashed: int) -> bool:
        """Tell whether a hash belongs to it.

        Examples
        --------
        >>> Bucket(2, 0b01).holds(0b1101)
        True
        """
        return hashed & ((1 << self.depth) - 1) == self.bits

    @property
    def halves(self) -> tuple["Bucket", "Bucket"]:
        """The two buckets that it splits into."""
        return Bucket(self.depth + 1, self.bits), Bucket(self.depth + 1, self.bits | 1 << self.depth)

    @property
    def buddy(self) -> "Bucket | None":
        """The bucket that it merges with."""
        return Bucket(self.depth, self.bits ^ 1 << (self.depth - 1)) if self.depth else None

    @property
    def parent(self) -> "Bucket":
        """What it and its buddy merge into."""
        return Bucket(self.depth - 1, self.bits & ((1 << (self.depth - 1)) - 1))


@dataclass(frozen=True)
class Directory:
    """The buckets of one partition-group: every hash belongs to exactly one.

    Examples
    --------
    >>> directory = Directory().split(Bucket(0, 0)).split(Bucket(1, 1))
    >>> directory.depth, directory.buckets
    (2, (Bucket(depth=1, bits=0), Bucket(depth=2, bits=1), Bucket(depth=2, bits=3)))
    >>> directory.table
    array([0, 1, 0, 2])
    """

    buckets: tuple[Bucket, ...] = (Bucket(0, 0),)

    def __post_init__(self) -> None:
        if (
            sum(1 << (MOST_DEPTH - each.depth) for each in self.buckets) != 1 << MOST_DEPTH
            or -1 in self.table
        ):
            raise SpecError(f"buckets {self.buckets} do not cover each hash once; start from Directory()")

    @property
    def depth(self) -> int:
        """The global depth d: the table has 2^d entries."""
        return max(each.depth for each in self.buckets)

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """For the ``depth`` last bits of a hash, the number of its bucket."""
        table = np.full(1 << self.depth, -1, dtype=np.int64)
        for number, each in enumerate(self.buckets):
            table[each.bits :: 1 << each.depth] = number
        return table

    def find(self, hashed: int) -> Bucket:
        """The bucket of a hash."""
        return self.buckets[int(self.table[hashed & ((1 << self.depth) - 1)])]

    def split(self, bucket: Bucket) -> "Directory":
        """The directory with a bucket split; twice as large where its depth was the global one."""
        self._check(bucket)
        rest = [each for each in self.buckets if each != bucket]
        return Directory(tuple(sorted([*rest, *bucket.halves])))

    def merge(self, bucket: Bucket) -> "Directory":
        """The directory with a bucket and its buddy merged; half as large where possible."""
        self._check(bucket)
        if bucket.buddy not in self.buckets:
            raise SpecError(f"{bucket} has no buddy in the directory; it is split further or is the only one")
        rest = [each for each in self.buckets if each not in (bucket, bucket.buddy)]
        return Directory(tuple(sorted([*rest, bucket.parent])))

    def _check(self, bucket: Bucket) -> None:
        if bucket not in self.buckets:
            raise SpecError(f"{bucket} is not in the directory; it has {len(self.buckets)} other ones")


def tuned(
    directory: Directory, size: Callable[[Bucket], float], theta: float, most_depth: int = 16
) -> Directory:
    """The directory after all splits and merges that the sizes ask for.

    Parameters
    ----------
    directory : Directory
        That of the partition-group now.
    size : function of a Bucket
        How much a bucket holds, or would hold; sizes of halves add up.
    theta : float
        θ: no bucket above 2θ remains, unless it is at ``most_depth``; no bucket below θ whose buddy has the
        same depth, if both are below 2θ together.
    most_depth : int
        Splitting ends there: one hot key can never be split.

    Notes
    -----
    Cost: a call of ``size`` for each bucket, and O(2^d) for each change. A second call changes nothing.

    Examples
    --------
    >>> keys = [0, 1, 2, 3, 4, 5, 6, 7, 1, 1]
    >>> tuned(Directory(), lambda bucket: sum(map(bucket.holds, keys)), theta=2).buckets
    (Bucket(depth=1, bits=0), Bucket(depth=2, bits=1), Bucket(depth=2, bits=3))
    """
    as_number("theta", theta, "above 0", above=0)
    if not 0 <= most_depth <= MOST_DEPTH:
        raise SpecError(f"most_depth {most_depth}; expected 0 to {MOST_DEPTH}")
    waiting = list(directory.buckets)
    while waiting:
        bucket = waiting.pop()
        if bucket not in directory.buckets:
            continue
        held, buddy = size(bucket), bucket.buddy
        if held > 2 * theta and bucket.depth < most_depth:
            directory = directory.split(bucket)
            waiting += bucket.halves
        elif held < theta and buddy in directory.buckets and held + size(buddy) < 2 * theta:
            directory = directory.merge(bucket)
            beside = bucket.parent.buddy  # may have waited for this merge
            waiting += [bucket.parent] if beside is None else [beside, bucket.parent]
    return directory
