// Blocks of eight entries. AVX2 compares signed integers only, so both sides of a comparison have their sign
// bit flipped; it has no compress, so a table holds, for each set of lanes, the order that packs them.
#pragma once

#include "../window.hpp"
#include "network.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 8;

template <class Key>
inline constexpr unsigned kKeyLanes = 32 / sizeof(Key);

inline unsigned lane_count(unsigned mask) { return static_cast<unsigned>(__builtin_popcount(mask)); }

template <class Key>
inline __m256i broadcast(Key key) {
    if constexpr (sizeof(Key) == 4) return _mm256_set1_epi32(static_cast<int>(key));
    else return _mm256_set1_epi64x(static_cast<long long>(key));
}

template <class Key>
inline __m256i signed_order(__m256i keys) {
    return _mm256_xor_si256(keys, broadcast(kSignBit<Key>));
}

// A vector of keys or positions, or the first `count` of up to eight: nothing behind them is read.
template <class Number>
inline __m256i load(const Number* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
template <class Number>
inline __m256i load(const Number* from, std::size_t count) {
    const __m256i end = broadcast(static_cast<Number>(count));
    if constexpr (sizeof(Number) == 4)
        return _mm256_maskload_epi32(reinterpret_cast<const int*>(from),
                                     _mm256_cmpgt_epi32(end, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
    else
        return _mm256_maskload_epi64(reinterpret_cast<const long long*>(from),
                                     _mm256_cmpgt_epi64(end, _mm256_setr_epi64x(0, 1, 2, 3)));
}

template <class Key>
inline unsigned lanes_greater(__m256i a, __m256i b) {
    if constexpr (sizeof(Key) == 4)
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b))));
    else return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b))));
}

template <class Key>
inline unsigned lanes_below(const Key* keys, Key key) {
    return lanes_greater<Key>(signed_order<Key>(broadcast(key)), signed_order<Key>(load(keys)));
}

template <class Key>
inline unsigned lanes_up_to(const Key* keys, Key key) {
    const unsigned above =
        lanes_greater<Key>(signed_order<Key>(load(keys)), signed_order<Key>(broadcast(key)));
    return above ^ ((1u << kKeyLanes<Key>)-1);
}

// Finds keys outside of an interval, a vector at a time. low <= key <= high is one unsigned comparison, key -
// low <= high - low; a sign bit that is flipped on both sides makes it a signed one.
template <class Key>
class Outside {
  public:
    explicit Outside(Interval<Key> interval)
        : shift_(broadcast(static_cast<Key>(kSignBit<Key> - interval.low))),
          span_(broadcast(static_cast<Key>((interval.high - interval.low) ^ kSignBit<Key>))) {}

    // All ones for each of eight keys that is outside, in 32 bits; with `count`, only so many are read.
    template <class... Count>
    __m256i eight(const Key* keys, Count... count) const {
        if constexpr (sizeof(Key) == 4) return vector(load(keys, count...));
        const __m256i high = vector(load(keys + 4, count - std::min<std::size_t>(count, 4)...));
        const __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(vector(load(keys, count...))),
                                              _mm256_castsi256_ps(high), 0b10001000);
        return _mm256_permute4x64_epi64(_mm256_castps_si256(even), 0b11011000);
    }

    // A bit for each of twice sixteen keys.
    std::uint32_t bits(const Key* first, const Key* second) const {
        const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(eight(first), eight(first + 8)),
                                                  _mm256_packs_epi32(eight(second), eight(second + 8)));
        return static_cast<std::uint32_t>(_mm256_movemask_epi8(
            _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))));
    }

  private:
    __m256i vector(__m256i keys) const {
        if constexpr (sizeof(Key) == 4) return _mm256_cmpgt_epi32(_mm256_add_epi32(keys, shift_), span_);
        else return _mm256_cmpgt_epi64(_mm256_add_epi64(keys, shift_), span_);
    }

    __m256i shift_;
    __m256i span_;
};

template <class Key, class... Count>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval, Count... count) {
    const __m256i outside = Outside<Key>(interval).eight(keys, count...);
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(outside))) ^ 0xff;
}

// Which of four times sixteen keys lie in the interval.
template <class Key>
[[gnu::always_inline]] inline std::uint64_t lanes_inside_64(const Key* const (&keys)[4],
                                                            Interval<Key> interval) {
    const Outside<Key> outside(interval);
    return ~(std::uint64_t{outside.bits(keys[2], keys[3])} << 32 | outside.bits(keys[0], keys[1]));
}

// How many keys of a node are < key. Slots behind the last key hold the greatest key.
template <unsigned kSlots, class Key>
[[gnu::always_inline]] inline unsigned count_below(const Key* keys, Key key) {
    constexpr unsigned kVectors = kSlots / kKeyLanes<Key>, kBytes = sizeof(Key);
    static_assert(kVectors == 2 || kVectors % 4 == 0);
    const __m256i bound = signed_order<Key>(broadcast(key));
    const auto below = [&](unsigned vector) {
        const __m256i lanes = signed_order<Key>(load(keys + vector * kKeyLanes<Key>));
        return sizeof(Key) == 4 ? _mm256_cmpgt_epi32(bound, lanes) : _mm256_cmpgt_epi64(bound, lanes);
    };
    const auto bits = [](__m256i lanes) {
        return lane_count(static_cast<unsigned>(_mm256_movemask_epi8(lanes)));
    };
    if constexpr (kVectors == 2) return bits(_mm256_packs_epi32(below(0), below(1))) * 2 / kBytes;
    unsigned total = 0;
    for (unsigned i = 0; i < kVectors; i += 4)
        total += bits(_mm256_packs_epi16(_mm256_packs_epi32(below(i), below(i + 1)),
                                         _mm256_packs_epi32(below(i + 2), below(i + 3))));
    return total * 4 / kBytes;
}

struct PackingOrder {
    alignas(64) std::uint8_t lanes[256][8] = {};

    constexpr PackingOrder() {
        for (unsigned mask = 0; mask < 256; ++mask)
            for (unsigned lane = 0, at = 0; lane < 8; ++lane)
                if (mask >> lane & 1) lanes[mask][at++] = static_cast<std::uint8_t>(lane);
    }
};
inline constexpr PackingOrder kPackingOrder;

// The order that packs the chosen lanes of 32 bits.
inline __m256i packing_order(unsigned chosen) {
    return _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPackingOrder.lanes[chosen])));
}

// Each of four bits twice: the halves of lanes of 64 bits.
inline constexpr std::uint8_t kTwice[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,
                                            0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};

inline void write_eight(__m256i lanes, std::uint64_t base, std::int64_t* out) {
    write_four(_mm256_castsi256_si128(lanes), base, out);
    write_four(_mm256_extracti128_si256(lanes, 1), base, out + 4);
}

class PositionBlock {
  public:
    // With `count`, only so many positions are read; the lanes behind them mean nothing.
    template <class... Count>
    PositionBlock(const std::uint32_t* positions, Visible range, Count... count)
        : relative_(_mm256_sub_epi32(load(positions, count...), broadcast(range.first))),
          visible_(lanes_greater<std::uint32_t>(signed_order<std::uint32_t>(broadcast(range.count)),
                                                signed_order<std::uint32_t>(relative_))) {}

    unsigned visible() const { return visible_; }

    void store(std::uint32_t* out, unsigned chosen) const {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                            _mm256_permutevar8x32_epi32(relative_, packing_order(chosen)));
    }

    // The same with `base` added.
    void store(std::int64_t* out, unsigned chosen, std::uint64_t base) const {
        write_eight(_mm256_permutevar8x32_epi32(relative_, packing_order(chosen)), base, out);
    }

  private:
    __m256i relative_;
    unsigned visible_;
};

// Writes the chosen ones of a block of numbers side by side; whole vectors are written.
template <class Number>
inline void pack(const Number* from, unsigned chosen, Number* out) {
    const auto write = [](__m256i lanes, unsigned chosen, Number* out) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                            _mm256_permutevar8x32_epi32(lanes, packing_order(chosen)));
    };
    if constexpr (sizeof(Number) == 4) return write(load(from), chosen, out);
    write(load(from), kTwice[chosen & 15], out);
    write(load(from + 4), kTwice[chosen >> 4], out + lane_count(chosen & 15));
}

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) {
    fill_chosen(number, out);
    fill_chosen(number, out + kChosen);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
