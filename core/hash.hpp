// A 64-bit hash of bytes. It never changes, since snapshots and routing store its values. Eight bytes a step,
// each folded by a 64 x 64 -> 128 bit multiplication; little-endian on every machine. It does not withstand
// adversaries: the caller compares the values of equal hashes. About 1 ns for eight bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slidejoin {

inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_value(const std::uint8_t* bytes, std::size_t size) {
    constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15, kSecond = 0xd1b54a32d192ed03;
    std::uint64_t hash = fold(size ^ kFirst, kSecond);
    for (std::size_t at = 0; at < size; at += 8) {
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < 8 && at + i < size; ++i)
            word |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
        hash = fold(hash ^ word ^ kFirst, kSecond) + word;
    }
    return fold(hash ^ kSecond, kFirst);
}

}  // namespace slidejoin
