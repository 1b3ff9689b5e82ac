"""Everything a simulation of the cluster depends on, checked. The same settings give the same run."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from slidejoin.cluster.costs import ClusterCosts
from slidejoin.cluster.declustering import Declustering
from slidejoin.cluster.load import Choice
from slidejoin.cluster.reorganise import Policy
from slidejoin.errors import SpecError, suggestion
from slidejoin.model.arguments import as_count, as_number

DETAILS = ("tuples", "counts", "auto")
MOVES = ("network", "files")
MOST_TUPLES = 5e7  # that are simulated one by one where detail is "auto"
MOST_KEYS = 2**26  # of which each is counted where tuples are simulated one by one
_COUNTS = (
    "nodes",
    "groups",
    "slots",
    "masters",
    "tuple_bytes",
    "block_bytes",
    "buffer_bytes",
    "keys",
    "hot_cells",
)
_POSITIVE = ("seconds", "window", "distribution_epoch", "reorganisation_epoch", "theta", "hot_period")

Detail: TypeAlias = Literal["tuples", "counts", "auto"]
MoveBy: TypeAlias = Literal["network", "files"]


@dataclass(frozen=True)
class Settings:
    """A cluster, its streams and how long they run. Defaults are those of the paper (its Table I).

    Parameters
    ----------
    rate : float
        Tuples a second of each of the two streams, λ; Poisson arrivals.
    nodes : int
        Nodes that process tuples, besides the master.
    seconds, warmup : float
        Simulated time, and from when on figures count.
    window : float
        Seconds of each window.
    groups : int
        Partition-groups.
    distribution_epoch, reorganisation_epoch : float
        t_d and t_r, seconds. (The paper's text says 4 s for t_r, its Table I 20 s.)
    slots : int
        n_g: sub-groups of nodes that communicate one after the other within a distribution epoch.
    fixed_order : bool
        Nodes know their turn and work until then, instead of waiting for it.
    masters : int
        Machines that share the distribution. 1 in the paper.
    theta : float
        θ of the partition tuning, bytes of a mini-partition-group. ``tuned=False`` turns the tuning off.
    tuple_bytes, block_bytes, buffer_bytes : int
        Sizes of a tuple, a block, and the buffer that a node's load is measured by.
    supplier_threshold, consumer_threshold, beta, choice, adaptive, patience
        The policy: :class:`~slidejoin.cluster.reorganise.Policy`. ``first_nodes`` take part at first.
    moves : str
        ``network``: a group's state is sent, as in the paper. ``files``: it is read from shared files.
    keys : int
        Keys are 0 to ``keys``.
    skew : float
        b of the b-model: at each level, one half of the keys gets this share of the tuples; 0.5 is uniform.
    hot_share, hot_period : float
        The share of one hot key in all tuples besides, and the seconds after which another key is hot.
    hot_cells : int
        Groups that share the hot key, by :func:`~slidejoin.cluster.hot.spread`; its tuples are copied. Only
        where tuples are counted.
    rates : tuple of (seconds, rate)
        Changes of the rate.
    speeds : tuple of float
        Speed of each node, 1 unless given; repeated for further nodes.
    background : tuple of (seconds, node, share)
        From then on, other programs take this share of a node.
    failures, arrivals : tuple of (seconds, node)
        Nodes that fail; nodes that are there only from then on.
    costs : ClusterCosts
        What things cost.
    detail : str
        ``tuples`` simulates each tuple, ``counts`` their number by group and epoch; ``auto`` decides by their
        number.
    seed : int
        Of all random numbers.

    Examples
    --------
    >>> Settings(rate=1500, nodes=4).buffer_tuples
    16384
    """

    rate: float = 1500.0
    nodes: int = 4
    seconds: float = 1200.0
    warmup: float = 600.0
    window: float = 600.0
    groups: int = 60
    distribution_epoch: float = 2.0
    reorganisation_epoch: float = 20.0
    slots: int = 1
    fixed_order: bool = False
    masters: int = 1
    theta: float = 1.5e6
    tuned: bool = True
    tuple_bytes: int = 64
    block_bytes: int = 4096
    buffer_bytes: int = 1 << 20
    supplier_threshold: float = 0.5
    consumer_threshold: float = 0.01
    beta: float = 0.5
    choice: Choice = "load"
    adaptive: bool = False
    patience: int = 1
    first_nodes: int | None = None
    moves: MoveBy = "network"
    keys: int = 10_000_000
    skew: float = 0.7
    hot_share: float = 0.0
    hot_period: float = 300.0
    hot_cells: int = 1
    rates: tuple[tuple[float, float], ...] = ()
    speeds: tuple[float, ...] = (1.0,)
    background: tuple[tuple[float, int, float], ...] = ()
    failures: tuple[tuple[float, int], ...] = ()
    arrivals: tuple[tuple[float, int], ...] = ()
    costs: ClusterCosts = field(default_factory=ClusterCosts.paper)
    detail: Detail = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        as_number("rate", self.rate, "tuples a second, 0 or more", least=0)
        for name in _COUNTS:
            as_count(name, getattr(self, name))
        for name in _POSITIVE:
            as_number(name, getattr(self, name), "above 0", above=0)
        as_number("warmup", self.warmup, "seconds, 0 or more", least=0)
        as_number("skew", self.skew, "0.5 (uniform) to 0.99", least=0.5, most=0.99)
        as_number("hot_share", self.hot_share, "a share, 0 to 1", least=0, most=1)
        as_number("seed", self.seed, "a whole number, 0 or more", least=0)
        self._check_times()
        self._check_sizes()
        _check_name("moves", self.moves, MOVES)
        _check_name("detail", self.detail, DETAILS)
        if self.detail == "tuples" and self.keys > MOST_KEYS:
            raise SpecError(
                f"keys {self.keys} with detail='tuples'; expected {MOST_KEYS:,} at most, or 'counts'"
            )
        if self.hot_cells > self.groups or (self.hot_cells > 1 and self.simulates_tuples):
            raise SpecError(
                f"hot_cells {self.hot_cells} of {self.groups} groups; expected as many as groups at most, "
                "and detail='counts'"
            )
        self._check_nodes()
        self.policy()

    def _check_times(self) -> None:
        if self.warmup >= self.seconds:
            raise SpecError(
                f"warmup {self.warmup} of {self.seconds} seconds; nothing is left to measure, shorten the "
                "warm-up or simulate longer"
            )
        if self.reorganisation_epoch < self.distribution_epoch:
            raise SpecError(
                f"reorganisation_epoch {self.reorganisation_epoch} below distribution_epoch "
                f"{self.distribution_epoch}; loads are averages over several distribution epochs"
            )
        if self.seconds / self.distribution_epoch * self.slots > 1e6:
            raise SpecError(
                f"{self.seconds} s have {self.seconds / self.distribution_epoch * self.slots:.3g} slots; "
                "expected 1,000,000 at most, make distribution_epoch longer"
            )
        for at, rate in self.rates:
            as_number("rates", at, "(seconds, tuples a second)", least=0)
            as_number("rates", rate, "(seconds, tuples a second)", least=0)

    def _check_sizes(self) -> None:
        if self.keys > 2**28:
            raise SpecError(f"keys {self.keys}; expected 1 to {2**28:,}")
        if self.block_bytes < self.tuple_bytes:
            raise SpecError(
                f"block_bytes {self.block_bytes} hold no tuple of {self.tuple_bytes}; make them larger"
            )
        if self.slots > self.nodes:
            raise SpecError(f"slots {self.slots} for {self.nodes} nodes; expected one node a slot at least")

    def _check_nodes(self) -> None:
        first = self.nodes if self.first_nodes is None else as_count("first_nodes", self.first_nodes)
        if first > self.nodes:
            raise SpecError(f"first_nodes {first} of {self.nodes} nodes; expected not more than there are")
        if not self.speeds:
            raise SpecError("speeds are empty; give one for each node, or leave them out")
        for speed in self.speeds:
            as_number("speeds", speed, "above 0", above=0)
        events: tuple[Any, ...] = (*self.background, *self.failures, *self.arrivals)
        for at, node, *share in events:
            as_number("time of a node's event", at, "seconds, 0 or more", least=0)
            if not 0 <= node < self.nodes:
                raise SpecError(f"node {node} of {self.nodes}; nodes are numbered from 0")
            for each in share:
                if not 0 <= each < 1:
                    raise SpecError(f"background load {each}; expected a share, 0 or more and below 1")
        late = {node for _, node in self.arrivals}
        if len({node for _, node in self.failures} | late) >= self.nodes:
            raise SpecError("all nodes fail or come later; one must be there throughout")

    def policy(self) -> Policy:
        """How groups are balanced."""
        return Policy(
            self.supplier_threshold, self.consumer_threshold, self.choice, self.adaptive,
            Declustering(self.beta, self.patience),
        )  # fmt: skip

    @property
    def buffer_tuples(self) -> int:
        """Tuples of a node's buffer."""
        return max(1, self.buffer_bytes // self.tuple_bytes)

    @property
    def simulates_tuples(self) -> bool:
        """Whether each tuple is simulated."""
        if self.detail == "auto":
            fastest = max([self.rate, *(rate for _, rate in self.rates)])
            few = 2 * fastest * self.seconds <= MOST_TUPLES and self.nodes <= 100
            return few and self.keys <= MOST_KEYS
        return self.detail == "tuples"

    def rate_at(self, time: float) -> float:
        """Tuples a second of each stream."""
        rate = self.rate
        for at, changed in sorted(self.rates):
            rate = changed if at <= time else rate
        return rate


def _check_name(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise SpecError(f"{name} {given!r}; expected {' or '.join(known)}{suggestion(given, known)}")
