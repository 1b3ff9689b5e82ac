"""Lines of the Spark benchmark about streams: who races on which micro-batches, and what is compared."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from benchmarks.checkouts import NAME_OTHER, OTHER
from benchmarks.measure import rates, ratios
from benchmarks.report import Result, Target, measured, missing
from benchmarks.spark_contenders import BEFORE, EMPTY, OURS, WORK_AROUNDS, Contender
from benchmarks.spark_files import Streams
from benchmarks.spark_race import Entry, Run, Session, race, restarted
from benchmarks.workload import power

Say: TypeAlias = Callable[[str], None]
Times: TypeAlias = dict[str, list[float]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Numbers of micro-batches include neither those that fill nor those that warm."""

    window: int = 2**17  # rows per side
    batch: int = 100_000  # rows of both sides
    measured: int = 9
    warmups: int = 5  # with full windows, and not measured
    slow_measured: int = 5  # of slow contenders
    slow_warmups: int = 1
    large_window: int = 2**20
    large_batch: int = 1_000_000
    large_measured: int = 9
    large_warmups: int = 3
    small_batch: int = 1000
    small_measured: int = 11
    small_warmups: int = 6
    wide_window: int = 2**23
    cold_warmups: int = 8  # where a new JVM has seen no large micro-batches
    many_cores: int = 8
    table: int = 5_000_000  # rows per side in batch mode
    table_partitions: int = 8
    table_rounds: int = 3  # of a minute each
    restarts: int = 3
    partitions: int = 2
    cores: int = 2
    matches: int = 2
    summed: bool = False  # whether checksums of streams are compared, besides the numbers of rows
    java_options: str = ""


QUICK = Sizes(
    window=2**11,
    batch=5000,
    measured=1,
    warmups=0,
    slow_measured=1,
    slow_warmups=0,
    large_window=2**12,
    large_batch=10_000,
    large_measured=1,
    large_warmups=0,
    small_batch=100,
    small_measured=1,
    small_warmups=0,
    wide_window=2**13,
    cold_warmups=0,
    many_cores=3,
    table=5000,
    table_partitions=2,
    table_rounds=1,
    restarts=1,
    summed=True,
    java_options="-XX:TieredStopAtLevel=1",  # a short run spends most of its time in compiling well
)


class Sessions:
    """Who runs where: our join, that of another checkout and all others have a process each.

    So each JVM has seen about as many rows as the others when a contender is measured.
    """

    def __init__(self, stack: ExitStack, settings: Mapping[str, str]) -> None:
        python = os.environ.get(OTHER)
        self._ours = stack.enter_context(Session(settings))
        self._others = stack.enter_context(Session(settings))
        self._before = stack.enter_context(Session(settings, python)) if python else None

    def entries(self, *contenders: Contender) -> list[Entry]:
        """The contenders with their sessions, ours first; the other checkout's if there is one."""
        found = [(self._ours, OURS)]
        found += [(self._before, BEFORE)] if self._before else []
        return [*found, *((self._others, contender) for contender in contenders)]


def filling(window: int, batch: int) -> int:
    """Micro-batches until windows are full."""
    return -(-2 * window // batch)


def row_count(count: int) -> str:
    """A number of rows as lines of the report have it.

    Examples
    --------
    >>> row_count(100_000), row_count(1_000_000), row_count(1000)
    ('100k', '1M', '1,000')
    """
    if count % 10**6 == 0:
        return f"{count // 10**6}M"
    return f"{count // 1000}k" if count % 10**5 == 0 else f"{count:,}"


def _rates(seconds: Times, rows: int, where: str) -> Iterator[Result]:
    for name, samples in seconds.items():
        yield measured(f"{name}, {where}", [1000 * rate for rate in rates(samples, rows)], "k rows/s")


def _times(seconds: Times, where: str) -> Iterator[Result]:
    for name, samples in seconds.items():
        yield measured(f"{name}, time of a batch, {where}", samples, "s")


def _last(runs: Mapping[str, Run], count: int) -> Times:
    """The seconds of the last micro-batches."""
    return {name: run.seconds[-count:] for name, run in runs.items()}


def _speedup(seconds: Times, other: Contender, where: str, limit: float | None) -> Result:
    """How many times as fast as another contender ours is."""
    what, target = f"ours / {other.name}, {where}", Target(">=", limit) if limit else None
    if other.name not in seconds:
        return missing(what, "x", target, NAME_OTHER)
    return measured(what, ratios(seconds[other.name], seconds[OURS.name]), "x", target)


def _share(seconds: Times, other: Contender, where: str, limit: float | None) -> Result:
    """The time of ours by that of another contender."""
    what, target = f"time of ours / of {other.name}, {where}", Target("<=", limit) if limit else None
    if other.name not in seconds:
        return missing(what, "x", target, NAME_OTHER)
    return measured(what, ratios(seconds[OURS.name], seconds[other.name]), "x", target)


def _processor(runs: Mapping[str, Run], count: int, rows: int, where: str) -> Iterator[Result]:
    """Processor time of Spark and its workers, which the load of the machine hardly changes."""
    times = {name: run.cpu[-count:] for name, run in runs.items() if run.cpu}
    for name in (BEFORE.name, EMPTY.name):
        if name in times:
            ratio = ratios(times[OURS.name], times[name])
            yield measured(f"processor time of ours / of {name}, {where}", ratio, "x")
    for name, samples in times.items():
        yield measured(
            f"{name}, processor time a row, {where}", [1e6 * each / rows for each in samples], "µs"
        )


def _batches(size: int, window: int) -> str:
    return f"{row_count(size)}-row batches, w={power(window)}"


# --- Micro-batches of 100k and 1M rows ---


def users(sizes: Sizes, sessions: Sessions, folder: Path, say: Say) -> Iterator[Result]:
    """Against the other checkout, what users do, and the empty task."""
    where, full = _batches(sizes.batch, sizes.window), filling(sizes.window, sizes.batch)
    hdfs, rocksdb = WORK_AROUNDS["HDFS-backed"], WORK_AROUNDS["RocksDB"]
    say(f"our join, the other checkout, the work-around, the empty task: {where}")
    count = full + sizes.warmups + sizes.measured
    streams = Streams(sizes.window, (sizes.batch,) * count, sizes.matches)
    streams.write(folder)
    runs = race(streams, folder, sessions.entries(hdfs, EMPTY), full, sizes.summed)
    seconds = _last(runs, sizes.measured)
    yield _speedup(seconds, BEFORE, where, 2.2)
    yield _speedup(seconds, hdfs, where, 5)
    yield _speedup(seconds, EMPTY, where, 0.85)
    yield from _rates(seconds, sizes.batch, where)
    yield from _processor(runs, sizes.measured, sizes.batch, where)
    found = [answer.matches / sizes.batch for answer in runs[OURS.name].answers[-sizes.measured :]]
    yield measured(f"matches, {where}", found, "per row")
    say(f"our join, the work-around on RocksDB: {where}")
    folder = folder / "rocksdb"
    streams = Streams(streams.window, streams.batches[: full + sizes.slow_warmups + sizes.slow_measured])
    streams.write(folder)
    entries = [entry for entry in sessions.entries(rocksdb) if entry[1] is not BEFORE]
    seconds = _last(race(streams, folder, entries, full, sizes.summed), sizes.slow_measured)
    yield _speedup(seconds, rocksdb, where, 12)
    yield from _rates({rocksdb.name: seconds[rocksdb.name]}, sizes.batch, where)


def large(sizes: Sizes, sessions: Sessions, folder: Path, say: Say) -> Iterator[Result]:
    """Against the other checkout and the empty task."""
    streams = large_streams(sizes)
    where, full = _batches(sizes.large_batch, sizes.large_window), filling(streams.window, sizes.large_batch)
    say(f"our join, the other checkout, the empty task: {where}")
    streams.write(folder)
    runs = race(streams, folder, sessions.entries(EMPTY), full, sizes.summed)
    seconds = _last(runs, sizes.large_measured)
    yield _speedup(seconds, BEFORE, where, 2.0)
    yield _speedup(seconds, EMPTY, where, 0.8)
    yield from _rates(seconds, sizes.large_batch, where)
    yield from _processor(runs, sizes.large_measured, sizes.large_batch, where)


def large_streams(sizes: Sizes) -> Streams:
    """The streams with micro-batches of 1M rows."""
    count = filling(sizes.large_window, sizes.large_batch) + sizes.large_warmups + sizes.large_measured
    return Streams(sizes.large_window, (sizes.large_batch,) * count, sizes.matches)


# --- Small micro-batches ---


def small(sizes: Sizes, sessions: Sessions, folder: Path, say: Say) -> Iterator[Result]:
    """What a micro-batch takes that has next to no rows; the windows are filled by large ones."""
    full = filling(sizes.window, sizes.batch)
    rest = (sizes.small_batch,) * (sizes.small_warmups + sizes.small_measured)
    streams = Streams(sizes.window, (sizes.batch,) * full + rest, sizes.matches)
    where = _batches(sizes.small_batch, sizes.window)
    say(f"our join, the other checkout, the empty task: {where}")
    streams.write(folder)
    runs = race(streams, folder, sessions.entries(EMPTY), full, sizes.summed)
    seconds = _last(runs, sizes.small_measured)
    yield _share(seconds, BEFORE, where, 0.6)
    yield _share(seconds, EMPTY, where, None)
    yield from _times(seconds, where)
    yield from _processor(runs, sizes.small_measured, sizes.small_batch, where)


def wide(sizes: Sizes, sessions: Sessions, folder: Path, say: Say) -> Iterator[Result]:
    """What a task takes that meets few rows with large windows, as it notes it beside its state."""
    full = filling(sizes.wide_window, sizes.large_batch)
    rest = (sizes.small_batch,) * (sizes.small_warmups + sizes.small_measured)
    streams = Streams(sizes.wide_window, (sizes.large_batch,) * full + rest, sizes.matches)
    where = _batches(sizes.small_batch, sizes.wide_window)
    say(f"our join: {where}")
    streams.write(folder)
    runs = race(streams, folder, sessions.entries()[:1], full, sizes.summed)
    run = runs[OURS.name]
    last = range(len(streams.batches) - sizes.small_measured, len(streams.batches))
    busy = [
        json.loads(file.read_text(encoding="utf-8"))["busy_us"] / 1000
        for number in last
        for file in (run.state / "heads" / f"{number:012d}").glob("*.figures")
    ]
    yield measured(f"ours, join and save, of a task, {where}", busy, "ms", Target("<=", 30))
    yield from _times(_last(runs, sizes.small_measured), where)


# --- Other settings, other numbers of cores ---


def defaults(sizes: Sizes, settings: Mapping[str, str], folder: Path, say: Say) -> Iterator[Result]:
    """The same with the settings that Spark has by default."""
    full = filling(sizes.window, sizes.batch)
    large_ = (sizes.batch,) * (full + sizes.cold_warmups + sizes.measured)
    rest = (sizes.small_batch,) * (sizes.small_warmups + sizes.small_measured)
    streams = Streams(sizes.window, large_ + rest, sizes.matches)
    where = f"default settings, {_batches(sizes.batch, sizes.window)}"
    where_small = f"default settings, {_batches(sizes.small_batch, sizes.window)}"
    say(f"our join, the other checkout, the work-around, the empty task: {where}")
    streams.write(folder)
    hdfs = WORK_AROUNDS["HDFS-backed"]
    with ExitStack() as stack:
        entries = Sessions(stack, settings).entries(hdfs, EMPTY)
        runs = race(streams, folder, entries, full, sizes.summed)
    first = {name: run.seconds[len(large_) - sizes.measured : len(large_)] for name, run in runs.items()}
    yield from (_speedup(first, other, where, None) for other in (BEFORE, hdfs, EMPTY))
    yield from _rates(first, sizes.batch, where)
    last = _last(runs, sizes.small_measured)
    yield from (_share(last, other, where_small, None) for other in (BEFORE, EMPTY))
    yield from _times(last, where_small)


def many(
    sizes: Sizes, settings: Callable[[int], Mapping[str, str]], folder: Path, say: Say
) -> Iterator[Result]:
    """Processor time with many cores and partitions, against few; the machine may have fewer.

    A task costs Spark time whatever it does: the empty task tells how much of the ratio that is.
    """
    counts = (sizes.cores, sizes.many_cores)
    with ExitStack() as stack:
        sessions = [stack.enter_context(Session(settings(count))) for count in counts]
        entries = [
            (session, replace(kind, name=f"{kind.name}, {count} cores and partitions"))
            for kind in (OURS, EMPTY)
            for session, count in zip(sessions, counts, strict=True)
        ]
        for window, batch, warmups, count in (
            (sizes.large_window, sizes.large_batch, sizes.large_warmups, sizes.slow_measured),
            (sizes.window, sizes.batch, sizes.cold_warmups, sizes.measured),
        ):
            full, where = filling(window, batch), _batches(batch, window)
            streams = Streams(window, (batch,) * (full + warmups + count), sizes.matches)
            say(f"our join and the empty task, {counts[1]} cores and partitions against {counts[0]}: {where}")
            stock = folder / row_count(batch)
            streams.write(stock)
            runs = race(streams, stock, entries, full, sizes.summed)
            few, lots, empty_few, empty_lots = (run.cpu[-count:] for run in runs.values())
            what = f"processor time a row, {counts[1]} cores and partitions / {counts[0]}, {where}"
            if not few:
                note = "processor time is read from /proc, as Linux has it"
                yield missing(what, "x", Target("<=", 1.3), note)
                continue
            yield measured(what, ratios(lots, few), "x", Target("<=", 1.3))
            yield measured(f"{EMPTY.name}, {what}", ratios(empty_lots, empty_few), "x")
            for name, run in runs.items():
                times = [1e6 * seconds / batch for seconds in run.cpu[-count:]]
                yield measured(f"{name}, processor time a row, {where}", times, "µs")


def one_by_one(
    sizes: Sizes, settings: Mapping[str, str], better: Mapping[str, str], folder: Path, say: Say
) -> Iterator[Result]:
    """Our join with one better setting at a time, against none of them."""
    full = filling(sizes.window, sizes.batch)
    large_ = (sizes.batch,) * (full + sizes.cold_warmups + sizes.measured)
    rest = (sizes.small_batch,) * (sizes.small_warmups + sizes.small_measured)
    streams = Streams(sizes.window, large_ + rest, sizes.matches)
    say("our join, with one setting at a time")
    streams.write(folder)
    with ExitStack() as stack:
        entries = [(stack.enter_context(Session(settings)), OURS)]
        for setting, value in better.items():
            session = stack.enter_context(Session({**settings, setting: value}))
            entries.append((session, replace(OURS, name=setting.removeprefix("spark."))))
        runs = race(streams, folder, entries, full, sizes.summed)
    mine = runs.pop(OURS.name)
    batches_ = slice(len(large_) - sizes.measured, len(large_))
    for name, run in runs.items():
        for size, some in ((sizes.batch, batches_), (sizes.small_batch, slice(-sizes.small_measured, None))):
            what = f"time with {name} / with default settings, {_batches(size, sizes.window)}"
            yield measured(what, ratios(run.seconds[some], mine.seconds[some]), "x")


# --- Restart ---


def restart(sizes: Sizes, settings: Mapping[str, str], folder: Path, say: Say) -> Iterator[Result]:
    """From the start of the query to the end of a small micro-batch, in a new JVM with new workers.

    The checkpoint is that of the large windows. The start of the JVM is not in the time. The empty task tells
    how much of it is Spark's own.
    """
    say(f"restart with w={power(sizes.large_window)}")
    before = large_streams(sizes)
    batches = (*before.batches, *(sizes.small_batch,) * sizes.restarts)
    streams = Streams(before.window, batches, before.matches)
    streams.write(folder, len(before.batches))
    expected = streams.answers()
    samples: Times = {OURS.name: [], EMPTY.name: []}
    for number in range(len(before.batches), len(batches)):
        for contender in (OURS, EMPTY):
            with Session(settings) as session:
                seconds = restarted(session, streams, number, folder, contender, expected[number])
            samples[contender.name].append(seconds)
    size = row_count(sizes.small_batch)
    what = f"start to end of the first batch of {size} rows, w={power(sizes.large_window)}"
    yield measured(f"ours after a restart, {what}", samples[OURS.name], "s", Target("<=", 6))
    yield measured(f"{EMPTY.name} after a restart, {what}", samples[EMPTY.name], "s")
