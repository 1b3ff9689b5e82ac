// Every structure in one translation unit, for programs that are built without the core's library.
#pragma once

#include "../index/bi_sort.hpp"
#include "../index/bplus_tree.hpp"
#include "../index/bucket_tree.hpp"
#include "../index/chain.hpp"
#include "../index/im_tree.hpp"
#include "../index/nested_loop.hpp"
#include "../index/pim_tree.hpp"
#include "../index/rap_table.hpp"
#include "../index/sorted_run.hpp"
#include "../index/wib_tree.hpp"
#include "../structures.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

#define SLIDEJOIN_DEFINE(kind, Structure)                                \
    template <class Key>                                                 \
    std::unique_ptr<IndexPair<Key>> make_##kind(const JoinSpec& spec) {  \
        return std::make_unique<IndexPairOf<Key, Structure<Key>>>(spec); \
    }
SLIDEJOIN_STRUCTURES(SLIDEJOIN_DEFINE)
#undef SLIDEJOIN_DEFINE

}  // namespace slidejoin::SLIDEJOIN_TARGET
