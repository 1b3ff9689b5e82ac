// The indexes without parameters (index_cases.hpp), and the features that only trees have.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/bplus_tree.hpp"
#include "../index/nested_loop.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(nested_loop) { check_all(slidejoin::IndexKind::nested_loop); }
TEST(bplus_tree) { check_all(slidejoin::IndexKind::b_tree); }

TEST(indexes_without_parameters_count_their_memory) {
    check_bytes(slidejoin::IndexKind::nested_loop, 12, 32);
    check_bytes(slidejoin::IndexKind::b_tree, 40, 60);
}

TEST(bplus_tree_of_several_levels) {
    testing::Random random(1);
    BPlusTree<std::uint64_t> tree;
    std::vector<Entry<std::uint64_t>> entries(100'000);
    for (std::uint32_t i = 0; i < entries.size(); ++i) entries[i] = {random(), i};
    for (std::size_t i = 0; i < entries.size(); i += 1000) insert_sorting(tree, &entries[i], 1000);
    tree.check(0, 100'000);
    for (std::uint32_t gone = 0; gone < 100'000; gone += 997) {
        tree.forget(gone);
        if (gone % 9 == 0) tree.check(gone, 100'000);
        MatchCount count;
        tree.probe({0, ~std::uint64_t{0}}, {0, 100'000}, count);
        CHECK_EQUAL(count.size(), 100'000 - gone);
    }
}

TEST(a_broken_chain_is_noticed) {
    Fifo<std::uint32_t> fifo;
    fifo.push(1, 5);
    fifo.push(2, 6);
    fifo.check(5, 7);
    bool noticed = false;
    try {
        fifo.check(6, 7);
    } catch (const slidejoin::BrokenInvariant&) {
        noticed = true;
    }
    CHECK(noticed);
}
SLIDEJOIN_TARGET_END
