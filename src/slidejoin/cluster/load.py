"""Which nodes have too much work, which have too little, and which partition-group moves.

The load of a node is its average buffer occupancy over a reorganisation epoch. Above ``Th_sup`` it is a
supplier, below ``Th_con`` a consumer, else neutral. Each supplier yields one partition-group to one consumer,
at random or by load. From "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster" (Chakraborty,
Singh), section IV.C. All functions are pure: loads in, decisions out. Cost: O(nodes log nodes + groups).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slidejoin.errors import SpecError, suggestion
from slidejoin.model.arguments import as_number

SUPPLIER, NEUTRAL, CONSUMER = 1, 0, -1
CHOICES = ("load", "random")

Choice: TypeAlias = Literal["load", "random"]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Move:
    """A partition-group that changes its node."""

    group: int
    source: int
    target: int


def average_occupancy(samples: ArrayLike, capacity: float) -> Floats:
    """The load of each node: its mean buffer size over an epoch, as a share of the buffer's capacity.

    Parameters
    ----------
    samples : array [samples, nodes]
        Buffer sizes, one row at the end of each distribution epoch.
    capacity : float
        Size of a buffer, in the same unit.

    Examples
    --------
    >>> average_occupancy([[0, 50], [10, 150]], capacity=100)
    array([0.05, 1.  ])
    """
    as_number("capacity", capacity, "above 0", above=0)
    sizes = np.atleast_2d(np.asarray(samples, dtype=np.float64))
    if not len(sizes):
        raise SpecError("no samples of the buffers; expected one row for each distribution epoch")
    means: Floats = sizes.mean(axis=0) / capacity
    return means


def check_thresholds(supplier: float, consumer: float) -> None:
    """Refuse thresholds that are not 0 <= Th_con < Th_sup < 1.

    Examples
    --------
    >>> check_thresholds(0.5, 0.01)
    """
    as_number("supplier_threshold", supplier, "above 0 and below 1", above=0)
    as_number("consumer_threshold", consumer, "0 or more", least=0)
    if not consumer < supplier < 1:
        raise SpecError(
            f"consumer_threshold {consumer} and supplier_threshold {supplier}; "
            "expected 0 <= consumer < supplier < 1"
        )


def roles(loads: ArrayLike, supplier: float = 0.5, consumer: float = 0.01) -> NDArray[np.int8]:
    """What each node is: ``SUPPLIER`` above Th_sup, ``CONSUMER`` below Th_con, else ``NEUTRAL``.

    Examples
    --------
    >>> roles([0.9, 0.5, 0.01, 0.0])
    array([ 1,  0,  0, -1], dtype=int8)
    """
    check_thresholds(supplier, consumer)
    values = np.asarray(loads, dtype=np.float64)
    if not np.all(values >= 0):
        raise SpecError("loads have a negative number or NaN; expected average occupancies, 0 or more")
    found: NDArray[np.int8] = (values > supplier).astype(np.int8) - (values < consumer).astype(np.int8)
    return found


def pairs(loads: ArrayLike, role: ArrayLike) -> list[tuple[int, int]]:
    """Suppliers with one consumer each: the greatest load with the least one; no node is in two pairs.

    Suppliers beyond the number of consumers, those of least load, get none.

    Examples
    --------
    >>> pairs([0.6, 0.0, 0.9, 0.001], [1, -1, 1, -1])
    [(2, 1), (0, 3)]
    """
    values, kinds = np.asarray(loads, dtype=np.float64), np.asarray(role)
    suppliers = np.flatnonzero(kinds == SUPPLIER)
    consumers = np.flatnonzero(kinds == CONSUMER)
    suppliers = suppliers[np.argsort(-values[suppliers], kind="stable")]
    consumers = consumers[np.argsort(values[consumers], kind="stable")]
    return [(int(s), int(c)) for s, c in zip(suppliers, consumers, strict=False)]


def chosen_group(
    groups: Sequence[int],
    group_loads: ArrayLike,
    surplus: float,
    choice: Choice = "load",
    random: np.random.Generator | None = None,
) -> int | None:
    """The partition-group that a supplier yields, or ``None`` where no move would help.

    Parameters
    ----------
    groups : sequence of int
        Those of the supplier.
    group_loads : array
        The load of every partition-group, in the unit of the nodes' loads.
    surplus : float
        The supplier's load less the consumer's. A group of load g makes the difference surplus - 2g, so by
        load the group nearest to half of the surplus moves. One with g >= surplus would only swap the roles:
        it stays, and nothing flaps.
    choice : str
        ``load``, or ``random`` as in the paper.
    random : numpy.random.Generator
        For ``random``.

    Examples
    --------
    >>> chosen_group([4, 7, 8], [0, 0, 0, 0, 0.5, 0, 0, 0.3, 0.1], surplus=0.7)
    7
    """
    if choice not in CHOICES:
        raise SpecError(f"choice {choice!r}; expected load or random{suggestion(choice, CHOICES)}")
    if not len(groups):
        return None
    if choice == "random":
        if random is None:
            raise SpecError("choice 'random' needs a generator; give random=numpy.random.default_rng(seed)")
        return int(groups[int(random.integers(len(groups)))])
    values = np.asarray(group_loads, dtype=np.float64)[np.asarray(groups)]
    useful = np.flatnonzero((values > 0) & (values < surplus))
    if not len(useful):
        return None
    return int(groups[int(useful[np.argmin(np.abs(values[useful] - surplus / 2))])])
