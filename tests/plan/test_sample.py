"""The selectivity of samples."""

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import SpecError
from slidejoin.plan.sample import measured_selectivity


def drifting(rows, seconds, seed):
    """Prices that rise by 1 a second, with timestamps."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(0, seconds * 10**6, rows))
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "price": times / 1e6 + draw.random(rows)})


@pytest.mark.parametrize(
    "window",
    [
        sj.within("2s", time="ts"),
        sj.interval("2s", "1s", time="ts"),
        sj.interval("2s", "1s", time=("ts", "ts")),
    ],
)
def test_only_pairs_within_the_window_count(window):
    left, right = drifting(3000, 300, 1), drifting(2000, 300, 2)
    on = sj.band("price", within=0.1)
    share, found, timed = measured_selectivity(left, right, on, window)
    assert timed
    assert found >= 1000
    before, after = (2.0, 2.0) if repr(window).startswith("within") else (2.0, 1.0)
    times = [table["ts"].cast(pa.int64()).to_numpy() / 1e6 for table in (left, right)]
    apart = times[1][None, :] - times[0][:, None]
    near = (-before <= apart) & (apart <= after)
    prices = [table["price"].to_numpy() for table in (left, right)]
    matching = np.abs(prices[1][None, :] - prices[0][:, None]) <= 0.1
    assert share == pytest.approx((near & matching).sum() / near.sum(), rel=0.1)
    # At any distance in time it is far less.
    assert measured_selectivity(left, right, on)[0] < share / 10


def test_samples_without_timestamps_are_told_apart():
    left = pa.table({"price": [1.0, 2.0]})
    assert not measured_selectivity(left, left, sj.equal("price"), sj.within("2s", time="ts")).timed
    gaps = pa.table({"price": [1.0, 2.0], "ts": pa.array([None, 1], pa.timestamp("us"))})
    assert not measured_selectivity(gaps, gaps, sj.equal("price"), sj.within("2s", time="ts")).timed


def test_whole_samples_give_the_exact_share():
    small = drifting(40, 20, 3)
    share, found, _ = measured_selectivity(
        small, small, sj.band("price", within=5), sj.within("2s", time="ts")
    )
    times = small["ts"].cast(pa.int64()).to_numpy()
    near = np.abs(times[None, :] - times[:, None]) <= 2 * 10**6
    assert (share, found) == (1.0, near.sum())


def test_selectivity_of_large_samples_is_close():
    draw = np.random.default_rng(3)
    left, right = (pa.table({"x": draw.integers(0, 10_000, 60_000)}) for _ in range(2))
    share, found, _ = measured_selectivity(left, right, sj.band("x", within=5))
    assert found >= 1000
    assert share == pytest.approx(11 / 10_000, rel=0.12)


def test_hot_samples_are_cheap():
    hot = pa.table({"x": np.zeros(2_000_000, np.int32)})
    assert measured_selectivity(hot, hot, sj.equal("x")) == (1.0, 256 * 256, False)


def test_an_empty_sample_is_refused():
    with pytest.raises(SpecError, match="right sample has no rows"):
        measured_selectivity(pa.table({"x": [1]}), pa.table({"x": pa.array([], pa.int64())}), sj.equal("x"))


def test_a_sample_is_looked_at_in_all_its_parts():
    rising = pa.table({"x": np.arange(40_000) // 4})  # the first rows of two such samples are all near
    share, *_ = measured_selectivity(rising, rising, sj.band("x", within=20))
    assert share == pytest.approx(41 / 10_000, rel=0.15)
