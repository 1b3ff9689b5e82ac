"""Who owns which partition-group: the map between keys and nodes, and how moves change it.

A partition-group is a level of indirection (section IV.C of the shared-nothing join): keys are hashed into
many more groups than there are nodes, and every group has exactly one owner. The map is an array, group to
node; functions return a new one. Cost: O(groups).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.cluster.load import Floats, Ints, Move
from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_count


def dealt(groups: int, nodes: Sequence[int]) -> Ints:
    """The first owners: groups dealt to the nodes in turn.

    Examples
    --------
    >>> dealt(5, [0, 3])
    array([0, 3, 0, 3, 0])
    """
    as_count("groups", groups)
    if not len(nodes):
        raise SpecError("no nodes; expected one at least")
    return np.asarray(nodes, dtype=np.int64)[np.arange(groups) % len(nodes)]


def owned(owners: ArrayLike, node: int) -> list[int]:
    """The groups of a node.

    Examples
    --------
    >>> owned([0, 3, 0], 0)
    [0, 2]
    """
    found: list[int] = np.flatnonzero(np.asarray(owners) == node).tolist()
    return found


def moved(owners: ArrayLike, moves: Iterable[Move]) -> Ints:
    """The owners after some moves; refuses a move of a group that its source does not own.

    Examples
    --------
    >>> moved([0, 1, 0], [Move(group=2, source=0, target=1)])
    array([0, 1, 1])
    """
    after = np.array(owners, dtype=np.int64)
    for each in moves:
        _check(each, after)
        after[each.group] = each.target
    return after


def _check(move: Move, owners: Any) -> None:
    if not 0 <= move.group < len(owners):
        raise SpecError(f"{move} names a group that is not there; expected 0 to {len(owners) - 1}")
    if owners[move.group] != move.source:
        raise SpecError(f"{move}: node {owners[move.group]} owns this group; name its owner as the source")
    if move.target == move.source or move.target < 0:
        raise SpecError(f"{move} does not move anything; expected another node as the target")


def drained(
    owners: ArrayLike, node: int, others: Sequence[int], loads: ArrayLike, group_loads: ArrayLike
) -> list[Move]:
    """All groups of a node that leaves: each to the other node of least load, the heaviest group first.

    Loads are average occupancies of nodes, group_loads their parts. Groups without a load are dealt evenly.

    Examples
    --------
    >>> drained([2, 0, 2, 1], 2, [0, 1], loads=[0.2, 0.1, 0], group_loads=[0.3, 0.2, 0.05, 0.1])
    [Move(group=0, source=2, target=1), Move(group=2, source=2, target=0)]
    """
    if not len(others) or node in others:
        raise SpecError(f"node {node} cannot leave its groups to {list(others)}; expected other nodes")
    weights = np.asarray(group_loads, dtype=np.float64)
    mine = sorted(owned(owners, node), key=lambda group: -weights[group])
    levels: Floats = np.asarray(loads, dtype=np.float64)[list(others)].copy()
    counts = np.bincount(np.asarray(owners), minlength=max(others) + 1)[list(others)]
    moves = []
    for group in mine:
        best = int(np.lexsort((counts, levels))[0])
        levels[best] += weights[group]
        counts[best] += 1
        moves.append(Move(group, node, int(others[best])))
    return moves
