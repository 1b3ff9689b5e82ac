// Blocks of sixteen entries: unsigned comparisons into mask registers, packing in hardware.
#pragma once

#include "../window.hpp"
#include "network.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 16;
inline constexpr std::size_t kFew = 8;  // numbers that are sorted and written together

template <class Key>
inline constexpr unsigned kKeyLanes = 64 / sizeof(Key);

inline unsigned lane_count(unsigned mask) { return static_cast<unsigned>(__builtin_popcount(mask)); }

// A mask register as a number. Written in assembly, because GCC 12 spills a widened mask with a store of one
// or two bytes and loads four back: other bytes of the stack became lanes.
template <class Mask>
inline unsigned lanes_of(Mask mask) {
    unsigned lanes;
    if constexpr (sizeof(Mask) == 1) __asm__("kmovb %1, %0" : "=r"(lanes) : "k"(mask));
    else __asm__("kmovw %1, %0" : "=r"(lanes) : "k"(mask));
    return lanes;
}

template <class Key>
inline __m512i broadcast(Key key) {
    if constexpr (sizeof(Key) == 4) return _mm512_set1_epi32(static_cast<int>(key));
    else return _mm512_set1_epi64(static_cast<long long>(key));
}

template <class Key>
inline unsigned lanes_below(const Key* keys, Key key) {
    if constexpr (sizeof(Key) == 4)
        return lanes_of(_mm512_cmplt_epu32_mask(_mm512_loadu_si512(keys), broadcast(key)));
    else return lanes_of(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys), broadcast(key)));
}

template <class Key>
inline unsigned lanes_up_to(const Key* keys, Key key) {
    if constexpr (sizeof(Key) == 4)
        return lanes_of(_mm512_cmple_epu32_mask(_mm512_loadu_si512(keys), broadcast(key)));
    else return lanes_of(_mm512_cmple_epu64_mask(_mm512_loadu_si512(keys), broadcast(key)));
}

// low <= key <= high is one subtraction and one unsigned comparison: key - low <= high - low.
template <class Key>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval) {
    const __m512i low = broadcast(interval.low);
    const __m512i span = broadcast(static_cast<Key>(interval.high - interval.low));
    if constexpr (sizeof(Key) == 4) {
        return lanes_of(_mm512_cmple_epu32_mask(_mm512_sub_epi32(_mm512_loadu_si512(keys), low), span));
    } else {
        const auto half = [&](const Key* from) {
            return _mm512_cmple_epu64_mask(_mm512_sub_epi64(_mm512_loadu_si512(from), low), span);
        };
        return lanes_of(_mm512_kunpackb(half(keys + 8), half(keys)));
    }
}

// Which of four times sixteen keys lie in the interval.
template <class Key>
[[gnu::always_inline]] inline std::uint64_t lanes_inside_64(const Key* const (&keys)[4],
                                                            Interval<Key> interval) {
    const __m512i low = broadcast(interval.low);
    const __m512i span = broadcast(static_cast<Key>(interval.high - interval.low));
    const auto sixteen = [&](const Key* from) {
        if constexpr (sizeof(Key) == 4) {
            return _mm512_cmple_epu32_mask(_mm512_sub_epi32(_mm512_loadu_si512(from), low), span);
        } else {
            const auto half = [&](const Key* at) {
                return _mm512_cmple_epu64_mask(_mm512_sub_epi64(_mm512_loadu_si512(at), low), span);
            };
            return _mm512_kunpackb(half(from + 8), half(from));
        }
    };
    const __mmask64 all = _mm512_kunpackd(_mm512_kunpackw(sixteen(keys[3]), sixteen(keys[2])),
                                          _mm512_kunpackw(sixteen(keys[1]), sixteen(keys[0])));
    std::uint64_t lanes;
    __asm__("kmovq %1, %0" : "=r"(lanes) : "k"(all));
    return lanes;
}

// The same for the first `count` keys of a block.
inline __mmask16 lane_mask(std::size_t count) { return static_cast<__mmask16>((1u << count) - 1); }

template <class Key>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval, std::size_t count) {
    const __m512i low = broadcast(interval.low);
    const __m512i span = broadcast(static_cast<Key>(interval.high - interval.low));
    const __mmask16 lanes = lane_mask(count);
    if constexpr (sizeof(Key) == 4) {
        return lanes_of(_mm512_mask_cmple_epu32_mask(
            lanes, _mm512_sub_epi32(_mm512_maskz_loadu_epi32(lanes, keys), low), span));
    } else {
        const auto half = [&](__mmask8 some, const Key* from) {
            return _mm512_mask_cmple_epu64_mask(
                some, _mm512_sub_epi64(_mm512_maskz_loadu_epi64(some, from), low), span);
        };
        return lanes_of(_mm512_kunpackb(half(static_cast<__mmask8>(lanes >> 8), keys + 8),
                                        half(static_cast<__mmask8>(lanes), keys)));
    }
}

// Adds `base` to eight numbers and writes them.
inline void write_eight(__m256i lanes, std::uint64_t base, std::int64_t* out) {
    _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_maskz_cvtepu32_epi64(0xff, lanes), broadcast(base)));
}

class PositionBlock {
  public:
    PositionBlock(const std::uint32_t* positions, Visible range)
        : relative_(_mm512_sub_epi32(_mm512_loadu_si512(positions), broadcast(range.first))),
          visible_(lanes_of(_mm512_cmplt_epu32_mask(relative_, broadcast(range.count)))) {}

    PositionBlock(const std::uint32_t* positions, Visible range, std::size_t count)
        : relative_(_mm512_sub_epi32(_mm512_maskz_loadu_epi32(lane_mask(count), positions),
                                     broadcast(range.first))),
          visible_(
              lanes_of(_mm512_mask_cmplt_epu32_mask(lane_mask(count), relative_, broadcast(range.count)))) {}

    unsigned visible() const { return visible_; }

    void store(std::uint32_t* out, unsigned chosen) const {
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(static_cast<__mmask16>(chosen), relative_));
    }

    // The same with `base` added.
    void store(std::int64_t* out, unsigned chosen, std::uint64_t base) const {
        const __m512i packed = _mm512_maskz_compress_epi32(static_cast<__mmask16>(chosen), relative_);
        write_eight(_mm512_maskz_extracti64x4_epi64(0xff, packed, 0), base, out);
        write_eight(_mm512_maskz_extracti64x4_epi64(0xff, packed, 1), base, out + 8);
    }

  private:
    __m512i relative_;
    unsigned visible_;
};

// Copies the entries whose positions are visible, or moves them to the front; whole blocks are read and
// written, up to kBlock slots behind the last. Returns how many there are.
template <class Key>
inline std::size_t take_visible(const Key* keys, const std::uint32_t* positions, std::size_t count,
                                Visible range, Key* out_keys, std::uint32_t* out_positions) {
    const auto pack = [](void* out, __m512i lanes, auto chosen) {
        if constexpr (sizeof chosen == 2)
            _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(chosen, lanes));
        else _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(chosen, lanes));
    };
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; i += kBlock) {
        const __mmask16 there = lane_mask(std::min(count - i, kBlock));
        const __m512i lanes = _mm512_loadu_si512(positions + i);
        const __mmask16 chosen = _mm512_mask_cmplt_epu32_mask(
            there, _mm512_sub_epi32(lanes, broadcast(range.first)), broadcast(range.count));
        const unsigned total = lane_count(lanes_of(chosen));
        if constexpr (sizeof(Key) == 4) {
            const __m512i moved = _mm512_loadu_si512(keys + i);
            pack(out_keys + kept, moved, chosen);
        } else {
            const auto low = static_cast<__mmask8>(lanes_of(chosen)),
                       high = static_cast<__mmask8>(lanes_of(chosen) >> 8);
            const __m512i first = _mm512_loadu_si512(keys + i), second = _mm512_loadu_si512(keys + i + 8);
            pack(out_keys + kept, first, low);
            pack(out_keys + kept + lane_count(low), second, high);
        }
        pack(out_positions + kept, lanes, chosen);
        kept += total;
    }
    return kept;
}

// Adds `base` to each of up to kFew positions and writes them, in order if `sorted`. kFew slots are read and
// written, whatever the count.
inline void write_few(const std::uint32_t* found, std::size_t count, bool sorted, std::uint64_t base,
                      std::int64_t* out) {
    __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(found));
    if (sorted)
        lanes = sort_eight(
            _mm256_mask_mov_epi32(_mm256_set1_epi32(-1), static_cast<__mmask8>((1u << count) - 1), lanes));
    write_eight(lanes, base, out);
}

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) {
    _mm512_storeu_si512(out, _mm512_set1_epi64(number));
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
