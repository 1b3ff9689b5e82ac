"""The explanation of a join: what it does and how, as lines for a reader."""

import html
from collections.abc import Mapping, Sequence

from slidejoin import _core
from slidejoin.errors import listed
from slidejoin.indexed import Plan
from slidejoin.keys import BoundKey
from slidejoin.model.choice import choice
from slidejoin.spec import JoinSpec
from slidejoin.stats import JoinStats


class Explanation:
    """What :meth:`slidejoin.WindowJoin.explain` says: a text, and a table in notebooks."""

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        self.lines = lines

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self.lines
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
    stored: Sequence[Sequence[str] | None] = (None, None),
    spill: _core.NativeSpill | None = None,
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
            lines.append(("chosen", f"automatically, by {choice().source}: {why}{changed}"))
        others = [_condition(key) for key in chosen.keys[len(indexed) :]]
        if spec.window.has_watermark and not by_time:
            others += time
        lines += [("filtered", f"as candidates are found: {condition}") for condition in others]
    if shared and shared[0] > 1:
        lines.append(("workers", f"{shared[0]}, which share large batches: {shared[1]}"))
    if spec.columns is not None:
        sides = ("of the stream",) if spec.self_join else ("left", "right")
        lines.append(columns_line(spec.columns, dict(zip(sides, stored, strict=False))))
    lines.append(("window", spec.window.describe()))
    lines.append(("state", spec.window.describe_state(spec.self_join)))
    lines.append(
        ("now", f"{stats['stored_left']} left and {stats['stored_right']} right rows that may match, "
                f"{stats['memory_bytes'] / 1e6:.1f} MB")
    )  # fmt: skip
    if spill is not None:
        kind = ", a file system in memory (tmpfs)" if spill.is_memory else ""
        size = f"{stats['spilled_bytes'] / 1e6:.1f} MB"
        lines.append(("rows", f"{size} in mapped files in {spill.path}{kind}; the index is in memory"))
    lines.append(("order", spec.order))
    lines += sources
    return Explanation(lines)


def columns_line(returned: Sequence[str], stored: Mapping[str, Sequence[str] | None]) -> tuple[str, str]:
    """Which columns are returned, and which are stored of each side, as far as they are known."""
    known = [
        f"{side} {'not known yet' if names is None else listed(names)}" for side, names in stored.items()
    ]
    return "columns", f"{listed(returned)} are returned; stored: {'; '.join(known)}"


def _condition(key: BoundKey) -> str:
    how = "hash of " if key.verify else ""
    note = " (values are compared, too)" if key.verify else ""
    return f"{key.op}({key.left!r}, {key.right!r}) on {how}{key.common}{note}"
