// The core's interface for the join of two whole tables. Nothing here depends on an instruction set
// (join/sort_merge.hpp has the algorithm and its costs).
#pragma once

#include "engine.hpp"
#include "workers.hpp"

namespace slidejoin {

// The most rows of a table: their numbers fit into 32 bits.
inline constexpr std::uint64_t kMaxRows = (std::uint64_t{1} << 32) - 1;

struct TableJoinSpec {
    JoinSpec on;  // its conjuncts, and which of them the tables are sorted by; nothing else is read
    std::size_t workers = 1;
    std::size_t share = std::size_t{1} << 16;  // rows that are worth another worker
    std::uint64_t limit = 0;                   // more pairs than this are a BatchError
    int flags_of = -1;                         // 0 or 1: flags of this side's rows instead of pairs
    bool blocks = false;                       // the result may have blocks instead of pairs
};

// Pairs that are not in memory: each block is written anew wherever it is used.
class PairBlocks {
  public:
    static constexpr std::uint32_t kMost = 256;       // pairs of a left row
    static constexpr std::size_t kSpare = 2 * kMost;  // room that a block needs behind its pairs

    virtual ~PairBlocks() = default;
    virtual std::size_t size() const = 0;
    // Writes some pairs, at least one, and those of the same left rows around them. Returns how many stand
    // before them. Any number of threads may read.
    virtual std::size_t read(Slice pairs, std::int64_t* left, std::int64_t* right) const = 0;
};

struct TableJoinResult {
    Pairs pairs;                         // row numbers, sorted by the left one, then by the right one
    std::unique_ptr<PairBlocks> blocks;  // or nullptr; the same without a copy in memory
    std::vector<std::uint8_t> matched;   // instead of pairs: whether each row of one side has a partner
};

// Finds the pairs, or only which rows of one side have a partner.
void join_tables(const TableJoinSpec& spec, const Batch& left, const Batch& right, Level level,
                 TableJoinResult& result);

}  // namespace slidejoin
