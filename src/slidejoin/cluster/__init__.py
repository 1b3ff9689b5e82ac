"""A shared-nothing cluster in the small: its policies, its block processing, and a simulator of it.

From "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster" (Chakraborty, Singh). The policies are
pure functions over plain data, which real balancing can call; :class:`Master` and :class:`Node` join real
tuples by them, and the simulator runs them on one to thousands of nodes. ``docs/cluster.md`` has the figures.
"""

from slidejoin.cluster.costs import ClusterCosts
from slidejoin.cluster.load import Move
from slidejoin.cluster.master import Master
from slidejoin.cluster.node import Node
from slidejoin.cluster.reorganise import Decision, Policy, reorganised
from slidejoin.cluster.result import SimulationResult
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.simulation import simulate

__all__ = [
    "ClusterCosts",
    "Decision",
    "Master",
    "Move",
    "Node",
    "Policy",
    "Settings",
    "SimulationResult",
    "reorganised",
    "simulate",
]
