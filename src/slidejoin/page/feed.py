"""What the live page shows of a join: the points of its plots, and a description with the totals.

Every engine has a feed of its own; all of them give the page the same fields, None for what is not known.
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from slidejoin.metrics import metrics_text, unix_seconds
from slidejoin.sampling import Reading
from slidejoin.window import Rows

IDLE_SECONDS = 5.0  # without a push, until the page says that the join waits for rows


class Point(NamedTuple):
    """One moment of the plots: rates a second and latencies in seconds, of the time since the last point."""

    time: float  # Unix time
    rows_left: float | None
    rows_right: float | None
    matches: float | None
    late: float | None
    match_rate: float | None  # matches per row
    stored_left: int | None
    stored_right: int | None
    memory: int | None  # bytes; on Spark those that were written
    p50: float | None
    p90: float | None
    p99: float | None
    longest: float | None


class Feed(Protocol):
    """What the page is made of."""

    def points(self) -> list[Point]:
        """The points that are new since the last call."""

    def describe(self) -> dict[str, Any]:
        """What is joined, how, how it stands, and the totals: plain values for JSON."""

    def metrics(self, format_: str) -> str:
        """The figures as text for Prometheus."""


class JoinFeed:
    """The feed of a join in this process.

    Parameters
    ----------
    read : callable
        The figures of the join, from any thread.
    """

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read
        self._last = read()
        self._busy_at = self._last.at  # when a push was last under way
        self._is_over = False

    def points(self) -> list[Point]:
        """A point, if there are new figures: there are none while a push runs, nor after the end."""
        now, before = self._read(), self._last
        seconds = (now.sample.at - before.sample.at) / 1e9
        if self._is_over or seconds <= 0:
            return []
        self._last, self._is_over = now, bool(now.sample.ended)
        if now.latencies.pushes != before.latencies.pushes or now.sample.at != now.at:
            self._busy_at = now.at
        stats, old = now.sample.stats, before.sample.stats
        left, right = stats["rows_left"] - old["rows_left"], stats["rows_right"] - old["rows_right"]
        matches = stats["matches"] - old["matches"]
        late = stats["late_left"] + stats["late_right"] - old["late_left"] - old["late_right"]
        latencies = now.latencies.since(before.latencies)
        p50, p90, p99, longest = (_known(latencies.quantile(share)) for share in (0.5, 0.9, 0.99, 1.0))
        return [
            Point(
                time.time() - (now.at - now.sample.at) / 1e9,
                left / seconds,
                None if now.spec.self_join else right / seconds,
                matches / seconds,
                late / seconds,
                matches / (left + right) if left + right else None,
                stats["stored_left"],
                None if now.spec.self_join else stats["stored_right"],
                stats["memory_bytes"],
                p50,
                p90,
                p99,
                longest,
            )
        ]

    def describe(self) -> dict[str, Any]:
        """As the page wants it."""
        now = self._read()
        sample, spec = now.sample, now.spec
        watermark = sample.stats["watermark"]
        is_time = watermark is not None and not isinstance(watermark, int)
        limits = [spec.window.left, spec.window.right] if isinstance(spec.window, Rows) else [None, None]
        is_idle = sample.at == now.at and (now.at - self._busy_at) / 1e9 > IDLE_SECONDS
        return {
            "title": repr(spec.on),
            "facts": [("Join", spec.how), ("Window", repr(spec.window)), ("Runs", "in this process")],
            "state": "ended" if sample.ended else "idle" if is_idle else "running",
            "reason": sample.ended,
            "unit": "push",
            "pushes": now.latencies.pushes,
            "p99": _known(now.latencies.quantile(0.99)),
            "limits": limits,
            "sides": ["left"] if spec.self_join else ["left", "right"],
            "totals": {
                name: value
                for name, value in sample.stats.items()
                if name not in ("watermark", "memory_bytes")
            },
            "watermark": None if watermark is None else str(watermark),
            "watermark_time": unix_seconds(watermark) if is_time else None,  # type: ignore[arg-type]
            "explanation": now.explanation().lines,
        }

    def metrics(self, format_: str) -> str:
        """The text of :meth:`slidejoin.WindowJoin.metrics`."""
        return metrics_text([({}, self._read())], format_)


def _known(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds
