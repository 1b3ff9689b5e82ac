"""Pushes rows through WindowJoin under the interpreter that runs it: a contender of ``checkouts``.

It imports nothing of ``benchmarks``, so that the Python of another checkout can run it. Its argument is a
JSON object: ``window`` ("rows" or "interval"), ``size`` (rows of a side's window), ``rows`` (of a push),
``pushes`` (of a run). It fills the windows and prints ``{"ready": true, "package": folder}``; then each line
of standard input starts a run, which prints ``{"seconds", "matches", "checksum"}``.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slidejoin as sj

MATCHES = 2  # of a row, on average


def say(answer: dict[str, Any]) -> None:
    """Answer with a line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Stream:
    """Rows of both sides in turn, and the join that takes them."""

    def __init__(self, window: str, size: int) -> None:
        self._by_text = window == "interval"
        self._values = size // MATCHES
        self._random = np.random.default_rng(1)
        self._next = 0
        if self._by_text:
            span = 2 * size  # a side has a row for every second timestamp
            self.join = sj.WindowJoin(sj.equal("key"), sj.interval(span, span, time="ts", lateness=1))
        else:
            self.join = sj.WindowJoin(sj.band("key", within=0), sj.rows(size))

    def pushes(self, count: int, rows: int) -> list[dict[str, pa.Table]]:
        """Make pushes of so many rows, of the left and of the right side in turn."""
        made = []
        for i in range(count):
            side = i % 2
            numbers = np.arange(self._next, self._next + rows)
            keys = pa.array(self._random.integers(0, self._values, rows))
            columns = {
                "key": pc.cast(keys, pa.string()) if self._by_text else keys,
                "ts": pa.array(2 * numbers + side),
                "id": pa.array(numbers),
            }
            made.append({("left", "right")[side]: pa.table(columns)})
            self._next += rows * side
        return made


def main() -> None:
    """Fill the windows, then run on demand."""
    options = json.loads(sys.argv[1])
    rows, pushes = options["rows"], options["pushes"]
    stream = Stream(options["window"], options["size"])
    filling = max(rows, options["size"] // 4)
    for push in stream.pushes(2 * max(6, 2 * options["size"] // filling), filling):
        stream.join.push(**push)
    for push in stream.pushes(20, rows):
        stream.join.push(**push)
    say({"ready": True, "package": str(Path(sj.__file__).parent)})
    for _ in sys.stdin:
        seconds = 0.0
        matches = checksum = 0
        for push in stream.pushes(pushes, rows):
            begin = time.perf_counter()
            table = stream.join.push(**push)
            seconds += time.perf_counter() - begin
            matches += table.num_rows
            for weight, name in ((31, "id"), (1, "id_right")):
                checksum += weight * (pc.sum(table[name]).as_py() or 0)
        say({"seconds": seconds, "matches": matches, "checksum": checksum})


if __name__ == "__main__":
    main()
