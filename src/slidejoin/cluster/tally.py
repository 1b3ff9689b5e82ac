"""What a simulation counts while it runs: where tuples are, results and their delays, offered work."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.load import Floats


@dataclass
class Tally:
    """Counters of one run. Delays count for results that are produced after the warm-up."""

    groups: int
    warmup: float
    arrived: float = 0
    expired: float = 0
    lost: float = 0
    outputs: float = 0
    all_outputs: float = 0
    delay_sum: float = 0.0
    recent_outputs: float = 0.0  # since the last sample of the timeline
    recent_delay: float = 0.0
    most_delay: float = 0.0
    offered: Floats = field(default_factory=lambda: np.zeros(0))  # work by group, after the warm-up
    counts_offers: bool = False

    def __post_init__(self) -> None:
        self.offered = np.zeros(self.groups)

    def offer(self, work: NDArray[Any]) -> None:
        """Work that arrives, by group."""
        if self.counts_offers:
            self.offered += work

    def produce(self, finished: Floats, arrived: Floats, results: NDArray[Any]) -> None:
        """Results, the times at which they come out, and at which their later tuples arrived."""
        if not len(finished):
            return
        delays = finished - arrived
        weighted = delays * results
        self.all_outputs += results.sum()
        self.recent_outputs += results.sum()
        self.recent_delay += weighted.sum()
        counts = finished >= self.warmup
        if counts.all():
            self.outputs += results.sum()
            self.delay_sum += weighted.sum()
        elif counts.any():
            self.outputs += results[counts].sum()
            self.delay_sum += weighted[counts].sum()
        else:
            return
        self.most_delay = max(self.most_delay, float(delays[counts].max()))

    def take_recent(self) -> tuple[float, float]:
        """The mean delay since the last call, NaN without results, and the number of results."""
        outputs = float(self.recent_outputs)
        mean = self.recent_delay / outputs if outputs else np.nan
        self.recent_outputs = self.recent_delay = 0.0
        return float(mean), outputs
