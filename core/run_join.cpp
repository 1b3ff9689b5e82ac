// The join of sorted runs for one instruction set; compiled once per SLIDEJOIN_LEVEL.
#include "run_join.hpp"

#include <atomic>

#include "crew.hpp"
#include "target.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/run_join.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

std::unique_ptr<RunJoin> make_runs(const JoinSpec& spec) {
    if (has_wide_keys(spec)) return std::make_unique<SortedRunJoin<std::uint64_t>>(spec);
    return std::make_unique<SortedRunJoin<std::uint32_t>>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
