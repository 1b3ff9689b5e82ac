// The join for one instruction set, without the indexes (structure.cpp); compiled once per SLIDEJOIN_LEVEL.
#include "engine.hpp"
#include "target.hpp"
#include "workers.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "join/serial.hpp"
#include "structures.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
static std::unique_ptr<Engine> make_for(const JoinSpec& spec) {
    return std::make_unique<SerialJoin<Key>>(spec, make_index_pair<Key>);
}

std::unique_ptr<Engine> make(const JoinSpec& spec) {
    return has_wide_keys(spec) ? make_for<std::uint64_t>(spec) : make_for<std::uint32_t>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
