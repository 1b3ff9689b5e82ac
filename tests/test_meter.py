"""Latencies of pushes and recent figures: exact where it is promised, and near enough elsewhere."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.meter import SPAN, Latencies, Meter, Sample


def metered(nanoseconds):
    meter = Meter()
    for each in nanoseconds:
        meter.record(each)
    return meter


@given(st.lists(st.integers(1_100, 10**12), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_near_the_truth(nanoseconds, share):
    latencies = metered(nanoseconds).latencies()
    found = latencies.quantile(share) * 1e9
    place = min(max(math.ceil(share * len(nanoseconds)), 1), len(nanoseconds)) - 1
    assert found == pytest.approx(sorted(nanoseconds)[place], rel=0.0626)
    assert latencies.pushes == len(nanoseconds)
    assert latencies.seconds == sum(nanoseconds) / 1e9


@given(st.lists(st.integers(0, 2**50), max_size=50), st.integers(10, 50))
def test_powers_of_two_are_exact_ends_of_buckets(nanoseconds, bits):
    nanoseconds += [2**bits - 1, 2**bits, 2**bits + 1]
    latencies = metered(nanoseconds).latencies()
    assert latencies.up_to(2**bits) == sum(each <= 2**bits for each in nanoseconds)


@pytest.mark.parametrize("nanoseconds", [0, 1, 1023, 1024, 2**62])
def test_the_ends_of_the_scale(nanoseconds):
    latencies = metered([nanoseconds]).latencies()
    assert latencies.pushes == 1
    assert latencies.quantile(1) <= max(nanoseconds, 1024) * 1.0626 / 1e9


def test_no_push_has_no_latency():
    assert math.isnan(Meter().latencies().quantile(0.5))
    assert Meter().latencies().seconds == 0


def test_since_is_what_came_later():
    meter = metered([5_000] * 3)
    before = meter.latencies()
    meter.record(10**6)
    later = meter.latencies().since(before)
    assert (later.pushes, later.seconds) == (1, 0.001)
    assert isinstance(later, Latencies)
    assert before.pushes == 3, "a copy"


def sample(at, rows):
    stats = {**Meter().published.stats, "rows_left": rows}
    return Sample(at, stats)


def test_published_figures_never_go_back():
    meter = Meter()
    assert meter.publish(sample(10, 5)).rows == 5
    assert meter.publish(sample(9, 4)).rows == 5
    assert meter.publish(sample(11, 6)).rows == 6


def test_recent_figures_begin_ten_seconds_ago_or_at_the_first_moment():
    meter = Meter()
    second = 10**9
    for now in range(1, 61):
        meter.publish(sample(now * second, now))
    assert meter.base(60 * second).at == 60 * second - SPAN
    assert meter.base(10**12).at == 60 * second, "nothing came for a long time"
    young = Meter()
    young.publish(sample(3 * second, 7))
    assert young.base(4 * second).rows == 7
