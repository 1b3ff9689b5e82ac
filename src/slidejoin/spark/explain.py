"""What a distributed join does and what it costs, for a reader; nothing runs."""

from pyspark.sql import DataFrame

from slidejoin.join_type import JOIN_TYPES, How
from slidejoin.plan import Explanation, plan
from slidejoin.predicate import Predicate
from slidejoin.spark import batch
from slidejoin.spark.prepare import Prepared, prepare
from slidejoin.window import Interval, Window, format_duration

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
    rate: float | None = None,
) -> Explanation:
    """Say how :func:`slidejoin.spark.join` would run a join: index, routing, groups, state, latency.

    Takes the arguments of ``join``, checks them, and changes nothing.

    Parameters
    ----------
    rate : float, optional
        Rows a second of each side, for an estimate of the state in numbers.
    """
    prepared = prepare(left, right, on, window, how, suffixes, partitions, event_time)
    recipe = prepared.recipe
    chosen = plan(recipe.routing.bound)
    lines = [("join", f"{how} on {on!r}, of {'streams' if prepared.streaming else 'batches'}")]
    if len(recipe.routings) == 2:
        twice = "state" if prepared.streaming else "work"
        lines.append(("halves", f"a left join, and the right rows without a partner: twice the {twice}"))
    indexed = " together with ".join(f"{key.op}({key.left!r}, {key.right!r})" for key in chosen.indexed)
    if chosen.banded == "time":
        indexed = " together with ".join(part for part in (indexed, "the interval of time") if part)
    if prepared.streaming:
        lines.append(("index", f"{chosen.index} in each group: {indexed}"))
    else:
        lines.append(("sorted", f"as tables are, slice by slice of time in each group: by {indexed}"))
    lines += [("routing", routing.describe()) for routing in recipe.routings]
    if recipe.routing.kind == "broadcast":
        lines.append(
            ("note", "every row of one side goes to all groups: more of them do not divide its work")
        )
    if prepared.streaming:
        lines.append(("partitions", f"{recipe.partitions}, fixed for the life of a checkpoint"))
        lines.append(("state", _state(prepared, rate)))
        lines.append(("latency", _latency(prepared, how)))
    else:
        megabytes = batch.LIMIT // 2**20
        lines.append(("memory", f"{megabytes} MB of each side of a group, the rest in files; none is kept"))
    return Explanation(lines)


def _state(prepared: Prepared, rate: float | None) -> str:
    window = prepared.spec.window
    assert isinstance(window, Interval)
    lateness = window.lateness or 0
    kept = [max(0, reach) + lateness for reach in (window.after, window.before)]
    widths = [_ROW_BYTES + sum(_width(field.type) for field in schema) for schema in prepared.recipe.schemas]
    parts = [
        f"{side} rows for {format_duration(span)} and a micro-batch, about {width} bytes each"
        for side, span, width in zip(("left", "right"), kept, widths, strict=True)
    ]
    text = "; ".join(parts)
    if window.lateness is None:
        text += " (the streams' own watermarks add their delay)"
    if rate is not None:
        total = sum(rate * span / 1e9 * width for span, width in zip(kept, widths, strict=True))
        text += f"; at {rate:g} rows a second and side {total * len(prepared.recipe.routings) / 1e6:,.1f} MB"
    return text


def _width(type_: object) -> int:
    """Bytes of a value; texts and nested values are guessed."""
    try:
        return max(1, int(type_.bit_width) // 8)  # type: ignore[attr-defined]
    except ValueError:
        return 24


def _latency(prepared: Prepared, how: str) -> str:
    text = "a pair comes with the micro-batch of its later row; one takes some 0.5 s at least, and more with "
    text += f"many partitions ({prepared.recipe.partitions} here)"
    if JOIN_TYPES[how].returns_unmatched:
        text += (
            "; rows without a partner come when the watermark has passed their window, a micro-batch later"
        )
    return text
