"""``slidejoin model``: what a join would do at given rates, without running it."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slidejoin.cli.calibrate import calibrate
from slidejoin.cli.failure import one_line
from slidejoin.errors import SpecError
from slidejoin.model import Costs, IndexCost, JoinModel, ModelTable
from slidejoin.model.plot import save_plot
from slidejoin.model.rates import trace as paper_trace
from slidejoin.run.files import open_input
from slidejoin.run.text import parse_window

app = typer.Typer(
    help="The performance of a join before it runs.", no_args_is_help=True, pretty_exceptions_enable=False
)

app.command()(calibrate)

Rates = NDArray[np.float64]
_SPANS = 15  # rows of the printed table


@app.callback()
def options() -> None:
    """The performance of a join before it runs."""


@app.command()
def run(
    window: Annotated[str, typer.Option(help="Window: within('60s') or rows(8400).")],
    selectivity: Annotated[float, typer.Option(help="Matches for each comparison, above 0 and up to 1.")],
    left: Annotated[float | None, typer.Option(help="Left tuples a second, constant.")] = None,
    right: Annotated[float | None, typer.Option(help="Right tuples a second, constant.")] = None,
    rates: Annotated[
        str | None,
        typer.Option(help="CSV or Parquet file with columns left and right, or left_0, …, right_0, …"),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Rates of the paper's experiments: parts of ABCDE, such as AB.")
    ] = None,
    intervals: Annotated[
        int | None,
        typer.Option(
            min=1, help="Intervals of constant rates, or of each part of --trace.", show_default="300"
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Seconds of a comparison.", show_default="as calibrated")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Seconds of the output of a match.", show_default="as calibrated")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(help="Model an index by its calibrated costs.", show_default="the nested loop"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="With --index: arrivals of a push.", show_default="1")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds of an interval.")] = 1.0,
    quota: Annotated[float, typer.Option(help="The part of its time in which a unit may work.")] = 1.0,
    units: Annotated[int, typer.Option(help="Processing units.")] = 1,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Tuples wait until they can be joined in order.")
    ] = False,
    left_streams: Annotated[
        int | None,
        typer.Option(help="Physical streams of the left side.", show_default="as in --rates, or 1"),
    ] = None,
    right_streams: Annotated[
        int | None, typer.Option(help="The same for the right side.", show_default="as in --rates, or 1")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="File for all intervals, as CSV; - is the output.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a plot: .png, .svg or .pdf.")] = None,
) -> None:
    """Print throughput and latency of a join by interval, from rates, window and costs."""
    with one_line():
        left_rates, right_rates = _rates(left, right, rates, trace, intervals)
        cost, is_shipped = _cost(alpha, beta, index, batch)
        model = JoinModel(
            parse_window(window),
            **cost,
            selectivity=selectivity,
            quota=quota,
            units=units,
            deterministic=deterministic,
            left_streams=_streams(left_rates) if left_streams is None else left_streams,
            right_streams=_streams(right_rates) if right_streams is None else right_streams,
            interval=interval,
        )
        table = model.run(left_rates, right_rates)
        totals = [side if side.ndim == 1 else side.sum(axis=1) for side in (left_rates, right_rates)]
        if csv is not None:
            _write_csv(csv, table, *totals)
        if plot is not None:
            save_plot(plot, table, *totals, interval=interval)
    if csv is None or str(csv) != "-":
        _print(Console(), model, table, *totals)
        if is_shipped:
            typer.echo("by shipped costs, not those of this machine; measure them: slidejoin model calibrate")


def _cost(
    alpha: float | None, beta: float | None, index: str | None, batch: int | None
) -> tuple[dict[str, Any], bool]:
    """The costs of a model, and whether they are those of another machine."""
    if index is None:
        if batch is not None:
            raise SpecError("--batch is for --index; give both or leave it out")
        if alpha is not None and beta is not None:
            return {"alpha": alpha, "beta": beta}, False
        costs = Costs.load()
        nested = {
            "alpha": costs.alpha if alpha is None else alpha,
            "beta": costs.beta if beta is None else beta,
        }
        return nested, not costs.measured
    if alpha is not None or beta is not None:
        raise SpecError("--alpha and --beta are costs of the nested loop; give them or --index")
    costs = Costs.load()
    return {"cost": IndexCost(index, costs, batch or 1)}, not costs.measured


def _rates(
    left: float | None, right: float | None, file: str | None, parts: str | None, intervals: int | None
) -> tuple[Rates, Rates]:
    constant = left is not None or right is not None
    if constant + (file is not None) + (parts is not None) != 1:
        raise SpecError("rates come from --left and --right, from --rates or from --trace; give one of them")
    if file is not None:
        if intervals is not None:
            raise SpecError("--intervals is not for --rates, which has a row for each interval")
        return _read_rates(file)
    if parts is not None:
        return paper_trace(parts, intervals or 300)
    if left is None or right is None:
        raise SpecError("--left and --right belong together; give both")
    return np.full(intervals or 300, left), np.full(intervals or 300, right)


def _read_rates(path: str) -> tuple[Rates, Rates]:
    """Rates of both sides from a file, by interval and stream if columns are numbered."""
    found = open_input(path)
    table = pa.concat_tables([found.schema.empty_table(), *found.batches(1 << 16)])
    if not table.num_rows:
        raise SpecError(f"{path} has no rows; expected one for each interval")
    sides = []
    for side in ("left", "right"):
        names = [side] if side in table.column_names else _numbered(side, table.column_names)
        if not names:
            have = ", ".join(table.column_names)
            raise SpecError(f"{path} has columns {have}; expected {side}, or {side}_0, {side}_1, …")
        try:
            columns = [table[name].cast(pa.float64()).to_numpy() for name in names]
        except pa.ArrowException:
            raise SpecError(f"{path} has a column of {side} rates that are not numbers") from None
        sides.append(columns[0] if names == [side] else np.stack(columns, axis=1))
    return sides[0], sides[1]


def _numbered(side: str, names: list[str]) -> list[str]:
    streams = [name for name in names if re.fullmatch(rf"{side}_\d+", name)]
    return sorted(streams, key=lambda name: int(name.removeprefix(f"{side}_")))


def _streams(rates: Rates) -> int:
    return 1 if rates.ndim == 1 else rates.shape[1]


def _write_csv(file: Path, table: ModelTable, left: Rates, right: Rates) -> None:
    rows = pa.table({"left": left, "right": right} | dict(table))
    pa_csv.write_csv(rows, sys.stdout.buffer if str(file) == "-" else file)


def _print(console: Console, model: JoinModel, table: ModelTable, left: Rates, right: Rates) -> None:
    """Means over spans of intervals, and what happened in all."""
    # An index finds the matches without the comparisons, which the model counts with.
    done_name, share = ("compared/s", 1.0) if model.cost is None else ("matches/s", model.selectivity)
    load = table["work"] / (model.quota * model.interval * model.units)
    spans = np.array_split(np.arange(table.intervals), min(_SPANS, table.intervals))
    columns = {
        "time": [f"{span[0] * model.interval:g} s" for span in spans],
        "left/s": [_number(left[span].mean()) for span in spans],
        "right/s": [_number(right[span].mean()) for span in spans],
        done_name: [_number(share * table["throughput"][span].mean() / model.interval) for span in spans],
        "load": [f"{100 * load[span].mean():.3g} %" for span in spans],
        "latency": [_seconds(table["latency"][span].mean()) for span in spans],
    }
    for part in ("in", "join", "out") if model.deterministic else ():
        columns[part] = [_seconds(table[f"latency_{part}"][span].mean()) for span in spans]
    shown = Table(
        title=f"{table.intervals:,} intervals of {model.interval:g} s, {model.window!r}",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for heading in columns:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        shown.add_row(*row)
    console.print(shown)
    done = table["throughput"].sum()
    worst = int(table["latency"].argmax())
    console.print(
        f"{_number(done) + ' comparisons, ' if model.cost is None else ''}"
        f"{_number(done * model.selectivity)} matches; "
        f"latency at most {_seconds(table['latency'][worst])}, at {worst * model.interval:g} s"
    )
    if (load > 1).any():
        waiting = max(0.0, 1 - done / table["comparisons"].sum())
        console.print(
            f"{(load > 1).sum():,} intervals bring more work than the quota allows; "
            f"{waiting:.2%} of the {'comparisons' if model.cost is None else 'matches'} still wait at the end"
        )


def _number(amount: float) -> str:
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if amount >= unit:
            return f"{amount / unit:.3g}{name}"
    return f"{amount:.3g}"


def _seconds(duration: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if duration >= unit:
            return f"{duration / unit:.3g} {name}"
    return f"{duration * 1e9:.3g} ns" if duration else "0"
