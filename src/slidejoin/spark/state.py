"""The state of a query, for a reader: which runs a join holds, and their rows."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from slidejoin.join_type import JOIN_TYPES
from slidejoin.keys.extract import SIDES
from slidejoin.spark.files import Folder, open_folder
from slidejoin.spark.heads import Head
from slidejoin.spark.marks import batches, head_folder, newest_set
from slidejoin.spark.recipe import HALVES
from slidejoin.spark.runs import read_rows


@dataclass(frozen=True)
class StateRun:
    """Rows of one side in one partition that may still match.

    Attributes
    ----------
    query : str
        The id of the query.
    join : str
        The name of the join.
    batch : int
        The micro-batch whose state was listed. The run may have been written earlier.
    partition : int
        The partition.
    side : str
        ``"left"`` or ``"right"``.
    rows : int
        How many.
    file : str
        The Arrow file, below the state directory. It has columns of the join, too; their names begin with
        ``#``.
    """

    query: str
    join: str
    batch: int
    partition: int
    side: str
    rows: int
    file: str
    _read: Callable[[], pa.Table] = field(repr=False, compare=False)

    def read(self) -> pa.Table:
        """The rows: the columns of their side, and ``matched`` where the join type needs to know that.

        Cost: one pass over the file. The columns of the side are mapped, not copied.
        """
        return self._read()


def state(state_dir: str | os.PathLike[str], batch: int | None = None) -> list[StateRun]:
    """List what joins of streams hold in a state directory.

    Parameters
    ----------
    state_dir : path or URI
        That of :func:`slidejoin.spark.join`.
    batch : int, optional
        The state after this micro-batch; otherwise after the last one that all partitions have completed. If
        it had no rows for a join, that of the last one before it which had.

    Returns
    -------
    list of StateRun
        By query, join and partition. Empty if there is no state.

    Notes
    -----
    A row that was copied to several partitions is in a run of each. A full join on a band has two states, so
    its rows are there twice. A micro-batch that was run twice, after a failure, is listed once.

    Cost: one listing and one small file for each partition; rows are read by :meth:`StateRun.read` only.

    Examples
    --------
    >>> state("/nowhere")
    []

    ::

        for run in state("near/state"):
            print(run.join, run.batch, run.partition, run.side, run.rows)
            print(run.read())
    """
    top = open_folder(os.fspath(state_dir))
    return [
        run
        for query in sorted(top.names(""))
        for join in sorted(top.names(query))
        for run in _runs(open_folder(os.fspath(state_dir), query, join), query, join, batch)
    ]


def _runs(folder: Folder, query: str, join: str, batch: int | None) -> Iterator[StateRun]:
    for number in reversed(batches(folder)):
        marks = {} if batch is not None and number > batch else newest_set(folder, number)
        if marks:
            break
    else:
        return
    for partition, mark in sorted(marks.items()):
        head = Head.read(folder, f"{head_folder(number)}/{mark.name}")
        for half, sides in enumerate(head.runs):
            type_ = JOIN_TYPES[HALVES[half] if len(head.runs) > 1 else head.meaning["how"]]
            for side, runs in enumerate(sides):
                columns = len(head.meaning[f"{SIDES[side]} columns"])
                has_bits = type_.preserves[side] or type_.only == side
                for run in runs:
                    read = partial(read_rows, folder, run, columns, has_bits)
                    file = f"{query}/{join}/{run.file}"
                    yield StateRun(query, join, number, partition, SIDES[side], run.rows, file, read)
