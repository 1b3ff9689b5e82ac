"""What a distributed join does and what it costs, for a reader; nothing runs."""

import os
from collections.abc import Sequence

from pyspark.sql import DataFrame

from slidejoin.explain import Explanation, columns_line
from slidejoin.join_type import JOIN_TYPES, How
from slidejoin.keys.extract import SIDES
from slidejoin.predicate import Predicate
from slidejoin.spark import batch
from slidejoin.spark.prepare import Prepared, prepare
from slidejoin.window import Interval, Window

_ROW_BYTES = 8  # of state besides the columns


def explain(
    left: DataFrame,
    right: DataFrame,
    on: Predicate,
    window: Window,
    how: How = "inner",
    suffixes: tuple[str, str] = ("", "_right"),
    *,
    partitions: int | None = None,
    event_time: str | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    name: str = "join",
    columns: Sequence[str] | None = None,
    rate: float | None = None,
) -> Explanation:
    """Say how :func:`slidejoin.spark.join` would run a join: order of rows, partitions, state, latency.

    Takes the arguments of ``join``, checks them, and changes nothing.

    Parameters
    ----------
    rate : float, optional
        Rows a second of each side, for an estimate of the state in numbers.

    Notes
    -----
    Cost: no job of Spark runs.

    Examples
    --------
    ::

        explain(trades, quotes, on=sj.band("price", within=0.05),
                window=sj.interval("2s", "2s", time="ts", lateness="10s"),
                partitions=4, state_dir="near/state", rate=1e5)
    """
    prepared = prepare(
        left, right, on, window, how, suffixes, partitions, event_time, state_dir, name, columns
    )
    return explained(prepared, rate)


def explained(prepared: Prepared, rate: float | None = None) -> Explanation:
    """Say how a join that is prepared runs."""
    recipe, how, on = prepared.recipe, prepared.spec.how, prepared.spec.on
    half = recipe.halves[0]
    lines = [("join", f"{how} on {on!r}, of {'streams' if prepared.streaming else 'batches'}")]
    if len(recipe.halves) == 2:
        twice = "state" if prepared.streaming else "work"
        lines.append(("halves", f"a left join, and the right rows without a partner: twice the {twice}"))
    keys = " together with ".join(f"{key.op}({key.left!r}, {key.right!r})" for key in half.plan.indexed)
    if half.plan.banded == "time":
        keys = " together with ".join(part for part in (keys, "the interval of time") if part)
    lines.append(("sorted", f"rows in runs, by {keys}"))
    lines += [
        ("partitions", f"{recipe.partitions}: {half.partitioning.describe()}") for half in recipe.halves
    ]
    if half.partitioning.kind == "broadcast":
        lines.append(
            ("note", "every row of one side goes to all partitions: more of them do not divide its work")
        )
    if prepared.picked is not None:
        stored = dict(zip(SIDES, (schema.names for schema in recipe.schemas), strict=True))
        lines.append(columns_line([name for _, name in prepared.picked.names], stored))
    if prepared.streaming:
        lines.append(("state", _state(prepared, rate)))
        lines.append(("kept in", f"{recipe.state_dir}, a folder for each query, below it {recipe.name!r}"))
        lines.append(("latency", _latency(how)))
    else:
        megabytes = batch.LIMIT // 2**20
        lines.append(("memory", f"{megabytes} MB of rows of a partition, the rest in files; none is kept"))
    return Explanation(lines)


def _state(prepared: Prepared, rate: float | None) -> str:
    window = prepared.spec.window
    assert isinstance(window, Interval)
    lateness = window.lateness or 0
    kept = [max(0, reach) + lateness for reach in (window.after, window.before)]
    widths = [_ROW_BYTES + sum(_width(field.type) for field in schema) for schema in prepared.recipe.schemas]
    parts = [
        f"{side} rows for {window._show(span)} and a micro-batch, about {width} bytes each"
        for side, span, width in zip(("left", "right"), kept, widths, strict=True)
    ]
    text = "; ".join(parts)
    if rate is not None:
        total = sum(rate * span / 1e9 * width for span, width in zip(kept, widths, strict=True))
        text += f"; at {rate:g} rows a second and side {total * len(prepared.recipe.halves) / 1e6:,.1f} MB"
    return text


def _width(type_: object) -> int:
    """Bytes of a value; texts and nested values are guessed."""
    try:
        return max(1, int(type_.bit_width) // 8)  # type: ignore[attr-defined]
    except ValueError:
        return 24


def _latency(how: str) -> str:
    text = "a pair comes with the micro-batch of its later row"
    if JOIN_TYPES[how].returns_unmatched:
        text += "; rows without a partner come with the first micro-batch after the watermark has passed them"
    return text
