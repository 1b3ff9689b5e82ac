"""The join of two sets of files in this process: over a window (``merge``), or of all rows."""

import time
from collections.abc import Iterator

import pyarrow as pa
from rich.console import Console

from slidejoin.column_store import empty_table
from slidejoin.cores import usable_cores
from slidejoin.errors import SpecError
from slidejoin.explain import Explanation
from slidejoin.keys import bind
from slidejoin.page.feed import JoinFeed
from slidejoin.page.server import PageServer
from slidejoin.run.ahead import Behind
from slidejoin.run.files import Input
from slidejoin.run.job import Job, Summary
from slidejoin.run.live_page import LOOPBACK, live_page
from slidejoin.run.merge import Merge
from slidejoin.run.output import open_writer, published
from slidejoin.run.progress import RowProgress
from slidejoin.run.recovery import SNAPSHOT_SECONDS, Recovery
from slidejoin.sampling import read
from slidejoin.table_join import join
from slidejoin.window_join import WindowJoin

BATCH = 2**16


def run(
    job: Job,
    console: Console,
    batch: int = BATCH,
    resume: bool = False,
    snapshot_every: float = SNAPSHOT_SECONDS,
    watch_port: int | None = None,
) -> Summary:
    """Join, show progress and publish the result.

    Parameters
    ----------
    batch : int
        Rows that are read together; decides speed, never results.
    resume : bool
        Whether to continue an interrupted run of the same job, if there is one.
    snapshot_every : float
        Seconds between two snapshots, by which a killed run can be continued; 0 for none.

    watch_port : int, optional
        Where to serve a live page; 0 for any port that is free.

    Raises
    ------
    Interrupted
        By Ctrl-C, when the state was saved.
    """
    if watch_port is not None and not job.has_window:
        raise SpecError("--watch shows a join over a window; give --window")
    begin = time.perf_counter()
    with published(job.target, job.overwrite, resume) as place:
        recovery = Recovery(job, place, snapshot_every)
        saved = recovery.load() if resume else None
        join: Merge | TableJoin = TableJoin(job)
        if job.has_window:
            join = Merge(job) if saved is None else Merge(job, saved.join, saved.joined)
        counts = [side.expected_rows() for side in job.inputs]
        total = None if None in counts else sum(count or 0 for count in counts)
        with (
            live_page(watch_port, lambda port: _page(join, port), console),
            open_writer(job.target, place, job.schema, saved and saved.output) as writer,
            Behind(writer.write) as behind,
            RowProgress(console, total) as progress,
            recovery.watching(),
        ):
            rows = writer.rows
            for table in join.results(batch):
                behind.put(job.picked(table))
                rows += table.num_rows
                progress.update(join.rows, rows)
                if isinstance(join, Merge) and not join.is_over and recovery.is_due:
                    behind.wait()
                    recovery.save(join, writer)
            behind.wait()
            writer.finish()
    late = join.late if isinstance(join, Merge) else None
    continued = [] if saved is None else [f"continued after {sum(saved.joined):,} rows of an interrupted run"]
    return Summary(
        engine="embedded",
        left_rows=join.read[0],
        right_rows=join.read[1],
        result_rows=writer.rows,
        files=writer.files,
        seconds=time.perf_counter() - begin,
        output=job.target.name,
        late_rows=late,
        notes=[*_notes(job, late), *continued],
    )


def _page(join: "Merge | TableJoin", port: int) -> PageServer:
    assert isinstance(join, Merge), "checked before"
    return PageServer(JoinFeed(lambda: read(join.join)), LOOPBACK, port)


class TableJoin:
    """The join of all rows of both inputs, which are read whole: :func:`slidejoin.join`."""

    def __init__(self, job: Job) -> None:
        bind(job.spec, job.left.schema, job.right.schema)  # errors of types come before the work
        self.read = [0, 0]  # rows of each side so far
        self.rows = 0  # joined so far
        self._job = job

    def results(self, batch: int) -> Iterator[pa.Table]:
        """Read all rows and yield the results."""
        tables = []
        for side, files in enumerate(self._job.read):
            tables.append(pa.concat_tables([empty_table(files.schema), *files.batches(batch)]))
            self.read[side] = tables[-1].num_rows
        spec = self._job.spec
        result = join(tables[0], tables[1], spec.on, spec.how, suffixes=spec.suffixes, workers=usable_cores())
        self.rows = sum(self.read)
        for start in range(0, max(result.num_rows, 1), batch):
            yield result.slice(start, batch)


def explain(job: Job) -> Explanation:
    """Say what a run would do, and raise what it would raise for the types of the columns."""
    spec, schemas = job.spec, (job.left.schema, job.right.schema)
    lines = [(name, _described(files)) for name, files in zip(("left", "right"), job.inputs, strict=True)]
    if job.has_window:
        planned = WindowJoin(
            spec.on, spec.window, spec.how, order=spec.order, suffixes=spec.suffixes, schemas=schemas
        ).explain()
        lines += [line for line in planned.lines if line[0] != "now"]
        by = "position: left and right rows in turn"
        if job.arrive_by is not None:
            by = " and ".join(dict.fromkeys(job.arrive_by)) + ", left rows first where equal"
        lines.append(("arrivals", f"in the order of {by}{', sorted in memory first' * job.sorts}"))
    else:
        bind(spec, *schemas)
        lines += [
            ("join", f"{spec.how} on {spec.on!r}"),
            ("window", "none: both inputs are read whole, sorted and merged"),
        ]
    kind = "directory of parquet files" if job.target.is_directory else job.target.format
    lines.append(("output", f"{job.target.name}: {kind}; {', '.join(job.columns)}"))
    return Explanation(lines)


def _described(files: Input) -> str:
    count = len(files.files)
    columns = ", ".join(f"{field.name} {field.type}" for field in files.schema)
    return f"{files.name}: {count:,} {files.format} file{'s' * (count > 1)}; {columns}"


def _arrival_option(job: Job) -> str:
    return ",".join(dict.fromkeys(job.arrive_by or ()))


def _notes(job: Job, late: int | None) -> list[str]:
    notes, window = [], job.spec.window
    if window.has_watermark and window.lateness is None:
        notes.append("the window has no lateness, so all rows were kept until the end")
    if late:
        hint = "" if job.sorts else f", or sort the inputs: --sort-by {_arrival_option(job)}"
        notes.append(
            f"{late:,} late rows were dropped: they were more than the lateness behind; give a larger "
            f"lateness{hint}"
        )
    if job.sorts and job.arrive_by is not None:
        notes.append(f"both inputs were sorted in memory by {' and '.join(dict.fromkeys(job.arrive_by))}")
    return notes
