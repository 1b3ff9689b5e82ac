"""Costs that a reader can compute with, for tests of the planner."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple


class Total(NamedTuple):
    total: float


@dataclass(frozen=True)
class SparkFigures:
    floor: float = 0.5
    row: float = 1e-6


@dataclass(frozen=True)
class FlatCosts:
    """An arrival costs ``fixed[index]``, plus ``match`` for each match, plus ``push`` shared by a batch.

    One of a join that is not plain costs ``other`` more.
    """

    fixed: tuple[tuple[str, float], ...] = (("bucket-tree", 1e-7), ("b-tree", 3e-7))
    match: float = 0.0
    push: float = 1e-6
    other: float = 0.0
    tuple_bytes: float = 16.0
    window_row: float = 0.0
    window_push: float = 0.0
    spark: SparkFigures | None = None
    largest_window: int = 2**40

    @property
    def indexes(self):
        return tuple(name for name, _ in self.fixed)

    def arrival(
        self, index, *, window, matches, batch=1, workers=1, listed=True, plain=True  # noqa: ARG002
    ):  # fmt: skip
        fixed = dict(self.fixed).get(index, 0.0) + (0.0 if plain else self.other)
        return Total((fixed + self.match * matches) / workers + self.push / batch)

    def extrapolates(self, workers):
        return workers > 64

    def memory(self, index, window):  # noqa: ARG002
        return 2 * window * self.tuple_bytes

    measured = True
    date = "today"
    machine = MappingProxyType({"cpu": "paper"})
