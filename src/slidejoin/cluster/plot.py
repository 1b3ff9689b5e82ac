"""Draws figures and runs of the simulator into files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slidejoin.cluster.figures import Figure, Panel
from slidejoin.cluster.result import SimulationResult
from slidejoin.errors import UsageError

COLORS = ("#1f6fb4", "#d1495b", "#e59500", "#3a8f5c", "#6b4c9a", "#444444")
MARKERS = "osD^v*"


def save_figure(file: str | Path, figure: Figure) -> None:
    """Draw a figure into a file; its ending decides the format."""
    _save(file, figure.title, figure.panels, marked=len(figure.panels[0].x) < 30)


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
    _save(file, title, panels, marked=False)


def _save(file: str | Path, title: str, panels: Sequence[Panel], marked: bool) -> None:
    figure, grid = _subplots(len(panels))
    figure.suptitle(title, fontsize="medium")
    for axes, panel in zip(grid, panels, strict=True):
        for number, (label, values) in enumerate(panel.series.items()):
            style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "label": label}
            if marked:
                style |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 4}
            axes.plot(panel.x, values, **style)
        axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.log_x:
            axes.set_xscale("log")
        if panel.log_y and any((values > 0).any() for values in panel.series.values()):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0, top=_top(panel))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small")
    try:
        figure.savefig(file)
    except ValueError as error:
        raise UsageError(f"{file} cannot be drawn: {error}") from None


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
    canvas = Canvas(figsize=(5.2 * columns, 3.4 * rows), dpi=80, layout="constrained")
    return canvas, canvas.subplots(rows, columns, squeeze=False).ravel()[:count]
