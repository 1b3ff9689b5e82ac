// What a structure under measurement does: join the next arrivals in pushes of a given size.
#pragma once

#include <sys/resource.h>
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

// How long a push took: its microseconds, those of the thread's processor time, which leaves out when others
// ran, the pages that the system had to provide meanwhile, and how often it let others run.
struct Pause {
    double wall;
    double thread;
    long faults;
    long switches;
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

    // The same, each push by itself.
    Found join(const Arrivals& arrivals, std::size_t push_size, std::vector<Pause>& pauses) {
        Found found;
        Pairs pairs;
        pauses.clear();
        pauses.reserve(arrivals.keys.size() / push_size + 1);
        for (std::size_t from = 0; from < arrivals.keys.size(); from += push_size) {
            const std::size_t to = std::min(from + push_size, arrivals.keys.size());
            pairs.clear();
            const rusage before = usage();
            const double thread_begin = thread_seconds();
            const auto begin = Clock::now();
            push(arrivals, from, to, &pairs);
            const double seconds = since(begin);
            const double thread = thread_seconds() - thread_begin;
            const rusage after = usage();
            found.seconds += seconds;
            pauses.push_back({1e6 * seconds, 1e6 * thread, after.ru_minflt - before.ru_minflt,
                              after.ru_nivcsw - before.ru_nivcsw});
            found.add(pairs);
        }
        return found;
    }

  private:
    using Clock = std::chrono::steady_clock;

    static double since(Clock::time_point begin) {
        return std::chrono::duration<double>(Clock::now() - begin).count();
    }

    static rusage usage() {
        rusage used{};
        getrusage(RUSAGE_THREAD, &used);
        return used;
    }

    static double thread_seconds() {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
};

}  // namespace peers
