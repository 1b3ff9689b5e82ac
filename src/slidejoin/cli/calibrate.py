"""``slidejoin model calibrate``: measures what joins cost on this machine and stores it."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from slidejoin.calibration import calibrate as measure
from slidejoin.calibration.indexes import Effort
from slidejoin.cli.failure import one_line
from slidejoin.model import Costs
from slidejoin.model.cost_file import check_place

_WINDOW, _BATCH = 2**17, 1024  # of the printed costs
_UNSURE = 0.1  # a spread from which on a figure is doubtful


def calibrate(
    output: Annotated[
        Path | None, typer.Option(help="File for the costs.", show_default="that of this machine")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Time to take, about; with less, large windows are extrapolated.")
    ] = 50,
    spark: Annotated[
        bool, typer.Option("--spark", help="Measure Spark's micro-batches, too: a minute more.")
    ] = False,
) -> None:
    """Measure what each index costs on this machine, for `plan` and index="auto"."""
    console = Console()
    with one_line():
        check_place(output)
        with Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
            console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=1.0)
            costs = measure(
                seconds, spark, lambda what, share: bar.update(task, description=what, completed=share)
            )
        where = costs.save(output)
    _print(console, costs)
    how = "" if output is None else "; plan reads it with --costs, joins where SLIDEJOIN_CALIBRATION names it"
    console.print(f"written to {where}{how}", markup=False, soft_wrap=True)


def _print(console: Console, costs: Costs) -> None:
    table = Table(title=f"nanoseconds an arrival, windows of {_WINDOW:,}, pushes of {_BATCH:,}")
    for heading in ("index", "search", "insert", "merge", "2 matches", "200 matches", "spread"):
        table.add_column(heading, justify="left" if heading == "index" else "right")
    for index in costs.indexes:
        few, many = (costs.arrival(index, window=_WINDOW, matches=each, batch=_BATCH) for each in (2, 200))
        figures = (few.search, few.insert, few.merge, few.total, many.total)
        spread = costs.index_costs[index].spread
        table.add_row(index, *(f"{1e9 * each:,.0f}" for each in figures), f"{spread:.0%}")
    console.print(table)
    workers = max(costs.speedups)
    calls = f"{1e6 * costs.push:.2f} µs, of WindowJoin.push {1e6 * costs.window_push:.0f} µs"
    lines = {
        "calls": f"a call of push {calls}",
        "listing": f"a match that is listed {1e9 * costs.beta:.1f} ns",
        "window_row": f"a row of WindowJoin {1e9 * costs.window_row:.0f} ns more",
        "speedups": f"{workers} workers {costs.speedups[workers]:.2f} times as fast as one",
    }
    if costs.spark is not None and "spark_from" not in costs.machine:
        row = f"a row {1e6 * costs.spark.row:.2f} µs"
        lines["spark"] = f"a micro-batch of Spark {costs.spark.floor:.2f} s, {row}"
    for name, line in lines.items():
        console.print(f"{line} (± {costs.spread[name]:.0%})", markup=False, highlight=False)
    spreads = {name: each.spread for name, each in costs.index_costs.items()}
    spreads |= {name: costs.spread[name] for name in lines}
    largest = costs.largest_window
    if largest < Effort().windows[-1]:
        console.print(
            f"windows of more than {largest:,} rows were not measured in this time: their costs are "
            "extrapolated and may be far off; give more --seconds",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    unsure = [name for name, spread in spreads.items() if spread > _UNSURE]
    if unsure:
        console.print(
            f"unsure (spread above {_UNSURE:.0%}): {', '.join(unsure)}; other programs may have disturbed "
            "them, measure again when the machine is quiet",
            markup=False,
        )
