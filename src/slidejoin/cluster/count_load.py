"""The tuples of a simulated cluster as numbers by partition-group: for thousands of nodes.

Arrivals are Poisson numbers by group and step. Tuples of a group are alike: a mean arrival time, the same
work, the same number of partners. Windows are whole numbers of distribution epochs. A node that cannot
process all of its queue takes the same part of each group's. Mini-partition-groups have the size that splits
in halves lead to. Cost: O(groups) a step.
"""

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.hashing import group_of, hashed
from slidejoin.cluster.hot import spread
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
        self._mixed = self._shares  # with the hot key
        self._hot_part = np.zeros(groups)  # of each group's arrivals
        self._hot_number = -1
        self._hot_share = self._hot_window = 0.0  # of one cell of the grid
        self._hot_arrivals = np.zeros(self._steps)
        self._work = np.zeros(groups)
        self._matches = np.zeros(groups)
        self.tune()

    def _follow_hot_key(self, time: float) -> None:
        """Where the tuples of the hot key go: a grid of groups, each with the same part of them."""
        settings = self._settings
        number = int(time // settings.hot_period)
        if not settings.hot_share or number == self._hot_number:
            return
        self._hot_number = number
        self._hot_arrivals[:] = 0  # tuples of the last hot key match no new ones
        self._hot_window = 0.0
        group = int(group_of(hashed(np.array([hot_key(settings.keys, number)])), settings.groups)[0])
        grid = spread(1.0, 1.0, 1 / settings.hot_cells, settings.hot_cells)
        self._hot_share = settings.hot_share * (1 / grid.rows + 1 / grid.columns) / 2
        self._mixed = (1 - settings.hot_share) * self._shares
        cells = (group + np.arange(grid.cells)) % settings.groups
        self._mixed[cells] += self._hot_share
        self._hot_part = np.zeros(settings.groups)
        self._hot_part[cells] = self._hot_share / self._mixed[cells]

    def arrive(self, start: float, end: float) -> int:
        """The arrivals in [start, end) of both streams reach the master; returns how many."""
        self._follow_hot_key(start)
        total = 2 * self._settings.rate_at(start) * (end - start)
        arrived = self._random.poisson(total * self._mixed).astype(np.float64)
        self.at_master += arrived
        self._master_time += arrived * (start + end) / 2
        step = self._step % self._steps
        self._arrivals[step] += arrived
        self._window += arrived
        self._hot_arrivals[step] += total * self._hot_share
        self._hot_window += total * self._hot_share
        self._tally.offer(arrived * self._work)
        count = int(arrived.sum())
        self._tally.arrived += count
        return count

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
        hot = self._hot_part * self._hot_window
        others = self._meets * np.maximum(self._window - (self._hot_part > 0) * self._hot_window, 0.0)
        self._matches = (hot + (1 - self._hot_part) * others) / 2
        scanned = np.maximum(minis / 2, self._matches) + settings.block_bytes / settings.tuple_bytes / 2
        work = costs.tuple_ + costs.store(settings.tuple_bytes, settings.moves)
        self._work = work + costs.comparison * scanned + costs.match * self._matches
        leaving = self._arrivals[self._step % self._steps]  # within the epoch that begins
        self._window -= leaving
        leaving[:] = 0
        self._hot_window -= self._hot_arrivals[self._step % self._steps]
        self._hot_arrivals[self._step % self._steps] = 0

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
