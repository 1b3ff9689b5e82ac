"""The arguments of a distributed join, checked: every error about them is raised here, at the call.

:func:`prepare` makes a :class:`Prepared` of them; :func:`routed` is its first step, for streams and batches.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, types

from slidejoin.errors import SchemaError, SpecError
from slidejoin.join_type import How
from slidejoin.keys import bind
from slidejoin.keys.extract import SIDES
from slidejoin.predicate import Predicate
from slidejoin.result import RowStore
from slidejoin.spark import cache
from slidejoin.spark.columns import DELAY, arrow_schema, output_fields
from slidejoin.spark.recipe import LATE, Recipe
from slidejoin.spark.route import MAX_GROUPS, Routing, group_ids
from slidejoin.spark.tasks import ROUTED
from slidejoin.spec import JoinSpec, join_spec
from slidejoin.window import Interval, Rows, Window, Within

_Route: TypeAlias = Callable[[str, int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

PARTITIONS = "spark.sql.shuffle.partitions"
MEMORY, DISK = "spark.slidejoin.cache.memoryBytes", "spark.slidejoin.cache.diskBytes"


@dataclass(frozen=True)
class Prepared:
    """A distributed join that can run.

    Attributes
    ----------
    left, right : DataFrame
        The inputs, with a watermark if they are streams.
    streaming : bool
        Whether they are.
    spec : JoinSpec
        What was asked for.
    recipe : Recipe
        What tasks must know.
    output : StructType
        Columns of the result.
    """

    left: DataFrame
    right: DataFrame
    streaming: bool
    spec: JoinSpec
    recipe: Recipe
    output: types.StructType


def prepare(
    left: DataFrame,
    right: DataFrame,
    on: Predicate,
    window: Window,
    how: str,
    suffixes: tuple[str, str],
    partitions: int | None,
    event_time: str | None,
) -> Prepared:
    """Check the arguments of :func:`slidejoin.spark.join`. Changes nothing, and starts no job."""
    spec = join_spec(on, _interval(window), how, order="none", suffixes=suffixes)
    streaming = _streaming(left, right)
    schemas = (arrow_schema(left.schema, SIDES[0]), arrow_schema(right.schema, SIDES[1]))
    grouped = replace(spec, window=replace(spec.window, lateness=None, late="return"))  # type: ignore[type-var]
    bind(grouped, *schemas)
    for schema in schemas:
        RowStore(schema)  # raises where a type cannot be kept
    assert isinstance(spec.window, Interval)
    if streaming:
        left, right = _watermarked(left, right, spec, schemas)
    elif spec.window.late == "return" or event_time is not None:
        raise SpecError("late='return' and event_time are for streams; in a batch nothing is late")
    groups, shuffle = _partitions(left, partitions)
    settings = left.sparkSession.conf
    # Every row that comes out unmatched has one home, so a full join is two.
    halves: tuple[How, ...] = ("left", "right") if spec.join_type.home is None else (spec.how,)
    routings = tuple(Routing(bind(replace(grouped, how=half), *schemas), half, groups) for half in halves)
    recipe = Recipe(
        name=uuid.uuid4().hex,
        routings=routings,
        schemas=schemas,
        ids=tuple(group_ids(groups * len(routings), shuffle)),
        partitions=shuffle,
        event_time=_event_time(event_time, how),
        late=spec.window.late == "return",
        cache=(_bytes(settings, MEMORY, cache.MEMORY), _bytes(settings, DISK, cache.DISK)),
    )
    sensitive = settings.get("spark.sql.caseSensitive", "false") == "true"
    output = _output(recipe, left.schema, right.schema, sensitive)
    return Prepared(left, right, streaming, spec, recipe, output)


def routed(prepared: Prepared, route: _Route) -> DataFrame:
    """The rows of both sides as blobs by group; each side is read once."""
    text = prepared.recipe.to_json()

    def side(number: int, frame: DataFrame) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return route(text, number, batches)

        plain = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))  # names may need quotes
        return plain.mapInArrow(run, ROUTED)

    return side(0, prepared.left).union(side(1, prepared.right))


def _interval(window: Any) -> Interval:
    """The window as an interval of event time."""
    if isinstance(window, Interval):
        if window.idle_after is not None:
            raise SpecError(
                "idle_after is for embedded joins; on Spark a silent side is governed by "
                "spark.sql.streaming.multipleWatermarkPolicy"
            )
        return window
    if isinstance(window, Within):
        if window.purge != "cross":
            raise SpecError(
                f"purge={window.purge!r} is for embedded joins; on Spark windows are of event time"
            )
        return Interval(window.duration, window.duration, window.timed, window.time)
    if isinstance(window, Rows | int):
        raise SpecError(
            "a window of rows needs one order of all rows, which Spark does not have; "
            "use interval(before, after, time=...) or within(d, time=...)"
        )
    raise SpecError(f"window={window!r}; expected sj.interval(...) or sj.within(...)")


def _streaming(left: Any, right: Any) -> bool:
    for side, frame in zip(SIDES, (left, right), strict=True):
        if not hasattr(frame, "isStreaming"):
            raise SpecError(f"{side} is of {type(frame)}; expected a DataFrame of Spark")
    if left.isStreaming != right.isStreaming:
        streams = SIDES[0] if left.isStreaming else SIDES[1]
        raise SpecError(f"{streams} is a stream and the other side is not; join two streams or two batches")
    return bool(left.isStreaming)


def _watermarked(
    left: DataFrame, right: DataFrame, spec: JoinSpec, schemas: tuple[pa.Schema, pa.Schema]
) -> tuple[DataFrame, DataFrame]:
    """Both streams with their watermark: the window's, or the one they have."""
    window, names = spec.window, spec.time
    assert isinstance(window, Interval)
    assert names is not None
    has = []
    for side, frame, name, schema in zip(SIDES, (left, right), names, schemas, strict=True):
        if not pa.types.is_timestamp(schema.field(name).type) or schema.field(name).type.tz is None:
            raise SchemaError(
                f"{side} column {name!r} is a {frame.schema[name].dataType.simpleString()}; "
                f"the time of a stream on Spark is a timestamp, give withColumn({name!r}, "
                f"col({name!r}).cast('timestamp'))"
            )
        marked = [field.name for field in frame.schema.fields if DELAY in (field.metadata or {})]
        if marked and name not in marked:
            raise SpecError(f"{side} has its watermark on {marked[0]!r}, the window's time is {name!r}")
        has.append(bool(marked))
    if window.lateness is not None:
        if any(has):
            side = SIDES[has.index(True)]
            raise SpecError(f"{side} has a watermark, and the window a lateness; give one of them")
        delay = f"{-(-window.lateness // 10**6)} milliseconds"
        left, right = (
            frame.withWatermark(f"`{name.replace('`', '``')}`", delay)
            for frame, name in zip((left, right), names, strict=True)
        )
    elif not all(has):
        missing = [side for side, marked in zip(SIDES, has, strict=True) if not marked]
        have = f"{missing[0]} has" if len(missing) == 1 else "left and right have"
        raise SpecError(
            f"{have} no watermark, so no row could ever be forgotten; "
            "add lateness='10s' to the window, or call withWatermark on both streams"
        )
    return left, right


def _partitions(frame: DataFrame, partitions: Any) -> tuple[int, int]:
    """The number of groups, and of shuffle partitions that their ids are for."""
    if partitions is None:
        shuffle = int(frame.sparkSession.conf.get(PARTITIONS))
        return min(shuffle, MAX_GROUPS), shuffle
    if (
        isinstance(partitions, bool)
        or not hasattr(partitions, "__index__")
        or not 1 <= partitions <= MAX_GROUPS
    ):
        raise SpecError(f"partitions={partitions!r}; expected a number from 1 to {MAX_GROUPS}, or None")
    return int(partitions), int(partitions)


def _bytes(settings: Any, name: str, default: int) -> int:
    text = settings.get(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise SpecError(f"{name} is {text!r}; expected a number of bytes, such as {default}")
    return int(text)


def _event_time(name: Any, how: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise SpecError(f"event_time={name!r}; expected the name of a new column")
    if how != "inner":
        raise SpecError(f"event_time is for inner joins; rows of a {how} join may have one timestamp only")
    return name


def _refuse_same_names(names: Sequence[str], sensitive: bool) -> None:
    """Names that Spark takes for one another: a sink would refuse them."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name if sensitive else name.lower(), name)
        if other is not name:
            raise SchemaError(
                f"the result would have the columns {other!r} and {name!r}, which are one to Spark; "
                "give other suffixes or rename a column"
            )


def _output(
    recipe: Recipe, left: types.StructType, right: types.StructType, sensitive: bool
) -> types.StructType:
    """Columns of the result, with Spark's types; SchemaError where an added name is taken."""
    names = recipe.matched.names
    _refuse_same_names(names, sensitive)
    fields = output_fields([(left, right)[side] for side in recipe.spec.join_type.sides], names)
    added = [(recipe.event_time, "event_time", "give it another name")] if recipe.event_time else []
    if recipe.late:
        added.append((LATE, "late='return'", "rename the column"))
    for name, why, mend in added:
        if name in names:
            raise SchemaError(f"the result would have two columns {name!r}, one by {why}; {mend}")
        names = [*names, name]
    if recipe.event_time:
        sides = ((left, recipe.time.left), (right, recipe.time.right))
        delay = max(schema[name].metadata[DELAY] for schema, name in sides)
        time = left[recipe.time.left].dataType
        fields.append(types.StructField(recipe.event_time, time, True, {DELAY: delay}))
    if recipe.late:
        fields.append(types.StructField(LATE, types.StringType(), True))
    return types.StructType(fields)
