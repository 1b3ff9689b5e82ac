"""watch(): a live page for a streaming query, with a point for every micro-batch."""

import os
from typing import Any

from slidejoin.errors import SpecError
from slidejoin.metrics import Family, family, text_of
from slidejoin.page.feed import Point
from slidejoin.page.server import HISTORY, PageServer
from slidejoin.spark.metrics import find_state, remembered
from slidejoin.spark.micro_batches import MicroBatches
from slidejoin.spark.reason import reason

_SHORT = 300  # characters of an error


def watch(
    query: Any,
    state_dir: str | os.PathLike[str] | None = None,
    *,
    name: str = "join",
    port: int = 0,
    host: str = "127.0.0.1",
) -> PageServer:
    """Serve a live page that shows how the join of a streaming query runs.

    Parameters
    ----------
    query : StreamingQuery
        What ``start()`` returned.
    state_dir : path or URI, optional
        That of the join; needed where ``join`` was called in another process.
    name : str
        Of the join, where the query has several.
    port, host
        As for :func:`slidejoin.watch`.

    Returns
    -------
    PageServer
        ``url`` is the address of the page; ``close()`` ends it, as does a ``with`` block.

    Notes
    -----
    Cost: a few calls of Spark's driver a second, and a small file for each partition and micro-batch. No job
    runs.

    Examples
    --------
    ::

        query = near.writeStream.format("parquet").option(...).start("near/out")
        with watch(query) as page:
            print(page.url)
            query.awaitTermination()
    """
    if not hasattr(query, "recentProgress"):
        raise SpecError(
            f"watch() got {query!r}; expected a StreamingQuery. slidejoin.watch is for WindowJoin"
        )
    return PageServer(QueryFeed(query, state_dir, name), host, port)


class QueryFeed:
    """What the live page shows of a query."""

    def __init__(self, query: Any, state_dir: str | os.PathLike[str] | None, name: str) -> None:
        self._query, self._state_dir, self._name = query, state_dir, name
        self._id, self._title = str(query.id), query.name
        self._batches = MicroBatches(query, state_dir, name, keep=HISTORY)
        self._state, self._reason = "running", ""

    def points(self) -> list[Point]:
        """A point for every micro-batch that has ended since the last call."""
        if self._state in ("ended", "failed"):
            return []
        self._look()  # before the reports: those of a query that has ended are complete
        return [
            Point(
                batch.began + batch.seconds,
                batch.left_rows / max(batch.seconds, 1e-3),
                batch.right_rows / max(batch.seconds, 1e-3),
                batch.matches / max(batch.seconds, 1e-3),
                batch.late / max(batch.seconds, 1e-3),
                batch.matches / batch.rows if batch.rows else None,
                batch.stored if batch.partitions else None,
                None,
                batch.written_bytes,
                batch.seconds,
                batch.seconds,
                batch.seconds,
                batch.seconds,
            )
            for batch in self._batches.new()
        ]

    def describe(self) -> dict[str, Any]:
        """As the page wants it."""
        found = find_state(self._id, self._state_dir)
        known = None if found is None else remembered(found[0], self._name)
        lines = [] if known is None else known.lines
        batches = self._batches.batches
        watermarks = [batch.watermark for batch in batches if batch.partitions]
        joined = dict(lines).get("join", "a join of streams")
        return {
            "title": joined.removesuffix(", of streams").partition(" on ")[2] or joined,
            "facts": [("Query", self._title or self._id), ("Join", self._name), ("Runs", "on Spark")],
            "state": self._state,
            "reason": self._reason,
            "unit": "micro-batch",
            "pushes": self._batches.count,
            "p99": None,
            "limits": [None, None],
            "sides": ["left", "right"],
            "totals": self._totals(),
            "watermark": watermarks[-1] if watermarks else None,
            "watermark_time": None,
            "explanation": lines
            or [("join", "known once the first micro-batch has run, in the process of join()")],
        }

    def metrics(self, format_: str) -> str:
        """The figures since the page was opened, by the names of :meth:`slidejoin.WindowJoin.metrics`."""
        labels = {"query": self._title or self._id, "join": self._name}
        totals = self._totals()
        result: list[Family] = []
        for metric, figure in (("rows", "rows"), ("late_rows", "late"), ("null_rows", "null")):
            made = family(f"slidejoin_{metric}")
            for side in ("left", "right"):
                made.add(totals[f"{figure}_{side}"], labels, "_total", side=side)
            result.append(made)
        for metric, value, ending in (
            ("matches", totals["matches"], "_total"),
            ("stored_rows", self._batches.stored, ""),
            ("ended", int(self._state in ("ended", "failed")), ""),
        ):
            made = family(f"slidejoin_{metric}")
            made.add(value, labels, ending)
            result.append(made)
        return text_of(result, format_)

    def _totals(self) -> dict[str, int]:
        total = self._batches.total
        return {
            "rows_left": total("left_rows"),
            "rows_right": total("right_rows"),
            "matches": total("matches"),
            **{name: total(name) for name in ("late_left", "late_right", "null_left", "null_right")},
        }

    def _look(self) -> None:
        """See how the query stands."""
        try:
            if self._query.isActive:
                is_working = self._query.status["isTriggerActive"] or self._query.status["isDataAvailable"]
                self._state = "running" if is_working else "idle"
                return
            error = self._query.exception()
        except Exception:  # the session has stopped, and the query with it
            self._state, self._reason = "ended", "Spark has stopped"
            return
        if error is None:
            self._state, self._reason = "ended", "stopped"
        else:
            self._state, self._reason = "failed", (reason(self._query) or str(error))[:_SHORT]
