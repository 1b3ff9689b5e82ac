// The WiB+-Tree compared with a plain list (index_cases.hpp), and how its leaves fill, also with equal keys.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/wib_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(wib_tree) { check_all(slidejoin::IndexKind::wib_tree); }
TEST(wib_tree_of_small_subwindows) {
    check_all(slidejoin::IndexKind::wib_tree, made_of(16, 0, 1.25, 8));
    check_all(slidejoin::IndexKind::wib_tree, made_of(64, 0, 1.25, 8));
}
TEST(wib_tree_of_small_leaves) { check_all(slidejoin::IndexKind::wib_tree, made_of(1024, 256, 1.1, 2)); }
TEST(wib_tree_of_few_leaves) { check_all(slidejoin::IndexKind::wib_tree, made_of(400, 2, 2.0, 3)); }
TEST(wib_tree_counts_its_memory) { check_bytes(slidejoin::IndexKind::wib_tree, 18, 32); }
TEST(wib_tree_of_one_leaf) { check_all(slidejoin::IndexKind::wib_tree, made_of(64, 1, 1.25, 64)); }

namespace {

// A subwindow with one tuple per key, checked while it fills, in arrival order or in sorted batches.
template <class Key>
std::unique_ptr<WibSubwindow<Key>> filled(const std::vector<Key>& keys, std::uint32_t partitions,
                                          std::size_t batch = 1, double slack = 1.25) {
    auto part = std::make_unique<WibSubwindow<Key>>(keys.size(), made_of(1, partitions, slack, 2), nullptr);
    for (std::uint32_t i = 0; i < keys.size(); i += static_cast<std::uint32_t>(batch)) {
        std::vector<Entry<Key>> entries;
        for (std::uint32_t j = i; j < std::min(keys.size(), i + batch); ++j) entries.push_back({keys[j], j});
        std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.key < b.key; });
        if (batch == 1) part->insert(entries[0].key, entries[0].value);
        else part->insert_sorted(entries.data(), entries.size());
        if (i % 5 == 0 || i + batch >= keys.size()) part->check();
    }
    CHECK_EQUAL(part->size(), keys.size());
    CHECK(part->table().used_blocks() <= 2 * partitions);
    for (const Key key : {keys[0], keys[keys.size() / 2], keys.back()}) {
        MatchCount found;
        part->probe({key, key}, {0, static_cast<std::uint32_t>(keys.size())}, true, found);
        CHECK_EQUAL(found.size(), static_cast<std::size_t>(std::count(keys.begin(), keys.end(), key)));
    }
    return part;
}

std::uint32_t reversed(std::uint32_t bits) {
    std::uint32_t result = 0;
    for (int i = 0; i < 32; ++i) result = result << 1 | (bits >> i & 1);
    return result;
}

template <class Key>
double fullness(const WibSubwindow<Key>& part) {
    return static_cast<double>(part.size()) /
           static_cast<double>(std::size_t{part.table().room()} * part.table().used_blocks());
}

}  // namespace

TEST(rising_keys_fill_leaves_to_the_brim) {
    std::vector<std::uint32_t> keys(3000);
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = i * 5;
    CHECK(fullness(*filled(keys, 100)) > 0.98);
    CHECK(fullness(*filled(keys, 100, 64)) > 0.98);
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = i / 3;  // each key three times
    CHECK(fullness(*filled(keys, 100)) > 0.9);
    CHECK(fullness(*filled(keys, 100, 100)) > 0.9);
}

TEST(leaves_of_random_keys_are_half_full_at_least) {
    testing::Random random(2);
    std::vector<std::uint64_t> keys(6000);
    for (auto& key : keys) key = random();
    CHECK(fullness(*filled(keys, 100)) > 0.5);
    CHECK(fullness(*filled(keys, 100, 500)) > 0.5);
    std::sort(keys.begin(), keys.end(), std::greater<>());
    CHECK(fullness(*filled(keys, 100)) > 0.45);
}

TEST(equal_keys_share_a_leaf) {
    for (const std::uint32_t key : {0u, 7u, ~0u}) {
        const auto part = filled(std::vector<std::uint32_t>(2000, key), 50, key == 7 ? 33 : 1);
        CHECK_EQUAL(part->leaves(), 1u);
        CHECK_EQUAL(part->table().length(0), (2000 + part->table().room() - 1) / part->table().room());
    }
}

// Inputs that make leaves as empty, or chains as long, as possible.
TEST(no_input_needs_more_than_two_blocks_a_partition) {
    testing::Random random(8);
    for (const double slack : {1.0, 1.1, 1.25})
        for (const std::uint32_t partitions : {1u, 2u, 3u, 10u, 60u})
            for (const std::size_t batch : {1u, 40u}) {
                const std::size_t count = 40 * partitions;
                std::vector<std::uint32_t> keys(count);
                // One key nearly fills the leaf; the others fall towards it.
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = i < count / 2 ? 1000 : 900'000 - i;
                filled(keys, partitions, batch, slack);
                // The same, between falling and rising keys.
                for (std::uint32_t i = 0; i < count; ++i)
                    keys[i] = i % 3 == 0 ? 1'000'000 : i % 3 == 1 ? 2'000'000 - i : i;
                filled(keys, partitions, batch, slack);
                // One key fills the leaf, with a few tuples below and above it, or below only.
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = i < 5 ? 5 : i < 9 ? 9000 + i : 1000;
                filled(keys, partitions, batch, slack);
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = i < 5 ? 5 : 1000;
                filled(keys, partitions, batch, slack);
                // Keys that halve the gaps again and again.
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = reversed(i);
                filled(keys, partitions, batch, slack);
                // A few keys, each with more tuples than a leaf holds.
                for (auto& key : keys)
                    key = static_cast<std::uint32_t>(testing::below(random, 3)) * 0x7fffffffu;
                filled(keys, partitions, batch, slack);
                // Runs of equal keys, rising and falling.
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = i / 17 * 3;
                filled(keys, partitions, batch, slack);
                for (std::uint32_t i = 0; i < count; ++i) keys[i] = ~0u - i / 17 * 3;
                filled(keys, partitions, batch, slack);
            }
}
SLIDEJOIN_TARGET_END
