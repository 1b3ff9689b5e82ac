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

// Bytes of strings that exist, which stand behind offsets. Missing rows have none.
inline std::int64_t gathered_bytes(const std::int64_t* offsets, const std::int64_t* rows, std::size_t count,
                                   const std::uint8_t* missing) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (i + kGatherAhead < count) __builtin_prefetch(offsets + rows[i + kGatherAhead]);
        if (!missing || !missing[i]) total += offsets[rows[i] + 1] - offsets[rows[i]];
    }
    return total;
}

// Copies strings that exist to out[at] on, and writes where each begins. Returns where the last one ends.
// `data` begins at the first offset.
template <class Offset>
std::int64_t gather_strings(const std::int64_t* offsets, const std::uint8_t* data, const std::int64_t* rows,
                            std::size_t count, const std::uint8_t* missing, Offset* begins, std::uint8_t* out,
                            std::int64_t at) {
    const std::int64_t base = offsets[0];
    for (std::size_t i = 0; i < count; ++i) {
        if (i + 2 * kGatherAhead < count) __builtin_prefetch(offsets + rows[i + 2 * kGatherAhead]);
        if (i + kGatherAhead < count) __builtin_prefetch(data + (offsets[rows[i + kGatherAhead]] - base));
        begins[i] = static_cast<Offset>(at);
        if (missing && missing[i]) continue;
        const std::int64_t from = offsets[rows[i]], length = offsets[rows[i] + 1] - from;
        if (length) std::memcpy(out + at, data + (from - base), static_cast<std::size_t>(length));
        at += length;
    }
    return at;
}

}  // namespace slidejoin
