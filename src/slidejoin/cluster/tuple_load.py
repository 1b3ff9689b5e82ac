"""The tuples of a simulated cluster, one by one: exact matches, queues and windows.

For every arrival the number of its partners is exact: tuples of the other side with its key that are not
older than the window. Its work is a scan of the opposite side of its mini-partition-group, whose size follows
from real directories, tuned by the policy. Sizes are taken at the arrival. Cost: 1-2 µs a tuple, all steps
being vectorised, and memory for the window.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.extendible import Bucket, Directory, tuned
from slidejoin.cluster.hashing import bits_of, group_of, hashed
from slidejoin.cluster.load import Floats, Ints
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.tally import Tally
from slidejoin.cluster.workload import BModel, hot_key, poisson_times

CELL_BITS = 8  # a group is split into 2^8 mini-partition-groups at most
CELLS = 1 << CELL_BITS


@dataclass
class Chunk:
    """Arrivals of one step, in order of time: columns, of which ``group`` is -1 where the state was lost."""

    number: int
    time: Floats
    side: Ints
    key: Ints
    group: Ints
    cell: Ints
    left: int = 0  # tuples that have left the window


@dataclass
class Queued:
    """Tuples that wait at the master or at a node, in order of time."""

    time: Floats
    group: Ints
    work: Floats
    matches: Ints
    chunk: Ints

    def take(self, which: NDArray[np.bool_] | slice) -> "Queued":
        """Some of them."""
        return Queued(
            self.time[which], self.group[which], self.work[which], self.matches[which], self.chunk[which]
        )


class TupleLoad:
    """Arrivals, queues and windows of a cluster, tuple by tuple."""

    def __init__(self, settings: Settings, random: np.random.Generator, tally: Tally) -> None:
        self._settings, self._random, self._tally = settings, random, tally
        self._model = BModel(settings.keys, settings.skew)
        groups = settings.groups
        self._in_window = np.zeros((2, settings.keys + 1), np.int32)  # by side and key
        self._cells = np.zeros((2, groups * CELLS), np.int64)  # window sizes by side and cell
        self._directories = [Directory()] * groups
        self._mini = np.repeat(np.arange(groups), CELLS)  # of each cell
        self._minis = groups
        self._chunks: deque[Chunk] = deque()
        self._numbers = 0
        self._stored_of: dict[int, Ints] = {}  # processed tuples by group, for each chunk in the window
        self._master: deque[Queued] = deque()
        self._queues: list[deque[Queued]] = [deque() for _ in range(settings.nodes)]
        self._begun = np.zeros(settings.nodes)  # work done on the first tuple of each queue
        self.at_master = np.zeros(groups, np.int64)
        self.queued = np.zeros(groups, np.int64)
        self.stored = np.zeros(groups, np.int64)

    # --- Arrivals ---

    def arrive(self, start: float, end: float) -> int:
        """The arrivals in [start, end) of both streams reach the master; returns how many."""
        settings = self._settings
        time = poisson_times(2 * settings.rate_at(start), start, end, self._random)
        side = self._random.integers(0, 2, len(time))
        key = self._model.draw(len(time), self._random)
        if settings.hot_share:
            is_hot = self._random.random(len(time)) < settings.hot_share
            key[is_hot] = hot_key(settings.keys, int(start // settings.hot_period))
        hashes = hashed(key)
        group = group_of(hashes, settings.groups)
        cell = group * CELLS + bits_of(hashes, CELL_BITS)
        chunk = Chunk(self._numbers, time, side, key, group, cell)
        self._numbers += 1
        matches = self._count_matches(chunk, end)
        scanned = self._opposite_sizes(side, cell) + settings.block_bytes / settings.tuple_bytes / 2
        costs = settings.costs
        work = costs.tuple_ + costs.store(settings.tuple_bytes, settings.moves)
        works = work + costs.comparison * scanned + costs.match * matches
        self._add_to_window(chunk)
        numbers = np.full(len(time), chunk.number)
        self._master.append(Queued(time, group.copy(), works, matches, numbers))
        arrived = np.bincount(group, minlength=settings.groups)
        self.at_master += arrived
        self._tally.offer(np.bincount(group, weights=works, minlength=settings.groups))
        self._tally.arrived += len(time)
        return len(time)

    def _count_matches(self, chunk: Chunk, end: float) -> Ints:
        """Partners of each arrival: those in the window before, and those that came, less those that left."""
        leaving = self._leaving(end)
        window = self._settings.window
        key = np.concatenate([chunk.key, *(each.key[part] for each, part in leaving)])
        time = np.concatenate([chunk.time, *(each.time[part] + window for each, part in leaving)])
        side = np.concatenate([chunk.side, *(each.side[part] for each, part in leaving)])
        change = np.ones(len(key), np.int64)
        change[len(chunk.key) :] = -1
        order = np.argsort(time, kind="stable")  # arrivals stand before those that leave at the same time
        order = order[np.argsort(key[order], kind="stable")]
        own = order < len(chunk.key)
        sorted_side, sorted_change, sorted_key = side[order], change[order], key[order]
        first = np.flatnonzero(np.diff(sorted_key, prepend=-1))
        lengths = np.diff(first, append=len(order))
        matches = np.zeros(len(chunk.key), np.int64)
        for mine in (0, 1):
            other = np.cumsum(np.where(sorted_side == 1 - mine, sorted_change, 0))
            before = np.concatenate([[0], other[:-1]])
            since = before - np.repeat(before[first], lengths)
            wanted = own & (sorted_side == mine)
            there = self._in_window[1 - mine][sorted_key[wanted]]
            matches[order[wanted]] = there + since[wanted]
        for each, part in leaving:
            for mine in (0, 1):
                gone = part[each.side[part] == mine]
                np.subtract.at(self._in_window[mine], each.key[gone], 1)
                self._cells[mine] -= np.bincount(each.cell[gone], minlength=len(self._cells[mine]))
        return matches

    def _leaving(self, end: float) -> list[tuple[Chunk, Ints]]:
        """The tuples whose time in the window ends before ``end``; they count as gone from now on."""
        found = []
        for chunk in self._chunks:
            upto = int(np.searchsorted(chunk.time, end - self._settings.window, side="left"))
            if upto > chunk.left:
                part = np.arange(chunk.left, upto)
                found.append((chunk, part[chunk.group[part] >= 0]))
                chunk.left = upto
            if upto < len(chunk.time):
                break
        while self._chunks and self._chunks[0].left == len(self._chunks[0].time):
            self._expire(self._chunks.popleft().number)
        return found

    def _expire(self, number: int) -> None:
        gone = self._stored_of.pop(number, None)
        if gone is not None:
            self.stored -= gone
            self._tally.expired += int(gone.sum())

    def _add_to_window(self, chunk: Chunk) -> None:
        for side in (0, 1):
            mine = chunk.side == side
            np.add.at(self._in_window[side], chunk.key[mine], 1)
            self._cells[side] += np.bincount(chunk.cell[mine], minlength=len(self._cells[side]))
        self._chunks.append(chunk)
        self._stored_of[chunk.number] = np.zeros(self._settings.groups, np.int64)

    def _opposite_sizes(self, side: Ints, cell: Ints) -> Floats:
        sizes = np.stack([np.bincount(self._mini, each, self._minis) for each in self._cells])
        found: Floats = sizes[1 - side, self._mini[cell]].astype(np.float64)
        return found

    def tune(self) -> None:
        """Split and merge the mini-partition-groups of all groups whose sizes ask for it."""
        if not self._settings.tuned:
            return
        theta = self._settings.theta / self._settings.tuple_bytes
        both = self._cells.sum(axis=0)
        sizes = np.bincount(self._mini, both, self._minis)
        cells = np.bincount(self._mini, minlength=self._minis)
        ask = (sizes > 2 * theta) | ((sizes < theta) & (cells < CELLS))
        groups = np.unique(np.flatnonzero(ask[self._mini]) // CELLS)
        changed = False
        for group in groups:
            held = both[group * CELLS : (group + 1) * CELLS]

            def size(bucket: Bucket, held: Ints = held) -> float:
                return float(held[bucket.bits :: 1 << bucket.depth].sum())

            before = self._directories[group]
            self._directories[group] = tuned(before, size, theta, CELL_BITS)
            changed |= self._directories[group] is not before
        if changed:
            self._number_minis()

    def _number_minis(self) -> None:
        first = 0
        for group, directory in enumerate(self._directories):
            repeats = CELLS >> directory.depth
            self._mini[group * CELLS : (group + 1) * CELLS] = np.tile(directory.table, repeats) + first
            first += len(directory.buckets)
        self._minis = first

    # --- Queues ---

    def send(self, owners: Ints, ready: NDArray[np.bool_]) -> None:
        """Send what waits for some groups to their nodes."""
        rest: deque[Queued] = deque()
        parts: dict[int, list[Queued]] = {}
        for waiting in self._master:
            goes = ready[waiting.group]
            nodes = owners[waiting.group]
            for node in np.unique(nodes[goes]):
                parts.setdefault(int(node), []).append(waiting.take(goes & (nodes == node)))
            if not goes.all():
                rest.append(waiting.take(~goes))
        self._master = rest
        for node, pieces in parts.items():
            self._queues[node].extend(pieces)
        self.queued[ready] += self.at_master[ready]
        self.at_master[ready] = 0

    def process(self, nodes: Ints, starts: Floats, ends: Floats, speeds: Floats, owners: Ints) -> Floats:  # noqa: ARG002
        """Let nodes work from their starts to their ends; returns the seconds that each was busy."""
        busy = np.zeros(len(nodes))
        for at, node in enumerate(nodes):
            if ends[at] > starts[at] and self._queues[node]:
                busy[at] = self._work(int(node), starts[at], ends[at] - starts[at], speeds[at])
        return busy

    def _work(self, node: int, start: float, seconds: float, speed: float) -> float:
        queue, budget, spent = self._queues[node], seconds * speed, 0.0
        while queue:
            first = queue[0]
            ends = np.cumsum(first.work) - self._begun[node]
            done = int(np.searchsorted(ends, budget - spent, side="right"))
            if done:
                self._finish(first.take(slice(done)), start + (spent + ends[:done]) / speed)
                spent += float(ends[done - 1])
                self._begun[node] = 0.0
            if done < len(first.time):
                self._begun[node] += budget - spent
                queue[0] = first.take(slice(done, None))
                return seconds
            queue.popleft()
        return spent / speed

    def _finish(self, tuples: Queued, finished: Floats) -> None:
        self._tally.produce(finished, tuples.time, tuples.matches)
        counts = np.bincount(tuples.group, minlength=self._settings.groups)
        self.queued -= counts
        edges = np.flatnonzero(np.diff(tuples.chunk)) + 1
        for part in np.split(np.arange(len(tuples.chunk)), edges):
            groups = np.bincount(tuples.group[part], minlength=self._settings.groups)
            stored = self._stored_of.get(int(tuples.chunk[part[0]]))
            if stored is None:  # its time in the window was over before it was processed
                self._tally.expired += len(part)
            else:
                stored += groups
                self.stored += groups

    # --- Moves and failures ---

    def _extract(self, node: int, groups: NDArray[np.bool_]) -> list[Queued]:
        """Take the tuples of these groups out of a node's queue."""
        queue = self._queues[node]
        if queue and groups[queue[0].group[0]]:
            self._begun[node] = 0.0
        found = [each.take(groups[each.group]) for each in queue]
        rest = [each.take(~groups[each.group]) for each in queue]
        self._queues[node] = deque(each for each in rest if len(each.time))
        return [each for each in found if len(each.time)]

    def move(self, group: int, source: int, target: int) -> None:
        """The tuples of a group that wait at one node now wait at another one."""
        self._queues[target].extend(self._extract(source, self._only([group])))

    def _only(self, groups: list[int]) -> NDArray[np.bool_]:
        wanted = np.zeros(self._settings.groups, np.bool_)
        wanted[groups] = True
        return wanted

    def give_back(self, groups: list[int], node: int) -> None:
        """What a failed node had received and not processed waits at the master again."""
        found = self._extract(node, self._only(groups))
        self._master.extendleft(reversed(found))
        self.at_master[groups] += self.queued[groups]
        self.queued[groups] = 0

    def lose(self, groups: list[int], node: int, sent_until: float) -> None:
        """The windows and the queue of a failed node are gone; what waits at the master is not."""
        self._extract(node, self._only(groups))
        self._tally.lost += int(self.queued[groups].sum() + self.stored[groups].sum())
        self.queued[groups] = 0
        self.stored[groups] = 0
        for stored in self._stored_of.values():
            stored[groups] = 0
        gone_groups = self._only(groups)
        for chunk in self._chunks:
            part = np.flatnonzero((chunk.group >= 0) & gone_groups[chunk.group] & (chunk.time < sent_until))
            part = part[part >= chunk.left]
            for side in (0, 1):
                mine = part[chunk.side[part] == side]
                np.subtract.at(self._in_window[side], chunk.key[mine], 1)
                self._cells[side] -= np.bincount(chunk.cell[mine], minlength=len(self._cells[side]))
            chunk.group[part] = -1
