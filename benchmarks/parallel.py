"""Several workers: every strategy against the best serial join, and against what the papers say of theirs.

As many workers as this process may use cores, or as SLIDEJOIN_WORKERS says. Every ratio is one of speeds, of
joins that take turns on the same arrivals and find the same pairs, which come out in order; the targets are
those for two cores or for 16 and more, and with another number there are none. Keys are uniform int32 and a
probe meets two tuples unless a line says otherwise. A line with a paper's figure has no target: theirs were
16 threads of 8 cores.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

from benchmarks import machine, propagation, two_tables
from benchmarks.arrow_streams import Following, Stream, table_run
from benchmarks.foundation import Agreement
from benchmarks.measure import MIN_ROUNDS, alternate, rates, ratios
from benchmarks.report import Report, Result, Target, measured
from benchmarks.worker_race import Entrant, race
from benchmarks.workload import Gaussian, Workload, power
from slidejoin.cores import usable_cores
from slidejoin.errors import UsageError
from slidejoin.predicate import band
from slidejoin.window import rows

Say = Callable[[str], None]

WORKERS = "SLIDEJOIN_WORKERS"
SERIAL = ("auto", "bucket-tree", "sorted-run")
# Each strategy with the indexes that may be the best in it.
SHARED = (
    ("auto", "auto"),
    ("phases", "bucket-tree"),
    ("phases", "sorted-run"),
    ("shared-index", "pim-tree"),
    ("round-robin", "bucket-tree"),
    ("subwindows", "bi-sort"),
)
# Each strategy with the index that its paper has, or that it was made for.
TYPICAL = (
    ("phases", "bucket-tree"),
    ("shared-index", "pim-tree"),
    ("round-robin", "b-tree"),
    ("subwindows", "bi-sort"),
)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    small: int = 2**12  # windows, in tuples per side
    middle: int = 2**17
    large: int = 2**20
    batches: tuple[int, ...] = (2**13, 2**15)
    tuples: int = 2**19  # arrivals of one run; both trees of a pim-tree join merge as often in every run
    nested_tuples: int = 2**14
    many: int = 64  # matches of a probe
    many_tuples: int = 2**16
    merge_ratios: tuple[float, ...] = (0.0625, 0.125, 0.5, 1)
    counts: tuple[int, ...] = (1, 2, 4, 8, 16)  # of workers
    rounds: int = 7
    information_rounds: int = MIN_ROUNDS
    matches: int = 2
    tables: two_tables.Sizes = field(default_factory=two_tables.Sizes)
    queue: propagation.Sizes = field(default_factory=propagation.Sizes)


QUICK = Sizes(
    small=2**8,
    middle=2**9,
    large=2**10,
    batches=(2**8, 2**9),
    tuples=2**9,
    nested_tuples=2**8,
    many=16,
    many_tuples=2**8,
    merge_ratios=(0.125, 1),
    counts=(1, 2),
    rounds=1,
    information_rounds=1,
    tables=two_tables.QUICK,
    queue=propagation.QUICK,
)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes, workers = QUICK if quick else Sizes(), number_of_workers()
    where = machine.describe(None)
    results = [line for part in PARTS for line in part(sizes, workers, say)]
    parameters = {**asdict(sizes), "workers": workers, "keys": "uniform int32 unless a line says otherwise"}
    return Report("parallel", quick, machine.finished(where), parameters, results)


def number_of_workers() -> int:
    """The cores that this process may use, or what the variable says."""
    given = os.environ.get(WORKERS)
    workers = usable_cores() if given is None else int(given) if given.isdecimal() else 0
    if workers < 2:
        found = "this process may use one core" if given is None else f"{WORKERS}={given!r}"
        raise UsageError(f"{found}; expected two or more workers: set {WORKERS}=2")
    return workers


def target(workers: int, two: float, sixteen: float | None) -> Target | None:
    """What so many workers must reach."""
    if workers == 2:
        return Target(">=", two)
    return Target(">=", sixteen) if workers >= 16 and sixteen is not None else None


# --- Targets ---


def _best(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    workload = Workload(sizes.large, sizes.matches)
    serial = {f"{index}, 1 worker": Entrant(workload, index) for index in SERIAL}
    shared = {
        f"{strategy} with {index}, {workers} workers": Entrant(workload, index, strategy, workers)
        for strategy, index in SHARED
    }
    for batch, two in zip(sizes.batches, (1.5, 1.4), strict=True):
        shape = f"batches of {power(batch)}, w={power(sizes.large)}"
        what = f"best strategy / best serial, {shape}"
        say(what)
        finish = race(serial | shared, sizes.tuples, batch, sizes.rounds)
        yield finish.ratio(what, finish.best(shared), finish.best(serial), target(workers, two, 8))
        yield from finish.rates(shape)


def _window_join(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    push = sizes.batches[-1]
    shape = f"two payload columns, batches of {power(push)}, w={power(sizes.large)}"
    say(f"WindowJoin, {shape}")
    workload, agreement = Workload(sizes.large, sizes.matches), Agreement()
    stream, near = Stream(workload), band("key", lower=workload.lower, upper=workload.upper)
    contenders = {
        count: agreement.contender(
            table_run(
                stream.warm(near, rows(sizes.large), push, workers=count),
                Following(stream.arrivals, workload.warm, sizes.tuples, push),
            )
        )
        for count in (1, workers)
    }
    samples = alternate({str(count): turn for count, turn in contenders.items()}, sizes.rounds)
    ratio = ratios(samples["1"], samples[str(workers)])
    yield measured(f"WindowJoin, {workers} workers / 1, {shape}", ratio, "x", target(workers, 1.4, 6))
    for count, seconds in samples.items():
        yield measured(f"WindowJoin, workers={count}, {shape}", rates(seconds, sizes.tuples), "M tuples/s")


def _pim_tree(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    shape = f"batches of {power(sizes.batches[-1])}, w={power(sizes.large)}"
    say(f"pim-tree, shared, {shape}")
    workload = Workload(sizes.large, sizes.matches)
    own, one, robin = "shared pim-tree", "shared pim-tree, 1 worker", "round-robin with b-tree"
    blocking = "shared pim-tree, blocking merge"
    entrants = {
        "pim-tree": Entrant(workload, "pim-tree"),
        "pim-tree, groups of 16": Entrant(workload, "pim-tree", group=16),
        "b-tree": Entrant(workload, "b-tree"),
        one: Entrant(workload, "pim-tree", "shared-index", 1),
        own: Entrant(workload, "pim-tree", "shared-index", workers),
        blocking: Entrant(workload, "pim-tree", "shared-index(blocking_merge=1)", workers),
        robin: Entrant(workload, "b-tree", "round-robin", workers),
    }
    finish = race(entrants, sizes.tuples, sizes.batches[-1], sizes.rounds)
    ratio = finish.ratio
    yield ratio(f"{own}, {workers} workers / 1, {shape} (paper: 5.7x)", own, one, target(workers, 1.5, 6))
    yield ratio(f"{one} / serial, {shape} (paper: 0.6x)", one, "pim-tree", Target(">=", 0.7))
    yield ratio(f"{own} / {robin}, {shape}", own, robin, target(workers, 1.3, 3))
    yield ratio(f"{one} / serial, groups of 16, {shape}", one, "pim-tree, groups of 16")
    yield ratio(f"{own} / serial pim-tree, {shape} (paper: 3.7x)", own, "pim-tree")
    yield ratio(f"{own} / serial b-tree, {shape} (paper: 7.5x)", own, "b-tree")
    yield ratio(f"{robin} / serial b-tree, {shape} (paper: 2.5x)", robin, "b-tree")
    yield ratio(f"{blocking} / non-blocking, {shape} (paper: just above 1x)", blocking, own)
    yield from finish.rates(shape)


def _drift(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    shape = f"batches of {power(sizes.batches[-1])}, w={power(sizes.large)}"
    say(f"drifting keys, {shape}")
    kinds = {
        "uniform": Workload(sizes.large, sizes.matches),
        "stationary": Gaussian(sizes.large, sizes.matches),
        "drift": Gaussian(sizes.large, sizes.matches, drift=1),
    }
    strategies = {"shared pim-tree": ("pim-tree", "shared-index"), "phases": ("bucket-tree", "phases")}
    entrants = {
        f"{name}, {kind}": Entrant(workload, *how, workers)
        for kind, workload in kinds.items()
        for name, how in strategies.items()
    }
    finish = race(entrants, sizes.tuples, sizes.batches[-1], sizes.information_rounds)
    for name, least, paper in (("shared pim-tree", 0.4, " (paper: 0.16x)"), ("phases", 0.7, "")):
        what = f"{name}, drift r=1 / stationary Gauss, {workers} workers, {shape}{paper}"
        yield finish.ratio(what, f"{name}, drift", f"{name}, stationary", Target(">=", least))
    for name, paper in (("shared pim-tree", " (paper: 0.98x)"), ("phases", "")):
        what = f"{name}, stationary Gauss / uniform, {workers} workers, {shape}{paper}"
        yield finish.ratio(what, f"{name}, stationary", f"{name}, uniform")


def _propagation(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    return propagation.lines(sizes.queue, workers, say)


def _tables(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    say(f"sj.join, {workers} workers")
    tables = two_tables.Tables.of(sizes.tables)
    yield two_tables.several(tables, sizes.tables, workers, target(workers, 1.7, 9))


# --- Information ---


def _threads(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    counts = [count for count in sizes.counts if count <= workers]
    for window in (sizes.middle, sizes.large):
        shape = f"batches of {power(sizes.batches[-1])}, w={power(window)}"
        say(f"1 to {counts[-1]} workers, {shape}")
        workload = Workload(window, sizes.matches)
        entrants = {
            f"{strategy} with {index}, workers={count}": Entrant(workload, index, strategy, count)
            for strategy, index in TYPICAL
            for count in counts
        }
        finish = race(entrants, sizes.tuples, sizes.batches[-1], sizes.information_rounds)
        yield from finish.rates(shape)
        for strategy, index in TYPICAL:
            name = f"{strategy} with {index}, workers="
            for count in counts[1:]:
                yield finish.ratio(f"{name}{count} / 1, {shape}", f"{name}{count}", f"{name}1")


def _nested_loops(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    """What round-robin was made for, and what PanJoin is compared with."""
    shape = f"batches of {power(sizes.batches[0])}, w={power(sizes.middle)}"
    say(f"nested loops, {shape}")
    workload = Workload(sizes.middle, sizes.matches)
    robin = "round-robin with nested-loop"
    entrants = {
        "nested-loop": Entrant(workload, "nested-loop"),
        robin: Entrant(workload, "nested-loop", "round-robin", workers),
    }
    papers = {"bi-sort": "above 1000x at 2^23", "rap-table": "above 100x", "wib-tree": "above 100x"}
    for index in papers:
        entrants[f"subwindows with {index}"] = Entrant(workload, index, "subwindows", workers)
    finish = race(entrants, sizes.nested_tuples, sizes.batches[0], sizes.information_rounds)
    yield finish.ratio(f"{robin}, {workers} workers / serial, {shape} (paper: 8x)", robin, "nested-loop")
    for index, paper in papers.items():
        name = f"subwindows with {index}"
        yield finish.ratio(f"{name} / {robin}, {workers} workers, {shape} (paper: {paper})", name, robin)
    one, other = "subwindows with rap-table", "subwindows with wib-tree"
    yield finish.ratio(f"{one} / {other}, {workers} workers, {shape} (paper: 1.5x)", one, other)


def _self_join(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    shape = f"self-join, batches of {power(sizes.batches[-1])}, w={power(sizes.large)}"
    say(shape)
    workload = Workload(sizes.large, sizes.matches)
    shared, phases = ("pim-tree", "shared-index"), ("bucket-tree", "phases")
    entrants = {
        "serial": Entrant(workload, "bucket-tree", self_join=True),
        "phases": Entrant(workload, *phases, workers, self_join=True),
        "serial pim-tree": Entrant(workload, "pim-tree", self_join=True),
        "one": Entrant(workload, *shared, 1, self_join=True),
        "shared": Entrant(workload, *shared, workers, self_join=True),
    }
    finish = race(entrants, sizes.tuples, sizes.batches[-1], sizes.information_rounds)
    yield finish.ratio(f"phases, {workers} workers / serial, {shape}", "phases", "serial")
    yield finish.ratio(f"shared pim-tree, {workers} workers / 1, {shape} (paper: 5x)", "shared", "one")
    what = f"shared pim-tree, 1 worker / serial, {shape} (paper: 0.74x)"
    yield finish.ratio(what, "one", "serial pim-tree")


def _many_matches(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    shape = f"m={sizes.many}, batches of {power(sizes.batches[0])}, w={power(sizes.large)}"
    say(shape)
    workload = Workload(sizes.large, sizes.many)
    entrants = {
        "serial": Entrant(workload, "bucket-tree"),
        "phases": Entrant(workload, "bucket-tree", "phases", workers),
        "one": Entrant(workload, "pim-tree", "shared-index", 1),
        "shared": Entrant(workload, "pim-tree", "shared-index", workers),
    }
    finish = race(entrants, sizes.many_tuples, sizes.batches[0], sizes.information_rounds)
    yield finish.ratio(f"phases, {workers} workers / serial, {shape}", "phases", "serial")
    yield finish.ratio(f"shared pim-tree, {workers} workers / 1, {shape}", "shared", "one")


def _merge_ratios(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    """The window is so small that trees merge in every run, even with the largest ratio."""
    shape = f"{workers} workers, batches of {power(sizes.batches[-1])}, w={power(sizes.middle)}"
    say(f"merge ratios, {shape}")
    workload = Workload(sizes.middle, sizes.matches)
    entrants = {
        str(ratio): Entrant(workload, f"pim-tree(merge_ratio={ratio})", "shared-index", workers)
        for ratio in sizes.merge_ratios
    }
    finish = race(entrants, sizes.tuples, sizes.batches[-1], sizes.information_rounds)
    for ratio in sizes.merge_ratios[:-1]:
        most = sizes.merge_ratios[-1]
        what = f"shared pim-tree, merge ratio {most:g} / {ratio:g}, {shape} (paper: above 1x)"
        yield finish.ratio(what, str(most), str(ratio))


def _small_window(sizes: Sizes, workers: int, say: Say) -> Iterable[Result]:
    shape = f"batches of {power(sizes.batches[0])}, w={power(sizes.small)}"
    say(f"shared pim-tree, {shape}")
    workload = Workload(sizes.small, sizes.matches)
    entrants = {
        "serial": Entrant(workload, "pim-tree"),
        "shared": Entrant(workload, "pim-tree", "shared-index", workers),
    }
    finish = race(entrants, sizes.tuples, sizes.batches[0], sizes.information_rounds)
    what = f"shared pim-tree, {workers} workers / serial pim-tree, {shape} (paper: below 1x)"
    yield finish.ratio(what, "shared", "serial")


PARTS = (
    _best,
    _window_join,
    _pim_tree,
    _drift,
    _propagation,
    _tables,
    _threads,
    _nested_loops,
    _self_join,
    _many_matches,
    _merge_ratios,
    _small_window,
)
