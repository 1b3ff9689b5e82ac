"""The figures of the model's validation: measured, by the model, and boxes of the errors."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.model_replay import Comparison
from benchmarks.report import Figures
from slidejoin.errors import UsageError

MEASURED, MODEL = "#4878a8", "#c44e52"
UNITS = {"throughput": (1e-6, "million comparisons/s"), "latency": (1e3, "latency, ms")}


def figures(regular: Sequence[Comparison], overload: Sequence[Comparison]) -> Figures:
    """What draws each figure into a file, by the name of the file."""
    by_name: dict[str, list[Comparison]] = {}
    for each in regular:
        by_name.setdefault(each.experiment.name, []).append(each)
    central = next(iter(by_name.values()))
    drawn: dict[str, Callable[[Path], None]] = {
        "rates.svg": partial(_rates, central[0]),
        "throughput.svg": partial(_compared, [(central, "throughput")]),
        "latency.svg": partial(_compared, [(group, "latency") for group in by_name.values()]),
        "overload.svg": partial(_compared, [(overload, "throughput"), (overload, "latency")], log=True),
        "latency-parts.svg": partial(_parts, regular[-1]),
    }
    return {f"model-{name}": draw for name, draw in drawn.items()}


def _new(rows: int, columns: int, size: tuple[float, float], **how: Any) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("figures need matplotlib: install slidejoin[plot]") from error
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **how)


def _rates(central: Comparison, path: Path) -> None:
    figure, ((axes,),) = _new(1, 1, (9, 2.6))
    left, right = central.rates
    for rates, label in ((left, "R"), (right, "S"), (left + right, "R + S")):
        axes.step(np.arange(len(rates)), rates, where="post", label=label, linewidth=1)
    _label_parts(axes, len(left))
    axes.set(xlabel="seconds", ylabel="tuples/s", ylim=(0, None))
    axes.legend(loc="upper right", ncols=3, fontsize="small")
    figure.savefig(path)


def _label_parts(axes: Any, seconds: int) -> None:
    for number, name in enumerate("ABCDE"):
        axes.text((number + 0.5) * seconds / 5, 0.02, name, transform=axes.get_xaxis_transform(), ha="center")
        if number:
            axes.axvline(number * seconds / 5, color="0.8", linewidth=0.8)


def _compared(rows: Sequence[tuple[Sequence[Comparison], str]], path: Path, log: bool = False) -> None:
    """A row for each experiment: both windows, each with a box of its errors."""
    windows = len(rows[0][0])
    figure, axes = _new(len(rows), 2 * windows, (12, 2.4 * len(rows)), width_ratios=[6, 1] * windows)
    for number, (group, figure_name) in enumerate(rows):
        scale, label = UNITS[figure_name]
        for place, each in enumerate(group):
            lines, box = axes[number][2 * place : 2 * place + 2]
            for values, name, colour in zip(
                each.series(figure_name), ("measured", "model"), (MEASURED, MODEL), strict=True
            ):
                lines.plot(scale * values, label=name, color=colour, linewidth=1.2, alpha=0.8)
            lines.set_title(each.name, fontsize="medium")
            lines.set(xlabel="seconds", ylabel=label)
            if log and figure_name == "latency":
                lines.set_yscale("log")
            else:
                lines.set_ylim(0, None)
            lines.legend(fontsize="small")
            box.boxplot(each.errors(figure_name), widths=0.6, showfliers=False)
            box.set(xticks=[], ylabel="error, %", ylim=(0, None))
    figure.savefig(path)


def _parts(each: Comparison, path: Path) -> None:
    """The parts of the latency, measured and by the model."""
    figure, ((axes,),) = _new(1, 1, (9, 3.2))
    parts = (("waited", "latency_in"), ("joined", "latency_join"), ("merged", "latency_out"))
    for number, (part, column) in enumerate(parts):
        axes.plot(1e3 * each.latency(part), color=f"C{number}", linewidth=1.2, label=f"{part}, measured")
        axes.plot(
            1e3 * each.model[column], color=f"C{number}", linewidth=1, linestyle="--", label=f"{column}"
        )
    axes.set(xlabel="seconds", ylabel="ms", yscale="log", title=each.name)
    axes.legend(fontsize="small", ncols=3)
    figure.savefig(path)
