"""All that streams need beyond an inner join on one band: sources, compound conditions, join types, recovery.

Rows have a key and two payload columns (int64, float64), sides alternate, windows are full. A ratio is one of
rates in input rows; which answers must be equal is said with each group. ``merge`` measures sources,
``recovery`` snapshots.
"""

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks import machine, merge, recovery
from benchmarks.arrow_streams import Following, Stream, TablePush, table_run
from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates, ratios
from benchmarks.report import Report, Result, Target, measured
from benchmarks.workload import Workload, power
from slidejoin.errors import StateError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.predicate import Predicate, band, equal
from slidejoin.window import Window, interval, rows
from slidejoin.window_join import WindowJoin


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    large: int = 2**20  # rows of a window, per side: compound conditions, snapshots
    middle: int = 2**17  # join types, sources, intervals
    tuples: int = 2**17  # arrivals of one run
    push: int = 2**13
    merge_rounds: int = 8  # of a run: each source has a push in it
    symbols: int = 1000
    few: int = 5
    plane_window: int = 8400
    plane_tuples: int = 2**13
    plane_push: int = 2**10  # a row finds hundreds of matches
    increments: tuple[int, ...] = (2**17, 2**13)
    rounds: int = 15
    information_rounds: int = MIN_ROUNDS
    matches: int = 2


QUICK = Sizes(
    large=2**10,
    middle=2**9,
    tuples=2**11,
    push=2**8,
    merge_rounds=2,
    symbols=16,
    few=2,
    plane_window=2**7,
    plane_tuples=2**9,
    plane_push=2**7,
    increments=(2**8, 2**6),
    rounds=2,
    information_rounds=1,
)


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    with one_core() as core:
        where = machine.describe(None)
        results = [
            *merge.lines(sizes.push, sizes.merge_rounds, sizes.middle, sizes.matches, sizes.rounds, say),
            *_symbols(sizes, say),
            *_plane(sizes, say),
            *_types(sizes, say),
            *_few_keys_and_time(sizes, say),
            *recovery.lines(sizes.large, sizes.push, sizes.increments, sizes.information_rounds, say),
        ]
    parameters = {**asdict(sizes), "core": core, "payload": "int64, float64"}
    return Report("streams", quick, machine.finished(where), parameters, results)


def _tables(
    stream: Stream, on: Predicate, window: Window, sizes: Sizes
) -> tuple[WindowJoin, Callable[[], Answer]]:
    """A full join, and what runs it."""
    join = stream.warm(on, window, sizes.push)
    return join, table_run(join, _following(stream, sizes))


def _following(stream: Stream, sizes: Sizes) -> Following[TablePush]:
    return Following(stream.arrivals, stream.workload.warm, sizes.tuples, sizes.push)


class Meter:
    """Counts what a full join finds from now on."""

    def __init__(self, join: WindowJoin) -> None:
        self._join = join
        self._before = join.stats

    def per_row(self) -> float:
        """Matches that an arrival found."""
        after = self._join.stats
        matches, left, right = (
            after[counter] - self._before[counter] for counter in ("matches", "rows_left", "rows_right")
        )
        return float(matches / (left + right))


def as_many(one: Meter, other: Meter) -> None:
    """Raise where two joins that should find as many matches do not."""
    found = one.per_row(), other.per_row()
    if min(found) < 0.9 * max(found):
        raise StateError(
            f"contenders find {found[0]:.3g} and {found[1]:.3g} matches a row, expected as many; "
            "a ratio of their speeds means nothing"
        )


# --- Equality and a band ---


def _symbols(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Equality of a symbol and a band, against a narrower band alone on the same rows: as many matches.

    Keys are whole numbers also where they are float64, so that types change no answer.
    """
    for count in (sizes.symbols, sizes.few):
        agreements = {"compound": Agreement(), "plain": Agreement()}
        for key, symbol in (("float64", "int32"), ("float64", "text"), ("int32", "int32")):
            headline = count == sizes.symbols and (key, symbol) == ("float64", "int32")
            what = f"{count} symbols as {symbol}, {key} band, w={power(sizes.large)}"
            say(f"equality and a band, {what}")
            yield from _against_plain(sizes, count, key, symbol, what, headline, agreements)


def _against_plain(
    sizes: Sizes,
    count: int,
    key: str,
    symbol: str,
    what: str,
    headline: bool,
    agreements: dict[str, Agreement],
) -> Iterable[Result]:
    workload = Workload(sizes.large, sizes.matches)
    other = Workload(sizes.large, seed=2)

    def columns(start: int, length: int) -> dict[str, Any]:
        numbers = other.keys(start, length) % count
        named = pa.array(numbers).cast(pa.string()) if symbol == "text" else numbers
        return {"key": workload.keys(start, length).astype(key), "symbol": named}

    stream = Stream(workload, extra=columns)
    wide = band("key", lower=count * workload.lower, upper=count * (workload.upper + 1) - 1)
    narrow = band("key", lower=workload.lower, upper=workload.upper)
    conditions = {"compound": equal("symbol") & wide, "plain": narrow}
    meters, contenders = {}, {}
    for name, on in conditions.items():
        join, run = _tables(stream, on, rows(sizes.large), sizes)
        meters[name], contenders[name] = Meter(join), agreements[name].contender(run)
    samples = alternate(contenders, sizes.rounds if headline else sizes.information_rounds)
    as_many(meters["compound"], meters["plain"])
    ratio = ratios(samples["plain"], samples["compound"])
    yield measured(f"equal & band / band alone, {what}", ratio, "x", Target(">=", 0.5) if headline else None)
    for name, label in (("compound", "equal & band"), ("plain", "band alone")):
        yield measured(f"{label}, {what}", rates(samples[name], sizes.tuples), "M tuples/s")
        if headline:
            yield measured(f"{label}, {what}, matches", [meters[name].per_row()], "per row")


# --- Two dimensions ---


def _plane(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Bands of ±10 on x (int32) and on y (float32), both uniform on 1 to 200: 1 % of a window matches.

    ``x & y`` and ``y & x`` index one band and filter by the other; their answers must be equal. The band on x
    alone has the candidates of ``x & y``, all of which match; the one of ±1 on y has as many matches.
    """
    workload = Workload(sizes.plane_window)
    plane = Sizes(**{**asdict(sizes), "tuples": sizes.plane_tuples, "push": sizes.plane_push})

    def columns(start: int, count: int) -> dict[str, Any]:
        x, y = (Workload(1, seed=seed).keys(start, count).view(np.uint32) for seed in (3, 4))
        return {"key": (1 + x % 200).astype(np.int32), "y": (1 + 199 * (y / 2**32)).astype(np.float32)}

    say(f"two bands, w={sizes.plane_window}")
    stream = Stream(workload, extra=columns)
    x, y = band("key", within=10), band("y", within=10)
    agreements = {"both": Agreement(), "x": Agreement(), "narrow": Agreement()}
    conditions = {
        "x & y": ("both", x & y),
        "y & x": ("both", y & x),
        "x": ("x", x),
        "narrow": ("narrow", band("y", within=1)),
    }
    meters, contenders = {}, {}
    for name, (kind, on) in conditions.items():
        join, run = _tables(stream, on, rows(sizes.plane_window), plane)
        meters[name], contenders[name] = Meter(join), agreements[kind].contender(run)
    samples = alternate(contenders, sizes.rounds)
    as_many(meters["x & y"], meters["narrow"])
    where = f"w={sizes.plane_window}, pushes of {sizes.plane_push}"
    labels = {
        "x": (f"two bands / band of as many candidates, {where}", Target(">=", 0.6)),
        "narrow": (f"two bands / band of as many matches, {where}", None),
    }
    for name, (label, target) in labels.items():
        yield measured(label, ratios(samples[name], samples["x & y"]), "x", target)
    names = {"x & y": "±10 on x & y", "y & x": "±10 on y & x", "x": "±10 on x", "narrow": "±1 on y"}
    for name, label in names.items():
        yield measured(f"band {label}, {where}", rates(samples[name], sizes.plane_tuples), "M tuples/s")
        yield measured(f"band {label}, {where}, matches", [meters[name].per_row()], "per row")


# --- Join types ---

# The parts of a result that several join types share.
PARTS = ("left of pairs", "right of pairs", "left alone", "right alone")
PARTNERS = 2  # of a row that has any


def half_matched(start: int, count: int, window: int) -> NDArray[np.int32]:
    """Keys of which half of the rows of each side find exactly two others within a distance of 1.

    Of four rows in a row on one side, two meet two of the four that come half a window later, or came
    earlier, on the other side; the next two meet none.
    """
    numbers = np.arange(start, start + count)
    right, position = numbers % 2, numbers // 2
    four, place = position // 4, position % 4
    leads = four % 2 == right  # even fours come first on the left, odd ones on the right
    cell = np.where(leads, four, four - window // 16 * 2)
    paired = 8 * _scattered(2 * cell) + np.where(right, 0, 1)
    alone = 8 * _scattered(2 * position + 1) + np.where(right, 6, 4)
    return (np.where(place < 2, paired, alone) - 2**30).astype(np.int32)


def _scattered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """A permutation of the numbers below 2^28, which are taken modulo that."""
    mask = 2**28 - 1
    mixed = (numbers * 0x9E3779B1) & mask
    mixed = ((mixed ^ (mixed >> 14)) * 0x85EBCA6B) & mask
    return mixed ^ (mixed >> 15)


def _types(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """All join types on the same rows: pairs, and rows without a partner, must agree wherever they show."""
    say(f"join types, w={power(sizes.middle)}")
    workload = Workload(sizes.middle)
    stream = Stream(workload, extra=lambda start, count: {"key": half_matched(start, count, sizes.middle)})
    agreements = {part: Agreement() for part in PARTS}
    contenders = {
        how: _type_run(
            how,
            stream.warm(band("key", within=1), rows(sizes.middle), sizes.push, type_.name),
            _following(stream, sizes),
            agreements,
        )
        for how, type_ in JOIN_TYPES.items()
    }
    samples = alternate(contenders, sizes.rounds)
    where = f"half of the rows unmatched, w={power(sizes.middle)}"
    for how in list(JOIN_TYPES)[1:]:
        target = Target(">=", 0.7) if how == "left" else None
        yield measured(f"{how} / inner, {where}", ratios(samples["inner"], samples[how]), "x", target)
    for how in JOIN_TYPES:
        yield measured(f"{how}, {where}", rates(samples[how], sizes.tuples), "M tuples/s")


def _type_run(
    how: str, join: WindowJoin, following: Following[TablePush], agreements: dict[str, Agreement]
) -> Callable[[], float]:
    compare = {part: agreement.comparison() for part, agreement in agreements.items()}

    def run() -> float:
        seconds = 0.0
        found: dict[str, list[int]] = {}
        with following as pushes:
            for push in pushes:
                begin = time.perf_counter()
                table = join.push(**push)
                seconds += time.perf_counter() - begin
                for part, (count, total) in parts_of(how, table).items():
                    sums = found.setdefault(part, [0, 0])
                    sums[0] += count
                    sums[1] += total
        for part, (count, total) in found.items():
            compare[part](Answer(seconds, count, total))
        return seconds

    return run


def parts_of(how: str, table: pa.Table) -> dict[str, tuple[int, int]]:
    """Count the rows of each part of a result and add up their ids."""
    type_ = JOIN_TYPES[how]
    left = table["id"]
    if type_.only is not None:
        side, times = ("left", "right")[type_.only], PARTNERS if type_.is_semi else 1
        part = f"{side} of pairs" if type_.is_semi else f"{side} alone"
        return {part: (times * len(left), times * _sum(left))}
    right = table["id_right"]
    no_left, no_right = pc.is_null(left), pc.is_null(right)
    pairs = pc.invert(pc.or_(no_left, no_right))
    parts = {"left of pairs": left.filter(pairs), "right of pairs": right.filter(pairs)}
    if type_.preserves[0]:
        parts["left alone"] = left.filter(no_right)
    if type_.preserves[1]:
        parts["right alone"] = right.filter(no_left)
    return {part: (len(ids), _sum(ids)) for part, ids in parts.items()}


def _sum(ids: pa.ChunkedArray) -> int:
    return pc.sum(ids).as_py() or 0


# --- Equality and event time ---


def _few_keys_and_time(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Equality alone in an interval window, as much wider as there are symbols: as many matches.

    Rows are held for as long as they may be late: as many as a window of rows holds.
    """
    workload = Workload(sizes.middle)
    meters, contenders = {}, {}
    few, many = str(sizes.few), str(sizes.symbols)
    for count in (sizes.few, sizes.symbols):
        say(f"equality of {count} symbols in an interval")
        stream = Stream(workload, extra=functools.partial(_timed_symbols, count))
        reach = 2 * sizes.matches * count  # in arrivals, of which every second is on the other side
        window = interval(reach, reach, time="ts", lateness=2 * sizes.middle)
        join, run = _tables(stream, equal("symbol"), window, sizes)
        meters[str(count)], contenders[str(count)] = Meter(join), Agreement().contender(run)
    samples = alternate(contenders, sizes.information_rounds)
    as_many(meters[few], meters[many])
    where = f"interval, {power(sizes.middle)} rows held per side"
    yield measured(f"equal of {few} symbols / of {many}, {where}", ratios(samples[many], samples[few]), "x")
    for name, seconds in samples.items():
        yield measured(f"equal of {name} symbols, {where}", rates(seconds, sizes.tuples), "M tuples/s")


def _timed_symbols(symbols: int, start: int, count: int) -> dict[str, Any]:
    numbers = Workload(1, seed=2).keys(start, count) % symbols
    return {"symbol": numbers, "ts": np.arange(start, start + count)}
