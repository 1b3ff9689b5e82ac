"""A plan of a join: the setting that was chosen, what it is predicted to do, and what limits it first."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slidejoin.plan.predict import Latency


@dataclass(frozen=True)
class Limit:
    """A target that is missed when the rates grow.

    Attributes
    ----------
    what : str
        ``processor``, ``latency`` or ``memory``.
    factor : float
        How many times today's rates; below 1 it is missed already.
    left_rate : float
        Left rows a second at which it happens, in the busiest interval.
    right_rate : float
        Right rows a second, likewise.
    """

    what: str
    factor: float
    left_rate: float
    right_rate: float


@dataclass(frozen=True)
class JoinPlan:
    """What :func:`plan_join` recommends.

    Attributes
    ----------
    engine : str
        ``embedded`` or ``spark``.
    index : str, optional
        Embedded: the index.
    batch : int, optional
        Embedded: the rows of a push.
    workers : int, optional
        Embedded: the threads.
    partitions : int, optional
        Spark: tasks that run at the same time.
    trigger : float, optional
        Spark: seconds between two micro-batches.
    holds : bool
        Whether all targets are held.
    missed : tuple of str
        The targets that are not, for a reader.
    bearable : float
        If they are not: how many times the rates some setting would hold all of them, and 0 if at no rate.
    utilisation : float
        The share of the time that the join works in the hardest interval.
    capacity : float
        Rows of both sides a second at which the utilisation would be 1.
    latency : Latency
        Seconds from arrival to results, by cause, in the hardest interval.
    memory : float
        Bytes.
    limits : tuple of Limit
        What breaks if the rates grow, the first one first.
    matches : float
        Matches of an arrival, on average over both sides, where they are most.
    backlog : float
        A trace: the longest time, in seconds, that rows wait because more came before than could be joined.
    notes : tuple of str
        What a reader should know about how sure this is.
    """

    engine: str
    index: str | None
    batch: int | None
    workers: int | None
    partitions: int | None
    trigger: float | None
    holds: bool
    missed: tuple[str, ...]
    bearable: float
    utilisation: float
    capacity: float
    latency: Latency
    memory: float
    limits: tuple[Limit, ...]
    matches: float
    backlog: float
    notes: tuple[str, ...]
    alternatives: tuple[tuple[str, float], ...]
    costs: str

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for :class:`slidejoin.WindowJoin`, or for ``slidejoin.spark.join``."""
        if self.engine == "spark":
            return {"partitions": self.partitions}
        return {"index": self.index, "workers": self.workers}

    @property
    def headroom(self) -> float:
        """How many times today's rates the processors bear."""
        return next(limit.factor for limit in self.limits if limit.what == "processor")

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values; what has no limit is None."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["latency"] = {
            **{name: getattr(self.latency, name) for name in self.latency.__dataclass_fields__},
            "mean": self.latency.mean, "p99": self.latency.p99,
        }  # fmt: skip
        values["limits"] = [
            {name: getattr(limit, name) for name in limit.__dataclass_fields__} for limit in self.limits
        ]
        values["alternatives"] = dict(self.alternatives)
        values["notes"] = list(self.notes)
        plain = _plain(values)
        assert isinstance(plain, dict)
        return plain

    def lines(self) -> list[tuple[str, str]]:
        """The plan for a reader: (name, text)."""
        latency = self.latency
        parts = [("waiting for other sources", latency.ready), ("collecting", latency.collect),
                 ("queueing", latency.queue), ("joining", latency.join)]  # fmt: skip
        shown = ", ".join(f"{name} {show_seconds(part)}" for name, part in parts if part)
        lines = [
            ("plan", self._setting()),
            ("matches", f"{self.matches:,.0f}" if self.matches >= 100 else f"{self.matches:.3g}"),
            ("busy", f"{self.utilisation:.0%} of the time; it can join {self.capacity:,.0f} rows a second"),
            ("latency", f"{self._latency()} ({shown})"),
            ("memory", show_bytes(self.memory) + " for each partition" * (self.engine == "spark")),
        ]
        lines[1:1] = [("missed", text) for text in self.missed]
        if not self.holds:
            rates = f"at {self.bearable:.2g} times the rates" if self.bearable else "at no rate"
            lines.insert(1 + len(self.missed), ("would hold", f"{rates}, with another setting perhaps"))
        lines += [("first limit" if number == 0 else "then", _limit(limit))
                  for number, limit in enumerate(self.limits) if math.isfinite(limit.factor)]  # fmt: skip
        if self.backlog > 0:
            lines.append(
                ("backlog", f"rows wait up to {show_seconds(self.backlog)} after peaks of the trace")
            )
        if self.alternatives:
            others = ", ".join(f"{name} {capacity:,.0f}" for name, capacity in self.alternatives[:3])
            lines.append(("next best", f"rows a second with the same batch: {others}"))
        lines.append(("costs", self.costs))
        return lines + [("note", note) for note in self.notes]

    def _setting(self) -> str:
        warning = "" if self.holds else "; it MISSES a target"
        if self.engine == "spark":
            return (f"Spark, {self.partitions} partition{'s' * (self.partitions != 1)}, a micro-batch every "
                    f"{show_seconds(self.trigger or 0)}{warning}")  # fmt: skip
        return (f"{self.index}, pushes of {self.batch:,} row{'s' * (self.batch != 1)}, {self.workers} "
                f"worker{'s' * (self.workers != 1)}{warning}")  # fmt: skip

    def _latency(self) -> str:
        if not math.isfinite(self.latency.mean):
            return "grows without bound"
        return f"mean {show_seconds(self.latency.mean)}, 99 % within {show_seconds(self.latency.p99)}"

    def __repr__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def show_seconds(seconds: float) -> str:
    """A time for a reader."""
    if not math.isfinite(seconds):
        return "without bound"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def show_bytes(size: float) -> str:
    """A size for a reader."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def _limit(limit: Limit) -> str:
    at = f"{limit.left_rate:,.0f} left and {limit.right_rate:,.0f} right rows a second"
    if limit.factor == 0:
        return f"{limit.what}, exceeded already, and at lower rates, too"
    if limit.factor < 1:
        return f"{limit.what}, exceeded already; with this setting it holds at {limit.factor:.3g} times: {at}"
    return f"{limit.what}, at {limit.factor:.3g} times the rates: {at}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
