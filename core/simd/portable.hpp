// Blocks of one entry: plain C++ that runs everywhere.
#pragma once

#include "../window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 1;
inline constexpr std::size_t kFew = 8;  // numbers that are sorted and written together

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

// Adds `base` to each of up to kFew positions and writes them, in order if `sorted`.
inline void write_few(const std::uint32_t* found, std::size_t count, bool sorted, std::uint64_t base,
                      std::int64_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::int64_t>(base + found[i]);
        std::size_t at = i;
        for (; sorted && at > 0 && out[at - 1] > number; --at) out[at] = out[at - 1];
        out[at] = number;
    }
}

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) { std::fill_n(out, kFew, number); }

}  // namespace slidejoin::SLIDEJOIN_TARGET
