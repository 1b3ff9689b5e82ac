// Blocks of eight entries. AVX2 compares signed integers only, so both sides of a comparison have their sign
// bit flipped; it has no compress, so a table holds, for each set of lanes, the order that packs them.
#pragma once

#include "../window.hpp"
#include "network.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 8;
inline constexpr std::size_t kFew = 8;  // numbers that are sorted and written together

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

template <class Key>
inline __m256i load_keys(const Key* keys) {
    return signed_order<Key>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys)));
}

template <class Key>
inline unsigned lanes_greater(__m256i a, __m256i b) {
    if constexpr (sizeof(Key) == 4)
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b))));
    else return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b))));
}

template <class Key>
inline unsigned lanes_below(const Key* keys, Key key) {
    return lanes_greater<Key>(signed_order<Key>(broadcast(key)), load_keys(keys));
}

template <class Key>
inline unsigned lanes_up_to(const Key* keys, Key key) {
    const unsigned above = lanes_greater<Key>(load_keys(keys), signed_order<Key>(broadcast(key)));
    return above ^ ((1u << kKeyLanes<Key>)-1);
}

template <class Key>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval) {
    const __m256i low = signed_order<Key>(broadcast(interval.low));
    const __m256i high = signed_order<Key>(broadcast(interval.high));
    unsigned outside = 0;
    for (unsigned lane = 0; lane < kBlock; lane += kKeyLanes<Key>) {
        const __m256i lanes = load_keys(keys + lane);
        outside |= (lanes_greater<Key>(low, lanes) | lanes_greater<Key>(lanes, high)) << lane;
    }
    return outside ^ 0xff;
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

class PositionBlock {
  public:
    PositionBlock(const std::uint32_t* positions, Visible range)
        : relative_(_mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions)),
                                     broadcast(range.first))),
          visible_(lanes_greater<std::uint32_t>(signed_order<std::uint32_t>(broadcast(range.count)),
                                                signed_order<std::uint32_t>(relative_))) {}

    unsigned visible() const { return visible_; }

    void store(std::uint32_t* out, unsigned chosen) const {
        const __m256i order = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPackingOrder.lanes[chosen])));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(relative_, order));
    }

  private:
    __m256i relative_;
    unsigned visible_;
};

// Adds `base` to each of up to kFew positions and writes them, in order if `sorted`. kFew slots are read and
// written, whatever the count.
inline void write_few(const std::uint32_t* found, std::size_t count, bool sorted, std::uint64_t base,
                      std::int64_t* out) {
    __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(found));
    if (sorted) {
        const __m256i unused = _mm256_cmpgt_epi32(_mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8),
                                                  broadcast(static_cast<std::uint32_t>(count)));
        lanes = sort_eight(_mm256_or_si256(lanes, unused));
    }
    const auto write = [&](__m128i half, std::int64_t* to) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm256_add_epi64(_mm256_cvtepu32_epi64(half), broadcast(base)));
    };
    write(_mm256_castsi256_si128(lanes), out);
    write(_mm256_extracti128_si256(lanes, 1), out + 4);
}

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) {
    const __m256i lanes = _mm256_set1_epi64x(number);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4), lanes);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
