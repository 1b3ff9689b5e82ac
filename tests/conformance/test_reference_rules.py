"""One test for each rule of the semantics that the reference can express."""

import copy
import doctest
import itertools
import math
import random
from fractions import Fraction
from typing import get_args

import pytest

from slidejoin import reference
from slidejoin.reference import (
    LEFT,
    RIGHT,
    Arrival,
    Interval,
    ReadyOrder,
    ReferenceJoin,
    Rows,
    Within,
    agrees,
    all_of,
    band,
    bands,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
    to_float32,
)

NAN, INF = math.nan, math.inf
EVERYTHING = Rows(1000, 1000)
HOWS = get_args(reference.How)
ALL_PREDICATES = {
    "band": band(-5, 5, "float64"),
    "bands": bands([(-5, 0), (1, 5)], "float64"),
    "equal": equal(),
    "not_equal": not_equal(),
    "less": less(),
    "less_equal": less_equal(),
    "greater": greater(),
    "greater_equal": greater_equal(),
}


def always(_left, _right):
    return True


def fed(join, *arrivals):
    """Push rows given as (side, key, ts, store) and return the results of each."""
    return [join.push(*arrival) for arrival in arrivals]


def pairs(left, right, matches):
    """Join two lists of keys in a window that holds them all."""
    arrivals = [Arrival(LEFT, key) for key in left] + [Arrival(RIGHT, key) for key in right]
    return [pair for results in reference.join(arrivals, matches, EVERYTHING) for pair in results]


def stored(join):
    return join.stats["stored_left"], join.stats["stored_right"]


def test_the_examples_in_the_docstrings_hold():
    outcome = doctest.testmod(reference)
    assert outcome.attempted > 5
    assert outcome.failed == 0


class TestMatching:
    def test_a_band_is_the_same_whichever_side_arrives_last(self):
        asymmetric = band(1, 3)
        assert fed(ReferenceJoin(asymmetric, EVERYTHING), (LEFT, 10), (RIGHT, 13)) == [[], [(0, 0)]]
        assert fed(ReferenceJoin(asymmetric, EVERYTHING), (RIGHT, 13), (LEFT, 10)) == [[], [(0, 0)]]
        assert fed(ReferenceJoin(asymmetric, EVERYTHING), (LEFT, 13), (RIGHT, 10)) == [[], []]

    def test_a_band_is_closed_at_both_ends(self):
        assert [band(1, 3)(10, right) for right in range(10, 15)] == [
            False,
            True,
            True,
            True,
            False,
        ]

    def test_a_sum_beyond_the_type_matches_nothing(self):
        assert not any(band(10, 20)(120, right) for right in range(-128, 128))
        assert pairs([2**63 - 1], [2**63 - 1, -(2**63)], band(1, 5)) == []

    def test_a_band_that_is_partly_beyond_the_type_matches_the_part_inside(self):
        assert [right for right in range(-128, 128) if band(-1, 20)(126, right)] == [125, 126, 127]

    def test_float_bands_use_the_sum_form(self):
        assert 0.4 - 0.1 > 0.3
        assert 0.1 + 0.3 >= 0.4
        assert band(0, 0.3, "float64")(0.1, 0.4)

    def test_float32_sums_are_rounded_to_float32(self):
        left = float(2**24)
        assert not band(1, 1, "float64")(left, left)
        assert band(1, 1, "float32")(left, left)

    def test_float_bounds_are_rounded_to_the_type_of_the_key(self):
        assert not band(-0.1, 0.1, "float64")(0.0, to_float32(0.1))
        assert band(-0.1, 0.1, "float32")(0.0, to_float32(0.1))

    @pytest.mark.parametrize("half", [0.5, Fraction(1, 2)])
    def test_fractional_bounds_on_integers_shrink_inwards(self, half):
        matches = band(-2 - half, 2 + half)
        assert [right for right in range(-5, 6) if matches(0, right)] == [-2, -1, 0, 1, 2]
        assert not any(band(Fraction(1, 5), Fraction(4, 5))(0, right) for right in range(-2, 3))

    def test_fractional_bounds_are_exact_for_large_integers(self):
        matches = band(Fraction(1, 2), Fraction(3, 2))
        assert [d for d in range(4) if matches(2**62, 2**62 + d)] == [1]

    @pytest.mark.parametrize("bad", [NAN, INF, -INF])
    def test_bounds_are_finite(self, bad):
        for kind in ("int", "float64", "float32"):
            with pytest.raises(ValueError, match="finite"):
                band(bad, 1, kind)
            with pytest.raises(ValueError, match="finite"):
                band(1, bad, kind)

    def test_bounds_are_finite_in_the_type_of_the_key(self):
        band(0, 1e39, "float64")
        with pytest.raises(ValueError, match="infinite as float32"):
            band(0, 1e39, "float32")

    @pytest.mark.parametrize("name", ALL_PREDICATES)
    @pytest.mark.parametrize("missing", [None, NAN])
    def test_null_and_nan_never_match(self, name, missing):
        matches = ALL_PREDICATES[name]
        assert pairs([missing], [missing, 0.0, 1.0, -1.0, INF], matches) == []
        assert pairs([0.0, 1.0, -1.0, INF], [missing], matches) == []

    def test_null_and_nan_are_counted(self):
        join = ReferenceJoin(equal(), EVERYTHING)
        fed(join, (LEFT, None), (LEFT, NAN), (LEFT, 1.0), (RIGHT, NAN))
        assert (join.stats["null_left"], join.stats["null_right"]) == (2, 1)

    def test_infinities_are_ordinary_values(self):
        keys = [-INF, 0.0, INF]
        assert pairs(keys, keys, band(-1, 1, "float64")) == [(0, 0), (1, 1), (2, 2)]
        assert pairs(keys, keys, equal()) == [(0, 0), (1, 1), (2, 2)]
        assert pairs(keys, keys, less()) == [(0, 1), (0, 2), (1, 2)]

    def test_negative_zero_equals_zero(self):
        assert pairs([-0.0], [0.0], equal()) == [(0, 0)]
        assert pairs([-0.0], [0.0], not_equal()) == []
        assert pairs([0.0], [-0.0], less_equal()) == [(0, 0)]
        assert pairs([-0.0], [0.0], less()) == []
        assert pairs([0.0], [-0.0], band(0, 0, "float64")) == [(0, 0)]

    @pytest.mark.parametrize(
        ("matches", "expected"),
        [
            (equal(), [False, True, False]),
            (not_equal(), [True, False, True]),
            (less(), [False, False, True]),
            (less_equal(), [False, True, True]),
            (greater(), [True, False, False]),
            (greater_equal(), [True, True, False]),
        ],
    )
    def test_comparisons_read_left_to_right(self, matches, expected):
        assert [matches(5, right) for right in (4, 5, 6)] == expected

    @pytest.mark.parametrize("keys", [["a", "b", "ä", ""], [b"a", b"b", b"\x00", b""]])
    def test_strings_and_bytes_are_compared_by_value(self, keys):
        same = [(i, i) for i in range(4)]
        assert pairs(keys, keys, equal()) == same
        assert sorted([*pairs(keys, keys, not_equal()), *same]) == [
            (i, j) for i in range(4) for j in range(4)
        ]

    def test_overlapping_ranges_count_once(self):
        assert pairs([0], range(6), bands([(0, 3), (2, 5), (2, 3)])) == [(0, j) for j in range(6)]

    def test_ranges_apart_leave_the_gap_out(self):
        assert pairs([0], range(6), bands([(4, 5), (0, 1)])) == [(0, 0), (0, 1), (0, 4), (0, 5)]

    def test_a_conjunction_needs_every_part(self):
        left = [("a", 10), ("b", 10)]
        right = [("a", 11), ("a", 15), ("b", 9)]
        assert pairs(left, right, all_of(equal(), band(-1, 1))) == [(0, 0), (1, 2)]

    def test_a_conjunction_with_a_null_part_never_matches_and_counts_as_one_null(self):
        join = ReferenceJoin(all_of(equal(), not_equal()), EVERYTHING, how="left")
        results = fed(join, (RIGHT, ("a", 1)), (LEFT, ("a", None)), (LEFT, (None, NAN)))
        assert results == [[], [(0, None)], [(1, None)]]
        assert join.stats["null_left"] == 2

    def test_specifications_without_meaning_are_refused(self):
        for refused in (
            lambda: band(3, 1),
            lambda: bands([(0, 1), (3, 1)]),
            lambda: bands([]),
            lambda: Rows(0, 5),
            lambda: Rows(5, 0),
            lambda: Within(0),
            lambda: Within(-1),
            lambda: Interval(before=-5, after=4),
            lambda: Interval(1, 1, lateness=-1),
            lambda: ReferenceJoin(equal(), EVERYTHING, how="outer"),
            lambda: ReferenceJoin(equal(), EVERYTHING).push(2, 1),
        ):
            with pytest.raises(ValueError, match=r"[;,]"):
                refused()
        Interval(before=-5, after=5)


class TestPositions:
    def test_each_side_counts_its_own_rows_from_zero(self):
        join = ReferenceJoin(equal(), EVERYTHING)
        results = fed(join, (LEFT, 1), (LEFT, 2), (RIGHT, 2), (RIGHT, 1))
        assert results == [[], [], [(1, 0)], [(0, 1)]]

    def test_a_null_key_takes_a_position_and_a_place_in_the_window(self):
        join = ReferenceJoin(equal(), Rows(2, 2))
        fed(join, (LEFT, 1), (LEFT, None))
        assert join.push(RIGHT, 1) == [(0, 0)]
        fed(join, (LEFT, None))
        assert join.push(RIGHT, 1) == []
        assert fed(join, (LEFT, 7), (RIGHT, 7)) == [[], [(3, 2)]]

    def test_a_late_row_takes_no_position(self):
        join = ReferenceJoin(always, Interval(100, 100))
        join.advance(10)
        assert fed(join, (LEFT, 0, 9), (LEFT, 0, 10), (RIGHT, 0, 12)) == [[], [], [(0, 0)]]

    @pytest.mark.parametrize("how", HOWS)
    def test_a_late_row_appears_in_no_join_type(self, how):
        join = ReferenceJoin(always, Interval(100, 100), how)
        join.advance(10)
        assert fed(join, (LEFT, 0, 9), (RIGHT, 0, 9), (LEFT, None, 8)) == [[], [], []]
        assert join.finish() == []

    def test_nothing_is_deduplicated(self):
        assert pairs([5, 5], [5, 5], equal()) == [(0, 0), (1, 0), (0, 1), (1, 1)]


class TestRows:
    def test_an_arrival_sees_the_last_n_rows_of_the_other_side(self):
        join = ReferenceJoin(always, Rows(2, 2))
        fed(join, (LEFT, 0), (LEFT, 0), (LEFT, 0))
        assert join.push(RIGHT, 0) == [(1, 0), (2, 0)]

    def test_the_two_sides_may_keep_different_numbers_of_rows(self):
        join = ReferenceJoin(equal(), Rows(left=3, right=1))
        fed(join, *[(LEFT, 1)] * 5, *[(RIGHT, 2)] * 5)
        assert stored(join) == (3, 1)
        assert join.push(RIGHT, 1) == [(2, 5), (3, 5), (4, 5)]
        assert join.push(LEFT, 1) == [(5, 5)]

    def test_arrivals_of_the_other_side_push_nothing_out(self):
        join = ReferenceJoin(equal(), Rows(1, 1))
        fed(join, (LEFT, 1), *[(RIGHT, 2)] * 9)
        assert join.push(RIGHT, 1) == [(0, 9)]

    def test_timestamps_are_not_needed_and_not_looked_at(self):
        join = ReferenceJoin(equal(), Rows(1, 1))
        assert fed(join, (LEFT, 1, 50), (RIGHT, 1, 3), (LEFT, 1)) == [[], [(0, 0)], [(1, 0)]]
        assert join.stats["watermark"] is None
        assert join.stats["null_left"] == 0


class TestWithin:
    def test_a_row_is_seen_up_to_and_including_its_duration(self):
        join = ReferenceJoin(always, Within(10))
        fed(join, (LEFT, 0, 0), (LEFT, 0, 1))
        assert join.push(RIGHT, 0, 10) == [(0, 0), (1, 0)]
        assert join.push(RIGHT, 0, 11) == [(1, 1)]

    def test_a_decreasing_timestamp_is_an_error_that_changes_nothing(self):
        join = ReferenceJoin(always, Within(10), how="full")
        join.push(LEFT, 0, 5)
        before = join.stats
        with pytest.raises(ValueError, match="timestamp 4 after 5"):
            join.push(RIGHT, 0, 4)
        assert join.stats == before
        assert join.push(RIGHT, 0, 5) == [(0, 0)]

    def test_a_null_timestamp_never_matches_and_does_not_move_time(self):
        join = ReferenceJoin(always, Within(10), how="full")
        results = fed(join, (LEFT, 0, 5), (RIGHT, 0, None), (RIGHT, 0, 5))
        assert results == [[], [(None, 0)], [(0, 1)]]
        assert join.stats["null_right"] == 1

    def test_cross_purging_measures_the_age_at_the_arrival(self):
        join = ReferenceJoin(always, Within(30))
        assert fed(join, (LEFT, 0, 0), (RIGHT, 0, 31)) == [[], []]

    def test_self_purging_keeps_a_row_until_its_own_side_moves_on(self):
        join = ReferenceJoin(always, Within(30, purge="self"))
        fed(join, (LEFT, 0, 0), (LEFT, 0, 30))
        assert join.push(RIGHT, 0, 500) == [(0, 0), (1, 0)]
        assert join.push(LEFT, 0, 531) == [(2, 0)]
        assert join.push(RIGHT, 0, 531) == [(2, 1)]

    def test_the_figure_of_the_paper(self):
        """Minutes of the day; the arrival at 08:25 meets three rows and matches one."""
        arrivals = [
            Arrival(LEFT, 3, 7 * 60 + 54),
            Arrival(RIGHT, 3, 8 * 60 + 2),
            Arrival(LEFT, 5, 8 * 60 + 10),
            Arrival(RIGHT, 1, 8 * 60 + 15),
            Arrival(LEFT, 4, 8 * 60 + 22),
            Arrival(RIGHT, 4, 8 * 60 + 24),
            Arrival(LEFT, 3, 8 * 60 + 25),
        ]
        for purge in ("cross", "self"):
            results = reference.join(arrivals, less(), Within(30, purge))
            assert results[5:7] == [[(0, 2)], [(3, 2)]]

    def test_a_self_purging_self_join_compares_before_it_purges(self):
        arrivals = [Arrival(LEFT, 0, 0), Arrival(LEFT, 0, 100), Arrival(LEFT, 0, 100)]
        by_self = reference.join(arrivals, always, Within(10, "self"), self_join=True)
        by_cross = reference.join(arrivals, always, Within(10), self_join=True)
        assert by_self == [[], [(0, 1)], [(1, 2)], []]
        assert by_cross == [[], [], [(1, 2)], []]


class TestInterval:
    @pytest.mark.parametrize(("before", "after"), [(5, 10), (-3, 10), (5, -3), (0, 0)])
    def test_pairs_do_not_depend_on_the_arrival_order(self, before, after):
        times = range(0, 40, 1)
        expected = {(i, j) for i in times for j in times if -before <= j - i <= after}
        rows = [Arrival(side, 0, ts) for side in (LEFT, RIGHT) for ts in times]
        random.Random(1).shuffle(rows)
        at = [[row.ts for row in rows if row.side == side] for side in (LEFT, RIGHT)]
        results = reference.join(rows, always, Interval(before, after))
        found = [(at[LEFT][i], at[RIGHT][j]) for results_of_one in results for i, j in results_of_one]
        assert sorted(found) == sorted(expected)

    def test_the_watermark_is_the_slower_side_less_the_lateness(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=3))
        marks = []
        for side, ts in [(LEFT, 50), (RIGHT, 20), (RIGHT, 19), (LEFT, 48), (RIGHT, 60), (LEFT, 70)]:
            join.push(side, 0, ts)
            marks.append(join.stats["watermark"])
        assert marks == [None, 17, 17, 17, 47, 57]

    def test_the_watermark_moves_after_every_row(self):
        join = ReferenceJoin(always, Interval(50, 50, lateness=0))
        assert fed(join, (LEFT, 0, 10), (RIGHT, 0, 10)) == [[], [(0, 0)]]
        fed(join, (RIGHT, 0, 9), (LEFT, 0, 9))
        assert (join.stats["late_left"], join.stats["late_right"]) == (1, 1)

    def test_a_row_is_late_before_the_watermark(self):
        join = ReferenceJoin(always, Interval(5, 5))
        join.advance(10)
        fed(join, (LEFT, 0, 9), (LEFT, 0, 10), (LEFT, 0, 11))
        assert (join.stats["late_left"], join.stats["rows_left"]) == (1, 2)

    @pytest.mark.parametrize("lateness", [0, 3])
    def test_a_row_exactly_the_lateness_behind_is_in_time(self, lateness):
        join = ReferenceJoin(always, Interval(0, 0, lateness=lateness))
        fed(join, (LEFT, 0, 10), (RIGHT, 0, 10))
        assert fed(join, (LEFT, 0, 10 - lateness), (RIGHT, 0, 10 - lateness))[1][-1] == (1, 1)
        fed(join, (LEFT, 0, 9 - lateness), (RIGHT, 0, 9 - lateness))
        assert (join.stats["late_left"], join.stats["late_right"]) == (1, 1)

    def test_without_lateness_ties_of_a_stream_in_order_all_meet(self):
        join = ReferenceJoin(always, Interval(0, 0, lateness=0))
        for side in (LEFT, RIGHT, RIGHT, LEFT, LEFT):
            join.push(side, 0, 10)
        assert (join.stats["matches"], join.stats["late_left"], join.stats["late_right"]) == (6, 0, 0)
        assert stored(join) == (3, 2)

    def test_the_watermark_never_goes_back(self):
        join = ReferenceJoin(always, Interval(5, 5))
        join.advance(10)
        join.advance(4)
        assert join.stats["watermark"] == 10
        join.advance(20, side=LEFT)
        join.advance(15, side=LEFT)
        join.advance(20, side=RIGHT)
        assert join.stats["watermark"] == 20

    def test_late_rows_are_dropped_or_handed_over_once(self):
        returning = ReferenceJoin(always, Interval(5, 5, late="return"))
        dropping = ReferenceJoin(always, Interval(5, 5))
        for join in (returning, dropping):
            join.advance(10)
            fed(join, (LEFT, "a", 1), (RIGHT, "b", 2), (LEFT, "c", 3))
            assert (join.stats["late_left"], join.stats["late_right"]) == (2, 1)
        assert returning.take_late(LEFT) == [Arrival(LEFT, "a", 1), Arrival(LEFT, "c", 3)]
        assert returning.take_late(LEFT) == []
        assert returning.take_late(RIGHT) == [Arrival(RIGHT, "b", 2)]
        assert dropping.take_late(LEFT) == []

    def test_a_left_row_waits_for_after_and_a_right_row_for_before(self):
        join = ReferenceJoin(less(), Interval(before=3, after=7))
        fed(join, (LEFT, 9, 10), (RIGHT, 1, 10))
        kept = {}
        for to in (13, 14, 17, 18):
            join.advance(to)
            kept[to] = stored(join)
        assert kept == {13: (1, 1), 14: (1, 0), 17: (1, 0), 18: (0, 0)}

    def test_a_side_without_rows_holds_the_watermark_back(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0))
        fed(join, (LEFT, 0, 10), (LEFT, 0, 1000))
        assert join.stats["watermark"] is None
        assert stored(join) == (2, 0)

    def test_advance_releases_one_side_or_both(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0), how="left")
        fed(join, (LEFT, 0, 10), (LEFT, 0, 1000))
        assert join.advance(15, side=RIGHT) == []
        assert join.advance(16, side=RIGHT) == [(0, None)]
        assert join.stats["watermark"] == 16
        assert join.advance(1006) == [(1, None)]

    def test_advance_is_not_reduced_by_the_lateness(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=100))
        join.advance(10)
        assert join.stats["watermark"] == 10

    def test_an_idle_side_is_released_until_its_next_row(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0), how="full")
        fed(join, (RIGHT, 0, 10), (LEFT, 0, 100))
        assert join.stats["watermark"] == 10
        assert join.idle(RIGHT) == [(None, 0)]
        assert join.stats["watermark"] == 100
        join.push(LEFT, 0, 200)
        assert join.stats["watermark"] == 200
        join.push(RIGHT, 0, 250)
        join.push(LEFT, 0, 300)
        assert join.stats["watermark"] == 250

    def test_a_late_row_and_advance_end_idleness_too(self):
        for sign in (
            lambda join: join.push(RIGHT, 0, 5),
            lambda join: join.advance(20, side=RIGHT),
        ):
            join = ReferenceJoin(always, Interval(5, 5, lateness=0))
            fed(join, (LEFT, 0, 100))
            join.idle(RIGHT)
            sign(join)
            join.push(LEFT, 0, 200)
            assert join.stats["watermark"] == 100

    def test_two_idle_sides_leave_the_watermark_where_it_is(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0))
        fed(join, (LEFT, 0, 10), (RIGHT, 0, 20))
        join.idle(RIGHT)
        join.idle(LEFT)
        assert join.stats["watermark"] == 10
        join.advance(30)
        assert join.stats["watermark"] == 30

    def test_without_lateness_only_advance_moves_the_watermark(self):
        join = ReferenceJoin(always, Interval(5, 5))
        fed(join, (LEFT, 0, 1000), (RIGHT, 0, 1000))
        assert join.stats["watermark"] is None
        join.idle(RIGHT)
        assert join.stats["watermark"] is None
        assert fed(join, (RIGHT, 0, 1), (LEFT, 0, 1)) == [[], [(1, 1)]]

    def test_a_null_timestamp_is_a_null_and_never_moves_the_watermark(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0), how="left")
        fed(join, (LEFT, 0, 10))
        assert join.push(RIGHT, 0, None) == []
        assert join.stats["watermark"] is None
        assert join.push(LEFT, 0, None) == [(1, None)]
        assert (join.stats["null_left"], join.stats["null_right"]) == (1, 1)

    def test_a_null_key_moves_the_watermark(self):
        join = ReferenceJoin(always, Interval(5, 5, lateness=0))
        fed(join, (LEFT, None, 10), (RIGHT, None, 20))
        assert join.stats["watermark"] == 10

    def test_other_windows_have_no_watermark_to_move(self):
        for window in (EVERYTHING, Within(5)):
            join = ReferenceJoin(always, window)
            with pytest.raises(ValueError, match="no watermark"):
                join.advance(5)
            with pytest.raises(ValueError, match="no watermark"):
                join.idle(LEFT)

    def test_a_forgotten_row_never_matches(self):
        """An arrival meets at most the rows that were stored when it came."""
        generator = random.Random(2)
        for _ in range(50):
            before, after = generator.choice([(3, 5), (-2, 6), (6, -2)])
            join = ReferenceJoin(always, Interval(before, after, lateness=generator.randrange(5)))
            clock = 0
            for _ in range(40):
                clock += generator.randrange(3)
                kept = stored(join)
                side = generator.choice((LEFT, RIGHT))
                found = join.push(side, 0, clock - generator.randrange(8))
                assert len(found) <= kept[1 - side]


class TestSelfJoin:
    def test_a_tuple_never_meets_itself(self):
        assert reference.join([Arrival(LEFT, 1)], equal(), EVERYTHING, self_join=True) == [[], []]

    def test_a_pair_that_holds_both_ways_comes_once_with_the_earlier_as_left(self):
        arrivals = [Arrival(LEFT, 1), Arrival(LEFT, 1), Arrival(LEFT, 1)]
        results = reference.join(arrivals, equal(), EVERYTHING, self_join=True)
        assert results == [[], [(0, 1)], [(0, 2), (1, 2)], []]

    def test_a_pair_that_holds_one_way_comes_in_that_form(self):
        arrivals = [Arrival(LEFT, 5), Arrival(LEFT, 7), Arrival(LEFT, 6)]
        results = reference.join(arrivals, less(), EVERYTHING, self_join=True)
        assert results == [[], [(0, 1)], [(0, 2), (2, 1)], []]

    def test_the_window_counts_the_one_stream(self):
        arrivals = [Arrival(LEFT, 0)] * 4
        results = reference.join(arrivals, always, Rows(2, 2), self_join=True)
        assert results == [[], [(0, 1)], [(0, 2), (1, 2)], [(1, 3), (2, 3)], []]

    def test_the_sides_are_ignored_and_counted_as_left(self):
        join = ReferenceJoin(equal(), EVERYTHING, self_join=True)
        assert fed(join, (LEFT, 1), (RIGHT, 1), (RIGHT, None)) == [[], [(0, 1)], []]
        assert (join.stats["rows_left"], join.stats["rows_right"]) == (3, 0)
        assert (join.stats["null_left"], join.stats["null_right"]) == (1, 0)
        assert stored(join) == (2, 0)

    def test_the_one_stream_alone_moves_the_watermark(self):
        join = ReferenceJoin(always, Interval(2, 7, lateness=0), self_join=True)
        join.push(LEFT, 0, 10)
        assert join.stats["watermark"] == 10
        fed(join, (LEFT, 0, 13), (LEFT, 0, 18))
        # 10 is gone; 13 can no longer be a right row, but still a left one.
        assert stored(join) == (2, 0)

    def test_the_interval_is_measured_from_left_to_right(self):
        arrivals = [Arrival(LEFT, 0, ts) for ts in (10, 14, 5)]
        results = reference.join(arrivals, always, Interval(-1, 7), self_join=True)
        assert results == [[], [(0, 1)], [(2, 0)], []]

    def test_only_inner_has_a_meaning(self):
        for how in HOWS[1:]:
            with pytest.raises(ValueError, match="self-join"):
                ReferenceJoin(equal(), EVERYTHING, how, self_join=True)


class TestOrder:
    def test_a_pair_is_emitted_by_the_later_arrival_sorted_by_the_partner(self):
        join = ReferenceJoin(always, EVERYTHING)
        results = fed(join, (LEFT, 3), (LEFT, 2), (RIGHT, 9), (RIGHT, 8), (LEFT, 1))
        assert results == [[], [], [(0, 0), (1, 0)], [(0, 1), (1, 1)], [(2, 0), (2, 1)]]

    def test_final_rows_follow_the_pairs_left_first_by_position(self):
        join = ReferenceJoin(equal(), Within(10), how="full")
        fed(join, (RIGHT, 1, 0), (LEFT, 2, 0), (LEFT, 3, 0), (RIGHT, 4, 0), (RIGHT, 5, 5))
        assert join.push(LEFT, 5, 11) == [(2, 2), (0, None), (1, None), (None, 0), (None, 1)]

    def test_final_rows_may_be_of_an_interval_and_of_the_arrival_itself(self):
        join = ReferenceJoin(equal(), Interval(0, 0, lateness=0), how="full")
        fed(join, (LEFT, 1, 10), (LEFT, 2, 12))
        assert join.push(RIGHT, 1, 10) == [(0, 0)]
        assert join.push(RIGHT, 3, 12) == []
        join.push(LEFT, 4, 20)
        assert join.push(RIGHT, None, 14) == [(1, None), (None, 1), (None, 2)]

    def test_agreement_is_as_strict_as_the_order(self):
        expected = [[(0, 0), (1, 0), (2, None), (3, None)], [], [(4, 1)]]
        exact = [(0, 0), (1, 0), (2, None), (3, None), (4, 1)]
        swapped_pairs = [(1, 0), (0, 0), (2, None), (3, None), (4, 1)]
        swapped_finals = [(0, 0), (1, 0), (3, None), (2, None), (4, 1)]
        final_first = [(2, None), (0, 0), (1, 0), (3, None), (4, 1)]
        later_first = [(4, 1), (0, 0), (1, 0), (2, None), (3, None)]
        assert [agrees(exact, expected, order, "left") for order in ("none", "arrival", "full")] == [
            True,
            True,
            True,
        ]
        assert agrees(swapped_pairs, expected, "arrival", "left")
        assert not agrees(swapped_pairs, expected, "full", "left")
        for wrong in (swapped_finals, final_first, later_first):
            assert agrees(wrong, expected, "none", "left")
            assert not agrees(wrong, expected, "arrival", "left")
        for order in ("none", "arrival", "full"):
            assert not agrees(exact[:-1], expected, order, "left")
            assert not agrees([*exact, (4, 1)], expected, order, "left")

    def test_agreement_knows_that_semi_rows_are_matches(self):
        expected = [[(0, None), (1, None)]]
        swapped = [(1, None), (0, None)]
        assert agrees(swapped, expected, "arrival", "left_semi")
        assert not agrees(swapped, expected, "arrival", "left_anti")


def interleaved(streams, generator):
    """Deliver the tuples of each stream in its order, the streams in a random one."""
    order = ReadyOrder(streams)
    queues = {name: list(rows) for name, rows in streams.items()}
    released = []
    while queues:
        name = generator.choice(list(queues))
        if queues[name]:
            ts, key = queues[name].pop(0)
            released += order.push(name[1], Arrival(name[0], key, ts))
        else:
            del queues[name]
            released += order.finish(*name)
    return released


class TestReadyOrder:
    def test_a_tuple_waits_for_every_other_open_stream(self):
        order = ReadyOrder([(LEFT, 0), (LEFT, 1), (RIGHT, 0)])
        first = Arrival(LEFT, "a", 5)
        assert order.push(0, first) == []
        assert order.push(0, Arrival(RIGHT, "b", 9)) == []
        assert order.push(1, Arrival(LEFT, "c", 8)) == [first]

    def test_a_tie_needs_more_from_earlier_streams_and_the_same_from_later_ones(self):
        order = ReadyOrder([(LEFT, 0), (LEFT, 1), (RIGHT, 0)])
        order.push(0, Arrival(LEFT, "a", 5))
        order.push(0, Arrival(RIGHT, "c", 5))
        # The first stream might still bring another 5, which sorts before b and c.
        assert [row.key for row in order.push(1, Arrival(LEFT, "b", 5))] == ["a"]
        assert [row.key for row in order.push(0, Arrival(LEFT, "d", 5))] == ["d"]
        assert [row.key for row in order.push(0, Arrival(LEFT, "e", 6))] == ["b"]
        assert [row.key for row in order.push(1, Arrival(LEFT, "f", 6))] == ["c"]

    def test_the_sequence_is_by_time_side_stream_and_delivery(self):
        streams = {
            (RIGHT, 0): [(1, "r1"), (2, "r2")],
            (LEFT, 1): [(1, "m1"), (1, "m2")],
            (LEFT, 0): [(1, "l1"), (2, "l2")],
        }
        merged = interleaved(streams, random.Random(0))
        assert [row.key for row in merged] == ["l1", "m1", "m2", "r1", "l2", "r2"]

    def test_the_sequence_does_not_depend_on_how_the_streams_interleave(self):
        generator = random.Random(3)
        names = [(LEFT, 0), (LEFT, 1), (RIGHT, 0), (RIGHT, 1), (RIGHT, 2)]
        for _ in range(20):
            streams = {
                name: [
                    (ts if generator.random() < 0.9 else None, f"{name}-{ts}-{number}")
                    for number, ts in enumerate(sorted(generator.choices(range(6), k=6)))
                ]
                for name in names
            }
            merged = [interleaved(streams, generator) for _ in range(8)]
            assert len(merged[0]) == 30
            assert all(other == merged[0] for other in merged)
            times = [row.ts for row in merged[0] if row.ts is not None]
            assert times == sorted(times)

    def test_the_join_of_the_sequence_is_deterministic(self):
        generator = random.Random(4)
        streams = {
            (side, stream): [(ts, generator.randrange(5)) for ts in range(0, 20, 1 + stream)]
            for side, stream in itertools.product((LEFT, RIGHT), (0, 1))
        }
        outputs = [
            reference.join(interleaved(streams, generator), band(-1, 1), Within(4), how="full")
            for _ in range(5)
        ]
        assert sum(map(len, outputs[0])) > 20
        assert all(output == outputs[0] for output in outputs)

    def test_a_null_timestamp_stays_behind_the_tuple_before_it(self):
        order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
        order.push(0, Arrival(LEFT, "a", 5))
        order.push(0, Arrival(LEFT, "null", None))
        order.push(0, Arrival(LEFT, "b", 6))
        assert [row.key for row in order.push(0, Arrival(RIGHT, "c", 5))] == ["a", "null", "c"]

    def test_a_finished_stream_holds_nothing_back(self):
        order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
        row = Arrival(LEFT, "a", 5)
        assert order.push(0, row) == []
        assert order.finish(RIGHT, 0) == [row]
        with pytest.raises(ValueError, match="not open"):
            order.push(0, Arrival(RIGHT, "b", 9))

    def test_an_idle_stream_holds_nothing_back_until_its_next_tuple(self):
        order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
        rows = [Arrival(LEFT, "a", 5), Arrival(LEFT, "b", 6), Arrival(LEFT, "c", 8)]
        assert order.push(0, rows[0]) == []
        assert order.idle(RIGHT, 0) == [rows[0]]
        assert order.push(0, rows[1]) == [rows[1]]
        back = Arrival(RIGHT, "d", 7)
        assert order.push(0, back) == []
        assert order.push(0, rows[2]) == [back]

    def test_an_idle_stream_that_fell_behind_is_an_error(self):
        order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
        order.idle(RIGHT, 0)
        order.push(0, Arrival(LEFT, "a", 5))
        with pytest.raises(ValueError, match="handed out"):
            order.push(0, Arrival(RIGHT, "b", 4))
        assert order.push(0, Arrival(RIGHT, "b", 6)) == []

    def test_a_stream_added_later_is_waited_for(self):
        order = ReadyOrder([(LEFT, 0)])
        rows = [Arrival(LEFT, "a", 5), Arrival(LEFT, "b", 6)]
        assert order.push(0, rows[0]) == [rows[0]]
        order.add(RIGHT, 0)
        assert order.push(0, rows[1]) == []
        assert order.push(0, Arrival(RIGHT, "c", 7)) == [rows[1]]
        with pytest.raises(ValueError, match="exists"):
            order.add(RIGHT, 0)

    def test_each_stream_is_in_timestamp_order(self):
        order = ReadyOrder([(LEFT, 0), (RIGHT, 0)])
        order.push(0, Arrival(LEFT, "a", 5))
        with pytest.raises(ValueError, match="timestamp 4 after 5"):
            order.push(0, Arrival(LEFT, "b", 4))


class TestOuterSemiAnti:
    @pytest.mark.parametrize(
        ("how", "expected"),
        [
            ("inner", [(0, 0)]),
            ("left", [(0, 0), (1, None)]),
            ("right", [(0, 0), (None, 1)]),
            ("full", [(0, 0), (1, None), (None, 1)]),
            ("left_semi", [(0, None)]),
            ("left_anti", [(1, None)]),
            ("right_semi", [(None, 0)]),
            ("right_anti", [(None, 1)]),
        ],
    )
    def test_every_join_type(self, how, expected):
        arrivals = [Arrival(LEFT, 1), Arrival(LEFT, 2), Arrival(RIGHT, 1), Arrival(RIGHT, 3)]
        results = reference.join(arrivals, equal(), EVERYTHING, how)
        assert [result for chunk in results for result in chunk] == expected

    def test_rows_come_out_when_they_leave_the_window(self):
        join = ReferenceJoin(equal(), Rows(2, 1), how="full")
        results = fed(join, (LEFT, 1), (LEFT, 2), (RIGHT, 9), (LEFT, 3), (RIGHT, 8))
        assert results == [[], [], [], [(0, None)], [(None, 0)]]
        assert join.finish() == [(1, None), (2, None), (None, 1)]

    @pytest.mark.parametrize("side", [LEFT, RIGHT])
    def test_within_at_the_first_arrival_beyond_the_duration_on_either_side(self, side):
        join = ReferenceJoin(equal(), Within(10), how="left")
        assert fed(join, (LEFT, 1, 0), (side, 2, 10)) == [[], []]
        assert join.push(side, 3, 11) == [(0, None)]

    def test_within_self_purging_when_the_own_side_moves_on(self):
        join = ReferenceJoin(equal(), Within(10, "self"), how="left")
        assert fed(join, (LEFT, 1, 0), (RIGHT, 2, 50), (LEFT, 3, 50)) == [[], [], [(0, None)]]

    def test_interval_when_the_row_is_forgotten(self):
        join = ReferenceJoin(equal(), Interval(before=3, after=7), how="full")
        fed(join, (LEFT, 1, 10), (RIGHT, 2, 10))
        assert [join.advance(to) for to in (13, 14, 17, 18)] == [[], [(None, 0)], [], [(0, None)]]

    def test_a_matched_row_never_comes_out_unmatched(self):
        join = ReferenceJoin(equal(), Rows(1, 1), how="full")
        results = fed(join, (LEFT, 1), (RIGHT, 1), (LEFT, 2), (RIGHT, 3))
        assert results == [[], [(0, 0)], [], []]
        assert join.finish() == [(1, None), (None, 1)]

    def test_unmatched_rows_come_out_once(self):
        join = ReferenceJoin(equal(), Rows(1, 1), how="left")
        assert fed(join, (LEFT, 1), (LEFT, 2), (LEFT, 3)) == [[], [(0, None)], [(1, None)]]
        assert [join.finish(), join.finish()] == [[(2, None)], []]

    @pytest.mark.parametrize("missing", [None, NAN])
    def test_a_null_key_is_final_on_arrival(self, missing):
        arrivals = [(LEFT, missing), (RIGHT, missing)]
        for how, expected in [
            ("inner", [[], []]),
            ("left", [[(0, None)], []]),
            ("right", [[], [(None, 0)]]),
            ("full", [[(0, None)], [(None, 0)]]),
            ("left_semi", [[], []]),
            ("left_anti", [[(0, None)], []]),
            ("right_semi", [[], []]),
            ("right_anti", [[], [(None, 0)]]),
        ]:
            assert fed(ReferenceJoin(equal(), EVERYTHING, how), *arrivals) == expected

    def test_semi_brings_a_left_row_once_at_its_first_match(self):
        join = ReferenceJoin(equal(), EVERYTHING, how="left_semi")
        results = fed(join, (LEFT, 1), (LEFT, 1), (RIGHT, 1), (RIGHT, 1), (LEFT, 1))
        assert results == [[], [], [(0, None), (1, None)], [], [(2, None)]]

    def test_anti_brings_a_left_row_when_it_leaves_unmatched(self):
        join = ReferenceJoin(equal(), Rows(1, 9), how="left_anti")
        results = fed(join, (LEFT, 1), (LEFT, 2), (RIGHT, 2), (LEFT, 3))
        assert results == [[], [(0, None)], [], []]
        assert join.finish() == [(2, None)]

    def test_nothing_comes_after_the_end(self):
        join = ReferenceJoin(equal(), Interval(1, 1))
        join.finish()
        for refused in (
            lambda: join.push(LEFT, 1, 1),
            lambda: join.advance(1),
            lambda: join.idle(LEFT),
        ):
            with pytest.raises(ValueError, match="finished"):
                refused()


class TestProbeOnly:
    def test_it_meets_the_stored_rows_and_is_not_kept(self):
        join = ReferenceJoin(equal(), EVERYTHING)
        results = fed(join, (RIGHT, 1), (LEFT, 1, None, False), (RIGHT, 1), (LEFT, 1))
        assert results == [[], [(0, 0)], [], [(1, 0), (1, 1)]]

    def test_it_is_counted_but_not_stored(self):
        join = ReferenceJoin(equal(), EVERYTHING)
        join.push(LEFT, 1, store=False)
        assert (join.stats["rows_left"], join.stats["stored_left"]) == (1, 0)

    def test_it_takes_a_place_in_the_window(self):
        join = ReferenceJoin(equal(), Rows(2, 2))
        fed(join, (LEFT, 1), (LEFT, 2, None, False))
        assert stored(join) == (1, 0)
        fed(join, (LEFT, 2, None, False))
        assert stored(join) == (0, 0)

    def test_it_is_final_at_once(self):
        join = ReferenceJoin(equal(), EVERYTHING, how="full")
        results = fed(join, (LEFT, 1), (RIGHT, 2, None, False), (RIGHT, 1, None, False))
        assert results == [[], [(None, 0)], [(0, 1)]]
        assert join.finish() == []

    def test_it_moves_time_and_may_be_late(self):
        join = ReferenceJoin(equal(), Interval(1, 1, lateness=0))
        fed(join, (LEFT, 1, 10, False), (RIGHT, 2, 10, False), (LEFT, 1, 9, False))
        assert (join.stats["watermark"], join.stats["late_left"]) == (10, 1)


class TestCounters:
    def test_the_names(self):
        assert list(ReferenceJoin(equal(), EVERYTHING).stats) == [
            *("rows_left", "rows_right", "matches", "late_left", "late_right"),
            *("null_left", "null_right", "stored_left", "stored_right", "watermark"),
        ]

    def test_rows_counts_the_admitted_and_late_the_others(self):
        join = ReferenceJoin(equal(), Interval(5, 5))
        join.advance(10)
        fed(join, (LEFT, 1, 5), (LEFT, 1, 15), (LEFT, None, 15), (RIGHT, 1, 9), (RIGHT, 1, 10))
        assert join.stats == {
            "rows_left": 2,
            "rows_right": 1,
            "matches": 1,
            "late_left": 1,
            "late_right": 1,
            "null_left": 1,
            "null_right": 0,
            "stored_left": 1,
            "stored_right": 1,
            "watermark": 10,
        }

    @pytest.mark.parametrize("how", HOWS)
    def test_matches_counts_pairs_in_every_join_type(self, how):
        join = ReferenceJoin(equal(), EVERYTHING, how)
        fed(join, (LEFT, 1), (LEFT, 1), (LEFT, 2), (RIGHT, 1), (RIGHT, 1))
        assert join.stats["matches"] == 4
        assert stored(join) == (3, 2)

    @pytest.mark.parametrize("window", [Rows(3, 5), Within(4), Within(4, "self"), Interval(3, 5, 2)])
    def test_stored_counts_exactly_the_rows_that_may_still_match(self, window):
        """A probe of everything, at the earliest time that may still come, meets what is stored."""
        generator = random.Random(5)
        for _ in range(30):
            join = ReferenceJoin(always, window)
            clock = 0
            for _ in range(25):
                clock += generator.randrange(3)
                delay = generator.randrange(4) if isinstance(window, Interval) else 0
                key = generator.choice([0, 0, 0, None])
                join.push(generator.choice((LEFT, RIGHT)), key, clock - delay)
            assert stored(join) == reachable(join, window, clock)

    def test_nothing_is_stored_after_the_end(self):
        join = ReferenceJoin(equal(), EVERYTHING)
        join.push(LEFT, 1)
        join.finish()
        assert stored(join) == (0, 0)


def reachable(join, window, clock):
    """Count the rows of each side that some possible next arrival of the other side would meet."""
    times = range(clock - 12, clock + 12) if isinstance(window, Interval) else [clock]
    met = (set(), set())
    for side, ts in itertools.product((LEFT, RIGHT), times):
        for left, right in copy.deepcopy(join).push(side, 0, ts):
            met[1 - side].add(left if side == RIGHT else right)
    return len(met[LEFT]), len(met[RIGHT])
