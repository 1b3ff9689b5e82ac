"""Streams for joins on Spark: their micro-batches as files, queries that run to their end, and their truth.

Truth is the embedded join whose watermark is advanced where Spark advances its own, after each micro-batch,
and the reference by brute force. Rows are compared as multisets, all columns of them.
"""

import functools
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

import slidejoin as sj
from slidejoin import reference
from slidejoin.join_type import JOIN_TYPES
from slidejoin.window import Interval, Within

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
HOWS = tuple(JOIN_TYPES)
SIDES = ("left", "right")

UTC = pa.timestamp("us", "UTC")
START = 1_704_067_200_000_000  # 2024, in µs
SECOND = 1_000_000

CASE = "which join this row is of"

_names = itertools.count()


# --- Streams ---


@dataclass(frozen=True)
class Streams:
    """Two streams, as one table for each micro-batch and side."""

    left: Sequence[pa.Table]
    right: Sequence[pa.Table]

    @property
    def sides(self) -> tuple[Sequence[pa.Table], Sequence[pa.Table]]:
        return self.left, self.right

    @property
    def schemas(self) -> tuple[pa.Schema, pa.Schema]:
        return self.left[0].schema, self.right[0].schema

    def write(self, folder: Path) -> "Files":
        """One file for each micro-batch; Spark takes them in the order of their modification."""
        for name, tables in zip(SIDES, self.sides, strict=True):
            (folder / name).mkdir(parents=True)
            for number, table in enumerate(tables):
                path = folder / name / f"{number:04}.parquet"
                pq.write_table(table, path)
                os.utime(path, (10**9 + number, 10**9 + number))
        return Files(folder, self.schemas)


@dataclass(frozen=True)
class Files:
    """Streams as files."""

    folder: Path
    schemas: tuple[pa.Schema, pa.Schema]

    def read(self, spark: Any) -> list[Any]:
        """Both as streaming DataFrames, of one file a micro-batch."""
        return [self._read(spark.readStream.option("maxFilesPerTrigger", 1), side) for side in (0, 1)]

    def read_whole(self, spark: Any) -> list[Any]:
        """Both as batch DataFrames."""
        return [self._read(spark.read, side) for side in (0, 1)]

    def _read(self, reader: Any, side: int) -> Any:
        schema = from_arrow_schema(self.schemas[side], prefer_timestamp_ntz=True)
        return reader.schema(schema).parquet(str(self.folder / SIDES[side]))


def times(values: Any, type_: pa.DataType = UTC, mask: Any = None) -> pa.Array:
    """Microseconds after the start as timestamps."""
    return pa.array(np.asarray(values, np.int64) + START, type_, mask=mask)


def random_streams(seed: int, batches: int = 3, rows: int = 110, disorder: float = 12.0) -> Streams:
    """Ten seconds of events in each micro-batch, some of them up to ``disorder`` seconds older.

    Keys are skewed: a third of ``k`` is a few hot values. Columns: ``id ts k x sym big``.
    """
    rng = np.random.default_rng(seed)
    sides = []
    for side in SIDES:
        tables = []
        for batch in range(batches):
            old = rng.random(rows) < 0.3
            ts = (batch + rng.random(rows)) * 10 * SECOND - old * rng.random(rows) * disorder * SECOND
            hot = rng.integers(0, 4, rows) * 50
            k = np.where(rng.random(rows) < 0.33, hot, rng.integers(-300, 300, rows))
            x = rng.normal(0, 3, rows)
            odd = rng.random(rows) < 0.1
            x[odd] = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0], odd.sum())
            sym = rng.choice(
                ["a", "b", "ä", "", "long enough not to be inline"], rows, p=[0.5, 0.2, 0.1, 0.1, 0.1]
            )
            big = 2**53 + 1 + 2 * rng.integers(0, 2**61, rows)
            columns = {
                "id": pa.array([f"{side}{batch}-{i}" for i in range(rows)]),
                "ts": times(ts, mask=rng.random(rows) < 0.02),
                "k": pa.array(k, pa.int64(), mask=rng.random(rows) < 0.03),
                "x": pa.array(x, pa.float64(), mask=rng.random(rows) < 0.03),
                "sym": pa.array(sym, pa.string(), mask=rng.random(rows) < 0.03),
                "big": pa.array(big, pa.int64(), mask=rng.random(rows) < 0.1),
            }
            tables.append(pa.table(columns))
        sides.append(tables)
    return Streams(*sides)


# --- Queries ---


def start(frame: Any, folder: Path, **options: str) -> Any:
    """A query on a joined stream that takes all there is and ends; its results are in memory."""
    name = f"results_{next(_names)}"
    writer = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    return writer.options(checkpointLocation=str(folder / name), **options).start()


def results(frame: Any, query: Any) -> pa.Table:
    """The results of a query, at its end."""
    query.awaitTermination()
    return arrow(frame.sparkSession.table(query.name))


def arrow(frame: Any) -> pa.Table:
    """The rows of a batch frame. PySpark 3.5 has no public way to them without pandas."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


def frame_of(spark: Any, table: pa.Table) -> Any:
    """A batch frame of one partition with the rows of a table. PySpark 3.5 makes none of Arrow directly."""
    batches = table.to_batches()
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter(batches), schema)


def run(frame: Any, folder: Path, **options: str) -> tuple[pa.Table, Any]:
    """The results of a joined stream, and its query, which has ended."""
    query = start(frame, folder, **options)
    return results(frame, query), query


def combined(frames: dict[str, Any]) -> Any:
    """Several results as one frame, so that one query runs all of them; :func:`parts` takes them apart."""
    named = [frame.repartition(1).withColumn(CASE, functions.lit(name)) for name, frame in frames.items()]
    return functools.reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), named)


def parts(table: pa.Table, frames: dict[str, Any]) -> dict[str, pa.Table]:
    """The result of each frame."""
    return {
        name: table.filter(pc.field(CASE) == name).select(frame.columns) for name, frame in frames.items()
    }


# --- Without Spark ---


def crossed(plan: Any, sides: Sequence[pa.Table], rows: int = 10**6) -> list[pa.RecordBatch]:
    """The rows of both sides as they cross to the only task of a join, so many in a batch."""
    kinds = {
        place: field.type
        for places, schema in zip(plan.places, plan.schemas, strict=True)
        for place, field in zip(places, schema, strict=True)
    }
    batches = []
    for half in range(len(plan.halves)):
        for side, table in enumerate(sides):
            own = dict(zip(plan.places[side], table.columns, strict=True))
            columns = [own.get(place, pa.nulls(len(table), kind)) for place, kind in sorted(kinds.items())]
            hashes = [pa.array(np.zeros(len(table), np.int32))] * plan.hashes
            tags = pa.array(np.full(len(table), 2 * half + side, np.int8))
            all_columns = [tags, *hashes, *columns]
            whole = pa.table(all_columns, [str(i) for i in range(len(all_columns))])
            batches += whole.combine_chunks().to_batches(max_chunksize=rows)
    return batches


# --- Truth ---


def watermarks(streams: Streams, lateness: int, time: tuple[str, str] = ("ts", "ts")) -> list[int | None]:
    """The watermark of each micro-batch in µs; ``None`` while there is none.

    It moves between micro-batches: the least over both sides of the greatest timestamp so far less the
    lateness.
    """
    marks: list[int | None] = [None]
    greatest = [None, None]
    for batch in range(len(streams.left) - 1):
        for side, tables in enumerate(streams.sides):
            most = pc.max(tables[batch][time[side]]).value
            if most is not None:
                greatest[side] = max(most, most if greatest[side] is None else greatest[side])
        mark = None if None in greatest else min(greatest) - lateness
        marks.append(mark if marks[-1] is None or mark is None else max(marks[-1], mark))
    return marks


def as_interval(window: Interval | Within) -> Interval:
    if isinstance(window, Within):
        return Interval(window.duration, window.duration, window.timed, window.time, late="return")
    return replace(window, lateness=None, late="return")


@dataclass(frozen=True)
class Truth:
    """What an embedded join gave: rows, the late ones of each side, counters after each micro-batch."""

    table: pa.Table
    late: tuple[pa.Table, pa.Table]
    stats: list[dict[str, Any]]


def embedded(
    streams: Streams,
    on: sj.predicate.Predicate,
    window: Interval | Within,
    how: str = "inner",
    suffixes: tuple[str, str] = ("", "_right"),
) -> Truth:
    """The embedded join, whose watermark is moved between micro-batches."""
    interval = as_interval(window)
    join = sj.WindowJoin(on, interval, how, schemas=streams.schemas, suffixes=suffixes)
    names = (interval.time, interval.time) if isinstance(interval.time, str) else interval.time
    type_ = streams.schemas[0].field(names[0]).type
    tables, stats = [], []
    for number, mark in enumerate(watermarks(streams, window.lateness // 1000, names)):
        if mark is not None:
            tables.append(join.advance(pa.scalar(mark, type_)))
        tables += [join.push(left=streams.left[number]), join.push(right=streams.right[number])]
        if mark is not None:  # rows that are final on arrival come out with their micro-batch
            tables.append(join.advance(pa.scalar(mark, type_)))
        stats.append(join.stats)
    late = tuple(join.take_late(side) for side in SIDES)
    return Truth(pa.concat_tables(tables), late, stats)


def embedded_whole(
    streams: Streams, on: sj.predicate.Predicate, window: Interval | Within, how: str = "inner"
) -> pa.Table:
    """The embedded join of all rows, none of them late: what a batch gives."""
    join = sj.WindowJoin(on, as_interval(window), how, schemas=streams.schemas)
    pushed = [
        join.push(**{side: table})
        for side, tables in zip(SIDES, streams.sides, strict=True)
        for table in tables
    ]
    return pa.concat_tables([*pushed, join.finish()])


def brute_force(
    streams: Streams,
    matches: reference.Predicate,
    key: Callable[[dict[str, Any]], Any],
    window: Interval,
    how: str = "inner",
) -> Counter[tuple[str | None, str | None]]:
    """The reference's results as pairs of ``id``."""
    bounds = window.before // 1000, window.after // 1000
    join = reference.ReferenceJoin(matches, reference.Interval(*bounds), how)
    ids: tuple[list[str], list[str]] = ([], [])
    found: list[reference.Result] = []
    for number, mark in enumerate(watermarks(streams, window.lateness // 1000)):
        if mark is not None:
            found += join.advance(mark)
        for side, tables in enumerate(streams.sides):
            table = tables[number]
            stamps = table["ts"].cast(pa.int64()).to_pylist()
            for row, ts in zip(table.to_pylist(), stamps, strict=True):
                found += join.push(side, key(row), ts)
                if ts is None or mark is None or ts >= mark:  # a late row takes no position
                    ids[side].append(row["id"])
    named = [
        tuple(None if place is None else of[place] for place, of in zip(pair, ids, strict=True))
        for pair in found
    ]
    return Counter(named)


# --- Comparison ---


def frozen(value: Any) -> Any:
    """A value that can be counted, and that tells -0.0 from 0.0, NaN from null, 1.0 from 1.00."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return tuple((name, frozen(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(frozen(part) for part in value)
    return value if value is None or isinstance(value, int | str | bytes) else repr(value)


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows of a table as a multiset."""
    columns = [[frozen(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True))


def assert_same(got: pa.Table, expected: pa.Table) -> None:
    """Same columns in the same order, same rows as often."""
    assert got.column_names == expected.column_names
    have, want = counted(got.cast(expected.schema)), counted(expected)
    if have != want:
        surplus, missing = have - want, want - have
        raise AssertionError(
            f"{got.num_rows} rows, expected {expected.num_rows}; {surplus.total()} too many, such as "
            f"{list(surplus)[:3]}; {missing.total()} missing, such as {list(missing)[:3]}"
        )
