"""Merging sources: five physical streams, three on the left and two on the right, become one sequence.

Every source brings pushes of one size in turn, and its times rise at random within a span that is the same
for all. *In step* the spans of a round are equal, so the last source of a round releases the rows of all;
*shifted* each source is a fifth of a span ahead of the one before it, so that every push releases a fifth.
The contenders must hand out the same rows in the same order, which a sort of all times states once more.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.arrow_streams import Following, TablePush, checksum, table_run
from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import alternate, rates, ratios
from benchmarks.report import Result, Target, measured
from benchmarks.workload import Workload, power
from slidejoin.order import Order
from slidejoin.predicate import band
from slidejoin.window import rows
from slidejoin.window_join import WindowJoin

SOURCES = ((0, "a"), (0, "b"), (0, "c"), (1, "d"), (1, "e"))
_SIDES = ("left", "right")


class SourcePush(NamedTuple):
    """One push into a source."""

    source: int
    table: pa.Table
    times: NDArray[np.int64]


class Streams:
    """The rows of all sources, by the number of a round: each source has a push in it.

    No two sources have a time in common. ``id`` is the number of a row among all.
    """

    def __init__(
        self, push: int, payload: int = 0, shifted: bool = False, keys: Workload | None = None
    ) -> None:
        self.push = push
        self._payload = payload
        self._shifted = shifted
        self._keys = keys

    @property
    def round(self) -> int:
        """Rows of a round."""
        return len(SOURCES) * self.push

    def times(self, source: int, number: int) -> NDArray[np.int64]:
        """Times of a source's push."""
        span = 10 * self.push
        first = number * span + (source * span // len(SOURCES) if self._shifted else 0)
        steps = np.random.default_rng((source, number)).integers(0, span, self.push)
        return (first + np.sort(steps)) * len(SOURCES) + source

    def table(self, source: int, number: int) -> pa.Table:
        """Rows of a source's push: the time alone, or with a key and an id, or with payload columns."""
        columns: dict[str, Any] = {"ts": self.times(source, number)}
        ids = (len(SOURCES) * number + source) * self.push + np.arange(self.push)
        if self._keys is not None:
            columns |= {"key": self._keys.keys(int(ids[0]), self.push), "id": ids}
        columns |= {f"x{i}": ids * 0.25 + i for i in range(self._payload)}
        return pa.table(columns)

    def pushes(self, start: int, count: int, _push: int) -> list[SourcePush]:
        """Pushes of all rounds that these rows make."""
        return [
            SourcePush(source, self.table(source, number), self.times(source, number))
            for number in range(start // self.round, (start + count) // self.round)
            for source in range(len(SOURCES))
        ]

    def merged(self, start: int, count: int, _push: int) -> list[TablePush]:
        """The same rows as arrivals of both sides: all that a round makes ready, by a sort of their times."""
        return [
            {"arrivals": self._released(number)}
            for number in range(start // self.round, (start + count) // self.round)
        ]

    def _released(self, number: int) -> pa.Table:
        parts = []
        for source, (side, _) in enumerate(SOURCES):
            for each in (number - 1, number) if number else (number,):
                table = self.table(source, each)
                parts.append(table.append_column("side", pa.array(np.full(self.push, side, np.uint8))))
        both = pa.concat_tables(parts)
        after = self._bound(number - 1) if number else -1
        times = both["ts"].to_numpy()
        ready = np.flatnonzero((times > after) & (times <= self._bound(number)))
        return both.take(ready[np.argsort(times[ready], kind="stable")]).combine_chunks()

    def _bound(self, number: int) -> int:
        """The time up to which rows are ready after a round."""
        return min(int(self.times(source, number)[-1]) for source in range(len(SOURCES)))


def lines(
    push: int, rounds_of_a_run: int, window: int, matches: float, rounds: int, say: Callable[[str], None]
) -> Iterable[Result]:
    """Measure the merge alone, and the way of rows through the sources of a join."""
    tuples = rounds_of_a_run * len(SOURCES) * push
    shape = f"5 sources in pushes of {push}"
    plain, wide = (f"Order.push + commit, {columns}, {shape}" for columns in ("times", "times and 3 columns"))
    for shifted in (False, True):
        say(f"merge of {shape}{', shifted' if shifted else ''}")
        agreement = Agreement()
        kinds = {plain: Streams(push, 0, shifted), wide: Streams(push, 3, shifted)}
        runs = {
            what: _order_run(Following(streams.pushes, 0, tuples, push)) for what, streams in kinds.items()
        }
        runs["sort"] = _sort_run(Following(kinds[plain].merged, 0, tuples, push))
        samples = alternate({what: agreement.contender(run) for what, run in runs.items()}, rounds)
        state = "shifted" if shifted else "in step"
        for what in kinds:
            target = Target(">=", 20) if what == plain and not shifted else None
            yield measured(f"{what}, {state}", rates(samples[what], tuples), "M rows/s", target)
    yield from _joined(push, tuples, window, matches, rounds, say)


def _order_run(following: Following[SourcePush]) -> Callable[[], Answer]:
    """A run of an Order: tables and times in, sides and tables out."""
    order = Order(strict=True)
    for source in SOURCES:
        order.add(*source)

    def run() -> Answer:
        seconds = 0.0
        found = _Sequence()
        with following as pushes:
            for source, table, times in pushes:
                begin = time.perf_counter()
                ready = order.push(*SOURCES[source], table, times, None)
                order.commit(ready)
                seconds += time.perf_counter() - begin
                merged = np.empty(len(ready.sides), np.int64)
                for side, rows_ in ready.tables.items():
                    merged[ready.sides == side] = rows_["ts"].to_numpy()
                found.add(ready.sides, merged)
        return found.answer(seconds)

    return run


def _sort_run(following: Following[TablePush]) -> Callable[[], Answer]:
    """What the order must be; its time means nothing."""

    def run() -> Answer:
        found = _Sequence()
        with following as pushes:
            for push in pushes:
                table = push["arrivals"]
                found.add(table["side"].to_numpy(), table["ts"].to_numpy())
        return found.answer(1.0)

    return run


class _Sequence:
    """Adds up rows so that another order gives another sum."""

    def __init__(self) -> None:
        self._rows = self._sum = 0

    def add(self, sides: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        places = np.arange(self._rows + 1, self._rows + 1 + len(sides), dtype=np.uint64)
        values = 2 * times.astype(np.uint64) + sides
        self._sum = (self._sum + int((places * values).sum())) % 2**64
        self._rows += len(sides)

    def answer(self, seconds: float) -> Answer:
        return Answer(seconds, self._rows, self._sum)


def _joined(
    push: int, tuples: int, window: int, matches: float, rounds: int, say: Callable[[str], None]
) -> Iterable[Result]:
    """The way through ``WindowJoin.source``, and the same rows merged before they are pushed."""
    say("sources of a WindowJoin")
    workload = Workload(window, matches)
    streams = Streams(push, 1, keys=workload)
    near = band("key", lower=workload.lower, upper=workload.upper)
    full = -(-workload.warm // streams.round) * streams.round  # the right side has two rows of five
    joins = {name: WindowJoin(near, rows(window)) for name in ("sources", "merged")}
    handles = [joins["sources"].source(_SIDES[side], name, time="ts") for side, name in SOURCES]
    for each in streams.pushes(0, full, push):
        handles[each.source].push(each.table)
    for arrivals in streams.merged(0, full, push):
        joins["merged"].push(**arrivals)
    following = Following(streams.pushes, full, tuples, push)

    def through_sources() -> Answer:
        seconds = 0.0
        found = left_sum = right_sum = 0
        with following as pushes:
            for source, table, _ in pushes:
                begin = time.perf_counter()
                result = handles[source].push(table)
                seconds += time.perf_counter() - begin
                found += result.num_rows
                left_sum += pc.sum(result["id"]).as_py() or 0
                right_sum += pc.sum(result["id_right"]).as_py() or 0
        return Answer(seconds, found, checksum(left_sum, right_sum))

    agreement = Agreement()
    merged = table_run(joins["merged"], Following(streams.merged, full, tuples, push))
    contenders = {"sources": agreement.contender(through_sources), "merged": agreement.contender(merged)}
    samples = alternate(contenders, rounds)
    shape = f"w={power(window)}, 5 sources in pushes of {push}, in step"
    names = {
        "sources": "WindowJoin.source, merge and join",
        "merged": "WindowJoin.push of the same rows, merged",
    }
    for name, what in names.items():
        yield measured(f"{what}, {shape}", rates(samples[name], tuples), "M rows/s")
    ratio = ratios(samples["merged"], samples["sources"])
    yield measured(f"WindowJoin.source / push of merged rows, {shape}", ratio, "x")
