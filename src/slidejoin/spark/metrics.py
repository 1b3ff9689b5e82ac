"""Metrics: what a join did in its micro-batches, as its tasks left it beside their state."""

import contextlib
import json
import os
from collections import Counter
from typing import Any

from slidejoin.errors import SpecError
from slidejoin.explain import Explanation
from slidejoin.spark.files import Folder, open_folder
from slidejoin.spark.marks import Mark, batches, head_folder, newest_of, sets_of

RECENT = 100  # micro-batches that `total` is of, at most

# Of a partition at one time: of several micro-batches the last one counts.
_LEVELS = ("partitions", "stored", "runs", "busiest_partition", "busiest_ms", "watermark")
_FIGURES = (
    "rows_left", "rows_right", "copies", "matches", "results", "late_left", "late_right", "null_left",
    "null_right", "stored", "runs", "written_bytes",
)  # fmt: skip
_used: dict[str, dict[str, Explanation]] = {}  # this process's joins, by state directory and name


def remember(state_dir: str, name: str, explanation: Explanation) -> None:
    """Note where a join of this process keeps its state, for :func:`metrics`, and what it does."""
    joins = _used.pop(state_dir, {})
    _used[state_dir] = {**joins, name: explanation}


def remembered(state_dir: str, name: str) -> Explanation | None:
    """What a join of this process does."""
    return _used.get(state_dir, {}).get(name)


def find_state(id_: str, state_dir: str | os.PathLike[str] | None) -> tuple[str, list[str]] | None:
    """The state directory of a query, by its id, and the names of its joins; None before its first task."""
    for place in [os.fspath(state_dir)] if state_dir is not None else [*reversed(_used)]:
        names = open_folder(place).names(id_)
        if names:
            return place, sorted(names)
    return None


def metrics(query: Any, state_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Figures of the joins in a streaming query.

    Parameters
    ----------
    query : StreamingQuery or str
        Running or stopped, or its id.
    state_dir : path or URI, optional
        That of the join; needed where ``join`` was called in another process.

    Returns
    -------
    dict
        ``joins``: for each join of the query, by its name, ``batch`` (number of its last micro-batch),
        ``last`` (figures of that) and ``total`` (sums over those that are kept, 100 of them).

    Notes
    -----
    Figures: ``rows_left rows_right`` (input), ``copies`` (rows by partition), ``matches``, ``results``,
    ``late_left late_right null_left null_right``; ``partitions``, ``stored`` rows and ``runs`` they are in;
    ``written_bytes``; ``busy_ms`` of all tasks, ``busiest_ms`` of the slowest, ``busiest_partition``; the
    ``watermark`` of the micro-batch as a text.

    Cost: one listing and one small file for each partition, for each of the micro-batches.

    Examples
    --------
    ::

        query = near.writeStream.format("parquet").option(...).start("near/out")
        metrics(query)["joins"]["join"]["last"]["results"]
    """
    id_ = str(getattr(query, "id", query))
    if state_dir is None and not _used:
        raise SpecError("no join of streams was made in this process; give metrics(query, state_dir=...)")
    found = find_state(id_, state_dir)
    if found is None:
        return {"joins": {}}
    place, names = found
    return {"joins": {name: _figures(open_folder(place, id_, name)) for name in names}}


def _figures(folder: Folder) -> dict[str, Any]:
    last: dict[str, Any] = {}
    total: Counter[str] = Counter()
    latest = None
    for number in batches(folder)[-RECENT:]:
        figures = of_batch(folder, number)
        if not figures:
            continue
        latest, last = number, figures
        total.update({name: figures[name] for name in figures if name not in _LEVELS})
    return {"batch": latest, "last": last, "total": dict(total)}


def of_batch(folder: Folder, number: int) -> dict[str, Any]:
    """The figures of a micro-batch, of all partitions together; none if it had no task."""
    parts = _by_partition(folder, number)
    if not parts:
        return {}
    sums = {name: sum(part.get(name, 0) for part in parts.values()) for name in _FIGURES}
    busy = {partition: part.get("busy_us", 0) / 1000 for partition, part in parts.items()}
    busiest = max(busy, key=busy.__getitem__)
    return {
        **sums,
        "busy_ms": sum(busy.values()),
        "partitions": len(parts),
        "busiest_partition": busiest,
        "busiest_ms": busy[busiest],
        "watermark": next(iter(parts.values())).get("watermark"),
    }


def _by_partition(folder: Folder, number: int) -> dict[int, dict[str, Any]]:
    """What the tasks of a micro-batch left, by partition: the last attempt of each, in the newest run."""
    path = head_folder(number)
    names = (name.removesuffix(".figures") for name in folder.names(path) if name.endswith(".figures"))
    sets = sets_of(mark for name in names if (mark := Mark.read(f"{name}.head")) is not None)
    found = {}
    for partition, mark in sorted(max(sets.values(), key=newest_of, default={}).items()):
        with contextlib.suppress(OSError, ValueError):  # they are figures only
            name = mark.name.replace(".head", ".figures")
            found[partition] = json.loads(folder.map(f"{path}/{name}").to_pybytes())
    return found
