// When the workers of a shared index take a chunk of arrivals, and when its results are written. The core
// names such points (SLIDEJOIN_YIELD in spin_lock.hpp); traced_index.cpp compiles its shared index with these
// ones. A point costs a look at the clock, some 25 ns a chunk.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace peers {

class Trace {
  public:
    enum class Point { other, taken, propagated };

    static constexpr Point point(std::string_view name) {
        if (name == "after a chunk is taken") return Point::taken;
        if (name == "after results are propagated") return Point::propagated;
        return Point::other;
    }

    template <Point kPoint>
    static void at() {
        if constexpr (kPoint == Point::taken) own().taken.push_back(Clock::now());
        if constexpr (kPoint == Point::propagated) own().written.push_back(Clock::now());
    }

    // Before a run of at most so many chunks, while no worker is at work.
    static void restart(std::size_t chunks) {
        const std::lock_guard guard(mutex_);
        room_ = chunks;
        for (const auto& log : logs_) log->restart(chunks);
    }

    // As parts of a line of JSON, in microseconds: the longest time between two propagations, and ranks of
    // the time since a chunk was taken. Chunks are taken in the order of arrival, and each worker writes the
    // results of its own in that order; a chunk is propagated when its results and all before are written.
    static std::string summary() {
        std::vector<std::pair<Clock::time_point, Clock::time_point>> chunks;  // taken, written
        for (const auto& log : logs_) {
            if (log->taken.size() != log->written.size())
                throw std::runtime_error(std::to_string(log->taken.size()) + " chunks were taken and " +
                                         std::to_string(log->written.size()) +
                                         " written; expected as many, of --strategy shared-index");
            for (std::size_t i = 0; i < log->taken.size(); ++i)
                chunks.emplace_back(log->taken[i], log->written[i]);
        }
        if (chunks.size() < 2)
            throw std::runtime_error(
                "fewer than two chunks; expected --strategy shared-index and a larger --push");
        std::sort(chunks.begin(), chunks.end());
        std::vector<double> latency;
        double longest = 0;
        Clock::time_point propagated = chunks[0].second;
        for (const auto& [taken, written] : chunks) {
            if (written > propagated) longest = std::max(longest, microseconds(written - propagated));
            propagated = std::max(propagated, written);
            latency.push_back(microseconds(propagated - taken));
        }
        std::sort(latency.begin(), latency.end());
        std::string text = ", \"longest_gap\": " + std::to_string(longest);
        for (const char* percent : {"50", "99", "99.9"}) {
            const double rank = std::ceil(std::stod(percent) / 100 * static_cast<double>(latency.size()));
            const double value = latency[static_cast<std::size_t>(rank) - 1];
            text += std::string(", \"p") + percent + "\": " + std::to_string(value);
        }
        return text;
    }

  private:
    using Clock = std::chrono::steady_clock;

    struct Log {
        std::vector<Clock::time_point> taken, written;

        void restart(std::size_t chunks) {
            for (auto* times : {&taken, &written}) {
                times->clear();
                times->reserve(chunks);
            }
        }
    };

    // The log of this thread.
    static Log& own() {
        thread_local Log* log = nullptr;
        if (!log) {
            const std::lock_guard guard(mutex_);
            log = logs_.emplace_back(std::make_unique<Log>()).get();
            log->restart(room_);
        }
        return *log;
    }

    static double microseconds(Clock::duration time) {
        return std::chrono::duration<double, std::micro>(time).count();
    }

    static inline std::mutex mutex_;
    static inline std::vector<std::unique_ptr<Log>> logs_;
    static inline std::size_t room_ = 0;
};

}  // namespace peers

#define SLIDEJOIN_YIELD(name) peers::Trace::at<peers::Trace::point(#name)>()
