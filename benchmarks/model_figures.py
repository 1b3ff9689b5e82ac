"""The figures of the model's validation: what was measured, what the model says, and boxes of the errors."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.model_replay import Comparison
from benchmarks.report import Figures
from slidejoin.errors import UsageError

MEASURED, MODEL = "#e59500", "#1f6fb4"
UNITS = {"throughput": (1e-6, "10⁶ comparisons / s"), "latency": (1e3, "latency, ms")}
PARTS = {
    "waited": ("latency_in", "waits to be ready"),
    "joined": ("latency_join", "join"),
    "merged": ("latency_out", "waits to be merged"),
}


def figures(regular: Sequence[Comparison], overload: Sequence[Comparison]) -> Figures:
    """What draws each figure into a file, by the name of the file."""
    groups: dict[str, list[Comparison]] = {}
    for each in regular:
        groups.setdefault(each.experiment.name, []).append(each)
    central = next(iter(groups.values()))
    rows = [(central, "throughput"), *((group, "latency") for group in groups.values())]
    return {
        "model-validation.png": partial(_compared, rows),
        "model-validation-overload.png": partial(
            _compared, [(overload, "throughput"), (overload, "latency")], log=True
        ),
        "model-validation-parts.png": partial(_parts, regular[-1]),
    }


def new_figure(rows: int, columns: int, size: tuple[float, float], **how: Any) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UsageError(f"figures need {error.name}: pip install 'slidejoin[plot]'") from None
    figure = Figure(figsize=size, dpi=80, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **how)


def _compared(rows: Sequence[tuple[Sequence[Comparison], str]], path: Path, log: bool = False) -> None:
    """A row for each experiment: its windows, each with a box of the errors."""
    windows = len(rows[0][0])
    figure, grid = new_figure(len(rows), 2 * windows, (12, 2.3 * len(rows)), width_ratios=[7, 1] * windows)
    for (group, wanted), row in zip(rows, grid, strict=True):
        scale, label = UNITS[wanted]
        for each, axes, box in zip(group, row[::2], row[1::2], strict=True):
            actual, model = each.series(wanted)
            axes.plot(scale * actual, label="measured", color=MEASURED, linewidth=2)
            axes.plot(scale * model, label="model", color=MODEL, linewidth=1)
            axes.set_title(each.name, fontsize="medium")
            axes.set(xlabel="time, s", ylabel=label)
            axes.grid(alpha=0.3)
            axes.legend(fontsize="small", loc="upper left", ncols=2, frameon=False)
            if log and wanted == "latency":
                axes.set_yscale("log")
            else:
                axes.set_ylim(0, 1.4 * scale * np.nanmax(model))
            errors = each.errors(wanted)
            box.boxplot(errors, widths=0.6, showfliers=False, medianprops={"color": MODEL})
            box.set(xticks=[], ylabel="error, %", ylim=(0, None))
            box.set_title(f"{np.median(errors):.2g} %", fontsize="medium")
    figure.savefig(path)


def _parts(each: Comparison, path: Path) -> None:
    """The parts of the latency, measured and by the model."""
    figure, ((axes,),) = new_figure(1, 1, (9, 3.2))
    for number, (part, (column, label)) in enumerate(PARTS.items()):
        axes.plot(
            1e3 * each.latency(part), color=f"C{number}", linewidth=2, alpha=0.5, label=f"{label}, measured"
        )
        axes.plot(1e3 * each.model[column], color=f"C{number}", linewidth=1, label=f"{label}, model")
    axes.set(xlabel="time, s", ylabel="ms", yscale="log", title=each.name)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path)
