// Subwindows of workers, the architecture of "PanJoin: A Partition-based Adaptive Stream Join" (Pan,
// Jacobsen): a window is cut by arrival into subwindows, contiguous ranges of positions, which are dealt to
// the workers in turn. The newest subwindow of a side takes all inserts; all are probed; the oldest expires.
// docs/concurrency.md says how manager and workers work together.
//
// Indexes that consist of subwindows themselves (rap-table, wib-tree, bi-sort, the chains) begin one for each
// that a worker gets; others hold all subwindows of a worker together.
#pragma once

#include "round_robin.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// When a batch is closed: when it has so many arrivals, or so much time has passed since it was begun. Inside
// a push all arrivals are there already, so that time passes by joining them, not by waiting for them: a
// batch gets as many arrivals as could be joined in that time, at the pace of the batch before.
class BatchTrigger {
  public:
    BatchTrigger(std::size_t most, std::uint64_t nanoseconds) : most_(most), time_(nanoseconds) {}

    // Arrivals of the next batch, at most.
    std::size_t size() const {
        if (!time_ || pace_ <= 0) return most_;
        const double fitting = static_cast<double>(time_) / pace_;
        if (fitting >= static_cast<double>(most_)) return most_;
        return std::max(kGroup, static_cast<std::size_t>(fitting));
    }

    // A batch of so many arrivals took so long from its beginning to its results.
    void note(std::size_t arrivals, std::uint64_t nanoseconds) {
        if (arrivals) pace_ = static_cast<double>(nanoseconds) / static_cast<double>(arrivals);
    }

  private:
    std::size_t most_;
    std::uint64_t time_;  // 0: no limit
    double pace_ = 0;     // nanoseconds for an arrival
};

template <class Key>
class SubwindowWorkers final : public LocalIndexes<Key> {
  public:
    // A window consists of spec.subwindows, or two for each worker if that is more.
    SubwindowWorkers(const JoinSpec& spec, typename LocalIndexes<Key>::Make make)
        : LocalIndexes<Key>(spec, make), length_(spec.subwindows), least_(spec.options.min_entries) {}

  private:
    // A batch is not divided if possible: rather than fill up a subwindow that is half full, it begins one
    // that has room for it.
    void deal(int side, const Entry<Key>* entries, std::size_t entry_count, std::size_t count,
              std::uint32_t expired, std::vector<CommandQueue>& queues) override {
        Newest& newest = newest_[side];
        for (std::size_t done = 0; done < entry_count;) {
            const std::size_t left = entry_count - done;
            const std::uint32_t first = entries[done].value;
            if (newest.room == 0 || newest.local >= count ||
                (newest.room < left && newest.room <= newest.capacity / 2)) {
                begin(newest, side, first - expired, left, count);
                queues[newest.local].push_back(
                    {Command::Kind::create, side, first, first, 1, 0, newest.capacity});
            }
            const std::size_t fitting = std::min(left, newest.room);
            queues[newest.local].push_back(
                {Command::Kind::insert, side, first, entries[done + fitting - 1].value});
            newest.room -= fitting;
            done += fitting;
        }
    }

    struct Newest {
        std::size_t local = 0;  // the local index that has it
        std::size_t capacity = 0;
        std::size_t room = 0;
        std::size_t turns = 0;  // subwindows that were dealt
    };

    // The size follows from the positions that the window holds, since only windows of rows know it
    // beforehand. Both sides begin with different workers, so that their newest ones are seldom the same's.
    void begin(Newest& newest, int side, std::size_t held, std::size_t batch, std::size_t count) {
        newest.local = (newest.turns++ + (side ? count / 2 : 0)) % count;
        const std::size_t length = std::max<std::size_t>(length_, 2 * count);
        const std::size_t capacity = std::max<std::size_t>(least_, held / (length - 1));
        newest.room = newest.capacity = (capacity + batch - 1) / batch * batch;
    }

    std::size_t length_;
    std::size_t least_;  // entries of a subwindow
    Newest newest_[2];
};

// The local indexes of a strategy, for so many workers.
template <class Key>
std::unique_ptr<LocalIndexes<Key>> make_local(const JoinSpec& spec, typename LocalIndexes<Key>::Make make,
                                              std::size_t workers) {
    std::unique_ptr<LocalIndexes<Key>> indexes;
    if (spec.strategy == Strategy::round_robin) indexes = std::make_unique<RoundRobin<Key>>(spec, make);
    else indexes = std::make_unique<SubwindowWorkers<Key>>(spec, make);
    indexes->deal_to(workers);
    return indexes;
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
