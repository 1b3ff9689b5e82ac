"""Stream drivers: join.run over iterators of single rows; one core.

Throughput: two iterators hand out rows (dicts of an int, a float and a text) as fast as they are taken. Each
left row has one partner. Delay: both iterators pause between small groups of rows, each row carries the time
at which it was handed out, and a match is timed when the caller gets it. The delay that counts is that of its
later row, less ``max_delay``: what the driver and the join add to the time that a row may wait by order. It
is measured at a load well below the throughput.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates
from benchmarks.report import Result, Target, measured
from slidejoin.errors import StateError
from slidejoin.predicate import equal
from slidejoin.window import rows
from slidejoin.window_join import WindowJoin


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int = 2**18  # of a run, both sides together
    max_rows: int = 4096
    max_delay: int = 5  # milliseconds
    paced_rows: int = 2**16  # of a run that is timed, both sides together
    group: int = 25  # rows of a side between two pauses of a millisecond: 50,000 rows/s at most
    rounds: int = MIN_ROUNDS


QUICK = Sizes(rows=2**11, max_rows=256, paced_rows=2**9, rounds=1)


def lines(quick: bool, say: Callable[[str], None]) -> Iterable[Result]:
    """Measure everything on one core; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    with one_core():
        yield from _throughput(sizes, say)
        yield from _delay(sizes, say)


def _throughput(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    say("join.run over iterators of rows, throughput")
    count = sizes.rows // 2
    sides = [_rows(count, seed) for seed in (1, 2)]

    def run() -> float:
        join = WindowJoin(equal("id"), rows(count))
        begin = time.perf_counter()
        results = join.run(left=iter(sides[0]), right=iter(sides[1]), max_rows=sizes.max_rows)
        _check(sum(out.num_rows for out in results), count)
        return time.perf_counter() - begin

    samples = alternate({"run": run}, sizes.rounds)["run"]
    what = f"join.run over row iterators, micro-batches of {sizes.max_rows}"
    yield measured(what, rates(samples, sizes.rows), "M rows/s", Target(">=", 0.3))


def _check(matches: int, expected: int) -> None:
    if matches != expected:
        raise StateError(f"{matches} matches; expected {expected}, so the figures mean nothing")


def _rows(count: int, seed: int) -> list[dict[str, Any]]:
    ids = np.random.default_rng(seed).permutation(count).tolist()
    return [{"id": n, "price": n * 0.25, "symbol": f"S{n % 500}"} for n in ids]


def _delay(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    say("join.run over paced iterators of rows, delay")
    count = sizes.paced_rows // 2

    def paced() -> Iterator[dict[str, Any]]:
        for n in range(count):
            yield {"id": n, "sent": time.perf_counter_ns()}
            if n % sizes.group == sizes.group - 1:
                time.sleep(0.001)

    def run() -> float:
        join = WindowJoin(equal("id"), rows(count))
        delays = []
        limits: dict[str, Any] = {"max_rows": sizes.max_rows, "max_delay": f"{sizes.max_delay}ms"}
        for out in join.run(left=paced(), right=paced(), **limits):
            now = time.perf_counter_ns()
            delays.append(now - np.maximum(out["sent"].to_numpy(), out["sent_right"].to_numpy()))
        each = np.concatenate(delays)
        _check(len(each), count)
        return float(np.percentile(each, 99)) / 1e6 - sizes.max_delay

    samples = alternate({"run": run}, sizes.rounds)["run"]
    what = f"delay of a match at p99, less max_delay of {sizes.max_delay} ms"
    yield measured(what, samples, "ms", Target("<=", 5))
