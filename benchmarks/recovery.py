"""Recovery: what snapshots of a join cost, whole and incremental, on disk, and the way back.

The join has full windows of rows with an int64 key and two payload columns (int64, float64), and then a
string of 12 bytes too. A restored join must give, byte for byte, the snapshot that it was restored from.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrow_streams import Stream
from benchmarks.measure import alternate
from benchmarks.report import Result, measured
from benchmarks.workload import Workload, power
from slidejoin.errors import StateError
from slidejoin.predicate import band
from slidejoin.snapshot.chunks import Increment
from slidejoin.window import rows
from slidejoin.window_join import WindowJoin


def lines(
    window: int, push: int, increments: tuple[int, ...], rounds: int, say: Callable[[str], None]
) -> Iterable[Result]:
    """Measure snapshots of a join; ``increments`` are numbers of new rows."""
    workload = Workload(window)
    for payload in ("numbers", "strings"):
        say(f"snapshots, {payload}, w={power(window)}")

        def wide(start: int, count: int) -> dict[str, Any]:
            return {"key": workload.keys(start, count).astype(np.int64)}

        stream = Stream(workload, payload, wide)
        near = band("key", lower=workload.lower, upper=workload.upper)
        join = stream.warm(near, rows(window), push)
        what = f"{payload}, w={power(window)}"
        yield from _whole(join, what, rounds)
        yield from _incremental(join, stream, what, increments, rounds)


def _whole(join: WindowJoin, what: str, rounds: int) -> Iterable[Result]:
    stats = join.stats
    held = stats["stored_left"] + stats["stored_right"]
    data = join.snapshot()
    again = WindowJoin.restore(data)
    _same(again.snapshot(), data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        contenders = {
            "snapshot": _timed(join.snapshot),
            "snapshot to a file, with fsync": _timed(lambda: join.snapshot(path)),
            "write and fsync of its bytes alone": _timed(lambda: _write(path, data)),
            "restore": _timed(lambda: WindowJoin.restore(data)),
            "restore from the file": _timed(lambda: WindowJoin.restore(path)),
        }
        samples = alternate(contenders, rounds)
    for name, seconds in samples.items():
        yield measured(f"{name}, {what}", [_milliseconds(each, held) for each in seconds], "ms/M rows")
    yield measured(f"size of a snapshot, {what}", [len(data) / held], "bytes/row")
    yield measured(f"memory of the join, {what}", [stats["memory_bytes"] / held], "bytes/row")


def _incremental(
    join: WindowJoin, stream: Stream, what: str, increments: tuple[int, ...], rounds: int
) -> Iterable[Result]:
    at = stream.workload.warm
    kept: dict[str, bytes] = {}
    last: Increment | None = None

    def save() -> float:
        nonlocal last
        begin = time.perf_counter()
        last = join.snapshot_since(last.token if last else None)
        seconds = time.perf_counter() - begin
        kept.update(last.chunks)
        for dead in last.dead:
            del kept[dead]
        return seconds

    save()
    for new in increments:
        samples, sizes = [], []
        for turn in range(1 + rounds):
            join.push(arrivals=stream.table(at, new))
            at += new
            seconds = save()
            assert last is not None
            if turn:
                samples.append(seconds)
                sizes.append((len(last.head) + sum(map(len, last.chunks.values()))) / new)
        which = f"snapshot_since of {new} new rows, {what}"
        yield measured(which, [_milliseconds(each, new) for each in samples], "ms/M new rows")
        yield measured(f"{which}, each", [1e3 * each for each in samples], "ms")
        yield measured(f"{which}, size", sizes, "bytes/new row")
    assert last is not None
    head = last.head
    _same(WindowJoin.restore(head, chunks=kept).snapshot(), join.snapshot())
    held = join.stats["stored_left"] + join.stats["stored_right"]
    contender = {"restore": _timed(lambda: WindowJoin.restore(head, chunks=kept))}
    restores = alternate(contender, rounds)["restore"]
    which = f"restore from {len(kept)} chunks, {what}"
    yield measured(which, [_milliseconds(each, held) for each in restores], "ms/M rows")


def _timed(call: Callable[[], object]) -> Callable[[], float]:
    """Seconds of a call; what it returns is freed outside the time."""

    def run() -> float:
        begin = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - begin
        del result
        return seconds

    return run


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _same(found: bytes, expected: bytes) -> None:
    if found != expected:
        raise StateError("a restored join has another state than the one before; its speed means nothing")


def _milliseconds(seconds: float, count: int) -> float:
    return 1e9 * seconds / count
