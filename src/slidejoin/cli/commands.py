"""The commands of ``slidejoin``: each checks its options, calls one function and prints."""

from pathlib import Path
from typing import Annotated, Never

import typer
from rich.console import Console
from rich.table import Table

import slidejoin
from slidejoin.bench import BENCHMARKS
from slidejoin.demo import job, streams
from slidejoin.errors import Error

app = typer.Typer(
    help="Sliding-window stream joins on any ordered predicate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _fail(message: str) -> Never:
    Console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


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
    rows: Annotated[int, typer.Option(min=1, help="Rows of both streams together.")] = streams.ROWS,
    window: Annotated[int, typer.Option(min=1, help="Rows kept of each side.")] = streams.WINDOW,
    band: Annotated[int, typer.Option(min=0, help="Greatest price difference, in ticks.")] = streams.BAND,
    batch: Annotated[int, typer.Option(min=1, help="Rows of one push.")] = streams.BATCH,
    seed: Annotated[int, typer.Option(min=0, help="Of the generated streams.")] = 1,
) -> None:
    """Join generated trades and quotes by price, and check the result."""
    try:
        summary = job.run(streams.Setup(rows, window, band, batch, seed), Console())
    except Error as error:
        _fail(str(error))
    summary.print(Console())
    if summary.failure:
        _fail(f"the result is WRONG: {summary.failure}")


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Benchmark; without one they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds, not to be cited.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
) -> None:
    """Run a benchmark."""
    console = Console()
    if name not in BENCHMARKS:
        table = Table("benchmark", "what it measures")
        for benchmark in BENCHMARKS.values():
            table.add_row(benchmark.name, benchmark.about)
        console.print(table)
        if name is not None:
            _fail(f"no benchmark {name!r}; choose one of the above")
        return
    try:
        with console.status(name) as status:
            report = BENCHMARKS[name].run(quick, status.update if console.is_terminal else typer.echo)
    except Error as error:
        _fail(str(error))
    report.print(console)
    if json:
        report.write(json)
        console.print(f"written to {json}", markup=False)
