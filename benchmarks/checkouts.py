"""Pushes of WindowJoin, small and large, in this checkout and in another one; they take turns on one core.

``SLIDEJOIN_OTHER`` names the Python of the other checkout, in whose environment its slidejoin is installed::

    git worktree add ../older COMMIT && make -C ../older setup
    SLIDEJOIN_OTHER=../older/.venv/bin/python python -m benchmarks window

A push has rows of one side, left and right in turn, with two matches a row on average: of an int64 key in a
window of rows, and of a text key in an interval of event time. Both checkouts get the same rows and must find
the same pairs.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.foundation import Agreement, Answer
from benchmarks.machine import git_state
from benchmarks.measure import alternate, ratios
from benchmarks.peer import Program
from benchmarks.report import Result, Target, measured, missing
from benchmarks.workload import power

OTHER = "SLIDEJOIN_OTHER"
NAME_OTHER = f"name the Python of another checkout in {OTHER}"
WORKER = Path(__file__).with_name("push_worker.py")
KINDS = {"rows": "rows, int64 key", "interval": "interval, text key"}


@dataclass(frozen=True)
class Shape:
    """Pushes of one size."""

    rows: int  # of a push
    pushes: int  # of a run
    window: int  # rows of a side
    target: float  # this checkout / the other


SMALL = (Shape(1, 1000, 2**14, 4.0), Shape(10, 1000, 2**14, 4.0))
LARGE = (Shape(2**13, 16, 2**17, 0.97), Shape(2**16, 4, 2**17, 0.97))
QUICK = (Shape(1, 20, 2**6, 4.0), Shape(10, 10, 2**6, 4.0), Shape(2**8, 2, 2**8, 0.97))


def lines(shapes: Iterable[Shape], rounds: int, say: Callable[[str], None]) -> Iterable[Result]:
    """The time of a push, and how it compares with the other checkout."""
    other = os.environ.get(OTHER)
    pythons = {"this": sys.executable} | ({"other": other} if other else {})
    for shape in shapes:
        for kind, label in KINDS.items():
            what = f"pushes of {shape.rows}, {label}, w={power(shape.window)}"
            say(what)
            options = {"window": kind, "size": shape.window, "rows": shape.rows, "pushes": shape.pushes}
            agreement = Agreement()
            with contextlib.ExitStack() as stack:
                contenders = {
                    name: agreement.contender(_turn(stack.enter_context(_start(python, options))))
                    for name, python in pythons.items()
                }
                samples = alternate(contenders, rounds)
            target = Target(">=", shape.target)
            if other:
                speedup = ratios(samples["other"], samples["this"])
                yield measured(f"WindowJoin / other checkout, {what}", speedup, "x", target)
            else:
                yield missing(f"WindowJoin / other checkout, {what}", "x", target, NAME_OTHER)
            for name, seconds in samples.items():
                checkout = "" if name == "this" else ", other checkout"
                times = [1e6 * each / shape.pushes for each in seconds]
                yield measured(f"WindowJoin, a push{checkout}, {what}", times, "µs")


def other_commit() -> str | None:
    """The commit of the other checkout, with a word on files that differ from it."""
    other = os.environ.get(OTHER)
    if not other:
        return None
    with _start(other, {"window": "rows", "size": 4, "rows": 1, "pushes": 2}) as worker:
        commit, changed = git_state(Path(worker.ready["package"]))
    return f"{commit}, with changes" if changed else commit


def _start(python: str, options: dict[str, object]) -> Program:
    command = [python, "-I", str(WORKER), json.dumps(options)]
    return Program(command, {}, f"check that {python} imports slidejoin")


def _turn(worker: Program) -> Callable[[], Answer]:
    def run() -> Answer:
        answer = worker.run()
        return Answer(answer["seconds"], answer["matches"], answer["checksum"])

    return run
