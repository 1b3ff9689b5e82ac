"""What things cost in a simulated cluster, in seconds: comparisons, tuples, messages, moves.

The paper states no costs. :meth:`ClusterCosts.paper` has values that are fitted to two points of its text:
with 4 nodes and without tuning 48 s of delay at 4,000 tuples a second, with tuning no idle time at 6,000.
:meth:`ClusterCosts.core` takes those of the running core, as ``slidejoin model calibrate`` measures them.
"""

from dataclasses import dataclass, fields

from slidejoin.model import Costs
from slidejoin.model.arguments import as_number


@dataclass(frozen=True)
class ClusterCosts:
    """Costs of a cluster, in seconds unless stated otherwise.

    Parameters
    ----------
    comparison : float
        Of two tuples in a block-nested loop; 0 where an index is probed.
    tuple_ : float
        Of a tuple at its node besides: received, hashed, stored, expired.
    match : float
        Of a result.
    message : float
        Of a message, at master and node alike.
    marshal : float
        Of a tuple in a message, at sender and receiver alike.
    bandwidth : float
        Bytes a second of a machine's network link.
    ingest : float
        Of an arrival at the master: received, hashed, buffered.
    storage : float
        Bytes a second at which a node reads and writes shared files.
    open_file : float
        Of a group's files, until the first byte is read.

    Examples
    --------
    >>> costs = ClusterCosts.paper()
    >>> costs.transfer(64) == costs.marshal + 64 / costs.bandwidth
    True
    """

    comparison: float
    tuple_: float
    match: float
    message: float
    marshal: float
    bandwidth: float
    ingest: float
    storage: float
    open_file: float

    def __post_init__(self) -> None:
        for each in fields(self):
            positive = each.name in ("bandwidth", "storage")
            limits = {"above": 0.0} if positive else {"least": 0.0}
            expected = "bytes a second, above 0" if positive else "seconds, 0 or more"
            as_number(each.name, getattr(self, each.name), expected, **limits)

    @staticmethod
    def paper() -> "ClusterCosts":
        """Nodes with 930 MHz and Java, Gigabit Ethernet: fitted, see above."""
        return ClusterCosts(
            comparison=1.07e-8, tuple_=1.2e-4, match=2e-6, message=2e-3, marshal=5e-6, bandwidth=125e6,
            ingest=2e-6, storage=100e6, open_file=0.01,
        )  # fmt: skip

    @staticmethod
    def core(index: str | None = None, window: int = 2**20, costs: Costs | None = None) -> "ClusterCosts":
        """Costs of slidejoin's core on one machine, with 10 Gbit/s between machines.

        Parameters
        ----------
        index : str, optional
            The index that nodes probe; the nested loop of the paper without it.
        window : int
            Tuples of one side at a node, on which the cost of an index depends.
        costs : Costs, optional
            Measured costs; those of this machine, or the shipped ones, unless given.

        Examples
        --------
        >>> ClusterCosts.core("bucket-tree").comparison
        0.0
        """
        known = costs or Costs.load()
        arrival = None if index is None else known.arrival(index, window=window, matches=1, batch=4096)
        return ClusterCosts(
            comparison=known.alpha if arrival is None else 0.0,
            tuple_=known.window_row + (0.0 if arrival is None else arrival.total),
            match=known.beta,
            message=5e-5, marshal=5e-8, bandwidth=1.25e9, ingest=5e-8, storage=1e9, open_file=2e-3,
        )  # fmt: skip

    def transfer(self, tuple_bytes: int) -> float:
        """Seconds of a tuple on its way from one machine to another."""
        return self.marshal + tuple_bytes / self.bandwidth

    def move(self, tuples: float, tuple_bytes: int, by: str) -> tuple[float, float]:
        """Seconds that a group with so many tuples keeps its old and its new node from working.

        By ``network`` the old node extracts and sends the state, the new one receives it. By ``files`` the
        state is in shared immutable files: the old node does nothing, the new one reads them.
        """
        if by == "network":
            seconds = self.message + tuples * self.transfer(tuple_bytes)
            return seconds, seconds
        return 0.0, self.open_file + tuples * tuple_bytes / self.storage

    def store(self, tuple_bytes: int, by: str) -> float:
        """Seconds for a tuple that a node keeps: with ``files`` it is written once."""
        return tuple_bytes / self.storage if by == "files" else 0.0
