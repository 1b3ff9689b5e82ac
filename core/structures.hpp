// The structures of the core by their kind. Each is compiled for itself, in structure.cpp.
#pragma once

#include "join/index_pair.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The structures, as X(kind, class template).
#define SLIDEJOIN_STRUCTURES(X) \
    X(nested_loop, NestedLoop)  \
    X(b_tree, BPlusTree)        \
    X(b_chain, BChain)          \
    X(ib_chain, IbChain)        \
    X(im_tree, ImTree)          \
    X(pim_tree, PimTree)        \
    X(rap_table, RapTable)      \
    X(wib_tree, WibTree)        \
    X(bi_sort, BiSort)          \
    X(bucket_tree, BucketTree)  \
    X(sorted_run, SortedRun)

#define SLIDEJOIN_DECLARE(kind, Structure) \
    template <class Key>                   \
    std::unique_ptr<IndexPair<Key>> make_##kind(const JoinSpec& spec);
SLIDEJOIN_STRUCTURES(SLIDEJOIN_DECLARE)
#undef SLIDEJOIN_DECLARE

template <class Key>
std::unique_ptr<IndexPair<Key>> make_index_pair(const JoinSpec& spec) {
    switch (spec.index) {
#define SLIDEJOIN_CASE(kind, Structure) \
    case IndexKind::kind:               \
        return make_##kind<Key>(spec);
        SLIDEJOIN_STRUCTURES(SLIDEJOIN_CASE)
#undef SLIDEJOIN_CASE
    }
    throw std::logic_error("unknown index");
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
