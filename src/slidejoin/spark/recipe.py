"""Recipe: everything that the tasks of a distributed join must know, as one text that is sent to them.

Its ``meaning`` decides where rows live and what their state says. A checkpoint keeps that of its first batch,
and goes on under the same one only.
"""

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slidejoin.errors import SpecError, StateError
from slidejoin.keys import BoundTime
from slidejoin.predicate import Predicate
from slidejoin.result import output_schema
from slidejoin.spark.route import Routing
from slidejoin.spec import JoinSpec
from slidejoin.window import Interval
from slidejoin.window_join import WindowJoin

VERSION = 1  # of the state in a checkpoint
LATE = "late"


@dataclass(frozen=True)
class Recipe:
    """A distributed join.

    Attributes
    ----------
    name : str
        Of this call: no two have the same one.
    routings : tuple of Routing
        Which groups a row goes to; each has the join of its groups, bound to its columns. A full join has
        two, since every row of it needs one home: a left join, and a right one of which only the rows without
        a partner are wanted. Groups are numbered through both; rows are counted by the first.
    schemas : (pyarrow.Schema, pyarrow.Schema)
        Columns of both sides.
    ids : tuple of int
        The key that Spark knows each group by.
    partitions : int
        Shuffle partitions that the ids were chosen for.
    event_time : str, optional
        Column of the result that has the later of both timestamps.
    late : bool
        Whether late rows come out, with a column that names their side.
    cache : (int, int)
        Bytes of live joins in a worker process, and of files on a host.
    """

    name: str
    routings: tuple[Routing, ...]
    schemas: tuple[pa.Schema, pa.Schema]
    ids: tuple[int, ...]
    partitions: int
    event_time: str | None = None
    late: bool = False
    cache: tuple[int, int] = (0, 0)

    @property
    def routing(self) -> Routing:
        """The first routing: for most joins the only one."""
        return self.routings[0]

    @property
    def spec(self) -> JoinSpec:
        """The join that its groups run."""
        return self.routing.bound.spec

    def new_join(self, routing: Routing) -> WindowJoin:
        """The join of a group that has no rows yet."""
        spec = routing.bound.spec
        return WindowJoin(
            spec.on, spec.window, spec.how, order="none", suffixes=spec.suffixes, schemas=self.schemas
        )

    def half(self, group: int) -> tuple[Routing, bool]:
        """The routing of a group by its number, and whether only rows without a partner are wanted of it."""
        second = group >= self.routing.groups
        return self.routings[second], second

    @property
    def window(self) -> Interval:
        """Its window."""
        window = self.spec.window
        assert isinstance(window, Interval), "the caller has seen to it"
        return window

    @property
    def time(self) -> BoundTime:
        """Its timestamps."""
        time = self.routing.bound.time
        assert time is not None, "an interval has one"
        return time

    @functools.cached_property
    def matched(self) -> pa.Schema:
        """Columns that come out of a group's join."""
        return output_schema(*self.schemas, self.spec.suffixes, self.spec.join_type.only)

    @functools.cached_property
    def output(self) -> pa.Schema:
        """Columns of the result."""
        schema = self.matched
        if self.event_time is not None:
            schema = schema.append(pa.field(self.event_time, self.schemas[0].field(self.time.left).type))
        return schema.append(pa.field(LATE, pa.string())) if self.late else schema

    @property
    def meaning(self) -> dict[str, Any]:
        """What a checkpoint depends on, as JSON values."""
        return {
            "version": VERSION,
            "join": self.spec.on.to_json(),
            "window": self.spec.window.to_json(),
            "how": self.spec.how if len(self.routings) == 1 else "full",
            "suffixes": list(self.spec.suffixes),
            "left columns": _columns(self.schemas[0]),
            "right columns": _columns(self.schemas[1]),
            "groups": self.routing.groups,
            "shuffle partitions": self.partitions,
        }

    def check(self, kept: Mapping[str, Any]) -> None:
        """StateError unless a checkpoint's meaning is this one."""
        mine = self.meaning
        if kept.get("version") != VERSION:
            raise StateError(
                f"this checkpoint has state of version {kept.get('version')!r}, this slidejoin "
                f"writes version {VERSION}; use the one that wrote it, or a new checkpointLocation"
            )
        wrong = [name for name in {**mine, **kept} if mine.get(name) != kept.get(name)]
        if wrong:
            said = "; ".join(f"its {name}: {_shown(name, kept)}, now: {_shown(name, mine)}" for name in wrong)
            mend = "call join as before, or start with a new checkpointLocation"
            if set(wrong) <= {"groups", "shuffle partitions"}:
                mend = f"call join with partitions={kept.get('groups')}"
            raise StateError(f"this checkpoint is of another join: {said}; {mend}")

    def to_json(self) -> str:
        """The recipe as a text; :func:`read` reads it back."""
        return json.dumps(
            {
                "name": self.name,
                "routings": [routing.to_json() for routing in self.routings],
                "schemas": [_encoded(schema) for schema in self.schemas],
                "ids": self.ids,
                "partitions": self.partitions,
                "event_time": self.event_time,
                "late": self.late,
                "cache": self.cache,
            }
        )


@functools.lru_cache(maxsize=64)
def read(text: str) -> Recipe:
    """The recipe of a text; a worker process reads each once."""
    parts = json.loads(text)
    try:
        left, right = (pa.ipc.read_schema(pa.py_buffer(base64.b64decode(s))) for s in parts.pop("schemas"))
        routings = tuple(map(Routing.from_json, parts.pop("routings")))
        ids, cache = tuple(parts.pop("ids")), tuple(parts.pop("cache"))
        return Recipe(routings=routings, schemas=(left, right), ids=ids, cache=cache, **parts)
    except (TypeError, KeyError, ValueError) as error:
        raise SpecError(f"this is no recipe of a join: {error!r}") from None


def _shown(name: str, meaning: Mapping[str, Any]) -> str:
    """A part of a meaning, a condition as it was written."""
    if name != "join" or name not in meaning:
        return repr(meaning.get(name))
    try:
        return repr(Predicate.from_json(meaning[name]))
    except SpecError:
        return repr(meaning[name])


def _encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _columns(schema: pa.Schema) -> list[list[str]]:
    return [[field.name, str(field.type)] for field in schema]
