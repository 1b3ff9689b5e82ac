"""The picture of docs/performance.md: where the time of an arrival goes, and how far the limit is.

One bar for each window of the benchmark ``bucket``, a stretch for each step, and a mark where four random
cache lines end. A plain SVG, so that the same figures give the same file.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from benchmarks.bucket import LINES, STEPS

COLOURS = ("#b6bec8", "#0b63a5", "#5ba3d9", "#2a7f62", "#e0a030", "#8c6bb1")
WIDTH, LEFT, BAR, GAP, TOP = 720, 96, 30, 24, 74


def time_of_an_arrival(report: dict[str, Any]) -> str:
    """The SVG of a report of ``bucket``."""
    values = {result["what"]: result["value"] for result in report["results"]}
    shapes = [what.removeprefix(f"{LINES}, ") for what in values if what.startswith(LINES)]
    bars = [
        (
            shape,
            [values[f"bucket-tree, step {step}, groups of 16, {shape}"] for step in STEPS],
            values[f"{LINES}, {shape}"],
        )
        for shape in shapes
    ]
    return "\n".join(_lines(bars)) + "\n"


def _lines(bars: list[tuple[str, list[float], float]]) -> Iterator[str]:
    height = TOP + len(bars) * (BAR + GAP) + 26
    most = max((max(sum(steps), limit) for _, steps, limit in bars), default=1.0)
    scale = (WIDTH - LEFT - 70) / most
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">'
    )
    yield "  <title>Where the time of an arrival goes, by window, and the limit of four cache lines</title>"
    yield (
        f'  <rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" fill="#ffffff" '
        'stroke="#d0d7de"/>'
    )
    yield _text(
        14, 26, "Nanoseconds of an arrival in the bucket-tree, groups of 16, two matches", weight="bold"
    )
    for i, (step, colour) in enumerate(zip(STEPS, COLOURS, strict=True)):
        yield f'  <rect x="{14 + i * 112}" y="40" width="12" height="12" fill="{colour}"/>'
        yield _text(32 + i * 112, 51, step)
    for row, (shape, steps, limit) in enumerate(bars):
        top, at = TOP + row * (BAR + GAP), float(LEFT)
        yield _text(14, top + 20, shape)
        for value, colour in zip(steps, COLOURS, strict=True):
            width = value * scale
            yield f'  <rect x="{at:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
            if width >= 26:
                yield _text(at + width / 2, top + 20, f"{value:.0f}", "#ffffff", "middle")
            at += width
        yield _text(at + 6, top + 20, f"{sum(steps):.0f} ns")
        end = LEFT + limit * scale
        yield (
            f'  <line x1="{end:.1f}" y1="{top - 5}" x2="{end:.1f}" y2="{top + BAR + 5}" stroke="#b42318" '
            'stroke-width="2"/>'
        )
        yield _text(end, top + BAR + 17, f"{limit:.0f}", "#b42318", "middle")
    yield _text(LEFT, height - 12, "red: four random cache lines of as much memory, the limit", "#b42318")
    yield "</svg>"


def _text(
    x: float, y: float, text: str, colour: str = "#24292f", anchor: str = "start", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'  <text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"{bold}>{escape(text)}</text>'
    )
