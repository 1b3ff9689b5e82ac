// Small arrays: a few positions are sorted and written, the keys of a leaf are compared at once.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/concept.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(few_positions_are_written_in_order) {
    testing::Random random(1);
    for (int round = 0; round < 4000; ++round) {
        const std::size_t count = testing::below(random, kFew + 1);
        const std::uint64_t base = random() >> 2;
        const std::uint64_t limit = round % 3 ? 5 : std::uint64_t{1} << 32;  // repeated ones, or the highest
        std::uint32_t found[kFew];
        for (std::uint32_t& position : found)
            position = static_cast<std::uint32_t>(testing::below(random, limit));
        if (round % 5 == 0) found[0] = ~0u;
        for (const bool sorted : {false, true}) {
            std::vector<std::int64_t> expected;
            for (std::size_t i = 0; i < count; ++i)
                expected.push_back(static_cast<std::int64_t>(base + found[i]));
            if (sorted) std::sort(expected.begin(), expected.end());
            std::int64_t out[kFew + 1];
            out[kFew] = 17;
            write_few(found, count, sorted, base, out);
            CHECK(std::equal(expected.begin(), expected.end(), out));
            CHECK_EQUAL(out[kFew], 17);
        }
    }
}

TEST(a_number_fills_few_slots) {
    std::int64_t out[kFew + 1] = {};
    fill_few(-3, out);
    CHECK_EQUAL(std::count(out, out + kFew, -3), static_cast<std::ptrdiff_t>(kFew));
    CHECK_EQUAL(out[kFew], 0);
}

template <class Key>
static void check_leaf() {
    constexpr unsigned kSlots = 64;
    testing::Random random(sizeof(Key));
    for (int round = 0; round < 4000; ++round) {
        Key keys[kSlots];
        std::uint32_t positions[kSlots];
        const std::size_t count = testing::below(random, kSlots + 1);
        const Key limit = round % 2 ? 40 : std::numeric_limits<Key>::max();
        for (Key& key : keys) key = static_cast<Key>(testing::below(random, limit));
        for (std::uint32_t& position : positions)
            position = static_cast<std::uint32_t>(0xfffffff0u + testing::below(random, 40));
        Interval<Key> interval{static_cast<Key>(testing::below(random, limit)),
                               static_cast<Key>(testing::below(random, limit))};
        if (interval.low > interval.high) std::swap(interval.low, interval.high);
        if (round % 7 == 0) interval = {0, std::numeric_limits<Key>::max()};
        const Visible visible{static_cast<std::uint32_t>(0xfffffff0u + testing::below(random, 20)),
                              static_cast<std::uint32_t>(testing::below(random, 30))};
        std::uint64_t within = 0;
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
            if (!interval.contains(keys[i])) continue;
            within |= std::uint64_t{1} << i;
            if (visible.contains(positions[i])) expected.push_back(visible.relative(positions[i]));
        }
        const std::uint64_t chosen = lanes_within(keys, count, interval);
        CHECK_EQUAL(chosen, within);
        std::uint32_t out[kSlots + kBlock];
        const std::size_t found = select_among(positions, chosen, visible, out);
        CHECK_EQUAL(found, expected.size());
        std::sort(out, out + found);
        std::sort(expected.begin(), expected.end());
        CHECK(std::equal(expected.begin(), expected.end(), out));
        CHECK_EQUAL(tally_among(positions, chosen, visible), found);
    }
}

TEST(keys_of_a_leaf_are_compared_at_once) {
    check_leaf<std::uint32_t>();
    check_leaf<std::uint64_t>();
}

SLIDEJOIN_TARGET_END
