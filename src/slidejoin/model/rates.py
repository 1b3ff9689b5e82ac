"""Rates to try a join with: the five parts of the experiments in the paper (Figure 7).

========  ========================================================================================
part      tuples a second
========  ========================================================================================
A         140 on both sides
B         150 left, 160 right; peaks of a tenth of the part add 100 left and 80 right: one of each
          side alone, then one of both
C         triangles of opposite phase between 100 and 200, which add up to 300
D         sinusoids between 100 and 200, of three periods left and two right
E         as B, but the peaks of the left side are negative
========  ========================================================================================
"""

from collections.abc import Callable

import numpy as np

from slidejoin.errors import SpecError
from slidejoin.model.rational import Floats

_PEAKS = ((0.1, 0.7), (0.4, 0.7))  # where the peaks of each side begin, in parts
_PEAK = 0.1


def trace(parts: str = "ABCDE", intervals: int = 300) -> tuple[Floats, Floats]:
    """Rates of the left and the right side, by interval.

    Parameters
    ----------
    parts : str
        The parts, one after the other, in any order.
    intervals : int
        Intervals of each part; 300 of one second in the paper.

    Examples
    --------
    >>> left, right = trace("AB", intervals=10)
    >>> left
    array([140., 140., 140., 140., 140., 140., 140., 140., 140., 140., 150.,
           250., 150., 150., 150., 150., 150., 250., 150., 150.])
    """
    unknown = set(parts) - set(_PARTS)
    if not parts or unknown:
        raise SpecError(f"parts {parts!r}; expected letters of {''.join(_PARTS)}, such as 'AB'")
    if intervals < 1:
        raise SpecError(f"a part of {intervals} intervals is empty; expected 1 or more")
    at = (np.arange(intervals) + 0.5) / intervals  # the middle of each interval, in parts
    left, right = np.hstack([np.stack(_PARTS[part](at)) for part in parts])
    return left, right


def _constant(at: Floats) -> tuple[Floats, Floats]:
    return np.full(len(at), 140.0), np.full(len(at), 140.0)


def _peaks(at: Floats, left: float, right: float) -> tuple[Floats, Floats]:
    in_peak = [np.any([(at >= peak) & (at < peak + _PEAK) for peak in peaks], axis=0) for peaks in _PEAKS]
    return 150.0 + left * in_peak[0], 160.0 + right * in_peak[1]


def _triangles(at: Floats) -> tuple[Floats, Floats]:
    rise = 100.0 * np.abs(2 * (2 * at % 1) - 1)
    return 200.0 - rise, 100.0 + rise


def _sinusoids(at: Floats) -> tuple[Floats, Floats]:
    return 150.0 + 50.0 * np.sin(6 * np.pi * at), 150.0 + 50.0 * np.sin(4 * np.pi * at)


_PARTS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "A": _constant,
    "B": lambda at: _peaks(at, 100.0, 80.0),
    "C": _triangles,
    "D": _sinusoids,
    "E": lambda at: _peaks(at, -100.0, 80.0),
}
