"""A reorganisation epoch: loads in, moves and the nodes of the next epoch out.

This is lines 11 to 16 of the master's Algorithm 1 in the shared-nothing join, as one pure function on top of
the policies of :mod:`~slidejoin.cluster.load`, :mod:`~slidejoin.cluster.ownership` and
:mod:`~slidejoin.cluster.declustering`. The master that joins real tuples and both simulators call it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.cluster.declustering import Declustering
from slidejoin.cluster.load import (
    CONSUMER,
    SUPPLIER,
    Choice,
    Move,
    check_thresholds,
    chosen_group,
    pairs,
    roles,
)
from slidejoin.cluster.ownership import drained, owned


@dataclass(frozen=True)
class Policy:
    """The thresholds and choices of a cluster; the defaults are the paper's.

    Parameters
    ----------
    supplier_threshold, consumer_threshold : float
        Th_sup and Th_con.
    choice : str
        Which group moves: ``load``, or ``random`` as in the paper.
    adaptive : bool
        Whether the degree of declustering changes.
    declustering : Declustering
        How it does.
    """

    supplier_threshold: float = 0.5
    consumer_threshold: float = 0.01
    choice: Choice = "load"
    adaptive: bool = False
    declustering: Declustering = field(default_factory=Declustering)

    def __post_init__(self) -> None:
        check_thresholds(self.supplier_threshold, self.consumer_threshold)
        chosen_group((), (), 0.0, self.choice)


@dataclass(frozen=True)
class Decision:
    """What changes after a reorganisation epoch."""

    moves: list[Move]
    active: list[int]
    declustering: Declustering


def reorganised(
    policy: Policy,
    owners: ArrayLike,
    loads: ArrayLike,
    group_loads: ArrayLike,
    active: list[int],
    available: list[int],
    random: np.random.Generator | None = None,
) -> Decision:
    """Decide which groups move and which nodes take part.

    Parameters
    ----------
    policy : Policy
        Thresholds, and the declustering rule in its present state.
    owners : array
        The node of each group.
    loads, group_loads : array
        Average buffer occupancy of each node over the epoch, and the part of each group in it.
    active, available : list of int
        Nodes that take part, and all that could; dead ones are in neither.
    random : numpy.random.Generator, optional
        For ``choice="random"``.

    Returns
    -------
    Decision
        No group moves twice. A node that leaves gives all of its groups away; one that joins has no groups
        yet and is a consumer from the next epoch on. Cost: O(nodes log nodes + groups).

    Examples
    --------
    >>> reorganised(Policy(), [0, 0, 0, 1], [0.9, 0.0], [0.1, 0.5, 0.3, 0], [0, 1], [0, 1]).moves
    [Move(group=1, source=0, target=1)]
    """
    members = sorted(active)
    levels = np.asarray(loads, dtype=np.float64)
    role = roles(levels[members], policy.supplier_threshold, policy.consumer_threshold)
    rule, wanted = policy.declustering, len(members)
    if policy.adaptive:
        counts = int((role == SUPPLIER).sum()), int((role == CONSUMER).sum())
        rule, wanted = rule.step(*counts, len(members), len(available))
    if wanted < len(members):
        leaving = min(members, key=lambda node: (levels[node], -node))
        others = [node for node in members if node != leaving]
        return Decision(drained(owners, leaving, others, levels, group_loads), others, rule)
    moves = []
    for supplier, consumer in pairs(levels[members], role):
        source, target = members[supplier], members[consumer]
        mine = owned(owners, source)
        if len(mine) < 2:  # its only group would overload the consumer instead
            continue
        surplus = float(levels[source] - levels[target])
        group = chosen_group(mine, group_loads, surplus, policy.choice, random)
        if group is not None:
            moves.append(Move(group, source, target))
    taken = set(members)
    idle = [node for node in available if node not in taken]
    return Decision(moves, sorted([*members, *idle[: wanted - len(members)]]), rule)
