"""Equations 16 to 21, 24 and 25: waits until tuples are ready, against a simulation of Definition 3.3."""

import heapq
import math
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.model.readiness import Streams


def mean_wait(rates, offsets, longest=None, printed=False):
    ratios = [Fraction(rate).as_integer_ratio() for rate in rates]
    bound = None if longest is None else Fraction(longest).as_integer_ratio()
    return Streams([Fraction(offset) for offset in offsets], printed).mean_wait(ratios, bound)


def simulate(rates, offsets, longest=None):
    """Deliver tuples one by one; release those at or before the least of the streams' latest timestamps."""
    rates = [Fraction(rate) for rate in rates]
    periods = [1 / rate for rate in rates]
    hyper = Fraction(math.lcm(*(p.numerator for p in periods)), math.gcd(*(p.denominator for p in periods)))
    hyper = hyper if longest is None else min(hyper, Fraction(longest))
    counted = [math.floor(hyper * rate) for rate in rates]
    past = max(offsets) + max(periods)  # streams have been running before the hyper-period begins
    end = hyper + 2 * past
    deliveries = []
    for stream, (period, offset) in enumerate(zip(periods, offsets, strict=True)):
        number = -math.ceil(past / period)
        while number * period + offset <= end:
            deliveries.append((number * period + offset, stream, number))
            number += 1
    latest = [None] * len(rates)
    waiting, waits, released = [], Fraction(0), 0
    for now, stream, number in sorted(deliveries):
        latest[stream] = now
        heapq.heappush(waiting, (now, stream, number))
        if None in latest:
            continue
        while waiting and waiting[0][0] <= min(latest):
            created, of, which = heapq.heappop(waiting)
            if 0 <= which < counted[of]:
                waits += now - created
                released += 1
    assert released == sum(counted)
    return float(waits / (hyper * sum(rates)))


def test_two_streams_by_hand():
    # R at 0, 1/3, 2/3; S at e, 1/2 + e; the hyper-period is 1. R waits for e, 1/2 + e - 1/3 and 1 + e - 2/3;
    # S waits for 1/3 - e and 2/3 - (1/2 + e). The sum is 1/6 + 1/3 + 1/3 + 1/6 + 3e - 2e = 1 + e, of 5
    # tuples.
    e = Fraction(1, 10**10)
    assert mean_wait([3, 2], [0, e]) == pytest.approx(float((1 + e) / 5), rel=1e-15)


def test_two_streams_of_one_rate():
    # R waits for e, S for 1/140 - e: half a period on average, whatever e is.
    assert mean_wait([140, 140], [0, Fraction(1, 10**10)]) == pytest.approx(1 / 280, rel=1e-15)


def test_three_streams_of_which_two_have_one_rate():
    # Periods 1/2, 1/4, 1/4 at 0, e, 2e; the hyper-period is 1/2. The first waits for 2e. The second waits for
    # 1/2 - e at e, and for 1/4 - e at 1/4 + e: there the third is e away. The third waits for 1/2 - 2e at
    # 2e, and for 1/4 - e at 1/4 + 2e, where the first is 1/4 - 2e away and the second 1/4 - e. The sum is
    # 3/2 - 3e, of 5 tuples.
    e = Fraction(1, 10**10)
    assert mean_wait([2, 4, 4], [0, e, 2 * e]) == pytest.approx(
        float((Fraction(3, 2) - 3 * e) / 5), rel=1e-14
    )


def test_three_and_two_streams_of_the_paper():
    # Three streams of 140/3 and two of 70; in units of 1/140 s, the hyper-period is 6. Offsets aside:
    #   stream 0 at 0 waits for 0, at 3 for 1; streams 1 and 2 wait a period of stream 0: 3 each time.
    #   stream 3 at 0, 2, 4 waits for 3, 1, 2 (stream 0); stream 4 for 3, 2, 2 (stream 0 or 3).
    # 1 + 6 + 6 + 6 + 7 = 26 units, of 12 tuples.
    rates = [Fraction(140, 3)] * 3 + [Fraction(70)] * 2
    offsets = [Fraction(i, 10**10) for i in range(5)]
    assert mean_wait(rates, offsets, 1) == pytest.approx(26 / 140 / 12, rel=1e-6)
    # As printed, stream 3 at 2 waits for 2, the period of stream 4, which delivers at the same time.
    assert mean_wait(rates, offsets, 1, printed=True) == pytest.approx(27 / 140 / 12, rel=1e-6)


def test_outputs_of_units():
    # Three units with a period of 1/50 at 0, e, 2e: the first waits for 2e, the others for a period less e.
    e = Fraction(1, 10**10)
    assert mean_wait([50] * 3, [0, e, 2 * e]) == pytest.approx(float(Fraction(2, 50) / 3), rel=1e-12)


def test_equal_offsets_do_not_wait():
    assert mean_wait([50] * 3, [Fraction(1, 7)] * 3) == 0.0


@pytest.mark.parametrize(
    ("rates", "expected"), [([], 0.0), ([5], 0.0), ([0, 0], 0.0), ([0, 5], 0.0), ([0, 4, 4], 0.125)]
)
def test_silent_streams_hold_nothing_back(rates, expected):
    assert mean_wait(rates, [Fraction(i, 10**10) for i in range(len(rates))]) == pytest.approx(expected)


def test_the_hyper_period_is_cut_to_whole_tuples():
    # Within 1 s: 2 of the 2.5 tuples of R, at 0 and 2/5, and 1 of the 1.5 of S, at e. R waits for e and
    # 2/3 + e - 2/5, S for 2/5 - e: 2/3 + e in all, divided by 4 tuples, not by 3.
    e = Fraction(1, 10**10)
    wait = mean_wait([Fraction(5, 2), Fraction(3, 2)], [0, e], 1)
    assert wait == pytest.approx(float((Fraction(2, 3) + e) / 4), rel=1e-14)


def test_slower_than_an_interval():
    assert mean_wait([Fraction(1, 3), Fraction(1, 2)], [0, Fraction(1, 10)], 1) == 0.0


RATES = st.lists(st.fractions(Fraction(1, 4), 12, max_denominator=6), min_size=2, max_size=5)
OFFSETS = st.sampled_from(
    [
        [Fraction(i, 10**10) for i in range(5)],
        [Fraction(i, 24) for i in (0, 3, 1, 7, 30)],
        [Fraction(1, 3)] * 5,
    ]
)


@given(RATES, OFFSETS, st.sampled_from([None, 1, Fraction(1, 2)]))
def test_definition(rates, offsets, longest):
    offsets = offsets[: len(rates)]
    assert mean_wait(rates, offsets, longest or 4) == pytest.approx(
        simulate(rates, offsets, longest or 4), rel=1e-12, abs=1e-15
    )


@given(st.integers(1, 6), st.fractions(Fraction(1, 9), 50, max_denominator=9), OFFSETS)
def test_definition_for_units(units, rate, offsets):
    offsets = [*offsets, Fraction(1, 5)][:units]
    assert mean_wait([rate] * units, offsets) == pytest.approx(
        simulate([rate] * units, offsets), rel=1e-12, abs=1e-15
    )


def in_fractions(rates, offsets, longest, printed=False):
    """Equation 20, tuple by tuple: as printed, or with the offset in the rounding."""
    above, below = zip(*(Fraction(rate).as_integer_ratio() for rate in rates), strict=True)
    hyper = min(Fraction(math.lcm(*below), math.gcd(*above)), longest)
    total = Fraction(0)
    streams = list(zip(rates, offsets, strict=True))
    for j, (rate, offset) in enumerate(streams):
        for m in range(math.floor(hyper * rate)):
            at = m / rate + offset
            waits = [
                math.ceil((at - (0 if printed else e)) * r) / r + e - at
                for x, (r, e) in enumerate(streams)
                if x != j
            ]
            total += max(waits)
    return float(total / (hyper * sum(rates)))


@given(RATES, OFFSETS, st.sampled_from([Fraction(4), Fraction(1, 2)]))
def test_equations_as_printed(rates, offsets, longest):
    offsets = offsets[: len(rates)]
    wait = mean_wait(rates, offsets, longest, printed=True)
    assert wait == pytest.approx(in_fractions(rates, offsets, longest, printed=True), rel=1e-12)


@pytest.mark.parametrize("printed", [False, True])
@given(
    st.lists(st.fractions(1, 10**6, max_denominator=10**6), min_size=2, max_size=3),
    st.lists(st.fractions(0, 2, max_denominator=10**12), min_size=3, max_size=3),
)
def test_large_numerators_and_denominators(printed, rates, offsets):
    # Products are above 2^64 here; only a few tuples are looked at.
    longest = 20 / max(rates)
    offsets = offsets[: len(rates)]
    assert mean_wait(rates, offsets, longest, printed) == pytest.approx(
        in_fractions(rates, offsets, longest, printed), rel=1e-9, abs=1e-18
    )


def test_high_rates_are_exact_and_fast():
    # Rates n and n + 1 with a hyper-period of 1 s. R at m/n meets S at m/(n+1) before it and waits for
    # (m+1)/(n+1) - m/n = (n - m)/(n(n+1)); R at 0 waits for e. S at m/(n+1) waits for
    # m/n - m/(n+1) = m/(n(n+1)), S at e for 1/n. The sums are (n-1)/2/(n+1) and 1/2 + 1/n, offsets aside.
    n = 100_003
    began = time.process_time()
    wait = mean_wait([n, n + 1], [0, Fraction(1, 10**18)], 1)
    assert time.process_time() - began < 1
    sums = Fraction(n - 1, 2 * (n + 1)) + Fraction(1, 2) + Fraction(1, n)
    assert wait == pytest.approx(float(sums / (2 * n + 1)), rel=1e-9)


def test_three_high_rates():
    rates, offsets = (
        [Fraction(17_000), Fraction(16_999), Fraction(7, 2)],
        [Fraction(i, 10**10) for i in range(3)],
    )
    assert mean_wait(rates, offsets, 1) == pytest.approx(in_fractions(rates, offsets, 1), rel=1e-12)


def test_two_very_high_rates():
    # As above, with far too many tuples to go through.
    n = 10**12 - 1
    wait = mean_wait([n, n + 1] * 2, [0, Fraction(1, 10**30)] * 2, 1)
    sums = Fraction(n - 1, 2 * (n + 1)) + Fraction(1, 2) + Fraction(1, n)
    assert wait == pytest.approx(float(sums / (2 * n + 1)), rel=1e-9)
