"""The bucket-tree: against Abseil's tree, the papers' structures and NumPy, on all kinds of keys.

One core, keys of 32 bits that are uniform unless a line says otherwise (``benchmarks/peers/keys.hpp``), two
matches a probe. Whatever is compared on the same arrivals must find the same pairs, or the benchmark fails.
Ratios are speeds; a line without a target is information.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from benchmarks import two_tables
from benchmarks.arrow_streams import NumericPushes
from benchmarks.foundation import Agreement, Answer
from benchmarks.indexes import Say, alternated, full_numpy, report
from benchmarks.indexes import Sizes as TableSizes
from benchmarks.measure import rates, ratios
from benchmarks.numpy_peer import NUMPY_JOINS
from benchmarks.peer import Peer
from benchmarks.race import Contender, Programs, absl, duel, ours, race
from benchmarks.report import Report, Result, Target, measured, missing
from benchmarks.workload import Workload, power
from slidejoin import isa

GROUP = 16
BATCH = 256  # with many matches
PAPERS = (
    ("im-tree", GROUP),
    ("im-tree", BATCH),
    ("ib-chain", GROUP),
    ("ib-chain", BATCH),
    ("pim-tree", GROUP),
    ("bi-sort", GROUP),
)
LEVELS = ("avx512", "avx2", "portable")
NO_AVX512 = "needs a processor with AVX-512, and a build for it and for AVX2"

# Keys by their names in the native programs.
SKEWED = {
    "gauss": "Gauss",
    "gamma1": "Gamma(1, 5)",
    "gamma3": "Gamma(3, 3)",
    "drift0.1": "drift of 0.1",
    "drift0.4": "drift of 0.4",
    "drift1.0": "drift of 1.0",
    "sawtooth": "sawtooth",
    "abrupt": "abrupt",
}


@dataclass(frozen=True)
class Sizes(TableSizes):
    """How much is measured."""

    tuples: int = 2**20
    many_matches: tuple[int, ...] = (64, 1024)
    pairs: int = 2**25  # that a run with many matches produces
    batches: tuple[tuple[int, int], ...] = ((2**17, 2**15), (2**20, 2**15), (2**20, 2**13))  # window, batch
    heat: int = 2**16  # arrivals by which contenders without a chance are told
    pause_tuples: int = 10**7
    replicas: int = 5  # of a join whose pauses are timed
    tables: two_tables.Sizes = field(default_factory=two_tables.Sizes)


QUICK = Sizes(
    middle=2**9,
    large=2**10,
    huge=2**11,
    tuples=2**11,
    rounds=2,
    huge_rounds=1,
    information_rounds=1,
    many_matches=(16, 64),
    pairs=2**14,
    batches=((2**9, 2**8), (2**10, 2**8), (2**10, 2**7)),
    heat=2**9,
    pause_tuples=2**12,
    replicas=2,
    tables=two_tables.QUICK,
)


def run(quick: bool, say: Say) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    found = report("bucket", quick, QUICK if quick else Sizes(), say, lines)
    return replace(
        found, parameters=found.parameters | {"keys": "uniform int32 unless a line says otherwise"}
    )


def lines(sizes: TableSizes, programs: Programs, say: Say) -> Iterable[Result]:
    """All parts, in this order."""
    assert isinstance(sizes, Sizes)
    for part in PARTS:
        yield from part(sizes, programs, say)


# --- Against Abseil's tree ---


def _over_absl(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    wanted = {
        sizes.middle: ({GROUP: 6.0, 1: 4.0}, sizes.rounds),
        sizes.large: ({GROUP: 8.0, 1: 4.5}, sizes.rounds),
        sizes.huge: ({GROUP: 8.0}, sizes.huge_rounds),
    }
    for window, (least, rounds) in wanted.items():
        shape = f"w={power(window)}"
        memory = f"bucket-tree, memory, {_form(GROUP)}, {shape}"
        small = Target("<=", 20) if window == sizes.large else None
        names = {group: f"bucket-tree / absl, {_form(group)}, {shape}" for group in least}
        note = programs.missing(absl=True)
        if note:
            yield from (missing(names[group], "x", Target(">=", least[group]), note) for group in least)
        if programs.path is None:
            yield missing(memory, "bytes/tuple", small, note or "")
            continue
        say(f"bucket-tree against absl, {shape}")
        workload = Workload(window, sizes.matches)
        contenders = {"absl": absl(workload, sizes.tuples)} if note is None else {}
        contenders |= {str(group): _bucket(workload, sizes.tuples, group) for group in least}
        outcome = race(programs.path, contenders, rounds)
        if note is None:
            for group, limit in least.items():
                yield measured(names[group], outcome.speedup(str(group), "absl"), "x", Target(">=", limit))
            yield measured(f"absl, {shape}", outcome.rates("absl"), "M tuples/s")
            yield measured(f"absl, memory, {shape}", [outcome.bytes_per_tuple["absl"]], "bytes/tuple")
        yield measured(memory, [outcome.bytes_per_tuple[str(GROUP)]], "bytes/tuple", small)
        for group in least:
            yield measured(f"bucket-tree, {_form(group)}, {shape}", outcome.rates(str(group)), "M tuples/s")


def _monotone(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    for window in (sizes.middle, sizes.large):
        for keys in ("increasing", "decreasing"):
            what = f"bucket-tree / absl, {keys} keys, {_form(GROUP)}, w={power(window)}"
            workload = Workload(window, sizes.matches)
            contenders = {
                "bucket-tree": _bucket(workload, sizes.tuples, keys=keys),
                "absl": absl(workload, sizes.tuples, keys=keys),
            }
            yield duel(programs, say, what, Target(">=", 2.5), contenders, sizes.rounds, absl=True)


# --- Against itself: keys, their width, instruction sets ---


def _skewed(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """Runs replace the windows twice, so that each has one change of the abrupt keys.

    Each kind of keys has only one contender; a b-tree is witness that its answers are right.
    """
    shape = f"{_form(GROUP)}, w={power(sizes.large)}"
    what = f"bucket-tree, worst of other keys / uniform, {shape}"
    target = Target(">=", 0.7)
    path, note = programs.path, programs.missing(absl=False)
    if path is None or note:
        yield missing(what, "x", target, note or "")
        return
    say(what)
    workload = Workload(sizes.large, sizes.matches)
    tuples = max(sizes.tuples, 4 * sizes.large)
    kinds = ("uniform", *SKEWED)
    witnesses = [ours("b-tree", workload, tuples, GROUP, keys=keys) for keys in kinds]
    contenders = {keys: _bucket(workload, tuples, keys=keys) for keys in kinds}
    outcome = race(path, contenders, sizes.information_rounds, witnesses=witnesses)
    speeds = {keys: outcome.speedup(keys, "uniform") for keys in SKEWED}
    yield measured(what, min(speeds.values(), key=median), "x", target)
    for keys, label in SKEWED.items():
        yield measured(f"bucket-tree, {label} keys / uniform, {shape}", speeds[keys], "x")


def _widths(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    shape = f"bucket-tree, {_form(GROUP)}, w={power(sizes.large)}"
    wanted = {
        ("64 bits", "32 bits"): Target(">=", 0.55),
        ("avx2", "avx512"): Target(">=", 0.65),
        ("portable", "avx512"): Target(">=", 0.25),
    }
    path, note = programs.path, programs.missing(absl=False)
    say(f"keys of 64 bits and instruction sets, {shape}")
    with_avx512 = "avx512" in isa.available()
    workload = Workload(sizes.large, sizes.matches)
    contenders = {f"{bits} bits": _bucket(workload, sizes.tuples, bits=bits) for bits in ("32", "64")}
    if with_avx512:
        levels = [level for level in LEVELS if level in isa.available()]
        contenders |= {level: _bucket(workload, sizes.tuples, level=level) for level in levels}
    outcome = race(path, contenders, sizes.rounds) if path and not note else None
    for (one, other), target in wanted.items():
        what = f"{one} / {other}, {shape}"
        if outcome is None or one not in contenders:
            yield missing(what, "x", target, note or NO_AVX512)
        else:
            yield measured(what, outcome.speedup(one, other), "x", target)


# --- Against the papers' structures, and NumPy ---


def _over_papers(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """The structures and forms that can be the best: b-chain, rap-table and wib-tree had 0.7 of it at most.

    Partners come as they are found, since sorting them would cost more than all else, and pushes are as small
    as a group or batch, since pairs that leave the cache would.
    """
    least = dict(zip(sizes.many_matches, (1.5, 1.1), strict=True))
    path, note = programs.path, programs.missing(absl=False)
    for matches, limit in least.items():
        shape = f"m={matches}, w={power(sizes.large)}"
        what, target = f"bucket-tree / best of the papers' structures, {shape}", Target(">=", limit)
        if path is None or note:
            yield missing(what, "x", target, note or "")
            continue
        say(what)
        workload, tuples = Workload(sizes.large, matches), sizes.pairs // matches
        forms = {
            f"{index}, {_form(group)}": ours(index, workload, tuples, group, push=str(group), order="none")
            for index, group in (*PAPERS, ("bucket-tree", GROUP), ("bucket-tree", BATCH))
        }
        outcome = race(path, forms, sizes.information_rounds)
        own, other = (
            min(
                (form for form in forms if form.startswith("bucket-tree") == mine),
                key=lambda form: median(outcome.seconds[form]),
            )
            for mine in (True, False)
        )
        yield measured(what, outcome.speedup(own, other), "x", target)
        for form in forms:
            yield measured(f"{form}, {shape}", outcome.rates(form), "M tuples/s")


def _over_numpy(sizes: Sizes, _: Programs, say: Say) -> Iterable[Result]:
    """From Python. A short heat tells which of NumPy's joins has no chance, and would take minutes."""
    for (window, batch), limit in zip(sizes.batches, (4.5, 5.0, 7.0), strict=True):
        shape = f"batches of {power(batch)}, w={power(window)}"
        what = f"best index / NumPy's best, {shape}"
        say(what)
        workload = Workload(window, sizes.matches)
        joins: dict[str, NumericPushes] = {
            index: workload.join(index, batch) for index in ("auto", "bucket-tree", "sorted-run")
        }
        indexes = list(joins)
        filling = max(window // 16, 2)  # batches so large that filling does not take long
        joins |= {name: full_numpy(name, workload, filling) for name in NUMPY_JOINS}
        heat = alternated(joins, workload, sizes.heat, batch, rounds=1, warmups=0)
        fastest = min(heat[name][0] for name in NUMPY_JOINS)
        peers = [name for name in NUMPY_JOINS if heat[name][0] < 3 * fastest]
        left = {name: joins[name] for name in (*indexes, *peers)}
        start = workload.warm + sizes.heat
        samples = alternated(left, workload, sizes.tuples, batch, sizes.rounds, start)
        own, other = (min(names, key=lambda name: median(samples[name])) for names in (indexes, peers))
        yield measured(what, ratios(samples[other], samples[own]), "x", Target(">=", limit))
        for name in left:
            label = f"NumPy, {name}" if name in peers else f"{name}, from Python"
            yield measured(f"{label}, {shape}", rates(samples[name], sizes.tuples), "M tuples/s")


# --- How long a push can take ---


def _pauses(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """The time of pushes of one group as a user sees it: all that a push does, and all that the machine does.

    A note says whether the system provided pages or let others run during the longest push. Beside it stands
    the thread's processor time, which leaves out when others ran, but not interrupts nor what a hypervisor
    takes away: "no join" has pushes of constant work, and so only their share. Structural work comes back
    when the same arrivals are joined again, interrupts do not; the least time of each push over some replicas
    has the former only. One run: a median would hide a pause that comes once.
    """
    shape = f"pushes of {GROUP}, w={power(sizes.large)}"
    targets = {"p99.99": Target("<=", 40), "max": Target("<=", 200)}
    workload, agreement, tuples = Workload(sizes.large, sizes.matches), Agreement(), sizes.pause_tuples
    contenders = {
        "bucket-tree": (_bucket(workload, tuples), sizes.replicas),
        "absl": (absl(workload, tuples), 1),
        "no join": (Contender(workload, tuples, {"structure": "spin"}), sizes.replicas),
    }
    for name, (contender, replicas) in contenders.items():
        limits = targets if name == "bucket-tree" else {}
        path, note = programs.path, programs.missing(absl=name == "absl")
        if path is None or note:
            for rank in targets:
                yield missing(_pause(name, rank, "", shape), "µs", limits.get(rank), note or "")
            continue
        say(f"{name}, {shape}")
        compare = (agreement if name != "no join" else Agreement()).comparison()
        options = contender.options | {"mode": "pauses", "push": str(GROUP), "replicas": str(replicas)}
        with Peer(path, workload, tuples, contender.environment, **options) as peer:
            answer = peer.run()
        compare(Answer(answer["seconds"], answer["matches"], answer["checksum"]))
        for kind in ("", "thread_", "least_")[: 3 if replicas > 1 else 2]:
            for rank in RANKS:
                what = _pause(name, rank, kind, shape)
                limited = None if kind else limits.get(rank)
                about = _longest(name, answer) if not kind and rank == "max" else None
                yield measured(what, [answer[kind + rank]], "µs", limited, about)


RANKS = ("p99.99", "max", "p50", "p99", "p99.9")
CLOCKS = {"": "", "thread_": ", processor time", "least_": ", processor time, least of replicas"}


def _pause(name: str, rank: str, kind: str, shape: str) -> str:
    return f"{name}, {'longest' if rank == 'max' else rank} of {shape}{CLOCKS[kind]}"


def _longest(name: str, answer: dict[str, Any]) -> str:
    return (
        f"{name}: the longest push was number {answer['max_at']}; during it the system provided "
        f"{answer['max_faults']} pages and let others run {answer['max_switches']} times"
    )


# --- Where the time of an arrival goes ---

STEPS = {
    "prepare": "encode keys, find intervals and visible ranges",
    "locate": "find the leaves and prefetch them",
    "insert": "append to leaves, split full ones",
    "compare": "compare the keys of leaves",
    "write": "test positions, sort and write pairs",
    "clean": "expire and sweep",
}
LINES = "four random cache lines"


def _steps(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """The clock is read six times a group, so the steps take a little longer together than the join does.

    The same join without a clock is witness that the answers are right.
    """
    path = programs.path and programs.path.with_name("steps_peer")
    for window in (sizes.middle, sizes.large, sizes.huge):
        shape = f"{_form(GROUP)}, w={power(window)}"
        names = [*(_step(step, shape) for step in STEPS), f"{LINES}, w={power(window)}"]
        if path is None:
            yield from (missing(name, "ns", None, programs.missing(absl=False) or "") for name in names)
            continue
        say(f"steps of the bucket-tree, {shape}")
        workload, agreement = Workload(window, sizes.matches), Agreement()
        for each, mode in ((programs.path, "push"), (path, "steps")):
            contender, compare = _bucket(workload, sizes.tuples, mode=mode), agreement.comparison()
            assert each is not None
            with Peer(each, workload, sizes.tuples, contender.environment, **contender.options) as peer:
                answers = [peer.run() for _ in range(sizes.information_rounds + 1)]
            for answer in answers:
                compare(Answer(answer["seconds"], answer["matches"], answer["checksum"]))
        answers = answers[1:]
        for name, step in zip(names, STEPS, strict=False):
            yield measured(name, [answer[step] / sizes.tuples for answer in answers], "ns")
        yield measured(names[-1], [answer["lines"] for answer in answers], "ns")


def _step(step: str, shape: str) -> str:
    return f"bucket-tree, step {step}, {shape}"


def _tables(sizes: Sizes, _: Programs, say: Say) -> Iterable[Result]:
    """Two whole tables, for which there is no window: as ``python -m benchmarks join`` measures them."""
    yield from two_tables.results(sizes.tables, say)


PARTS = (_over_absl, _monotone, _skewed, _over_papers, _widths, _over_numpy, _pauses, _steps, _tables)


def _bucket(workload: Workload, tuples: int, group: int = GROUP, **options: str) -> Contender:
    return ours("bucket-tree", workload, tuples, group, None, **options)


def _form(group: int) -> str:
    if group == 1:
        return "tuple by tuple"
    return f"groups of {group}" if group <= GROUP else f"batches of {power(group)}"
