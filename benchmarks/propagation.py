"""When the shared index gives its results away: the longest gap between two, and the latency of a tuple.

Measured by a native program (``benchmarks/peers/trace.hpp``): from Python, all results of a push come
at once. A run is one push that is long enough for both trees to merge several times.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import MIN_ROUNDS, alternate, rates, ratios
from benchmarks.peer import BUILD, Peer, program
from benchmarks.report import Result, Target, measured, missing
from benchmarks.workload import Workload, power
from slidejoin.spec import GROUP

RANKS = ("p50", "p99", "p99.9")
PROGRAM = "shared_peer"
FORM = {"mode": "traced", "index": "pim-tree", "strategy": "shared-index", "group": str(GROUP)}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    window: int = 2**20
    tuples: int = 2**20  # arrivals of one run
    task_sizes: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 32)
    rounds: int = MIN_ROUNDS
    matches: int = 2


QUICK = Sizes(window=2**10, tuples=2**11, task_sizes=(1, 8), rounds=1)


def lines(sizes: Sizes, workers: int, say: Callable[[str], None]) -> Iterable[Result]:
    """The target of the gap, and latencies by the size of a task."""
    yield from _gaps(sizes, workers, say)
    yield from _latencies(sizes, workers, say)


def _gaps(sizes: Sizes, workers: int, say: Callable[[str], None]) -> Iterable[Result]:
    shape = f"{workers} workers, w={power(sizes.window)}"
    what = f"longest gap between results, time, non-blocking / blocking merge, {shape}"
    target = Target("<=", 0.3)
    say(what)
    kinds = {"non-blocking": "0", "blocking": "1"}
    answers = _answers(sizes, workers, {name: {"blocking": value} for name, value in kinds.items()})
    if answers is None:
        yield missing(what, "x", target, BUILD)
        return
    gaps = {name: [answer["longest_gap"] for answer in each] for name, each in answers.items()}
    yield measured(what, ratios(gaps["non-blocking"], gaps["blocking"]), "x", target)
    for name in kinds:
        yield measured(f"longest gap between results, {name} merge, {shape}", gaps[name], "µs")


def _latencies(sizes: Sizes, workers: int, say: Callable[[str], None]) -> Iterable[Result]:
    """A tuple's latency: from when a worker takes it until its results are given away."""
    shape = f"{workers} workers, w={power(sizes.window)}"
    say(f"latency of a tuple, {shape}")
    answers = _answers(sizes, workers, {str(size): {"task-size": str(size)} for size in sizes.task_sizes})
    for size in sizes.task_sizes:
        name = f"shared pim-tree, task_size={size}, {shape}"
        if answers is None:
            yield missing(f"{name}, latency", "µs", None, BUILD)
            continue
        each = answers[str(size)]
        for rank in RANKS:
            yield measured(f"{name}, {rank} of latency", [answer[rank] for answer in each], "µs")
        yield measured(name, rates([answer["seconds"] for answer in each], sizes.tuples), "M tuples/s")


def _answers(
    sizes: Sizes, workers: int, kinds: dict[str, dict[str, str]]
) -> dict[str, list[dict[str, Any]]] | None:
    """What programs with these options print, round by round; None where the program is not built."""
    path = program(PROGRAM)
    if path is None:
        return None
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}
    agreement = Agreement()

    def turn(name: str, peer: Peer) -> Callable[[], float]:
        compare = agreement.comparison()

        def run() -> float:
            answer = peer.run()
            compare(Answer(answer["seconds"], answer["matches"], answer["checksum"]))
            answers[name].append(answer)
            return float(answer["seconds"])

        return run

    workload = Workload(sizes.window, sizes.matches)
    with contextlib.ExitStack() as stack:
        turns = {}
        for name, options in kinds.items():
            given = FORM | {"push": str(sizes.tuples), "workers": str(workers), **options}
            turns[name] = turn(name, stack.enter_context(Peer(path, workload, sizes.tuples, None, **given)))
        alternate(turns, sizes.rounds)
    return {name: each[-sizes.rounds :] for name, each in answers.items()}
