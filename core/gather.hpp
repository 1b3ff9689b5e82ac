// Gathers rows by number, to build a result. Rows are scattered over the window, so each is prefetched well
// before it is copied. 1-2 ns a value in cache; bound by memory beyond.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace slidejoin {

inline constexpr std::size_t kGatherAhead = 96;  // more than the misses that a core can have under way

// Rows exist.
template <class Value>
void gather(const Value* values, const std::int64_t* rows, std::size_t count, Value* out) {
    const std::size_t ahead = count - std::min(count, kGatherAhead);
    for (std::size_t i = 0; i < ahead; ++i) {
        __builtin_prefetch(values + rows[i + kGatherAhead]);
        out[i] = values[rows[i]];
    }
    for (std::size_t i = ahead; i < count; ++i) out[i] = values[rows[i]];
}

// Finds the bytes of strings: where each begins behind the first offset, and where it ends in a result in
// which the first one begins at 0. Rows exist; those that are missing have no bytes. Returns the last end.
template <class Offset>
std::int64_t find_strings(const std::int64_t* offsets, const std::int64_t* rows, std::size_t count,
                          const std::uint8_t* missing, std::int64_t* begins, Offset* ends) {
    std::int64_t end = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (i + kGatherAhead < count) __builtin_prefetch(offsets + rows[i + kGatherAhead]);
        const std::int64_t begin = offsets[rows[i]], after = offsets[rows[i] + 1];
        begins[i] = begin - offsets[0];
        if (!missing || !missing[i]) end += after - begin;
        ends[i] = static_cast<Offset>(end);
    }
    return end;
}

// Copies strings that were found, among `size` bytes, to out[at] on, and shifts their ends by `at`. Short
// ones are copied in whole blocks, whose surplus the next ones overwrite. Returns the last end.
template <class Offset>
std::int64_t copy_strings(const std::uint8_t* data, std::size_t size, const std::int64_t* begins,
                          std::size_t count, Offset* ends, std::uint8_t* out, std::int64_t at) {
    constexpr std::int64_t kBlock = 32;
    const std::int64_t start = at, room = start + static_cast<std::int64_t>(ends[count - 1]) - 2 * kBlock;
    const std::int64_t last = static_cast<std::int64_t>(size) - 2 * kBlock;
    for (std::size_t i = 0; i < count; ++i) {
        if (i + kGatherAhead < count) {
            __builtin_prefetch(data + begins[i + kGatherAhead]);
            __builtin_prefetch(data + begins[i + kGatherAhead] + kBlock - 1);
        }
        const std::int64_t end = start + static_cast<std::int64_t>(ends[i]), length = end - at;
        const std::uint8_t* from = data + begins[i];
        if (length <= 2 * kBlock && begins[i] <= last && at <= room) {
            std::memcpy(out + at, from, kBlock);
            if (length > kBlock) std::memcpy(out + at + kBlock, from + kBlock, kBlock);
        } else if (length) {
            std::memcpy(out + at, from, static_cast<std::size_t>(length));
        }
        ends[i] = static_cast<Offset>(at = end);
    }
    return at;
}

}  // namespace slidejoin
