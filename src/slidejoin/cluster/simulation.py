"""The simulator: master, nodes, epochs, messages, moves and failures as a loop of discrete events.

Within every distribution epoch each sub-group of nodes has a slot. At its slot a node has worked on its queue
since its last one; then it is blocked while the master serves the nodes of the slot one after the other. At
the end of a reorganisation epoch the policy decides (:func:`~slidejoin.cluster.reorganise.reorganised`) and
groups move, which blocks both nodes, or only the new one where the state is in shared files; tuples of a
group wait at the master until its move has ended. Tuples are simulated one by one (``tuple_load``) or as
numbers (``count_load``). The same settings give the same run, to the last bit.
"""

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.cluster.count_load import CountLoad
from slidejoin.cluster.load import Floats, Ints, Move, average_occupancy
from slidejoin.cluster.ownership import dealt, drained, moved, owned
from slidejoin.cluster.reorganise import reorganised
from slidejoin.cluster.result import SimulationResult
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.tally import Tally
from slidejoin.cluster.tuple_load import TupleLoad

Progress = Callable[[float], None]

# Kinds of events, in the order in which they happen at the same time.
EPOCH, BACKGROUND, FAILURE, ARRIVAL, RELEASE, REORGANISE, WARM, SLOT = range(8)


def simulate(settings: Settings, progress: Progress | None = None) -> SimulationResult:
    """Run a cluster.

    Parameters
    ----------
    settings : Settings
        The cluster, its streams and the seed.
    progress : function, optional
        Called with the share of the simulated time that is done.

    Notes
    -----
    Cost: 1-2 µs a tuple where each is simulated, else O(groups) for each slot and distribution epoch.

    Examples
    --------
    >>> result = simulate(Settings(rate=50, nodes=2, seconds=60, warmup=20, window=30, keys=1000))
    >>> result.saturated is None, 1 < result.delay < 2, result.lost_tuples()
    (True, True, 0)
    """
    return Simulation(settings).run(progress)


class Simulation:
    """One run: the state between two events."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        seeds = np.random.default_rng(settings.seed).spawn(2)
        self._random = seeds[0]
        self._tally = Tally(settings.groups, settings.warmup)
        make = TupleLoad if settings.simulates_tuples else CountLoad
        self._load: TupleLoad | CountLoad = make(settings, seeds[1], self._tally)
        count = settings.nodes
        late = {node for _, node in settings.arrivals}
        self._available = [node for node in range(count) if node not in late]
        self._active = self._available[: settings.first_nodes or count]
        self._owners: Ints = dealt(settings.groups, self._active)
        self._held = np.zeros(settings.groups, np.bool_)
        self._speeds = np.resize(np.asarray(settings.speeds, dtype=np.float64), count)
        self._background = np.zeros(count)
        self._policy = settings.policy()
        self._free = np.zeros(count)  # from when on a node can work
        self._sent_until = np.zeros(count)
        self._sent = np.zeros(count)
        self._cpu, self._communication, self._moving, self._present = (np.zeros(count) for _ in range(4))
        self._seen = np.zeros(count)  # until when a node's presence is counted
        self._now = 0.0
        self._generated = 0.0
        self._unread = 0  # arrivals that the master has not been charged for
        self._master_free = 0.0
        self._master_busy = self._master_wire = 0.0
        self._samples: list[tuple[Floats, Floats]] = []
        self._sample = np.zeros(count), np.zeros(settings.groups)
        self._moves = 0
        self._moved_tuples = 0.0
        self._peak_buffer = 0.0
        self._window_bytes = 0.0
        self._timeline: list[tuple[float, ...]] = []
        self._middle_queues: Floats | None = None
        self._events: list[tuple[float, int, int, Any]] = []
        self._counter = 0

    # --- The loop ---

    def run(self, progress: Progress | None = None) -> SimulationResult:
        """All events until the end."""
        settings = self._settings
        self._schedule()
        handlers: dict[int, Callable[[Any], None]] = {
            BACKGROUND: self._change_background, FAILURE: self._fail, ARRIVAL: self._join,
            RELEASE: self._release, REORGANISE: self._reorganise, WARM: self._warm,
            EPOCH: self._end_epoch, SLOT: self._slot,
        }  # fmt: skip
        while self._events:
            time, kind, _, what = heapq.heappop(self._events)
            if time > settings.seconds:
                break
            self._now = time
            handlers[kind](what)
            if progress is not None and kind == EPOCH:
                progress(time / settings.seconds)
        self._now = settings.seconds
        self._catch_up(np.arange(settings.nodes))
        return self._result()

    def _push(self, time: float, kind: int, what: Any = None) -> None:
        self._counter += 1
        heapq.heappush(self._events, (time, kind, self._counter, what))

    def _schedule(self) -> None:
        settings = self._settings
        step = settings.distribution_epoch / settings.slots
        for slot in range(settings.slots):
            self._push((slot + 1) * step, SLOT, (slot, (slot + 1) * step))
        self._push(settings.distribution_epoch, EPOCH, 1)
        self._push(settings.reorganisation_epoch, REORGANISE, 1)
        self._push(settings.warmup, WARM)
        for at, node, share in settings.background:
            self._push(at, BACKGROUND, (node, share))
        for at, node in settings.failures:
            self._push(at, FAILURE, node)
        for at, node in settings.arrivals:
            self._push(at, ARRIVAL, node)

    # --- Work and messages ---

    def _catch_up(self, nodes: Ints, until: Floats | None = None) -> None:
        """Let nodes work on their queues until now, or until a time each."""
        ends = np.minimum(self._now if until is None else until, self._settings.seconds)
        ends = np.broadcast_to(ends, nodes.shape)
        starts = self._free[nodes]
        speeds = self._speeds[nodes] * (1 - self._background[nodes])
        self._cpu[nodes] += self._load.process(nodes, starts, ends, speeds, self._owners)
        self._free[nodes] = np.maximum(starts, ends)
        gone = np.maximum(ends - self._seen[nodes], 0)
        takes_part = np.zeros(self._settings.nodes, np.bool_)
        takes_part[self._active] = True
        self._present[nodes] += gone * takes_part[nodes]
        self._seen[nodes] = np.maximum(self._seen[nodes], ends)

    def _generate(self) -> None:
        """Arrivals up to now; those of a step are cut at the ends of distribution epochs."""
        if self._now > self._generated:
            self._unread += self._load.arrive(self._generated, self._now)
            self._generated = self._now
        waiting = float(self._load.at_master.sum()) / 2
        if self._now > self._settings.distribution_epoch:
            self._peak_buffer = max(self._peak_buffer, waiting)

    def _slot(self, what: tuple[int, float]) -> None:
        slot, planned = what
        settings, costs = self._settings, self._settings.costs
        if self._master_free > self._now:  # it still serves the slot before
            self._push(self._master_free, SLOT, what)
            return
        self._push(max(planned + settings.distribution_epoch, self._now), SLOT,
                   (slot, planned + settings.distribution_epoch))  # fmt: skip
        self._generate()
        nodes = np.array(self._active[slot :: settings.slots], dtype=np.int64)
        if not len(nodes):
            return
        receives = np.zeros(settings.nodes, np.bool_)
        receives[nodes] = True
        ready = receives[self._owners] & ~self._held
        sent = np.bincount(self._owners[ready], self._load.at_master[ready], settings.nodes)[nodes]
        per_tuple = costs.transfer(settings.tuple_bytes)
        serving = costs.message + sent * per_tuple / settings.masters
        turns = self._now + np.cumsum(serving) - serving
        stops = turns if settings.fixed_order else np.full(len(nodes), self._now)
        self._catch_up(nodes, stops)  # they stop working and wait for their turns
        self._note_buffers(nodes, self._load.queued)
        self._load.send(self._owners, ready)
        begins = np.maximum(stops, self._free[nodes])
        receiving = settings.masters * costs.message + sent * per_tuple
        done = np.maximum(turns, begins) + np.maximum(serving, receiving)
        end = settings.seconds  # what is after the end does not count
        self._communication[nodes] += np.minimum(done, end) - np.minimum(begins, end)
        self._free[nodes] = done
        self._sent[nodes] += sent
        self._sent_until[nodes] = self._now
        reading = self._unread * costs.ingest / settings.masters
        self._unread = 0
        wire = float(sent.sum()) * settings.tuple_bytes / costs.bandwidth / settings.masters
        self._charge_master(float(serving.sum()) + reading, wire)

    def _charge_master(self, seconds: float, wire: float) -> None:
        """The master is busy from now on; what is before the warm-up or after the end does not count."""
        self._master_free = self._now + seconds
        first, last = max(self._now, self._settings.warmup), min(self._master_free, self._settings.seconds)
        counted = max(last - first, 0.0)
        self._master_busy += counted
        self._master_wire += wire * counted / seconds if seconds else 0.0

    def _note_buffers(self, nodes: Ints, groups: NDArray[Any]) -> None:
        """What was left of the last epoch's tuples when the next ones came: the load."""
        sizes = np.bincount(self._owners, groups, self._settings.nodes)
        self._sample[0][nodes] = sizes[nodes]
        mine = np.zeros(self._settings.nodes, np.bool_)
        mine[nodes] = True
        chosen = mine[self._owners]
        self._sample[1][chosen] = groups[chosen]

    def _end_epoch(self, number: int) -> None:
        settings = self._settings
        self._push((number + 1) * settings.distribution_epoch, EPOCH, number + 1)
        self._generate()
        self._load.tune()
        self._samples.append(self._sample)
        self._sample = np.zeros(settings.nodes), np.zeros(settings.groups)
        if self._now >= settings.warmup:
            state = np.bincount(self._owners, self._load.stored, settings.nodes).max()
            self._window_bytes = max(self._window_bytes, float(state) * settings.tuple_bytes)
        queued, waiting = float(self._load.queued.sum()), float(self._load.at_master.sum())
        delay, outputs = self._tally.take_recent()
        rate = outputs / settings.distribution_epoch
        self._timeline.append((self._now, delay, rate, queued, waiting, len(self._active), self._moves))
        if self._middle_queues is None and self._now >= (settings.warmup + settings.seconds) / 2:
            self._middle_queues = self._queues()

    def _queues(self) -> Floats:
        return np.bincount(self._owners, self._load.queued, self._settings.nodes).astype(np.float64)

    def _warm(self, _: None) -> None:
        """Figures count from now on."""
        self._catch_up(np.arange(self._settings.nodes))
        for each in (self._cpu, self._communication, self._moving, self._present, self._sent):
            each[:] = 0
        # What is under way belongs to both times; its rest is counted from now on.
        self._communication += np.maximum(self._free - self._now, 0)
        self._tally.counts_offers = True

    # --- Reorganisation ---

    def _reorganise(self, number: int) -> None:
        settings = self._settings
        self._push((number + 1) * settings.reorganisation_epoch, REORGANISE, number + 1)
        if not self._samples:
            return
        loads, parts = (
            average_occupancy([each[which] for each in self._samples], settings.buffer_tuples)
            for which in (0, 1)
        )
        self._samples = []
        if self._held.any():  # moves of the last epoch are still under way
            return
        decision = reorganised(
            self._policy, self._owners, loads, parts, self._active, self._available, self._random
        )
        self._policy = type(self._policy)(
            self._policy.supplier_threshold, self._policy.consumer_threshold, self._policy.choice,
            self._policy.adaptive, decision.declustering,
        )  # fmt: skip
        involved = {node for move in decision.moves for node in (move.source, move.target)}
        joining = set(decision.active) - set(self._active)
        self._catch_up(np.array(sorted(involved | joining | set(self._active)), dtype=np.int64))
        self._active = decision.active
        for move in decision.moves:
            self._move(move)

    def _move(self, move: Move, reads_only: bool = False) -> None:
        """A group changes its node; its new tuples wait at the master until the state is there."""
        settings = self._settings
        tuples = float(self._load.stored[move.group])
        if not reads_only:
            tuples += float(self._load.queued[move.group])
            self._load.move(move.group, move.source, move.target)
        sends, receives = settings.costs.move(tuples, settings.tuple_bytes, settings.moves)
        start = max(self._now, self._free[move.target], 0.0 if reads_only else self._free[move.source])
        if sends and not reads_only:
            self._block(move.source, start + sends)
        self._block(move.target, start + receives)
        self._owners = moved(self._owners, [move])
        self._held[move.group] = True
        self._push(start + max(sends, receives), RELEASE, move.group)
        self._moves += 1
        self._moved_tuples += tuples

    def _block(self, node: int, until: float) -> None:
        first, last = max(self._free[node], self._now), min(until, self._settings.seconds)
        self._moving[node] += max(last - first, 0.0)
        self._free[node] = until

    def _release(self, group: int) -> None:
        self._held[group] = False

    # --- What happens to nodes ---

    def _change_background(self, what: tuple[int, float]) -> None:
        node, share = what
        self._catch_up(np.array([node]))
        self._background[node] = share

    def _fail(self, node: int) -> None:
        """A node is gone. Without shared files its windows and its queue are lost."""
        if node not in self._available:
            return
        self._generate()
        self._catch_up(np.arange(self._settings.nodes))
        self._available = [each for each in self._available if each != node]
        self._active = [each for each in self._active if each != node] or self._available[:1]
        groups = owned(self._owners, node)
        if not groups:
            return
        if self._settings.moves == "files":
            self._load.give_back(groups, node)
        else:
            self._load.lose(groups, node, self._sent_until[node])
        loads = self._queues() / self._settings.buffer_tuples
        parts = self._load.queued / self._settings.buffer_tuples
        for move in drained(self._owners, node, self._active, loads, parts):
            if self._settings.moves == "files":
                self._move(move, reads_only=True)
            else:
                self._owners = moved(self._owners, [move])
                self._held[move.group] = False

    def _join(self, node: int) -> None:
        """A node arrives. It takes part at once, unless the degree of declustering is adaptive."""
        self._catch_up(np.arange(self._settings.nodes))
        self._available = sorted([*self._available, node])
        self._free[node] = max(self._free[node], self._now)
        if not self._settings.adaptive:
            self._active = sorted([*self._active, node])

    # --- The outcome ---

    def _result(self) -> SimulationResult:
        settings, tally = self._settings, self._tally
        self._generate()
        measured = settings.seconds - settings.warmup
        tuples = {
            "arrived": tally.arrived, "master": self._load.at_master.sum().item(),
            "queued": self._load.queued.sum().item(), "stored": self._load.stored.sum().item(),
            "expired": tally.expired, "lost": tally.lost,
        }  # fmt: skip
        names = ("time", "delay", "outputs", "queued", "at_master", "active", "moves")
        columns = np.array(self._timeline).reshape(-1, len(names)).T
        busy = self._cpu + self._communication + self._moving
        speeds = self._speeds * (1 - self._background)
        group_load = float(tally.offered.max(initial=0)) / measured / float(speeds.max())
        overloaded, master_late = self._overload()
        return SimulationResult(
            settings=settings,
            delay=float(tally.delay_sum / tally.outputs) if tally.outputs else float("nan"),
            most_delay=tally.most_delay,
            outputs=float(tally.outputs),
            cpu=self._cpu,
            communication=self._communication,
            moving=self._moving,
            idle=np.maximum(self._present - busy, 0.0),
            window_bytes=self._window_bytes,
            master_busy=self._master_busy / measured,
            master_wire=self._master_wire / measured,
            group_load=group_load,
            peak_buffer=self._peak_buffer,
            moves=self._moves,
            moved_tuples=self._moved_tuples,
            tuples=tuples,
            overloaded=overloaded,
            saturated=self._saturated(overloaded, master_late, group_load),
            timeline=dict(zip(names, columns, strict=True)),
        )

    def _overload(self) -> tuple[list[int], bool]:
        """Nodes whose queues hold more than two epochs' tuples and still grow; whether the master is late."""
        settings = self._settings
        epochs = max((settings.seconds - settings.warmup) / settings.distribution_epoch, 1)
        queues = self._queues()
        middle = queues if self._middle_queues is None else self._middle_queues
        grows = (queues > 2 * self._sent / epochs + 1) & (queues > 1.1 * middle)
        late = self._now - self._settings.distribution_epoch
        expected = 2 * settings.rate_at(late) * settings.distribution_epoch
        return np.flatnonzero(grows).tolist(), float(self._load.at_master.sum()) > 2 * expected + 100

    def _saturated(self, overloaded: list[int], master_late: bool, group_load: float) -> str | None:
        if not overloaded and not master_late:
            return None
        measured = self._settings.seconds - self._settings.warmup
        if self._master_busy > 0.95 * measured:
            return "network" if self._master_wire > 0.5 * self._master_busy else "master"
        return "one group" if group_load > 1 else "nodes"
