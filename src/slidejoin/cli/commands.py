"""The commands of ``slidejoin``: each checks its options, calls one function and prints."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import slidejoin
from slidejoin.cli import model
from slidejoin.cli.failure import fail, one_line
from slidejoin.cli.plan import plan
from slidejoin.demo.embedded import job as embedded_demo
from slidejoin.demo.embedded import streams
from slidejoin.demo.spark import feed
from slidejoin.demo.spark import job as spark_demo
from slidejoin.errors import SpecError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.run.embedded import run as run_embedded
from slidejoin.run.job import make_job
from slidejoin.run.spark import run as run_spark
from slidejoin.run.text import EXAMPLES

app = typer.Typer(
    help="Sliding-window stream joins on any ordered predicate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(model.app, name="model")
app.command()(plan)


class Backend(StrEnum):
    """Where a join runs."""

    embedded = "embedded"
    spark = "spark"


def _only_for(engine: Backend, wanted: Backend, **given: object) -> None:
    for name, value in given.items():
        if value is not None and engine is not wanted:
            fail(f"--{name.replace('_', '-')} is for --engine {wanted}; leave it out or change the engine")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slidejoin {slidejoin.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Sliding-window stream joins on any ordered predicate."""


@app.command()
def run(
    left: Annotated[str, typer.Argument(help="File, directory or glob of Parquet, CSV or JSON lines.")],
    right: Annotated[str, typer.Argument(help="The same for the right side.")],
    on: Annotated[str, typer.Option(help=f"Condition: {EXAMPLES['condition']}")],
    window: Annotated[str, typer.Option(help=f"Window: {EXAMPLES['window']}")],
    output: Annotated[Path, typer.Option(help="Directory for the result, in Parquet files.")],
    how: Annotated[str, typer.Option(help=f"One of {', '.join(JOIN_TYPES)}.")] = "inner",
    engine: Annotated[Backend, typer.Option(help="In this process, or on local Spark.")] = Backend.embedded,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in --output.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or json.", show_default="as the names tell")
    ] = None,
    suffixes: Annotated[str, typer.Option(help="For names that both sides have: left,right.")] = ",_right",
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Spark: tasks side by side.", show_default="one for each core"),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Spark: read files as streams, with a checkpoint.")
    ] = False,
    files_per_batch: Annotated[
        int | None,
        typer.Option(min=1, help="Spark, --stream: files of a side in one micro-batch.", show_default="all"),
    ] = None,
) -> None:
    """Join two sets of files into a directory of Parquet files."""
    _only_for(
        engine, Backend.spark, partitions=partitions, stream=stream or None, files_per_batch=files_per_batch
    )
    if files_per_batch is not None and not stream:
        fail("--files-per-batch is for --stream; give both")
    console = Console()
    with one_line():
        pair = suffixes.split(",")
        if len(pair) != 2:
            raise SpecError(f"--suffixes {suffixes!r}; expected two texts with a comma between: ,_right")
        job = make_job(
            left,
            right,
            on=on,
            window=window,
            output=output,
            how=how,
            suffixes=(pair[0], pair[1]),
            format_=format_,
            overwrite=overwrite,
        )
        if engine is Backend.embedded:
            summary = run_embedded(job, console)
        else:
            summary = run_spark(job, console, partitions, stream, files_per_batch)
    summary.print(console)


@app.command()
def demo(
    engine: Annotated[Backend, typer.Option(help="On local Spark, or in this process.")] = Backend.spark,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows of both streams together.",
            show_default=f"{feed.ROWS:,}; embedded {streams.ROWS:,}",
        ),
    ] = None,
    band: Annotated[
        int | None,
        typer.Option(
            min=0, help="Greatest price difference.", show_default=f"{feed.BAND}; embedded {streams.BAND}"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the generated streams.")] = 1,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Spark: files of each side.", show_default=f"{feed.BATCHES}")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Spark: tasks side by side.", show_default="one for each core"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Spark: directory for the result.", show_default="a temporary one")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Embedded: rows kept of each side.", show_default=f"{streams.WINDOW:,}"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Embedded: rows of one push.", show_default=f"{streams.BATCH:,}")
    ] = None,
) -> None:
    """Join generated trades and quotes by price, and check the result."""
    _only_for(engine, Backend.spark, batches=batches, partitions=partitions, output=output)
    _only_for(engine, Backend.embedded, window=window, batch=batch)
    given = {"rows": rows, "band": band, "batches": batches, "window": window, "batch": batch}
    sizes = {name: size for name, size in given.items() if size is not None}
    console = Console()
    summary: spark_demo.Summary | embedded_demo.Summary
    with one_line():
        if engine is Backend.spark:
            summary = spark_demo.run(feed.Setup(**sizes, seed=seed), console, output, partitions)
        else:
            summary = embedded_demo.run(streams.Setup(**sizes, seed=seed), console)
    summary.print(console)
    if summary.failure:
        fail(f"the result is WRONG: {summary.failure}")
