// Blocks of one entry: plain C++ that runs everywhere.
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

// Which of four times sixteen keys lie in the interval.
template <class Key>
inline std::uint64_t lanes_inside_64(const Key* const (&keys)[4], Interval<Key> interval) {
    std::uint64_t lanes = 0;
    for (unsigned i = 0; i < 64; ++i)
        lanes |= std::uint64_t{lanes_inside(keys[i / 16] + i % 16, interval)} << i;
    return lanes;
}

class PositionBlock {
  public:
    PositionBlock(const std::uint32_t* positions, Visible range)
        : relative_(range.relative(*positions)), visible_(relative_ < range.count) {}

    unsigned visible() const { return visible_; }

    void store(std::uint32_t* out, unsigned) const { *out = relative_; }
    void store(std::int64_t* out, unsigned, std::uint64_t base) const {
        *out = static_cast<std::int64_t>(base + relative_);
    }

  private:
    std::uint32_t relative_;
    unsigned visible_;
};

// Writes a chosen number.
template <class Number>
inline void pack(const Number* from, unsigned, Number* out) {
    *out = *from;
}

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

// Writes the visible ones of up to kChosen positions each, with `base` added to their distance from the first
// visible one, in ascending order. Returns how many are visible.
inline std::size_t write_chosen(Chosen one, Chosen other, Visible range, std::uint64_t base,
                                std::int64_t* out) {
    std::uint32_t found[2 * kChosen];
    std::size_t count = 0;
    for (const Chosen& chosen : {one, other})
        for (std::uint64_t left = chosen.bits; left; left &= left - 1) {
            const std::uint32_t position = chosen.positions[std::countr_zero(left)];
            if (range.contains(position)) found[count++] = range.relative(position);
        }
    write_few(found, count, true, base, out);
    return count;
}

inline std::size_t write_chosen(Chosen chosen, Visible range, std::uint64_t base, std::int64_t* out) {
    return write_chosen(chosen, {}, range, base, out);
}

// Writes one number into kChosen slots.
inline void fill_chosen(std::int64_t number, std::int64_t* out) { std::fill_n(out, kChosen, number); }

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) { std::fill_n(out, kFew, number); }

}  // namespace slidejoin::SLIDEJOIN_TARGET
