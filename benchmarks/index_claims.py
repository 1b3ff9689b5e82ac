"""What the papers say about their indexes on one thread, measured on ours.

"Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen) and "PanJoin: A Partition-based
Adaptive Stream Join" (Pan, Jacobsen). The paper's figure stands in the line. Theirs were other machines and
other trees, and PanJoin's probes had eight threads: no line is a target, they tell what carries over.

All contenders of a claim, for one window, take turns in one race, and every line is a ratio within a race:
rates of different races are not compared, since the machine's load changes between them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.indexes import QUICK as QUICK_TABLE
from benchmarks.indexes import Say, merging_tuples, report, sliding_tuples
from benchmarks.indexes import Sizes as TableSizes
from benchmarks.measure import MIN_ROUNDS
from benchmarks.race import Contender, Outcome, Programs, absl, ours, race
from benchmarks.report import Report, Result, measured, missing
from benchmarks.workload import Workload, power


@dataclass(frozen=True)
class Sizes(TableSizes):
    """How much is measured."""

    windows: tuple[int, ...] = (2**14, 2**17, 2**20, 2**23)  # for averages over windows
    chains: tuple[int, ...] = (2, 3, 4, 8)
    ratios: tuple[float, ...] = tuple(2.0**-i for i in range(6, -1, -1))
    default_ratio: float = 0.125
    depths: tuple[int, ...] = (1, 2, 3, 4)
    match_rates: tuple[float, ...] = (2**-4, 2**-2, 1, 2**2, 2**4)
    selectivities: tuple[int, ...] = (1, 2**7, 2**14)
    batches: tuple[int, ...] = (2**10, 2**13, 2**16, 2**17, 2**18)
    rounds: int = MIN_ROUNDS


QUICK = Sizes(
    **{
        name: getattr(QUICK_TABLE, name)
        for name in ("middle", "large", "huge", "push", "probes", "many", "tuples", "information_rounds")
    },
    windows=(2**9, 2**10),
    chains=(2, 3),
    ratios=(0.125, 1.0),
    depths=(1, 2),
    match_rates=(0.5, 1),
    selectivities=(1, 2**5),
    batches=(2**6, 2**8),
    rounds=1,
)


def run(quick: bool, say: Say) -> Report:
    """Measure every statement; ``say`` is told what is under way."""
    return report("claims", quick, QUICK if quick else Sizes(), say, lines)


def lines(sizes: TableSizes, programs: Programs, say: Say) -> Iterable[Result]:
    """All statements, in the order of the papers."""
    assert isinstance(sizes, Sizes)
    if programs.path is None:
        note = programs.missing(absl=False) or ""
        yield missing("the papers' claims", "x", None, note)
        return
    for claim in (_over_b_tree, _chains, _merge_ratios, _depths, _match_rates, _steps, _memory):
        yield from claim(sizes, programs.path, say)
    for claim in (_partitions, _batches, _selectivity):
        yield from claim(sizes, programs.path, say)
    yield from _tree_inserts(sizes, programs, say)


# --- "Parallel Index-based Stream Join on a Multicore CPU" ---


def _over_b_tree(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    paper = {"im-tree": 1.5, "pim-tree": 1.63}
    speedups: dict[str, list[list[float]]] = {index: [] for index in paper}
    for window in sizes.windows:
        say(f"im-tree and pim-tree against b-tree, w={power(window)}")
        workload, tuples = Workload(window, sizes.matches), merging_tuples(sizes, window)
        contenders = {index: ours(index, workload, tuples) for index in ("b-tree", *paper)}
        outcome = race(path, contenders, sizes.rounds)
        for index in paper:
            speedups[index].append(outcome.speedup(index, "b-tree"))
            yield measured(f"{index} / b-tree, w={power(window)}", speedups[index][-1], "x")
        ratio = outcome.speedup("pim-tree", "im-tree")
        yield measured(f"pim-tree / im-tree, w={power(window)}", ratio, "x")
    ends = f"{power(sizes.windows[0])} to {power(sizes.windows[-1])}"
    for index, each in speedups.items():
        means = [sum(rounds) / len(rounds) for rounds in zip(*each, strict=True)]
        yield measured(f"{index} / b-tree, mean of w={ends} (paper: {paper[index]}x)", means, "x")


def _chains(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    say("chain lengths")
    workload, tuples = Workload(sizes.large, sizes.matches), sliding_tuples(sizes, sizes.large)
    contenders = {
        f"{index} {length}": ours(index, workload, tuples, parameters={"chain_length": length})
        for index in ("b-chain", "ib-chain")
        for length in sizes.chains
    }
    outcome = race(path, contenders, sizes.rounds)
    speedups = [outcome.speedup(f"ib-chain {length}", f"b-chain {length}") for length in sizes.chains]
    for length, each in zip(sizes.chains, speedups, strict=True):
        yield measured(f"ib-chain / b-chain, L={length}, w={power(sizes.large)}", each, "x")
    means = [sum(rounds) / len(rounds) for rounds in zip(*speedups, strict=True)]
    yield measured(f"ib-chain / b-chain, mean of L={_listed(sizes.chains)} (paper: 1.5x)", means, "x")
    for index in ("b-chain", "ib-chain"):
        names: dict[float, str] = {length: f"{index} {length}" for length in sizes.chains}
        yield from _sweep(outcome, names, 2, f"{index}, L", f"w={power(sizes.large)}", "paper: 2")


def _merge_ratios(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    for window in (sizes.middle, sizes.large):
        say(f"merge ratios, w={power(window)}")
        workload, tuples = Workload(window, sizes.matches), merging_tuples(sizes, window, 1)
        names = {
            index: {ratio: f"{index} {ratio}" for ratio in sizes.ratios} for index in ("im-tree", "pim-tree")
        }
        contenders = {
            name: ours(index, workload, tuples, parameters={"merge_ratio": ratio})
            for index, each in names.items()
            for ratio, name in each.items()
        }
        outcome = race(path, contenders, sizes.rounds)
        for index, each in names.items():
            label, shape = f"{index}, merge ratio", f"w={power(window)}"
            yield from _sweep(outcome, each, sizes.default_ratio, label, shape, "paper: 0.125, large 0.0625")


def _depths(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    for window in (sizes.middle, sizes.large):
        say(f"insertion depths, w={power(window)}")
        workload, tuples = Workload(window, sizes.matches), merging_tuples(sizes, window)
        names: dict[float, str] = {depth: str(depth) for depth in sizes.depths}
        contenders = {
            name: ours("pim-tree", workload, tuples, parameters={"insertion_depth": depth})
            for depth, name in names.items()
        }
        outcome = race(path, contenders, sizes.rounds)
        label, shape = "pim-tree, insertion depth", f"w={power(window)}"
        yield from _sweep(outcome, names, sizes.depths[0], label, shape, "paper: not the deepest")


def _match_rates(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    say("match rates")
    tuples = merging_tuples(sizes, sizes.large)
    few, many = sizes.match_rates[0], sizes.match_rates[-1]
    indexes = ("b-tree", "im-tree", "pim-tree")
    contenders = {
        f"{index} {matches}": ours(index, Workload(sizes.large, matches), tuples)
        for index in indexes
        for matches in sizes.match_rates
    }
    outcome = race(path, contenders, sizes.rounds)
    for index in indexes:
        for matches in sizes.match_rates[1:]:
            paper = " (paper: about 1x)" if matches == many else ""
            what = f"{index}, speed at m={matches:g} / at m={few:g}, w={power(sizes.large)}{paper}"
            yield measured(what, outcome.speedup(f"{index} {matches}", f"{index} {few}"), "x")


def _steps(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    """Inserting alone, with the merges, and searching alone."""
    for window in (sizes.middle, sizes.large):
        say(f"inserting alone and searching alone, w={power(window)}")
        workload = Workload(window, sizes.matches)
        indexes = ("b-tree", "im-tree", "pim-tree")
        fills = {index: ours(index, workload, window, shape="fill") for index in indexes}
        asks = {index: ours(index, workload, sizes.tuples, shape="ask") for index in indexes}
        inserting, searching = race(path, fills, sizes.rounds), race(path, asks, sizes.rounds)
        for index in indexes[1:]:
            what = f"{index} / b-tree, inserts only, w={power(window)} (paper: 1.5x at 2^17, 2.6x at 2^23)"
            yield measured(what, inserting.speedup(index, "b-tree"), "x")
            what = f"b-tree / {index}, search only, w={power(window)} (paper: 1.75x at 2^17, 1x at 2^23)"
            yield measured(what, searching.speedup("b-tree", index), "x")


def _memory(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    """At its largest: a merge ratio of 1 lets the mutable part grow as large as the window."""
    say("memory")
    workload, tuples = Workload(sizes.large, sizes.matches), sizes.large // 2
    contenders = {"b-tree": ours("b-tree", workload, tuples)}
    for ratio in (0.125, 1):
        contenders[str(ratio)] = ours("pim-tree", workload, tuples, parameters={"merge_ratio": ratio})
    memory = race(path, contenders, rounds=4).bytes_per_tuple
    for ratio, paper in ((0.125, ""), (1, " (paper: 2x)")):
        what = f"pim-tree, merge ratio {ratio} / b-tree, memory, w={power(sizes.large)}{paper}"
        yield measured(what, [memory[str(ratio)] / memory["b-tree"]], "x")


# --- "PanJoin: A Partition-based Adaptive Stream Join" ---


def _asking(index: str, sizes: Sizes, matches: float, tuples: int, mode: str = "push") -> Contender:
    workload, push = Workload(sizes.large, matches), str(sizes.push)
    return ours(index, workload, tuples, sizes.push, shape="ask", push=push, mode=mode)


def _filling(index: str, sizes: Sizes, batch: int) -> Contender:
    workload = Workload(sizes.large, sizes.matches)
    return ours(index, workload, sizes.large, batch, shape="fill", push=str(max(batch, sizes.push)))


def _partitions(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    say("rap-table against wib-tree")
    contenders = {
        index: _asking(index, sizes, 1, sizes.tuples) for index in ("rap-table", "wib-tree", "bi-sort")
    }
    outcome = race(path, contenders, sizes.rounds)
    shape = f"probes in batches of {power(sizes.push)}, m=1, w={power(sizes.large)}"
    for index, paper in (("rap-table", " (paper: 1.5x)"), ("bi-sort", "")):
        yield measured(f"{index} / wib-tree, {shape}{paper}", outcome.speedup(index, "wib-tree"), "x")


def _batches(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    others = ("rap-table", "wib-tree")
    for batch in sizes.batches:
        say(f"inserts in batches of {power(batch)}")
        contenders = {index: _filling(index, sizes, batch) for index in ("bi-sort", *others)}
        outcome = race(path, contenders, sizes.rounds)
        best = min(others, key=lambda index: median(outcome.seconds[index]))
        what = f"bi-sort / best of the others, inserts in batches of {power(batch)}, w={power(sizes.large)}"
        yield measured(f"{what} (paper: above 1x from 2^16 on)", outcome.speedup("bi-sort", best), "x")


def _selectivity(sizes: Sizes, path: Path, say: Say) -> Iterable[Result]:
    say("selectivities")
    indexes = ("rap-table", "wib-tree", "bi-sort")
    contenders = {
        f"{index} {matches}": _asking(index, sizes, matches, sizes.probes, mode="count")
        for index in indexes
        for matches in sizes.selectivities
    }
    outcome = race(path, contenders, sizes.rounds)
    few, many = sizes.selectivities[0], sizes.selectivities[-1]
    shape = f"counting in batches of {power(sizes.push)}, w={power(sizes.large)}"
    for index in indexes:
        paper = " (paper: about 1x)" if index == "bi-sort" else ""
        speedup = outcome.speedup(f"{index} {many}", f"{index} {few}")
        yield measured(f"{index}, speed at m={many} / at m={few}, {shape}{paper}", speedup, "x")
    for index in indexes[:-1]:
        speedup = outcome.speedup(f"bi-sort {many}", f"{index} {many}")
        yield measured(f"bi-sort / {index}, m={many}, {shape} (paper: 100x)", speedup, "x")


def _tree_inserts(sizes: Sizes, programs: Programs, say: Say) -> Iterable[Result]:
    """Wide unsorted leaves against sorted ones."""
    batches = {"tuple by tuple": 1, f"in batches of {power(sizes.push)}": sizes.push}
    for form, batch in batches.items():
        what = f"inserts {form}, w={power(sizes.large)} (paper: 3.5x to 4.5x)"
        say(f"wib-tree against sorted leaves, {form}")
        contenders = {index: _filling(index, sizes, batch) for index in ("wib-tree", "b-tree")}
        note = programs.missing(absl=True)
        if note is None:
            contenders["absl"] = absl(Workload(sizes.large, sizes.matches), sizes.large, shape="fill")
        assert programs.path is not None
        outcome = race(programs.path, contenders, sizes.rounds)
        yield measured(f"wib-tree / b-tree, {what}", outcome.speedup("wib-tree", "b-tree"), "x")
        if note is None:
            yield measured(f"wib-tree / absl, {what}", outcome.speedup("wib-tree", "absl"), "x")
        else:
            yield missing(f"wib-tree / absl, {what}", "x", None, note)


# --- Sweeps ---


def _sweep(
    outcome: Outcome, names: Mapping[float, str], base: float, label: str, shape: str, paper: str
) -> Iterable[Result]:
    """The best value of a parameter, and the speed of each one over that of ``base``."""
    best = min(names, key=lambda value: median(outcome.seconds[names[value]]))
    yield measured(f"{label}: the best, {shape} ({paper})", [best], "")
    for value, name in names.items():
        if value != base:
            yield measured(f"{label}={value:g} / {base:g}, {shape}", outcome.speedup(name, names[base]), "x")


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
