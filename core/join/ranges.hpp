// Results as ranges: what an arrival matches in a run that it sees whole is the part [start, end) of the run,
// however long. The result mirror of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen): each
// run is handed over once, the first time that a result speaks of it, and results name parts of it from then
// on. What is not such a part is listed. Cost: O(1) for each part, and one copy of each run.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The runs that were handed over and still stand.
class HandedRuns {
  public:
    // The number of a run; one that has none yet is handed over. `place` sees all of it.
    std::uint64_t number(const RunOfPositions& run, const Place& place, RangeResult& out) {
        if (run.number->given()) return run.number->value();
        std::vector<std::int64_t> positions(run.size);
        const Visible visible = place.visible();
        for (std::size_t i = 0; i < run.size; ++i)
            positions[i] = static_cast<std::int64_t>(place.first + visible.relative(run.positions[i]));
        out.runs.push_back({next_, std::move(positions)});
        standing_.push_back({next_, run.number->give(next_)});
        return next_++;
    }

    // Tells which runs have gone since the last time: no result will speak of them again.
    void tell_gone(RangeResult& out) {
        std::erase_if(standing_, [&](const Standing& run) {
            if (!run.seen.expired()) return false;
            out.gone.push_back(run.number);
            return true;
        });
    }

    std::size_t bytes() const { return standing_.capacity() * sizeof(Standing); }

  private:
    struct Standing {
        std::uint64_t number;
        std::weak_ptr<const std::uint64_t> seen;
    };

    std::uint64_t next_ = 0;
    std::vector<Standing> standing_;
};

// Collects the matches of a group: parts of runs, and the relative positions of the rest.
class MatchRanges {
  public:
    explicit MatchRanges(bool self_join) : self_join_(self_join) {}

    // What follows belongs to these tasks.
    template <class Key>
    void start(const Task<Key>* tasks, std::size_t task_count, const Place* places, std::size_t arrivals,
               RangeResult& out) {
        list_.clear();
        parts_.clear();
        places_ = places;
        out_ = &out;
        spans_.assign(arrivals, Span{});
        for (std::size_t i = 0; i < task_count; ++i) ++spans_[tasks[i].arrival].tasks;
    }

    std::size_t size() const { return list_.size(); }
    MatchList& list() { return list_; }

    template <class Key>
    void begin(Task<Key>& task) {
        list_.begin(task);
        arrival_ = task.arrival;
        Span& span = spans_[arrival_];
        span.from = span.to = parts_.size();
        listed_ = span.tasks > 1 || (self_join_ && !task.partner_is_left);
    }

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        list_.positions(positions, count, visible);
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        list_.entries(keys, positions, count, interval, visible);
    }

    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        list_.among(positions, chosen, visible);
    }

    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        list_.padded(positions, count, visible);
    }

    void all(const std::uint32_t* positions, std::size_t count, Visible visible) {
        list_.all(positions, count, visible);
    }

    // An arrival that looks for several intervals has its matches listed, since a self-join may find a
    // partner twice; in the parts of a self-join it is the right tuple always.
    void run(const RunOfPositions& run, std::size_t from, std::size_t to, Visible visible) {
        if (from == to) return;
        if (listed_) return list_.run(run, from, to, visible);
        parts_.push_back({handed_.number(run, places_[arrival_], *out_), from, to});
        spans_[arrival_].to = parts_.size();
    }

    // Appends the parts of each arrival, in their order. Returns how many matches they are.
    std::uint64_t write(std::size_t start) {
        std::uint64_t found = 0;
        for (std::size_t arrival = 0; arrival < spans_.size(); ++arrival)
            for (std::size_t i = spans_[arrival].from; i < spans_[arrival].to; ++i) {
                const Part& part = parts_[i];
                out_->probe.push_back(static_cast<std::int64_t>(start + arrival));
                out_->run.push_back(static_cast<std::int64_t>(part.run));
                out_->start.push_back(static_cast<std::int64_t>(part.from));
                out_->end.push_back(static_cast<std::int64_t>(part.to));
                found += part.to - part.from;
            }
        return found;
    }

    void tell_gone(RangeResult& out) { handed_.tell_gone(out); }

    std::size_t bytes() const {
        return list_.bytes() + handed_.bytes() + parts_.capacity() * sizeof(Part) +
               spans_.capacity() * sizeof(Span);
    }

  private:
    struct Part {
        std::uint64_t run;
        std::size_t from;
        std::size_t to;
    };

    struct Span {  // an arrival's parts, and how many intervals it looks for
        std::size_t from = 0;
        std::size_t to = 0;
        std::uint32_t tasks = 0;
    };

    bool self_join_;
    bool listed_ = false;  // whether the task under way is
    MatchList list_;
    HandedRuns handed_;
    std::vector<Part> parts_;
    std::vector<Span> spans_;
    std::uint32_t arrival_ = 0;
    const Place* places_ = nullptr;
    RangeResult* out_ = nullptr;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
