// What a structure under measurement does: join the next arrivals in pushes of a given size.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine.hpp"
#include "workload.hpp"

namespace peers {

using slidejoin::Pairs;

struct Found {
    double seconds = 0;
    std::uint64_t matches = 0;
    std::uint64_t left_sum = 0;  // of the positions, modulo 2^64; zero where matches are only counted
    std::uint64_t right_sum = 0;

    void add(const Pairs& pairs) {
        matches += pairs.size();
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            left_sum += static_cast<std::uint64_t>(pairs.left()[i]);
            right_sum += static_cast<std::uint64_t>(pairs.right()[i]);
        }
    }
};

class Structure {
  public:
    virtual ~Structure() = default;

    // Joins arrivals [from, to). Matches go to `pairs`, or are counted only where it is null.
    virtual std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs* pairs) = 0;

    // Memory in use for each tuple of both windows.
    virtual double bytes_per_tuple() = 0;

    // Pushes write their pairs over those of the one before, as for somebody who uses them at once. Adding up
    // is left out of the time where pairs are so many that the clock costs less than it.
    Found join(const Arrivals& arrivals, std::size_t push_size, bool with_pairs, bool many) {
        const bool clock_pushes = with_pairs && many;
        const auto begin = Clock::now();
        Found found;
        Pairs pairs;
        for (std::size_t from = 0; from < arrivals.keys.size(); from += push_size) {
            const std::size_t to = std::min(from + push_size, arrivals.keys.size());
            if (with_pairs) {
                const auto push_begin = clock_pushes ? Clock::now() : begin;
                pairs.clear();
                push(arrivals, from, to, &pairs);
                if (clock_pushes) found.seconds += since(push_begin);
                found.add(pairs);
            } else {
                found.matches += push(arrivals, from, to, nullptr);
            }
        }
        if (!clock_pushes) found.seconds = since(begin);
        return found;
    }

    // The same, each push by itself: `pauses` gets their microseconds of this thread's processor time, which
    // leaves out when others ran.
    Found join(const Arrivals& arrivals, std::size_t push_size, std::vector<double>& pauses) {
        Found found;
        Pairs pairs;
        pauses.clear();
        pauses.reserve(arrivals.keys.size() / push_size + 1);
        for (std::size_t from = 0; from < arrivals.keys.size(); from += push_size) {
            const std::size_t to = std::min(from + push_size, arrivals.keys.size());
            pairs.clear();
            const double begin = thread_seconds();
            push(arrivals, from, to, &pairs);
            const double seconds = thread_seconds() - begin;
            found.seconds += seconds;
            pauses.push_back(1e6 * seconds);
            found.add(pairs);
        }
        return found;
    }

  private:
    using Clock = std::chrono::steady_clock;

    static double since(Clock::time_point begin) {
        return std::chrono::duration<double>(Clock::now() - begin).count();
    }

    static double thread_seconds() {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
};

}  // namespace peers
