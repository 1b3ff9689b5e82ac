// The radix sort compared with std::stable_sort.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../sort.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

template <class Key>
static void check_sort(bool wide) {
    testing::Random random(9);
    Buffer<Entry<Key>> scratch;
    for (const std::size_t count : {0, 1, 2, 31, 32, 33, 100, 1000, 5000})
        for (int bits = 1; bits <= static_cast<int>(8 * sizeof(Key)); bits += 9) {
            std::vector<Entry<Key>> entries(count);
            for (std::size_t i = 0; i < count; ++i)
                entries[i] = {static_cast<Key>(static_cast<Key>(random()) >>
                                               (8 * sizeof(Key) - static_cast<unsigned>(bits))),
                              static_cast<std::uint32_t>(i)};
            auto expected = entries;
            std::stable_sort(expected.begin(), expected.end(),
                             [](const auto& a, const auto& b) { return a.key < b.key; });
            if (wide)
                radix_sort<11>(entries.data(), count, scratch, [](const auto& entry) { return entry.key; });
            else sort_entries(entries.data(), count, scratch);
            for (std::size_t i = 0; i < count; ++i) {
                CHECK_EQUAL(entries[i].key, expected[i].key);
                CHECK_EQUAL(entries[i].value, expected[i].value);
            }
        }
}

TEST(entries_are_sorted_stably) {
    for (const bool wide : {false, true}) {  // digits
        check_sort<std::uint32_t>(wide);
        check_sort<std::uint64_t>(wide);
    }
}

TEST(positions_are_sorted) {
    testing::Random random(2);
    Buffer<std::uint32_t> scratch;
    for (std::size_t count = 0; count < 1100; count += count < 300 ? 1 : 7 + count % 2) {
        std::vector<std::uint32_t> positions(count);
        for (std::size_t i = 0; i < count; ++i)
            positions[i] = static_cast<std::uint32_t>(i * 3'900'000 + testing::below(random, 1000));
        if (count) positions[0] = 0xffffffff;  // equal to the padding
        std::shuffle(positions.begin(), positions.end(), random);
        auto expected = positions;
        std::sort(expected.begin(), expected.end());
        sort_positions(positions.data(), count, scratch);
        CHECK(positions == expected);
    }
}

TEST(buffers_around_a_huge_page) {
    for (std::size_t bytes = kHugePage - 200; bytes <= kHugePage + 200; ++bytes) {
        Buffer<std::byte> buffer(bytes);
        buffer[0] = buffer[bytes - 1] = std::byte{1};
    }
}
SLIDEJOIN_TARGET_END
