"""The cost of an arrival with an index, as :class:`slidejoin.model.JoinModel` takes it."""

from dataclasses import dataclass

from slidejoin.errors import SpecError
from slidejoin.model.costs import Costs


@dataclass(frozen=True)
class IndexCost:
    """What an arrival of a NumericJoin costs with one index, by the measured costs.

    Parameters
    ----------
    index : str
        The name of an index, without parameters.
    costs : Costs
        Those of this machine: ``Costs.load()``.
    batch : int
        Arrivals of a push. How long an arrival waits for its push is not part of the cost.
    workers : int
        Threads that share a push.

    Examples
    --------
    >>> import slidejoin as sj
    >>> from slidejoin.model import Costs, IndexCost, JoinModel
    >>> cost = IndexCost("bucket-tree", Costs.default(), batch=1024)
    >>> table = JoinModel(sj.rows(2**20), selectivity=1e-6, cost=cost).run([1e5] * 20, [1e5] * 20)
    >>> bool(table["latency_join"][0] < table["latency_join"][-1] < 1e-5)
    True
    """

    index: str
    costs: Costs
    batch: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.costs, Costs):
            raise SpecError(f"costs={self.costs!r}; expected Costs, such as Costs.load()")
        self.seconds(1.0, 1.0, 1.0)  # refuses what the costs do not have

    def seconds(self, window_left: float, window_right: float, matches: float) -> float:
        """Seconds of one arrival that has ``matches`` matches on average. Costs some microseconds."""
        return self.costs.arrival(
            self.index,
            window=(window_left, window_right),
            matches=matches,
            batch=self.batch,
            workers=self.workers,
        ).total
