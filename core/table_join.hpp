// The core's outer face for two whole tables: both at once, and all their pairs. Nothing here depends on an
// instruction set.
#pragma once

#include "engine.hpp"

namespace slidejoin {

// Rows of a table that the core can number, one less than 32 bits hold.
inline constexpr std::uint64_t kMaxRows = (std::uint64_t{1} << 32) - 1;

struct TableJoinSpec {
    JoinSpec on;  // its conjuncts and what of them is sorted by; windows and indexes are not read
    std::size_t workers = 1;
    std::size_t share = std::size_t{1} << 16;  // rows for which another worker is worth its start
    std::uint64_t limit = 0;                   // pairs at most; more are a BatchError
    int flags_of = -1;                         // 0 or 1: flags of this side's rows instead of pairs
};

struct TableJoinResult {
    Pairs pairs;                        // rows by number: by the left one, then by the right one
    std::vector<std::uint8_t> matched;  // instead of pairs: whether each row of one side has a partner
};

// Finds the pairs, or only which rows of one side are in one.
void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, Level level,
                 TableJoinResult& result);

}  // namespace slidejoin
