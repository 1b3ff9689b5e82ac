"""The arguments of a distributed join, checked: every error about them is raised here, at the call."""

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, types

from slidejoin.errors import SchemaError, SpecError
from slidejoin.keys.extract import SIDES
from slidejoin.predicate import Predicate
from slidejoin.result import RowStore
from slidejoin.spark.arrivals import placed
from slidejoin.spark.columns import DELAY, arrow_schema, output_fields
from slidejoin.spark.files import LocalFolder, open_folder
from slidejoin.spark.picked import Picked, pick
from slidejoin.spark.recipe import LATE, Recipe
from slidejoin.spec import JoinSpec, join_spec
from slidejoin.window import Interval, Rows, Window, Within

PARTITIONS = "spark.sql.shuffle.partitions"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
START_EMPTY = "spark.slidejoin.startEmpty"
MAX_PARTITIONS = 2**16
OURS = "slidejoin.eventTime"  # marks the event time of a join, whose watermark the next join need not know
STATE = "slidejoin-state"  # the default folder beside the session's checkpoints


@dataclass(frozen=True)
class Prepared:
    """A distributed join that can run.

    Attributes
    ----------
    left, right : DataFrame
        The inputs.
    streaming : bool
        Whether they are streams.
    spec : JoinSpec
        What was asked for.
    recipe : Recipe
        What tasks must know.
    output : StructType
        Columns that come out of the tasks.
    picked : Picked, optional
        The columns of the result, where some were picked.
    """

    left: DataFrame
    right: DataFrame
    streaming: bool
    spec: JoinSpec
    recipe: Recipe
    output: types.StructType
    picked: Picked | None = None


def prepare(
    left: DataFrame,
    right: DataFrame,
    on: Predicate,
    window: Window,
    how: str,
    suffixes: tuple[str, str],
    partitions: int | None,
    event_time: str | None,
    state_dir: str | os.PathLike[str] | None,
    name: str,
    columns: Sequence[str] | None = None,
) -> Prepared:
    """Check the arguments of :func:`slidejoin.spark.join`. Changes nothing, and starts no job."""
    spec = join_spec(on, _interval(window), how, order="none", suffixes=suffixes, columns=columns)
    streaming = _streaming(left, right)
    picked = None
    if spec.columns is not None:
        picked = pick(left, right, spec)
        left, right = picked.left, picked.right
        spec = replace(spec, columns=None)  # tasks return all columns that they get
    schemas = (arrow_schema(left.schema, SIDES[0]), arrow_schema(right.schema, SIDES[1]))
    for schema in schemas:
        RowStore(schema)  # raises where a type cannot be kept
    settings = left.sparkSession.conf
    if streaming:
        _check_streams(left, right, spec)
        place = _state_dir(state_dir, settings.get(CHECKPOINTS, None))
    else:
        assert isinstance(spec.window, Interval)
        if spec.window.late == "return" or event_time is not None:
            raise SpecError("late='return' and event_time are for streams; in a batch nothing is late")
        place = ""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name) or name.startswith("."):
        raise SpecError(f"name={name!r}; expected letters, digits, '_', '-' and '.', up to 100 of them")
    kinds = [[field.dataType for field in frame.schema.fields] for frame in (left, right)]
    recipe = Recipe(
        call=uuid.uuid4().hex[:16],
        name=name,
        state_dir=place,
        spec=spec,
        schemas=schemas,
        places=placed(*kinds),
        partitions=_partitions(left, partitions),
        event_time=_event_time(event_time, how),
        start_empty=str(settings.get(START_EMPTY, "false")).lower() == "true",
    )
    _ = recipe.halves  # raises where the columns do not fit
    sensitive = settings.get("spark.sql.caseSensitive", "false") == "true"
    output = _output(recipe, left.schema, right.schema, sensitive)
    if picked is not None:
        added = output.names[len(recipe.matched) :]
        _refuse_same_names([name for _, name in picked.names] + added, sensitive)
    return Prepared(left, right, streaming, spec, recipe, output, picked)


def _interval(window: Any) -> Interval:
    """The window as an interval of event time."""
    if isinstance(window, Interval):
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


def _check_streams(left: DataFrame, right: DataFrame, spec: JoinSpec) -> None:
    """Streams need a lateness, and have no watermark of Spark's, which this join would not follow."""
    for side, frame in zip(SIDES, (left, right), strict=True):
        for field in frame.schema.fields:
            known = field.metadata or {}
            if DELAY in known and OURS not in known:
                raise SpecError(
                    f"{side} has a watermark on {field.name!r}; the join has one of its own: remove "
                    "withWatermark, and give lateness= in the window"
                )
    assert isinstance(spec.window, Interval)
    if spec.window.lateness is None:
        raise SpecError(
            "the window has no lateness, so no row could ever be forgotten; give "
            "interval(before, after, time=..., lateness='10s'), how far rows may be behind the newest ones; "
            "interval(d, d, ...) has the pairs of within(d)"
        )


def _state_dir(given: Any, checkpoints: str | None) -> str:
    """Where the state stands, as a path or a URI."""
    if given is None:
        if not checkpoints:
            raise SpecError(
                "a join of streams keeps its rows in files; give join(..., state_dir=...), a folder or URI "
                f"that all executors reach, such as one beside checkpointLocation; or set {CHECKPOINTS}"
            )
        given = f"{checkpoints.rstrip('/')}/{STATE}"
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise SpecError(f"state_dir={given!r}; expected a path or a URI")
    place = os.fspath(given)
    if isinstance(folder := open_folder(place), LocalFolder):  # raises where pyarrow cannot write there
        return os.path.abspath(folder.path)
    return place


def _partitions(frame: DataFrame, partitions: Any) -> int:
    """The number of partitions."""
    if partitions is None:
        return min(int(frame.sparkSession.conf.get(PARTITIONS)), MAX_PARTITIONS)
    if (
        isinstance(partitions, bool)
        or not hasattr(partitions, "__index__")
        or not 1 <= partitions <= MAX_PARTITIONS
    ):
        raise SpecError(f"partitions={partitions!r}; expected a number from 1 to {MAX_PARTITIONS}, or None")
    return int(partitions)


def _event_time(name: Any, how: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise SpecError(f"event_time={name!r}; expected the name of a new column")
    if how != "inner":
        raise SpecError(
            f"event_time is for inner joins; rows of a {how} join may come out long after their timestamps"
        )
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
        if not pa.types.is_timestamp(recipe.time.type):
            raise SchemaError(
                f"event_time needs timestamps; the time of this join is {recipe.time.type}, cast it"
            )
        time = left[recipe.time.left].dataType
        fields.append(types.StructField(recipe.event_time, time, True, {OURS: True}))
    if recipe.late:
        fields.append(types.StructField(LATE, types.StringType(), True))
    return types.StructType(fields)
