// The WiB+-Tree: against a plain list (index_cases.hpp), how its leaves fill, and what equal keys do to them.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/wib_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

slidejoin::IndexOptions tiny(std::uint32_t least, std::uint32_t partitions, double slack, std::uint32_t subwindows) {
    slidejoin::IndexOptions options;
    options.least = least;
    options.partitions = partitions;
    options.slack = slack;
    options.subwindows = subwindows;
    return options;
}

}  // namespace

TEST(wib_tree) { check_all<WibTree>(); }
TEST(wib_tree_of_small_subwindows) {
    check_all<WibTree>(tiny(16, 0, 1.25, 8));
    check_all<WibTree>(tiny(64, 0, 1.25, 8));
}
TEST(wib_tree_of_small_leaves) { check_all<WibTree>(tiny(1024, 256, 1.1, 2)); }
TEST(wib_tree_of_few_leaves) { check_all<WibTree>(tiny(400, 2, 2.0, 3)); }
TEST(wib_tree_of_one_leaf) { check_all<WibTree>(tiny(64, 1, 1.25, 64)); }
SLIDEJOIN_TARGET_END
