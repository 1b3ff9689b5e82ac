// One instruction set's copy of the core; compiled once per SLIDEJOIN_LEVEL.
#include "engine.hpp"
#include "target.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "index/bplus_tree.hpp"
#include "index/nested_loop.hpp"
#include "join/serial.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
std::unique_ptr<Engine> make_for(const JoinSpec& spec) {
    switch (spec.index) {
        case IndexKind::nested_loop:
            return std::make_unique<SerialJoin<Key, NestedLoop>>(spec);
        case IndexKind::b_tree:
            return std::make_unique<SerialJoin<Key, BPlusTree>>(spec);
    }
    throw std::logic_error("unknown index");
}

std::unique_ptr<Engine> make(const JoinSpec& spec) {
    return has_wide_keys(spec) ? make_for<std::uint64_t>(spec) : make_for<std::uint32_t>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
