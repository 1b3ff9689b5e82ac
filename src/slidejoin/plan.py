"""The plan of a join: which conjunct is indexed and by what, and how that is explained to a reader."""

import html
from dataclasses import dataclass
from typing import Any

from slidejoin.keys import BoundKey, BoundSpec
from slidejoin.spec import JoinSpec, check_index
from slidejoin.window import Interval, Rows, Window, format_duration

# Conjuncts that leave fewer candidates first: an index on one of them has the least to scan.
_RANK = {"equal": 0, "band": 1, "bands": 1, "not_equal": 3}
_COMPARISON_RANK = 2

GROUP = 4096


@dataclass(frozen=True)
class Plan:
    """How a join runs: the order of its conjuncts, the first one indexed, and by what."""

    keys: tuple[BoundKey, ...]
    index: str
    group: int = GROUP


def plan(bound: BoundSpec) -> Plan:
    """Choose the indexed conjunct and the index; the other conjuncts filter its candidates."""
    keys = sorted(bound.keys, key=lambda key: _RANK.get(key.op, _COMPARISON_RANK))
    return Plan(tuple(keys), check_index(bound.spec.index, bound.spec.window))


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


def explain(spec: JoinSpec, chosen: Plan | None, stats: dict[str, Any], closed: str = "") -> Explanation:
    """Say what a join does and how, as far as its columns are known."""
    lines = [("join", f"{spec.how}{', self-join' if spec.self_join else ''} on {spec.on!r}")]
    if closed:
        lines.append(("state", closed))
    elif chosen is None:
        lines.append(("index", "not chosen yet: the types of the keys are known with the first batch"))
    else:
        first, *others = chosen.keys
        lines.append(("indexed", f"by {chosen.index}: {_condition(first)}"))
        lines += [("filtered", f"among its candidates: {_condition(key)}") for key in others]
    lines.append(("window", _window(spec.window)))
    lines.append(("state", _state(spec)))
    lines.append(
        ("now", f"{stats['stored_left']} left and {stats['stored_right']} right rows that may match, "
                f"{stats['memory_bytes'] / 1e6:.1f} MB")
    )  # fmt: skip
    lines.append(("order", spec.order))
    return Explanation(lines)


def _condition(key: BoundKey) -> str:
    how = "hash of " if key.verify else ""
    note = " (values are compared, too)" if key.verify else ""
    return f"{key.op}({key.left!r}, {key.right!r}) on {how}{key.common}{note}"


def _window(window: Window) -> str:
    if isinstance(window, Rows):
        return f"the last {window.left} left and {window.right} right rows"

    def amount(value: int) -> str:
        return format_duration(value) if window.timed else str(value)

    if isinstance(window, Interval):
        lateness = "moved by advance() only"
        if window.lateness is not None:
            lateness = f"the watermark follows by {amount(window.lateness)}"
        return f"event time, -{amount(window.before)} <= right - left <= {amount(window.after)}, {lateness}"
    return f"arrivals of the last {amount(window.duration)}, purge {window.purge}"


def _state(spec: JoinSpec) -> str:
    window = spec.window
    if isinstance(window, Rows):
        sides = 1 if spec.self_join else 2
        return f"at most {window.left + (window.right if sides == 2 else 0)} rows"
    if isinstance(window, Interval):
        if window.lateness is None:
            return "all rows, until advance() moves the watermark"
        return "rows that the watermark has not passed by before (right) or after (left)"
    return "the rows of one duration of both sides"
