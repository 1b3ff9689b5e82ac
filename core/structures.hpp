// Makes the indexes of a join by their kind. Each structure is compiled by itself, in structure.cpp.
#pragma once

#include "join/shared_queue.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

#define SLIDEJOIN_DECLARE(kind, ...) \
    template <class Key>             \
    std::unique_ptr<IndexPair<Key>> make_##kind(const JoinSpec& spec);
SLIDEJOIN_INDEXES(SLIDEJOIN_DECLARE)
#undef SLIDEJOIN_DECLARE

template <class Key>
std::unique_ptr<IndexPair<Key>> make_index_pair(const JoinSpec& spec) {
    if (spec.strategy == Strategy::shared_index && spec.index == IndexKind::pim_tree)
        return make_shared_index<Key>(spec);
    switch (spec.index) {
#define SLIDEJOIN_CASE(kind, ...) \
    case IndexKind::kind:         \
        return make_##kind<Key>(spec);
        SLIDEJOIN_INDEXES(SLIDEJOIN_CASE)
#undef SLIDEJOIN_CASE
    }
    throw std::logic_error("unknown index");
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
