// Blocks of one entry: plain C++ that runs everywhere and that compilers turn into what the baseline has.
#pragma once

#include "../window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 1;

template <class Key>
inline constexpr unsigned kKeyLanes = 1;

inline unsigned lane_count(unsigned mask) { return mask; }

template <class Key>
inline unsigned lanes_below(const Key* keys, Key key) {
    return *keys < key;
}

template <class Key>
inline unsigned lanes_up_to(const Key* keys, Key key) {
    return *keys <= key;
}

template <class Key>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval) {
    return static_cast<Key>(*keys - interval.low) <= static_cast<Key>(interval.high - interval.low);
}

class PositionBlock {
  public:
    PositionBlock(const std::uint32_t* positions, Visible range)
        : relative_(range.relative(*positions)), visible_(relative_ < range.count) {}

    unsigned visible() const { return visible_; }

    void store(std::uint32_t* out, unsigned) const { *out = relative_; }

  private:
    std::uint32_t relative_;
    unsigned visible_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
