"""A streaming query as it runs: what each micro-batch did."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True)
class MicroBatch:
    """The figures of one micro-batch; matches, late and stored rows as the join counted them."""

    number: int
    left_rows: int
    right_rows: int
    matches: int
    late: int
    partitions: int
    stored: int
    seconds: float
    watermark: str

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.left_rows + self.right_rows

    def line(self) -> str:
        """The figures as a line of text."""
        rate = self.rows / max(self.seconds, 1e-9)
        return (
            f"micro-batch {self.number}  {self.rows:,} rows  {rate:,.0f} rows/s  {self.matches:,} matches  "
            f"{self.stored:,} state rows  watermark {self.watermark}"
        )


class Watch:
    """Reports the micro-batches of a query with one join, each once."""

    def __init__(self, query: "StreamingQuery", state_dir: Path) -> None:
        from slidejoin.spark.files import open_folder

        self._query = query
        self._state = open_folder(str(state_dir), str(query.id), "join")
        self._seen: set[int] = set()
        self.batches: list[MicroBatch] = []

    def total(self, figure: str) -> int:
        """A figure of all micro-batches so far together."""
        return sum(getattr(batch, figure) for batch in self.batches)

    @property
    def stored(self) -> int:
        """Rows in the window after the last micro-batch that had a task."""
        return next((batch.stored for batch in reversed(self.batches) if batch.partitions), 0)

    def new(self) -> list[MicroBatch]:
        """The micro-batches that have ended since the last call."""
        from slidejoin.spark.metrics import of_batch

        found = []
        for progress in map(_plain, self._query.recentProgress):
            number = progress["batchId"]
            # A report without addBatch means that there was no new data.
            if number not in self._seen and "addBatch" in progress.get("durationMs", {}):
                self._seen.add(number)
                found.append(_micro_batch(progress, of_batch(self._state, number)))
        self.batches += found
        return found


def _micro_batch(progress: Mapping[str, Any], figures: Mapping[str, Any]) -> MicroBatch:
    return MicroBatch(
        number=progress["batchId"],
        left_rows=figures.get("rows_left", 0),
        right_rows=figures.get("rows_right", 0),
        matches=figures.get("matches", 0),
        late=figures.get("late_left", 0) + figures.get("late_right", 0),
        partitions=figures.get("partitions", 0),
        stored=figures.get("stored", 0),
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        watermark=(figures.get("watermark") or "none yet")[:19],
    )


def _plain(progress: Any) -> Mapping[str, Any]:
    """A progress report as a mapping, whatever class it has in this version of Spark."""
    return progress if isinstance(progress, Mapping) else json.loads(progress.json)
