"""JoinModel: throughput and latency of a join from its rates, window and costs.

The model is that of "Performance Modeling of Stream Joins" (Gulisano et al., DEBS 2017), whose equations the
comments number. ``windows`` has equations 2 and 3, ``overload`` 10 to 15, ``readiness`` 16 to 21, 24 and 25.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_count, as_floats, as_number
from slidejoin.model.overload import serve
from slidejoin.model.rational import MOST_RATE, Floats, nearby, nearby_rate
from slidejoin.model.readiness import Streams
from slidejoin.model.table import ModelTable
from slidejoin.model.windows import check_window, window_tuples
from slidejoin.window import Window

_OFFSET = Fraction(1, 10**10)  # seconds from one stream to the next, unless offsets are given
_MOST_STREAMS = 2**16  # of a side, and units


class Cost(Protocol):
    """Cost of an arrival, for joins that do not compare with every tuple of the window."""

    def seconds(self, window_left: float, window_right: float, matches: float) -> float:
        """Seconds of one arrival that has ``matches`` matches on average."""


class JoinModel:
    """The performance of a join, interval by interval.

    Parameters
    ----------
    window : Window
        ``rows(n)``, ``rows(left=, right=)``, ``within("30s")``, or ``interval(before, after)`` of streams
        that are in order.
    alpha : float
        Seconds of a comparison, for the nested loop.
    beta : float
        Seconds of the output of a match, for the nested loop.
    selectivity : float
        Matches for each comparison of the nested loop, above 0 and up to 1.
    quota : float
        The part of an interval in which a unit may work (Θ), above 0 and up to 1.
    units : int
        Processing units (n). Each stores 1/n of the tuples and compares every tuple with its own.
    deterministic : bool
        Whether tuples wait until they are ready, and matches of several units until they can be merged.
    left_streams, right_streams : int
        Physical streams of each side.
    interval : float
        Seconds of an interval (Δt).
    left_offsets, right_offsets, unit_offsets : sequence of float, optional
        Seconds at which each stream delivers its first tuple, and each unit its first match (ε). Unless they
        are given, stream i, left ones first, and unit i begin after i·10⁻¹⁰ s.
    exact : bool, optional
        Whether tuples wait as Definition 3.3 says, or as equations 17, 20 and 24 do, which round up to a
        later tuple where offsets matter (``docs/model.md``). Unless given, waits are exact where offsets
        are given, and those of the equations where streams are kept apart by 10⁻¹⁰ s.
    cost : Cost, optional
        Instead of ``alpha`` and ``beta``: an object with ``seconds(window_left, window_right, matches)``, the
        seconds of an arrival. An arrival then has the latency of its cost.

    Examples
    --------
    >>> import slidejoin as sj
    >>> from slidejoin.model import JoinModel
    >>> model = JoinModel(sj.within("2s"), alpha=2e-8, beta=1e-7, selectivity=0.01)
    >>> table = model.run([100, 100, 100], [50, 50, 50])
    >>> table["window_left"], table["comparisons"]
    (array([100., 200., 200.]), array([10000., 20000., 20000.]))
    """

    def __init__(
        self,
        window: Window,
        *,
        selectivity: float,
        alpha: float | None = None,
        beta: float | None = None,
        quota: float = 1.0,
        units: int = 1,
        deterministic: bool = False,
        left_streams: int = 1,
        right_streams: int = 1,
        interval: float = 1.0,
        left_offsets: Sequence[float] | None = None,
        right_offsets: Sequence[float] | None = None,
        unit_offsets: Sequence[float] | None = None,
        exact: bool | None = None,
        cost: Cost | None = None,
    ) -> None:
        check_window(window)
        if (cost is None) == (alpha is None and beta is None):
            raise SpecError("the model needs alpha and beta, or cost; give one of the two forms")
        if cost is not None and not callable(getattr(cost, "seconds", None)):
            raise SpecError(f"cost {cost!r} has no seconds(window_left, window_right, matches)")
        self.window = window
        self.alpha = None if cost is not None else as_number("alpha", alpha, "seconds above 0", above=0.0)
        self.beta = None if cost is not None else as_number("beta", beta, "seconds, 0 or more", least=0.0)
        self.selectivity = as_number("selectivity", selectivity, "above 0 and up to 1", above=0.0, most=1.0)
        self.quota = as_number("quota", quota, "above 0 and up to 1", above=0.0, most=1.0)
        self.units = as_count("units", units, _MOST_STREAMS)
        self.deterministic = bool(deterministic)
        self.left_streams = as_count("left_streams", left_streams, _MOST_STREAMS)
        self.right_streams = as_count("right_streams", right_streams, _MOST_STREAMS)
        self.interval = as_number("interval", interval, "seconds, 1e-9 or more", least=1e-9)
        self.cost = cost
        self._inputs = Streams(
            _offsets("left_offsets", left_offsets, self.left_streams, 0)
            + _offsets("right_offsets", right_offsets, self.right_streams, self.left_streams),
            printed=left_offsets is None and right_offsets is None if exact is None else not exact,
        )
        self._outputs = Streams(
            _offsets("unit_offsets", unit_offsets, self.units, 0),
            printed=unit_offsets is None if exact is None else not exact,
        )

    def run(self, left_rates: ArrayLike, right_rates: ArrayLike) -> ModelTable:
        """Throughput and latency in each interval.

        Costs O(intervals). If streams of a deterministic join have more than two rates in an interval, the
        tuples of a hyper-period, which is at most an interval, are gone through.

        Parameters
        ----------
        left_rates, right_rates : array
            Tuples a second, by interval, split evenly between the side's streams; or by interval and stream.
        """
        left_total, left = _rates("left", left_rates, self.left_streams)
        right_total, right = _rates("right", right_rates, self.right_streams)
        if len(left) != len(right):
            raise SpecError(
                f"left_rates have {len(left)} intervals, right_rates {len(right)}; expected as many"
            )
        window_left, window_right = window_tuples(self.window, left_total, right_total, self.interval)
        comparisons = (window_right * left_total + window_left * right_total) * self.interval  # 4, 22
        arrivals = left_total + right_total
        if self.cost is None:
            work, at_once = self._nested_loop(comparisons, left_total, right_total, window_left, window_right)
        else:
            work, at_once = self._indexed(self.cost, comparisons, arrivals, window_left, window_right)
        budget = self.quota * self.interval * self.units
        throughput, latency_join = serve(work, comparisons, at_once, budget, self.interval)
        latency_in, latency_out = np.zeros((2, len(arrivals)))
        if self.deterministic:
            latency_in = self._wait_in(np.hstack((left, right)))
            latency_out = self._wait_out(throughput, arrivals)
        return ModelTable(
            {
                "window_left": window_left,
                "window_right": window_right,
                "comparisons": comparisons,
                "work": work,
                "throughput": throughput,
                "latency": latency_in + latency_join + latency_out,  # 1
                "latency_in": latency_in,
                "latency_join": latency_join,
                "latency_out": latency_out,
            }
        )

    def _nested_loop(
        self, comparisons: Floats, left: Floats, right: Floats, window_left: Floats, window_right: Floats
    ) -> tuple[Floats, Floats]:
        """Seconds of work, and the latency of matches whose work starts at once."""
        assert self.alpha is not None
        assert self.beta is not None
        comparison = self.alpha + self.selectivity * self.beta
        for_left, for_right = (  # 7, 8, for one unit
            (self.selectivity * window / self.units + 1) * comparison / (2 * self.selectivity)
            for window in (window_right, window_left)
        )
        at_once = _divide(left * for_left + right * for_right, left + right)  # 9, 23
        return comparisons * comparison, at_once  # 5

    def _indexed(
        self, cost: Cost, comparisons: Floats, arrivals: Floats, window_left: Floats, window_right: Floats
    ) -> tuple[Floats, Floats]:
        """The same for an index, of which each unit has one with its part of the window."""
        matches = self.selectivity * _divide(comparisons, arrivals * self.interval)
        windows = np.stack((window_left, window_right, matches), axis=1) / self.units
        seconds = np.array([cost.seconds(*row) for row in windows.tolist()], dtype=np.float64)
        seconds[arrivals == 0] = 0.0
        if not (np.isfinite(seconds) & (seconds >= 0)).all():
            raise SpecError(f"cost {cost!r} gave {seconds.tolist()[:5]}; expected seconds, 0 or more")
        return arrivals * self.interval * self.units * seconds, seconds

    def _wait_in(self, rates: Floats) -> Floats:
        """The wait of tuples until every stream has delivered a later one."""
        longest = nearby(self.interval).as_integer_ratio()
        ratios = {rate: nearby_rate(rate).as_integer_ratio() for rate in np.unique(rates).tolist()}
        return _by_row(rates, lambda row: self._inputs.mean_wait([ratios[rate] for rate in row], longest))

    def _wait_out(self, throughput: Floats, arrivals: Floats) -> Floats:
        """The wait of a unit's matches until every unit has delivered later ones."""
        matches = np.minimum(throughput * self.selectivity / self.interval / self.units, arrivals)
        ratio = {rate: nearby_rate(rate, 10**9).as_integer_ratio() for rate in np.unique(matches).tolist()}
        return _by_row(
            matches[:, None], lambda row: self._outputs.mean_wait([ratio[row[0]]] * self.units, None)
        )


def _by_row(rates: Floats, wait: Callable[[tuple[float, ...]], float]) -> Floats:
    """The wait at the rates of each row; rows with the same rates have the same."""
    known = {row: wait(row) for row in set(map(tuple, rates.tolist()))}
    return np.array([known[tuple(row)] for row in rates.tolist()], dtype=np.float64)


def _divide(dividend: Floats, divisor: Floats) -> Floats:
    """The quotient, and 0 where nothing arrives."""
    return np.divide(dividend, divisor, out=np.zeros(len(dividend)), where=divisor > 0)


def _offsets(name: str, given: Sequence[float] | None, count: int, first: int) -> list[Fraction]:
    if given is None:
        return [i * _OFFSET for i in range(first, first + count)]
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise SpecError(f"{name} {given!r}; expected a sequence of seconds, one for each")
    offsets = [as_number(name, offset, "seconds, 0 or more", least=0.0) for offset in given]
    if len(offsets) != count:
        raise SpecError(f"{name} has {len(offsets)} values; expected {count}, one for each")
    return [nearby(offset) for offset in offsets]


def _rates(side: str, given: ArrayLike, streams: int) -> tuple[Floats, Floats]:
    """The rates of a side by interval, and by interval and stream."""
    name = f"{side}_rates"
    rates = as_floats(name, given)
    if rates.ndim not in (1, 2):
        raise SpecError(f"{name} have {rates.ndim} dimensions; expected [intervals] or [intervals, streams]")
    if rates.ndim == 2 and rates.shape[1] != streams:
        raise SpecError(f"{name} have {rates.shape[1]} columns; expected {streams}, as {side}_streams says")
    wrong = ~((rates >= 0) & (rates <= MOST_RATE))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise SpecError(
            f"{name} have {rates[tuple(at)]} in interval {at[0]}; expected 0 to 10^12 tuples a second"
        )
    if rates.ndim == 2:
        return rates.sum(axis=1), rates
    return rates, np.repeat(rates[:, None] / streams, streams, axis=1)
