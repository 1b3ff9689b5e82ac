"""``python -m benchmarks``: lists the benchmarks, or runs one and prints what it found."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import BENCHMARKS
from slidejoin.errors import Error


def _fail(message: str) -> None:
    Console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def main(
    name: Annotated[str | None, typer.Argument(help="Benchmark; without one they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds, not to be cited.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the figures, if it has any, to this folder.")
    ] = None,
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
        return
    report.print(console)
    if json:
        report.write(json)
        console.print(f"written to {json}", markup=False)
    try:
        drawn = report.draw(plot) if plot else []
    except Error as error:
        _fail(str(error))
        return
    for path in drawn:
        console.print(f"written to {path}", markup=False)


if __name__ == "__main__":
    typer.run(main)
