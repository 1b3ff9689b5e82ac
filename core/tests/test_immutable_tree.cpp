// The immutable tree compared with std::lower_bound, at every size around the limits of nodes and levels.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/immutable_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

template <class Key>
std::vector<Key> sorted_keys(std::size_t size, Shape shape, testing::Random& random) {
    std::vector<Key> keys(size);
    for (std::size_t i = 0; i < size; ++i) keys[i] = make_key<Key>(shape, i, random);
    std::sort(keys.begin(), keys.end());
    return keys;
}

template <class Key>
void fill(ImmutableTree<Key>& tree, const std::vector<Key>& keys) {
    SortedEntries<Key> run;
    run.start(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) run.add(keys[i], static_cast<std::uint32_t>(i));
    run.finish();
    tree.take(run);
    tree.check();
    CHECK_EQUAL(tree.size(), keys.size());
}

// Bounds, and scans that list and count exactly the entries of an interval.
template <class Key>
void check_search(const ImmutableTree<Key>& tree, const std::vector<Key>& keys, Key low, Key high) {
    const auto place = [&](auto found) { return static_cast<std::size_t>(found - keys.begin()); };
    const std::size_t from = place(std::lower_bound(keys.begin(), keys.end(), low));
    const std::size_t to = place(std::upper_bound(keys.begin(), keys.end(), high));
    CHECK_EQUAL(tree.lower_bound(low), from);
    MatchList list;
    MatchCount count;
    const Visible all{0, 1u << 31};
    tree.probe({low, high}, all, list);
    tree.probe({low, high}, all, count, tree.prefetch_leaf(low));
    CHECK_EQUAL(list.size(), to - from);
    CHECK_EQUAL(count.size(), to - from);
    for (std::size_t i = from; i < to; ++i) CHECK_EQUAL(list.data()[i - from], i);
    // Only visible positions are returned.
    const Visible few{static_cast<std::uint32_t>(keys.size() / 3),
                      static_cast<std::uint32_t>(keys.size() / 2)};
    std::size_t seen = 0;
    for (std::size_t i = from; i < to; ++i) seen += few.contains(static_cast<std::uint32_t>(i));
    MatchCount filtered;
    tree.probe({low, high}, few, filtered);
    CHECK_EQUAL(filtered.size(), seen);
}

template <class Key>
void check_sizes(Shape shape) {
    testing::Random random(static_cast<unsigned>(shape));
    ImmutableTree<Key> tree;
    tree.check();
    CHECK_EQUAL(tree.lower_bound(0), 0u);
    for (std::size_t size = 0; size <= 3000; size += size < 600 ? 1 : 37) {
        const std::vector<Key> keys = sorted_keys<Key>(size, shape, random);
        fill(tree, keys);
        check_search<Key>(tree, keys, 0, 0);
        check_search<Key>(tree, keys, 0, ~Key{0});
        check_search<Key>(tree, keys, ~Key{0}, ~Key{0});
        for (int i = 0; i < 30; ++i) {
            Key low = make_key<Key>(shape, testing::below(random, size + 1), random);
            Key high = make_key<Key>(shape, testing::below(random, size + 1), random);
            if (size && i % 2) low = keys[testing::below(random, size)];
            if (i % 5 == 1) high = low;
            if (low > high) std::swap(low, high);
            check_search(tree, keys, low, high);
        }
    }
}

}  // namespace

TEST(immutable_tree_of_every_size) {
    for (const Shape shape : kShapes) {
        check_sizes<std::uint32_t>(shape);
        check_sizes<std::uint64_t>(shape);
    }
}

TEST(immutable_tree_locates_groups) {
    testing::Random random(3);
    for (const std::size_t size : {std::size_t{0}, std::size_t{20}, std::size_t{70'000}}) {
        const std::vector<std::uint64_t> keys = sorted_keys<std::uint64_t>(size, Shape::uniform, random);
        ImmutableTree<std::uint64_t> tree;
        fill(tree, keys);
        std::uint64_t asked[kGroup];
        std::size_t nodes[kGroup] = {};
        for (std::uint64_t& key : asked) key = random();
        asked[3] = 0;
        asked[4] = ~std::uint64_t{0};
        const unsigned half = tree.height() / 2;
        tree.locate(asked, kGroup, 0, half, nodes);
        for (std::size_t i = 0; i < kGroup; ++i) {
            CHECK(asked[i] <= tree.bound(half, nodes[i]));
            CHECK(nodes[i] == 0 || tree.bound(half, nodes[i] - 1) < asked[i]);
        }
        tree.locate(asked, kGroup, half, tree.height(), nodes);
        for (std::size_t i = 0; i < kGroup; ++i) CHECK_EQUAL(nodes[i], tree.prefetch_leaf(asked[i]));
    }
}

TEST(immutable_tree_reuses_its_memory) {
    testing::Random random(4);
    ImmutableTree<std::uint32_t> tree;
    SortedEntries<std::uint32_t> run;
    std::size_t bytes = 0;
    for (int round = 0; round < 6; ++round) {
        const std::vector<std::uint32_t> keys = sorted_keys<std::uint32_t>(10'000, Shape::uniform, random);
        run.start(keys.size());
        for (std::size_t i = 0; i < keys.size(); ++i) run.add(keys[i], static_cast<std::uint32_t>(i));
        run.finish();
        tree.take(run);
        tree.check();
        if (round == 2) bytes = tree.bytes() + run.bytes();
    }
    CHECK_EQUAL(tree.bytes() + run.bytes(), bytes);
}
SLIDEJOIN_TARGET_END
