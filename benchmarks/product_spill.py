"""Spilling: a join whose rows take four times the memory that it may have, in files and in memory; one core.

A row has an int32 key, two numbers and a text of 105 bytes, and two matches. The cap is on the memory of the
join; its rows are in files. The page cache is not part of it: the system keeps pages of files as long as it
has free memory, so that the headline is the speed with room for them. Two more lines tell what comes without.
In one the join also keeps no more than the cap mapped, so that most reads are page faults, served by the page
cache. In the other all pages are written out and dropped before each push, so that it reads from the disk.
The answers of all joins must be equal in every round.
"""

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.arrow_streams import Following, Stream, TablePush, table_run
from benchmarks.foundation import Agreement
from benchmarks.measure import MIN_ROUNDS, alternate, rates, ratios
from benchmarks.report import Result, Target, measured, missing
from benchmarks.workload import Workload, power
from slidejoin import spill
from slidejoin.predicate import band
from slidejoin.window import rows
from slidejoin.window_join import WindowJoin

ROW = 4 + 8 + 8 + 8 + 105  # bytes: key, id, x, an offset, text
MAPPED = "spilled, mapped pages within the cap, too"
PAGE_CACHE = (
    "spilling: the cap does not bound the page cache; on a machine whose memory is full, expect something "
    "between this line and the one with all pages on the disk"
)
MADV_PAGEOUT = 21
NO_PAGEOUT = "spilling: pages can be written out from Linux 5.4 on"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    cap: int = 2**26  # bytes of memory of the spilled join
    times: int = 4  # the cap, that the rows take at least
    tuples: int = 2**17  # arrivals of one run
    push: int = 2**13
    cold_pushes: int = 4
    rounds: int = MIN_ROUNDS
    matches: int = 2

    @property
    def window(self) -> int:
        """Rows of one side: a power of two."""
        return 1 << (self.times * self.cap // ROW // 2 - 1).bit_length()


QUICK = Sizes(cap=2**16, tuples=2**11, push=2**9, cold_pushes=1, rounds=1)


def lines(sizes: Sizes, say: Callable[[str], None], directory: Path | None = None) -> Iterable[Result]:
    """Measure both joins, the files in a directory of the given one, which must be on a disk."""
    workload = Workload(sizes.window, sizes.matches)
    stream = Stream(workload, extra=_text)
    what = f"rows {sizes.times}x the cap of {sizes.cap / 2**20:g} MiB, w={power(sizes.window)}"
    say(f"spilling, {what}")
    with TemporaryDirectory(dir=directory) as folder:
        joins = {
            name: _warm(stream, _join(workload, path, mapped), sizes)
            for name, path, mapped in (
                ("spilled", folder, None),
                (MAPPED, folder, sizes.cap),
                ("in memory", None, None),
            )
        }
        agreement = Agreement()
        samples = alternate(
            {
                name: agreement.contender(table_run(join, _following(stream, sizes)))
                for name, join in joins.items()
            },
            sizes.rounds,
        )
        target: Target | None = Target(">=", 0.3)
        for name in ("spilled", MAPPED):
            ratio = ratios(samples["in memory"], samples[name])
            yield measured(f"{name} / in memory, {what}", ratio, "x", target, PAGE_CACHE)
            target = None
        for name, seconds in samples.items():
            yield measured(f"{name}, {what}", rates(seconds, sizes.tuples), "M tuples/s")
        stats = joins["spilled"].stats
        held = stats["stored_left"] + stats["stored_right"]
        memory = stats["memory_bytes"]
        yield measured(
            f"memory of the spilled join / cap, {what}", [memory / sizes.cap], "x", Target("<=", 1)
        )
        yield measured(f"size of its files / cap, {what}", [stats["spilled_bytes"] / sizes.cap], "x")
        yield measured(f"memory of the spilled join, {what}", [memory / held], "bytes/row")
        yield measured(f"its files, {what}", [stats["spilled_bytes"] / held], "bytes/row")
        memory = joins["in memory"].stats["memory_bytes"]
        yield measured(f"memory of the join in memory, {what}", [memory / held], "bytes/row")
        yield _cold(joins["spilled"], stream, sizes, f"spilled, all pages on the disk before a push, {what}")


def _join(workload: Workload, path: str | None, mapped: int | None) -> WindowJoin:
    near = band("key", lower=workload.lower, upper=workload.upper)
    before, spill.MAPPED = spill.MAPPED, mapped
    try:
        return WindowJoin(near, rows(workload.window), spill=path)
    finally:
        spill.MAPPED = before


def _text(start: int, count: int) -> dict[str, Any]:
    digits = pc.utf8_lpad(pa.array(np.arange(start, start + count) % 10**7).cast(pa.string()), 7, "0")
    return {"text": pc.binary_repeat(digits, 15)}


def _warm(stream: Stream, join: WindowJoin, sizes: Sizes) -> WindowJoin:
    """Fill the windows of a join."""
    for push in _pushes(stream, 0, stream.workload.warm, max(sizes.push, sizes.window // 16)):
        join.push(**push)
    return join


def _pushes(stream: Stream, start: int, count: int, push: int) -> Iterator[TablePush]:
    """As ``Stream.arrivals``, made one at a time: all would take more memory than the join."""
    for at in range(start, start + count, push):
        yield from stream.arrivals(at, push, push)


def _following(stream: Stream, sizes: Sizes) -> Following[TablePush]:
    return Following(stream.arrivals, stream.workload.warm, sizes.tuples, sizes.push)


def _cold(join: WindowJoin, stream: Stream, sizes: Sizes, what: str) -> Result:
    """The speed of pushes that find no page of the files in memory."""
    at = stream.workload.warm + (sizes.rounds + 2) * sizes.tuples
    seconds = []
    for push in _pushes(stream, at, sizes.cold_pushes * sizes.push, sizes.push):
        if not drop_pages():
            return missing(what, "M tuples/s", None, NO_PAGEOUT)
        begin = time.perf_counter()
        join.push(**push)
        seconds.append(time.perf_counter() - begin)
    return measured(what, rates(seconds, sizes.push), "M tuples/s")


def drop_pages() -> bool:
    """Write the pages of all spilled rows of this process to the disk and drop them; False if it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, _, _, _, *name = line.split(maxsplit=5)
        if not name or not name[0].endswith("(deleted)"):
            continue
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_PAGEOUT):
            return False
    return True
