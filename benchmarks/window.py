"""WindowJoin: what rows cost on top of keys, against NumericJoin on the same arrivals; one core.

Each side has an int32 key and two payload columns (int64, float64), and in the second group of lines a
string of 12 bytes too. NumericJoin gets the keys and returns positions; WindowJoin gets tables of Arrow,
stores the rows and returns tables of matches. Both have the index that ``auto`` chooses; a NumericJoin on a
b-tree, which earlier figures were held against, is information. The arrivals are the same, in two forms:
both sides in turn in one batch (the headline, ``push(arrivals=...)``), and a batch of left rows, then one of
right rows. A row's ``id`` is its position on its side, so that the sums of both answers must be equal in
every round. The last group of lines compares small and large pushes with another checkout (``checkouts``).
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import checkouts, machine
from benchmarks.arrow_streams import (
    Cut,
    Following,
    NumericPush,
    Stream,
    TablePush,
    numeric_run,
    table_run,
    throughput,
)
from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates, ratios
from benchmarks.report import Report, Result, Target, measured
from benchmarks.workload import Workload, power
from slidejoin import live, window_join
from slidejoin.bound_join import BoundJoin
from slidejoin.numeric import NumericJoin
from slidejoin.predicate import Predicate, band, equal
from slidejoin.result import RowStore
from slidejoin.source import Side
from slidejoin.window import Window, interval, rows, within
from slidejoin.window_join import WindowJoin


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    window: int = 2**17  # tuples per side
    tuples: int = 2**17  # arrivals of one run
    push: int = 2**13
    one_shot: int = 10**5
    symbols: int = 1024  # values of the column that equality compares
    rounds: int = 25
    information_rounds: int = MIN_ROUNDS
    matches: int = 2


QUICK = Sizes(
    window=2**9, tuples=2**11, push=2**8, one_shot=10**3, symbols=16, rounds=2, information_rounds=1
)


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    with one_core() as core:
        where = machine.describe(None)
        results = [
            *_against_numeric(sizes, "numbers", Target(">=", 0.85), say),
            *_against_numeric(sizes, "strings", Target(">=", 0.6), say),
            *_profile(sizes, say),
            *_windows(sizes, say),
            *_conditions(sizes, say),
            *_out_of_order(sizes, say),
            *_one_shot(sizes, say),
            *checkouts.lines(
                checkouts.QUICK if quick else (*checkouts.SMALL, *checkouts.LARGE), sizes.rounds, say
            ),
        ]
        other = checkouts.other_commit()
    parameters = {**asdict(sizes), "core": core, "keys": "uniform int32", "payload": "int64, float64"}
    parameters["other checkout"] = other
    return Report("window", quick, machine.finished(where), parameters, results)


def _following(stream: Stream, sizes: Sizes) -> Following[TablePush]:
    return Following(stream.arrivals, stream.workload.warm, sizes.tuples, sizes.push)


def _band(workload: Workload) -> Predicate:
    return band("key", lower=workload.lower, upper=workload.upper)


def _against_numeric(
    sizes: Sizes, payload: str, target: Target, say: Callable[[str], None]
) -> Iterable[Result]:
    workload = Workload(sizes.window, sizes.matches)
    stream = Stream(workload, payload)
    forms: dict[str, tuple[Cut[NumericPush], Cut[TablePush]]] = {
        f"both sides in a push of {sizes.push}": (stream.numeric_arrivals, stream.arrivals),
        f"one side in a push of {sizes.push // 2}": (stream.numeric_one_sided, stream.one_sided),
    }
    for form, (numeric_cut, table_cut) in forms.items():
        what = f"{payload}, {form}, w={power(sizes.window)}"
        say(f"WindowJoin against NumericJoin, {what}")
        agreement = Agreement()
        join = stream.warm(_band(workload), rows(sizes.window), sizes.push)
        size = (workload.warm, sizes.tuples, sizes.push)
        contenders = {"WindowJoin": agreement.contender(table_run(join, Following(table_cut, *size)))}
        for name, index in (("NumericJoin", "auto"), ("NumericJoin on a b-tree", "b-tree")):
            numeric = numeric_run(workload.join(index), Following(numeric_cut, *size))
            contenders[name] = agreement.contender(numeric)
        samples = alternate(contenders, sizes.rounds)
        for name in list(contenders)[1:]:
            ratio = ratios(samples[name], samples["WindowJoin"])
            wanted = target if name == "NumericJoin" else None
            yield measured(f"WindowJoin / {name}, {what}", ratio, "x", wanted)
        for name in contenders:
            yield measured(f"{name}, {what}", rates(samples[name], sizes.tuples), "M tuples/s")


# --- Where the time of a push goes ---

# Stages of a push, and the functions whose time is theirs, less what they spend in those of other stages.
STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "read and split": ((window_join, "to_table"), (window_join, "split_arrivals"), (Side, "check")),
    "extract keys": ((BoundJoin, "read"),),
    "native join": ((BoundJoin, "push"),),
    "store rows": ((RowStore, "batch"), (RowStore, "extended"), (RowStore, "add")),
    "build the table": ((live, "matched_rows"),),
    "drop rows": ((RowStore, "limit"),),
}
REST = "everything else"


@contextlib.contextmanager
def timed_stages() -> Iterator[dict[str, float]]:
    """Time the stages of every push while this is open: seconds by stage."""
    spent = dict.fromkeys(STAGES, 0.0)
    inner = [0.0]  # seconds in stages called by the ones under way

    def timed(call: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def measure(*arguments: Any, **options: Any) -> Any:
            inner.append(0.0)
            begin = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                seconds = time.perf_counter() - begin
                spent[stage] += seconds - inner.pop()
                inner[-1] += seconds

        return measure

    with contextlib.ExitStack() as stack:
        for stage, functions in STAGES.items():
            for owner, name in functions:
                call = getattr(owner, name)
                stack.callback(setattr, owner, name, call)
                setattr(owner, name, timed(call, stage))
        yield spent


def _profile(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    workload = Workload(sizes.window, sizes.matches)
    for payload in ("numbers", "strings"):
        say(f"where the time of a push goes, {payload}")
        stream = Stream(workload, payload)
        join = stream.warm(_band(workload), rows(sizes.window), sizes.push)
        push = table_run(join, _following(stream, sizes))
        shares: dict[str, list[float]] = {stage: [] for stage in (*STAGES, REST)}
        push()
        for _ in range(sizes.information_rounds):
            with timed_stages() as spent:
                total = push().seconds
            for stage, seconds in {**spent, REST: total - sum(spent.values())}.items():
                shares[stage].append(100 * seconds / total)
        for stage, samples in shares.items():
            yield measured(f"share of a push, {payload}: {stage}", samples, "%")


# --- Information ---


def _windows(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Three windows that let an arrival see the same rows; their answers must be equal."""
    say("windows of rows, within and interval")
    workload = Workload(sizes.window, sizes.matches)
    stream = Stream(workload, extra=lambda start, count: {"ts": np.arange(start, start + count)})
    span = 2 * sizes.window
    windows: dict[str, Window] = {
        "rows": rows(sizes.window),
        "within": within(span, time="ts"),
        "interval": interval(span, span, time="ts", lateness=sizes.push),
    }
    agreement = Agreement()
    contenders = {
        f"WindowJoin, {name}, w={power(sizes.window)}": agreement.contender(
            table_run(stream.warm(_band(workload), window, sizes.push), _following(stream, sizes))
        )
        for name, window in windows.items()
    }
    yield from throughput(contenders, sizes.tuples, sizes.information_rounds)


def _conditions(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Equality and a band: the band is as much wider as there are symbols."""
    say("equality and a band")
    workload = Workload(sizes.window, sizes.matches)

    def symbols(start: int, count: int) -> dict[str, Any]:
        numbers = Workload(sizes.window, seed=2).keys(start, count) % sizes.symbols
        return {"symbol": numbers, "text": pa.array(numbers).cast(pa.string())}

    stream = Stream(workload, extra=symbols)
    near = band("key", within=sizes.symbols * workload.width // 2)
    agreement = Agreement()
    contenders = {
        f"WindowJoin, equal {kind} of {sizes.symbols} and band, w={power(sizes.window)}": (
            agreement.contender(
                table_run(
                    stream.warm(equal(column) & near, rows(sizes.window), sizes.push),
                    _following(stream, sizes),
                )
            )
        )
        for kind, column in (("int32", "symbol"), ("string", "text"))
    }
    yield from throughput(contenders, sizes.tuples, sizes.information_rounds)


def _out_of_order(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Event time: three rows in ten are behind by up to the lateness, so that none is late."""
    say("rows out of order")
    workload = Workload(sizes.window, sizes.matches)
    span = 2 * sizes.window

    def columns(start: int, count: int) -> dict[str, Any]:
        numbers = Workload(sizes.window, seed=3).keys(start, count).astype(np.int64) % (10 * sizes.push)
        behind = np.where(numbers % 10 < 3, numbers // 10, 0)
        symbols = Workload(sizes.window, seed=2).keys(start, count) % sizes.symbols
        return {"ts": np.arange(start, start + count) - behind, "symbol": symbols}

    stream = Stream(workload, extra=columns)
    near = band("key", within=sizes.symbols * workload.width // 2)
    conditions = {
        "interval": _band(workload),
        f"interval, equal int32 of {sizes.symbols} and band": equal("symbol") & near,
    }
    window = interval(span, span, time="ts", lateness=sizes.push)
    contenders = {
        f"WindowJoin, {name}, 30 % of the rows out of order, w={power(sizes.window)}": Agreement().contender(
            table_run(stream.warm(on, window, sizes.push), _following(stream, sizes))
        )
        for name, on in conditions.items()
    }
    yield from throughput(contenders, sizes.tuples, sizes.information_rounds)


def _one_shot(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """One batch into a new join."""
    what = f"one batch of {sizes.one_shot} into a new join"
    say(what)
    workload = Workload(sizes.window, sizes.matches)
    stream = Stream(workload)
    whole = (0, sizes.one_shot, sizes.one_shot)

    def numeric() -> Answer:
        join = NumericJoin(sizes.window, workload.lower, workload.upper, np.int32)
        return numeric_run(join, Following(stream.numeric_arrivals, *whole))()

    def table() -> Answer:
        join = WindowJoin(_band(workload), rows(sizes.window))
        return table_run(join, Following(stream.arrivals, *whole))()

    agreement = Agreement()
    contenders = {"NumericJoin": agreement.contender(numeric), "WindowJoin": agreement.contender(table)}
    samples = alternate(contenders, sizes.information_rounds)
    yield measured(
        f"WindowJoin / NumericJoin, {what}", ratios(samples["NumericJoin"], samples["WindowJoin"]), "x"
    )
    for name, seconds in samples.items():
        yield measured(f"{name}, {what}", rates(seconds, sizes.one_shot), "M tuples/s")
