// The RaP-Table
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/rap_table.hpp"
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

TEST(rap_table) { check_all<RapTable>(); }
TEST(rap_table_of_small_subwindows) {
    check_all<RapTable>(tiny(16, 0, 1.25, 8));
    check_all<RapTable>(tiny(64, 0, 1.25, 8));
}
TEST(rap_table_of_small_partitions) { check_all<RapTable>(tiny(1024, 256, 1.1, 2)); }
TEST(rap_table_of_few_partitions) { check_all<RapTable>(tiny(400, 2, 2.0, 3)); }
TEST(rap_table_of_one_partition) { check_all<RapTable>(tiny(64, 1, 1.25, 64)); }
SLIDEJOIN_TARGET_END
