"""``slidejoin simulate``: a join on a shared-nothing cluster, before there is one."""

import json as json_text
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from slidejoin.cli.failure import fail, one_line
from slidejoin.cluster.costs import ClusterCosts
from slidejoin.cluster.figures import FIGURES, Bench, Figure
from slidejoin.cluster.figures import figure as run_figure
from slidejoin.cluster.plot import save_figure, save_run
from slidejoin.cluster.result import SimulationResult
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.simulation import simulate as run_simulation
from slidejoin.errors import SpecError
from slidejoin.window import parse_duration

_LISTED = 16  # nodes that are printed one by one
_REMEDIES = {
    "nodes": "add nodes, or lower the rate or the window",
    "one group": "no move helps: a group has one owner. More --groups help, unless it is one hot key",
    "master": "share the distribution (--masters), or make --epoch longer",
    "network": "share the distribution (--masters), or use a faster network",
}


def simulate(
    rate: Annotated[float, typer.Option(help="Tuples a second of each stream.")] = 1500.0,
    nodes: Annotated[int, typer.Option(help="Nodes, besides the master.")] = 4,
    window: Annotated[str, typer.Option(help="Length of each window: 10min, 30s.")] = "10min",
    minutes: Annotated[
        float | None, typer.Option(help="Simulated minutes.", show_default="two windows")
    ] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Minutes before figures count.", show_default="one window")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(help="Partition-groups.", show_default="60, and 10 a node at least")
    ] = None,
    skew: Annotated[float, typer.Option(help="b of the b-model of keys; 0.5 is uniform.")] = 0.7,
    keys: Annotated[int, typer.Option(help="Keys are 0 to this number.")] = 10_000_000,
    hot_share: Annotated[float, typer.Option(help="Share of one hot key besides.")] = 0.0,
    hot_period: Annotated[str, typer.Option(help="Until another key is hot.")] = "5min",
    epoch: Annotated[float, typer.Option(help="Seconds between two messages to a node.")] = 2.0,
    reorganise: Annotated[float, typer.Option(help="Seconds between two balancings.")] = 20.0,
    slots: Annotated[int, typer.Option(help="Sub-groups of nodes that are served in turn.")] = 1,
    fixed_order: Annotated[
        bool, typer.Option("--fixed-order", help="Nodes work until it is their turn.")
    ] = False,
    masters: Annotated[int, typer.Option(help="Machines that share the distribution.")] = 1,
    tuning: Annotated[bool, typer.Option(help="Split large partition-groups at the nodes.")] = True,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Let the number of active nodes follow the load.")
    ] = False,
    choice: Annotated[str, typer.Option(help="Which group moves: load or random.")] = "load",
    moves: Annotated[str, typer.Option(help="State moves by network or shared files.")] = "network",
    speeds: Annotated[
        str | None, typer.Option(help="Speeds of the nodes: 1,1,0.5; repeated for more.", show_default="1")
    ] = None,
    background: Annotated[
        list[str] | None, typer.Option(help="Other programs take a share: SECONDS:NODE:SHARE. Repeatable.")
    ] = None,
    fails: Annotated[list[str] | None, typer.Option(help="A node fails: SECONDS:NODE. Repeatable.")] = None,
    joins: Annotated[
        list[str] | None, typer.Option(help="A node is there only from then on: SECONDS:NODE. Repeatable.")
    ] = None,
    costs: Annotated[
        str, typer.Option(help="paper (930 MHz, Java), core (its nested loop), or an index of the core.")
    ] = "paper",
    detail: Annotated[
        str, typer.Option(help="tuples: each one; counts: their numbers; auto: up to 50 million, each.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 1,
    figure: Annotated[
        str | None,
        typer.Option(
            help=f"Run a figure instead: {', '.join(FIGURES)}. Takes --seed, --detail, --plot, --csv."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a plot: .png, .svg or .pdf.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="File for all epochs, or a figure's lines, as CSV.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate a windowed equi-join on a cluster: delay, load and communication of its nodes.

    Defaults are those of "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", slow machines
    of 930 MHz among them: --costs bucket-tree simulates today's core. Ends with exit code 2 where the cluster
    cannot keep up. To size a join in one process or on Spark, see slidejoin plan.
    """
    with one_line():
        if figure is not None:
            _figure(figure, seed, detail, plot, csv, json)
            return
        length = _seconds_of("window", window)
        settings = Settings(
            rate=rate, nodes=nodes, window=length,
            seconds=2 * length if minutes is None else 60 * minutes,
            warmup=length if warmup is None else 60 * warmup,
            groups=max(60, 10 * nodes) if groups is None else groups,
            skew=skew, keys=keys, hot_share=hot_share, hot_period=_seconds_of("hot-period", hot_period),
            distribution_epoch=epoch, reorganisation_epoch=reorganise, slots=slots, fixed_order=fixed_order,
            masters=masters, tuned=tuning, adaptive=adaptive, choice=choice, moves=moves,  # type: ignore[arg-type]
            speeds=(1.0,) if speeds is None else tuple(_numbers("--speeds", speeds, ",")),
            background=tuple(_event("--background", each, 3) for each in background or ()),
            failures=tuple(_event("--fails", each, 2) for each in fails or ()),
            arrivals=tuple(_event("--joins", each, 2) for each in joins or ()),
            costs=_costs(costs, rate * length / nodes if nodes > 0 else 1), detail=detail, seed=seed,  # type: ignore[arg-type]
        )  # fmt: skip
        with _progress("simulating") as tell:
            result = run_simulation(settings, lambda share: tell("simulating", share))
        if plot is not None:
            save_run(plot, result)
        if csv is not None:
            pa_csv.write_csv(pa.table(result.timeline), csv)
    if json:
        typer.echo(json_text.dumps(result.to_json(), indent=1))
    else:
        _print(Console(), result)
    if result.saturated is not None:
        if json:
            raise typer.Exit(2)
        what = {"one group": "one partition-group needs more than a node", "nodes": "nodes are overloaded"}
        reason = what.get(result.saturated, f"the {result.saturated} is saturated")
        fail(
            f"the cluster cannot keep up, delays grow without bound: {reason}; {_REMEDIES[result.saturated]}",
            2,
        )


def _costs(name: str, window: float) -> ClusterCosts:
    if name == "paper":
        return ClusterCosts.paper()
    return ClusterCosts.core(None if name == "core" else name, max(1, int(window)))


def _seconds_of(name: str, text: str) -> float:
    if re.fullmatch(r"[\d.]+", text):
        raise SpecError(f"--{name} {text} has no unit; write {text}s or {text}min")
    nanoseconds, _ = parse_duration(text)
    return float(nanoseconds) / 1e9


def _numbers(option: str, text: str, separator: str) -> list[float]:
    try:
        return [float(each) for each in text.split(separator)]
    except ValueError:
        raise SpecError(f"{option} {text}; expected numbers with {separator!r} between them") from None


def _event(option: str, text: str, parts: int) -> Any:
    numbers = _numbers(option, text, ":")
    if len(numbers) != parts or numbers[1] != int(numbers[1]):
        form = "SECONDS:NODE:SHARE, such as 700:0:0.5" if parts == 3 else "SECONDS:NODE, such as 700:0"
        raise SpecError(f"{option} {text}; expected {form}")
    return (numbers[0], int(numbers[1]), *numbers[2:])


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str, float], None]]:
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)


def _figure(name: str, seed: int, detail: str, plot: Path | None, csv: Path | None, json: bool) -> None:
    known = ("counts", "tuples", "auto")
    if detail not in known:
        raise SpecError(f"detail {detail!r}; expected tuples or counts or auto")
    with _progress(f"figure {name}") as tell:
        bench = Bench(seed=seed, detail="counts" if detail == "auto" else detail, progress=tell)  # type: ignore[arg-type]
        found = run_figure(name, bench)
    if plot is not None:
        save_figure(plot, found)
    if csv is not None:
        pa_csv.write_csv(_lines(found), csv)
    if json:
        typer.echo(json_text.dumps(_lines(found).to_pylist(), indent=1))
    else:
        _print_figure(Console(), found)


def _lines(figure: Figure) -> pa.Table:
    """A figure as rows: panel, line, x, y."""
    rows = [
        {"panel": panel.y_label, "line": label, "x": float(x), "y": None if np.isnan(y) else float(y)}
        for panel in figure.panels
        for label, values in panel.series.items()
        for x, y in zip(panel.x, values, strict=True)
    ]
    return pa.Table.from_pylist(rows)


def _print_figure(console: Console, figure: Figure) -> None:
    console.print(f"Figure {figure.name}: {figure.title}", markup=False)
    for panel in figure.panels:
        table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, title=panel.y_label)
        for heading in (panel.x_label, *panel.series):
            table.add_column(heading, justify="right")
        step = max(1, len(panel.x) // 20)
        for at in range(0, len(panel.x), step):
            values = [f"{line[at]:.4g}" for line in panel.series.values()]
            table.add_row(f"{panel.x[at]:,g}", *values)
        console.print(table)


def _print(console: Console, result: SimulationResult) -> None:
    settings = result.settings
    form = "each tuple" if settings.simulates_tuples else "numbers of tuples"
    console.print(
        f"{settings.nodes:,} node{'s' * (settings.nodes > 1)}, {settings.groups:,} partition-groups, "
        f"{settings.rate:,g} tuples/s of each stream, windows of {settings.window:g} s; "
        f"{settings.seconds:g} s simulated by {form}, figures from {settings.warmup:g} s on",
        soft_wrap=True,
    )
    _print_nodes(console, result)
    delay = (
        "no results" if np.isnan(result.delay) else f"{result.delay:.3g} s, at most {result.most_delay:.3g} s"
    )
    console.print(f"production delay   {delay}")
    measured = settings.seconds - settings.warmup
    console.print(f"results            {result.outputs:,.0f}, {result.outputs / measured:,.0f} a second")
    console.print(
        f"master             busy {result.master_busy:.1%}, up to {result.peak_buffer:,.0f} tuples of a "
        "stream wait"
    )
    console.print(f"heaviest group     {result.group_load:.1%} of a node")
    console.print(f"largest windows    {result.window_bytes / 1e6:,.3g} MB of a node")
    active = f", {result.mean_active:.3g} nodes active on average" if settings.adaptive else ""
    console.print(f"moves              {result.moves} groups, {result.moved_tuples:,.0f} tuples{active}")
    if result.tuples["lost"]:
        console.print(f"lost with nodes    {result.tuples['lost']:,.0f} tuples")


def _print_nodes(console: Console, result: SimulationResult) -> None:
    """The shares of each node's time, or the least, mean and greatest of many nodes."""
    took_part = result.present > 0
    columns = ("work", "messages", "moves", "idle")
    parts = np.stack([result.cpu, result.communication, result.moving, result.idle])
    shares = np.divide(parts, result.present, out=np.zeros_like(parts), where=took_part)
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("node", justify="right")
    for heading in columns:
        table.add_column(heading, justify="right")
    if len(took_part) <= _LISTED:
        for node in np.flatnonzero(took_part):
            table.add_row(str(node), *(f"{share:.1%}" for share in shares[:, node]))
    else:
        chosen = shares[:, took_part]
        for name, read in (("least", np.min), ("mean", np.mean), ("greatest", np.max)):
            table.add_row(name, *(f"{each:.1%}" for each in read(chosen, axis=1)))
    console.print(table)
