"""The chooser: what it reads from a batch, and where its decisions change."""

import doctest

import numpy as np
import pytest

from slidejoin import chooser
from slidejoin.chooser import FirstBatch, choose, observe
from slidejoin.index import PARAMETERS


def first(size, density=0.0, moving=False):
    return FirstBatch(size, density, moving)


@pytest.mark.parametrize(
    ("window", "batch", "index"),
    [
        (64, first(10**5, 1.0, True), "nested-loop"),
        (65, first(1), "b-tree"),
        (2**13, first(63), "b-tree"),
        (2**13 + 1, first(63), "pim-tree"),
        (2**23, first(0), "pim-tree"),
        (2**23, first(63, moving=True), "pim-tree"),
        (2**20, first(64), "rap-table"),
        (2**20, first(64, moving=True), "wib-tree"),
        (2**20, first(2340), "rap-table"),
        (2**20, first(2341), "bi-sort"),
        (2**20, first(2341, moving=True), "bi-sort"),
        (2**30, first(2**16 - 1), "rap-table"),
        (2**30, first(2**16), "bi-sort"),
        (2**20, first(1, 127 / 2**20), "pim-tree"),
        (2**20, first(1, 128 / 2**20), "bi-sort"),
        (2**20, first(100, 128 / 2**20, moving=True), "bi-sort"),
        (None, first(1), "pim-tree"),
        (None, first(1000), "rap-table"),
        (None, first(1000, moving=True), "wib-tree"),
        (None, first(1000, 0.128), "bi-sort"),
        (None, first(2**16), "bi-sort"),
    ],
)
def test_decisions(window, batch, index):
    assert choose(window, batch) == index


def test_every_decision_is_an_index():
    sizes, densities = (0, 1, 64, 1000, 2**17), (0.0, 1e-3, 1.0)
    windows = (None, 1, 64, 65, 10**4, 2**20, 2**30)
    chosen = {
        choose(window, first(size, density, moving))
        for window in windows
        for size in sizes
        for density in densities
        for moving in (False, True)
    }
    assert chosen <= set(PARAMETERS)
    assert len(chosen) == 6


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("width", [0, 10, 1000])
def test_density_is_the_share_of_keys_in_the_band(dtype, width):
    rng = np.random.default_rng(3)
    left, right = (rng.integers(0, 10_000, 20_000).astype(dtype) for _ in range(2))
    batch = observe(left, right, -width, width)
    assert batch.density == pytest.approx((2 * width + 1) / 10_000, rel=0.15)
    assert batch.size == 20_000
    assert not batch.moving


@pytest.mark.parametrize(
    ("dtype", "start"), [(np.int64, -(2**63)), (np.int64, 2**62), (np.uint64, 2**63 + 1), (np.int16, -128)]
)
def test_differences_of_large_integers_are_kept(dtype, start):
    keys = np.array([start + step for step in range(200)], dtype)
    assert observe(keys, keys, 0, 0).density == pytest.approx(1 / 200)


def test_keys_at_both_ends_of_their_type():
    ends = np.array([-(2**63), 2**63 - 1] * 50, np.int64)
    assert observe(ends, ends, -1, 1).density == pytest.approx(0.5)


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("sign", [1, -1])
def test_keys_that_rise_or_fall_move(side, sign):
    rng = np.random.default_rng(5)
    steady = rng.normal(0, 100, 1000)
    moving = sign * (np.arange(1000) + rng.normal(0, 50, 1000))
    left = moving if side != "right" else steady
    right = moving if side != "left" else steady
    assert observe(left, right, -1, 1).moving


@pytest.mark.parametrize(
    "keys",
    [
        np.zeros(1000),
        np.arange(1000) % 2,
        np.arange(1000) % 50,  # a sawtooth of many teeth
        np.random.default_rng(7).normal(0, 1, 1000),
        np.random.default_rng(7).zipf(1.5, 1000),
        np.random.default_rng(7).normal(0, 1, 1000) + np.linspace(0, 0.3, 1000),  # hardly
        np.arange(63),  # too few to tell
    ],
)
def test_other_keys_do_not(keys):
    assert not observe(keys, keys, -1, 1).moving


def test_sides_that_are_empty_or_without_keys():
    none, keys = np.empty(0), np.arange(100.0)
    assert observe(none, none, -1, 1) == first(0)
    assert observe(keys, none, -1, 1) == first(100, 0.0, True)
    assert observe(none, np.full(100, np.nan), -1, 1) == first(0)
    assert observe(np.append(keys, np.nan), keys, -0.5, 0.5) == first(100, 0.01, True)


def test_a_band_that_is_empty_has_no_matches():
    keys = np.arange(100)
    assert observe(keys, keys, 5, -5).density == 0


def test_docstrings():
    result = doctest.testmod(chooser)
    assert result.attempted > 0
    assert result.failed == 0
