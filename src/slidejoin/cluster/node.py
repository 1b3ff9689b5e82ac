"""A node of the cluster, the paper's slave: owns partition-groups and joins their tuples."""

from typing import Any

from slidejoin.cluster.blocks import Kernel, Pairs, Tuples
from slidejoin.cluster.group import PartitionGroup
from slidejoin.errors import SpecError, UsageError


class Node:
    """Joins the tuples of its partition-groups, block by block; groups come and go.

    Parameters
    ----------
    number : int
        Its number.
    kernel : Kernel
        The condition of the join.
    block : int
        Tuples of a block.
    theta : float, optional
        θ in blocks, for partition tuning; without it groups are never split.
    """

    def __init__(self, number: int, kernel: Kernel, block: int = 64, theta: float | None = None) -> None:
        if block < 1:
            raise SpecError(f"block {block}; expected 1 tuple at least")
        self.number = number
        self._kernel = kernel
        self._block = block
        self._theta = theta
        self.groups: dict[int, PartitionGroup] = {}

    @property
    def waiting(self) -> int:
        """Tuples in its buffer: its load."""
        return sum(group.waiting for group in self.groups.values())

    def create(self, group: int) -> None:
        """Own a new group without tuples."""
        if group in self.groups:
            raise UsageError(f"node {self.number} owns group {group} already")
        self.groups[group] = PartitionGroup(self._kernel, self._block)

    def receive(self, group: int, side: int, tuples: Tuples, until: int) -> None:
        """Buffer tuples of a group that it owns."""
        if group not in self.groups:
            raise UsageError(f"node {self.number} does not own group {group}; send the tuples to its owner")
        self.groups[group].receive(side, tuples, until)

    def work(self, blocks: int | None = None) -> list[Pairs]:
        """Process some blocks, or all that wait; returns the pairs found. Tunes its groups afterwards."""
        found: list[Pairs] = []
        done = 0
        for group in self.groups.values():
            while blocks is None or done < blocks:
                found += group.step()
                done += 1
                if not group.waiting:
                    break
            if self._theta is not None:
                group.tune(self._theta)
        return found

    def extract(self, group: int) -> dict[str, Any]:
        """Give a group away: its whole state, windows and buffers; the node no longer owns it."""
        if group not in self.groups:
            raise UsageError(f"node {self.number} does not own group {group}; it cannot give it away")
        return self.groups.pop(group).pack()

    def install(self, group: int, state: dict[str, Any]) -> None:
        """Own a group from now on, in the state that another node gave away."""
        if group in self.groups:
            raise UsageError(f"node {self.number} owns group {group} already")
        self.groups[group] = PartitionGroup.unpack(state, self._kernel, self._block)
