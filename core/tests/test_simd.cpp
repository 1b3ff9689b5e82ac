// Vector code compared with one-line loops, at every length around the width of a block.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../simd.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

template <class Key>
static void check_node_search() {
    testing::Random random(3);
    constexpr unsigned kSlots = 256 / sizeof(Key);
    const Key greatest = std::numeric_limits<Key>::max();
    for (int round = 0; round < 500; ++round) {
        alignas(64) Key keys[kSlots];
        const unsigned count = static_cast<unsigned>(testing::below(random, kSlots + 1));
        for (unsigned i = 0; i < kSlots; ++i)
            keys[i] = i < count ? (round % 3 ? static_cast<Key>(testing::below(random, 9))
                                             : static_cast<Key>(random()))
                                : greatest;
        std::sort(keys, keys + count);
        for (const Key key : {Key{0}, Key{4}, static_cast<Key>(random()), greatest, kSignBit<Key>}) {
            CHECK_EQUAL((count_below<kSlots>(keys, key)),
                        static_cast<unsigned>(std::lower_bound(keys, keys + count, key) - keys));
            CHECK_EQUAL((count_up_to<kSlots>(keys, count, key)),
                        static_cast<unsigned>(std::upper_bound(keys, keys + count, key) - keys));
        }
    }
}

TEST(node_search) {
    check_node_search<std::uint32_t>();
    check_node_search<std::uint64_t>();
}

// The functions that read and compact the leaves of the bucket-tree; slots after the last entry are ignored.
template <class Key>
static void check_leaf(std::vector<Key> keys, std::vector<std::uint32_t> positions, Interval<Key> interval,
                       Visible visible) {
    const std::size_t count = keys.size();
    if (count <= 64) {
        std::vector<Key> slots = keys;
        slots.resize(64, interval.low);
        std::uint64_t lanes = 0;
        for (std::size_t i = 0; i < count; ++i) lanes |= std::uint64_t{interval.contains(keys[i])} << i;
        CHECK_EQUAL(lanes_within(slots.data(), count, interval), lanes);
    }
    std::vector<Key> kept_keys;
    std::vector<std::uint32_t> kept_positions;
    for (std::size_t i = 0; i < count; ++i)
        if (visible.contains(positions[i])) {
            kept_keys.push_back(keys[i]);
            kept_positions.push_back(positions[i]);
        }
    keys.resize(count + kBlock);
    positions.resize(count + kBlock, visible.first);
    std::vector<Key> out_keys(count + kBlock);
    std::vector<std::uint32_t> out_positions(count + kBlock);
    const auto check = [&](std::size_t kept, std::vector<Key> found, std::vector<std::uint32_t> at) {
        found.resize(kept);
        at.resize(kept);
        CHECK(found == kept_keys);
        CHECK(at == kept_positions);
    };
    std::size_t kept =
        take_visible(keys.data(), positions.data(), count, visible, out_keys.data(), out_positions.data());
    check(kept, out_keys, out_positions);
    kept = take_visible(keys.data(), positions.data(), count, visible, keys.data(), positions.data());
    check(kept, keys, positions);
}

template <class Key>
static void check_selection() {
    testing::Random random(5);
    for (std::size_t count = 0; count < 70; ++count)
        for (int round = 0; round < 20; ++round) {
            const std::uint32_t start = round % 2 ? 0xfffffff0u : 100;  // positions may wrap around
            std::vector<Key> keys(count);
            std::vector<std::uint32_t> positions(count);
            for (std::size_t i = 0; i < count; ++i) {
                keys[i] =
                    round % 4 ? static_cast<Key>(testing::below(random, 10)) : static_cast<Key>(random());
                positions[i] = start + static_cast<std::uint32_t>(testing::below(random, 80));
            }
            // Position 0 may be visible; lanes that are not loaded have it, too.
            const Visible visible{start + (round % 4 == 1 ? 10 : 20),
                                  static_cast<std::uint32_t>(testing::below(random, 50))};
            Interval<Key> interval{2, 6};
            if (round % 3 == 0) interval = {kSignBit<Key>, std::numeric_limits<Key>::max()};
            std::vector<std::uint32_t> by_position, by_both;
            for (std::size_t i = 0; i < count; ++i) {
                if (!visible.contains(positions[i])) continue;
                by_position.push_back(positions[i] - visible.first);
                if (interval.contains(keys[i])) by_both.push_back(positions[i] - visible.first);
            }
            std::vector<std::uint32_t> out(count + kBlock);
            out.resize(select_positions(positions.data(), count, visible, out.data()));
            CHECK(out == by_position);
            CHECK_EQUAL(tally_positions(positions.data(), count, visible), by_position.size());
            // Values that are read past the end of an array must not be used, even if they would be visible.
            auto padded = positions;
            padded.resize(count + kBlock, visible.first);
            out.assign(count + 2 * kBlock, 0);
            out.resize(select_padded(padded.data(), count, visible, out.data()));
            CHECK(out == by_position);
            CHECK_EQUAL(tally_padded(padded.data(), count, visible), by_position.size());
            out.assign(count + kBlock, 0);
            out.resize(select_entries(keys.data(), positions.data(), count, interval, visible, out.data()));
            CHECK(out == by_both);
            CHECK_EQUAL(tally_entries(keys.data(), positions.data(), count, interval, visible),
                        by_both.size());
            check_leaf(keys, positions, interval, visible);
        }
}

TEST(selection) {
    check_selection<std::uint32_t>();
    check_selection<std::uint64_t>();
}
SLIDEJOIN_TARGET_END
