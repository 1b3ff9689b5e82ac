"""Native programs against each other: same arrivals, in turns, answers compared, memory told."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import alternate, rates
from benchmarks.peer import BUILD, HUGE_PAGES, INSTALL_ABSL, Peer
from benchmarks.report import Result, Target, measured, missing
from benchmarks.workload import Workload
from slidejoin import isa


@dataclass(frozen=True)
class Programs:
    """The native programs, as far as they are there."""

    path: Path | None
    absl: bool

    def missing(self, *, absl: bool) -> str | None:
        """What to do before a race can be run, with Abseil's tree in it or without."""
        if self.path is None:
            return BUILD
        return INSTALL_ABSL if absl and not self.absl else None


@dataclass(frozen=True)
class Contender:
    """A structure and how it is fed."""

    workload: Workload
    tuples: int  # arrivals of one run
    options: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)


def absl(workload: Workload, tuples: int, **options: str) -> Contender:
    """Abseil's tree, tuple by tuple."""
    return Contender(workload, tuples, {"structure": "absl", **options}, HUGE_PAGES)


def ours(
    index: str,
    workload: Workload,
    tuples: int,
    group: int = 1,
    parameters: Mapping[str, float] | None = None,
    **options: str,
) -> Contender:
    """An index of slidejoin, by default tuple by tuple, and on the level that joins get here."""
    text = ",".join(f"{name}={value}" for name, value in (parameters or {}).items())
    given = {"index": index, "options": text, "group": str(group), "level": isa.current()} | options
    return Contender(workload, tuples, given)


@dataclass(frozen=True)
class Outcome:
    """What a race found, by contender."""

    seconds: dict[str, list[float]]
    bytes_per_tuple: dict[str, float]  # the most that a run ended with
    tuples: dict[str, int]

    def speedup(self, winner: str, loser: str) -> list[float]:
        """How many times as many tuples a second one contender joins as another, round by round."""
        pairs = zip(self.rates(winner), self.rates(loser), strict=True)
        return [above / below for above, below in pairs]

    def rates(self, name: str) -> list[float]:
        """Millions of tuples a second."""
        return rates(self.seconds[name], self.tuples[name])


def duel(
    programs: Programs,
    say: Callable[[str], None],
    what: str,
    target: Target,
    contenders: Mapping[str, Contender],
    rounds: int,
    *,
    absl: bool = False,
    checksums: bool = True,
) -> Result:
    """How many times as fast the first of two contenders is, or what to do before that can be measured."""
    note = programs.missing(absl=absl)
    if programs.path is None or note:
        return missing(what, "x", target, note or "")
    say(what)
    outcome = race(programs.path, contenders, rounds, checksums)
    return measured(what, outcome.speedup(*contenders), "x", target)


def race(
    path: Path,
    contenders: Mapping[str, Contender],
    rounds: int,
    checksums: bool = True,
    witnesses: Iterable[Contender] = (),
) -> Outcome:
    """Let native programs take turns.

    Those with the same arrivals must find the same pairs. Where some only count, ``checksums`` is off and
    they must find as many. ``witnesses`` are not timed: they run once, and what they find in the first
    round must be found by contenders that have nobody else to agree with.
    """
    agreements: dict[tuple[Workload, int, str], Agreement] = {}
    memory: dict[str, float] = {}

    def agreement(each: Contender) -> Agreement:
        arrivals = each.workload, each.tuples, each.options.get("keys", "uniform")
        return agreements.setdefault(arrivals, Agreement())

    def start(each: Contender) -> Peer:
        return Peer(path, each.workload, each.tuples, each.environment, **each.options)

    def found(answer: dict[str, Any]) -> Answer:
        return Answer(answer["seconds"], answer["matches"], answer["checksum"] if checksums else 0)

    def turn(name: str, peer: Peer) -> Callable[[], Answer]:
        def run() -> Answer:
            answer = peer.run()
            memory[name] = max(memory.get(name, 0.0), answer["bytes_per_tuple"])
            return found(answer)

        return run

    for witness in witnesses:
        with start(witness) as peer:
            agreement(witness).comparison()(found(peer.run()))
    with contextlib.ExitStack() as stack:
        runs = {
            name: agreement(each).contender(turn(name, stack.enter_context(start(each))))
            for name, each in contenders.items()
        }
        samples = alternate(runs, rounds)
    return Outcome(samples, memory, {name: each.tuples for name, each in contenders.items()})
