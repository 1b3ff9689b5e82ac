// The indexes and their parameters: the one list, which C++, CMake (the lines of SLIDEJOIN_INDEXES), Python
// and the tests read. Users write an index as its kind with hyphens, and its parameters by name:
// "pim-tree(merge_ratio=0.0625)".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// X(kind, class template, header in index/, fields of IndexOptions that it reads).
#define SLIDEJOIN_INDEXES(X)                                                       \
    X(nested_loop, NestedLoop, nested_loop, "")                                    \
    X(b_tree, BPlusTree, bplus_tree, "")                                           \
    X(b_chain, BChain, chain, "chain_length min_entries")                          \
    X(ib_chain, IbChain, chain, "chain_length min_entries")                        \
    X(im_tree, ImTree, im_tree, "merge_ratio min_entries")                         \
    X(pim_tree, PimTree, pim_tree, "merge_ratio insertion_depth min_entries")      \
    X(rap_table, RapTable, rap_table, "subwindows partitions slack min_entries")   \
    X(wib_tree, WibTree, wib_tree, "subwindows partitions slack min_entries")      \
    X(bi_sort, BiSort, bi_sort, "sorted_subwindows partitions buffer min_entries") \
    X(bucket_tree, BucketTree, bucket_tree, "")                                    \
    X(sorted_run, SortedRun, sorted_run, "")

// X(type, field, name, default, least, most, meaning).
#define SLIDEJOIN_PARAMETERS(X)                                                                             \
    X(std::uint32_t, chain_length, "chain_length", 2, 2, 64,                                                \
      "sub-indexes of a window, the active one included")                                                   \
    X(double, merge_ratio, "merge_ratio", 0.125, 0x1p-10, 1, "share of the window that is kept mutable")    \
    X(std::uint32_t, insertion_depth, "insertion_depth", 0, 0, 4,                                           \
      "level of the immutable tree at which sub-trees hang; 0 goes by its size: the deepest at which they " \
      "come to fill half a leaf")                                                                           \
    X(std::uint32_t, subwindows, "subwindows", 4, 2, 1024, "subwindows of a window")                        \
    X(std::uint32_t, sorted_subwindows, "subwindows", 8, 2, 1024, "subwindows of a window")                 \
    X(std::uint32_t, partitions, "partitions", 0, 0, 1 << 20,                                               \
      "partitions of a subwindow; 0 goes by its size")                                                      \
    X(double, slack, "slack", 1.25, 1.1, 2, "room of a partition, over its even share")                     \
    X(std::uint32_t, buffer, "buffer", 0, 0, 1 << 24,                                                       \
      "entries of the insertion buffer; 0 goes by the subwindow's size")                                    \
    X(std::uint32_t, min_entries, "min_entries", 1024, 1, 1 << 16,                                          \
      "entries of a sub-index, a subwindow or a merge at least, however small the window")

namespace slidejoin {

#define SLIDEJOIN_AS_KIND(kind, ...) kind,
enum class IndexKind { SLIDEJOIN_INDEXES(SLIDEJOIN_AS_KIND) };
#undef SLIDEJOIN_AS_KIND

// Parameters of the indexes; each reads its own (docs/indexes.md). All decide speed, never results.
struct IndexOptions {
#define SLIDEJOIN_FIELD(type, field, name, initial, ...) type field = initial;
    SLIDEJOIN_PARAMETERS(SLIDEJOIN_FIELD)
#undef SLIDEJOIN_FIELD
};

struct Parameter {
    const char* name;
    bool whole;  // takes whole numbers only
    double initial, least, most;
    const char* meaning;
    void (*set)(IndexOptions& options, double value);  // the range is the caller's to check
};

struct IndexEntry {
    IndexKind kind;
    std::string name;
    std::vector<Parameter> parameters;
};

// All indexes, in the order of their kinds.
const std::vector<IndexEntry>& catalog();

}  // namespace slidejoin
