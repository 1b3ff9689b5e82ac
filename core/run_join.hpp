// The core's interface for joins of rows that are kept sorted. Nothing here depends on an instruction set
// (join/run_join.hpp has the algorithm and its costs).
#pragma once

#include "table_join.hpp"

namespace slidejoin {

// Rows in the order of their index keys: those keys, of 64 bits or 32 (has_wide_keys), and the columns of the
// conjuncts. The memory may be a mapped file: it is read in place, and only where partners can be.
struct Run {
    const void* keys;
    Batch rows;
};

// The order of rows by index key, equal keys by row, without rows that can have no partner.
struct SortedRows {
    std::vector<std::int64_t> order;
    std::vector<std::uint32_t> narrow;  // their keys: one of the two
    std::vector<std::uint64_t> wide;
};

// All pairs of two runs, each once, some at a time. The runs must outlive it.
class RunPairs {
  public:
    virtual ~RunPairs() = default;
    // Appends up to `limit` pairs of row numbers; fewer at the end only.
    virtual void next(std::size_t limit, Pairs& pairs) = 0;
};

// The conditions of a join: its conjuncts, and which of them rows are sorted by. Calls may run side by side.
class RunJoin {
  public:
    virtual ~RunJoin() = default;
    virtual void sort(const Batch& rows, SortedRows& sorted) const = 0;
    virtual std::unique_ptr<RunPairs> pairs(const Run& left, const Run& right) const = 0;
    // Sets the flags of the rows of one side that have a partner.
    virtual void match(const Run& left, const Run& right, int side, std::uint8_t* flags) const = 0;
};

std::unique_ptr<RunJoin> make_run_join(const JoinSpec& spec, Level level);

}  // namespace slidejoin
