"""Draws figures and runs of the simulator into files."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from slidejoin.cluster.figures import Figure, Panel
from slidejoin.cluster.result import SimulationResult
from slidejoin.errors import UsageError

COLORS = ("#1f6fb4", "#d1495b", "#e59500", "#3a8f5c", "#6b4c9a", "#444444")


def save_figure(file: str | Path, figure: Figure) -> None:
    """Draw a figure into a file; its ending decides the format."""
    _save(file, figure.title, [(panel, "") for panel in figure.panels])


def save_sheet(file: str | Path, figures: Sequence[Figure]) -> None:
    """Draw several figures into one file."""
    titles = [f"{each.name}: {each.title}" for each in figures for _ in each.panels]
    panels = [panel for each in figures for panel in each.panels]
    _save(file, "", list(zip(panels, titles, strict=True)))


def save_run(file: str | Path, result: SimulationResult) -> None:
    """Draw a run over time: delay, tuples that wait, nodes that take part, moves."""
    timeline = result.timeline
    x = timeline["time"]
    panels = [
        Panel("", "average delay, s", x, {"delay": timeline["delay"]}),
        Panel(
            "",
            "tuples",
            x,
            {"wait at nodes": timeline["queued"], "wait at the master": timeline["at_master"]},
        ),
        Panel("time, s", "nodes", x, {"take part": timeline["active"]}),
        Panel("time, s", "groups moved", x, {"so far": timeline["moves"]}),
    ]
    settings = result.settings
    title = (
        f"{settings.nodes:,} nodes, {settings.rate:,g} tuples/s of each stream, {settings.window:g} s windows"
    )
    _save(file, title, [(panel, "") for panel in panels])


def _save(file: str | Path, title: str, panels: Sequence[tuple[Panel, str]]) -> None:
    figure, grid = _subplots(len(panels))
    figure.suptitle(title, fontsize="medium")
    for axes, (panel, heading) in zip(grid, panels, strict=True):
        marks = {"marker": "o", "markersize": 3} if len(panel.x) < 30 else {}
        for number, (label, values) in enumerate(panel.series.items()):
            style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "label": label}
            axes.plot(panel.x, values, **style, **marks)
        axes.set_title("\n".join(wrap(heading, 48)), fontsize="small")
        axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.log_x:
            axes.set_xscale("log")
        if panel.log_y and any((values > 0).any() for values in panel.series.values()):
            _set_log(axes)
        else:
            axes.set_ylim(bottom=0, top=_top(panel))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small")
    try:
        figure.savefig(file)
    except ValueError as error:
        raise UsageError(f"{file} cannot be drawn: {error}") from None


def _set_log(axes: Any) -> None:
    """A logarithmic axis with plain numbers, also between the powers of ten where there are few of these."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    if high / low < 30:
        axes.yaxis.set_minor_formatter("{x:g}")


def _top(panel: Panel) -> float | None:
    values = np.concatenate([each[np.isfinite(each)] for each in panel.series.values()])
    return None if len(values) and values.max() > 0 else 1.0


def _subplots(count: int) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes in a list."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ModuleNotFoundError as error:
        raise UsageError(f"plots need {error.name}: pip install 'slidejoin[plot]'") from None
    columns = min(count, 2)
    rows = -(-count // columns)
    canvas = Canvas(figsize=(4.8 * columns, 3.1 * rows), dpi=64 if count > 4 else 80, layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.remove()
    return canvas, grid[:count]
