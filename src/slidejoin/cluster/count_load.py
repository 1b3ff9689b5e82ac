"""The tuples of a simulated cluster as numbers by partition-group: for thousands of nodes.

Arrivals are Poisson numbers by group and step. Tuples of a group are alike: a mean arrival time, the same
work, the same number of partners. A node that cannot process all of its queue takes the same part of each
group's. Mini-partition-groups have the size that splits in halves lead to. Cost: O(groups) a step.
"""

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.hashing import group_of, hashed
from slidejoin.cluster.load import Floats, Ints
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.tally import Tally
from slidejoin.cluster.workload import BModel, hot_key

MOST_SPLITS = 16


class CountLoad:
    """Arrivals, queues and windows of a cluster, as numbers."""

    def __init__(self, settings: Settings, random: np.random.Generator, tally: Tally) -> None:
        self._settings, self._random, self._tally = settings, random, tally
        groups = settings.groups
        self._shares, self._meets = BModel(settings.keys, settings.skew).group_shares(groups)
        self.at_master = np.zeros(groups)
        self.queued = np.zeros(groups)
        self.stored = np.zeros(groups)
        self._master_time = np.zeros(groups)  # sums of arrival times
        self._queued_time = np.zeros(groups)
        self._steps = max(1, round(settings.window / settings.distribution_epoch))
        self._ring = np.zeros((self._steps, groups))  # processed, by distribution epoch
        self._arrivals = np.zeros((self._steps, groups))
        self._window = np.zeros(groups)  # arrivals of the last epochs: what a new one is compared with
        self._step = 0
        self._now = 0.0
        self._work = np.zeros(groups)
        self._matches = np.zeros(groups)
        self.tune()

    def _mixed(self, time: float) -> tuple[Floats, Floats]:
        """Shares of the groups, and how likely two of their tuples match, with the hot key of the time."""
        hot = self._settings.hot_share
        if not hot:
            return self._shares, self._meets
        key = hot_key(self._settings.keys, int(time // self._settings.hot_period))
        group = int(group_of(hashed(np.array([key])), self._settings.groups)[0])
        shares = (1 - hot) * self._shares
        squares = self._meets * shares**2
        shares[group] += hot
        squares[group] += hot**2
        return shares, np.divide(squares, shares**2, out=np.zeros_like(shares), where=shares > 0)

    def arrive(self, start: float, end: float) -> int:
        """The arrivals in [start, end) of both streams reach the master; returns how many."""
        shares, _ = self._mixed(start)
        expected = 2 * self._settings.rate_at(start) * (end - start) * shares
        arrived = self._random.poisson(expected).astype(np.float64)
        self.at_master += arrived
        self._master_time += arrived * (start + end) / 2
        self._arrivals[self._step % self._steps] += arrived
        self._window += arrived
        self._now = start
        self._tally.offer(arrived * self._work)
        total = int(arrived.sum())
        self._tally.arrived += total
        return total

    def tune(self) -> None:
        """A distribution epoch ends: old tuples expire, and the work of a tuple follows from the windows."""
        settings, costs = self._settings, self._settings.costs
        self._step += 1
        oldest = self._ring[self._step % self._steps]
        self.stored -= oldest
        self._tally.expired += float(oldest.sum())
        oldest[:] = 0
        minis = self._window.copy()
        if settings.tuned:
            limit = 2 * settings.theta / settings.tuple_bytes
            splits = np.ceil(np.log2(np.maximum(minis / limit, 1.0)))
            minis /= 2 ** np.minimum(splits, MOST_SPLITS)
        _, meets = self._mixed(self._now)
        self._matches = meets * self._window / 2
        scanned = np.maximum(minis / 2, self._matches) + settings.block_bytes / settings.tuple_bytes / 2
        work = costs.tuple_ + costs.store(settings.tuple_bytes, settings.moves)
        self._work = work + costs.comparison * scanned + costs.match * self._matches
        leaving = self._arrivals[self._step % self._steps]  # within the epoch that begins
        self._window -= leaving
        leaving[:] = 0

    def send(self, owners: Ints, ready: NDArray[np.bool_]) -> None:  # noqa: ARG002
        """Send what waits for some groups to their nodes."""
        self.queued[ready] += self.at_master[ready]
        self._queued_time[ready] += self._master_time[ready]
        self.at_master[ready] = 0
        self._master_time[ready] = 0

    def process(self, nodes: Ints, starts: Floats, ends: Floats, speeds: Floats, owners: Ints) -> Floats:
        """Let nodes work from their starts to their ends; returns the seconds that each was busy."""
        count = self._settings.nodes
        budget, begin = np.zeros(count), np.zeros(count)
        budget[nodes] = np.maximum(ends - starts, 0) * speeds
        begin[nodes] = starts
        mine = np.zeros(count, np.bool_)
        mine[nodes] = True
        chosen = np.flatnonzero(mine[owners] & (self.queued > 0))
        owner = owners[chosen]
        needed = np.bincount(owner, self.queued[chosen] * self._work[chosen], count)
        part = np.divide(budget, needed, out=np.ones(count), where=needed > budget)
        speed = np.ones(count)
        speed[nodes] = speeds
        busy = np.minimum(needed, budget) / speed
        share = part[owner]
        done = self.queued[chosen] * share
        times = self._queued_time[chosen] * share
        finished = begin[owner] + busy[owner] / 2
        means = np.divide(times, done, out=finished.copy(), where=done > 0)
        self._tally.produce(finished, means, done * self._matches[chosen])
        self.queued[chosen] -= done
        self._queued_time[chosen] -= times
        self.queued[chosen[share >= 1]] = 0
        self._queued_time[chosen[share >= 1]] = 0
        self.stored[chosen] += done
        self._ring[self._step % self._steps, chosen] += done
        found: Floats = busy[nodes]
        return found

    def move(self, group: int, source: int, target: int) -> None:
        """Queues belong to groups, so nothing is to be done."""

    def give_back(self, groups: list[int], node: int) -> None:  # noqa: ARG002
        """What a failed node had received and not processed waits at the master again."""
        self.at_master[groups] += self.queued[groups]
        self._master_time[groups] += self._queued_time[groups]
        self.queued[groups] = 0
        self._queued_time[groups] = 0

    def lose(self, groups: list[int], node: int, sent_until: float) -> None:  # noqa: ARG002
        """The windows and the queue of a failed node are gone; what waits at the master is not."""
        self._tally.lost += float(self.queued[groups].sum() + self.stored[groups].sum())
        for each in (self.queued, self._queued_time, self.stored, self._window):
            each[groups] = 0
        self._ring[:, groups] = 0
        self._arrivals[:, groups] = 0
