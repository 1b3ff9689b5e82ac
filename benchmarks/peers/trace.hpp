// When the workers of a shared index take a chunk of arrivals, and when its results are propagated. The core
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
    enum class Point { other, taken, completed, propagated };

    static constexpr Point point(std::string_view name) {
        if (name == "before the phase is read") return Point::taken;
        if (name == "before a chunk is completed") return Point::completed;
        if (name == "before results count as propagated") return Point::propagated;
        return Point::other;
    }

    template <Point kPoint>
    static void at() {
        // A worker that has to wait reads the phase more than once.
        if constexpr (kPoint == Point::taken) {
            Log& log = own();
            if (!log.working) log.taken.push_back(Clock::now());
            log.working = true;
        } else if constexpr (kPoint == Point::completed) {
            own().working = false;
        } else if constexpr (kPoint == Point::propagated) {
            propagated_.push_back(Clock::now());  // one worker at a time
        }
    }

    // Before a run of at most so many chunks, while no worker is at work.
    static void restart(std::size_t chunks) {
        const std::lock_guard guard(mutex_);
        room_ = chunks;
        for (const auto& log : logs_) log->restart(chunks);
        propagated_.clear();
        propagated_.reserve(chunks);
    }

    // As parts of a line of JSON, in microseconds: the longest time between two propagations, and ranks of
    // the time since a chunk was taken. Chunks are taken and propagated in the same order.
    static std::string summary() {
        std::vector<Clock::time_point> taken;
        for (const auto& log : logs_) taken.insert(taken.end(), log->taken.begin(), log->taken.end());
        if (taken.size() != propagated_.size() || taken.size() < 2)
            throw std::runtime_error(std::to_string(taken.size()) + " chunks were taken and " +
                                     std::to_string(propagated_.size()) +
                                     " propagated; expected as many, of --strategy shared-index");
        std::sort(taken.begin(), taken.end());
        std::vector<double> latency(taken.size());
        double longest = 0;
        for (std::size_t i = 0; i < taken.size(); ++i) {
            latency[i] = microseconds(propagated_[i] - taken[i]);
            if (i > 0) longest = std::max(longest, microseconds(propagated_[i] - propagated_[i - 1]));
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
        std::vector<Clock::time_point> taken;
        bool working = false;

        void restart(std::size_t chunks) {
            taken.clear();
            taken.reserve(chunks);
            working = false;
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
    static inline std::vector<Clock::time_point> propagated_;
};

}  // namespace peers

#define SLIDEJOIN_YIELD(name) peers::Trace::at<peers::Trace::point(#name)>()
