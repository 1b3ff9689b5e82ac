// Blocks of sixteen entries: unsigned comparisons into mask registers, packing in hardware.
#pragma once

#include "../window.hpp"
#include "network.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kBlock = 16;

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

// The mask of the first `count` lanes.
inline __mmask16 lane_mask(std::size_t count) { return static_cast<__mmask16>((1u << count) - 1); }

// A vector of keys or positions, or the first `count` of up to sixteen: nothing behind them is read.
template <class Number>
inline __m512i load(const Number* from) {
    return _mm512_loadu_si512(from);
}
template <class Number>
inline __m512i load(const Number* from, std::size_t count) {
    if constexpr (sizeof(Number) == 4) return _mm512_maskz_loadu_epi32(lane_mask(count), from);
    else return _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lane_mask(count)), from);
}

template <class Key>
inline unsigned lanes_below(const Key* keys, Key key) {
    if constexpr (sizeof(Key) == 4) return lanes_of(_mm512_cmplt_epu32_mask(load(keys), broadcast(key)));
    else return lanes_of(_mm512_cmplt_epu64_mask(load(keys), broadcast(key)));
}

template <class Key>
inline unsigned lanes_up_to(const Key* keys, Key key) {
    if constexpr (sizeof(Key) == 4) return lanes_of(_mm512_cmple_epu32_mask(load(keys), broadcast(key)));
    else return lanes_of(_mm512_cmple_epu64_mask(load(keys), broadcast(key)));
}

// Finds keys in an interval. low <= key <= high is one subtraction and one unsigned comparison: key - low <=
// high - low.
template <class Key>
class Inside {
  public:
    explicit Inside(Interval<Key> interval)
        : low_(broadcast(interval.low)), span_(broadcast(static_cast<Key>(interval.high - interval.low))) {}

    // Which of sixteen keys are inside; with `count`, only so many are read.
    template <class... Count>
    __mmask16 sixteen(const Key* keys, Count... count) const {
        if constexpr (sizeof(Key) == 4) return vector(load(keys, count...));
        else
            return _mm512_kunpackb(vector(load(keys + 8, count - std::min<std::size_t>(count, 8)...)),
                                   vector(load(keys, count...)));
    }

  private:
    auto vector(__m512i keys) const {
        if constexpr (sizeof(Key) == 4) return _mm512_cmple_epu32_mask(_mm512_sub_epi32(keys, low_), span_);
        else return _mm512_cmple_epu64_mask(_mm512_sub_epi64(keys, low_), span_);
    }

    __m512i low_;
    __m512i span_;
};

template <class Key, class... Count>
inline unsigned lanes_inside(const Key* keys, Interval<Key> interval, Count... count) {
    return lanes_of(Inside<Key>(interval).sixteen(keys, count...));
}

// Which of four times sixteen keys lie in the interval.
template <class Key>
[[gnu::always_inline]] inline std::uint64_t lanes_inside_64(const Key* const (&keys)[4],
                                                            Interval<Key> interval) {
    const Inside<Key> inside(interval);
    const __mmask64 all = _mm512_kunpackd(_mm512_kunpackw(inside.sixteen(keys[3]), inside.sixteen(keys[2])),
                                          _mm512_kunpackw(inside.sixteen(keys[1]), inside.sixteen(keys[0])));
    std::uint64_t lanes;
    __asm__("kmovq %1, %0" : "=r"(lanes) : "k"(all));
    return lanes;
}

inline void write_eight(__m256i lanes, std::uint64_t base, std::int64_t* out) {
    _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_maskz_cvtepu32_epi64(0xff, lanes), broadcast(base)));
}

class PositionBlock {
  public:
    // With `count`, only so many positions are read; the lanes behind them mean nothing.
    template <class... Count>
    PositionBlock(const std::uint32_t* positions, Visible range, Count... count)
        : relative_(_mm512_sub_epi32(load(positions, count...), broadcast(range.first))),
          visible_(lanes_of(_mm512_cmplt_epu32_mask(relative_, broadcast(range.count)))) {}

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

// Writes the chosen ones of a block of numbers side by side; whole vectors are written.
template <class Number>
inline void pack(const Number* from, unsigned chosen, Number* out) {
    if constexpr (sizeof(Number) == 4) {
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(static_cast<__mmask16>(chosen), load(from)));
    } else {
        const auto low = static_cast<__mmask8>(chosen), high = static_cast<__mmask8>(chosen >> 8);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(low, load(from)));
        _mm512_storeu_si512(out + lane_count(chosen & 0xff),
                            _mm512_maskz_compress_epi64(high, load(from + 8)));
    }
}

// Writes one number into kFew slots.
inline void fill_few(std::int64_t number, std::int64_t* out) {
    _mm512_storeu_si512(out, _mm512_set1_epi64(number));
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
