"""Live runs: those that take part in a micro-batch or a batch join, with what has matched of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.spark.files import Folder
from slidejoin.spark.heads import StoredRun
from slidejoin.spark.runs import Bits, Rows, RunFormat, read_bits

FEW = 5  # runs that are not worth a merge
FAN = 4  # runs of like size that are merged
LARGEST = 2**20  # rows of a merged run, or KiB of it


@dataclass
class Live:
    """A run that takes part in a micro-batch: of the state, or new.

    Attributes
    ----------
    stored : StoredRun, optional
        Its file; none yet if it is new.
    """

    format: RunFormat
    folder: Folder
    stored: StoredRun | None = None
    new_rows: Rows | None = None
    new_bits: Bits | None = None
    changed: bool = False

    @cached_property
    def rows(self) -> Rows:
        """The rows, mapped when they are first needed."""
        if self.new_rows is not None:
            return self.new_rows
        assert self.stored is not None
        return self.format.open(self.folder, self.stored)

    @cached_property
    def bits(self) -> Bits:
        """Which rows have matched."""
        if self.new_bits is not None:
            return self.new_bits
        return np.zeros(self.count, np.bool_) if self.stored is None else read_bits(self.folder, self.stored)

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows) if self.stored is None else self.stored.rows

    @property
    def weight(self) -> int:
        """How many rows; of wide ones so many KiB, as a merged run must not have too much text."""
        size = self.rows.table.nbytes if self.stored is None else self.stored.size
        return max(self.count, size // 1024)

    @property
    def span(self) -> tuple[int, int]:
        """The least and the greatest timestamp."""
        return self.rows.span if self.stored is None else (self.stored.least, self.stored.greatest)

    def match(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Note that rows have matched, by numbers or flags; returns those for which it is the first time."""
        if rows.dtype == np.bool_:
            fresh = np.flatnonzero(rows & ~self.bits)
        else:
            fresh = np.unique(rows[~self.bits[rows]])
        self.bits[fresh] = True
        self.changed |= len(fresh) > 0
        return fresh


def to_merge(sizes: Sequence[int]) -> int:
    """How many of the newest runs should become one; sizes are in the order of age.

    Runs of like size are merged, FAN of them at least, so a row is copied a few times while it lives, and
    there are a few runs of each size. Where a window has FEW runs, all of them pass soon: a merge would cost
    more than it saves.

    Examples
    --------
    >>> to_merge([9000, 900, 100, 100, 100, 100]), to_merge([90000, 9000, 900, 100, 100, 100])
    (4, 0)
    >>> to_merge([100] * FEW)
    0
    """
    best = 0
    if len(sizes) <= FEW:
        return best
    for count in range(FAN, len(sizes) + 1):
        total = sum(sizes[-count:])
        if total > LARGEST:
            break
        if 2 * max(sizes[-count:]) <= total:
            best = count
    return best
