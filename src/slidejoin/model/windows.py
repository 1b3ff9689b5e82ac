"""How many tuples each window holds at the end of every interval: equations 2 and 3.

A window of Ω seconds holds the last Ω seconds, the current interval included; where Ω is not a multiple of
the interval, it holds a part of the oldest one. A window of Ω tuples fills up and stays full. Costs
O(intervals).
"""

from fractions import Fraction

import numpy as np

from slidejoin.errors import SpecError
from slidejoin.model.rational import Floats, nearby
from slidejoin.window import Interval, Rows, Window, Within


def check_window(window: Window) -> tuple[Fraction, Fraction]:
    """The extent of the left and the right window: tuples of ``rows``, seconds of the others.

    A left tuple meets the right tuples of the last ``before``, a right tuple the left ones of the last
    ``after``: that is how an ``interval`` between streams in order gives windows of different lengths.
    """
    if isinstance(window, Rows):
        return Fraction(window.left), Fraction(window.right)
    if not isinstance(window, Within | Interval):
        raise SpecError(f"window {window!r}; expected a window, such as within('30s') or rows(4200)")
    if not window.timed:
        raise SpecError(f"{window!r} has no unit and the model counts in seconds; write it as within('30s')")
    if isinstance(window, Within):
        return (Fraction(window.duration, 10**9),) * 2
    if min(window.before, window.after) < 0:
        raise SpecError(f"{window!r} leaves out the latest tuples; the model needs before and after >= 0")
    return Fraction(window.after, 10**9), Fraction(window.before, 10**9)


def window_tuples(window: Window, left: Floats, right: Floats, interval: float) -> tuple[Floats, Floats]:
    """Tuples in the left and the right window at the end of each interval (ω).

    Parameters
    ----------
    left, right
        Tuples a second of each side, for every interval.
    interval
        Seconds of an interval (Δt).

    Examples
    --------
    >>> import slidejoin as sj
    >>> rates = np.array([10.0, 20.0, 30.0, 40.0])
    >>> window_tuples(sj.within("2s"), rates, rates, 1.0)[0]
    array([10., 30., 50., 70.])
    >>> window_tuples(sj.rows(left=25, right=100), rates, rates, 1.0)
    (array([10., 25., 25., 25.]), array([ 10.,  30.,  60., 100.]))
    """
    extents = check_window(window)
    if isinstance(window, Rows):
        left, right = (
            np.minimum(np.cumsum(rates) * interval, float(extent))
            for rates, extent in zip((left, right), extents, strict=True)
        )
        return left, right
    left, right = (
        _last(rates, extent / nearby(interval)) * interval
        for rates, extent in zip((left, right), extents, strict=True)
    )
    return left, right


def _last(rates: Floats, intervals: Fraction) -> Floats:
    """Sums over the last ``intervals`` values, with a part of the oldest one."""
    whole = min(int(intervals), len(rates))
    oldest = np.concatenate((np.zeros(whole), rates))[: len(rates)]
    return _sliding_sums(rates, whole) + float(intervals - int(intervals)) * oldest


def _sliding_sums(values: Floats, count: int) -> Floats:
    """Sums of the last ``count`` values, without differences, so that a window of zeros holds exactly 0.

    Values are cut into blocks of ``count``: a sum is the end of one block and the start of the next.
    """
    if count == 0:
        return np.zeros(len(values))
    blocks = np.concatenate((np.zeros(count), values, np.zeros(-len(values) % count))).reshape(-1, count)
    starts = np.cumsum(blocks, axis=1)[1:]
    ends = np.cumsum(blocks[:-1, :0:-1], axis=1)[:, ::-1]
    starts[:, :-1] += ends
    sums: Floats = starts.ravel()[: len(values)]
    return sums
