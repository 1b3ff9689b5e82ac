"""What a source yields: single rows, batches, and batches that know their offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slidejoin.source import to_table

UNMARKED: Any = object()  # the offset of rows that are counted


@dataclass(frozen=True)
class Batch:
    """Rows of a source, and the offset at which the source goes on after them.

    A source of a run may yield it in the place of a plain batch, to give its offsets a meaning of its own:
    offsets of Kafka's partitions, a file and a place in it. Rows without offsets are counted.

    Parameters
    ----------
    rows : object
        A batch as for ``push``, or a list of rows. It may be empty: then only the offset moves.
    offset : object
        Any value that JSON has. After a resume the source is called with the last one that was joined.

    Examples
    --------
    >>> import slidejoin as sj
    >>> def numbers(offset):
    ...     for n in range(offset, 4):
    ...         yield sj.Batch([{"n": n}], offset=n + 1)
    >>> join = sj.WindowJoin(sj.equal("n"), 10)
    >>> run = join.run(left=numbers, right=[[{"n": 2}]])
    >>> sj.concat(run).to_pylist()
    [{'n': 2, 'n_right': 2}]
    >>> run.offsets
    {'left': 4, 'right': 1}
    """

    rows: Any
    offset: Any


class Chunk:
    """A batch that was read: its table, and its offset if it has one."""

    __slots__ = ("offset", "rows", "table")

    def __init__(self, table: pa.Table, offset: Any) -> None:
        self.table = table
        self.rows: int = table.num_rows
        self.offset = offset


class End:
    """The end of a source, and the error that ended it."""

    __slots__ = ("error", "rows")

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.rows = 0


def read_item(item: Any, name: str) -> "dict[Any, Any] | Chunk":
    """An item of a source that is not a plain dict: a row as a dict, a batch as a chunk."""
    if isinstance(item, Batch):
        rows = [item.rows] if isinstance(item.rows, Mapping) else item.rows
        return Chunk(to_table(rows, name), item.offset)
    if isinstance(item, Mapping):
        return dict(item)
    return Chunk(to_table(item, name), UNMARKED)
