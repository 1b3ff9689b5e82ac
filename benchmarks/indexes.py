"""The indexes: against Abseil's tree, against each other, against NumPy, and what memory they take.

Tuple by tuple unless a line says batch, on one core. Every contender sees the same arrivals and must find the
same pairs, or the benchmark fails. A run is long enough for whatever an index does from time to time, merging
or beginning a subwindow, to fall into every run alike.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import machine
from benchmarks.arrow_streams import Following, NumericPushes, Stream, numeric_run
from benchmarks.foundation import Agreement
from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates, ratios
from benchmarks.numpy_peer import NUMPY_JOINS
from benchmarks.peer import about, program
from benchmarks.race import Programs, absl, duel, ours, race
from benchmarks.report import Report, Result, Target, measured, missing
from benchmarks.workload import Workload, power
from slidejoin.index import PARAMETERS

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    nested: int = 2**10  # windows, in tuples per side
    middle: int = 2**17
    large: int = 2**20
    huge: int = 2**23
    push: int = 2**13
    batch: int = 2**17  # against NumPy
    probes: int = 2**16  # arrivals of one run of probes with many matches
    many: int = 1024  # matches of such a probe
    tuples: int = 2**18  # arrivals of one run, at least
    rounds: int = 11
    huge_rounds: int = MIN_ROUNDS
    information_rounds: int = MIN_ROUNDS
    matches: int = 2


QUICK = Sizes(
    nested=2**6,
    middle=2**11,
    large=2**12,
    huge=2**13,
    push=2**9,
    batch=2**11,
    probes=2**10,
    many=64,
    tuples=2**12,
    rounds=2,
    huge_rounds=1,
    information_rounds=1,
)


def run(quick: bool, say: Say) -> Report:
    """Measure the targets, and every index's rate and memory; ``say`` is told what is under way."""
    return report("indexes", quick, QUICK if quick else Sizes(), say, lines)


def report(
    name: str, quick: bool, sizes: Sizes, say: Say, make: Callable[[Sizes, Programs, Say], Iterable[Result]]
) -> Report:
    """The report of these lines, measured on one core."""
    path = program()
    facts = about(path)
    with one_core() as core:
        where = machine.describe(facts["compiler"])
        results = list(make(sizes, Programs(path, facts["absl"]), say))
    parameters = {**asdict(sizes), "core": core, "keys": "uniform int32"}
    return Report(name, quick, machine.finished(where), parameters, results)


def lines(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """Targets first, information behind them."""
    yield from _trees(sizes, programs, say)
    yield from _chains(sizes, programs, say)
    yield from _inserts(sizes, programs, say)
    yield from _numpy(sizes, say)
    yield from _counts(sizes, programs, say)
    yield from _every_index(sizes, say)


def merging_tuples(sizes: Sizes, window: int, merge_ratio: float = 0.125) -> int:
    """Arrivals of a run in which each side's tree merges as often as in any other."""
    return max(sizes.tuples, round(2 * merge_ratio * window))


def sliding_tuples(sizes: Sizes, window: int) -> int:
    """Arrivals of a run that replace both windows, so that all their subwindows begin anew."""
    return max(sizes.tuples, 2 * window)


# --- Targets ---


def _trees(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    wanted = {
        sizes.large: ({"im-tree": Target(">=", 1.6), "pim-tree": Target(">=", 1.8)}, sizes.rounds),
        sizes.huge: ({"pim-tree": Target(">=", 1.8)}, sizes.huge_rounds),
    }
    for window, (targets, rounds) in wanted.items():
        names = {index: f"{index} / absl, w={power(window)}" for index in targets}
        path, note = programs.path, programs.missing(absl=True)
        if path is None or note:
            yield from (missing(names[index], "x", targets[index], note or "") for index in targets)
            continue
        say(f"{' and '.join(targets)} against absl, w={power(window)}")
        workload = Workload(window, sizes.matches)
        tuples = merging_tuples(sizes, window)
        contenders = {"absl": absl(workload, tuples)}
        contenders |= {index: ours(index, workload, tuples) for index in targets}
        outcome = race(path, contenders, rounds)
        for index, target in targets.items():
            yield measured(names[index], outcome.speedup(index, "absl"), "x", target)
        yield measured(f"absl, w={power(window)}", outcome.rates("absl"), "M tuples/s")
        yield measured(f"absl, memory, w={power(window)}", [outcome.bytes_per_tuple["absl"]], "bytes/tuple")


def _chains(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    what = f"ib-chain / b-chain, L=2, w={power(sizes.large)}"
    workload, tuples = Workload(sizes.large, sizes.matches), sliding_tuples(sizes, sizes.large)
    contenders = {
        index: ours(index, workload, tuples, parameters={"chain_length": 2})
        for index in ("ib-chain", "b-chain")
    }
    yield duel(programs, say, what, Target(">=", 1.3), contenders, sizes.information_rounds)


def _inserts(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    what = f"wib-tree / absl, inserts only, batches of {power(sizes.push)}, w={power(sizes.large)}"
    workload, window = Workload(sizes.large, sizes.matches), sizes.large
    push = str(sizes.push)
    contenders = {
        "wib-tree": ours("wib-tree", workload, window, sizes.push, shape="fill", push=push),
        "absl": absl(workload, window, shape="fill", push=push),
    }
    yield duel(programs, say, what, Target(">=", 3), contenders, sizes.rounds, absl=True)


def _counts(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    shape = f"m={sizes.many}, one-sided batches of {power(sizes.push)}, w={power(sizes.large)}"
    what = f"bi-sort, count / pairs, {shape}"
    workload = Workload(sizes.large, sizes.many)
    contenders = {
        mode: ours(
            "bi-sort", workload, sizes.probes, sizes.push, shape="probe", push=str(sizes.push), mode=mode
        )
        for mode in ("count", "push")
    }
    yield duel(programs, say, what, Target(">=", 10), contenders, sizes.rounds, checksums=False)


def contenders_of(
    joins: Mapping[str, NumericPushes], workload: Workload, tuples: int, push: int, start: int | None = None
) -> dict[str, Callable[[], float]]:
    """Runs of joins on the same arrivals in pushes of one size; they must find the same pairs.

    They go on from arrival ``start``, or from where their windows are just full.
    """
    cut, agreement = Stream(workload).numeric_arrivals, Agreement()
    begin = workload.warm if start is None else start
    return {
        name: agreement.contender(numeric_run(join, Following(cut, begin, tuples, push)))
        for name, join in joins.items()
    }


def alternated(
    joins: Mapping[str, NumericPushes],
    workload: Workload,
    tuples: int,
    push: int,
    rounds: int,
    start: int | None = None,
    warmups: int = 1,
) -> dict[str, list[float]]:
    """The times of such runs, in turns."""
    return alternate(contenders_of(joins, workload, tuples, push, start), rounds, warmups)


def full_numpy(name: str, workload: Workload, batch: int) -> NumericPushes:
    """A join of NumPy whose windows are full."""
    join: NumericPushes = NUMPY_JOINS[name](workload.window, workload.lower, workload.upper)
    for push in Stream(workload).numeric_arrivals(0, workload.warm, batch):
        join.push(*push)
    return join


def _numpy(sizes: Sizes, say: Say) -> Iterable[Result]:
    shape = f"batch {power(sizes.batch)}, w={power(sizes.batch)}"
    what = f"bi-sort / NumPy's best, {shape}"
    say(what)
    workload = Workload(sizes.batch, sizes.matches)
    tuples = max(sizes.tuples, 2 * sizes.batch)
    joins: dict[str, NumericPushes] = {"bi-sort": workload.join("bi-sort", group=sizes.batch)}
    joins |= {name: full_numpy(name, workload, sizes.batch) for name in NUMPY_JOINS}
    samples = alternated(joins, workload, tuples, sizes.batch, sizes.rounds)
    best = min(NUMPY_JOINS, key=lambda name: float(np.median(samples[name])))
    yield measured(what, ratios(samples[best], samples["bi-sort"]), "x", Target(">=", 4))
    for name in joins:
        label = name if name == "bi-sort" else f"NumPy, {name}"
        yield measured(f"{label}, from Python, {shape}", rates(samples[name], tuples), "M tuples/s")


# --- Information ---


def _every_index(sizes: Sizes, say: Say) -> Iterable[Result]:
    """Rate and memory of every index, through NumericJoin."""
    searched = [name for name in PARAMETERS if name != "nested-loop"]
    windows = {sizes.nested: ["nested-loop"], sizes.middle: searched, sizes.large: searched}
    for window, names in windows.items():
        workload = Workload(window, sizes.matches)
        tuples = sliding_tuples(sizes, window)
        for form, group in (("tuple by tuple", 1), (f"batch {power(sizes.push)}", sizes.push)):
            say(f"every index, {form}, w={power(window)}")
            joins = {name: workload.join(name, group) for name in names}
            samples = alternated(joins, workload, tuples, sizes.push, sizes.information_rounds)
            for name, join in joins.items():
                shape = f"{name}, {form}, w={power(window)}"
                yield measured(shape, rates(samples[name], tuples), "M tuples/s")
                stats = join.stats
                size = stats["memory_bytes"] / (stats["stored_left"] + stats["stored_right"])
                yield measured(f"{shape}, memory", [size], "bytes/tuple")
