// The indexes that several workers share, on one instruction set; compiled once per SLIDEJOIN_LEVEL.
#include "engine.hpp"
#include "target.hpp"
#include "workers.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/shared_index.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
std::unique_ptr<IndexPair<Key>> make_shared_index(const JoinSpec& spec) {
    return std::make_unique<SharedIndexPair<Key>>(spec);
}

template std::unique_ptr<IndexPair<std::uint32_t>> make_shared_index(const JoinSpec& spec);
template std::unique_ptr<IndexPair<std::uint64_t>> make_shared_index(const JoinSpec& spec);

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
