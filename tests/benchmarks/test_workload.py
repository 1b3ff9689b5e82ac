"""The workload: its keys, its band, and joins that are full when they are handed over."""

import numpy as np
import pytest

from benchmarks.workload import Feed, Gaussian, Workload


def test_keys_are_those_of_splitmix64():
    # The first outputs for seed 0, upper halves, as published with the generator.
    expected = np.array([0xE220A839, 0x6E789E6A, 0x06C45D18], np.uint32).view(np.int32)
    np.testing.assert_array_equal(Workload(10, seed=0).keys(0, 3), expected)


def test_any_part_of_the_stream_can_be_asked_for():
    workload = Workload(10)
    np.testing.assert_array_equal(workload.keys(0, 100)[37:50], workload.keys(37, 13))
    np.testing.assert_array_equal(workload.sides(0, 100)[37:50], workload.sides(37, 13))


@pytest.mark.parametrize(("window", "matches"), [(2**20, 2), (2**14, 64), (1000, 1), (16, 1)])
def test_band_is_as_wide_as_the_matches_ask_for(window, matches):
    workload = Workload(window, matches)
    width = workload.upper - workload.lower + 1
    assert width * window / 2**32 == pytest.approx(matches, rel=1e-3)


def test_join_has_full_windows_and_meets_the_wanted_matches():
    join = Workload(500, matches=4).join()
    assert (join.stats["stored_left"], join.stats["stored_right"]) == (500, 500)
    feed = Feed(Workload(500, matches=4), push=1000)
    pushes = feed.next_pushes(20_000)
    assert [len(keys) for _, keys in pushes] == [1000] * 20
    matches = sum(feed.join.count(sides, keys) for sides, keys in pushes)
    assert matches / 20_000 == pytest.approx(4, rel=0.1)


def test_feed_goes_on_where_it_stopped():
    workload = Workload(10)
    feed = Feed(workload, push=7)
    got = [feed.next_pushes(20), feed.next_pushes(20)]
    keys = np.concatenate([keys for pushes in got for _, keys in pushes])
    np.testing.assert_array_equal(keys, workload.keys(workload.warm, 40))


@pytest.mark.parametrize("drift", [0, 0.1, 1])
def test_gaussian_keys_meet_the_wanted_matches_however_fast_they_drift(drift):
    workload = Gaussian(1000, matches=4, drift=drift)
    join = workload.join()
    start, count = workload.warm, 20_000
    found = join.count(workload.sides(start, count), workload.keys(start, count))
    assert found / count == pytest.approx(4, rel=0.1)


def test_the_mean_of_gaussian_keys_moves_by_eight_deviations_a_window_and_turns_back():
    window = 1000
    workload = Gaussian(window, drift=1)
    turn = 12 * 2 * window  # arrivals: 96 deviations
    means = [workload.keys(start, 100).mean() / 2**25 for start in (0, 2 * window, turn, turn + 2 * window)]
    assert means == pytest.approx([-48 + 0.2, -40 + 0.2, 48 - 0.2, 40 - 0.2], abs=0.5)
    still = Gaussian(window).keys(0, 100_000) / 2**25 + 48
    assert (still.mean(), still.std()) == pytest.approx((0, 1), abs=0.02)


def test_any_part_of_a_drifting_stream_can_be_asked_for():
    workload = Gaussian(10, drift=0.4)
    np.testing.assert_array_equal(workload.keys(0, 100)[37:50], workload.keys(37, 13))


def test_a_join_takes_options():
    join = Workload(10).join("bucket-tree", workers=3, self_join=True)
    assert (join.index, join.workers, join.spec.self_join) == ("bucket-tree", 3, True)
