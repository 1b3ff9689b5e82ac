// One structure on one instruction set: compiled for each SLIDEJOIN_STRUCTURE (its header, its class template
// and its kind are given) and each SLIDEJOIN_LEVEL.
#include "engine.hpp"
#include "target.hpp"
#include "workers.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/index_pair.hpp"
#include SLIDEJOIN_HEADER

namespace slidejoin::SLIDEJOIN_TARGET {

#define SLIDEJOIN_JOIN(a, b) a##b
#define SLIDEJOIN_NAME(kind) SLIDEJOIN_JOIN(make_, kind)

template <class Key>
std::unique_ptr<IndexPair<Key>> SLIDEJOIN_NAME(SLIDEJOIN_KIND)(const JoinSpec& spec) {
    return std::make_unique<IndexPairOf<Key, SLIDEJOIN_STRUCTURE<Key>>>(spec);
}

template std::unique_ptr<IndexPair<std::uint32_t>> SLIDEJOIN_NAME(SLIDEJOIN_KIND)(const JoinSpec& spec);
template std::unique_ptr<IndexPair<std::uint64_t>> SLIDEJOIN_NAME(SLIDEJOIN_KIND)(const JoinSpec& spec);

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
