"""Sampling: the figures of a join that is under way, taken by its own thread or read by any other one.

A join is used by one thread at a time, but whoever watches it must neither wait for a push nor disturb it.
Between two calls a reader looks at the join itself. During a call it gets the last sample that was published.
"""

from contextlib import suppress
from typing import NamedTuple

from slidejoin.explain import Explanation, explain
from slidejoin.live import LiveJoin
from slidejoin.meter import EVERY, Latencies, Sample, clock
from slidejoin.physical_streams import PhysicalStreams
from slidejoin.spec import JoinSpec
from slidejoin.stats import JoinStats


class Reading(NamedTuple):
    """What a reader knows about a join: its figures, and how long its pushes took."""

    spec: JoinSpec
    at: int  # by the monotonic clock, in nanoseconds
    sample: Sample
    latencies: Latencies
    recent: Latencies  # of the last ten seconds
    rows_per_second: float  # of the last ten seconds

    def explanation(self) -> Explanation:
        """What :meth:`slidejoin.WindowJoin.explain` says; after the end, the index that was used, too."""
        sample = self.sample
        shared = (sample.workers, sample.strategy)
        known = explain(
            self.spec, sample.plan, sample.stats, sample.index, sources=sample.sources, shared=shared
        )
        if sample.ended:
            known.lines.insert(1, ("ended", sample.ended))
        return known


def take(live: LiveJoin, sources: PhysicalStreams | None = None) -> None:
    """Publish the figures. Only the thread of the join may call it. Cost: 5 us."""
    now = clock()
    live.meter.next_sample = now + EVERY
    with suppress(MemoryError):  # the rows were joined: figures can wait
        live.meter.publish(_sample(live, sources, None, now))


def read(live: LiveJoin, sources: PhysicalStreams | None = None, final: JoinStats | None = None) -> Reading:
    """The figures of a join, in any thread, at any time.

    Parameters
    ----------
    final : JoinStats, optional
        The counters of a join that was closed.

    Notes
    -----
    Cost: below a millisecond. Waits for nothing.
    """
    meter, now = live.meter, clock()
    sample = meter.published
    if live.step is None:
        try:
            sample = _sample(live, sources, final, now)
        except RuntimeError:  # a call has begun meanwhile: the core says so, or a dict has changed
            sample = meter.published
    sample = meter.publish(sample)
    latencies = meter.latencies()
    base = meter.base(now)
    seconds = max(now - base.at, 1) / 1e9
    return Reading(
        live.spec,
        now,
        sample,
        latencies,
        latencies.since(base.latencies),
        (sample.rows - base.rows) / seconds if now > base.at else 0.0,
    )


def _sample(live: LiveJoin, sources: PhysicalStreams | None, final: JoinStats | None, now: int) -> Sample:
    """The figures now; a time that was read before them."""
    engine, before = live.engine, live.meter.published
    stats = live.stats() if final is None else final
    if sources is not None:
        stats["memory_bytes"] += sources.order.nbytes
    return Sample(
        now,
        stats,
        engine.native.index() if engine is not None else before.index,
        engine.plan if engine is not None else before.plan,
        engine.native.strategy() if engine is not None else "",
        live.crew.workers,
        live.ended,
        tuple(sources.describe()) if sources is not None else (),
    )
