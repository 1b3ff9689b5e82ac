"""The limits by which ``index="auto"`` chooses: where one index becomes cheaper than another on this machine.

The core looks at what a join is given and compares it with these numbers for windows of its size
(``core/join/chooser.hpp``); docs/indexes.md, *The choice*, says how.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from slidejoin.errors import StateError
from slidejoin.log import LOGGER
from slidejoin.model.costs import Costs

_FEW = 4  # matches of an arrival where the batch decides
_MANY = 64  # matches, at least, where these decide
_PUSH = 256  # arrivals of a push where the matches decide
_GAIN = 0.95  # of the bucket-tree's time, at most: less of a gain is within the error of the costs
NEVER = math.inf

# For both windows together: tuples; share of them in a push from which on sorted-run is chosen; the same for
# plain joins; matches from which on im-tree is; matches from which on bi-sort is, if only counted.
Limits = tuple[int, float, float, float, float]


@dataclass(frozen=True)
class Choice:
    """Limits, and what they come from, for explanations."""

    limits: list[Limits]
    source: str


@cache
def choice() -> Choice:
    """The limits of this machine: by its own costs, or by the default's where it has none that are usable.

    Cost: some milliseconds, once for a process.
    """
    try:
        costs = Costs.load()
        source = "the costs measured on this machine" if costs.measured else "default costs"
    except StateError as error:
        costs = Costs.default()
        source = f"default costs ({error})"
        LOGGER.warning("index='auto' goes by default costs: %s", error)
    return Choice(limits_of(costs), source)


def limits_of(costs: Costs) -> list[Limits]:
    """The limits by these costs, for windows of ascending sizes: those between the ones that were measured.

    Examples
    --------
    >>> limits = limits_of(Costs.default())
    >>> all(0 < share <= plain_share and many > 1 for _, share, plain_share, many, _ in limits)
    True
    """
    windows = costs.index_costs["bucket-tree"].base.rows
    sizes = range(math.ceil(math.log2(windows[0])), math.floor(math.log2(windows[-1])) + 1, 2)
    return [_limits(costs, 2**size) for size in sizes]


def _limits(costs: Costs, window: int) -> Limits:
    """For windows of this size on either side, up to four times as large.

    Where an arrival has many matches, they are compared without the time that it takes to sort them by their
    positions, which is the same for all indexes and which most joins do not need.
    """

    def cheaper(
        index: str, matches: float, batch: float, listed: bool = False, than: str = "", plain: bool = True
    ) -> bool:
        one, other = (
            costs.arrival(each, window=window, matches=matches, batch=batch, listed=listed, plain=plain).total
            for each in (index, than or "bucket-tree")
        )
        return one <= _GAIN * other

    def large(plain: bool) -> float:
        def holds(part: float) -> bool:
            return cheaper("sorted-run", _FEW, part * 2 * window, listed=True, plain=plain)

        return _first(1 / 64, 1 / 2, holds)

    many = _first(_MANY, window / 2, lambda matches: cheaper("im-tree", matches, _PUSH))
    counted = _first(
        _MANY,
        window / 2,
        lambda matches: (
            cheaper("bi-sort", matches, window / 16)
            and cheaper("bi-sort", matches, window / 16, than="im-tree")
        ),
    )
    return 2 * window, large(plain=False), large(plain=True), many, counted


def _first(least: float, most: float, holds: Callable[[float], bool]) -> float:
    """The least number from which on it holds, to a quarter of a power of two; NEVER if not even the last."""
    steps = max(round(4 * math.log2(most / least)), 0)
    if not holds(least * 2 ** (steps / 4)):
        return NEVER
    low, high = -1, steps  # it holds at high, and not at low
    while high - low > 1:
        middle = (low + high) // 2
        if holds(least * 2 ** (middle / 4)):
            high = middle
        else:
            low = middle
    return least * 2 ** (high / 4)
