// The vector operations that the indexes use. Code for single instruction sets is in simd/; the loops are
// written once, here:
//   count_below, count_up_to              place of a key in a sorted node
//   select_positions, tally_positions     positions that are visible
//   select_padded, tally_padded           the same for arrays that are readable in whole blocks
//   select_entries, tally_entries         entries in an interval and visible
//   lanes_within                          which of up to 64 keys lie in an interval
//   select_among, tally_among             positions that are chosen and visible
//   take_visible                          entries that are visible, copied or moved together
//   write_few, write_chosen, sort_network positions in order
// A select writes relative positions to `out`, which must have room for kBlock more than `count`, and
// returns how many it wrote; a tally only counts them. About 1 ns for each vector.
#pragma once

#include "key.hpp"
#include "window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kFew = 8;     // numbers that are sorted and written together
inline constexpr std::size_t kChosen = 4;  // the same of those that an arrival has chosen

// Some of 64 positions, whose bits are set.
struct Chosen {
    const std::uint32_t* positions;
    std::uint64_t bits;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET

#if SLIDEJOIN_LEVEL == 2
#include "simd/avx512.hpp"
#elif SLIDEJOIN_LEVEL == 1
#include "simd/avx2.hpp"
#else
#include "simd/portable.hpp"
#endif

namespace slidejoin::SLIDEJOIN_TARGET {

// Written in assembly where possible: GCC takes a function that only prefetches for one without effect, and
// drops its calls.
inline void prefetch(const void* address) {
#if defined(__x86_64__)
    __asm__ volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address);
#endif
}

// Of memory that is about to be written: other processors give it up at once.
inline void prefetch_write(const void* address) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

template <std::size_t kBytes>
inline void prefetch_span(const void* address) {
    for (std::size_t at = 0; at < kBytes; at += kCacheLine) prefetch(static_cast<const char*>(address) + at);
}

#if SLIDEJOIN_LEVEL != 1
// How many keys of a node are < key. Slots behind the last key hold the greatest key.
template <unsigned kSlots, class Key>
[[gnu::always_inline]] inline unsigned count_below(const Key* keys, Key key) {
    unsigned total = 0;
    for (unsigned i = 0; i < kSlots; i += kKeyLanes<Key>) total += lane_count(lanes_below(keys + i, key));
    return total;
}
#endif

// How many of a node's first `count` keys are <= key.
template <unsigned kSlots, class Key>
inline unsigned count_up_to(const Key* keys, unsigned count, Key key) {
    unsigned total = 0;
    for (unsigned i = 0; i < kSlots; i += kKeyLanes<Key>) total += lane_count(lanes_up_to(keys + i, key));
    return std::min(total, count);
}

inline unsigned first_lanes(std::size_t count) { return (1u << std::min(count, kBlock)) - 1; }

// What is done with lanes of a block of positions: they are written side by side, or counted.
struct Select {
    std::uint32_t* out;
    std::size_t count = 0;

    [[gnu::always_inline]] void operator()(const PositionBlock& block, unsigned lanes) {
        block.store(out + count, lanes);
        count += lane_count(lanes);
    }
};
struct Tally {
    std::size_t count = 0;

    void operator()(const PositionBlock&, unsigned lanes) { count += lane_count(lanes); }
};

// Calls use(block, lanes) for the blocks of positions, with the lanes that are visible, and returns
// use.count. Whole blocks are read: one even if there are no positions, so that up to kBlock of them cost no
// branch.
template <class Use>
[[gnu::always_inline]] inline std::size_t each_padded(const std::uint32_t* positions, std::size_t count,
                                                      Visible range, Use use) {
    std::size_t i = 0;
    do {
        const PositionBlock block(positions + i, range);
        use(block, block.visible() & first_lanes(count - i));
        i += kBlock;
    } while (i < count);
    return use.count;
}

// The same without reading behind the last position, and of the lanes those that inside(i), or inside(i,
// lanes of the last block), has: positions + i is the start of the block.
template <class Inside, class Use>
[[gnu::always_inline]] inline std::size_t each_exact(const std::uint32_t* positions, std::size_t count,
                                                     Visible range, Inside inside, Use use) {
    std::size_t i = 0;
    for (; i + kBlock <= count; i += kBlock) {
        const PositionBlock block(positions + i, range);
        use(block, block.visible() & inside(i));
    }
    if constexpr (kBlock > 1) {
        if (i == count) return use.count;
        const PositionBlock block(positions + i, range, count - i);
        use(block, block.visible() & inside(i, count - i) & first_lanes(count - i));
    }
    return use.count;
}

template <class Use>
[[gnu::always_inline]] inline std::size_t each_position(const std::uint32_t* positions, std::size_t count,
                                                        Visible range, Use use) {
    return each_exact(positions, count, range, [](auto...) { return ~0u; }, use);
}

template <class Key, class Use>
[[gnu::always_inline]] inline std::size_t each_entry(const Key* keys, const std::uint32_t* positions,
                                                     std::size_t count, Interval<Key> interval, Visible range,
                                                     Use use) {
    const auto inside = [&](std::size_t i, auto... last) __attribute__((always_inline)) {
        return lanes_inside(keys + i, interval, last...);
    };
    return each_exact(positions, count, range, inside, use);
}

inline std::size_t select_padded(const std::uint32_t* positions, std::size_t count, Visible range,
                                 std::uint32_t* out) {
    return each_padded(positions, count, range, Select{out});
}
inline std::size_t tally_padded(const std::uint32_t* positions, std::size_t count, Visible range) {
    return each_padded(positions, count, range, Tally());
}

inline std::size_t select_positions(const std::uint32_t* positions, std::size_t count, Visible range,
                                    std::uint32_t* out) {
    return each_position(positions, count, range, Select{out});
}
inline std::size_t tally_positions(const std::uint32_t* positions, std::size_t count, Visible range) {
    return each_position(positions, count, range, Tally());
}

template <class Key>
inline std::size_t select_entries(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                  Interval<Key> interval, Visible range, std::uint32_t* out) {
    return each_entry(keys, positions, count, interval, range, Select{out});
}
template <class Key>
inline std::size_t tally_entries(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                 Interval<Key> interval, Visible range) {
    return each_entry(keys, positions, count, interval, range, Tally());
}

// Copies the entries whose positions are visible, or moves them to the front; whole blocks are read and
// written, up to kBlock slots behind the last. Returns how many there are.
template <class Key>
inline std::size_t take_visible(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                Visible range, Key* out_keys, std::uint32_t* out_positions) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; i += kBlock) {
        const unsigned chosen = PositionBlock(positions + i, range).visible() & first_lanes(count - i);
        pack(keys + i, chosen, out_keys + kept);
        pack(positions + i, chosen, out_positions + kept);
        kept += lane_count(chosen);
    }
    return kept;
}

// Which of the first `count` keys lie in the interval; 64 of them are readable.
template <class Key>
[[gnu::always_inline]] inline std::uint64_t lanes_within(const Key* keys, std::size_t count,
                                                         Interval<Key> interval) {
    // Lines behind the last key are not read; its own one is read again instead.
    const std::size_t last = (count - (count > 0)) & ~std::size_t{15};
    const Key* const lines[4] = {keys, keys + std::min<std::size_t>(16, last),
                                 keys + std::min<std::size_t>(32, last), keys + last};
    const std::uint64_t lanes = lanes_inside_64(lines, interval);
#if SLIDEJOIN_LEVEL > 0
    return _bzhi_u64(lanes, static_cast<unsigned>(count));
#else
    return count < 64 ? lanes & ((std::uint64_t{1} << count) - 1) : lanes;
#endif
}

// Calls use(block, lanes) for the blocks of up to 64 positions, with the lanes that are chosen and visible.
// No branch depends on them: a block without a chosen lane is replaced by one that is read anyway.
template <class Use>
[[gnu::always_inline]] inline std::size_t each_among(const std::uint32_t* positions, std::uint64_t chosen,
                                                     Visible range, Use use) {
    constexpr unsigned kWide = kBlock;
    if constexpr (kWide == 1) {
        for (; chosen; chosen &= chosen - 1) {
            const PositionBlock block(positions + std::countr_zero(chosen), range);
            use(block, block.visible());
        }
    } else {
        const unsigned first =
            static_cast<unsigned>(std::countr_zero(chosen | std::uint64_t{1} << 63)) / kWide;
        for (unsigned i = 0; i < 64 / kWide; ++i) {
            const unsigned lanes = static_cast<unsigned>(chosen >> i * kWide) & ((1u << kWide) - 1);
            unsigned some = 0u - (lanes != 0);
            __asm__("" : "+r"(some));  // or the compiler makes an unpredictable branch of it
            const PositionBlock block(positions + (first ^ ((first ^ i) & some)) * kWide, range);
            use(block, block.visible() & lanes);
        }
    }
    return use.count;
}

[[gnu::always_inline]] inline std::size_t select_among(const std::uint32_t* positions, std::uint64_t chosen,
                                                       Visible range, std::uint32_t* out) {
    return each_among(positions, chosen, range, Select{out});
}

inline std::size_t tally_among(const std::uint32_t* positions, std::uint64_t chosen, Visible range) {
    return each_among(positions, chosen, range, Tally());
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
