"""Tasks of a streaming join without Spark: a small driver that runs, kills and repeats them.

Rows get their partitions as Spark would give them, by other hashes. Files are not synced: what a dead process
has written stays, as after ``kill -9``.
"""

import contextlib
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.streams import SECOND, Streams, assert_same, brute_force, counted, embedded, times

import slidejoin as sj
from slidejoin import reference
from slidejoin.spark import files, runs
from slidejoin.spark.arrivals import placed
from slidejoin.spark.marks import Place
from slidejoin.spark.recipe import Half, Recipe
from slidejoin.spark.task import Task
from slidejoin.spec import join_spec

WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")
ON = {
    "hash": sj.equal("k"),
    "cells": sj.band("k", within=1),
    "far cells": sj.bands("k", ranges=[(-200, -199), (100, 101)]),
    "hash+cells": sj.equal("sym") & sj.band("k", within=1),
    "broadcast": sj.less("k") & sj.not_equal("sym"),
}
MATCHES = {
    "hash": reference.equal(),
    "cells": reference.band(-1, 1),
    "far cells": reference.bands([(-200, -199), (100, 101)]),
    "hash+cells": reference.all_of(reference.band(-1, 1), reference.equal()),
    "broadcast": reference.all_of(reference.less(), reference.not_equal()),
}
_attempts = itertools.count()


def small_streams(seed: int, batches: int = 4, rows: int = 12) -> Streams:
    """Five seconds in each micro-batch; a third of the rows is up to five seconds older, a few are late."""
    rng = np.random.default_rng(seed)

    def table(side: str, batch: int) -> pa.Table:
        old = np.where(rng.random(rows) < 0.3, rng.random(rows) * 5, 0)
        columns = {
            "id": [f"{side}{batch}-{row}" for row in range(rows)],
            "ts": times(((batch + rng.random(rows)) * 5 - old) * SECOND, mask=rng.random(rows) < 0.03),
            "k": pa.array(
                rng.choice([-150, -149, 0, 1, 49, 50, 149, 150], rows), mask=rng.random(rows) < 0.05
            ),
            "sym": pa.array(rng.choice(["a", "b"], rows)),
        }
        return pa.table(columns)

    return Streams(*([table(side, batch) for batch in range(batches)] for side in ("left", "right")))


def recipe(
    streams: Streams,
    state_dir: Path,
    on: sj.predicate.Predicate,
    how: str = "inner",
    partitions: int = 2,
    window: Any = WINDOW,
    **options: Any,
) -> Recipe:
    """What a call of ``join`` sends to its tasks."""
    schemas = streams.schemas
    spec = join_spec(on, window, how, order="none")
    known = {"call": f"call{next(_attempts)}", "name": "join", "state_dir": str(state_dir), **options}
    places = placed(*(schema.types for schema in schemas))
    return Recipe(spec=spec, schemas=schemas, places=places, partitions=partitions, **known)


# --- Rows on their way ---


def routed(plan: Recipe, sides: Sequence[pa.Table]) -> list[list[pa.RecordBatch]]:
    """The rows of both sides as they cross to each task."""
    kinds = {
        place: field.type
        for places, schema in zip(plan.places, plan.schemas, strict=True)
        for place, field in zip(places, schema, strict=True)
    }
    crossed: list[list[pa.RecordBatch]] = [[] for _ in range(plan.partitions)]
    for number, half in enumerate(plan.halves):
        for side, table in enumerate(sides):
            hashes = _hashes(half, side, table)
            own = dict(zip(plan.places[side], table.columns, strict=True))
            columns = [own.get(place, pa.nulls(len(table), kind)) for place, kind in sorted(kinds.items())]
            padded = [*hashes, *[pa.nulls(len(table), pa.int32())] * (plan.hashes - len(hashes))]
            tags = pa.array(np.full(len(table), 2 * number + side, np.int8))
            all_columns = [tags, *padded, *columns]
            whole = pa.table(all_columns, [str(i) for i in range(len(all_columns))])
            for partition in range(plan.partitions):
                here = half.partitioning.here(side, hashes, partition, plan.partitions)
                crossed[partition] += whole.filter(pa.array(here)).combine_chunks().to_batches()
    return crossed


def _hashes(half: Half, side: int, table: pa.Table) -> list[pa.Array]:
    """What ``Partitioning.hash_columns`` gives for whole numbers and texts, by another hash."""
    way = half.partitioning
    names = way.bound.spec.reads(side)
    equal = [(key.left, key.right)[side] for key in way._equal]
    found: list[list[int | None]] = [[] for _ in range(way.hashes)]
    for row in table.select(names).to_pylist():
        values = [row[name] for name in equal]
        if None in row.values():
            hashes = []
        elif way.kind == "broadcast":
            hashes = [_hash([str(value) for value in row.values()]) if way.is_home(side) else 0]
        elif way._cells is None:
            hashes = [_hash(values)]
        else:
            key = row[(way._cells.key.left, way._cells.key.right)[side]]
            ends = (
                [0]
                if way.is_home(side)
                else [end if side == 0 else -end for ends in way._cells.ranges for end in ends]
            )
            width = 2**way._cells.log_width
            hashes = [_hash([*values, (key + int(end) + int(0.382 * width)) // width]) for end in ends]
        for column, value in itertools.zip_longest(found, hashes):
            column.append(value)
    return [pa.array(column, pa.int32()) for column in found]


def _hash(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(values).encode()) - 2**31


# --- A driver ---


@dataclass
class Query:
    """A query of one join, and what its sink has: for each batch the results of its last complete run."""

    plan: Recipe
    id: str = "query"
    run: str = "run0"
    sink: dict[int, list[pa.Table]] = field(default_factory=dict)

    def restart(self, **changes: Any) -> None:
        """Start anew, from another call of ``join``."""
        self.plan = replace(self.plan, call=f"call{next(_attempts)}", **changes)
        self.run = f"run{next(_attempts)}"

    def task(self, batch: int, partition: int, rows: list[pa.RecordBatch]) -> Task:
        """A new attempt of a task."""
        place = Place(
            self.id, batch, self.run, next(_attempts), partition, self.plan.partitions, self.plan.call
        )
        return Task(self.plan, place, iter(rows))

    def tasks(self, batch: int, sides: Sequence[pa.Table]) -> list[Task]:
        """An attempt of each task of a micro-batch."""
        return [self.task(batch, number, rows) for number, rows in enumerate(routed(self.plan, sides))]

    def batch(self, batch: int, sides: Sequence[pa.Table], hurt: "Killer | None" = None) -> None:
        """Run a micro-batch and commit it."""
        found = []
        for task in self.tasks(batch, sides):
            for table in task.results():
                found.append(table)
                if hurt is not None:
                    hurt.step()
        self.sink[batch] = found

    def all(self, streams: Streams, first: int = 0) -> None:
        """Run the micro-batches of streams from one on."""
        for batch in range(first, len(streams.left)):
            self.batch(batch, [tables[batch] for tables in streams.sides])

    @property
    def results(self) -> pa.Table:
        """What the sink has."""
        tables = [self.plan.output.empty_table(), *itertools.chain(*self.sink.values())]
        return pa.concat_tables(tables)


# --- Faults ---


class Killed(BaseException):
    """The end of a process: nothing of it runs after this."""


class Killer:
    """Ends a process at a step: before a file gets its name, or after a table of results was handed out."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps = 0

    def step(self) -> None:
        """The process comes to a step, or is dead."""
        self.steps += 1
        if self.at is not None and self.steps > self.at:
            raise Killed


@contextlib.contextmanager
def killed(at: int | None = None) -> Iterator[Killer]:
    """End what runs here at a step, if it comes to it; else only count the steps."""
    killer = Killer(at)

    class Os:
        """The module ``os`` of a process that dies."""

        def __getattr__(self, name: str) -> Any:
            if name in ("unlink", "rmdir") and killer.at is not None and killer.steps > killer.at:
                raise Killed
            return getattr(_os, name)

        @staticmethod
        def replace(old: str, new: str) -> None:
            killer.step()
            _os.replace(old, new)

    _os = files.os
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", Os())
        with contextlib.suppress(Killed):
            yield killer


def forget_files() -> None:
    """As a new process: no file is open, or known to be right."""
    runs._mapped.clear()
    runs._verified.clear()


# --- Truth ---


def assert_right(found: pa.Table, streams: Streams, kind: str, how: str) -> None:
    """What the embedded join gives, and what brute force does."""
    assert_same(found, embedded(streams, ON[kind], WINDOW, how).table)

    def key(row: dict[str, Any]) -> Any:
        return (row["k"], row["sym"]) if "sym" in repr(ON[kind]) else row["k"]

    expected = brute_force(streams, MATCHES[kind], key, WINDOW, how)
    if how.endswith(("semi", "anti")):
        side = how.startswith("right")
        alone = counted(found.select(["id"])).items()
        got = Counter({((None, id_) if side else (id_, None)): times for (id_,), times in alone})
    else:
        got = counted(found.select(["id", "id_right"]))
    assert got == expected


def at(streams: Streams, batch: int) -> list[pa.Table]:
    """The rows of a micro-batch."""
    return [tables[batch] for tables in streams.sides]
