"""From checked descriptions to joins of the native core: the one place that knows its spelling."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from slidejoin import _core, isa
from slidejoin.index import parse_index, parse_strategy
from slidejoin.model.choice import choice

# An end of a range: ("none", 0) open, ("sum", offset) key + offset, ("beyond", offset) the same of floats
# without the sum itself, ("step", n) places in the order of keys.
Bound: TypeAlias = tuple[str, int | float]
Ranges: TypeAlias = Sequence[tuple[Bound, Bound]]

_KINDS = {"none": 0, "sum": 1, "step": 2, "beyond": 3}


def native_join(
    on: Sequence[tuple[str, Ranges]],
    window: dict[str, Any],
    *,
    index: str,
    self_join: bool,
    ordered: bool = True,
    group: int,
    equalities: int = 0,
    banded: str = "conjunct",
    outcome: _core.NativeOutcome | None = None,
    hashed: bool = False,
    workers: int = 1,
    crew: _core.NativeCrew | None = None,
    strategy: str = "auto",
) -> _core.NativeJoin:
    """Make a join of the core on the current instruction set.

    Parameters
    ----------
    on : sequence of (key type, ranges)
        The conjuncts; by default the first one is indexed.
    window : dict
        The core's arguments for a window: ``window`` (rows, time or event) and its numbers.
    equalities, banded
        The first so many conjuncts are equalities and indexed together, with the ``"conjunct"`` behind them,
        the ``"time"`` of an event window, or ``"none"``.
    index
        Its name, with its parameters.
    outcome, hashed
        What a join type makes of the matches; whether some keys are hashes, so that matches are candidates
        until their values are compared.
    workers, crew, strategy
        Threads, whose they are (by default its own), and how they share the work.
    """
    name, options = parse_index(index)
    strategy_name, numbers = parse_strategy(strategy)
    return _core.NativeJoin(
        on=_conjuncts(on),
        index=name,
        options=[(option, float(value)) for option, value in options.items()],
        self_join=self_join,
        sorted=ordered,
        group=group,
        level=isa.current(),
        equalities=equalities,
        banded=banded,
        outcome=outcome,
        hashed=hashed,
        workers=workers,
        crew=crew,
        strategy=strategy_name,
        task_size=int(numbers.get("task_size", 32)),
        blocking_merge=bool(numbers.get("blocking_merge", 0)),
        subwindows=int(numbers.get("count", 8)),
        batch=int(numbers.get("batch", 4096)),
        batch_us=int(numbers.get("batch_us", 0)),
        limits=choice().limits if name == "auto" else [],
        **window,
    )


def native_pairs(
    on: Sequence[tuple[str, Ranges]],
    keys: Sequence[Sequence[tuple[Any, Any]]],
    *,
    equalities: int,
    banded: str,
    flags_of: int | None,
    workers: int,
    share: int,
    limit: int,
    blocks: bool = False,
) -> tuple[Any, ...]:
    """Join two tables on the current instruction set.

    Parameters
    ----------
    on, equalities, banded
        As for :func:`native_join`.
    keys : (left, right)
        Values and nulls, or None, of each conjunct.
    flags_of
        A side, to learn only which of its rows have a partner; ``None`` for the rows of all pairs.
    workers, share
        Threads at most, and rows for which one is started.
    limit
        Pairs at most; more are a CapacityError.
    blocks
        The rows of the pairs may be ``NativePairRows``, from which only ``NativeRows.take`` reads: where no
        left row has many pairs, they are then not written to memory.
    """
    left, right = keys
    return _core.join_tables(
        on=_conjuncts(on),
        equalities=equalities,
        banded=banded,
        left=list(left),
        right=list(right),
        flags_of=-1 if flags_of is None else flags_of,
        workers=workers,
        share=share,
        limit=min(limit, 2**64 - 1),
        blocks=blocks,
        level=isa.current(),
    )


def native_runs(on: Sequence[tuple[str, Ranges]], *, equalities: int, banded: str) -> _core.NativeRunJoin:
    """Make a join of sorted runs on the current instruction set; arguments as for :func:`native_join`."""
    return _core.NativeRunJoin(on=_conjuncts(on), equalities=equalities, banded=banded, level=isa.current())


# Times in the state of a native join are numbers of up to 128 bits, or None for "never".
_TIMES = ("latest", "watermark", "progress")


def read_state(join: _core.NativeJoin) -> dict[str, Any]:
    """The state of a join without its tuples, as JSON values."""
    return _with_times(join.state(), lambda time: time[0] << 64 | time[1])


def scaled_state(state: dict[str, Any], ticks: int) -> dict[str, Any]:
    """The same with times multiplied by ``ticks``: in a unit that is so many times finer."""
    return _with_times(state, lambda time: time * ticks)


def native_state(state: dict[str, Any]) -> dict[str, Any]:
    """The same as the core takes it."""
    return _with_times(state, lambda time: (time >> 64, time & (2**64 - 1)))


def _with_times(state: dict[str, Any], spelled: Callable[[Any], Any]) -> dict[str, Any]:
    """A state with its times spelled another way."""
    result = {}
    for name, value in state.items():
        if isinstance(value, dict):
            result[name] = _with_times(value, spelled)
        else:
            result[name] = spelled(value) if name in _TIMES and value is not None else value
    return result


def _conjuncts(on: Sequence[tuple[str, Ranges]]) -> list[tuple[str, list[Any]]]:
    return [(key, [(_end(lower), _end(upper)) for lower, upper in ranges]) for key, ranges in on]


def _end(bound: Bound) -> tuple[int, int, int, float]:
    """A bound for the core: its kind, and a whole number as high * 2**64 + low, or a float."""
    kind, value = bound
    if isinstance(value, float):
        return _KINDS[kind], 0, 0, value
    clipped = max(-(2**64), min(2**64, value))
    return _KINDS[kind], clipped >> 64, clipped & (2**64 - 1), 0.0
