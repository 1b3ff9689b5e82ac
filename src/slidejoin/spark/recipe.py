"""Recipe: everything that the tasks of a distributed join must know, as one text that is sent to them.

Its ``meaning`` decides what rows of the state say. A head keeps it, and a query goes on under the same one
only.
"""

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from slidejoin.columns import output_schema
from slidejoin.errors import SpecError, StateError
from slidejoin.indexed import Plan, plan
from slidejoin.join_type import JOIN_TYPES, JoinType
from slidejoin.keys import BoundSpec, BoundTime, bind
from slidejoin.predicate import Predicate
from slidejoin.sorted_runs import RunKernel
from slidejoin.spark.partition import Partitioning
from slidejoin.spark.runs import RunFormat
from slidejoin.spec import JoinSpec
from slidejoin.window import Interval

LATE = "late"
HALVES = ("left", "right_anti")  # what a full join is where no partition has all partners of both sides


class Half:
    """One of the joins that a task does: most joins have one, full joins on bands two.

    Every row that comes out unmatched must meet all its partners in one partition, so a full join on a band
    is a left join and a right anti join.

    Attributes
    ----------
    type : JoinType
        What comes out of it.
    partitioning : Partitioning
        Which partitions a row goes to.
    kernel : RunKernel
        The conditions on sorted rows.
    formats : (RunFormat, RunFormat)
        How rows of both sides are kept.
    """

    def __init__(
        self, bound: BoundSpec, schemas: tuple[pa.Schema, pa.Schema], how: str, stored: bool
    ) -> None:
        assert bound.time is not None, "an interval has one"
        self._stored = stored
        self.type: JoinType = JOIN_TYPES[how]
        self.partitioning = Partitioning(bound, how)
        self.plan: Plan = plan(bound)
        self.kernel = RunKernel(self.plan, bound.time)
        self.formats = tuple(
            RunFormat(self.kernel, schemas[side], side, self.hashes(side)) for side in (0, 1)
        )

    def hashes(self, side: int) -> int:
        """How many hashes a row of a side carries: rows at home need one, rows that are not stored none."""
        if not self._stored:
            return 0
        return 1 if self.partitioning.is_home(side) else self.partitioning.hashes


@dataclass(frozen=True)
class Recipe:
    """A distributed join.

    Attributes
    ----------
    call : str
        Of this call of ``join``: no two have the same one.
    name : str
        Of the join among those of a query.
    state_dir : str
        Where the state stands; empty for batches.
    spec : JoinSpec
        What is joined.
    schemas : (pyarrow.Schema, pyarrow.Schema)
        Columns of both sides.
    places : (tuple of int, tuple of int)
        Where each column of a side stands among the columns that cross to the tasks.
    partitions : int
        Number of partitions.
    event_time : str, optional
        Column of the result that has the later of both timestamps.
    start_empty : bool
        Whether a query that has no state may go on without.
    """

    call: str
    name: str
    state_dir: str
    spec: JoinSpec
    schemas: tuple[pa.Schema, pa.Schema]
    places: tuple[tuple[int, ...], tuple[int, ...]]
    partitions: int
    event_time: str | None = None
    start_empty: bool = False

    @functools.cached_property
    def bound(self) -> BoundSpec:
        """The join, bound to its columns."""
        return bind(self.spec, *self.schemas)

    @functools.cached_property
    def halves(self) -> tuple[Half, ...]:
        """The joins that a task does."""
        stored = bool(self.state_dir)
        if self.spec.join_type.home is None and Partitioning(self.bound, "left").kind != "hash":
            return tuple(Half(self.bound, self.schemas, how, stored) for how in HALVES)
        return (Half(self.bound, self.schemas, self.spec.how, stored),)

    @property
    def hashes(self) -> int:
        """Hashes that cross to the tasks with each row."""
        return max(half.hashes(side) for half in self.halves for side in (0, 1))

    @property
    def window(self) -> Interval:
        """Its window."""
        assert isinstance(self.spec.window, Interval), "the caller has seen to it"
        return self.spec.window

    @property
    def time(self) -> BoundTime:
        """Its timestamps."""
        assert self.bound.time is not None, "an interval has one"
        return self.bound.time

    @property
    def late(self) -> bool:
        """Whether late rows come out, with a column that names their side."""
        return self.window.late == "return"

    @functools.cached_property
    def matched(self) -> pa.Schema:
        """Columns that come out of the join."""
        return output_schema(*self.schemas, self.spec.suffixes, self.spec.join_type.only)

    @functools.cached_property
    def output(self) -> pa.Schema:
        """Columns of the result."""
        schema = self.matched
        if self.event_time is not None:
            schema = schema.append(pa.field(self.event_time, self.schemas[0].field(self.time.left).type))
        return schema.append(pa.field(LATE, pa.string())) if self.late else schema

    @functools.cached_property
    def meaning(self) -> dict[str, Any]:
        """What the state depends on, as JSON values."""
        window = replace(self.window, lateness=None, late="drop", idle_after=None)
        return {
            "join": self.spec.on.to_json(),
            "window": window.to_json(),
            "how": self.spec.how,
            "unit of time": self.time.unit,
            "left columns": _columns(self.schemas[0]),
            "right columns": _columns(self.schemas[1]),
        }

    def check(self, kept: Mapping[str, Any]) -> None:
        """StateError unless the meaning of a state is this one."""
        mine = json.loads(json.dumps(self.meaning))
        wrong = [name for name in {**mine, **kept} if mine.get(name) != kept.get(name)]
        if wrong:
            said = "; ".join(f"its {name}: {_shown(name, kept)}, now: {_shown(name, mine)}" for name in wrong)
            raise StateError(
                f"the state of this query is of another join: {said}; call join as before, or start with a "
                "new checkpointLocation"
            )

    def to_json(self) -> str:
        """The recipe as a text; :func:`read` reads it back."""
        parts = {field: getattr(self, field) for field in self.__dataclass_fields__}
        parts["spec"] = self.spec.to_json()
        parts["schemas"] = [
            base64.b64encode(schema.serialize().to_pybytes()).decode() for schema in self.schemas
        ]
        return json.dumps(parts)


@functools.lru_cache(maxsize=64)
def read(text: str) -> Recipe:
    """The recipe of a text; a worker process reads each once."""
    try:
        parts = json.loads(text)
        left, right = (pa.ipc.read_schema(pa.py_buffer(base64.b64decode(s))) for s in parts.pop("schemas"))
        spec = JoinSpec.from_json(parts.pop("spec"))
        places = tuple(tuple(side) for side in parts.pop("places"))
        return Recipe(spec=spec, schemas=(left, right), places=places, **parts)  # type: ignore[arg-type]
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


def _columns(schema: pa.Schema) -> list[list[str]]:
    return [[field.name, str(field.type)] for field in schema]
