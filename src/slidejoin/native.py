"""From checked descriptions to joins of the native core: the one place that knows its spelling."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from slidejoin import _core, isa

# An end of a range: ("none", 0) open, ("sum", offset) key + offset, ("step", n) places in the order of keys.
Bound: TypeAlias = tuple[str, int | float]
Ranges: TypeAlias = Sequence[tuple[Bound, Bound]]

_KINDS = {"none": 0, "sum": 1, "step": 2}


def native_join(
    on: Sequence[tuple[str, Ranges]],
    window: dict[str, Any],
    *,
    index: str,
    self_join: bool,
    ordered: bool = True,
    group: int,
) -> _core.NativeJoin:
    """Make a join of the core on the current instruction set.

    Parameters
    ----------
    on : sequence of (key type, ranges)
        The conjuncts; the first one is indexed.
    window : dict
        The core's arguments for a window: ``window`` (rows, time or event) and its numbers.
    """
    conjuncts = [(key, [(_end(lower), _end(upper)) for lower, upper in ranges]) for key, ranges in on]
    return _core.NativeJoin(
        on=conjuncts,
        index=index,
        self_join=self_join,
        sorted=ordered,
        group=group,
        level=isa.current(),
        **window,
    )


def _end(bound: Bound) -> tuple[int, int, int, float]:
    """A bound for the core: its kind, and a whole number as high * 2**64 + low, or a float."""
    kind, value = bound
    if isinstance(value, float):
        return _KINDS[kind], 0, 0, value
    clipped = max(-(2**64), min(2**64, value))
    return _KINDS[kind], clipped >> 64, clipped & (2**64 - 1), 0.0
