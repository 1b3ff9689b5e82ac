"""The result of a model: named columns with a value for each interval."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from slidejoin.model.rational import Floats

COLUMNS = (
    "window_left", "window_right", "comparisons", "work", "throughput",
    "latency", "latency_in", "latency_join", "latency_out",
)  # fmt: skip


class ModelTable(Mapping[str, Floats]):
    """What :meth:`slidejoin.model.JoinModel.run` returns: a mapping of column names to read-only arrays.

    ``window_left`` and ``window_right`` are tuples at the end of the interval; ``comparisons`` those that its
    tuples need, ``work`` their seconds, ``throughput`` the comparisons done in the interval; the latencies
    are in seconds, and ``latency`` is the sum of its three parts.
    """

    def __init__(self, columns: Mapping[str, Floats]) -> None:
        self._columns = {name: columns[name] for name in COLUMNS}
        for column in self._columns.values():
            column.flags.writeable = False

    def __getitem__(self, name: str) -> Floats:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def intervals(self) -> int:
        """How many intervals it has."""
        return len(self._columns["latency"])

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table, with a row for each interval."""
        return pa.table(self._columns)

    def __repr__(self) -> str:
        lines = [f"ModelTable of {self.intervals} intervals: mean, least, greatest"]
        for name, column in self._columns.items():
            if self.intervals:
                figures = (column.mean(), column.min(), column.max())
                lines.append(f"  {name:12} " + " ".join(f"{figure:12.6g}" for figure in figures))
        return "\n".join(lines)
