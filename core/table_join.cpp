// The join of two tables for one instruction set; compiled once per SLIDEJOIN_LEVEL.
#include "table_join.hpp"

#include <numeric>

#include "crew.hpp"
#include "target.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/sort_merge.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, TableJoinResult& result) {
    if (has_wide_keys(spec.on)) SortMergeJoin<std::uint64_t>(spec, left, right).run(result);
    else SortMergeJoin<std::uint32_t>(spec, left, right).run(result);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
