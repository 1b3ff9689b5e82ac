"""The master: mini-buffers for each partition-group, the map from groups to nodes, moves and epochs.

It joins real tuples with :class:`~slidejoin.cluster.node.Node` objects of one process. Time is that of the
tuples; the caller decides when to distribute, to work and to reorganise. Results do not depend on it.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.cluster.blocks import EMPTY, SIDES, Kernel, Pairs, Tuples, as_tuples, joined
from slidejoin.cluster.hashing import group_of, hashed
from slidejoin.cluster.load import Floats, Move, average_occupancy
from slidejoin.cluster.node import Node
from slidejoin.cluster.ownership import dealt, moved
from slidejoin.cluster.reorganise import Decision, Policy, reorganised
from slidejoin.errors import OrderError, SpecError, UsageError
from slidejoin.model.arguments import as_count


class Master:
    """Distributes two streams to nodes and moves partition-groups between them.

    Parameters
    ----------
    window : int or (int, int)
        How long tuples are kept, of both sides, or of the left and of the right one; in the unit of times.
    nodes : int
        How many nodes there are; all take part at first.
    groups : int
        Partition-groups, many more than nodes; 60 in the paper.
    block : int
        Tuples of a block.
    theta : float, optional
        θ of the partition tuning, in blocks.
    policy : Policy, optional
        How groups are balanced.
    capacity : int
        Tuples of a node's buffer, by which its load is measured.
    seed : int
        For groups that are chosen at random.

    Examples
    --------
    >>> master = Master(window=10, nodes=2, groups=4)
    >>> master.arrive([0, 1, 1], keys=[5, 5, 6], times=[1, 2, 3])
    >>> master.distribute()
    >>> master.work()
    Pairs(left=array([0]), right=array([0]))
    """

    def __init__(
        self,
        window: int | tuple[int, int],
        nodes: int,
        groups: int = 60,
        *,
        block: int = 64,
        theta: float | None = None,
        policy: Policy | None = None,
        capacity: int = 1 << 14,
        seed: int = 0,
    ) -> None:
        as_count("nodes", nodes)
        as_count("groups", groups)
        as_count("block", block)
        as_count("capacity", capacity)
        windows = window if isinstance(window, tuple) else (window, window)
        if min(windows) < 0:
            raise SpecError(f"window {window}; expected 0 or more")
        self.kernel = Kernel(*windows)
        self.nodes = [Node(number, self.kernel, block, theta) for number in range(nodes)]
        self.active = list(range(nodes))
        self.owners = dealt(groups, self.active)
        for group, owner in enumerate(self.owners):
            self.nodes[owner].create(group)
        self._policy = policy or Policy()
        self._random = np.random.default_rng(seed)
        self._capacity = capacity
        self._buffers: list[tuple[list[Tuples], list[Tuples]]] = [([], []) for _ in range(groups)]
        self._moving: dict[int, tuple[Move, dict[str, Any]]] = {}
        self._samples: list[tuple[Floats, Floats]] = []
        self._arrived = [0, 0]
        self._latest: int | None = None

    @property
    def buffered(self) -> int:
        """Tuples that wait at the master."""
        return sum(each.size for sides in self._buffers for side in sides for each in side)

    @property
    def moving(self) -> list[int]:
        """Groups that are under way between two nodes."""
        return sorted(self._moving)

    def arrive(self, sides: ArrayLike, keys: ArrayLike, times: ArrayLike) -> None:
        """Put arrivals of both sides into the mini-buffers; times never decrease. Cost: O(arrivals)."""
        side_array, key_array, time_array = (np.asarray(each) for each in (sides, keys, times))
        if not side_array.shape == key_array.shape == time_array.shape or side_array.ndim != 1:
            raise SpecError(
                f"{side_array.size} sides, {key_array.size} keys and {time_array.size} times; give one each"
            )
        if not len(time_array):
            return
        before = [time_array[0] if self._latest is None else self._latest]
        falls = np.flatnonzero(np.diff(time_array, prepend=before) < 0)
        if len(falls):
            raise OrderError(f"times[{falls[0]}] is {time_array[falls[0]]}, earlier than the one before it")
        groups = group_of(hashed(key_array), len(self.owners))
        for side in SIDES:
            mine = np.flatnonzero(side_array == side)
            tuples = as_tuples(key_array[mine], time_array[mine], self._arrived[side])
            self._arrived[side] += tuples.size
            for group in np.unique(groups[mine]):
                self._buffers[group][side].append(tuples.take(groups[mine] == group))
        self._latest = int(time_array[-1])

    def distribute(self, nodes: Iterable[int] | None = None) -> None:
        """Send what waits to its owners, or to some of them (a sub-group); groups that move keep waiting."""
        if self._latest is None:
            return
        wanted = set(range(len(self.nodes)) if nodes is None else nodes)
        for group, owner in enumerate(self.owners):
            if owner in wanted and group not in self._moving:
                for side in SIDES:
                    waiting = self._buffers[group][side]
                    self.nodes[owner].receive(
                        group, side, joined(waiting) if waiting else EMPTY, self._latest
                    )
                    waiting.clear()

    def work(self, nodes: Iterable[int] | None = None, blocks: int | None = None) -> Pairs:
        """Let nodes process blocks, all or some; returns the pairs that they found."""
        chosen = self.nodes if nodes is None else [self.nodes[number] for number in nodes]
        found = [pairs for node in chosen for pairs in node.work(blocks)]
        empty = EMPTY.positions
        left, right = ([each[side] for each in found] or [empty] for side in SIDES)
        return Pairs(np.concatenate(left), np.concatenate(right))

    def begin_move(self, move: Move) -> None:
        """Take a group from its node, with windows and buffers; new tuples wait here until the move ends."""
        if move.group in self._moving:
            raise UsageError(f"group {move.group} is moving already; end that move first")
        if not 0 <= move.target < len(self.nodes):
            raise SpecError(f"{move} names a node that is not there; expected 0 to {len(self.nodes) - 1}")
        self.owners = moved(self.owners, [move])
        self._moving[move.group] = (move, self.nodes[move.source].extract(move.group))

    def end_move(self, group: int) -> None:
        """Install a group at its new node, which acknowledges it."""
        if group not in self._moving:
            raise UsageError(f"group {group} is not moving; begin a move first")
        move, state = self._moving.pop(group)
        self.nodes[move.target].install(group, state)

    def sample(self) -> None:
        """Note how full the nodes' buffers are, at the end of a distribution epoch."""
        groups = np.zeros(len(self.owners))
        for node in self.nodes:
            for number, group in node.groups.items():
                groups[number] = group.waiting
        nodes = np.array([float(node.waiting) for node in self.nodes])
        self._samples.append((nodes, groups))

    def reorganise(self) -> Decision:
        """End a reorganisation epoch: decide by the policy, move groups, and start a new epoch.

        Moves that are under way end first.
        """
        for group in self.moving:
            self.end_move(group)
        if not self._samples:
            self.sample()
        loads, parts = (
            average_occupancy([each[which] for each in self._samples], self._capacity) for which in (0, 1)
        )
        everyone = list(range(len(self.nodes)))
        decision = reorganised(self._policy, self.owners, loads, parts, self.active, everyone, self._random)
        self._samples = []
        self.active = decision.active
        for move in decision.moves:
            self.begin_move(move)
            self.end_move(move.group)
        return decision
