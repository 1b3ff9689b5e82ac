// The workload that every structure gets: arrivals with uniform 32-bit keys, left and right in turn or of one
// side only, a count window per side and a band that a probe meets a given number of times on average. The
// sequence is a function of the seed and the arrival's number alone; slidejoin.bench.workload generates the
// same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peers {

struct Arrivals {
    std::vector<std::uint8_t> sides;
    std::vector<std::int32_t> keys;
    bool store = true;  // or they only meet what is stored
};

enum class Sides { in_turn, left, right };

struct Workload {
    std::uint32_t window;
    double matches;  // that a probe of a full window meets on average
    std::uint64_t seed;

    // The band, on right - left: 2^32 * matches / window keys wide.
    std::int64_t lower() const { return -(width() / 2); }
    std::int64_t upper() const { return width() - width() / 2 - 1; }

    Arrivals arrivals(std::uint64_t start, std::size_t count, Sides sides = Sides::in_turn) const {
        Arrivals made{std::vector<std::uint8_t>(count), std::vector<std::int32_t>(count), true};
        for (std::size_t i = 0; i < count; ++i) {
            made.sides[i] = sides == Sides::in_turn ? (start + i) & 1 : sides == Sides::right;
            made.keys[i] = static_cast<std::int32_t>(mixed(seed + (start + i + 1) * kGolden) >> 32);
        }
        return made;
    }

  private:
    static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

    std::int64_t width() const { return static_cast<std::int64_t>(matches * 4294967296.0 / window); }

    static std::uint64_t mixed(std::uint64_t z) {  // splitmix64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
};

}  // namespace peers
