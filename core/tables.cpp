// One instruction set's copy of the join of two tables; compiled once per SLIDEJOIN_LEVEL.
#include "tables.hpp"

#include <atomic>

#include "target.hpp"
#include "workers.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/tables.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

void join_tables(const TablesSpec& spec, const Batch& left, const Batch& right, bool pairs,
                 TablesResult& result) {
    if (has_wide_keys(spec.on)) TablesJoin<std::uint64_t>(spec, left, right).run(pairs, result);
    else TablesJoin<std::uint32_t>(spec, left, right).run(pairs, result);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
