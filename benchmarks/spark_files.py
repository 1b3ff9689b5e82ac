"""Streams of the Spark benchmark as Parquet files, with the answer that a join of them must give.

Keys are those of ``workload``; rows of both sides come in turn, at a steady rate, so that the interval of
``LENGTH`` before and after a row holds ``window`` rows of the other side on each hand, and an arrival meets
``matches`` of the earlier ones. A file is one side's part of one micro-batch; it is neither compressed nor
encoded, so that reading it is as cheap as it gets. The answers come from the embedded engine.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.arrow_streams import checksum
from benchmarks.workload import Workload
from slidejoin.predicate import Predicate, band
from slidejoin.window import Interval, interval
from slidejoin.window_join import WindowJoin

SCHEMA = "key int, ts timestamp, id bigint, x double"
COLUMNS = ("key", "ts", "id", "x")
LENGTH = 60  # seconds of the interval, in both directions
LATENESS = 1  # seconds; the streams are in order

_MICROSECONDS = 10**6
_START = 1_700_000_000  # seconds since 1970: of the first row, and of the first file
_ROW_GROUP = 2**17
_PUSH = 2**17


class Answer(NamedTuple):
    """What a join found; the checksum is ``None`` where nobody has added up ids."""

    matches: int
    checksum: int | None

    @classmethod
    def of(cls, matches: int, left_sum: int, right_sum: int) -> "Answer":
        """The answer of so many pairs, with the sums of both sides' ids."""
        return cls(matches, checksum(left_sum, right_sum))


@dataclass(frozen=True)
class Streams:
    """Two streams, cut into micro-batches.

    Attributes
    ----------
    window : int
        Rows of a side in ``LENGTH`` seconds.
    batches : sequence of int
        Rows of each micro-batch, both sides together; even numbers.
    matches : float
        What an arrival finds among ``window`` rows of the other side.
    """

    window: int
    batches: Sequence[int]
    matches: float = 2

    @property
    def workload(self) -> Workload:
        """Where the keys come from."""
        return Workload(self.window, self.matches)

    @property
    def on(self) -> Predicate:
        """The condition."""
        return band("key", lower=self.workload.lower, upper=self.workload.upper)

    @property
    def interval(self) -> Interval:
        """The window, with its lateness."""
        return interval(f"{LENGTH}s", f"{LENGTH}s", time="ts", lateness=f"{LATENESS}s")

    def sides(self, number: int) -> tuple[pa.Table, pa.Table]:
        """The left and the right rows of a micro-batch."""
        start, count = sum(self.batches[:number]), self.batches[number]
        arrivals = np.arange(start, start + count)
        times = _START * _MICROSECONDS + arrivals * LENGTH * _MICROSECONDS // (2 * self.window)
        columns = {
            "key": self.workload.keys(start, count),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "id": arrivals // 2,
            "x": arrivals * 0.25,
        }
        table = pa.table(columns)
        left, right = (table.take(np.arange(side, count, 2)) for side in (0, 1))
        return left, right

    def write(self, folder: Path, start: int = 0) -> None:
        """Write the files of all micro-batches from a number on: ``left/NUMBER.parquet``, ``right/…``.

        Spark takes files by their modification times, which are therefore set, in order.
        """
        for number in range(start, len(self.batches)):
            for side, table in zip(("left", "right"), self.sides(number), strict=True):
                path = file_of(folder, side, number)
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(
                    table, path, row_group_size=_ROW_GROUP, compression="none", use_dictionary=False
                )
                os.utime(path, (_START + number, _START + number))

    def answers(self) -> list[Answer]:
        """What a join finds in each micro-batch, by the embedded engine."""
        schema = self.sides(0)[0].schema
        join = WindowJoin(self.on, self.interval, order="none", schemas=(schema, schema))
        return [self._answer(join, number) for number in range(len(self.batches))]

    def _answer(self, join: WindowJoin, number: int) -> Answer:
        matches = left_sum = right_sum = 0
        for found in _pushed(join, *self.sides(number)):
            matches += found.num_rows
            left_sum += pc.sum(found["id"]).as_py() or 0
            right_sum += pc.sum(found["id_right"]).as_py() or 0
        return Answer.of(matches, left_sum, right_sum)


def _pushed(join: WindowJoin, left: pa.Table, right: pa.Table) -> Iterator[pa.Table]:
    """Push both sides by turns, in parts, since results are larger than what was pushed."""
    for start in range(0, max(len(left), len(right)), _PUSH):
        yield join.push(left=left.slice(start, _PUSH))
        yield join.push(right=right.slice(start, _PUSH))


def file_of(folder: Path, side: str, number: int) -> Path:
    """The file of a side of a micro-batch."""
    return folder / side / f"{number:05}.parquet"
