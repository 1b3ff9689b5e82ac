"""Results as ranges: parts of sorted runs instead of pairs.

A structure that keeps sorted runs need not list what an arrival matches in them: it says where the matches
begin and where they end. The positions themselves are in the run, which is handed over once and shared by all
results that refer to it, as the manager of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen)
keeps a mirror of its workers' arrays. Where many tuples match, this is most of the work of a join saved.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class Ranges:
    """The matches of a batch, as :meth:`NumericJoin.ranges` returns them.

    Arrival number ``probe[i]`` of the batch matches the tuples at positions
    ``runs[run[i]][start[i]:end[i]]`` of the other side. Matches that are no part of a run stand in ``left``
    and ``right``, arrival number ``arrival[i]`` having made pair i.

    Attributes
    ----------
    probe : array of int64
        For each part of a run, the number of the arrival; parts are in the order of arrivals.
    run : array of int64
        For each part, its run.
    start : array of int64
        For each part, where it begins in the run.
    end : array of int64
        For each part, where it ends.
    left : array of int64
        The left positions of the other matches, in the order of :meth:`NumericJoin.push`.
    right : array of int64
        Their right positions.
    arrival : array of int64
        The numbers of their arrivals.
    runs : dict of int to array of int64
        The runs that the records refer to: positions of one side, by key. They are shared with other results
        and read-only.

    Examples
    --------
    >>> import numpy as np
    >>> import slidejoin as sj
    >>> join = sj.NumericJoin(window=1000, lower=-100, upper=100, key=np.int32, index="bi-sort(buffer=2)")
    >>> _ = join.push(np.zeros(4, np.uint8), np.array([30, 10, 20, 40], np.int32))
    >>> found = join.ranges(np.array([1], np.uint8), np.array([25], np.int32))
    >>> len(found), found.probe, found.start, found.end
    (4, array([0]), array([0]), array([4]))
    >>> found.runs[0]
    array([1, 2, 0, 3])
    >>> found.expand()
    (array([0, 1, 2, 3]), array([0, 0, 0, 0]))
    """

    __slots__ = ("_own", "_sides", "arrival", "end", "left", "probe", "right", "run", "runs", "start")

    def __init__(
        self,
        records: tuple[Positions, ...],
        pairs: tuple[Positions, ...],
        own: Positions,
        sides: NDArray[Any] | None,
        runs: Mapping[int, Positions],
    ) -> None:
        self.probe, self.run, self.start, self.end = records
        self.left, self.right, self.arrival = pairs
        self.runs = {number: runs[number] for number in np.unique(self.run).tolist()}
        self._own = own  # positions of the arrivals
        self._sides = sides  # of the arrivals; None where each is the right tuple of the records' matches

    def __len__(self) -> int:
        """How many matches there are. Cost: O(records)."""
        return int((self.end - self.start).sum()) + len(self.left)

    @property
    def count(self) -> int:
        """How many matches there are, as :meth:`NumericJoin.count` says."""
        return len(self)

    def __repr__(self) -> str:
        return (
            f"Ranges({len(self)} matches: {len(self.probe)} records in {len(self.runs)} runs, "
            f"{len(self.left)} pairs)"
        )

    def expand(self) -> tuple[Positions, Positions]:
        """List all matches: what :meth:`NumericJoin.push` would have returned, in the same order.

        Cost: O(n log n) for n matches, and the sizes of the runs.
        """
        numbers = list(self.runs)
        flat = np.concatenate([np.empty(0, np.int64), *self.runs.values()])
        begins = np.cumsum([0, *(len(run) for run in self.runs.values())])[: len(numbers)]
        lengths = self.end - self.start
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        first = begins[np.searchsorted(numbers, self.run)] + self.start if numbers else self.start
        partner = flat[np.repeat(first - ends + lengths, lengths) + np.arange(total)]
        arrival = np.repeat(self.probe, lengths)
        own = self._own[arrival]
        on_right = True if self._sides is None else self._sides[arrival] != 0
        left = np.concatenate([np.where(on_right, partner, own), self.left])
        right = np.concatenate([np.where(on_right, own, partner), self.right])
        arrival = np.concatenate([arrival, self.arrival])
        # An arrival's partner is whatever it is not itself, on either side.
        order = np.lexsort((left + right - self._own[arrival], arrival))
        return left[order], right[order]
