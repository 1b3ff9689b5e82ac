"""The stateful operator: each group of a distributed join is one embedded join, kept in Spark's state.

A micro-batch of a group: take up its join, move it to Spark's watermark, push the rows, hand out the results,
and store what is new: the rows of this micro-batch and a head, no others.

A group without input is woken by a timer. For an inner join it fires when the last row has left the window,
and the state goes; for a join that hands out unmatched rows, whenever the watermark moves.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, TaskContext
from pyspark.sql.streaming import StatefulProcessor

from slidejoin.errors import StateError
from slidejoin.keys.extract import SIDES
from slidejoin.spark import blobs, recipe
from slidejoin.spark.cache import ChunkFiles, LiveJoins
from slidejoin.spark.kept import GroupState, Kept
from slidejoin.spark.output import late_rows, pushed, results
from slidejoin.spark.route import Routing
from slidejoin.spark.tasks import GUARD
from slidejoin.window_join import WindowJoin

# What comes out of a group in a micro-batch: rows with blobs of results, and a last one with its figures.
FIGURES = (
    "group_number", "groups", "rows_left", "rows_right", "copies", "matches", "results", "late_left",
    "late_right", "null_left", "null_right", "stored", "state_bytes", "busy_us", "live_hits",
    "file_hits", "restores",
)  # fmt: skip
RESULTS = ", ".join(["data binary", *(f"{name} bigint" for name in FIGURES)])

_FANOUT = 32  # chunks of one size before they are written as one: fewer bytes written, more to read back
_NOTHING = dict.fromkeys(FIGURES, 0)
_COUNTED = ("matches", "null_left", "null_right")

_joins = LiveJoins()  # of this worker process


class JoinGroups(StatefulProcessor):  # type: ignore[misc]
    """Joins the rows of every group; made of a recipe's text, since it is sent to all tasks."""

    def __init__(self, text: str) -> None:
        self._text = text

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls this on the driver, too."""
        self._handle = handle
        self._state = GroupState(handle)
        self._recipe = recipe.read(self._text)
        self._meaning = json.dumps(self._recipe.meaning)
        self._numbers = {id_: number for number, id_ in enumerate(self._recipe.ids)}
        self._query = _query(self._recipe.name)
        self._files = ChunkFiles(self._query, self._recipe.cache[1], _local_directory())
        self._seen: set[int] = set()  # ids of groups that ran in this micro-batch

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Join the rows of a group."""
        if key[0] == GUARD:
            self._guard(rows)
            return
        batches: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        counted = [0, 0]
        for frame in rows:
            for side, count, blob in zip(frame["side"], frame["counted"], frame["data"], strict=True):
                batches[side].append(blobs.decode(blob, self._recipe.schemas[side]))
                counted[side] += int(count)
        self._seen.add(int(key[0]))
        tables = [
            pa.Table.from_batches(parts, schema=schema)
            for parts, schema in zip(batches, self._recipe.schemas, strict=True)
        ]
        yield from self._run(int(key[0]), timerValues.getCurrentWatermarkInMs(), tables, counted)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002
        """Let the watermark move a group without input; one that had some has moved, and set its timer."""
        if int(key[0]) not in self._seen:
            self._seen.add(int(key[0]))
            yield from self._run(int(key[0]), timerValues.getCurrentWatermarkInMs(), (), (0, 0))

    def close(self) -> None:
        """Nothing is held beyond a micro-batch but what the cache holds."""

    # --- one group, one micro-batch ---

    def _run(
        self, id_: int, watermark: int, tables: Sequence[pa.Table], counted: Sequence[int]
    ) -> Iterator[pd.DataFrame]:
        begin = time.perf_counter()
        kept = self._read()
        if kept is None and not tables:
            return
        group = self._numbers[id_]
        routing, second = self._recipe.half(group)
        join, origin = self._take_up(group, kept, routing)
        before: Mapping[str, Any] = join.stats
        handed_out = 0
        for found in self._results(join, watermark, tables):
            part = results(self._recipe, found, second)
            handed_out += len(part)
            yield from _frames(part)
        late = [self._counted_late(join, side, group) for side in range(2)]
        if self._recipe.late:
            for side, table in enumerate(late):
                part = late_rows(self._recipe, table, side)
                handed_out += len(part)
                yield from _frames(part)
        after: Mapping[str, Any] = join.stats
        size = self._save(group, kept, join, watermark, tables)
        figures = {
            "group_number": group,
            "groups": 1,
            "rows_left": counted[0],
            "rows_right": counted[1],
            "copies": sum(map(len, tables)),
            "results": handed_out,
            "late_left": len(late[0]),
            "late_right": len(late[1]),
            "stored": after["stored_left"] + after["stored_right"],
            "state_bytes": size,
            **{name: 0 if second else after[name] - before[name] for name in _COUNTED},
            **{name: int(name == origin) for name in ("live_hits", "file_hits", "restores")},
        }
        figures["busy_us"] = int((time.perf_counter() - begin) * 1e6)
        yield _frame(b"", figures)

    def _results(self, join: WindowJoin, watermark: int, tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
        """Move a join to the watermark, push rows, and hand out what comes out on the way."""
        if watermark > 0:
            yield join.advance(self._instant(watermark))
        for side, table in enumerate(tables):
            yield from pushed(join, side, table)

    def _take_up(self, group: int, kept: Kept | None, routing: Routing) -> tuple[WindowJoin, str]:
        """The join of a group as its state has it, and where it was found."""
        if kept is None:
            return self._recipe.new_join(routing), "new"
        live = _joins.take((self._query, group), kept.token)
        if live is not None:
            return live, "live_hits"
        mapped = self._files.read(group, kept.chunks)
        if mapped.keys() == kept.chunks.keys():
            try:
                return WindowJoin.restore(kept.head, chunks=mapped), "file_hits"
            except StateError:
                pass  # a damaged file; the state has the chunks, too
        return WindowJoin.restore(kept.head, chunks=self._state.chunks(kept)), "restores"

    def _save(
        self, group: int, kept: Kept | None, join: WindowJoin, watermark: int, tables: Sequence[pa.Table]
    ) -> int:
        """Store the join, or remove its state if it holds no rows; the bytes stored."""
        stats = join.stats
        if not stats["stored_left"] + stats["stored_right"]:
            if kept is not None:
                self._state.clear()
                self._files.write(group, {}, ())
            join.close()
            return 0
        expiry = max([0 if kept is None else kept.expiry, *self._expiries(tables)])
        timer = 0 if kept is None else kept.timer
        if timer <= watermark or timer == 0:
            wanted = expiry if join.spec.how == "inner" else 0
            timer = max(wanted, watermark + 1, 1)
            self._handle.registerTimer(timer)
        new = join.snapshot_since(None if kept is None else kept.token, fanout=_FANOUT, history=1)
        written = self._state.replace(kept, new, self._meaning, timer, expiry)
        self._files.write(group, new.chunks, new.alive)
        _joins.put((self._query, group), new.token, join, self._recipe.cache[0])
        return written.size

    def _expiries(self, tables: Sequence[pa.Table]) -> Iterator[int]:
        """When the last of new rows will have left the window, in ms."""
        time, window = self._recipe.time, self._recipe.window
        for table, name, reach in zip(
            tables, (time.left, time.right), (window.after, window.before), strict=False
        ):
            last = pc.max(table.column(name))
            if last.is_valid:
                yield -(-(last.value * 1000 + reach) // 10**6)

    def _counted_late(self, join: WindowJoin, side: int, group: int) -> pa.Table:
        """The late rows of a side, each in one of the groups that it was copied to."""
        table = join.take_late(SIDES[side])
        routing, second = self._recipe.half(group)
        if not table.num_rows or second:
            return table.slice(0, 0)
        return table.filter(pa.array(routing.first_groups(table, side) == group))

    def _instant(self, watermark: int) -> pa.Scalar:
        """The time behind Spark's watermark, at which a row is still late: one microsecond after it."""
        return pa.scalar(watermark * 1000 + 1, self._recipe.schemas[0].field(self._recipe.time.left).type)

    def _read(self) -> Kept | None:
        """The state of a group; that of another join is refused, in whichever task meets it first."""
        kept = self._state.read()
        if kept is not None and kept.meaning != self._meaning:
            self._recipe.check(json.loads(kept.meaning))
        return kept

    def _guard(self, rows: Any) -> None:
        """Mark a new checkpoint with what it is of, so that also one without any rows left is known."""
        for _ in rows:
            pass
        if self._read() is None:
            self._state.mark(self._meaning)


def _frames(part: pa.Table) -> Iterator[pd.DataFrame]:
    """Results as frames of one blob each."""
    for batch in blobs.cut(part):
        yield _frame(blobs.encode(batch), _NOTHING)


def _frame(blob: bytes, figures: Mapping[str, int]) -> pd.DataFrame:
    return pd.DataFrame({"data": [blob]} | {name: [figures[name]] for name in FIGURES})


def _local_directory() -> Path | None:
    """A directory of this executor, that Spark removes with its own at the end; ``None`` outside of Spark."""
    if TaskContext.get() is None:
        return None
    try:
        return Path(SparkFiles.getRootDirectory()) / "slidejoin"
    except AssertionError:  # no worker of Spark
        return None


def _query(name: str) -> str:
    """A name for the cache: of this call and this query, since a DataFrame may feed several."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    return f"{name}-{query or 'query'}"
