"""A meter: how long the pushes of a join took, and its last figures, for readers in any thread.

Latencies go into a histogram with 16 buckets for each power of two, so that a quantile is off by 6 % at most.
The thread of the join adds to it and now and then publishes a :class:`Sample` of its figures. Other threads
read both while a push runs: they copy what was published, and neither wait nor call the join.
Cost: 0.3 us a push, and a sample every ``EVERY`` nanoseconds.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from slidejoin.indexed import Plan
from slidejoin.stats import COUNTERS, JoinStats

EVERY = 10**8  # nanoseconds between two samples that a join publishes by itself
SPAN = 10 * 10**9  # nanoseconds that recent figures are of
_KEPT_EVERY = 10**9  # nanoseconds between two moments that recent figures can begin at
_FINEST = 1023  # nanoseconds that are one bucket
_BUCKETS = 64 * 16


@dataclass(frozen=True)
class Sample:
    """The figures of a join at one moment."""

    at: int  # by the monotonic clock, in nanoseconds
    stats: JoinStats
    index: tuple[str, str, int] | None = None  # name, reason, number of changes
    plan: Plan | None = None  # what is indexed
    strategy: str = ""  # by which workers share a batch
    workers: int = 1
    ended: str = ""  # why it takes no more rows
    sources: tuple[tuple[str, str], ...] = ()  # lines of the explanation

    @property
    def rows(self) -> int:
        """Rows of both sides so far."""
        return self.stats["rows_left"] + self.stats["rows_right"]


class Latencies(NamedTuple):
    """How often pushes took how long.

    Examples
    --------
    >>> meter = Meter()
    >>> for microseconds in range(1, 101):
    ...     meter.record(1000 * microseconds)
    >>> latencies = meter.latencies()
    >>> latencies.pushes, latencies.seconds
    (100, 0.00505)
    >>> [round(latencies.quantile(q) * 1e6) for q in (0.5, 0.99, 1)]
    [50, 100, 102]
    """

    buckets: Sequence[int]
    nanoseconds: int  # of all together

    @property
    def pushes(self) -> int:
        """How many."""
        return sum(self.buckets)

    @property
    def seconds(self) -> float:
        """The time of all together."""
        return self.nanoseconds / 1e9

    def quantile(self, share: float) -> float:
        """The seconds that so large a share of pushes took at most; NaN if there are none."""
        rest = share * self.pushes
        for bucket, count in enumerate(self.buckets):
            if count and rest <= count:
                low, high = _bounds(bucket)
                return (low + (high - low) * max(rest, 0.0) / count) / 1e9
            rest -= count
        return float("nan")

    def up_to(self, nanoseconds: int) -> int:
        """How many pushes took so long at most; exact for powers of two from 1024 on."""
        return sum(self.buckets[: _bucket(nanoseconds) + 1])

    def since(self, earlier: "Latencies") -> "Latencies":
        """Those that came after an earlier moment."""
        differences = [now - then for now, then in zip(self.buckets, earlier.buckets, strict=True)]
        return Latencies(differences, self.nanoseconds - earlier.nanoseconds)


class Moment(NamedTuple):
    """What recent figures are counted from."""

    at: int
    rows: int
    latencies: Latencies


class Meter:
    """Latencies and last figures of one join."""

    def __init__(self) -> None:
        self._counts = [0] * (_BUCKETS + 1)  # the last one: nanoseconds
        self._moments: deque[Moment] = deque(maxlen=2 * SPAN // _KEPT_EVERY)
        self.published = Sample(0, _NOTHING.copy())
        self.next_sample = 0  # by the clock

    def record(self, nanoseconds: int) -> None:
        """Count a push. Cost: 0.3 us."""
        self._counts[_bucket(nanoseconds)] += 1
        self._counts[_BUCKETS] += nanoseconds

    def publish(self, sample: Sample) -> Sample:
        """Let other threads see a sample, and return the newest one: figures never go back."""
        if sample.at >= self.published.at:  # no call between the look and the change: threads do not mix
            self.published = sample
        newest = self.published
        if not self._moments or sample.at - self._moments[-1].at >= _KEPT_EVERY:
            self._moments.append(Moment(newest.at, newest.rows, self.latencies()))
        return newest

    def latencies(self) -> Latencies:
        """All pushes so far. Cost: some microseconds."""
        counts = self._counts.copy()
        return Latencies(counts[:_BUCKETS], counts[_BUCKETS])

    def base(self, now: int) -> Moment:
        """The moment that recent figures begin at: the last one that is ``SPAN`` ago, or the first one."""
        moments = list(self._moments)
        older = [moment for moment in moments if moment.at <= now - SPAN]
        return older[-1] if older else moments[0]


def clock() -> int:
    """The clock of samples, in nanoseconds."""
    return time.monotonic_ns()


def _bucket(nanoseconds: int) -> int:
    number = nanoseconds - 1 if nanoseconds > _FINEST else _FINEST
    width = number.bit_length()
    return (width << 4) + (number >> width - 5 & 15)


def _bounds(bucket: int) -> tuple[int, int]:
    """A bucket holds the latencies above the first of these numbers, up to the second one."""
    width, part = bucket >> 4, bucket & 15
    low = 16 + part << width - 5
    return (low if low >= _FINEST else 0), low + (1 << width - 5)


_NOTHING = cast("JoinStats", {**dict.fromkeys(COUNTERS, 0), "watermark": None, "memory_bytes": 0})
