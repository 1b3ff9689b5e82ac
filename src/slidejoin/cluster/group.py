"""A partition-group at a node: what waits in its buffers, its windows by mini-partition-group, its directory.

This is the state that moves between nodes (:meth:`PartitionGroup.pack`): windows, fresh marks, tuples that
still wait, and how the group is split.
"""

from collections import deque
from typing import Any

import numpy as np

from slidejoin.cluster.blocks import SIDES, BlockWindow, Kernel, MiniGroup, Pairs, Tuples, joined
from slidejoin.cluster.extendible import Bucket, Directory, tuned
from slidejoin.cluster.hashing import bits_of, hashed

BEFORE_ALL_TIME = -(2**63)


class PartitionGroup:
    """Joins the tuples of one partition-group, block by block.

    Parameters
    ----------
    kernel : Kernel
        The condition, with the lengths of the windows.
    block : int
        Tuples of a block.

    Examples
    --------
    >>> from slidejoin.cluster.blocks import as_tuples
    >>> import numpy as np
    >>> group = PartitionGroup(Kernel(10, 10), block=4)
    >>> for side in (0, 1):
    ...     group.receive(side, as_tuples(np.array([7, 8]), np.array([1, 2]), 0), until=3)
    >>> group.step(), group.step()
    ([], [Pairs(left=array([0, 1]), right=array([0, 1]))])
    """

    def __init__(self, kernel: Kernel, block: int) -> None:
        self._kernel = kernel
        self._block = block
        self.directory = Directory()
        self._minis = {Bucket(0, 0): MiniGroup.empty(block)}
        self._waiting: tuple[deque[Tuples], deque[Tuples]] = (deque(), deque())
        self._until = BEFORE_ALL_TIME
        self.expired = 0  # tuples that left the windows

    @property
    def waiting(self) -> int:
        """Tuples that were received and not processed."""
        return sum(each.size for side in self._waiting for each in side)

    @property
    def stored(self) -> int:
        """Tuples in the windows."""
        return sum(window.count for mini in self._minis.values() for window in mini.windows)

    @property
    def sizes(self) -> dict[Bucket, int]:
        """Blocks of each mini-partition-group."""
        return {bucket: mini.blocks for bucket, mini in self._minis.items()}

    def receive(self, side: int, tuples: Tuples, until: int) -> None:
        """Buffer tuples of a side; ``until`` promises that no earlier one will come, on either side."""
        if tuples.size:
            self._waiting[side].append(tuples)
        self._until = max(self._until, until)

    def step(self) -> list[Pairs]:
        """Process one block of the side whose first waiting tuple is the earlier one; then expire blocks."""
        found: list[Pairs] = []
        sides = [side for side in SIDES if self._waiting[side]]
        if sides:
            side = min(sides, key=lambda each: self._waiting[each][0].times[0])
            found += self._process(side, self._next_block(side))
        return [each for each in found + self._expire() if len(each.left)]

    def _process(self, side: int, tuples: Tuples) -> list[Pairs]:
        found: list[Pairs] = []
        numbers = self.directory.table[bits_of(hashed(tuples.keys), self.directory.depth)]
        for number in np.unique(numbers):
            mini = self._minis[self.directory.buckets[number]]
            found += mini.add(side, tuples.take(numbers == number), self._kernel)
        if not self._waiting[side]:
            found += [mini.join_fresh(side, self._kernel) for mini in self._minis.values()]
        return found

    def _next_block(self, side: int) -> Tuples:
        waiting, parts, room = self._waiting[side], [], self._block
        while waiting and room:
            first = waiting.popleft()
            parts.append(first.take(slice(room)))
            if first.size > room:
                waiting.appendleft(first.take(slice(room, None)))
            room -= parts[-1].size
        return joined(parts)

    def _expire(self) -> list[Pairs]:
        """A block leaves when the next tuple of the other side cannot see it; also one that still waits."""
        found: list[Pairs] = []
        for side in SIDES:
            others = self._waiting[1 - side]
            horizon = int(others[0].times[0]) if others else self._until
            before = horizon - self._kernel.windows[side]
            for mini in self._minis.values():
                pairs, gone = mini.expire(side, before, self._kernel)
                found += pairs
                self.expired += gone
        return found

    def tune(self, theta: float) -> None:
        """Split and merge mini-partition-groups so that each has θ to 2θ blocks. Cost: O(tuples moved)."""
        wanted = tuned(self.directory, self._blocks_of, theta)
        while self.directory != wanted:
            for bucket in self.directory.buckets:
                if bucket in wanted.buckets:
                    continue
                if any(each.depth > bucket.depth and bucket.holds(each.bits) for each in wanted.buckets):
                    self._split(bucket)
                elif bucket.buddy in self.directory.buckets:
                    self._merge(bucket)
                else:
                    continue
                break

    def _split(self, bucket: Bucket) -> None:
        shift = np.uint64(bucket.depth)
        halves = self._minis.pop(bucket).divided(lambda keys: (hashed(keys) >> shift) & np.uint64(1) == 1)
        self._minis |= dict(zip(bucket.halves, halves, strict=True))
        self.directory = self.directory.split(bucket)

    def _merge(self, bucket: Bucket) -> None:
        assert bucket.buddy is not None
        self._minis[bucket.parent] = self._minis.pop(bucket).merged(self._minis.pop(bucket.buddy))
        self.directory = self.directory.merge(bucket)

    def _blocks_of(self, bucket: Bucket) -> float:
        """The size of a bucket of any directory, in blocks: by tuples, so that sizes of halves add up."""
        for mine, mini in self._minis.items():
            if mine.depth <= bucket.depth and mine.holds(bucket.bits):
                inside = [
                    int((bits_of(hashed(each.keys), bucket.depth) == bucket.bits).sum())
                    for window in mini.windows
                    for each in (*window.full, window.head)
                ]
                return sum(inside) / self._block
        halves = bucket.halves
        return self._blocks_of(halves[0]) + self._blocks_of(halves[1])

    def pack(self) -> dict[str, Any]:
        """The whole state as plain data: what is sent when the group moves."""
        return {
            "until": self._until,
            "expired": self.expired,
            "waiting": [[each._asdict() for each in side] for side in self._waiting],
            "minis": [
                {
                    "bucket": (bucket.depth, bucket.bits),
                    "windows": [
                        {
                            "full": [each._asdict() for each in window.full],
                            "head": window.head._asdict(),
                            "fresh": window.fresh,
                        }
                        for window in mini.windows
                    ],
                }
                for bucket, mini in self._minis.items()
            ],
        }

    @classmethod
    def unpack(cls, state: dict[str, Any], kernel: Kernel, block: int) -> "PartitionGroup":
        """A group in the state that :meth:`pack` returned."""
        group = cls(kernel, block)
        group._until, group.expired = state["until"], state["expired"]
        for waiting, side in zip(group._waiting, state["waiting"], strict=True):
            waiting.extend(Tuples(**each) for each in side)
        group._minis = {
            Bucket(*mini["bucket"]): MiniGroup(
                tuple(  # type: ignore[arg-type]
                    BlockWindow(
                        block,
                        [Tuples(**each) for each in window["full"]],
                        Tuples(**window["head"]),
                        window["fresh"],
                    )
                    for window in mini["windows"]
                )
            )
            for mini in state["minis"]
        }
        group.directory = Directory(tuple(sorted(group._minis)))
        return group
