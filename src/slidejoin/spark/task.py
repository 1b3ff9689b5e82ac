"""The task of a streaming join: one partition of one micro-batch, joined with the sorted runs of its state.

A task keeps no rows in memory between micro-batches. It finds the state that the last one left, joins the new
rows with it and with each other, writes the new state, and hands out the results. All it does is a function
of committed state and of its rows, so any attempt, on any host, does the same.
"""

import contextlib
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from slidejoin.errors import StateError
from slidejoin.keys.extract import SIDES
from slidejoin.spark import marks, recipe
from slidejoin.spark.arrivals import Arrivals, Arrived
from slidejoin.spark.base import Base, check_alone, find_base, note_begun
from slidejoin.spark.files import open_folder
from slidejoin.spark.heads import Head, StoredRun
from slidejoin.spark.live import Live, to_merge
from slidejoin.spark.marks import Place, latest
from slidejoin.spark.meet import Meeting
from slidejoin.spark.output import ROWS, late_rows
from slidejoin.spark.recipe import Half, Recipe
from slidejoin.spark.runs import Bits, Rows, bits_file, checksum
from slidejoin.spark.tidy import tidy

BLOCK = 2**30  # bytes of new rows that are sorted together
SMALL = 2**14  # results that are put together
TIDY = 50  # micro-batches from one cleaning up to the next
_RUN = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # what Spark names the runs of a query


def run(text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the rows of a task; what ``mapInArrow`` calls."""
    plan = recipe.read(text)
    task = Task(plan, task_place(plan), batches)
    for table in task.results():
        yield from table.to_batches(max_chunksize=ROWS)


def task_place(plan: Recipe) -> Place:
    """Where this task stands. Spark tells it by properties that every task of a streaming query has."""
    context = TaskContext.get()
    names = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
    known = [None if context is None else context.getLocalProperty(name) for name in names]
    query, batch, group = known
    if context is None or query is None or batch is None:
        raise StateError(
            f"a task of a streaming join does not know its query and batch ({names[0]}={query}, "
            f"{names[1]}={batch}); run it as a streaming query, by writeStream"
        )
    partition = context.partitionId()
    if partition >= plan.partitions:
        raise StateError(
            f"this task has partition number {partition}, the join has {plan.partitions}: union() directly "
            "behind the join renumbers its partitions; put repartition() between"
        )
    # A user's foreachBatch may set a job group of its own, which then does not tell runs apart.
    run_id = group if group and re.fullmatch(_RUN, group) else plan.call
    return Place(query, int(batch), run_id, context.taskAttemptId(), partition, plan.partitions, plan.call)


class Task:
    """One partition of one micro-batch."""

    def __init__(self, plan: Recipe, place: Place, batches: Iterator[pa.RecordBatch]) -> None:
        self._plan = plan
        self._place = place
        self._batches = batches
        self._folder = open_folder(plan.state_dir, place.query, plan.name)
        self._files: dict[str, pa.Buffer] = {}
        self._token = secrets.token_hex(6)
        self._idle = 0  # ns that Spark took to bring rows and to take results
        self._figures: Counter[str] = Counter()
        self._meeting = Meeting(plan, self._figures)

    def results(self) -> Iterator[pa.Table]:
        """The results, in bounded tables. The state is written before the last of them is handed out."""
        for table in self._results():
            begin = time.perf_counter_ns()
            yield table
            self._idle += time.perf_counter_ns() - begin

    def _arrived(self) -> Iterator[Arrivals]:
        """The rows that came: mostly together, and in blocks where they are many."""
        arrivals, begin = Arrivals(self._plan), time.perf_counter_ns()
        for batch in self._batches:
            self._idle += time.perf_counter_ns() - begin
            arrivals.add(batch)
            if arrivals.nbytes > BLOCK:
                yield arrivals
                arrivals = Arrivals(self._plan)
            begin = time.perf_counter_ns()
        self._idle += time.perf_counter_ns() - begin
        yield arrivals

    def _results(self) -> Iterator[pa.Table]:
        begin = time.perf_counter_ns()
        check_alone(self._folder, self._place)
        base = find_base(self._folder, self._place, self._plan.start_empty)
        head, live = self._start(base)
        self._before = head.watermark
        self._watermark = watermark(self._plan, head.watermark, base)
        greatest, spoke, now = list(head.greatest), [False, False], None
        fresh: list[list[list[Live]]] = [[[], []] for _ in self._plan.halves]
        alone: list[pa.Table] = []
        for arrivals in self._arrived():
            now = latest(now, arrivals.now)
            for number, (half, sides) in enumerate(zip(self._plan.halves, arrivals.sides(), strict=True)):
                for side, rows in enumerate(sides):
                    admitted, times = self._admitted(half, number, side, rows, alone)
                    fresh[number][side] += admitted
                    greatest[side] = latest(greatest[side], times)
                    spoke[side] |= len(rows.table) > 0
        new_head = replace(
            head, watermark=self._watermark, runs=[], greatest=(greatest[0], greatest[1]),
            seen=self._seen(base, now, spoke),
        )  # fmt: skip
        produced = self._gathered(self._produced(live, fresh, alone))
        if self._plan.spec.how == "inner":  # what is stored does not depend on what matches
            new = self._new_files(new_head, live, fresh)
            with ThreadPoolExecutor(1) as thread:  # disks are slow: the first results are made meanwhile
                written = thread.submit(self._folder.write, new)
                first = next(produced, None)
            written.result()
            yield from () if first is None else (first,)
            yield from produced
        else:
            note_begun(self._folder, self._place)
            yield from self._all_but_last(
                produced, lambda: self._folder.write(self._new_files(new_head, live, fresh))
            )
        self._write_figures(time.perf_counter_ns() - begin - self._idle)
        if self._place.partition == 0 and base is not None and base.batch // TIDY < self._place.batch // TIDY:
            with contextlib.suppress(StateError):
                tidy(self._folder, self._place.batch)

    def _seen(
        self, base: Base | None, now: int | None, spoke: Sequence[bool]
    ) -> tuple[int | None, int | None]:
        """When each side spoke last, by the clock of micro-batches; nothing where idle_after is not given.

        A side that has not spoken yet counts from the first micro-batch on, and both do so after a start of
        the query: nobody was silent while it was stopped.
        """
        if self._plan.window.idle_after is None:
            return None, None
        before: tuple[int | None, int | None] = (None, None)
        if base is not None and base.run == marks.run_name(self._place.run):
            before = base.seen()
        if now is None:  # no rows here: other partitions tell
            return before
        left, right = (
            now if said or last is None else last for said, last in zip(spoke, before, strict=True)
        )
        return left, right

    # --- The state to start from ---

    def _start(self, base: Base | None) -> tuple[Head, list[tuple[list[Live], list[Live]]]]:
        """The head of this partition, and the runs that it names."""
        halves = self._plan.halves
        if base is None:
            return Head(self._place.query, self._plan.meaning, None, []), [([], []) for _ in halves]
        if base.partitions == self._place.partitions:
            head = self._read_head(base, self._place.partition)
            live = []
            for half, sides in zip(halves, head.runs, strict=True):
                left, right = (
                    [Live(format_, self._folder, run_) for run_ in runs]
                    for format_, runs in zip(half.formats, sides, strict=True)
                )
                live.append((left, right))
            return head, live
        return self._rescaled(base)

    def _read_head(self, base: Base, partition: int) -> Head:
        head = Head.read(self._folder, base.path(partition))
        self._plan.check(head.meaning)
        if head.query != self._place.query:
            raise StateError(
                f"the state of {self._place.here} is that of query {head.query}; a query needs the state "
                "that it left: start with its own checkpointLocation, or with a new one"
            )
        return head

    def _rescaled(self, base: Base) -> tuple[Head, list[tuple[list[Live], list[Live]]]]:
        """The rows of all partitions of another number of them that now belong here."""
        old = [self._read_head(base, partition) for partition in range(base.partitions)]
        here = (self._place.partition, self._place.partitions)
        live: list[tuple[list[Live], list[Live]]] = []
        for number, half in enumerate(self._plan.halves):
            live.append(([], []))
            for side, format_ in enumerate(half.formats):
                for partition, head in enumerate(old):
                    for run_ in head.runs[number][side]:
                        all_rows = Live(format_, self._folder, run_)
                        hashes = [pa.array(part) for part in all_rows.rows.hashes]
                        mask = half.partitioning.kept(side, hashes, (partition, base.partitions), here)
                        if mask.any():
                            rows = format_.some(all_rows.rows, np.flatnonzero(mask))
                            kept = Live(format_, self._folder, new_rows=rows, new_bits=all_rows.bits[mask])
                            live[-1][side].append(kept)
        # Each timestamp and time seen is that of a row somewhere: the marks of the new partitions must not
        # fall behind those of the old ones.
        return replace(old[0], runs=[], greatest=base.greatest(), seen=base.seen()), live

    # --- New rows ---

    def _admitted(
        self, half: Half, number: int, side: int, arrived: Arrived, alone: list[pa.Table]
    ) -> tuple[list[Live], int | None]:
        """New rows of a side in the order of their keys, and the greatest timestamp; None if there are none.

        Late rows are left out. Rows that match nothing come out at once where unmatched rows do.
        """
        plan, place, table = self._plan, self._place, arrived.table
        if not len(table):
            return [], None
        routing = half.partitioning
        if not routing.here(side, arrived.hashes, place.partition, place.partitions).all():
            raise StateError(
                f"{place.here} got rows of another partition: coalesce() or union() directly behind the join "
                "renumbers its partitions; put repartition() between"
            )
        columns = half.kernel.columns(table, side)
        times, null_times = columns[half.kernel.time_at]
        in_time = np.ones(len(table), np.bool_) if null_times is None else ~null_times
        greatest = int(times[in_time].max()) if in_time.any() else None
        late = np.zeros(len(table), np.bool_)
        if self._watermark is not None:
            late = in_time & (times < self._watermark)
        counted = number == 0
        first = routing.first(side, arrived.hashes, place.partition, place.partitions) if counted else None
        if first is not None:
            self._count(side, first, late)
        if late.any():
            if plan.late and first is not None and (late & first).any():
                alone.append(late_rows(plan, table.filter(pa.array(late & first)), side))
            keep = np.flatnonzero(~late)
            table = table.take(pa.array(keep))
            columns = [(values[keep], None if nulls is None else nulls[keep]) for values, nulls in columns]
        else:
            keep = np.arange(len(table))
        rows, order = half.formats[side].sorted(table, columns, arrived.plain_hashes(keep))
        if len(rows) < len(table):
            if counted:
                self._figures[f"null_{SIDES[side]}"] += len(table) - len(rows)
            if half.type.preserves[side]:
                lost = np.ones(len(table), np.bool_)
                lost[order] = False
                alone.append(self._meeting.unmatched(side, table, np.flatnonzero(lost)))
        return [Live(half.formats[side], self._folder, new_rows=rows)] if len(rows) else [], greatest

    def _count(self, side: int, first: NDArray[np.bool_], late: NDArray[np.bool_]) -> None:
        self._figures["copies"] += len(first)
        self._figures[f"rows_{SIDES[side]}"] += int(first.sum())
        self._figures[f"late_{SIDES[side]}"] += int((first & late).sum())

    # --- Results ---

    def _produced(
        self, live: list[tuple[list[Live], list[Live]]], fresh: list[list[list[Live]]], alone: list[pa.Table]
    ) -> Iterator[pa.Table]:
        yield from alone
        for half, old, new in zip(self._plan.halves, live, fresh, strict=True):
            meetings = [(left, right) for left in new[0] for right in (*old[1], *new[1])]
            meetings += [(left, right) for left in old[0] for right in new[1]]
            for left, right in meetings:
                if self._meeting.overlap(left, right):
                    yield from self._meeting.met(half, left, right)
            for side in (0, 1):
                if half.type.preserves[side]:
                    yield from self._finals(side, old[side], self._before)
                    yield from self._finals(side, new[side], None)

    def _finals(self, side: int, runs: list[Live], before: int | None) -> Iterator[pa.Table]:
        """Rows that the watermark has passed since it stood at ``before``, and that never matched."""
        if self._watermark is None:
            return
        reach = self._reach(side)
        for live in runs:
            if live.span[0] + reach >= self._watermark:
                continue
            passed = live.rows.times < self._watermark - reach
            if before is not None:
                passed &= live.rows.times >= before - reach
            rows = np.flatnonzero(passed & ~live.bits)
            for start in range(0, len(rows), ROWS):
                yield self._meeting.unmatched(side, live.rows.table, rows[start : start + ROWS])

    def _reach(self, side: int) -> int:
        """How long after its timestamp a row of a side may find a partner."""
        return self._plan.time.before if side else self._plan.time.after

    def _gathered(self, produced: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The results with small tables put together: each costs Spark about as much as a thousand rows."""
        held: list[pa.Table] = []
        for table in produced:
            self._figures["results"] += len(table)
            held.append(table)
            if sum(map(len, held)) >= SMALL:
                yield _one_table(held)
                held = []
        if held:
            yield _one_table(held)

    def _all_but_last(self, produced: Iterator[pa.Table], write: Any) -> Iterator[pa.Table]:
        """The results, the last of them after the state is written: a reader may stop at it."""
        held: pa.Table | None = None
        for table in produced:
            if held is not None:
                yield held
            held = table
        write()
        if held is not None:
            yield held

    # --- The state that is left ---

    def _new_files(
        self, head: Head, live: list[tuple[list[Live], list[Live]]], fresh: list[list[list[Live]]]
    ) -> dict[str, pa.Buffer]:
        """The files of the state after this micro-batch, the head as the last."""
        for half, old, new in zip(self._plan.halves, live, fresh, strict=True):
            sides: list[list[StoredRun]] = []
            for side in (0, 1):
                alive = [run_ for run_ in (*old[side], *new[side]) if not self._is_over(run_, side)]
                kept = self._merged(half, side, [self._pruned(half, side, run_) for run_ in alive])
                sides.append([self._stored(half, side, run_) for run_ in kept])
                self._figures["stored"] += sum(run_.rows for run_ in sides[-1])
                self._figures["runs"] += len(sides[-1])
            head.runs.append((sides[0], sides[1]))
        mark = marks.new_mark(self._place, head.greatest, head.seen)
        self._mark = f"{marks.head_folder(self._place.batch)}/{mark.name}"
        return {**self._files, self._mark: pa.py_buffer(head.to_json())}

    def _is_over(self, run_: Live, side: int) -> bool:
        return self._watermark is not None and run_.span[1] + self._reach(side) < self._watermark

    def _merged(self, half: Half, side: int, runs: list[Live]) -> list[Live]:
        """The runs, with the newest ones of like size merged, so that there are few."""
        while (count := to_merge([run_.weight for run_ in runs])) > 1:
            parts = runs[-count:]
            rows, order = half.formats[side].merged([run_.rows for run_ in parts])
            bits = None
            if self._keeps_bits(half, side):
                bits = np.concatenate([run_.bits for run_ in parts])[order]
            runs = [*runs[:-count], self._alive(half, side, rows, bits)]
        return runs

    def _pruned(self, half: Half, side: int, run_: Live) -> Live:
        """A run; if the watermark has passed most of its rows, the others alone."""
        stored, mark = run_.stored, self._watermark
        if stored is None or mark is None or stored.middle + self._reach(side) >= mark:
            return run_
        return self._alive(half, side, run_.rows, run_.bits if self._keeps_bits(half, side) else None)

    def _alive(self, half: Half, side: int, rows: Rows, bits: Bits | None) -> Live:
        """The rows of a new run that may still match."""
        if self._watermark is not None:
            alive = np.flatnonzero(rows.times >= self._watermark - self._reach(side))
            if len(alive) < len(rows):
                rows = half.formats[side].some(rows, alive)
                bits = None if bits is None else bits[alive]
        return Live(half.formats[side], self._folder, new_rows=rows, new_bits=bits)

    @staticmethod
    def _keeps_bits(half: Half, side: int) -> bool:
        return half.type.preserves[side] or half.type.only == side

    def _stored(self, half: Half, side: int, run_: Live) -> StoredRun:
        """A run as the new head has it; what is new of it is to be written."""
        stored = run_.stored
        if stored is None:
            content = half.formats[side].content(run_.rows)
            rows, (least, greatest) = run_.rows, run_.span
            name = self._name(content, "arrow")
            stored = StoredRun(name, checksum(content), content.size, len(rows), least, rows.middle, greatest)
        if self._keeps_bits(half, side) and (run_.changed or (run_.stored is None and run_.bits.any())):
            content = bits_file(run_.bits)
            stored = replace(stored, bits=self._name(content, "bits"), bits_checksum=checksum(content))
        return stored

    def _name(self, content: pa.Buffer, kind: str) -> str:
        name = (
            f"runs/{self._place.batch:012d}/{self._place.partition}-{self._token}-{len(self._files)}.{kind}"
        )
        self._files[name] = content
        self._figures["written_bytes"] += content.size
        return name

    def _write_figures(self, busy: int) -> None:
        """Counters for readers. Nothing depends on them."""
        mark = None if self._watermark is None else str(self._plan.time.to_value(self._watermark))
        figures = {**self._figures, "busy_us": busy // 1000, "watermark": mark}
        name = self._mark.removesuffix(".head") + ".figures"
        with contextlib.suppress(OSError):
            self._folder.write({name: pa.py_buffer(json.dumps(figures).encode())}, sync=False)


def _one_table(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


def watermark(plan: Recipe, before: int | None, base: Base | None) -> int | None:
    """The watermark of a micro-batch: a function of the rows of committed ones."""
    lateness = plan.time.lateness
    assert lateness is not None, "streams have one"
    if base is None:
        return before
    greatest, seen = list(base.greatest()), base.seen()
    if plan.window.idle_after is not None and None not in seen:
        patience = plan.window.idle_after // 1000
        for side in (0, 1):
            if seen[1 - side] - seen[side] >= patience:  # type: ignore[operator]
                greatest[side] = greatest[1 - side]
    if None in greatest:
        return before
    return latest(before, min(greatest) - lateness)  # type: ignore[type-var, operator]
