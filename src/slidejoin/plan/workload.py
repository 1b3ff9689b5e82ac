"""The workload of a join, as far as its speed depends on it: rates, tuples in the windows, matches.

Rates are steady, or a trace with one value for each interval. The number of tuples that a window holds
follows from them (equations 2 and 3 of "Performance Modeling of Stream Joins", Gulisano et al.).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_floats
from slidejoin.model.rational import MOST_RATE, Floats
from slidejoin.model.windows import check_window, window_tuples
from slidejoin.window import Interval, Rows, Window


@dataclass(frozen=True)
class Load:
    """What a join has to do in one interval.

    Attributes
    ----------
    left_rate, right_rate : float
        Arrivals a second.
    left, right : float
        Tuples that are stored.
    left_seen, right_seen : float
        Stored tuples of a side that an arrival of the other one may meet.
    matches : float
        Matches of an arrival, on average over both sides.
    """

    left_rate: float
    right_rate: float
    left: float
    right: float
    left_seen: float
    right_seen: float
    matches: float

    @property
    def rate(self) -> float:
        """Arrivals of both sides a second."""
        return self.left_rate + self.right_rate

    @property
    def stored(self) -> tuple[float, float]:
        """Tuples that are stored, never less than one of each side."""
        return max(self.left, 1.0), max(self.right, 1.0)


@dataclass(frozen=True)
class Workload:
    """Rates, a window and a selectivity.

    Parameters
    ----------
    window : Window
        ``rows``, ``within`` or ``interval``.
    left_rates, right_rates : array of float
        Arrivals a second in each interval; one value where the rate is steady.
    selectivity : float
        The share of the pairs in the windows that match, in (0, 1].
    interval : float
        Seconds of an interval.
    """

    window: Window
    left_rates: Floats
    right_rates: Floats
    selectivity: float
    interval: float = 1.0

    def __post_init__(self) -> None:
        if len(self.left_rates) != len(self.right_rates):
            raise SpecError(
                f"{len(self.left_rates)} left and {len(self.right_rates)} right rates; "
                "give one of each side for every interval"
            )
        if not 0 < self.selectivity <= 1:
            raise SpecError(
                f"selectivity {self.selectivity:g} is not in (0, 1]; it is the share of pairs that match"
            )
        if not self.interval > 0 or not np.isfinite(self.interval):
            raise SpecError(f"an interval of {self.interval:g} seconds; expected more than 0")
        check_window(self.window)

    @property
    def steady(self) -> bool:
        """Whether the rates do not change."""
        return len(self.left_rates) == 1

    def scaled(self, factor: float) -> "Workload":
        """The same with all rates multiplied."""
        return replace(self, left_rates=self.left_rates * factor, right_rates=self.right_rates * factor)

    def loads(self) -> list[Load]:
        """The load of every interval; windows of a steady load are full."""
        seen = held = self.window
        if isinstance(seen, Interval):
            late = seen.lateness or 0
            held = replace(seen, before=seen.before + late, after=seen.after + late)
        left, right = self._tuples(held)
        left_seen, right_seen = self._tuples(seen)
        rate = self.left_rates + self.right_rates
        pairs = self.left_rates * right_seen + self.right_rates * left_seen
        matches = self.selectivity * np.divide(pairs, rate, out=np.zeros_like(rate), where=rate > 0)
        columns = (self.left_rates, self.right_rates, left, right, left_seen, right_seen, matches)
        return [Load(*map(float, values)) for values in zip(*columns, strict=True)]

    def hardest(self) -> list[Load]:
        """The loads that may be the first to be too much: by rate, by windows, and by both together.

        And the lowest rate, at which batches take longest to fill. The quietest intervals are left out, as
        far as they have one row in a hundred.
        """
        loads = self.loads()
        by_rate = sorted(loads, key=lambda load: load.rate)
        rows = np.cumsum([load.rate for load in by_rate])
        quietest = int(np.searchsorted(rows, 0.01 * rows[-1], side="right")) if rows[-1] else 0
        loads = [load for load in loads if load.rate >= by_rate[quietest].rate]
        hardest = [
            by_rate[quietest],
            max(loads, key=lambda load: load.rate),
            max(loads, key=lambda load: load.left + load.right),
            max(loads, key=lambda load: load.rate * (1 + load.matches)),
            max(loads, key=lambda load: load.rate * (load.left + load.right)),
        ]
        return list(dict.fromkeys(hardest))

    def _tuples(self, window: Window) -> tuple[Floats, Floats]:
        """Tuples of both sides in a window, at the end of each interval."""
        if not self.steady:
            return window_tuples(window, self.left_rates, self.right_rates, self.interval)
        left, right = map(float, check_window(window))
        if isinstance(window, Rows):
            return np.array([left]), np.array([right])
        return self.left_rates * left, self.right_rates * right


def make_rates(name: str, given: ArrayLike) -> Floats:
    """Rates as an array, one for each interval.

    Raises
    ------
    SpecError
        One is negative or not finite, or they are not numbers.

    Examples
    --------
    >>> make_rates("left_rate", 50)
    array([50.])
    """
    rates = np.atleast_1d(as_floats(name, given))
    if rates.ndim != 1 or rates.size == 0:
        raise SpecError(f"{name} has the shape {rates.shape}; expected one number for each interval")
    wrong = np.flatnonzero(~((rates >= 0) & (rates <= MOST_RATE)))
    if wrong.size:
        where = f" in interval {wrong[0]}" if rates.size > 1 else ""
        raise SpecError(f"{name} is {rates[wrong[0]]:g}{where}; expected 0 to 10^12 rows a second")
    return rates


def broadcast(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Rates of both sides: a steady one lasts as long as the trace of the other side."""
    if len(left) == 1:
        left = np.repeat(left, len(right))
    elif len(right) == 1:
        right = np.repeat(right, len(left))
    return left, right
