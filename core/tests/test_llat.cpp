// The LLAT: chains of every size in at most 2P blocks, and chains that are split in two.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/llat.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

constexpr double kSlacks[] = {1.0, 1.1, 1.25, 2.0};

template <class Key>
constexpr Interval<Key> kAllKeys{0, std::numeric_limits<Key>::max()};

template <class Key>
std::vector<std::pair<Key, std::uint32_t>> tuples(const Llat<Key>& table, std::uint32_t chain) {
    std::vector<std::pair<Key, std::uint32_t>> all;
    for (std::uint32_t at = chain; at != Llat<Key>::kNone; at = table.block(at).next)
        for (std::uint32_t i = 0; i < table.block(at).count; ++i)
            all.emplace_back(table.keys(at)[i], table.positions(at)[i]);
    std::sort(all.begin(), all.end());
    return all;
}

// A subwindow of `capacity` tuples, dealt to partitions by `partition_of`.
template <class Key, class PartitionOf>
void fill(std::size_t capacity, std::uint32_t partitions, double slack, PartitionOf partition_of) {
    Llat<Key> table(partitions, Llat<Key>::room_for(capacity, partitions, slack));
    CHECK(std::size_t{table.room()} * partitions >= capacity);
    for (std::uint32_t i = 0; i < partitions; ++i) CHECK_EQUAL(table.begin(), i);
    for (std::size_t i = 0; i < capacity; ++i) {
        const std::uint32_t chain = partition_of(i, table.room());
        table.insert(chain, static_cast<Key>(chain), static_cast<std::uint32_t>(i));
    }
    std::size_t total = 0, blocks = 0;
    for (std::uint32_t i = 0; i < partitions; ++i) {
        blocks += table.check(i, {static_cast<Key>(i), static_cast<Key>(i)});
        total += table.size(i);
    }
    CHECK_EQUAL(total, capacity);
    CHECK_EQUAL(blocks, std::size_t{table.used_blocks()});
    CHECK(blocks < 2 * std::size_t{partitions});
}

}  // namespace

TEST(llat_room_is_never_below_the_even_share) {
    for (const double slack : kSlacks)
        for (std::size_t capacity = 1; capacity < 300'000; capacity = capacity * 5 / 4 + 1)
            for (const std::uint32_t asked : {0u, 1u, 3u, 7u, 1000u, 1u << 30}) {
                const std::uint32_t partitions = Llat<std::uint32_t>::partitions_for(capacity, asked, 32);
                CHECK(partitions >= 1 && partitions <= capacity);
                const std::size_t room = Llat<std::uint32_t>::room_for(capacity, partitions, slack);
                CHECK(room * partitions >= capacity);
                CHECK(static_cast<double>(room * partitions) >=
                      slack * static_cast<double>(capacity) * 0.999999);
            }
}

TEST(llat_never_needs_more_than_two_blocks_a_partition) {
    testing::Random random(5);
    for (const double slack : kSlacks)
        for (const std::uint32_t partitions : {1u, 2u, 3u, 8u, 61u})
            for (const std::size_t share : {1u, 7u, 16u, 33u, 100u}) {
                const std::size_t capacity = partitions * share;
                // All in one partition; all in the last one; evenly; as many partitions as possible full and
                // overflowing by one tuple; a random few.
                fill<std::uint32_t>(capacity, partitions, slack, [](std::size_t, std::size_t) { return 0u; });
                fill<std::uint64_t>(capacity, partitions, slack,
                                    [&](std::size_t, std::size_t) { return partitions - 1; });
                fill<std::uint32_t>(capacity, partitions, slack, [&](std::size_t i, std::size_t) {
                    return static_cast<std::uint32_t>(i % partitions);
                });
                fill<std::uint64_t>(capacity, partitions, slack, [&](std::size_t i, std::size_t room) {
                    return static_cast<std::uint32_t>(i / (room + 1) % partitions);
                });
                fill<std::uint32_t>(capacity, partitions, slack, [&](std::size_t, std::size_t) {
                    const std::uint64_t few = testing::below(random, partitions) + 1;
                    return static_cast<std::uint32_t>(testing::below(random, few));
                });
            }
}

TEST(llat_refuses_a_block_too_many) {
    Llat<std::uint32_t> table(2, 16);
    const std::uint32_t chain = table.begin();
    for (std::uint32_t i = 0; i < 64; ++i) table.insert(chain, i, i);
    CHECK_EQUAL(table.used_blocks(), 4u);
    bool noticed = false;
    try {
        table.insert(chain, 64, 64);
    } catch (const slidejoin::BrokenInvariant&) {
        noticed = true;
    }
    CHECK(noticed);
}

TEST(llat_appends_like_it_inserts) {
    testing::Random random(6);
    Llat<std::uint64_t> one(40, 32), many(40, 32);
    one.begin();
    many.begin();
    std::uint32_t position = 0;
    while (position < 1000) {
        std::vector<Entry<std::uint64_t>> sorted(testing::below(random, 90) + 1);
        for (auto& entry : sorted) entry = {random() % 100, position++};
        std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.key < b.key; });
        for (const auto& entry : sorted) one.insert(0, entry.key, entry.value);
        many.append(0, sorted.data(), sorted.size());
        many.check(0, {0, 99});
        CHECK_EQUAL(many.free(0), one.free(0));
    }
    CHECK(tuples(one, 0) == tuples(many, 0));
    CHECK_EQUAL(one.length(0), many.length(0));
}

TEST(llat_cuts_chains) {
    testing::Random random(7);
    for (const std::size_t count : {16u, 20u, 64u, 65u, 500u}) {
        Llat<std::uint32_t> table(64, 64);
        const std::uint32_t left = table.begin();
        for (std::uint32_t i = 0; i < count; ++i)
            table.insert(left, i == 0 ? 0 : i == 1 ? ~0u : static_cast<std::uint32_t>(random()), i);
        auto before = tuples(table, left);
        const std::uint32_t cut = before[count / 3].first;
        const std::uint32_t right = table.cut(left, cut);
        CHECK(table.check(left, {0, cut}) + table.check(right, {cut + 1, ~0u}) == table.used_blocks());
        CHECK(table.used_blocks() <= (count + 63) / 64 + 1);
        auto after = tuples(table, left);
        CHECK_EQUAL(after.size(), count / 3 + 1);
        for (const auto& tuple : tuples(table, right)) after.push_back(tuple);
        CHECK(before == after);
        table.insert(left, 0, 1'000'000);  // freed blocks are used again
        table.check(left, {0, cut});
    }
}

TEST(llat_notices_a_key_in_the_wrong_chain) {
    Llat<std::uint32_t> table(2, 16);
    const std::uint32_t chain = table.begin();
    table.insert(chain, 5, 0);
    table.check(chain, kAllKeys<std::uint32_t>);
    bool noticed = false;
    try {
        table.check(chain, {6, 9});
    } catch (const slidejoin::BrokenInvariant&) {
        noticed = true;
    }
    CHECK(noticed);
}
SLIDEJOIN_TARGET_END
