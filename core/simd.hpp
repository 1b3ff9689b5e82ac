// The few vector operations that structures are made of. What differs between instruction sets is in simd/;
// the loops are written once, here, but for their tails, which AVX-512 takes in one masked step:
//   count_below, count_up_to              place of a key in a sorted node
//   select_positions, tally_positions     positions that are visible
//   select_padded, tally_padded           the same of arrays with readable slots behind them
//   select_entries, tally_entries         entries in an interval and visible
// A select writes relative positions to `out`, which must have room for kBlock more than `count`, and
// returns how many there are; a tally only counts them.
#pragma once

#include "key.hpp"
#include "window.hpp"

#if SLIDEJOIN_LEVEL == 2
#include "simd/avx512.hpp"
#elif SLIDEJOIN_LEVEL == 1
#include "simd/avx2.hpp"
#else
#include "simd/portable.hpp"
#endif

namespace slidejoin::SLIDEJOIN_TARGET {

inline void prefetch(const void* address) { __builtin_prefetch(address); }

template <std::size_t kBytes>
inline void prefetch_span(const void* address) {
    for (std::size_t at = 0; at < kBytes; at += kCacheLine) prefetch(static_cast<const char*>(address) + at);
}

// How many keys of a node are < key. Slots behind the last key hold the greatest key.
template <unsigned kSlots, class Key>
inline unsigned count_below(const Key* keys, Key key) {
    unsigned total = 0;
    for (unsigned i = 0; i < kSlots; i += kKeyLanes<Key>) total += lane_count(lanes_below(keys + i, key));
    return total;
}

// How many of a node's first `count` keys are <= key.
template <unsigned kSlots, class Key>
inline unsigned count_up_to(const Key* keys, unsigned count, Key key) {
    unsigned total = 0;
    for (unsigned i = 0; i < kSlots; i += kKeyLanes<Key>) total += lane_count(lanes_up_to(keys + i, key));
    return std::min(total, count);
}

inline std::size_t select_positions(const std::uint32_t* positions, std::size_t count, Visible range,
                                    std::uint32_t* out) {
    std::size_t written = 0, i = 0;
    for (; i + kBlock <= count; i += kBlock) {
        const PositionBlock block(positions + i, range);
        block.store(out + written, block.visible());
        written += lane_count(block.visible());
    }
#if SLIDEJOIN_LEVEL == 2
    if (i == count) return written;
    const PositionBlock block(positions + i, range, count - i);
    block.store(out + written, block.visible());
    return written + lane_count(block.visible());
#else
    for (; i < count; ++i) {
        out[written] = range.relative(positions[i]);
        written += range.contains(positions[i]);
    }
    return written;
#endif
}

inline unsigned first_lanes(std::size_t count) { return (1u << std::min(count, kBlock)) - 1; }

// The same where kBlock slots behind the last position may be read: up to kBlock of them without a branch.
inline std::size_t select_padded(const std::uint32_t* positions, std::size_t count, Visible range,
                                 std::uint32_t* out) {
    std::size_t written = 0, i = 0;
    do {
        const PositionBlock block(positions + i, range);
        const unsigned chosen = block.visible() & first_lanes(count - i);
        block.store(out + written, chosen);
        written += lane_count(chosen);
        i += kBlock;
    } while (i < count);
    return written;
}

inline std::size_t tally_padded(const std::uint32_t* positions, std::size_t count, Visible range) {
    std::size_t total = 0, i = 0;
    do {
        total += lane_count(PositionBlock(positions + i, range).visible() & first_lanes(count - i));
        i += kBlock;
    } while (i < count);
    return total;
}

inline std::size_t tally_positions(const std::uint32_t* positions, std::size_t count, Visible range) {
    std::size_t total = 0, i = 0;
    for (; i + kBlock <= count; i += kBlock)
        total += lane_count(PositionBlock(positions + i, range).visible());
#if SLIDEJOIN_LEVEL == 2
    return i == count ? total : total + lane_count(PositionBlock(positions + i, range, count - i).visible());
#else
    for (; i < count; ++i) total += range.contains(positions[i]);
    return total;
#endif
}

template <class Key>
inline std::size_t select_entries(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                  Interval<Key> interval, Visible range, std::uint32_t* out) {
    std::size_t written = 0, i = 0;
    for (; i + kBlock <= count; i += kBlock) {
        const PositionBlock block(positions + i, range);
        const unsigned chosen = block.visible() & lanes_inside(keys + i, interval);
        block.store(out + written, chosen);
        written += lane_count(chosen);
    }
#if SLIDEJOIN_LEVEL == 2
    if (i == count) return written;
    const PositionBlock block(positions + i, range, count - i);
    const unsigned chosen = block.visible() & lanes_inside(keys + i, interval, count - i);
    block.store(out + written, chosen);
    return written + lane_count(chosen);
#else
    for (; i < count; ++i) {
        out[written] = range.relative(positions[i]);
        written += range.contains(positions[i]) && interval.contains(keys[i]);
    }
    return written;
#endif
}

template <class Key>
inline std::size_t tally_entries(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                 Interval<Key> interval, Visible range) {
    std::size_t total = 0, i = 0;
    for (; i + kBlock <= count; i += kBlock)
        total += lane_count(PositionBlock(positions + i, range).visible() & lanes_inside(keys + i, interval));
#if SLIDEJOIN_LEVEL == 2
    if (i == count) return total;
    return total + lane_count(PositionBlock(positions + i, range, count - i).visible() &
                              lanes_inside(keys + i, interval, count - i));
#else
    for (; i < count; ++i) total += range.contains(positions[i]) && interval.contains(keys[i]);
    return total;
#endif
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
