// Positions and counts of count and time windows.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../window.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

static WindowSpec rows(std::uint64_t left, std::uint64_t right) {
    WindowSpec spec;
    spec.left = left;
    spec.right = right;
    return spec;
}

static WindowSpec within(std::uint64_t duration, bool self_purge = false) {
    WindowSpec spec;
    spec.kind = WindowKind::time;
    spec.duration = duration;
    spec.self_purge = self_purge;
    return spec;
}

static WindowSpec event(std::int64_t before, std::int64_t after, std::uint64_t lateness) {
    WindowSpec spec;
    spec.kind = WindowKind::event;
    spec.before = before;
    spec.after = after;
    spec.lateness = lateness;
    return spec;
}

static JoinSpec join(const WindowSpec& window, bool self_join) {
    JoinSpec spec;
    spec.window = window;
    spec.self_join = self_join;
    spec.finals[0] = spec.finals[1] = !self_join;
    return spec;
}

TEST(count_window_keeps_each_side_apart) {
    Window window(join(rows(2, 3), false));
    for (int i = 0; i < 5; ++i) window.admit(Side::left, 0, {true, false, true});
    const Place place = window.admit(Side::right, 0, {true, false, true});
    CHECK_EQUAL(place.position, 0u);
    CHECK_EQUAL(place.first, 3u);
    CHECK_EQUAL(place.last, 5u);
    for (int i = 0; i < 9; ++i) window.admit(Side::right, 0, {true, false, true});
    const Place next = window.admit(Side::left, 0, {true, false, true});
    CHECK_EQUAL(next.first, 7u);
    CHECK_EQUAL(next.last, 10u);
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.stored(Side::right), 3u);
}

TEST(time_window_is_closed_at_its_old_end) {
    Window window(join(within(10), false));
    window.admit(Side::left, 0, {true, false, true});
    window.admit(Side::left, 1, {true, false, true});
    CHECK_EQUAL(window.admit(Side::right, 10, {true, false, true}).first, 0u);
    CHECK_EQUAL(window.admit(Side::right, 11, {true, false, true}).first, 1u);
    CHECK_EQUAL(window.stored(Side::left), 1u);
    CHECK_EQUAL(window.stored(Side::right), 2u);
}

TEST(time_window_over_the_whole_range) {
    using Limits = std::numeric_limits<std::int64_t>;
    Window window(join(within(std::numeric_limits<std::uint64_t>::max()), false));
    window.admit(Side::left, Limits::min(), {true, false, true});
    CHECK_EQUAL(window.admit(Side::right, Limits::max(), {true, false, true}).first, 0u);
    Window shorter(join(within(std::numeric_limits<std::uint64_t>::max() - 1), false));
    shorter.admit(Side::left, Limits::min(), {true, false, true});
    CHECK_EQUAL(shorter.admit(Side::right, Limits::max(), {true, false, true}).first, 1u);
}

// Tuples that are placed together, of which some are taken, have the places that they get one by one.
static void check_placed_together(WindowSpec spec) {
    JoinSpec plain = join(spec, false);
    plain.finals[0] = plain.finals[1] = false;
    Window one(plain), many(plain);
    testing::Random random(5);
    std::int64_t now = -100;
    for (int batch = 0; batch < 200; ++batch) {
        const std::size_t count = 1 + testing::below(random, 40);
        std::vector<std::uint8_t> sides(count);
        std::vector<std::int64_t> times(count);
        for (std::size_t i = 0; i < count; ++i) {
            sides[i] = testing::below(random, 3) == 0;
            times[i] = now += static_cast<std::int64_t>(testing::below(random, 4));
        }
        const std::size_t taken = testing::below(random, 3) ? count : testing::below(random, count + 1);
        std::uint64_t next[2] = {many.next(Side::left), many.next(Side::right)};
        std::vector<Place> places(count);
        if (spec.kind == WindowKind::time) {
            many.place_times(sides.data(), times.data(), count, next, places.data());
            many.advance_times(sides.data(), taken, count);
        } else {
            many.place_rows(sides.data(), count, next, places.data());
            for (std::size_t i = taken; i < count; ++i) --next[sides[i]];
            many.advance_rows(next);
        }
        for (std::size_t i = 0; i < taken; ++i) {
            const Place place = one.admit(Side{sides[i]}, times[i], {true, false, true});
            CHECK_EQUAL(places[i].position, place.position);
            CHECK_EQUAL(places[i].first, place.first);
            CHECK_EQUAL(places[i].last, place.last);
        }
        for (const Side side : {Side::left, Side::right}) {
            CHECK_EQUAL(many.first(side), one.first(side));
            CHECK_EQUAL(many.next(side), one.next(side));
            CHECK_EQUAL(many.admitted(side), one.admitted(side));
            CHECK_EQUAL(many.stored(side), one.stored(side));
        }
        if (spec.kind == WindowKind::time) CHECK_EQUAL(many.latest(), one.latest());
        if (taken < count) now = times[0];  // what was given back has not arrived
        for (std::size_t i = 0; i < taken; ++i) now = std::max(now, times[i]);
    }
}

TEST(tuples_are_placed_together_as_one_by_one) {
    check_placed_together(rows(7, 30));
    check_placed_together(within(0));
    check_placed_together(within(25));
    check_placed_together(within(1000));
}

TEST(nulls_take_a_place_but_are_not_stored) {
    Window window(join(rows(4, 4), false));
    for (int i = 0; i < 100; ++i) window.admit(Side::left, 0, {true, i % 2 == 0, true});
    CHECK_EQUAL(window.nulls(Side::left), 50u);
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.next(Side::left), 100u);
}

TEST(self_join_sees_its_own_past) {
    Window window(join(rows(3, 3), true));
    for (int i = 0; i < 5; ++i) window.admit(Side::left, 0, {true, false, true});
    const Place place = window.admit(Side::left, 0, {true, false, true});
    CHECK_EQUAL(place.position, 5u);
    CHECK_EQUAL(place.first, 2u);
    CHECK_EQUAL(place.last, 5u);
}

TEST(self_purging_waits_for_its_own_side) {
    Window window(join(within(10, true), false));
    window.admit(Side::left, 0, {true, false, true});
    CHECK_EQUAL(window.admit(Side::right, 50, {true, false, true}).last, 1u);
    CHECK_EQUAL(window.admit(Side::right, 50, {true, false, true}).first, 0u);
    window.admit(Side::left, 51, {true, false, true});
    CHECK_EQUAL(window.admit(Side::right, 51, {true, false, true}).first, 1u);
}

TEST(watermark_is_the_least_of_both_sides) {
    Window window(join(event(5, 5, 2), false));
    window.admit(Side::left, 100, {true, false, true});
    CHECK(!window.watermark().known());
    window.admit(Side::right, 50, {true, false, true});
    CHECK(window.watermark().at() == 48);
    CHECK(window.refuse(Side::left, 47));
    CHECK(!window.refuse(Side::left, 48));  // exactly the lateness behind
    CHECK_EQUAL(window.late(Side::left), 1u);
    window.rest(Side::right), window.forget_dead();
    CHECK(window.watermark().at() == 98);
    window.admit(Side::right, 99, {true, false, true});  // ends idleness; the watermark does not move back
    CHECK(window.watermark().at() == 98);
    window.promise(200, Side::left), window.forget_dead();
    window.promise(150, Side::right), window.forget_dead();
    CHECK(window.watermark().at() == 150);
}

TEST(event_window_counts_what_may_match_and_forgets_from_the_oldest) {
    Window window(join(event(5, 10, 0), false));
    for (const int time : {30, 1, 2, 3}) window.admit(Side::left, time, {true, false, true});
    window.admit(Side::right, 13, {true, false, true});  // watermark 13: left 1 and 2 are gone, 3 + 10 is not
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.stored(Side::right), 1u);
    CHECK_EQUAL(window.first(Side::left), 0u);  // the oldest one is still live
    window.promise(40, Side::left), window.promise(40, Side::right), window.forget_dead();
    CHECK_EQUAL(window.stored(Side::left), 1u);
    window.promise(41, Side::left), window.promise(41, Side::right), window.forget_dead();
    CHECK_EQUAL(window.stored(Side::left), 0u);
    CHECK_EQUAL(window.first(Side::left), 4u);
    CHECK_EQUAL(window.stored(Side::right), 0u);
}

TEST(expired_tuples_may_defer_expiry_where_they_are_not_told_and_not_limited) {
    JoinSpec spec = join(event(10, 10, 0), false);
    CHECK(!Window(spec).may_defer_expiry());
    spec.finals[0] = spec.finals[1] = false;
    CHECK(!Window(join(rows(5, 5), true)).may_defer_expiry());
    Window window(spec);
    CHECK(window.may_defer_expiry());
    for (const int time : {0, 50, 51}) window.enter(Side::left, time, {true, false, true});
    const Place place = window.enter(Side::right, 50, {true, false, true});
    CHECK_EQUAL(place.last - place.first, 3u);
    CHECK(window.refuse(Side::left, 49));  // the watermark is not deferred
    CHECK_EQUAL(window.stored(Side::left), 3u);
    window.forget_dead();
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.first(Side::left), 1u);
    spec.window.most[1] = 5;
    CHECK(!Window(spec).may_defer_expiry());
}

TEST(the_living_get_new_positions_when_the_dead_hold_too_many) {
    Window window(join(event(5, 5, 0), false));
    window.admit(Side::left, 1'000'000, {true, false, true});  // expires late and holds the others back
    window.admit(Side::left, 1, {true, true, true});           // null: never live, whatever its time
    for (int i = 0; i < 5000; ++i) window.admit(Side::left, i, {true, false, true});
    CHECK(!window.wasteful(Side::left));
    window.promise(4000, Side::left), window.forget_dead();
    window.promise(4000, Side::right), window.forget_dead();
    CHECK_EQUAL(window.first(Side::left), 0u);
    CHECK(!window.wasteful(Side::left));
    window.promise(4990, Side::right), window.forget_dead();
    CHECK(window.wasteful(Side::left));
    const auto living = window.renumber(Side::left);
    CHECK_EQUAL(living.size(), window.stored(Side::left));
    CHECK_EQUAL(living[0], 0u);
    CHECK_EQUAL(living[1], 4987u);  // times 4985 to 4999
    CHECK_EQUAL(window.first(Side::left), 5002u);
    CHECK_EQUAL(window.next(Side::left), 5002u + living.size());
    CHECK_EQUAL(window.admitted(Side::left), 5002u);
    CHECK(!window.wasteful(Side::left));
    window.finals().clear();
    window.promise(2'000'000, Side::left), window.promise(2'000'000, Side::right), window.forget_dead();
    CHECK_EQUAL(window.finals().size(), living.size());
    for (const Window::Final& final : window.finals()) CHECK(final.position >= 5002);
}

TEST(nulls_never_come_alive) {
    Window window(join(event(5, 5, 0), false));  // one silent side: no watermark
    for (int i = 0; i < 5000; ++i) window.admit(Side::left, i, {i % 2 == 0, true, true});
    CHECK(window.wasteful(Side::left));
    CHECK_EQUAL(window.renumber(Side::left).size(), 0u);
    CHECK(!window.wasteful(Side::left));
}

TEST(watermark_at_the_ends_of_time) {
    using Limits = std::numeric_limits<std::int64_t>;
    Window window(join(event(Limits::max(), Limits::max(), Limits::max()), false));
    window.admit(Side::left, Limits::min(), {true, false, true});
    window.admit(Side::right, Limits::min(), {true, false, true});
    CHECK(window.watermark().known());
    CHECK(!window.refuse(Side::left, Limits::min()));
    CHECK_EQUAL(window.stored(Side::left), 1u);
    window.promise(Limits::max(), Side::left), window.promise(Limits::max(), Side::right);
    window.forget_dead();
    CHECK(window.refuse(Side::left, Limits::max() - 1));
    CHECK(!window.refuse(Side::left, Limits::max()));
    CHECK_EQUAL(window.stored(Side::left), 0u);  // the first instant is too far from the last one
}

TEST(a_watermark_of_promises_is_not_moved_by_tuples) {
    WindowSpec promises = event(5, 5, 0);
    promises.moves = false;
    Window window(join(promises, false));
    for (const Side side : {Side::left, Side::right}) window.admit(side, 100, {true, false, true});
    CHECK(!window.watermark().known());
    window.promise(50, Side::left), window.promise(60, Side::right);
    CHECK(window.watermark().at() == 50);
}

TEST(a_late_tuple_wakes_its_side) {
    Window window(join(event(5, 5, 0), false));
    window.admit(Side::left, 100, {true, false, true});
    window.rest(Side::right);
    CHECK(window.watermark().at() == 100);
    CHECK(window.refuse(Side::right, 99));
    window.admit(Side::left, 200, {true, false, true});
    CHECK(window.watermark().at() == 100);  // right is active and has not moved on
}

TEST(a_tuple_of_a_self_join_stays_for_both_of_its_roles) {
    Window window(join(event(9, 2, 0), true));  // as a right tuple it matches left ones up to 9 later
    window.admit(Side::left, 10, {true, false, true});
    window.admit(Side::left, 19, {true, false, true});
    CHECK_EQUAL(window.stored(Side::left), 2u);
    window.admit(Side::left, 20, {true, false, true});
    CHECK_EQUAL(window.stored(Side::left), 2u);
}

TEST(without_lateness_ties_are_in_time_and_stay) {
    Window window(join(event(0, 0, 0), false));
    for (const Side side : {Side::left, Side::right, Side::right, Side::left}) {
        CHECK(!window.refuse(side, 7));
        window.admit(side, 7, {true, false, true});
    }
    CHECK(window.watermark().at() == 7);
    CHECK_EQUAL(window.stored(Side::left), 2u);
    CHECK_EQUAL(window.stored(Side::right), 2u);
    window.admit(Side::left, 8, {true, false, true});
    CHECK_EQUAL(window.stored(Side::left), 3u);  // the right side is still at 7
    window.admit(Side::right, 8, {true, false, true});
    CHECK_EQUAL(window.stored(Side::left), 1u);
    CHECK_EQUAL(window.stored(Side::right), 1u);
}
SLIDEJOIN_TARGET_END

TEST(event_window_expires_tuples_in_any_order_of_time) {
    const std::uint64_t lateness = 40;
    const std::int64_t reach = 25;
    Window window(join(event(reach, reach, lateness), false));
    std::vector<std::pair<std::int64_t, std::uint64_t>> held;  // time and position of left tuples
    std::uint64_t random = 7, next = 0;
    for (std::int64_t i = 0; i < 4000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        // Phases in the order of time, and phases out of it.
        const std::int64_t time = 3 * i - ((i / 500) % 2 ? static_cast<std::int64_t>(random >> 59) : 0);
        CHECK_EQUAL(window.refuse(Side::left, time), false);
        held.push_back({time, next++});
        window.finals().clear();
        window.admit(Side::left, time, {true, false, true});
        window.admit(Side::right, time, {true, false, true});
        std::vector<Window::Final> expected;
        const auto gone = [&](const auto& each) { return each.first + reach < window.watermark().at(); };
        for (const auto& each : held)
            if (gone(each)) expected.push_back({Side::left, each.second});
        std::erase_if(held, gone);
        std::vector<Window::Final> told = window.finals();
        std::erase_if(told, [](const Window::Final& each) { return each.side == Side::right; });
        std::sort(told.begin(), told.end());
        CHECK_EQUAL(told == expected, true);
        CHECK_EQUAL(window.stored(Side::left), held.size());
    }
}
