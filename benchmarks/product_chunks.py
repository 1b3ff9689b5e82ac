"""A hot key: few rows with very many matches in one push by chunks, as single rows, and as one table.

Every right row meets all left rows; one core. Contenders run in processes of their own, since the memory of a
process that has been used before says little. Seconds are those of the pushes; memory is the growth of the
greatest resident size while they run, measured from the moment when the left rows are stored. It is held
against the size of the table that a single row returns.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import MIN_ROUNDS, alternate, one_core, ratios
from benchmarks.report import Result, Target, measured
from slidejoin.errors import Error

ROOT = Path(__file__).parent.parent
_WORKER = """
import json, resource, sys, time
import numpy as np
import slidejoin as sj

how, partners, rows, chunk_rows = sys.argv[1], *map(int, sys.argv[2:])
join = sj.WindowJoin(sj.equal("id"), sj.rows(partners))
step = 100_000
for start in range(0, partners, step):
    count = min(step, partners - start)
    join.push(left={"id": np.full(count, 7), "x": np.arange(count)})
right = {"id": np.full(rows, 7), "y": np.arange(rows)}
one = {"id": np.full(1, 7), "y": np.arange(1)}
if how == "chunks":
    results = lambda: join.push_iter(right=right, chunk_rows=chunk_rows)
elif how == "rows":
    results = lambda: (join.push(right=one) for _ in range(rows))
else:
    results = lambda: [join.push(right=right)]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


before, begin, found, largest = peak(), time.perf_counter(), 0, 0
for table in results():
    found += table.num_rows
    largest = max(largest, table.nbytes)
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "found": found, "grown": peak() - before, "largest": largest}))
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    partners: int = 1_000_000
    rows: int = 50
    chunk_rows: int = 2**17
    rounds: int = MIN_ROUNDS


QUICK = Sizes(partners=3000, rows=10, chunk_rows=1000, rounds=1)


def lines(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Chunks and one table against single rows: seconds and memory."""
    answers: dict[str, list[dict[str, float]]] = {"chunks": [], "rows": [], "table": []}

    def run(how: str) -> float:
        numbers = [sizes.partners, sizes.rows, sizes.chunk_rows]
        done = subprocess.run(
            [sys.executable, "-c", _WORKER, how, *map(str, numbers)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Error(f"the process that pushes {how} ended with {done.returncode}: {done.stderr.strip()}")
        answer = json.loads(done.stdout)
        if answer["found"] != sizes.partners * sizes.rows:
            raise Error(f"{answer['found']} pairs; expected {sizes.partners * sizes.rows}")
        answers[how].append(answer)
        return float(answer["seconds"])

    pairs = f"{sizes.partners * sizes.rows:,} pairs of {sizes.rows} rows"
    say(f"a hot key: {pairs}")
    with one_core():
        samples = alternate({how: partial(run, how) for how in answers}, sizes.rounds)
    what = f"{pairs} in one push, by chunks of {sizes.chunk_rows:,}"
    yield measured(
        f"{what} / as single rows, time", ratios(samples["chunks"], samples["rows"]), "x", Target("<=", 1)
    )
    grown = {how: [max(each["grown"], 1) for each in some[1:]] for how, some in answers.items()}
    table_of_a_row = answers["rows"][0]["largest"]
    yield measured(
        f"{what}, growth of memory / the result of one row",
        [bytes_ / table_of_a_row for bytes_ in grown["chunks"]],
        "x",
        Target("<=", 1.5),
    )
    yield measured(
        f"{pairs} in one push, as one table / as single rows, time",
        ratios(samples["table"], samples["rows"]),
        "x",
    )
    for how, some in samples.items():
        yield measured(f"{pairs}, {how}", some, "s")
        yield measured(f"{pairs}, {how}, growth of memory", [each / 1e6 for each in grown[how]], "MB")
