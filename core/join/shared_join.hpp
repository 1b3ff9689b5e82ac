// Joins a group of arrivals over indexes that several workers share (shared_index.hpp), and writes the pairs
// as they are propagated. Beside the join itself a pair costs as much as in result.hpp, and an arrival some
// 3 ns for the queue.
#pragma once

#include "phased.hpp"
#include "shared_queue.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SharedJoin {
  public:
    SharedJoin(const JoinSpec& spec, Lanes<Key>& lanes) : spec_(spec), lanes_(lanes) {}

    // Joins what the first lane has admitted. Matches are written to `pairs`, or only counted if it is null.
    // With `ends`, ends[i] becomes the number of pairs up to arrival i.
    std::uint64_t run(SharedIndexes<Key>& indexes, std::size_t workers, std::size_t arrivals,
                      const std::uint8_t* sides, Pairs* pairs, std::uint64_t* ends) {
        Lane<Key>& first = lanes_[0];
        indexes.start(first.buffer.queue(), arrivals, first.buffer.places(), sides, workers, lanes_.wanted());
        if (!first.listed(pairs)) return count(indexes, workers);
        prepare(workers);
        ResultWriter writer(spec_.sorted);
        std::uint64_t total = 0;
        std::size_t ended = 0;
        const auto end_until = [&](std::size_t arrival) {
            for (; ended < arrival; ++ended) ends[ended] = pairs->size();
        };
        const Task<Key>* const tasks = first.buffer.tasks();
        const auto write = [&](std::size_t from, std::size_t to, FoundPositions& found) {
            if (!pairs) {
                total += writer.write(tasks + from, to - from, first.buffer.places(), found, nullptr);
                return;
            }
            pairs->reserve(found.size() + kFew);
            PairRoom room(*pairs);
            total += writer.write(tasks + from, to - from, first.buffer.places(), found, &room);
            pairs->add(room.size);
        };
        const Propagate propagate = [&](std::size_t from, std::size_t to, FoundPositions& found) {
            if (!ends) return write(from, to, found);
            while (from < to) {  // an arrival at a time
                std::size_t next = from + 1;
                while (next < to && tasks[next].arrival == tasks[from].arrival) ++next;
                end_until(tasks[from].arrival);
                write(from, next, found);
                from = next;
            }
        };
        lanes_.pool().run(workers, [&](std::size_t worker) {
            if (first.filter.empty()) indexes.work(worker, lists_[worker], propagate);
            else indexes.work(worker, filtered_[worker], propagate);
        });
        if (ends) end_until(arrivals);
        return total;
    }

    void free() {
        lists_.clear();
        filtered_.clear();
        filters_.clear();
    }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const auto& filter : filters_) total += sizeof *filter + filter->bytes();
        for (const auto& ring : lists_) total += sizeof ring + ring.bytes();
        for (const auto& ring : filtered_) total += sizeof ring + ring.bytes();
        return total;
    }

  private:
    std::uint64_t count(SharedIndexes<Key>& indexes, std::size_t workers) {
        std::vector<std::uint64_t> found(workers);
        lanes_.pool().run(workers, [&](std::size_t worker) {
            MatchCount counter;
            indexes.work(worker, counter);
            found[worker] = counter.size();
        });
        std::uint64_t total = 0;
        for (const std::uint64_t each : found) total += each;
        return total;
    }

    // Lists for so many workers. Each tests candidates by itself, for the arrivals that the first lane has
    // read, and with the keys that it stores.
    void prepare(std::size_t workers) {
        CandidateFilter& first = lanes_[0].filter;
        while (lists_.size() < workers) {
            filters_.push_back(std::make_unique<CandidateFilter>(spec_));
            CandidateFilter& filter = *filters_.back();
            filter.share(first);
            filter.test_for(first);
            lists_.emplace_back([] { return std::make_unique<MatchList>(); });
            filtered_.emplace_back([&filter] { return std::make_unique<FilteredList>(filter); });
        }
        for (auto& ring : lists_) ring.restart();
        for (auto& ring : filtered_) ring.restart();
    }

    const JoinSpec& spec_;
    Lanes<Key>& lanes_;
    std::vector<std::unique_ptr<CandidateFilter>> filters_;  // one for each worker, as the lists
    std::vector<ListRing<MatchList>> lists_;
    std::vector<ListRing<FilteredList>> filtered_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
