"""The commands of ``slidejoin``: each checks its options, calls one function and prints."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import slidejoin
from slidejoin.cli import model
from slidejoin.cli.engine import Backend, only_for
from slidejoin.cli.failure import fail, one_line
from slidejoin.cli.plan import plan
from slidejoin.cli.run import run
from slidejoin.cli.simulate import simulate
from slidejoin.demo.embedded import job as embedded_demo
from slidejoin.demo.embedded import streams
from slidejoin.demo.spark import feed
from slidejoin.demo.spark import job as spark_demo

app = typer.Typer(
    help="Sliding-window stream joins on any ordered predicate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(model.app, name="model")
app.command()(run)
app.command()(plan)
app.command()(simulate)


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
    watch: Annotated[bool, typer.Option("--watch", help="Spark: serve a live page on this machine.")] = False,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Embedded: rows kept of each side.", show_default=f"{streams.WINDOW:,}"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Embedded: rows of one push.", show_default=f"{streams.BATCH:,}")
    ] = None,
) -> None:
    """Join generated trades and quotes by price, and check the result."""
    only_for(
        engine, Backend.spark, batches=batches, partitions=partitions, output=output, watch=watch or None
    )
    only_for(engine, Backend.embedded, window=window, batch=batch)
    given = {"rows": rows, "band": band, "batches": batches, "window": window, "batch": batch}
    sizes = {name: size for name, size in given.items() if size is not None}
    console = Console()
    summary: spark_demo.Summary | embedded_demo.Summary
    with one_line():
        if engine is Backend.spark:
            summary = spark_demo.run(
                feed.Setup(**sizes, seed=seed), console, output, partitions, 0 if watch else None
            )
        else:
            summary = embedded_demo.run(streams.Setup(**sizes, seed=seed), console)
    summary.print(console)
    if summary.failure:
        fail(f"the result is WRONG: {summary.failure}")
