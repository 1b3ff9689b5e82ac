"""What helps where no move does: a hot range that is cut, a hot key that is spread.

:func:`cut` is the splitter adjustment of "PanJoin: A Partition-based Adaptive Stream Join" (Algorithm 1, with
the ``min_i +`` term that its listing lacks): new range borders from the count, the least and the greatest key
of each old range. :func:`spread` deals the tuples of one key to a grid of cells, where each pair of a left
and a right tuple meets exactly once.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.cluster.load import Floats
from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_count, as_number


def cut(counts: ArrayLike, least: ArrayLike, greatest: ArrayLike, parts: int | None = None) -> Floats:
    """Borders that give each part the same number of tuples, if keys are even within an old range.

    Parameters
    ----------
    counts, least, greatest : array
        For each old range, in ascending order: its tuples, its least and its greatest key. Keys of empty
        ranges are ignored.
    parts : int, optional
        New ranges; as many as old ones unless given.

    Returns
    -------
    array of parts - 1 borders
        Part i has the keys up to and including border i. Cost: O(ranges + parts).

    Examples
    --------
    >>> cut([90, 10], least=[0, 100], greatest=[90, 200], parts=4)
    array([25., 50., 75.])
    """
    tuples = np.asarray(counts, dtype=np.float64)
    low, high = np.asarray(least, dtype=np.float64), np.asarray(greatest, dtype=np.float64)
    if tuples.ndim != 1 or tuples.shape != low.shape or tuples.shape != high.shape or not len(tuples):
        raise SpecError(
            f"{tuples.size} counts, {low.size} least and {high.size} greatest keys; expected one of each"
        )
    full = tuples > 0
    if (tuples < 0).any() or not full.any():
        raise SpecError("counts of ranges are negative or all 0; expected tuples in one range at least")
    if not (low[full] <= high[full]).all() or (low[full][1:] < high[full][:-1]).any():
        raise SpecError("ranges overlap or have least > greatest; give them in ascending order")
    wanted = len(tuples) if parts is None else as_count("parts", parts)
    tuples, low, high = tuples[full], low[full], high[full]
    ends = np.cumsum(tuples)
    shares = ends[-1] * np.arange(1, wanted) / wanted
    at = np.minimum(np.searchsorted(ends, shares), len(ends) - 1)
    before = ends[at] - tuples[at]
    borders: Floats = low[at] + (shares - before) / tuples[at] * (high[at] - low[at])
    return borders


@dataclass(frozen=True)
class Grid:
    """The cells of a hot key: left tuple i goes to all cells of row i mod rows, right ones to columns.

    Examples
    --------
    >>> grid = Grid(rows=2, columns=3)
    >>> grid.left(5), grid.right(4)
    ([3, 4, 5], [1, 4])
    """

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """How many groups share the key."""
        return self.rows * self.columns

    def left(self, number: int) -> list[int]:
        """The cells of a left tuple, by its number within the key."""
        first = number % self.rows * self.columns
        return list(range(first, first + self.columns))

    def right(self, number: int) -> list[int]:
        """The cells of a right tuple."""
        return list(range(number % self.columns, self.cells, self.columns))


def spread(left: float, right: float, pairs_capacity: float, most_cells: int = 1 << 16) -> Grid:
    """The grid for a key with so many left and right tuples in their windows: the cheapest that is enough.

    Parameters
    ----------
    left, right : float
        Tuples of the key in each window, or a second.
    pairs_capacity : float
        Pairs, left times right, that a node can take.
    most_cells : int
        Nodes or groups that may share the key. Where they are not enough, the grid has as many as allowed.

    Notes
    -----
    A cell has left/rows · right/columns pairs. A left tuple is sent to ``columns`` cells, a right one to
    ``rows``; among the grids that are large enough, the one with the fewest copies is taken. Cost:
    O(sqrt(most_cells) + cells).

    Examples
    --------
    >>> spread(1000, 1000, pairs_capacity=250_000)
    Grid(rows=2, columns=2)
    >>> spread(10, 100_000, pairs_capacity=250_000)
    Grid(rows=1, columns=4)
    """
    for name, given in (("left", left), ("right", right)):
        as_number(name, given, "tuples, 0 or more", least=0)
    as_number("pairs_capacity", pairs_capacity, "above 0", above=0)
    as_count("most_cells", most_cells)
    needed = min(max(1, math.ceil(left * right / pairs_capacity)), most_cells)
    best = Grid(1, needed)
    copies = left * needed + right
    for rows in range(1, needed + 1):
        columns = math.ceil(needed / rows)
        if rows * columns <= most_cells and left * columns + right * rows < copies:
            best, copies = Grid(rows, columns), left * columns + right * rows
    return best
