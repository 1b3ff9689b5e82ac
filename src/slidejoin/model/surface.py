"""Measured times as a function of two sizes: straight lines between the measurements, in logarithms.

The time of an index over the size of its window is flat while a cache holds it, grows as a power of the
window where entries are copied, and as a logarithm where a tree gets another level. A line between two
measurements, with all axes logarithmic, follows each of them closely, and beyond the last measurement it goes
on with the slope that it has.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Surface:
    """Seconds over two sizes, such as the window and the batch; all numbers are positive.

    Parameters
    ----------
    rows, columns : sequences of numbers
        Sizes that were measured, ascending.
    seconds : sequence of sequences
        For each row a time for each column.

    Notes
    -----
    Beyond the first and the last row the slope of the nearest two goes on, though never below 0 nor above 1:
    no time falls as a window grows, and none grows faster than the window. Beyond the columns it is constant.
    Cost: O(log of the measurements).

    Examples
    --------
    >>> times = Surface([1024, 4096], [1, 16], [[4e-7, 1e-7], [8e-7, 1e-7]])
    >>> f"{times(2048, 1):.3g} {times(8192, 1):.3g} {times(4096, 16):.3g}"
    '5.66e-07 1.13e-06 1e-07'
    """

    rows: tuple[float, ...]
    columns: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]

    def __init__(
        self, rows: Sequence[float], columns: Sequence[float], seconds: Sequence[Sequence[float]]
    ) -> None:
        object.__setattr__(self, "rows", tuple(map(float, rows)))
        object.__setattr__(self, "columns", tuple(map(float, columns)))
        object.__setattr__(self, "seconds", tuple(tuple(map(float, row)) for row in seconds))

    def __call__(self, row: float, column: float) -> float:
        """The seconds at these sizes."""
        logs = self._logs
        across = [_line(self._columns, times, _log(column), 0.0, 0.0) for times in logs]
        return math.exp(_line(self._rows, across, _log(row), 0.0, 1.0))

    @cached_property
    def _rows(self) -> list[float]:
        return [_log(each) for each in self.rows]

    @cached_property
    def _columns(self) -> list[float]:
        return [_log(each) for each in self.columns]

    @cached_property
    def _logs(self) -> list[list[float]]:
        return [[math.log(time) for time in row] for row in self.seconds]


def rising(seconds: Sequence[Sequence[float]]) -> list[list[float]]:
    """The same times, where none is less than the one in the row before: no window is cheaper than a smaller.

    Examples
    --------
    >>> rising([[2.0, 5.0], [3.0, 4.0]])
    [[2.0, 5.0], [3.0, 5.0]]
    """
    result: list[list[float]] = []
    for row in seconds:
        below = result[-1] if result else row
        result.append([max(pair) for pair in zip(row, below, strict=True)])
    return result


def _log(size: float) -> float:
    return math.log(max(size, 1.0))


def _line(places: Sequence[float], values: Sequence[float], at: float, least: float, most: float) -> float:
    """The value at a place: on the line between its neighbours; outside the slope is within the limits."""
    if len(places) == 1:
        return values[0]
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    slope = (values[right] - values[right - 1]) / (places[right] - places[right - 1])
    if at < places[0] or at > places[-1]:
        end = 0 if at < places[0] else -1
        return values[end] + min(max(slope, least), most) * (at - places[end])
    return values[right - 1] + slope * (at - places[right - 1])
