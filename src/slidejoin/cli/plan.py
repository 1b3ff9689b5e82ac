"""``slidejoin plan``: how to run a join before it is deployed, and what breaks first."""

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.console import Console

from slidejoin.cli.failure import fail, one_line
from slidejoin.errors import SpecError
from slidejoin.model import Costs
from slidejoin.plan import JoinPlan, plan_join
from slidejoin.run.files import open_input
from slidejoin.run.text import EXAMPLES, parse_condition, parse_window

SAMPLE_ROWS = 100_000
TRACE_ROWS = 10_000_000


def plan(
    window: Annotated[
        str, typer.Option(help=f"Window: rows(1_000_000), within('30s'), {EXAMPLES['window']}")
    ],
    left_rate: Annotated[float | None, typer.Option(min=0, help="Left rows a second.")] = None,
    right_rate: Annotated[
        float | None, typer.Option(min=0, help="Right rows a second.", show_default="as the left rate")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Rates that change: CSV or Parquet with columns left and right.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds of a row of --trace.")] = 1.0,
    selectivity: Annotated[float | None, typer.Option(help="Share of the pairs that match.")] = None,
    matches: Annotated[float | None, typer.Option(help="Or: matches of a row in full windows.")] = None,
    sample_left: Annotated[
        str | None, typer.Option(help="Or: files with left rows, to measure it by, with --on.")
    ] = None,
    sample_right: Annotated[str | None, typer.Option(help="Files with right rows.")] = None,
    on: Annotated[str | None, typer.Option(help=f"Condition of the samples: {EXAMPLES['condition']}")] = None,
    latency: Annotated[str, typer.Option(help="What one row in a hundred may exceed.")] = "1s",
    memory: Annotated[
        str | None, typer.Option(help="Most memory, such as 2GB.", show_default="no limit")
    ] = None,
    headroom: Annotated[float, typer.Option(help="How many times the load it must bear.")] = 1.5,
    engine: Annotated[str, typer.Option(help="embedded, spark or any.")] = "embedded",
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Most workers or partitions.", show_default="of this machine"),
    ] = None,
    index: Annotated[str | None, typer.Option(help="If decided.", show_default="all")] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Rows of a push, if decided.", show_default="1 to 262144"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of a join, if decided.", show_default="up to --cores"),
    ] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Rows of all sources are joined in the order of time.")
    ] = False,
    sources: Annotated[
        str | None,
        typer.Option(help="With --ordered: sources of each side, left,right.", show_default="1,1"),
    ] = None,
    row_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a stored row.")] = 32,
    costs: Annotated[
        Path | None,
        typer.Option(help="From `slidejoin model calibrate`.", show_default="this machine's"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Choose index, batch size and workers for a join, and predict throughput, latency and memory.

    Ends with exit code 2 where no setting holds all targets.
    """
    with one_line():
        chosen = _chosen(
            window, left_rate, right_rate, trace, interval, selectivity, matches,
            (sample_left, sample_right), on, latency, memory, headroom, engine, cores, index, batch,
            row_bytes, costs, workers, ordered, sources,
        )  # fmt: skip
    if json:
        typer.echo(json_text.dumps(chosen.to_json(), indent=1))
    else:
        Console().print(repr(chosen), markup=False, highlight=False, soft_wrap=True)
    if not chosen.holds:
        raise typer.Exit(2)


def _chosen(
    window: str, left_rate: float | None, right_rate: float | None, trace: Path | None, interval: float,
    selectivity: float | None, matches: float | None, samples: tuple[str | None, str | None], on: str | None,
    latency: str, memory: str | None, headroom: float, engine: str, cores: int | None, index: str | None,
    batch: int | None, row_bytes: int, costs: Path | None, workers: int | None, ordered: bool,
    sources: str | None,
) -> JoinPlan:  # fmt: skip
    if (left_rate is None) == (trace is None):
        fail("give the rates either by --left-rate (and --right-rate) or by --trace, not both or none")
    if trace is not None and right_rate is not None:
        fail("--right-rate goes with --left-rate; a --trace has both columns")
    if (samples[0] is None) != (samples[1] is None):
        fail("give both --sample-left and --sample-right")
    if sum(each is not None for each in (selectivity, matches, samples[0])) != 1:
        fail("give one of --selectivity, --matches, or --sample-left and --sample-right with --on")
    if sources is not None and not ordered:
        fail("--sources is for --ordered; give both or leave it out")
    rates: tuple[Any, Any] = (left_rate, right_rate) if trace is None else _trace(trace)
    left, right = samples
    return plan_join(
        parse_window(window), *rates, interval=interval, selectivity=selectivity, matches=matches,
        sample=None if left is None or right is None else (_sample(left), _sample(right)),
        on=None if on is None else parse_condition(on),
        latency=latency, memory=memory, headroom=headroom, engine=engine, cores=cores, index=index,
        batch=batch, workers=workers, ordered=ordered, sources=_sources(sources),
        row_bytes=row_bytes, costs=None if costs is None else Costs.load(costs),
    )  # fmt: skip


def _sources(given: str | None) -> tuple[int, int]:
    parts = ("1,1" if given is None else given).split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise SpecError(
            f"--sources {given!r}; expected two whole numbers above 0, left and right, such as 3,2"
        )
    return int(parts[0]), int(parts[1])


def _sample(path: str) -> pa.Table:
    return open_input(path).head(SAMPLE_ROWS)


def _trace(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    table = open_input(str(path)).head(TRACE_ROWS)
    missing = [name for name in ("left", "right") if name not in table.column_names]
    if missing:
        raise SpecError(f"{path} has the columns {', '.join(table.column_names)}; expected left and right")
    return table["left"].to_numpy(), table["right"].to_numpy()
