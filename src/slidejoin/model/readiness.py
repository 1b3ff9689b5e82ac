"""How long tuples wait until they are ready: equations 16 to 21, 24 and 25.

A deterministic join uses a tuple when every other stream has delivered one with the same or a later timestamp
(Definition 3.3). Stream x delivers at ε_x, ε_x + p_x, ε_x + 2p_x, …, so a tuple at time t waits for
(ε_x - t) mod p_x on stream x, and for the longest of these waits in all. The pattern repeats after the
hyper-period, the least common multiple of the periods.

Equations 17, 20 and 24 as printed round t / p_x up instead of (t - ε_x) / p_x: a tuple then waits for
(-t) mod p_x + ε_x, a period too long where stream x delivers less than ε_x after t. With offsets that only
keep streams apart, this happens where two streams other than the first deliver at the same time. Both forms
are here; they agree for two streams whose offsets are 0 and tiny.

Remainders are exact: times are fractions, and remainders are computed in integers. Where streams have two
rates in all, as if both sides share theirs evenly, sums of waits follow from formulas in O(log) for each pair
of streams (``remainders``). With more rates, each tuple of the hyper-period costs a few nanoseconds for each
other stream.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from slidejoin.model.rational import Floats
from slidejoin.model.remainders import sum_of_longest

Ratio: TypeAlias = tuple[int, int]  # numerator and denominator, in lowest terms

_CHUNK = 1 << 14  # tuples at a time: their arrays stay in the cache


class Streams:
    """Streams that are merged in the order of their timestamps.

    Parameters
    ----------
    offsets
        Seconds at which each stream delivers its first tuple (ε).
    printed
        Whether waits are those of the equations as printed, or those of the definition.

    Examples
    --------
    One stream at 0, 1/2, 1, … and another one at 1/8, 3/8, 5/8, 7/8, …: tuples of the first one wait for 1/8,
    those of the other one for 3/8 and 1/8, in turn.

    >>> streams = Streams([Fraction(0), Fraction(1, 8)])
    >>> streams.mean_wait([(2, 1), (4, 1)], longest=(1, 1)) == (1/8 + 3/8 + 1/8) / 3
    True
    """

    def __init__(self, offsets: Sequence[Fraction], printed: bool = False) -> None:
        self._printed = printed
        self._parts = math.lcm(*(offset.denominator for offset in offsets))  # of a second
        self._offsets = [int(offset * self._parts) for offset in offsets]

    def mean_wait(self, rates: Sequence[Ratio], longest: Ratio | None) -> float:
        """Seconds that a tuple waits on average until it is ready.

        A stream of rate 0 is taken as closed: no tuple waits for it.

        Parameters
        ----------
        rates
            Tuples a second of each stream: numerators up to 10^12, denominators up to 10^6. If all streams
            have one rate, any numbers.
        longest
            Most seconds of the hyper-period; it may end within the pattern, and then holds whole tuples only.
        """
        groups: dict[Ratio, list[int]] = defaultdict(list)  # offsets by rate
        for rate, offset in zip(rates, self._offsets, strict=True):
            if rate[0]:
                groups[rate].append(offset)
        if not groups:
            return 0.0
        seconds, parts = math.lcm(*(below for _, below in groups)), math.gcd(*(above for above, _ in groups))
        if longest is not None and seconds * longest[1] > longest[0] * parts:
            seconds, parts = longest
        total = arrivals = 0.0
        for rate, offsets in groups.items():
            tuples = seconds * rate[0] // (parts * rate[1])
            arrivals += len(offsets) * rate[0] / rate[1]
            others = [(other, offset) for other in groups if other != rate for offset in groups[other]]
            for offset, least in zip(offsets, self._waits_of_equals(rate, offsets), strict=True):
                if len(groups) == 2:
                    total += self._sum_for_one_rate(tuples, rate, offset, least, others)
                else:
                    steps = [self._remainders(rate, offset, *other) for other in others]
                    total += _sum_of_waits(tuples, least / (rate[0] * self._parts), steps)
        return total / (seconds / parts * arrivals)

    def _waits_of_equals(self, rate: Ratio, offsets: Sequence[int]) -> list[int]:
        """How long tuples of each of several streams with one rate wait for the others, in 1 / (a·parts) s.

        A stream waits until the one before it delivers again; the first one waits for the last.
        """
        period = rate[1] * self._parts
        if self._printed:
            return [
                max(
                    (-offset * rate[0] % period + other * rate[0] for other in _without(offsets, i)),
                    default=0,
                )
                for i, offset in enumerate(offsets)
            ]
        places = [offset * rate[0] % period for offset in offsets]
        ordered = sorted(set(places))
        waits = {place: before + period - place for before, place in pairwise(ordered)}
        waits[ordered[0]] = ordered[-1] - ordered[0]
        return [waits[place] for place in places]

    def _sum_for_one_rate(
        self, tuples: int, rate: Ratio, offset: int, least: int, others: Sequence[tuple[Ratio, int]]
    ) -> float:
        """The same as :func:`_sum_of_waits` if all others have one rate, in units of 1 / (a·a_x·parts) s."""
        other = others[0][0]
        unit = rate[0] * other[0]
        step, period = rate[1] * other[0], rate[0] * other[1]
        starts, more = [(ahead - offset) * unit for _, ahead in others], 0
        if self._printed:
            starts, more = [-offset * unit], max(ahead for _, ahead in others) * unit
        at_least = max(least * other[0] - more, 0)
        waits = sum_of_longest(tuples, step, period, starts, at_least, self._parts) + tuples * more
        return waits / (unit * self._parts)

    def _remainders(self, rate: Ratio, offset: int, other: Ratio, ahead: int) -> "_Remainders":
        if self._printed:
            return _Remainders(rate, other, offset, self._parts, more=ahead / self._parts)
        return _Remainders(rate, other, offset - ahead, self._parts)


def _without(offsets: Sequence[int], place: int) -> list[int]:
    return [*offsets[:place], *offsets[place + 1 :]]


def _sum_of_waits(tuples: int, least: float, steps: "Sequence[_Remainders]") -> float:
    """The waits of the first tuples of a stream, each the longest over the other streams and ``least``."""
    if not steps:
        return tuples * least
    total = 0.0
    for first in range(0, tuples, _CHUNK):
        numbers = np.arange(first, min(first + _CHUNK, tuples))
        waits = steps[0].waits(numbers)
        for step in steps[1:]:
            np.maximum(waits, step.waits(numbers), out=waits)
        total += float(np.maximum(waits, least).sum())
    return total


class _Remainders:
    """(-m/rate - ahead) mod p_x for tuples m of a stream, exact until the last step, which makes floats.

    In units of 1 / (a·a_x), where rate = a/b and rate of x = a_x/b_x, the period of x is M = a·b_x and that
    of the stream is b·a_x, both whole. A wait is then (-(m·b·a_x + d)) mod M with a fixed d; if d is not
    whole, it is rounded up and the fraction added to the wait. M is at most 10^18. Products may wrap around
    2^64: their difference is right, since it lies between -M and M.
    """

    def __init__(self, rate: Ratio, other: Ratio, ahead: int, parts: int, more: float = 0.0) -> None:
        unit = rate[0] * other[0]
        whole = -(-ahead * unit // parts)
        self._period = rate[0] * other[1]
        self._step = rate[1] * other[0] % self._period
        self._start = whole % self._period
        self._seconds = 1 / unit
        self._fraction = (whole * parts - ahead * unit) / (parts * unit) + more

    def waits(self, numbers: np.ndarray) -> Floats:
        turns = np.rint(numbers * (self._step / self._period) + self._start / self._period)
        remainders = turns.astype(np.int64) * self._period - (numbers * self._step + self._start)
        remainders += (remainders < 0) * self._period
        waits: Floats = remainders * self._seconds
        waits += self._fraction
        return waits
