// Results as parts of runs: which runs are returned and when, and which matches are listed instead.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../join/ranges.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

// A run of an index: positions in the order of their keys.
struct TestRun {
    explicit TestRun(std::vector<std::uint32_t> given) : positions(std::move(given)), size(positions.size()) {
        positions.resize(size + kBlock);
    }

    RunOfPositions run() { return {&number, positions.data(), size}; }

    std::vector<std::uint32_t> positions;
    std::size_t size;
    RunNumber number;
};

static constexpr std::uint64_t kFirst = (std::uint64_t{3} << 32) - 2;  // the low bits wrap around after it

TEST(runs_are_handed_over_once) {
    HandedRuns handed;
    RangeResult out;
    const Place place{9, kFirst, kFirst + 6};
    TestRun one({static_cast<std::uint32_t>(kFirst + 5), static_cast<std::uint32_t>(kFirst), 1}), two({0});
    CHECK_EQUAL(handed.number(one.run(), place, out), 0u);
    CHECK_EQUAL(handed.number(two.run(), place, out), 1u);
    CHECK_EQUAL(handed.number(one.run(), place, out), 0u);
    CHECK_EQUAL(out.runs.size(), std::size_t{2});
    const auto at = [](std::uint64_t more) { return static_cast<std::int64_t>(kFirst + more); };
    CHECK(out.runs[0].positions == (std::vector<std::int64_t>{at(5), at(0), at(3)}));
    CHECK_EQUAL(out.runs[1].number, 1u);
    handed.report_dropped(out);
    CHECK(out.gone.empty());
    one.number.withdraw();
    handed.report_dropped(out);
    handed.report_dropped(out);
    CHECK(out.gone == (std::vector<std::uint64_t>{0}));
    CHECK_EQUAL(handed.number(one.run(), place, out), 2u);  // changed: returned again
    CHECK_EQUAL(out.runs.size(), std::size_t{3});
}

// Each of three arrivals finds parts of two runs.
static RangeResult found(bool self_join, std::vector<Task<std::uint32_t>> tasks, std::size_t* listed,
                         std::uint64_t* total) {
    MatchRanges matches(self_join);
    HandedRuns handed;
    RangeResult out;
    const std::vector<Place> places(3, Place{9, kFirst, kFirst + 6});
    TestRun one({0, 1, 2}), two({3});
    matches.start(tasks.data(), tasks.size(), places.size());
    for (Task<std::uint32_t>& task : tasks) {
        matches.begin(task);
        matches.run(one.run(), 1, 3, task.visible);
        matches.run(one.run(), 2, 2, task.visible);
        matches.run(two.run(), 0, 1, task.visible);
        task.found_to = matches.size();
    }
    *listed = matches.size();
    const MatchRanges* const lists[] = {&matches};
    *total = write_parts(lists, places.data(), places.size(), 100, handed, out);
    return out;
}

static Task<std::uint32_t> task(std::uint32_t arrival, bool partner_is_left) {
    return {{0, 9}, Place{9, kFirst, kFirst + 6}.visible(), arrival, partner_is_left, 0, 0};
}

TEST(parts_are_told_by_arrival) {
    std::size_t listed = 0;
    std::uint64_t total = 0;
    const RangeResult out = found(false, {task(2, false), task(0, false)}, &listed, &total);
    CHECK_EQUAL(listed, std::size_t{0});
    CHECK_EQUAL(total, 6u);
    CHECK(out.probe == (std::vector<std::int64_t>{100, 100, 102, 102}));
    CHECK(out.run == (std::vector<std::int64_t>{0, 1, 0, 1}));
    CHECK(out.start == (std::vector<std::int64_t>{1, 0, 1, 0}));
    CHECK(out.end == (std::vector<std::int64_t>{3, 1, 3, 1}));
    CHECK_EQUAL(out.runs.size(), std::size_t{2});
}

TEST(arrivals_with_several_intervals_are_listed) {
    std::size_t listed = 0;
    std::uint64_t total = 0;
    const RangeResult out = found(false, {task(1, false), task(1, false), task(2, false)}, &listed, &total);
    CHECK_EQUAL(listed, std::size_t{6});
    CHECK_EQUAL(total, 3u);
    CHECK(out.probe == (std::vector<std::int64_t>{102, 102}));
}

TEST(self_joins_list_right_partners) {
    std::size_t listed = 0;
    std::uint64_t total = 0;
    const RangeResult out = found(true, {task(0, true), task(1, false)}, &listed, &total);
    CHECK_EQUAL(listed, std::size_t{3});
    CHECK_EQUAL(total, 3u);
    CHECK(out.probe == (std::vector<std::int64_t>{100, 100}));
}
