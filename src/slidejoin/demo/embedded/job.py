"""The job: push the streams through a join, check a sample of the pairs, sum up."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from slidejoin import isa
from slidejoin.demo.embedded.check import Pushed, find_failure, pushes
from slidejoin.demo.embedded.streams import Setup, generate
from slidejoin.numeric import NumericJoin, NumericStats
from slidejoin.run.progress import RowProgress


@dataclass(frozen=True)
class Summary:
    """The figures of the run, and whether the result is right."""

    setup: Setup
    stats: NumericStats
    index: str
    latencies: NDArray[np.float64]
    checked_rows: int
    failure: str | None

    def print(self, console: Console) -> None:
        """Print the table."""
        rows, matches = self.setup.rows, self.stats["matches"]
        p50, p99 = np.percentile(self.latencies, (50, 99)) * 1e3
        table = Table("trades and quotes joined by price", "")
        table.columns[1].justify = "right"
        for what, value in (
            ("rows", f"{rows:,}"),
            ("window", f"{self.setup.window:,} rows a side"),
            ("matches", f"{matches:,}"),
            ("matches per row", f"{matches / rows:.2f}"),
            ("rows per second", f"{rows / self.latencies.sum():,.0f}"),
            (f"push of {self.setup.batch:,} rows, p50", f"{p50:.2f} ms"),
            ("p99", f"{p99:.2f} ms"),
            ("max", f"{self.latencies.max() * 1e3:.2f} ms"),
            ("memory of the join", f"{self.stats['memory_bytes'] / 1e6:.1f} MB"),
            ("instruction set", isa.current()),
            ("index", self.index),
            ("rows checked", f"{self.checked_rows:,}"),
            ("check", "FAILED" if self.failure else "passed"),
        ):
            table.add_row(what, value)
        console.print(table)


def run(setup: Setup, console: Console) -> Summary:
    """Generate, join and check."""
    join = NumericJoin(setup.window, -setup.band, setup.band, key=np.int64)
    console.print(f"generating {setup.rows:,} rows", highlight=False)
    streams = generate(setup)
    latencies: list[float] = []
    sample: list[Pushed] = []
    matches = 0
    with RowProgress(console, setup.rows) as progress:
        for start, stop, checked in pushes(setup):
            sides, keys = streams.sides[start:stop], streams.keys[start:stop]
            begin = time.perf_counter()
            left, right = join.push(sides, keys)
            latencies.append(time.perf_counter() - begin)
            matches += len(left)
            if checked:
                sample.append(Pushed(start, stop, left, right))
            progress.update(stop, matches)
    console.print("checking a sample of the pairs", highlight=False)
    return Summary(
        setup=setup,
        stats=join.stats,
        index=join.index,
        latencies=np.array(latencies),
        checked_rows=sum(pushed.stop - pushed.start for pushed in sample),
        failure=find_failure(setup, streams, sample, join, matches),
    )
