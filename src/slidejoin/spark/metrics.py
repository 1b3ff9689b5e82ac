"""Metrics: what a join did in each micro-batch, where Spark's own progress reports show it.

Every group adds its figures to its results; ``DataFrame.observe`` sums them up. They arrive in each progress
of a query, for a ``StreamingQueryListener`` and for :func:`metrics` alike, under a name that begins with
``slidejoin``.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from slidejoin.spark.recipe import Recipe

PREFIX = "slidejoin"

_SUMS = (
    "groups", "rows_left", "rows_right", "copies", "matches", "results", "late_left", "late_right",
    "null_left", "null_right", "stored", "state_bytes", "live_hits", "file_hits", "restores",
)  # fmt: skip
# Of groups at one time: of several micro-batches the last one counts.
_LEVELS = ("groups", "stored", "state_bytes", "busiest_group", "busiest_ms", "busy_ms")


def observed(results: DataFrame, recipe: Recipe) -> DataFrame:
    """Results of groups, with their figures summed up by Spark."""
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS]
    busy = [
        F.coalesce(F.sum("busy_us") / 1000, F.lit(0.0)).alias("busy_ms"),
        F.coalesce(F.max("busy_us") / 1000, F.lit(0.0)).alias("busiest_ms"),
        F.coalesce(F.max_by("group_number", "busy_us"), F.lit(-1)).alias("busiest_group"),
    ]
    return results.observe(f"{PREFIX}.{recipe.name[:8]}", *sums, *busy)


def metrics(query: Any) -> dict[str, Any]:
    """Figures of the joins in a streaming query.

    Parameters
    ----------
    query : StreamingQuery
        Running or stopped.

    Returns
    -------
    dict
        ``joins``: for each join of the query, by its name, ``last`` (the last micro-batch in which a group
        ran) and ``total`` (all that Spark remembers, 100 unless
        ``spark.sql.streaming.numRecentProgressUpdates`` says otherwise). ``batch``: number of the last one.
        ``state_rows``, ``state_bytes``: of Spark's state store.

    Notes
    -----
    Figures: ``rows_left rows_right`` (input), ``copies`` (rows by group), ``matches``,
    ``results``, ``late_left late_right null_left null_right``; of the groups that ran: ``groups``,
    ``stored`` rows, ``state_bytes``, ``busy_ms``, ``busiest_group`` and its ``busiest_ms``; where their joins
    were found: ``live_hits`` (in the worker), ``file_hits`` (files of the host), ``restores`` (the
    checkpoint). A listener finds the same in ``event.progress.observedMetrics``.
    """
    progresses = [dict(_plain(progress)) for progress in query.recentProgress]
    joins: dict[str, dict[str, Any]] = {}
    for progress in progresses:
        for name, figures in _observations(progress):
            last = dict(figures)
            entry = joins.setdefault(name, {"last": {}, "total": {}})
            if last["groups"] or not entry["last"]:
                entry["last"] = last
            for figure, value in last.items():
                if figure not in _LEVELS:
                    entry["total"][figure] = entry["total"].get(figure, 0) + value
    operators = progresses[-1].get("stateOperators", []) if progresses else []
    return {
        "batch": progresses[-1].get("batchId") if progresses else None,
        "joins": joins,
        "state_rows": sum(operator.get("numRowsTotal", 0) for operator in operators),
        "state_bytes": sum(operator.get("memoryUsedBytes", 0) for operator in operators),
    }


def _observations(progress: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, figures in (progress.get("observedMetrics") or {}).items():
        if name.startswith(PREFIX + "."):
            yield name, figures if isinstance(figures, Mapping) else figures.asDict()


def _plain(progress: Any) -> Mapping[str, Any]:
    """A progress report as a mapping, whatever class it has in this version of Spark."""
    if isinstance(progress, Mapping):
        return progress
    return json.loads(progress.json)  # type: ignore[no-any-return]
