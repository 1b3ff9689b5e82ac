// Sorting: a stable least-significant-digit radix sort, eight bits a pass unless told otherwise, that skips
// passes in which all digits agree, and insertion sort for small inputs. 8-10 ns an element for 32-bit keys.
#pragma once

#include "simd.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// A key, and the position or the number of the task that it belongs to.
template <class Key>
struct Entry {
    Key key;
    std::uint32_t value;
};

inline constexpr std::size_t kInsertionSortLimit = 32;

template <class T, class KeyOf>
inline void insertion_sort(T* data, std::size_t count, KeyOf key_of) {
    for (std::size_t i = 1; i < count; ++i) {
        const T moving = data[i];
        std::size_t at = i;
        for (; at > 0 && key_of(moving) < key_of(data[at - 1]); --at) data[at] = data[at - 1];
        data[at] = moving;
    }
}

// Sorts data[0, count) by key_of(element), an unsigned integer. `scratch` grows as needed.
template <unsigned kBits = 8, class T, class KeyOf>
inline void radix_sort(T* data, std::size_t count, Buffer<T>& scratch, KeyOf key_of) {
    if (count <= kInsertionSortLimit) return insertion_sort(data, count, key_of);
    using Key = decltype(key_of(*data));
    constexpr unsigned kValues = 1u << kBits, kDigits = (8 * sizeof(Key) + kBits - 1) / kBits;
    const auto digit_of = [&](const T& t, unsigned i) { return key_of(t) >> (i * kBits) & (kValues - 1); };
    std::uint32_t histograms[kDigits * kValues] = {};
    for (std::size_t i = 0; i < count; ++i)
        for (unsigned digit = 0; digit < kDigits; ++digit)
            ++histograms[digit * kValues + digit_of(data[i], digit)];

    scratch.reserve(count);
    T* from = data;
    T* to = scratch.data();
    for (unsigned digit = 0; digit < kDigits; ++digit) {
        std::uint32_t* histogram = histograms + digit * kValues;
        if (histogram[digit_of(*from, digit)] == count) continue;
        std::uint32_t start = 0;
        for (unsigned value = 0; value < kValues; ++value) {
            const std::uint32_t here = histogram[value];
            histogram[value] = start;
            start += here;
        }
        for (std::size_t i = 0; i < count; ++i) to[histogram[digit_of(from[i], digit)]++] = from[i];
        std::swap(from, to);
    }
    if (from != data) std::memcpy(data, from, count * sizeof(T));
}

template <class Key>
inline void sort_entries(Entry<Key>* entries, std::size_t count, Buffer<Entry<Key>>& scratch) {
    radix_sort(entries, count, scratch, [](const Entry<Key>& entry) { return entry.key; });
}

// Copies entries to `sorted` in key order; equal keys keep their order.
template <class Key>
inline void sort_copy(const Entry<Key>* entries, std::size_t count, Buffer<Entry<Key>>& sorted,
                      Buffer<Entry<Key>>& scratch) {
    if (count == 0) return;
    sorted.reserve(count);
    std::memcpy(sorted.data(), entries, count * sizeof(Entry<Key>));
    sort_entries(sorted.data(), count, scratch);
}

inline void sort_positions(std::uint32_t* positions, std::size_t count, Buffer<std::uint32_t>& scratch) {
    if (count < 2) return;
#if SLIDEJOIN_LEVEL > 0
    if (count <= kNetwork) return sort_network(positions, count);
#endif
    radix_sort(positions, count, scratch, [](std::uint32_t position) { return position; });
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
