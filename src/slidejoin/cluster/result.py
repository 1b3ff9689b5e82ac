"""What a simulation found: delays, loads, communication, what was moved, and whether it kept up."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slidejoin.cluster.load import Floats
from slidejoin.cluster.settings import Settings


@dataclass(frozen=True)
class SimulationResult:
    """The outcome of a run. Seconds and shares are of the time after the warm-up.

    Attributes
    ----------
    delay, most_delay : float
        Mean and greatest production delay: from the arrival of the later tuple to the result. NaN without
        results.
    outputs : float
        Results.
    cpu, communication, moving, idle : array
        Seconds of each node: at work, blocked by messages and waiting for them, blocked by moves, none of it
        while it took part. ``present`` is their sum.
    window_bytes : float
        The largest window state of a node.
    master_busy, master_wire : float
        The share of its time in which the master sends or receives, and of that which the network takes.
    group_load : float
        Work of the heaviest partition-group, as a share of what the fastest node can do.
    peak_buffer : float
        The most tuples of one stream that waited at the master.
    moves, moved_tuples : float
        Partition-groups that changed their node, and the tuples in them.
    tuples : dict
        Where all tuples are at the end: arrived = master + queued + stored + expired + lost.
    overloaded : list of int
        Nodes whose queues still grow at the end.
    saturated : str or None
        What cannot keep up: ``master``, ``network``, ``one group`` or ``nodes``; delays grow without bound.
    timeline : dict of arrays
        By distribution epoch: ``time``, ``delay``, ``outputs`` a second, ``queued``, ``at_master``,
        ``active``, ``moves``.
    """

    settings: Settings
    delay: float
    most_delay: float
    outputs: float
    cpu: Floats
    communication: Floats
    moving: Floats
    idle: Floats
    window_bytes: float
    master_busy: float
    master_wire: float
    group_load: float
    peak_buffer: float
    moves: int
    moved_tuples: float
    tuples: dict[str, float]
    overloaded: list[int]
    saturated: str | None
    timeline: dict[str, Floats] = field(repr=False)

    @property
    def present(self) -> Floats:
        """Seconds that each node took part."""
        return self.cpu + self.communication + self.moving + self.idle

    @property
    def mean_active(self) -> float:
        """Nodes that took part, on average."""
        measured = self.timeline["active"][self.timeline["time"] >= self.settings.warmup]
        return float(measured.mean()) if len(measured) else float(self.settings.nodes)

    def lost_tuples(self) -> float:
        """Arrived tuples that are nowhere: 0, or the simulator is wrong."""
        places = sum(self.tuples[name] for name in ("master", "queued", "stored", "expired", "lost"))
        return self.tuples["arrived"] - places

    def to_json(self) -> dict[str, Any]:
        """All figures as plain data, without the timeline."""
        found: dict[str, Any] = {"settings": asdict(self.settings)}
        for name in self.__dataclass_fields__:
            if name not in ("settings", "timeline"):
                value = getattr(self, name)
                found[name] = _plain(value.tolist() if isinstance(value, np.ndarray) else value)
        found["mean_active"] = self.mean_active
        return found


def _plain(value: Any) -> Any:
    """JSON knows no NaN."""
    return None if isinstance(value, float) and np.isnan(value) else value
