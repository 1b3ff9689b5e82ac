"""The micro-batches of a streaming query as it runs: what each one did."""

import json
import os
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from slidejoin.spark.files import Folder, open_folder
from slidejoin.spark.metrics import find_state, of_batch


@dataclass(frozen=True)
class MicroBatch:
    """The figures of one micro-batch; matches, late and stored rows as the join counted them."""

    number: int
    left_rows: int
    right_rows: int
    matches: int
    late_left: int
    late_right: int
    null_left: int
    null_right: int
    partitions: int
    stored: int
    written_bytes: int  # of runs
    began: float  # Unix time
    seconds: float
    watermark: str

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.left_rows + self.right_rows

    @property
    def late(self) -> int:
        """Late rows of both sides."""
        return self.late_left + self.late_right

    def line(self) -> str:
        """The figures as a line of text."""
        rate = self.rows / max(self.seconds, 1e-9)
        return (
            f"micro-batch {self.number}  {self.rows:,} rows  {rate:,.0f} rows/s  {self.matches:,} matches  "
            f"{self.stored:,} state rows  watermark {self.watermark}"
        )


_SUMS = (
    "rows", "left_rows", "right_rows", "matches", "late", "late_left", "late_right", "null_left",
    "null_right",
)  # fmt: skip


class MicroBatches:
    """Reports the micro-batches of a query, each once.

    Parameters
    ----------
    query : StreamingQuery
        Running or stopped.
    state_dir : path or URI, optional
        That of the join; needed where ``join`` was called in another process.
    name : str
        Of the join.
    keep : int, optional
        So many of the last ones are kept in ``batches``; all unless given.
    """

    def __init__(
        self,
        query: StreamingQuery,
        state_dir: str | os.PathLike[str] | None = None,
        name: str = "join",
        keep: int | None = None,
    ) -> None:
        self._query = query
        self._state_dir = state_dir
        self._name = name
        self._last = -1  # the number of the last one
        self._totals: Counter[str] = Counter()
        self.count = 0
        self.batches: deque[MicroBatch] = deque(maxlen=keep)

    def total(self, figure: str) -> int:
        """A figure of all micro-batches so far together."""
        return self._totals[figure]

    @property
    def stored(self) -> int:
        """Rows in the window after the last micro-batch that had a task."""
        return next((batch.stored for batch in reversed(self.batches) if batch.partitions), 0)

    def new(self) -> list[MicroBatch]:
        """The micro-batches that have ended since the last call."""
        found: list[MicroBatch] = []
        folder = self._folder()
        if folder is None:  # no task has run yet
            return found
        for progress in map(_plain, self._query.recentProgress):
            number = progress["batchId"]
            # A report without addBatch means that there was no new data.
            if number > self._last and "addBatch" in progress.get("durationMs", {}):
                self._last = number
                found.append(_micro_batch(progress, of_batch(folder, number)))
        for batch in found:
            self._totals.update({name: getattr(batch, name) for name in _SUMS})
        self.count += len(found)
        self.batches += found
        return found

    def _folder(self) -> Folder | None:
        """Where the tasks leave their figures."""
        id_ = str(self._query.id)
        found = find_state(id_, self._state_dir)
        return None if found is None else open_folder(found[0], id_, self._name)


def _micro_batch(progress: Mapping[str, Any], figures: Mapping[str, Any]) -> MicroBatch:
    return MicroBatch(
        number=progress["batchId"],
        left_rows=figures.get("rows_left", 0),
        right_rows=figures.get("rows_right", 0),
        matches=figures.get("matches", 0),
        **{name: figures.get(name, 0) for name in ("late_left", "late_right", "null_left", "null_right")},
        partitions=figures.get("partitions", 0),
        stored=figures.get("stored", 0),
        written_bytes=figures.get("written_bytes", 0),
        began=datetime.fromisoformat(progress["timestamp"]).timestamp(),
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        watermark=(figures.get("watermark") or "none yet")[:19],
    )


def _plain(progress: Any) -> Mapping[str, Any]:
    """A progress report as a mapping, whatever class it has in this version of Spark."""
    return progress if isinstance(progress, Mapping) else json.loads(progress.json)
