// One instruction set's copy of the core; compiled once per SLIDEJOIN_LEVEL.
#include "engine.hpp"
#include "target.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "index/bplus_tree.hpp"
#include "index/nested_loop.hpp"
#include "join/serial.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class User>
std::unique_ptr<Engine> make_for(const JoinSpec& spec) {
    using Key = Encoded<User>;
    auto condition = std::make_unique<BandCondition<User>>(spec.lower, spec.upper);
    switch (spec.index) {
        case IndexKind::nested_loop:
            return std::make_unique<SerialJoin<Key, NestedLoop>>(spec, std::move(condition));
        case IndexKind::b_tree:
            return std::make_unique<SerialJoin<Key, BPlusTree>>(spec, std::move(condition));
    }
    throw std::logic_error("unknown index");
}

std::unique_ptr<Engine> make(const JoinSpec& spec) {
    switch (spec.key) {
        case KeyType::int8:
            return make_for<std::int8_t>(spec);
        case KeyType::int16:
            return make_for<std::int16_t>(spec);
        case KeyType::int32:
            return make_for<std::int32_t>(spec);
        case KeyType::int64:
            return make_for<std::int64_t>(spec);
        case KeyType::uint8:
            return make_for<std::uint8_t>(spec);
        case KeyType::uint16:
            return make_for<std::uint16_t>(spec);
        case KeyType::uint32:
            return make_for<std::uint32_t>(spec);
        case KeyType::uint64:
            return make_for<std::uint64_t>(spec);
        case KeyType::float32:
            return make_for<float>(spec);
        case KeyType::float64:
            return make_for<double>(spec);
    }
    throw std::logic_error("unknown key type");
}

}  // namespace slidejoin::SLIDEJOIN_TARGET

SLIDEJOIN_TARGET_END
