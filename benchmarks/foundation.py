"""The foundation: the b-tree against a good ordinary tree, and the cost of calling it from Python.

The peer is a join on absl::btree_multimap, tuple by tuple, compiled for this processor and given
huge pages. Native programs and Python see the same arrivals, produce all pairs and add up their
positions; the answers of one round must be equal, or the benchmark fails. Everything runs on one
core. The ratios are the claim, absolute figures are information.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates, ratios
from benchmarks.peer import BUILD, HUGE_PAGES, INSTALL_ABSL, Peer, about, program
from benchmarks.report import Report, Result, Target, measured, missing
from benchmarks.workload import Feed, Workload, power
from slidejoin import isa
from slidejoin.errors import StateError


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    small: int = 2**14  # windows, in tuples per side
    middle: int = 2**17
    large: int = 2**20
    nested: int = 2**10
    tuples: int = 2**18  # arrivals of one run
    push: int = 8192
    single_window: int = 16  # the join of pushes of one tuple
    single_pushes: int = 20_000
    rounds: int = 25
    crossing_rounds: int = 41
    information_rounds: int = MIN_ROUNDS
    matches: int = 2


QUICK = Sizes(
    small=2**8,
    middle=2**10,
    large=2**12,
    nested=2**6,
    tuples=2**13,
    push=1024,
    single_pushes=500,
    rounds=2,
    crossing_rounds=2,
    information_rounds=1,
)


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    path = program()
    facts = about(path)
    with one_core() as core:
        where = machine.describe(facts["compiler"])
        results = [
            *_against_absl(sizes, path, facts["absl"], say),
            *_crossing(sizes, path, say),
            *_single(sizes, path, say),
            *_information(sizes, say),
        ]
    parameters = {**asdict(sizes), "core": core, "keys": "uniform int32", "pairs": True}
    return Report("foundation", quick, machine.finished(where), parameters, results)


class Answer(NamedTuple):
    """What one run took and found."""

    seconds: float
    matches: int
    checksum: int = 0


class Agreement:
    """The answers of the contenders of each round, which must be equal."""

    def __init__(self) -> None:
        self._rounds: dict[int, Answer] = {}

    def contender(self, run: Callable[[], Answer]) -> Callable[[], float]:
        """Wrap a run: compare its answer with the others', return its seconds."""
        compare = self.comparison()

        def turn() -> float:
            answer = run()
            compare(answer)
            return answer.seconds

        return turn

    def comparison(self) -> Callable[[Answer], None]:
        """For one contender: takes its answers, round by round, and compares them with the others'."""
        turns = iter(range(2**31))

        def compare(answer: Answer) -> None:
            expected = self._rounds.setdefault(next(turns), answer)
            if answer[1:] != expected[1:]:
                raise StateError(
                    f"two contenders disagree on the same arrivals: (matches, checksum) are "
                    f"{answer[1:]} and {expected[1:]}; one is wrong, and its speed means nothing"
                )

        return compare


def _native(peer: Peer) -> Callable[[], Answer]:
    def run() -> Answer:
        answer = peer.run()
        return Answer(answer["seconds"], answer["matches"], answer["checksum"])

    return run


def _python(feed: Feed, tuples: int) -> Callable[[], Answer]:
    """Push the next tuples and add up the positions of the pairs, as the native programs do.

    As there, adding up does not count, and the arrivals of a run are generated at the end of the
    run before it.
    """
    pushes = feed.next_pushes(tuples)
    push = feed.join.push

    def run() -> Answer:
        nonlocal pushes
        seconds = 0.0
        matches = left_sum = right_sum = 0
        for sides, keys in pushes:
            begin = time.perf_counter()
            left, right = push(sides, keys)
            seconds += time.perf_counter() - begin
            matches += len(left)
            left_sum += int(left.sum())
            right_sum += int(right.sum())
        pushes = feed.next_pushes(tuples)
        return Answer(seconds, matches, (31 * left_sum + right_sum) % 2**64)

    return run


def _against_absl(
    sizes: Sizes, path: Path | None, with_absl: bool, say: Callable[[str], None]
) -> Iterable[Result]:
    groups = {
        sizes.middle: {1: Target(">=", 1.0)},
        sizes.large: {1: Target(">=", 1.0), 16: Target(">=", 1.4)},
    }
    for window, targets in groups.items():
        lines = {group: f"b-tree, {_groups(group)} / absl, w={power(window)}" for group in targets}
        if path is None or not with_absl:
            note = INSTALL_ABSL if path else BUILD
            yield from (missing(lines[group], "x", targets[group], note) for group in targets)
            continue
        say(f"b-tree against absl, w={power(window)}")
        workload, agreement = Workload(window, sizes.matches), Agreement()
        with contextlib.ExitStack() as stack:
            start = functools.partial(Peer, path, workload, sizes.tuples)
            peers = {"absl": stack.enter_context(start(HUGE_PAGES, structure="absl"))}
            for group in targets:
                peers[str(group)] = stack.enter_context(start(group=str(group)))
            samples = alternate(
                {name: agreement.contender(_native(peer)) for name, peer in peers.items()},
                sizes.rounds,
            )
        for group, target in targets.items():
            yield measured(lines[group], ratios(samples["absl"], samples[str(group)]), "x", target)
        yield measured(f"absl, w={power(window)}", rates(samples["absl"], sizes.tuples), "M tuples/s")


def _crossing(sizes: Sizes, path: Path | None, say: Callable[[str], None]) -> Iterable[Result]:
    what = f"Python / native, time of pushes of {sizes.push}, w={power(sizes.large)}"
    target = Target("<", 1.05)
    if path is None:
        yield missing(what, "x", target, BUILD)
        return
    say(what)
    workload, agreement = Workload(sizes.large, sizes.matches), Agreement()
    feed = Feed(workload, sizes.push)
    group = str(feed.join.spec.group)
    with Peer(path, workload, sizes.tuples, push=str(sizes.push), group=group) as peer:
        samples = alternate(
            {
                "native": agreement.contender(_native(peer)),
                "python": agreement.contender(_python(feed, sizes.tuples)),
            },
            sizes.crossing_rounds,
        )
    yield measured(what, ratios(samples["python"], samples["native"]), "x", target)


def _single(sizes: Sizes, path: Path | None, say: Callable[[str], None]) -> Iterable[Result]:
    what = "Python's share of a push of 1 tuple"
    target = Target("<", 3)
    if path is None:
        yield missing(what, "µs", target, BUILD)
        return
    say(what)
    workload, agreement = Workload(sizes.single_window, matches=1), Agreement()
    feed = Feed(workload, 1, index="nested-loop")
    group = str(feed.join.spec.group)

    def push_one_by_one() -> Answer:
        pushes = feed.next_pushes(sizes.single_pushes)
        push = feed.join.push
        before = feed.join.stats["matches"]
        begin = time.perf_counter()
        for sides, keys in pushes:
            push(sides, keys)
        seconds = time.perf_counter() - begin
        return Answer(seconds, feed.join.stats["matches"] - before)

    with Peer(path, workload, sizes.single_pushes, index="nested-loop", push="1", group=group) as peer:
        samples = alternate(
            {
                "native": agreement.contender(lambda: _native(peer)()._replace(checksum=0)),
                "python": agreement.contender(push_one_by_one),
            },
            sizes.rounds,
        )
    each = 1e6 / sizes.single_pushes
    pairs = zip(samples["python"], samples["native"], strict=True)
    yield measured(what, [each * (python - native) for python, native in pairs], "µs", target)
    yield measured("a push of 1 tuple, native", [each * sample for sample in samples["native"]], "µs")


def _information(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    for window in (sizes.small, sizes.middle, sizes.large):
        say(f"throughput from Python, w={power(window)}")
        workload = Workload(window, sizes.matches)
        feeds = {
            f"b-tree, {_groups(group)}, w={power(window)}": Feed(workload, sizes.push, group=group)
            for group in (1, 16, 8192)
        }
        yield from _throughput(sizes, feeds)
        stats = next(iter(feeds.values())).join.stats
        stored = stats["stored_left"] + stats["stored_right"]
        size = stats["memory_bytes"] / stored
        yield measured(f"b-tree, memory, w={power(window)}", [size], "bytes/tuple")

    say("instruction sets and nested loop")
    levels = {}
    for level in isa.available():
        with isa.use(level):
            levels[f"b-tree, {_groups(16)}, w={power(sizes.middle)}, {level}"] = Feed(
                Workload(sizes.middle, sizes.matches), sizes.push, group=16
            )
    yield from _throughput(sizes, levels)
    nested = Feed(Workload(sizes.nested, sizes.matches), sizes.push, index="nested-loop")
    yield from _throughput(sizes, {f"nested-loop, w={power(sizes.nested)}": nested})


def _throughput(sizes: Sizes, feeds: dict[str, Feed]) -> Iterable[Result]:
    agreements = Agreement()
    contenders = {name: agreements.contender(_python(feed, sizes.tuples)) for name, feed in feeds.items()}
    for name, samples in alternate(contenders, sizes.information_rounds).items():
        yield measured(name, rates(samples, sizes.tuples), "M tuples/s")


def _groups(group: int) -> str:
    return "tuple by tuple" if group == 1 else f"groups of {group}"
