// A sorted run: keys in order, and the positions that belong to them, in two arrays. Equal keys stand in the
// order of their positions.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
struct Run {
    Buffer<Key> keys;
    Buffer<std::uint32_t> positions;
    std::size_t size = 0;

    // Room for so many entries, and for a vector of keys behind them; what it held is lost.
    void start(std::size_t capacity) {
        size = 0;
        keys.reserve(capacity + kPadding);
        positions.reserve(capacity + kPadding);
    }

    void add(Key key, std::uint32_t position) {
        keys[size] = key;
        positions[size++] = position;
    }

    // Slots behind the last key hold the greatest one.
    void finish() { std::fill_n(keys.data() + size, kPadding, std::numeric_limits<Key>::max()); }

    std::size_t bytes() const { return keys.bytes() + positions.bytes(); }

    void check() const {
        for (std::size_t i = 1; i < size; ++i) {
            require(keys[i - 1] <= keys[i], "run: keys are sorted");
            require(keys[i - 1] != keys[i] || before(positions[i - 1], positions[i]),
                    "run: equal keys stand in the order of their positions");
        }
    }

    static constexpr std::size_t kPadding = 256 / sizeof(Key);
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
