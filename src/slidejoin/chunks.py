"""Chunks: the results of one push, handed over in tables of bounded size."""

from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa


class Chunked(Protocol):
    """A join that hands results over in chunks."""

    def _next_chunk(self, chunks: "Chunks") -> pa.Table: ...
    def _end_chunks(self, chunks: "Chunks") -> None: ...


class Chunks:
    """The results of one push, a table at a time; made by :meth:`slidejoin.WindowJoin.push_iter`.

    The rows of the push are joined as the chunks are asked for. Any other call that changes the join, or
    reads all of its state, first joins the rest and drops the results that were not asked for; so does
    :meth:`close`. Counters such as ``join.stats`` can be read meanwhile.
    """

    def __init__(self, join: Chunked, rows: int) -> None:
        self._join = join
        self.rows = rows  # of a chunk, at most
        self.ready: tuple[pa.Table, ...] = ()  # that were not handed over, from place `at` on
        self.at = 0
        self.ended = ""  # why there are no more chunks

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.Table:
        return self._join._next_chunk(self)

    def close(self) -> None:
        """Join what is left of the push, and drop its results."""
        self._join._end_chunks(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_ready(self) -> bool:
        """Whether the next chunk was made."""
        return self.at < len(self.ready)

    def cut(self, table: pa.Table) -> tuple[pa.Table, ...]:
        """Results in pieces of the size of a chunk."""
        return tuple(table.slice(start, self.rows) for start in range(0, table.num_rows, self.rows))

    def drop(self) -> None:
        """Forget the chunks that were made."""
        self.ready, self.at = (), 0
