"""When the tuples of physical streams arrive, and when they are ready.

A physical stream delivers tuples at its rate, which may change every second, and keeps its phase when the
rate changes; offsets keep the streams apart. All times are seconds of the schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Tuples: TypeAlias = NDArray[np.void]

# A tuple of the file that benchmarks/peers/model_peer.cpp reads.
TUPLE = np.dtype(
    {
        "names": ["arrival", "ready", "c", "x", "y", "side", "d"],
        "formats": ["f8", "f8", "f8", "i4", "f4", "u1", "u1"],
        "offsets": [0, 8, 16, 24, 28, 32, 33],
        "itemsize": 40,
    }
)
VALUES = (1, 200)  # of the attributes that are compared


@dataclass(frozen=True)
class Sources:
    """The physical streams of both sides: how many each has, and their offsets, left ones first."""

    left: int = 1
    right: int = 1
    offsets: Sequence[float] = (0.0, 0.0013)

    def __post_init__(self) -> None:
        if len(self.offsets) != self.left + self.right:
            raise ValueError(
                f"{len(self.offsets)} offsets of {self.left + self.right} streams; expected one each"
            )

    def arrivals(self, left: Floats, right: Floats) -> list[Floats]:
        """When the tuples of each stream arrive; streams share the rates of their side evenly."""
        shares = [left / self.left] * self.left + [right / self.right] * self.right
        return [paced(share) + offset for share, offset in zip(shares, self.offsets, strict=True)]


def paced(rates: Floats) -> Floats:
    """When a source delivers whose rate changes every second: tuple k as soon as the rates sum up to k."""
    total = np.concatenate([[0.0], np.cumsum(rates)])
    return np.interp(np.arange(np.ceil(total[-1] - 1e-6)), total, np.arange(len(total)))


def ready_times(streams: Sequence[Floats]) -> list[Floats]:
    """When the tuples of each stream are ready, given their arrivals; infinite where that is never.

    A tuple of stream j is ready once each stream before j has delivered a later timestamp, and each stream
    behind j one that is not earlier: Definition 3.3 with a rule for ties. O(n log n) for a pair of streams.

    Examples
    --------
    >>> [times.tolist() for times in ready_times([np.array([0.0, 1.0]), np.array([0.0, 0.5, 3.0])])]
    [[0.0, 3.0], [1.0, 1.0, inf]]
    """
    ready = [arrivals.copy() for arrivals in streams]
    for j, arrivals in enumerate(streams):
        for x, other in enumerate(streams):
            if x != j:
                following = np.searchsorted(other, arrivals, side="right" if x < j else "left")
                np.maximum(ready[j], np.append(other, np.inf)[following], out=ready[j])
    return ready


def schedule(sources: Sources, left: Floats, right: Floats, deterministic: bool) -> Tuples:
    """All tuples in the order in which they are processed; those that are never ready are left out."""
    streams = sources.arrivals(left, right)
    ready = ready_times(streams) if deterministic else streams
    sides = [side for side, count in ((0, sources.left), (1, sources.right)) for _ in range(count)]
    tuples: Tuples = np.zeros(sum(map(len, streams)), TUPLE)
    tuples["arrival"] = np.concatenate(streams)
    tuples["ready"] = np.concatenate(ready)
    tuples["side"] = np.repeat(sides, [len(times) for times in streams])
    # Stable: equal timestamps stand in the order of their streams.
    tuples = tuples[np.argsort(tuples["arrival"], kind="stable")]
    tuples = tuples[np.isfinite(tuples["ready"])]
    attributes(tuples)
    return tuples


def attributes(tuples: Tuples, seed: int = 1) -> None:
    """Draw the attributes of tuples, those that are compared evenly from 1 to 200."""
    random = np.random.default_rng(seed)
    tuples["x"] = random.integers(*VALUES, len(tuples), endpoint=True)
    tuples["y"] = random.uniform(*VALUES, len(tuples))
    tuples["c"] = random.random(len(tuples))
    tuples["d"] = random.integers(0, 1, len(tuples), endpoint=True)
