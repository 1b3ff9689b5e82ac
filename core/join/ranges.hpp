// Results as ranges: the matches of an arrival in a run that it sees completely are the part [start, end) of
// the run, however long. The result mirror of "PanJoin: A Partition-based Adaptive Stream Join" (Pan,
// Jacobsen): each run is handed over once, with the first result that refers to it; results name parts of it
// from then on. Other matches are listed. Cost: O(1) for each part, and one copy of each run.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The runs that were handed over and still exist.
class HandedRuns {
  public:
    // The number of a run, which is handed over the first time. `place` sees all of it.
    std::uint64_t number(const RunOfPositions& run, const Place& place, RangeResult& out) {
        if (run.number->assigned()) return run.number->value();
        std::vector<std::int64_t> positions(run.size);
        const Visible visible = place.visible();
        for (std::size_t i = 0; i < run.size; ++i)
            positions[i] = static_cast<std::int64_t>(place.first + visible.relative(run.positions[i]));
        out.runs.push_back({next_, std::move(positions)});
        handed_.push_back({next_, run.number->assign(next_)});
        return next_++;
    }

    // Reports the runs that were dropped since the last time: no result will refer to them again.
    void report_dropped(RangeResult& out) {
        std::erase_if(handed_, [&](const Handed& run) {
            if (!run.exists.expired()) return false;
            out.gone.push_back(run.number);
            return true;
        });
    }

    std::size_t bytes() const { return handed_.capacity() * sizeof(Handed); }

  private:
    struct Handed {
        std::uint64_t number;
        std::weak_ptr<const std::uint64_t> exists;
    };

    std::uint64_t next_ = 0;
    std::vector<Handed> handed_;
};

// Collects the matches of a group in one index: parts of runs, and a list of the rest.
class MatchRanges : public MatchList {
  public:
    struct Part {
        RunOfPositions run;
        std::size_t from;
        std::size_t to;
    };

    explicit MatchRanges(bool self_join) : self_join_(self_join) {}

    // The matches that follow belong to these tasks.
    template <class Key>
    void start(const Task<Key>* tasks, std::size_t task_count, std::size_t arrivals) {
        clear();
        parts_.clear();
        spans_.assign(arrivals, Span{});
        for (std::size_t i = 0; i < task_count; ++i) ++spans_[tasks[i].arrival].tasks;
    }

    template <class Key>
    void begin(Task<Key>& task) {
        MatchList::begin(task);
        span_ = &spans_[task.arrival];
        if (span_->from == span_->to) span_->from = span_->to = parts_.size();
        listed_ = span_->tasks > 1 || (self_join_ && !task.partner_is_left);
    }

    // The matches of an arrival with several intervals are listed, since a self-join may find a partner
    // twice; in the parts of a self-join the arrival is always the right tuple.
    void run(const RunOfPositions& run, std::size_t from, std::size_t to, Visible visible) {
        if (from == to) return;
        if (listed_) return MatchList::run(run, from, to, visible);
        parts_.push_back({run, from, to});
        span_->to = parts_.size();
    }

    // The parts of an arrival.
    std::span<const Part> parts(std::size_t arrival) const {
        return {parts_.data() + spans_[arrival].from, spans_[arrival].to - spans_[arrival].from};
    }

    void free() {
        MatchList::free();
        parts_ = std::vector<Part>();
        spans_ = std::vector<Span>();
    }

    std::size_t bytes() const {
        return MatchList::bytes() + parts_.capacity() * sizeof(Part) + spans_.capacity() * sizeof(Span);
    }

  private:
    struct Span {  // an arrival's parts, and how many intervals it has
        std::size_t from = 0;
        std::size_t to = 0;
        std::uint32_t tasks = 0;
    };

    bool self_join_;
    bool listed_ = false;  // whether the matches of the current task are listed
    std::vector<Part> parts_;
    std::vector<Span> spans_;
    Span* span_ = nullptr;  // of the current task
};

// Appends to a result the parts that lists of several indexes hold of arrivals, the first of which is number
// `start` of the batch: by arrival, then by list. Returns how many matches they hold.
inline std::uint64_t write_parts(std::span<const MatchRanges* const> lists, const Place* places,
                                 std::size_t arrivals, std::size_t start, HandedRuns& handed,
                                 RangeResult& out) {
    std::uint64_t found = 0;
    for (std::size_t arrival = 0; arrival < arrivals; ++arrival)
        for (const MatchRanges* const list : lists)
            for (const MatchRanges::Part& part : list->parts(arrival)) {
                out.probe.push_back(static_cast<std::int64_t>(start + arrival));
                out.run.push_back(static_cast<std::int64_t>(handed.number(part.run, places[arrival], out)));
                out.start.push_back(static_cast<std::int64_t>(part.from));
                out.end.push_back(static_cast<std::int64_t>(part.to));
                found += part.to - part.from;
            }
    return found;
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
