"""Windows of blocks: one side of a mini-partition-group, and the join of both sides, each pair once.

Section IV.D of the shared-nothing join. New tuples go to the head block of their window and are *fresh*. When
the head is full, or no more tuples wait, the fresh ones are joined with the stored tuples of the opposite
window; its own fresh ones are left out, since they will meet these later. A block expires as a whole: before
it is dropped it is joined with the fresh tuples of the opposite head, which would miss it otherwise. The join
itself is one call of the core's kernel for two tables, with the window's time as a band.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.load import Ints
from slidejoin.native import native_pairs

SIDES = (0, 1)


class Tuples(NamedTuple):
    """Tuples of one side: keys, timestamps, and positions on their side."""

    keys: Ints
    times: Ints
    positions: Ints

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.keys)

    def take(self, which: Any) -> "Tuples":
        """Some of them: a slice, a mask or numbers."""
        return Tuples(self.keys[which], self.times[which], self.positions[which])


EMPTY = Tuples(*(np.empty(0, np.int64) for _ in range(3)))


def joined(parts: list[Tuples]) -> Tuples:
    """Several pieces as one."""
    return Tuples(*map(np.concatenate, zip(*parts, strict=True))) if parts else EMPTY


class Pairs(NamedTuple):
    """Results: positions of the left and the right tuples."""

    left: Ints
    right: Ints


class Kernel:
    """Joins left with right tuples: equal keys, and times as far apart as the windows allow.

    Parameters
    ----------
    left_window, right_window : int
        How long tuples of each side are kept: a right tuple may be ``left_window`` later than a left one, a
        left one ``right_window`` later than a right one.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.arange(3)
    >>> Kernel(1, 1).pairs(Tuples(numbers, numbers, numbers), Tuples(numbers, numbers + [0, 1, 2], numbers))
    Pairs(left=array([0, 1]), right=array([0, 1]))
    """

    def __init__(self, left_window: int, right_window: int) -> None:
        self.windows = (left_window, right_window)
        equal, near = (("sum", 0), ("sum", 0)), (("sum", -right_window), ("sum", left_window))
        self._on: list[Any] = [("int64", [equal]), ("int64", [near])]

    def pairs(self, left: Tuples, right: Tuples) -> Pairs:
        """All pairs. Cost: a sort of both sides by the core."""
        if not left.size or not right.size:
            return Pairs(EMPTY.positions, EMPTY.positions)
        columns = [[(side.keys, None), (side.times, None)] for side in (left, right)]
        rows = native_pairs(
            self._on, columns, equalities=1, banded="none", flags_of=None, workers=1, share=1 << 16,
            limit=1 << 40,
        )  # fmt: skip
        return Pairs(left.positions[rows[0]], right.positions[rows[1]])


@dataclass
class BlockWindow:
    """One side's window of a mini-partition-group: full blocks, and a head with fresh tuples at its end."""

    block: int
    full: list[Tuples] = field(default_factory=list)
    head: Tuples = EMPTY
    fresh: int = 0

    @property
    def count(self) -> int:
        """All tuples, fresh ones included."""
        return sum(each.size for each in self.full) + self.head.size

    @property
    def blocks(self) -> int:
        """Blocks that it occupies."""
        return len(self.full) + bool(self.head.size)

    def add(self, tuples: Tuples) -> int:
        """Put tuples into the head block as fresh ones; returns how many it had room for."""
        room = min(max(self.block - self.head.size, 0), tuples.size)
        self.head = joined([self.head, tuples.take(slice(room))])
        self.fresh += room
        return room

    @property
    def fresh_tuples(self) -> Tuples:
        """Those that were not joined yet."""
        return self.head.take(slice(self.head.size - self.fresh, None))

    @property
    def stored(self) -> Tuples:
        """All others."""
        return joined([*self.full, self.head.take(slice(self.head.size - self.fresh))])

    def settle(self) -> None:
        """The fresh tuples have been joined; a full head becomes a full block."""
        self.fresh = 0
        if self.head.size >= self.block:
            self.full.append(self.head)
            self.head = EMPTY

    def expired(self, before: int) -> list[Tuples]:
        """Take out the blocks whose last tuple is older than this; a head with fresh tuples stays."""
        gone = [each for each in self.full if each.times.max() < before]
        if gone:
            self.full = [each for each in self.full if each.times.max() >= before]
        if self.head.size and not self.fresh and self.head.times.max() < before:
            gone.append(self.head)
            self.head = EMPTY
        return gone


@dataclass
class MiniGroup:
    """A mini-partition-group: the windows of both sides for the keys of one bucket."""

    windows: tuple[BlockWindow, BlockWindow]

    @classmethod
    def empty(cls, block: int) -> "MiniGroup":
        """One without tuples."""
        return cls((BlockWindow(block), BlockWindow(block)))

    @property
    def blocks(self) -> int:
        """Its size, by which it splits and merges."""
        return sum(window.blocks for window in self.windows)

    def add(self, side: int, tuples: Tuples, kernel: Kernel) -> list[Pairs]:
        """Take tuples of one side; joins each time that the head block is full."""
        window, found = self.windows[side], []
        while tuples.size:
            tuples = tuples.take(slice(window.add(tuples), None))
            if window.head.size >= window.block:
                found.append(self.join_fresh(side, kernel))
        return found

    def join_fresh(self, side: int, kernel: Kernel) -> Pairs:
        """Join the fresh tuples of a side with the stored ones of the other side."""
        found = _met(kernel, side, self.windows[side].fresh_tuples, self.windows[1 - side].stored)
        self.windows[side].settle()
        return found

    def expire(self, side: int, before: int, kernel: Kernel) -> tuple[list[Pairs], int]:
        """Drop old blocks of a side, after they have met the fresh tuples of the other side."""
        gone = self.windows[side].expired(before)
        fresh = self.windows[1 - side].fresh_tuples
        return [_met(kernel, side, each, fresh) for each in gone], sum(each.size for each in gone)

    def divided(self, is_second: Any) -> tuple["MiniGroup", "MiniGroup"]:
        """The two halves of a split; fresh tuples stay fresh. ``is_second`` tells a hash bit by keys."""
        halves = MiniGroup.empty(self.windows[0].block), MiniGroup.empty(self.windows[0].block)
        for side in SIDES:
            window = self.windows[side]
            stored, fresh = window.stored, window.fresh_tuples
            for half, wanted in zip(halves, (False, True), strict=True):
                parts = [each.take(is_second(each.keys) == wanted) for each in (stored, fresh)]
                _fill(half.windows[side], *parts)
        return halves

    def merged(self, other: "MiniGroup") -> "MiniGroup":
        """One group of two, its stored tuples in order of time."""
        result = MiniGroup.empty(self.windows[0].block)
        for side in SIDES:
            both = (self.windows[side], other.windows[side])
            stored = joined([window.stored for window in both])
            stored = stored.take(np.argsort(stored.times, kind="stable"))
            _fill(result.windows[side], stored, joined([window.fresh_tuples for window in both]))
        return result


def _met(kernel: Kernel, side: int, own: Tuples, other: Tuples) -> Pairs:
    return kernel.pairs(own, other) if side == 0 else kernel.pairs(other, own)


def _fill(window: BlockWindow, stored: Tuples, fresh: Tuples) -> None:
    """Blocks of stored tuples, then the fresh ones in the head, which may be larger than a block for once."""
    cut = stored.size - stored.size % window.block
    window.full = [stored.take(slice(at, at + window.block)) for at in range(0, cut, window.block)]
    window.head = joined([stored.take(slice(cut, None)), fresh])
    window.fresh = fresh.size


def as_tuples(keys: NDArray[Any], times: NDArray[Any], first: int) -> Tuples:
    """Arrivals of one side, whose positions count on from ``first``."""
    return Tuples(
        np.ascontiguousarray(keys, dtype=np.int64),
        np.ascontiguousarray(times, dtype=np.int64),
        np.arange(first, first + len(keys), dtype=np.int64),
    )
