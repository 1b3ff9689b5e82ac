"""Plots of a model over time: rates, throughput, latency and its parts, with measured figures if given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slidejoin.errors import UsageError
from slidejoin.model.rational import Floats
from slidejoin.model.table import ModelTable

_LEFT, _RIGHT, _BOTH, _MEASURED = "#1f6fb4", "#d1495b", "#444444", "#e59500"
_LATENCIES = {"latency_in": "waits to be ready", "latency_join": "join", "latency_out": "waits to be merged"}


def save_plot(
    file: str | Path,
    table: ModelTable,
    left_rates: Floats,
    right_rates: Floats,
    *,
    interval: float = 1.0,
    measured: Mapping[str, Floats] | None = None,
) -> None:
    """Draw a run of the model into a file, such as a PNG or SVG.

    Parameters
    ----------
    file : path
        Its ending decides the format.
    table : ModelTable
        What :meth:`slidejoin.model.JoinModel.run` returned.
    left_rates, right_rates : array
        Tuples a second of each side, by interval, or by interval and stream.
    interval : float
        Seconds of an interval.
    measured : mapping, optional
        Measured ``throughput`` and ``latency`` by interval, drawn over those of the model.
    """
    measured = measured or {}
    figure, (rates, throughput, latency, parts) = _subplots()
    seconds = np.arange(table.intervals) * interval
    left, right = (np.atleast_2d(np.transpose(side)).sum(axis=0) for side in (left_rates, right_rates))
    sides = {"left": (left, _LEFT), "right": (right, _RIGHT), "both": (left + right, _BOTH)}
    for label, (values, color) in sides.items():
        rates.plot(seconds, values, label=label, color=color)
    throughput.plot(seconds, table["comparisons"] / interval, label="needed", color=_BOTH, linestyle=":")
    for axes, name, scale in ((throughput, "throughput", 1 / interval), (latency, "latency", 1e3)):
        if name in measured:
            axes.plot(seconds, np.asarray(measured[name]) * scale, label="measured", color=_MEASURED)
        axes.plot(seconds, table[name] * scale, label="model", color=_LEFT)
    for (name, label), color in zip(_LATENCIES.items(), (_LEFT, _BOTH, _RIGHT), strict=True):
        if table[name].any():
            parts.plot(seconds, table[name] * 1e3, label=label, color=color)
            parts.set_yscale("log")
    if table["latency"].max(initial=0.0) > 10 * np.median(table["latency"]) > 0:
        latency.set_yscale("log")
    else:
        latency.set_ylim(bottom=0)
    for axes in (rates, throughput):
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", scilimits=(-3, 5))
    names = ("tuples / s", "comparisons / s", "latency, ms", "its parts, ms")
    for axes, name in zip((rates, throughput, latency, parts), names, strict=True):
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    parts.set_xlabel("time, s")
    try:
        figure.savefig(file, bbox_inches="tight")
    except ValueError as error:
        raise UsageError(f"{file} cannot be drawn: {error}") from None


def _subplots() -> tuple[Any, Any]:
    """A figure that needs no display, and the axes of its four plots."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UsageError(f"plots need {error.name}: pip install 'slidejoin[plot]'") from None
    figure = Figure(figsize=(8, 8), dpi=80, layout="constrained")
    return figure, figure.subplots(4, sharex=True)
