"""The plan of a join: which conjuncts are indexed and by what, and how that is explained to a reader."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from slidejoin.index import check_index
from slidejoin.keys import BoundKey, BoundSpec
from slidejoin.spec import GROUP, JoinSpec
from slidejoin.stats import JoinStats

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


class Explanation:
    """What :meth:`slidejoin.WindowJoin.explain` says: a text, and a table in notebooks."""

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        self._lines = lines

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._lines
        )
        return f"<table>{rows}</table>"


def explain(
    spec: JoinSpec,
    chosen: Plan | None,
    stats: JoinStats,
    in_use: tuple[str, str, int] | None = None,
    closed: str = "",
    sources: Sequence[tuple[str, str]] = (),
    shared: tuple[int, str] | None = None,
) -> Explanation:
    """Say what a join does and how, as far as its columns are known."""
    lines = [("join", f"{spec.how}{', self-join' if spec.self_join else ''} on {spec.on!r}")]
    if closed:
        lines.append(("state", closed))
    elif chosen is None:
        lines.append(("index", "not chosen yet: the types of the keys are known with the first batch"))
    else:
        indexed = [_condition(key) for key in chosen.indexed]
        time = [f"the interval of {' and '.join(dict.fromkeys(spec.time or ()))}"]
        by_time = chosen.banded == "time"
        together = " together with ".join(indexed + (time if by_time else []))
        chosen_for = in_use if chosen.index == "auto" else None
        lines.append(("indexed", f"by {chosen_for[0] if chosen_for else chosen.index}: {together}"))
        if chosen_for:
            _, why, changes = chosen_for
            changed = f"; changed {changes} time{'s' * (changes > 1)}" if changes else ""
            lines.append(("chosen", f"automatically: {why}{changed}"))
        others = [_condition(key) for key in chosen.keys[len(indexed) :]]
        if spec.window.has_watermark and not by_time:
            others += time
        lines += [("filtered", f"as candidates are found: {condition}") for condition in others]
    if shared and shared[0] > 1:
        lines.append(("workers", f"{shared[0]}, which share large batches: {shared[1]}"))
    lines.append(("window", spec.window.describe()))
    lines.append(("state", spec.window.describe_state(spec.self_join)))
    lines.append(
        ("now", f"{stats['stored_left']} left and {stats['stored_right']} right rows that may match, "
                f"{stats['memory_bytes'] / 1e6:.1f} MB")
    )  # fmt: skip
    lines.append(("order", spec.order))
    lines += sources
    return Explanation(lines)


def _condition(key: BoundKey) -> str:
    how = "hash of " if key.verify else ""
    note = " (values are compared, too)" if key.verify else ""
    return f"{key.op}({key.left!r}, {key.right!r}) on {how}{key.common}{note}"
