"""``slidejoin run`` on two CSV files, against a process that reads both with pyarrow and does nothing else.

Trades and quotes have a number, a time in microseconds, a symbol and a price. A trade meets the quotes of
its symbol within a second before and after whose price is near: about one of them, so that the result has as
many rows as an input. The whole command is timed, from the start of its process to its end: all columns of
both files are read, joined and written. The reader is a process, too, with all columns of the same types and
all cores; it keeps both tables in memory, and writes nothing. Both have compiled modules, as an installed
program has.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from benchmarks.measure import MIN_ROUNDS, alternate, ratios
from benchmarks.report import Result, Target, measured
from slidejoin.errors import Error

SYMBOLS = 200
ROWS_PER_SECOND = 1000
CONDITION = "left.symbol = right.symbol and abs(left.price - right.price) <= 5"
_READER = """
import sys
import pyarrow as pa
import pyarrow.csv as csv
types = csv.ConvertOptions(column_types={"ts": pa.timestamp("us")})
tables = [csv.read_csv(file, convert_options=types) for file in sys.argv[1:]]
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int = 3_000_000  # of each file
    rounds: int = MIN_ROUNDS


QUICK = Sizes(rows=20_000, rounds=1)


@dataclass(frozen=True)
class Case:
    """A run: its window, the ending of its output, and other options."""

    what: str
    window: str
    output: str
    options: tuple[str, ...] = ()
    target: Target | None = None


_INTERVAL = "interval('1s', '1s', time='ts', lateness='2s')"
CASES = (
    Case("interval, Parquet", _INTERVAL, "parquet", target=Target("<=", 3)),
    Case("interval, CSV", _INTERVAL, "csv", target=Target("<=", 3)),
    Case("rows(1000), Parquet", "rows(1000)", "parquet", target=Target("<=", 3)),
    Case("interval, Parquet, two columns", _INTERVAL, "parquet", ("--columns", "id,id_right")),
)


def lines(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """The time of each run as a multiple of the reader's time, and both in seconds."""
    with tempfile.TemporaryDirectory(prefix="slidejoin-") as directory:
        place = Path(directory)
        say(f"writing two CSV files of {sizes.rows:,} rows")
        files = [write_stream(place / f"{name}.csv", sizes.rows, seed) for seed, name in enumerate("ab")]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def seconds(command: list[str]) -> float:
            begin = time.perf_counter()
            done = subprocess.run(
                [sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                raise Error(f"{command[:3]} ended with {done.returncode}: {done.stderr.strip()}")
            return time.perf_counter() - begin

        for case in CASES:
            say(f"slidejoin run on two CSV files: {case.what}")
            output = place / f"result.{case.output}"
            command = [
                "-m", "slidejoin", "run", *files, "--on", CONDITION, "--window", case.window, "--output",
                str(output), "--overwrite", "--quiet", *case.options,
            ]  # fmt: skip
            samples = alternate(
                {"run": partial(seconds, command), "read": partial(seconds, ["-c", _READER, *files])},
                sizes.rounds,
            )
            what = f"slidejoin run, two CSV files of {sizes.rows:,} rows, {case.what}"
            yield measured(
                f"{what} / reading them with pyarrow",
                ratios(samples["run"], samples["read"]),
                "x",
                case.target,
            )
            yield measured(what, samples["run"], "s")
            yield measured(f"reading them with pyarrow, beside {case.what}", samples["read"], "s")


def write_stream(path: Path, rows: int, seed: int) -> str:
    """Write one side, in the order of time; equal seeds give equal files."""
    random = np.random.default_rng(seed)
    span = rows * 1_000_000 // ROWS_PER_SECOND
    times = 1_700_000_000_000_000 + np.sort(random.integers(0, span, rows))
    symbols = pa.array([f"SYM{number:03}" for number in range(SYMBOLS)])
    table = pa.table(
        {
            "id": np.arange(rows),
            "ts": pa.array(times).cast(pa.timestamp("us")),
            "symbol": symbols.take(pa.array(random.integers(0, SYMBOLS, rows))),
            "price": np.round(random.uniform(10, 110, rows), 2),
        }
    )
    pc_csv.write_csv(table, path)
    return str(path)
