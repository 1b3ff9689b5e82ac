// Encoded keys: every key type becomes an unsigned integer of 32 or 64 bits that keeps the order of the keys.
// Integers flip their sign bit; floats use the total-order trick (negative numbers are inverted), with -0.0
// made +0.0 first. NaN has no place in the order and is never encoded. About 1 ns a key.
#pragma once

#include "target.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class User>
using Encoded = std::conditional_t<(sizeof(User) <= 4), std::uint32_t, std::uint64_t>;

template <class Key>
struct Interval {  // closed; empty when low > high
    Key low;
    Key high;

    bool empty() const { return low > high; }
    bool contains(Key key) const { return low <= key && key <= high; }
};

template <class Key>
inline constexpr Key kSignBit = Key{1} << (sizeof(Key) * 8 - 1);

template <class User>
inline bool is_null(User value) {
    if constexpr (std::is_floating_point_v<User>) return value != value;
    return false;
}

template <class User>
inline Encoded<User> encode(User value) {
    using Key = Encoded<User>;
    if constexpr (std::is_floating_point_v<User>) {
        const Key bits = std::bit_cast<Key>(value + User{0});  // -0.0 + 0.0 is +0.0
        return bits & kSignBit<Key> ? ~bits : bits | kSignBit<Key>;
    } else if constexpr (std::is_signed_v<User>) {
        return static_cast<Key>(static_cast<std::make_signed_t<Key>>(value)) ^ kSignBit<Key>;
    } else {
        return value;
    }
}

// The value of a key. The code between the negative float nearest to zero and +0.0 belongs to no key; it
// decodes to -0.0, which compares like 0.0.
template <class User>
inline User decode(Encoded<User> key) {
    using Key = Encoded<User>;
    if constexpr (std::is_floating_point_v<User>) {
        return std::bit_cast<User>(key & kSignBit<Key> ? key ^ kSignBit<Key> : ~key);
    } else if constexpr (std::is_signed_v<User>) {
        return static_cast<User>(static_cast<std::make_signed_t<Key>>(key ^ kSignBit<Key>));
    } else {
        return static_cast<User>(key);
    }
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
