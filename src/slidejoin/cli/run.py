"""``slidejoin run``: joins two sets of files."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from slidejoin.cli.engine import Backend, only_for
from slidejoin.cli.failure import fail, one_line
from slidejoin.join_type import JOIN_TYPES
from slidejoin.run.embedded import explain as explain_job
from slidejoin.run.embedded import run as run_embedded
from slidejoin.run.formats import ENDINGS
from slidejoin.run.job import Summary, make_job, side_pair
from slidejoin.run.recovery import SNAPSHOT_SECONDS, Interrupted, seconds_of
from slidejoin.run.spark import run as run_spark
from slidejoin.run.text import EXAMPLES

LATE = 3  # exit code
INTERRUPTED = 130
_RECOVERY = "Recovery"
_FORMATS = ", ".join(ENDINGS)
_INPUT, _ORDER, _OUTPUT, _REPORTS, _SPARK = (
    "Inputs", "Order of arrivals", "Output", "Reports", "Spark (--engine spark)",
)  # fmt: skip


class LogLevel(StrEnum):
    """Least severity of messages that are shown."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def run(
    left: Annotated[str, typer.Argument(help="File, directory or glob; - is standard input.")],
    right: Annotated[str, typer.Argument(help="The same for the right side.")],
    on: Annotated[str, typer.Option(help=f"Condition: {EXAMPLES['sql']} or {EXAMPLES['condition']}")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File: .csv, .parquet, .jsonl, .arrow ...; a name without ending is a directory of Parquet "
            "files; - is standard output.",
        ),
    ],
    window: Annotated[
        str | None,
        typer.Option(
            help="Which rows can meet: interval('5s', '1s', time='ts', lateness='10s'): right rows up to 5 s "
            "before and 1 s after a left row, by the column ts, in files out of order by 10 s at most; "
            "within('10s', time='ts'): the last 10 s of files in order; rows(1000): the last 1000 rows.",
            show_default="none: all rows meet all rows",
        ),
    ] = None,
    how: Annotated[str, typer.Option(help=f"One of {', '.join(JOIN_TYPES)}.")] = "inner",
    engine: Annotated[Backend, typer.Option(help="In this process, or on local Spark.")] = Backend.embedded,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{_FORMATS}; of left and right: csv,parquet.",
            show_default="as the names tell",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    sort_by: Annotated[
        str | None,
        typer.Option(
            help="Sort both inputs in memory by this column; left,right where names differ.",
            show_default="not sorted",
            rich_help_panel=_ORDER,
        ),
    ] = None,
    merge_by: Annotated[
        str | None,
        typer.Option(
            help="Windows of rows: a column that both inputs are sorted by.",
            show_default="left and right rows in turn",
            rich_help_panel=_ORDER,
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            help=f"{_FORMATS}.",
            show_default="as the name tells; csv for -",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of the result, in order: id,price,price_right. Others are not read.",
            show_default="all",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    suffixes: Annotated[
        str, typer.Option(help="For names that both sides have: left,right.", rich_help_panel=_OUTPUT)
    ] = ",_right",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is in --output.", rich_help_panel=_OUTPUT)
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue an interrupted run of this command.", rich_help_panel=_RECOVERY
        ),
    ] = False,
    snapshot_every: Annotated[
        str | None,
        typer.Option(
            help="How often to save the state that --resume needs; 0s: only on Ctrl-C.",
            show_default=f"{SNAPSHOT_SECONDS / 60:.0f}min",
            rich_help_panel=_RECOVERY,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan and end.", rich_help_panel=_REPORTS)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_REPORTS)
    ] = False,
    log_level: Annotated[
        LogLevel, typer.Option(help="Messages of the join, on standard error.", rich_help_panel=_REPORTS)
    ] = LogLevel.error,
    fail_on_late: Annotated[
        bool,
        typer.Option("--fail-on-late", help=f"Exit with {LATE} if rows were late.", rich_help_panel=_REPORTS),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Serve a live page on this machine.", rich_help_panel=_REPORTS),
    ] = False,
    watch_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="With --watch: its port.",
            show_default="any that is free",
            rich_help_panel=_REPORTS,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tasks side by side.", show_default="one for each core", rich_help_panel=_SPARK
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read files as streams, with a checkpoint.", rich_help_panel=_SPARK),
    ] = False,
    files_per_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --stream: files of a side in one micro-batch.",
            show_default="all",
            rich_help_panel=_SPARK,
        ),
    ] = None,
) -> None:
    """Join two sets of files: Parquet, CSV, TSV, JSON lines or Arrow, over a window or as a whole.

    Trades and quotes of one symbol whose prices are near, at most 5 s before and 1 s after:

    \b
      slidejoin run trades.csv quotes.csv -o near.csv \\
        --on "left.symbol = right.symbol and abs(left.price - right.price) <= 0.5" \\
        --window "interval('5s', '1s', time='ts', lateness='10s')"

    Files that are not in the order of time: add --sort-by ts. No window, all rows meet:

    \b
      slidejoin run orders.csv customers.parquet -o joined.parquet \\
        --on "left.customer = right.id" --how left --columns order,amount,name

    --on calls the two inputs left and right. Of a column that both have, the right one is called NAME_right
    in the result (--suffixes). --explain shows columns, types and plan without a run.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 late rows with --fail-on-late, 130 interrupted.
    """  # noqa: D301
    only_for(
        engine, Backend.spark, partitions=partitions, stream=stream or None, files_per_batch=files_per_batch
    )
    only_for(engine, Backend.embedded, resume=resume or None, snapshot_every=snapshot_every)
    if files_per_batch is not None and not stream:
        fail("--files-per-batch is for --stream; give both")
    if watch_port is not None and not watch:
        fail("--watch-port is for --watch; give both")
    page = (watch_port or 0) if watch else None
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("slidejoin").setLevel(log_level.upper())
    console = Console(stderr=output == "-", quiet=quiet)
    summary: Summary
    with one_line(), _ended():
        job = make_job(
            left,
            right,
            on=on,
            window=window,
            output=output,
            how=how,
            suffixes=side_pair("--suffixes", suffixes, ",_right", single=False),
            format_=format_,
            output_format=output_format,
            columns=columns,
            merge_by=merge_by,
            sort_by=sort_by,
            overwrite=overwrite,
        )
        if explain:
            typer.echo(repr(explain_job(job)))
            return
        if engine is Backend.embedded:
            every = SNAPSHOT_SECONDS if snapshot_every is None else seconds_of(snapshot_every)
            summary = run_embedded(job, console, resume=resume, snapshot_every=every, watch_port=page)
        else:
            summary = run_spark(job, console, partitions, stream, files_per_batch, page)
    summary.print(console)
    if fail_on_late and summary.late_rows:
        fail(
            f"{summary.late_rows:,} rows were late (--fail-on-late); the result is complete without them",
            LATE,
        )


@contextmanager
def _ended() -> Iterator[None]:
    """End with an exit code, if a user or the reader of standard output ends the run."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python flushes at its end
        raise typer.Exit(1) from None
    except Interrupted as interrupted:
        fail(str(interrupted), INTERRUPTED)
    except KeyboardInterrupt:
        fail("interrupted; there is no complete result", INTERRUPTED)
