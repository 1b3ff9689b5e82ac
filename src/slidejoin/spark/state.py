"""The state of a query, for a reader: which runs a join holds, and their rows."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slidejoin.keys.extract import SIDES
from slidejoin.spark.files import Folder, open_folder
from slidejoin.spark.heads import Head, Mark, batches, head_folder
from slidejoin.spark.runs import read_rows


@dataclass(frozen=True)
class StateRun:
    """Rows of one side in one partition that may still match.

    Attributes
    ----------
    query, join : str
        Whose they are: the query's id, the name of the join.
    batch, partition : int
        The micro-batch that left them, and where.
    side : str
        ``"left"`` or ``"right"``.
    rows : int
        How many.
    file : str
        The Arrow file, below the state directory.
    """

    query: str
    join: str
    batch: int
    partition: int
    side: str
    rows: int
    file: str
    _folder: Any
    _stored: Any

    def read(self) -> pa.Table:
        """The rows, with the columns of their side and ``matched``, where the join keeps that."""
        return read_rows(self._folder, self._stored)


def state(state_dir: str | os.PathLike[str], batch: int | None = None) -> list[StateRun]:
    """List what joins of streams hold in a state directory.

    Parameters
    ----------
    state_dir : path or URI
        That of :func:`slidejoin.spark.join`.
    batch : int, optional
        The state after this micro-batch; otherwise after the last one.

    Notes
    -----
    Rows of a partition that has written its state twice, after a failure, are listed once.
    """
    top = open_folder(os.fspath(state_dir))
    return [
        run
        for query in sorted(top.names(""))
        for join in sorted(top.names(query))
        for run in _runs(open_folder(f"{os.fspath(state_dir)}/{query}/{join}"), query, join, batch)
    ]


def _runs(folder: Folder, query: str, join: str, batch: int | None) -> Iterator[StateRun]:
    numbers = [number for number in batches(folder) if batch is None or number <= batch]
    if not numbers:
        return
    path = head_folder(numbers[-1])
    marks = [mark for mark in map(Mark.read, folder.names(path)) if mark is not None]
    newest = {mark.partition: mark for mark in sorted(marks, key=lambda mark: mark.written)}
    for partition, mark in sorted(newest.items()):
        for half in Head.read(folder, f"{path}/{mark.name}").runs:
            for side, runs in enumerate(half):
                for run in runs:
                    yield StateRun(
                        query, join, numbers[-1], partition, SIDES[side], run.rows,
                        f"{query}/{join}/{run.file}", folder, run,
                    )  # fmt: skip
