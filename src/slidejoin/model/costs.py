"""What an arrival costs with each index, in seconds of one core: the cost equations of the PIM-Tree's paper.

"Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen), equation 1, has an arrival cost
a search of the other side's window, a deletion and an insertion. Equations 2 (B+-tree), 3 (chained index),
4 (round-robin), 5 (IM-Tree) and 6 (PIM-Tree) take these apart::

    C = H·λs  +  k·τc   +  M / (m·w)  +  H·λi
        search   scan      merge         insert (with the deletion)

The heights H and the costs of a node λ are not known for a machine, and with caches they are not constant
either. So the terms are measured (``slidejoin.calibration``) at some windows and batches, and lie on lines
between them:

    ``search``, ``insert``  ``base(w, b)``, measured where an arrival has one match, less the merge; the
                            share of the insert is measured by joins of which one side is empty
    ``scan``                ``scan(w, b, k)`` for the matches k beyond the first one, the paper's match rate;
                            where they are listed, ``listing(w, k)`` for sorting and writing them, and
                            ``large(b·k)`` for each where a push has many: they leave the caches, and very
                            many take fresh memory from the system each time
    ``merge``               ``copy`` for each entry that merges move, M / (m·w); how many these are is known:
                            :func:`moved_entries`
    ``call``                the call from Python, divided by the batch

A *plain* join, an inner one on one band over ``rows`` or ``within``, goes through the bucket-tree in one
pass, which has a base of its own and writes a few matches while it finds them.

w is the window of one side, b the arrivals of a push, both sides interleaved. A nested loop searches in
``alpha`` · w and lists in ``beta`` · k.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

from slidejoin.errors import SpecError, suggestion
from slidejoin.model.surface import Surface

# Matches of an arrival that are written in the pass that finds them (core/join/plain.hpp): part of base.
_WRITTEN = 4


@dataclass(frozen=True)
class ArrivalCost:
    """Seconds of one arrival, by what they are spent on."""

    search: float
    scan: float
    insert: float
    merge: float
    call: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.search + self.scan + self.insert + self.merge + self.call


@dataclass(frozen=True)
class SparkCosts:
    """What Spark adds: seconds of an empty micro-batch, and of a row beyond the join's own."""

    floor: float
    row: float


@dataclass(frozen=True)
class IndexCosts:
    """The measured costs of one index; :mod:`slidejoin.model.costs` says how they are put together."""

    base: Surface  # by window and batch
    one_pass: Surface | None  # the same for plain joins, where it is another
    insert_share: float  # of base
    copy: float  # for each entry that a merge moves
    scan: Mapping[float, Surface]  # by number: the matches up to it from the number before, counted
    memory: Surface  # bytes a tuple, by window
    counted: float = 1.0  # share of base that is left where matches are only counted
    spread: float = 0.0  # how far the measurements of a figure lie apart, as a share of it


@dataclass(frozen=True)
class Costs:
    """The costs of joins on one machine: measured there, or the shipped default.

    Made by :meth:`default`, :meth:`load` and ``slidejoin.calibration.calibrate``.

    Examples
    --------
    >>> costs = Costs.default()
    >>> few = costs.arrival("bucket-tree", window=2**20, matches=2, batch=4096)
    >>> many = costs.arrival("bucket-tree", window=2**20, matches=200, batch=4096)
    >>> few.total < many.total < 1e-4
    True
    """

    index_costs: Mapping[str, IndexCosts]
    listing: Surface  # seconds of an arrival's matches, by window and number
    large: Surface  # seconds more for each pair of a result, by the number of its pairs
    push: float  # seconds of a call of NumericJoin.push, count and WindowJoin.push
    count: float
    window_push: float
    window_row: float  # seconds a row of WindowJoin, beyond NumericJoin's
    speedups: Mapping[int, float]  # of phases, by the number of workers
    spark: SparkCosts | None
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    measured: bool = True  # on this machine; the default was not
    spread: Mapping[str, float] = field(default_factory=dict)  # of each group of figures

    @staticmethod
    def default() -> "Costs":
        """The costs that come with the package; :attr:`machine` says where they were measured."""
        from slidejoin.model.cost_file import default_costs

        return default_costs()

    @staticmethod
    def load(path: Any = None) -> "Costs":
        """The costs in a file; without a path those of this machine if they were measured, else the default.

        The file of this machine is ``$SLIDEJOIN_CALIBRATION``, else ``slidejoin/costs.json`` in
        ``$XDG_CACHE_HOME`` or ``~/.cache``.

        Raises
        ------
        StateError
            The file is not one of costs, or cannot be read.
        """
        from slidejoin.model.cost_file import load_costs

        return load_costs(path)

    def save(self, path: Any = None) -> Any:
        """Write the costs to a file, by default that of this machine; returns its path."""
        from slidejoin.model.cost_file import save_costs

        return save_costs(self, path)

    @property
    def indexes(self) -> tuple[str, ...]:
        """The indexes that have costs."""
        return tuple(self.index_costs)

    @cached_property
    def alpha(self) -> float:
        """Seconds of a comparison in a nested loop, tuple by tuple."""
        base = self._of("nested-loop").base
        first, last = base.rows[0], base.rows[-1]
        return (base(last, 1) - base(first, 1)) / (last - first)

    @cached_property
    def beta(self) -> float:
        """Seconds of a match that is listed, beyond the comparison, as the mean of 16 matches."""
        return self.listing(self.listing.rows[0], 16) / 16

    def arrival(
        self,
        index: str,
        *,
        window: float | tuple[float, float],
        matches: float,
        batch: float = 1,
        workers: int = 1,
        listed: bool = True,
        plain: bool = True,
    ) -> ArrivalCost:
        """The seconds of one arrival in a NumericJoin of 32-bit keys whose windows are full.

        Parameters
        ----------
        index : str
            The name of an index, without parameters.
        window : number or (number, number)
            Tuples that a side keeps, or each side: arrivals are taken to come from both equally.
        matches : number
            Matches of an arrival.
        batch : number
            Arrivals of a push, of both sides in turn.
        workers : int
            Threads that share a push; the parts but ``call`` are divided by :meth:`scaling`. Plain arrivals
            go through the bucket-tree in one pass of one thread where that is faster.
        listed : bool
            Whether pairs are listed, or only counted.
        plain : bool
            Whether the join is an inner one on one band over ``rows`` or ``within``.

        Notes
        -----
        Cost: some microseconds.

        Examples
        --------
        >>> Costs.default().arrival("im-tree", window=(1000, 10**6), matches=1.5).search > 0
        True
        """
        costs = self._of(index)
        sizes = window if isinstance(window, tuple) else (window, window)
        for size in sizes:
            _check("window", size, 0)
        _check("matches", matches, 0)
        _check("batch", batch, 1)
        _check("workers", workers, 1)
        call = (self.push if listed else self.count) / batch

        def spent(bases: Surface, written: int, shared: float) -> ArrivalCost:
            search, scan, insert, merge = 0.0, 0.0, 0.0, 0.0
            for size in sizes:
                tuples = max(size, 1.0)
                base = bases(tuples, batch) / 2  # half of the arrivals are of either side
                base *= 1.0 if listed else costs.counted
                search += (1 - costs.insert_share) * base
                insert += costs.insert_share * base
                scan += self._scan(costs, tuples, matches, batch) / 2
                scan += self._listing(written, tuples, matches, batch) / 2 if listed else 0.0
                merge += costs.copy * moved_entries(index, tuples, batch) / 2
            return ArrivalCost(search / shared, scan / shared, insert / shared, merge / shared, call)

        shared = self.scaling("phases", workers, batch)
        if not plain or costs.one_pass is None:
            return spent(costs.base, 0, shared)
        one_pass = spent(costs.one_pass, _WRITTEN, 1.0)
        if shared == 1:
            return one_pass
        return min(one_pass, spent(costs.base, 0, shared), key=lambda cost: cost.total)

    def memory(self, index: str, window: float | tuple[float, float]) -> float:
        """Bytes of both windows and what indexes them; results and the rows of a WindowJoin come on top."""
        sizes = window if isinstance(window, tuple) else (window, window)
        for size in sizes:
            _check("window", size, 0)
        per_tuple = self._of(index).memory
        return sum(size * per_tuple(max(size, 1.0), 1) for size in sizes)

    def scaling(self, strategy: str, workers: int, batch: float = 2**13) -> float:
        """How many times as fast several workers are as one; measured for ``phases``, 1 for the others.

        Beyond the workers that were measured it goes on by Amdahl's law with the serial share of the most
        that were. Pushes of less than :data:`SHARED` arrivals for each worker are shared by fewer.
        """
        _check("workers", workers, 1)
        _check("batch", batch, 0)
        useful = min(workers, int(batch / SHARED))
        if strategy != "phases" or useful < 2:
            return 1.0
        most = max(self.speedups)
        if useful in self.speedups:
            return self.speedups[useful]
        if most == 1:
            return 1.0
        serial = max(most / self.speedups[most] - 1, 0.0) / (most - 1)
        return useful / (1 + serial * (useful - 1))

    def extrapolates(self, workers: int) -> bool:
        """Whether so many workers are more than were measured."""
        return workers > max(self.speedups)

    @property
    def largest_window(self) -> int:
        """Tuples of a side in the largest windows that were measured; larger ones are extrapolated."""
        return int(self._of("bucket-tree").base.rows[-1])

    def _of(self, index: str) -> IndexCosts:
        if not isinstance(index, str) or index not in self.index_costs:
            meant = suggestion(index, self.index_costs)
            raise SpecError(f"no costs of index {index!r}; known are {', '.join(self.index_costs)}{meant}")
        return self.index_costs[index]

    @staticmethod
    def _scan(costs: IndexCosts, window: float, matches: float, batch: float) -> float:
        """Straight lines between the numbers of matches that were measured; the first match is in base."""
        total, before = 0.0, 1.0
        last = max(costs.scan)
        for number, surface in costs.scan.items():
            seen = (matches if number == last else min(matches, number)) - before
            if seen <= 0:
                break
            total += surface(window, batch) * seen / (number - before)
            before = number
        return total

    def _listing(self, written: int, window: float, matches: float, batch: float) -> float:
        rows = self.listing.rows
        window = min(max(window, rows[0]), rows[-1])  # the sort hardly depends on the window
        few = min(matches, 1.0)
        most = self.listing.columns[-1]
        beyond = max(matches / most, 1.0)  # a sort of more matches costs as much for each
        large = self.large(1, matches * batch) * matches
        listing = beyond * self.listing(window, max(matches, 1.0))
        # More matches are no longer written in the pass, gradually: arrivals differ.
        within = min(matches, 2 * written - matches)
        share = min(max(2 * written - matches, 0.0), 1.0)
        listing -= share * self.listing(window, max(within, 1.0))
        return few * listing + large


def _check(name: str, number: Any, least: int) -> None:
    is_number = isinstance(number, Real) and not isinstance(number, bool)
    if not is_number or not least <= number < math.inf:
        raise SpecError(f"{name}={number!r}; expected a number, {least} at least")


SHARED = 128  # arrivals of a push for each worker, at least: the core gives fewer to one


def moved_entries(index: str, window: float, batch: float) -> float:
    """Entries that merges move for each that is inserted: M / (m·w) in units of an entry's copy.

    Examples
    --------
    >>> moved_entries("im-tree", 2**20, 16), moved_entries("sorted-run", 2**20, 2**18)
    (8.0, 8.0)
    """
    own = batch / 2  # of a push, on a side
    if index in ("im-tree", "pim-tree"):
        return window / max(1024.0, window / 8)
    if index == "sorted-run":
        return window / max(min(own, window / 2), 64 + 4 * math.sqrt(window))
    if index == "bi-sort":  # a subwindow, half full on average
        part = max(window / 7, 1024.0)
        return part / 2 / max(min(own, part / 2), min(8 * math.sqrt(part) + 1, part / 2))
    return 0.0
