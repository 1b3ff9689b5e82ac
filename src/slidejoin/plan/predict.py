"""What a join would do with a load: how busy it is, how long its rows wait, how much memory it takes.

A push of b rows costs b times what one arrival costs in it (:class:`slidejoin.model.Costs`). A row waits
until its batch is full, for half of it on average; then for batches before it, as arrivals do not come
evenly (Kingman's formula, where the times between batches of b random arrivals vary by 1/b); then for its
push, whose results come out together. A micro-batch of Spark costs a floor and a share for each row.
"""

from dataclasses import dataclass
from typing import Protocol

from slidejoin.model.costs import Costs
from slidejoin.plan.workload import Load

PAIR_BYTES = 16  # two positions
EVENT_BYTES = 35  # of a row over event time: its time in three places, and two positions or flags
P99_QUEUE = 4.6  # the waiting time that one row in a hundred exceeds, over the mean: ln(100)


@dataclass(frozen=True)
class Latency:
    """Mean seconds from a row's arrival to its results, by cause.

    Attributes
    ----------
    ready : float
        Until rows of all sources have come that are not earlier (deterministic order of several sources).
    collect : float
        Until the batch is full, or the trigger fires.
    queue : float
        For the batches before.
    join : float
        For the push or micro-batch itself.
    """

    ready: float
    collect: float
    queue: float
    join: float

    @property
    def mean(self) -> float:
        """All of it."""
        return self.ready + self.collect + self.queue + self.join

    @property
    def p99(self) -> float:
        """What one row in a hundred exceeds, which came first in its batch and met a long queue."""
        return 2 * self.ready + 1.98 * self.collect + P99_QUEUE * self.queue + self.join


@dataclass(frozen=True)
class Prediction:
    """What a setting does with a load.

    Attributes
    ----------
    utilisation : float
        The share of its time that the join works; from 1 on it falls behind.
    capacity : float
        Rows of both sides a second at which it would be 1, with windows as they are.
    latency : Latency
        Of a row that has matches; infinite where the join falls behind.
    memory : float
        Bytes: index, stored rows, and the largest result of a batch.
    """

    utilisation: float
    capacity: float
    latency: Latency
    memory: float


class Setting(Protocol):
    """A way to run a join."""

    @property
    def processors(self) -> int:
        """Cores that it uses."""
        ...

    def predict(self, load: Load, costs: Costs, row_bytes: int) -> Prediction:
        """What it would do with a load."""
        ...


@dataclass(frozen=True)
class Embedded:
    """A join in this process, given ``batch`` rows at a time."""

    index: str
    batch: int
    workers: int
    rows: bool = True  # WindowJoin, whose results are rows; else NumericJoin
    plain: bool = True  # not over an interval of event time (Costs.arrival)

    @property
    def processors(self) -> int:
        return self.workers

    def seconds(self, load: Load, costs: Costs) -> float:
        """What one arrival costs."""
        seconds = costs.arrival(
            self.index,
            window=load.stored,
            matches=load.matches,
            batch=self.batch,
            workers=self.workers,
            plain=self.plain,
        ).total
        if self.rows:
            seconds += costs.window_row + costs.window_push / self.batch
        return seconds

    def predict(self, load: Load, costs: Costs, row_bytes: int) -> Prediction:
        seconds = self.seconds(load, costs)
        busy = load.rate * seconds
        left, right = load.stored
        memory = (
            costs.memory(self.index, (left + right) / 2)
            + (row_bytes + (0 if self.plain else EVENT_BYTES)) * (left + right)
            + self.batch * load.matches * (PAIR_BYTES + 2 * row_bytes)
        )
        collect = (self.batch - 1) / 2 / load.rate if load.rate else 0.0
        queue = busy * seconds / 2 / (1 - busy) if busy < 1 else float("inf")
        return Prediction(busy, 1 / seconds, Latency(0.0, collect, queue, self.batch * seconds), memory)


@dataclass(frozen=True)
class OnSpark:
    """A join on Spark: micro-batches every ``trigger`` seconds, in ``partitions`` tasks side by side."""

    trigger: float
    partitions: int

    @property
    def processors(self) -> int:
        return self.partitions

    def predict(self, load: Load, costs: Costs, row_bytes: int) -> Prediction:
        spark = costs.spark
        assert spark is not None  # else there is no such setting
        rows = load.rate * self.trigger
        left, right = load.stored
        part = (left / self.partitions, right / self.partitions)
        batch = max(rows / self.partitions, 1.0)
        joined = costs.arrival("sorted-run", window=part, matches=load.matches, batch=batch).total
        row = spark.row + joined + costs.window_row
        took = spark.floor + rows * row / self.partitions
        capacity = max(1 - spark.floor / self.trigger, 0.0) * self.partitions / row
        memory = row_bytes * (left + right) / self.partitions + rows * row_bytes / self.partitions
        behind = took >= self.trigger
        latency = Latency(0.0, self.trigger / 2, float("inf") if behind else 0.0, took)
        return Prediction(took / self.trigger, capacity, latency, memory)
