// Places and counts of count and time windows.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../window.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(count_window_keeps_each_side_apart) {
    Window window({WindowKind::rows, 2, 3, 0}, false);
    for (int i = 0; i < 5; ++i) window.admit(Side::left, 0, false);
    const Place place = window.admit(Side::right, 0, false);
    CHECK_EQUAL(place.position, 0u);
    CHECK_EQUAL(place.first, 3u);
    CHECK_EQUAL(place.last, 5u);
    for (int i = 0; i < 9; ++i) window.admit(Side::right, 0, false);
    const Place next = window.admit(Side::left, 0, false);
    CHECK_EQUAL(next.first, 7u);
    CHECK_EQUAL(next.last, 10u);
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.stored(Side::right), 3u);
}

TEST(time_window_is_closed_at_its_old_end) {
    Window window({WindowKind::time, 0, 0, 10}, false);
    window.admit(Side::left, 0, false);
    window.admit(Side::left, 1, false);
    CHECK_EQUAL(window.admit(Side::right, 10, false).first, 0u);
    CHECK_EQUAL(window.admit(Side::right, 11, false).first, 1u);
    CHECK_EQUAL(window.stored(Side::left), 1u);
    CHECK_EQUAL(window.stored(Side::right), 2u);
}

TEST(time_window_over_the_whole_range) {
    using Limits = std::numeric_limits<std::int64_t>;
    Window window({WindowKind::time, 0, 0, std::numeric_limits<std::uint64_t>::max()}, false);
    window.admit(Side::left, Limits::min(), false);
    CHECK_EQUAL(window.admit(Side::right, Limits::max(), false).first, 0u);
    Window shorter({WindowKind::time, 0, 0, std::numeric_limits<std::uint64_t>::max() - 1}, false);
    shorter.admit(Side::left, Limits::min(), false);
    CHECK_EQUAL(shorter.admit(Side::right, Limits::max(), false).first, 1u);
}

TEST(nulls_take_a_place_but_are_not_stored) {
    Window window({WindowKind::rows, 4, 4, 0}, false);
    for (int i = 0; i < 100; ++i) window.admit(Side::left, 0, i % 2 == 0);
    CHECK_EQUAL(window.nulls(Side::left), 50u);
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.next(Side::left), 100u);
}

TEST(self_join_sees_its_own_past) {
    Window window({WindowKind::rows, 3, 3, 0}, true);
    for (int i = 0; i < 5; ++i) window.admit(Side::left, 0, false);
    const Place place = window.admit(Side::left, 0, false);
    CHECK_EQUAL(place.position, 5u);
    CHECK_EQUAL(place.first, 2u);
    CHECK_EQUAL(place.last, 5u);
}
SLIDEJOIN_TARGET_END
