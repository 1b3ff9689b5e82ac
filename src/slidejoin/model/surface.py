"""Measured times as a function of two sizes: straight lines between the measurements, in logarithms.

The time of an index over the size of its window is flat while a cache holds it, grows as a power of the
window where entries are copied, and as a logarithm where a tree gets another level. A line between two
measurements, with all axes logarithmic, follows each of them closely.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
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
    Below the first row the slope of the first two goes on, and above the last row half of that of the last
    two: what grows because a cache is left behind soon stops to grow. A slope near 1, that of a time which is
    proportional to the window, stays. No time falls as a window grows, and none grows faster than the window.
    Beyond the columns it is constant.
    Cost: O(log of the measurements).

    Examples
    --------
    >>> times = Surface([1024, 4096], [1, 16], [[4e-7, 1e-7], [8e-7, 1e-7]])
    >>> f"{times(2048, 1):.3g} {times(8192, 1):.3g} {times(4096, 16):.3g}"
    '5.66e-07 9.51e-07 1e-07'
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
        across = [_line(self._columns, times, _log(column), lambda _: 0.0) for times in logs]
        rest = _below if row < self.rows[0] else _above
        return math.exp(_line(self._rows, across, _log(row), rest))

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


def _below(slope: float) -> float:
    return min(max(slope, 0.0), 1.0)


def _above(slope: float) -> float:
    return _below(max(slope / 2, 2 * slope - 1))


def _line(
    places: Sequence[float], values: Sequence[float], at: float, outside: Callable[[float], float]
) -> float:
    """The value at a place: on the line between its neighbours; ``outside`` gives the slope beyond."""
    if len(places) == 1:
        return values[0]
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    slope = (values[right] - values[right - 1]) / (places[right] - places[right - 1])
    if at < places[0] or at > places[-1]:
        end = 0 if at < places[0] else -1
        return values[end] + outside(slope) * (at - places[end])
    return values[right - 1] + slope * (at - places[right - 1])
