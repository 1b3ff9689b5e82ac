"""NumericJoin: pairs do not depend on the index, the batches, the groups or the machine."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from cases import GROUPS, INDEXES, Case, cases, expected, run
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import isa


@given(cases())
def test_equals_the_reference(case):
    wanted, counters = expected(case)
    for index in INDEXES:
        found, stats = run(case, index=index)
        assert found == wanted
        assert {name: stats[name] for name in stats if name != "memory_bytes"} == {
            name: counters[name] for name in stats if name != "memory_bytes"
        }


@given(cases(), st.data())
def test_any_split_into_batches(case, data):
    splits = data.draw(st.lists(st.integers(0, len(case.arrivals)), max_size=8))
    index = data.draw(st.sampled_from(INDEXES))
    group = data.draw(st.sampled_from(GROUPS))
    whole, whole_stats = run(case, index=index, group=group)
    split, split_stats = run(case, splits=splits, index=index, group=group)
    one_by_one, _ = run(case, splits=range(len(case.arrivals)), index=index, group=group)
    assert split == whole
    assert one_by_one == whole
    assert {**whole_stats, "memory_bytes": 0} == {**split_stats, "memory_bytes": 0}


@given(cases(max_size=300))
def test_any_group_index_and_instruction_set(case):
    wanted, _ = run(case, index="nested-loop", group=1, level="portable")
    for level in isa.available():
        for index in INDEXES:
            for group in GROUPS:
                found, _ = run(case, index=index, group=group, level=level, checked=False)
                assert found == wanted, (level, index, group)


@given(cases())
def test_count_is_the_length_of_push(case):
    for index in INDEXES:
        for group in (1, 16, None):
            join = case.join(index=index, group=group)
            assert join.count(*case.arrays()) == len(run(case, index=index, group=group)[0])
            join.check()


@st.composite
def cases_of_nulls(draw):
    """Streams of which half the keys are NaN, longer than their windows.

    ``cases`` draws one in a hundred with a NaN at all, and next to none where a NaN meets a full window.
    """
    self_join = draw(st.booleans())
    window = draw(st.sampled_from([1, 2, 3, (1, 3), sj.within(2)]))
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from([math.nan, math.nan, 0.0, 1.0]), st.integers(0, 1)),
            min_size=6,
            max_size=30,
        )
    )
    times = np.cumsum([step for _, _, step in steps]).tolist()
    arrivals = tuple((side, key, time) for (side, key, _), time in zip(steps, times, strict=True))
    if self_join and isinstance(window, tuple):
        window = window[0]
    return Case(draw(st.sampled_from(["float32", "float64"])), window, -1.0, 1.0, self_join, arrivals)


@given(cases_of_nulls(), st.sampled_from(GROUPS), st.integers(1, 4))
def test_nulls_leave_the_window_as_other_keys_do(case, group, size):
    """In pushes of one row too, some of them nothing but a null; the index is checked after each."""
    wanted, counters = expected(case)
    for index in INDEXES:
        for splits in (range(len(case.arrivals)), range(0, len(case.arrivals), size)):
            found, stats = run(case, splits=splits, index=index, group=group)
            assert found == wanted
            assert all(stats[name] == counters[name] for name in stats if name != "memory_bytes")


# Turning a band round is exact for integers only: float sums round differently.
INTEGERS = ("int8", "int32", "int64", "uint16", "uint64")


@given(cases(keys=INTEGERS, self_joins=False))
def test_sides_swapped_with_the_negated_band(case):
    window = case.window[::-1] if isinstance(case.window, tuple) else case.window
    swapped = Case(
        case.key,
        window,
        -case.upper,
        -case.lower,
        case.self_join,
        tuple((1 - side, key, time) for side, key, time in case.arrivals),
    )
    found, _ = run(case)
    mirrored, _ = run(swapped)
    assert [(right, left) for left, right in mirrored] == found


@given(cases(keys=("int16", "int32"), max_size=80), st.integers(-(2**20), 2**20))
def test_keys_shifted(case, shift):
    wide = Case("int64", *[getattr(case, f) for f in ("window", "lower", "upper", "self_join", "arrivals")])
    shifted = Case(
        "int64",
        case.window,
        case.lower,
        case.upper,
        case.self_join,
        tuple((side, key + shift, time) for side, key, time in case.arrivals),
    )
    assert run(wide)[0] == run(shifted)[0]


@given(cases(), st.integers(0, 5))
def test_a_wider_band_finds_no_less(case, more):
    if case.dtype.kind == "f" and max(abs(case.lower), abs(case.upper)) > 1e30:
        more = 0
    wider = Case(case.key, case.window, case.lower - more, case.upper + more, case.self_join, case.arrivals)

    def unordered(found):  # a wider band may turn a self-join's pair round
        return {tuple(sorted(pair)) if case.self_join else pair for pair in found}

    assert unordered(run(case)[0]) <= unordered(run(wider)[0])


WINDOW, PART = 700, 1111


@functools.cache
def stream_of(shape, n=6000):
    """Sides, keys and bounds; the pairs of each part by the plainest join, and how many there are in all."""
    rng = np.random.default_rng(len(shape))
    steps = np.arange(n)
    keys = {
        "uniform": rng.integers(-(2**31), 2**31, n),
        "equal": np.full(n, 5),
        "two": rng.integers(0, 2, n) * 1000,
        "rising": steps * 3,
        "falling": -steps * 3,
        "sawtooth": steps % 500 * 7,
        "drift": (rng.normal(0, 50, n) + steps).astype(np.int64),
        "ends": np.where(rng.random(n) < 0.5, -(2**31), 2**31 - 1),
    }[shape].astype(np.int32)
    sides = (rng.random(n) < 0.4).astype(np.uint8)
    bounds = (-(2**22), 2**22) if shape == "uniform" else (-4, 9)
    plain = sj.NumericJoin(WINDOW, *bounds, np.int32, index="nested-loop", group=1)
    parts = [slice(start, start + PART) for start in range(0, n, PART)]
    wanted = [(part, plain.push(sides[part], keys[part])) for part in parts]
    return sides, keys, bounds, wanted, by_numpy(sides, keys, WINDOW, *bounds)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    "shape", ["uniform", "equal", "two", "rising", "falling", "sawtooth", "drift", "ends"]
)
def test_long_streams_of_every_shape(index, group, shape):
    """Enough tuples for the tree to grow, shrink and turn over several times."""
    sides, keys, bounds, wanted, matches = stream_of(shape)
    join = sj.NumericJoin(WINDOW, *bounds, np.int32, index=index, group=group)
    for part, pairs_of_part in wanted:
        np.testing.assert_array_equal(join.push(sides[part], keys[part]), pairs_of_part)
        join.check()
    assert join.stats["matches"] == matches


def by_numpy(sides, keys, window, lower, upper):
    """Number of matches, by another road than the core's and the reference's."""
    arrival = np.arange(len(keys))
    left, right = keys[sides == 0].astype(np.int64), keys[sides == 1].astype(np.int64)
    at_left, at_right = arrival[sides == 0], arrival[sides == 1]
    lefts_before = np.searchsorted(at_left, at_right)  # left tuples that each right tuple finds there
    rights_before = np.searchsorted(at_right, at_left)
    difference = right[None, :] - left[:, None]
    at_l, at_r = np.arange(len(left))[:, None], np.arange(len(right))[None, :]
    right_is_later = (at_l < lefts_before[None, :]) & (at_l >= lefts_before[None, :] - window)
    left_is_later = (at_r < rights_before[:, None]) & (at_r >= rights_before[:, None] - window)
    band = (difference >= lower) & (difference <= upper)
    return int((band & (right_is_later | left_is_later)).sum())


def test_fractional_bounds_of_integers_are_the_whole_numbers_inside():
    for lower, upper, whole in [
        (Fraction(1, 2), Fraction(5, 2), (1, 2)),
        (-1.5, 1.5, (-1, 1)),
        (0.2, 0.8, (1, 0)),
    ]:
        join = sj.NumericJoin(10, lower, upper, np.int32)
        assert (join.spec.lower, join.spec.upper) == whole == (math.ceil(lower), math.floor(upper))
        _, right = join.push([0] + [1] * 7, [0, *range(-3, 4)])
        assert [int(key) - 3 for key in right] == [k for k in range(-3, 4) if lower <= k <= upper]
