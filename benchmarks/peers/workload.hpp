// The workload that every structure gets: arrivals with keys of keys.hpp, left and right in turn or of one
// side only, a count window per side and a band that a probe meets a given number of times on average. The
// sequence is a function of the seed and the arrival's number alone; benchmarks.workload generates the
// one with uniform keys, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "keys.hpp"

namespace peers {

struct Arrivals {
    std::vector<std::uint8_t> sides;
    std::vector<std::int32_t> keys;
    std::vector<std::int64_t> wide;  // the keys of 64 bits, if they are wanted
    bool store = true;               // or they only meet what is stored
};

enum class Sides { in_turn, left, right };

class Workload {
  public:
    const std::uint32_t window;
    const double matches;  // that a probe of a full window meets on average
    const bool wide;       // keys of 64 bits: the same ones spread over the longer range, with the same pairs

    Workload(std::uint32_t window, double matches, std::uint64_t seed, const std::string& keys, bool wide)
        : window(window),
          matches(matches),
          wide(wide),
          keys_(keys, window, seed),
          width_(keys_.uniform() ? static_cast<std::int64_t>(matches * 4294967296.0 / window)
                                 : calibrated()) {}

    // The band, on right - left, of the keys of 32 bits.
    std::int64_t lower() const { return -(width_ / 2); }
    std::int64_t upper() const { return width_ - width_ / 2 - 1; }

    static std::int64_t widened(std::int64_t key) { return key * (std::int64_t{1} << 31); }

    bool uniform() const { return keys_.uniform(); }

    Arrivals arrivals(std::uint64_t start, std::size_t count, Sides sides = Sides::in_turn) const {
        Arrivals made{std::vector<std::uint8_t>(count), std::vector<std::int32_t>(count), {}, true};
        for (std::size_t i = 0; i < count; ++i) {
            made.sides[i] = sides == Sides::in_turn ? (start + i) & 1 : sides == Sides::right;
            made.keys[i] = keys_(start + i);
        }
        if (wide) {
            made.wide.resize(count);
            std::transform(made.keys.begin(), made.keys.end(), made.wide.begin(), widened);
        }
        return made;
    }

  private:
    static constexpr int kMoments = 8;
    static constexpr std::uint64_t kProbes = 1024;  // of each moment

    // The width at which sampled probes meet so many: found among the distances to their nearest partners.
    std::int64_t calibrated() const {
        std::vector<std::int64_t> distances;
        // Keys that come back do so after `window` arrivals or 8 times as many; these are parts of both.
        for (std::uint64_t moment = 0; moment < kMoments; ++moment)
            measure(17ull * window / 4 + moment * (3ull * window / 2), distances);
        const auto wanted = static_cast<std::size_t>(matches * kMoments * kProbes);
        if (wanted < 1 || wanted > distances.size())
            throw std::invalid_argument("--matches " + std::to_string(matches) +
                                        "; expected what a probe of these keys can meet");
        const auto at = distances.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
        std::nth_element(distances.begin(), at, distances.end());
        return 2 * *at + 1;
    }

    // Distances of right arrivals from `start` on to the nearest left ones below and above that they can see.
    void measure(std::uint64_t start, std::vector<std::int64_t>& distances) const {
        const auto most = static_cast<std::size_t>(8 * matches) + 16;
        std::vector<std::pair<std::int32_t, std::uint64_t>> stored;
        for (std::uint64_t number = (start - 2ull * window) & ~1ull; number < start + 2 * kProbes;
             number += 2)
            stored.emplace_back(keys_(number), number);
        std::sort(stored.begin(), stored.end());
        for (std::uint64_t number = start | 1; number < start + 2 * kProbes; number += 2) {
            const std::int64_t key = keys_(number);
            const auto meet = [&](const auto& partner) {
                if (partner.second > number || number - partner.second > 2ull * window) return false;
                distances.push_back(std::abs(partner.first - key));
                return true;
            };
            const auto place = std::lower_bound(stored.begin(), stored.end(),
                                                std::pair{static_cast<std::int32_t>(key), std::uint64_t{0}});
            std::size_t met = 0;
            for (auto above = place; above != stored.end() && met < most; ++above) met += meet(*above);
            met = 0;
            for (auto below = place; below != stored.begin() && met < most;) met += meet(*--below);
        }
    }

    Keys keys_;
    std::int64_t width_;
};

}  // namespace peers
