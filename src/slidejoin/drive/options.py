"""The arguments of a run, checked: every error of an argument is raised here, before a source is touched."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from slidejoin.errors import SpecError, UsageError
from slidejoin.keys.extract import SIDES
from slidejoin.spec import JoinSpec
from slidejoin.window import Duration, is_whole, parse_duration

MAX_ROWS = 4096
MAX_DELAY = "5ms"
STOP_POLL = 50_000_000  # nanoseconds between two looks at the caller's ``stop``

Stop: TypeAlias = Any  # an object with is_set(), or a function that returns a bool


@dataclass(frozen=True)
class Options:
    """How a run goes; durations in nanoseconds."""

    sources: tuple[Any, ...]  # one of a self-join, otherwise left and right
    time: tuple[str, str] | None  # columns to merge by; None to merge by arrival
    max_rows: int
    max_delay: int
    stop: Callable[[], bool] | None
    snapshot: Path | None
    every_rows: int | None
    every_time: int | None
    resume: bool
    finish: bool

    @property
    def merge(self) -> str:
        """``"arrival"`` or ``"time"``."""
        return "arrival" if self.time is None else "time"


def run_options(
    spec: JoinSpec,
    batches: Any,
    left: Any,
    right: Any,
    *,
    merge: str | None,
    time: str | tuple[str, str] | None,
    max_rows: int,
    max_delay: Duration,
    stop: Stop,
    snapshot: str | PathLike[str] | None,
    snapshot_every: Duration | None,
    resume: bool,
    finish: bool,
    takes_async: bool,
) -> Options:
    """Check the arguments of ``run`` and ``run_async``, which describe them."""
    sources = _sources(spec, batches, left, right, takes_async)
    if not is_whole(max_rows) or max_rows < 1:
        raise SpecError(f"max_rows={max_rows!r}; expected a number of rows, 1 at least")
    for name, flag in (("resume", resume), ("finish", finish)):
        if not isinstance(flag, bool):
            raise SpecError(f"{name}={flag!r}; expected True or False")
    if snapshot is not None and (not isinstance(snapshot, str | PathLike) or "\0" in str(snapshot)):
        raise SpecError(f"snapshot={snapshot!r}; expected the name of a file, or None")
    if snapshot is None and snapshot_every is not None:
        raise SpecError(f"snapshot_every={snapshot_every!r} without snapshot=; name the file to write")
    every_rows, every_time = _every(snapshot_every)
    if resume:
        _need_functions(sources)
    return Options(
        sources=sources,
        time=_merge_columns(spec, merge, time),
        max_rows=max_rows,
        max_delay=_nanoseconds("max_delay", max_delay),
        stop=_stop(stop),
        snapshot=None if snapshot is None else Path(snapshot),
        every_rows=every_rows,
        every_time=every_time,
        resume=resume,
        finish=finish,
    )


def is_function(source: Any) -> bool:
    """Whether a source is a function of the offset that returns an iterable, and not one itself."""
    return callable(source) and not isinstance(source, Iterable | AsyncIterable)


def check_source(source: Any, side: str, takes_async: bool) -> None:
    """UsageError if this is not an iterable of batches or of rows."""
    expected = "expected an iterable of batches or of rows (dicts), or a function of the offset"
    if isinstance(source, AsyncIterable):
        if not takes_async:
            raise UsageError(f"{side} is an async iterable; use run_async")
        return
    is_stream = isinstance(source, pa.RecordBatchReader)
    is_table = hasattr(source, "__arrow_c_stream__") or isinstance(
        source, Mapping | pa.Table | pa.RecordBatch
    )
    if is_table and not is_stream:
        raise UsageError(f"{side} is a {type(source).__name__}, a single batch; put it into a list: [batch]")
    if isinstance(source, str | bytes | bytearray) or not isinstance(source, Iterable):
        raise UsageError(f"{side} is a {type(source).__name__}; {expected}")


def _sources(spec: JoinSpec, batches: Any, left: Any, right: Any, takes_async: bool) -> tuple[Any, ...]:
    if spec.self_join:
        if batches is None or left is not None or right is not None:
            raise UsageError("a self-join has one stream; expected run(batches)")
        given = {"the source": batches}
    else:
        if batches is not None or left is None or right is None:
            raise UsageError("expected run(left=..., right=...); both sources are needed, [] is an empty one")
        given = {"left": left, "right": right}
    for name, source in given.items():
        if not is_function(source):
            check_source(source, name, takes_async)
    if left is not None and left is right and not is_function(left):
        raise UsageError("left and right are the same object, so each row would reach one side only; "
                         "use a self-join, or two iterables")  # fmt: skip
    return tuple(given.values())


def _merge_columns(
    spec: JoinSpec, merge: str | None, time: str | tuple[str, str] | None
) -> tuple[str, str] | None:
    """The columns to merge by, or None to merge by arrival."""
    if merge not in (None, "arrival", "time"):
        raise SpecError(f"merge={merge!r}; expected 'arrival' or 'time'")
    if time is not None and not (
        isinstance(time, str)
        or (isinstance(time, tuple | list) and len(time) == 2 and all(isinstance(each, str) for each in time))
    ):
        raise SpecError(f"time={time!r}; expected the name of a column, or one for each side")
    given = (time, time) if isinstance(time, str) else None if time is None else (time[0], time[1])
    if merge == "arrival" or spec.self_join:
        if given is not None or merge == "time":
            wrong = f"time={time!r}" if given is not None else "merge='time'"
            why = "a self-join has one source" if spec.self_join else "merge='arrival' needs no column"
            raise SpecError(f"{wrong}, but {why}; leave it out")
        return None
    if given is not None and spec.time not in (None, given):
        raise SpecError(f"time={time!r}, but the window has its time in {spec.time}; leave it out")
    if merge is None and given is None and (spec.time is None or spec.window.has_watermark):
        return None
    if given is None and spec.time is None:
        raise SpecError(f"merge='time' needs a column, {spec.window} names none; give time='column'")
    return given or spec.time


def _every(given: Duration | None) -> tuple[int | None, int | None]:
    if given is None:
        return None, 30 * 10**9
    if is_whole(given):
        rows = int(given)  # type: ignore[arg-type]
        if rows < 1:
            raise SpecError(f"snapshot_every={given!r}; expected 1 row at least, or a duration such as '30s'")
        return rows, None
    return None, _nanoseconds("snapshot_every", given)


def _nanoseconds(name: str, given: Duration) -> int:
    try:
        amount, has_unit = parse_duration(given)
    except SpecError as error:
        raise SpecError(f"{name}: {error}") from None
    if amount < 0 or not (has_unit or amount == 0):
        raise SpecError(f"{name}={given!r}; expected a duration, such as '5ms'")
    return int(amount)


def _stop(given: Stop) -> Callable[[], bool] | None:
    if given is None:
        return None
    is_set = getattr(given, "is_set", None)  # of threading.Event, of asyncio.Event
    found = is_set if callable(is_set) else given
    if not callable(found):
        raise SpecError(f"stop={given!r}; expected an Event, or a function that returns True to stop")
    return lambda: bool(found())


def _need_functions(sources: tuple[Any, ...]) -> None:
    for side, source in zip(SIDES, sources, strict=False):
        if not is_function(source):
            name = "the source" if len(sources) == 1 else side
            raise UsageError(
                f"resume=True, but {name} is a {type(source).__name__}, which cannot go on at an offset; "
                "give a function of the offset that returns the rest, such as lambda offset: rows[offset:]"
            )
