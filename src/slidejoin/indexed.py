"""What a join indexes: which of its conjuncts together, and which only filter candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from slidejoin.index import check_index
from slidejoin.keys import BoundKey, BoundSpec
from slidejoin.spec import GROUP

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """How a join runs: the order of its conjuncts, which of them are indexed together, and by what.

    The index takes the first ``equalities`` conjuncts and one band: the ``"conjunct"`` behind them, the
    ``"time"`` of an interval window, or ``"none"``.
    """

    keys: tuple[BoundKey, ...]
    equalities: int
    banded: str
    index: str
    group: int = GROUP

    @property
    def indexed(self) -> tuple[BoundKey, ...]:
        """The conjuncts in the index, besides the time."""
        return self.keys[: self.equalities + (self.banded == "conjunct")]

    def with_time(self, conjuncts: Sequence[T], time: Sequence[T]) -> list[T]:
        """A list with an item for each conjunct, and that of the time in its place among them."""
        place = len(self.indexed)
        return [*conjuncts[:place], *time, *conjuncts[place:]]

    @property
    def banded_conjunct(self) -> str:
        """``banded`` where the time is one of the conjuncts."""
        return "conjunct" if self.banded == "time" else self.banded


def plan(bound: BoundSpec) -> Plan:
    """Choose what is indexed: all equalities with the first band, and by time where there is no band.

    A comparison such as ``less`` leaves half of a window as candidates, so it is indexed only where there is
    nothing better.
    """
    keys = sorted(bound.keys, key=_rank)
    equalities = sum(key.op == "equal" for key in keys)
    if any(key.is_band for key in keys):
        banded = "conjunct"
    elif bound.spec.window.has_watermark:
        banded = "time"
    elif equalities > 1:
        banded = "none"
    else:
        equalities, banded = 0, "conjunct"
    return Plan(tuple(keys), equalities, banded, check_index(bound.spec.index))


def _rank(key: BoundKey) -> int:
    """Conjuncts that leave fewer candidates come first: an index on them has the least to scan."""
    if key.is_band:
        return 1
    return {"equal": 0, "not_equal": 3}.get(key.op, 2)
