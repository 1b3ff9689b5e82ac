// Where the time of a plain arrival goes (core/join/plain.hpp): the cycles of each step, added up. The core
// names the ends of steps (SLIDEJOIN_STEP); timed_tree.cpp compiles its bucket-tree with these ones. A look
// at the clock costs about 10 ns a step and group, which counts as part of the step. And how long memory
// takes: the limit of any join that keeps its entries in tables beyond the caches.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace peers {

class Steps {
  public:
    static constexpr std::string_view kNames[] = {"prepare", "locate", "insert", "compare", "write", "clean"};
    static constexpr std::size_t kCount = std::size(kNames);

    static constexpr std::size_t number(std::string_view name) {
        std::size_t at = 0;
        while (kNames[at] != name) ++at;
        return at;
    }

    template <std::size_t kStep>
    static void end() {
        const std::uint64_t now = ticks();
        spent_[kStep] += now - last_;
        last_ = now;
    }

    static void restart() {
        for (std::uint64_t& each : spent_) each = 0;
        began_ = Clock::now();
        last_ = first_ = ticks();
    }

    // As parts of a line of JSON: nanoseconds of each step, of all arrivals together. What lies between two
    // groups, the reading of arrivals among it, is of the step "prepare".
    static std::string summary() {
        const double elapsed = std::chrono::duration<double, std::nano>(Clock::now() - began_).count();
        const double tick = elapsed / static_cast<double>(ticks() - first_);
        std::string text;
        for (std::size_t i = 0; i < kCount; ++i)
            text += ", \"" + std::string(kNames[i]) +
                    "\": " + std::to_string(tick * static_cast<double>(spent_[i]));
        return text;
    }

    // The same of four cache lines at random places of so many bytes. The reads are independent of each
    // other.
    static std::string lines(std::size_t bytes) {
        constexpr std::size_t kWords = 8, kReads = std::size_t{1} << 23;  // words of a line
        std::vector<std::uint64_t> memory(bytes / 8 + kWords, 1);
        const std::uint64_t count = memory.size() / kWords;
        std::uint64_t random = 1, sum = 0;
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < kReads; ++i) {
            random = random * 6364136223846793005 + 1442695040888963407;
            sum += memory[(random >> 32) * count / (std::uint64_t{1} << 32) * kWords];
        }
        const double elapsed = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
        if (sum != kReads) return "";
        return ", \"lines\": " + std::to_string(4 * elapsed / kReads);
    }

  private:
    using Clock = std::chrono::steady_clock;

    static std::uint64_t ticks() {
#if defined(__x86_64__)
        return __rdtsc();
#else
        return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
    }

    static inline std::uint64_t spent_[kCount] = {};
    static inline std::uint64_t last_ = 0, first_ = 0;
    static inline Clock::time_point began_{};
};

}  // namespace peers

#define SLIDEJOIN_STEP(name) peers::Steps::end<peers::Steps::number(#name)>()
