// Joins a group of arrivals over indexes that several workers share (shared_index.hpp). The workers admit
// slices of it, list them as a queue, and join it; each writes the pairs of what it has joined to their place
// in the result. Cost beside the join itself: two meetings, and two copies of each pair.
#pragma once

#include "shared_queue.hpp"
#include "slices.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The pairs of one worker: they are copied to the result once it is known how many come before. Where the
// result has no room for them, they wait until it has been enlarged.
template <class Key>
class PairOutbox final : public Outbox<Key> {
  public:
    explicit PairOutbox(bool sorted) : writer_(sorted) {}

    // Pairs are written to `pairs`, or only counted if it is null; with `ends`, ends[i] becomes the number of
    // pairs up to arrival i of the queue.
    void start(Pairs* pairs, std::uint64_t* ends) {
        pairs_ = pairs;
        ends_ = ends;
        found_ = 0;
        clear();
    }

    std::uint64_t found() const { return found_; }

    std::uint64_t keep(const ChunkResults<Key>& results) override {
        const auto write = [&](PairRoom* room, std::uint64_t* ends) {
            return writer_.write(results.slice.group.tasks + results.tasks.from, results.tasks.size(),
                                 results.slice.places, results.found, room, ends, results.arrivals.to,
                                 results.arrivals.from);
        };
        if (!pairs_) {
            const std::uint64_t found = write(nullptr, nullptr);
            found_ += found;
            return found;
        }
        own_.reserve(results.found.size() + kFew);
        PairRoom room(own_.left() + own_.size(), own_.right() + own_.size(), own_.room(), 0);
        write(&room, ends_ ? ends_ + results.slice.from : nullptr);
        own_.add(room.size);
        const std::size_t from = results.slice.from;
        kept_.push_back({{from + results.arrivals.from, from + results.arrivals.to}, room.size, 0});
        found_ += room.size;
        return room.size;
    }

    void send(std::uint64_t before) override {
        if (!pairs_) return;
        kept_[placed_++].before = before;
        send_placed();
    }

    // Sends what has a place, as far as there is room.
    void send_placed() {
        for (; sent_ < placed_; ++sent_) {
            const Kept& kept = kept_[sent_];
            if (kept.before + kept.pairs > pairs_->room()) return;
            const std::uint64_t before = pairs_->size() + kept.before;
            std::copy_n(own_.left() + copied_, kept.pairs, pairs_->left() + before);
            std::copy_n(own_.right() + copied_, kept.pairs, pairs_->right() + before);
            for (std::size_t i = kept.arrivals.from; ends_ && i < kept.arrivals.to; ++i) ends_[i] += before;
            copied_ += kept.pairs;
        }
        if (sent_ == kept_.size()) clear();
    }

    std::size_t bytes() const { return own_.bytes() + kept_.capacity() * sizeof(Kept) + writer_.bytes(); }

  private:
    // Of one chunk.
    struct Kept {
        Slice arrivals;  // of the queue
        std::size_t pairs;
        std::uint64_t before;
    };

    void clear() {
        own_.clear();
        kept_.clear();
        placed_ = sent_ = copied_ = 0;
    }

    ResultWriter writer_;
    Pairs* pairs_ = nullptr;
    std::uint64_t* ends_ = nullptr;
    std::uint64_t found_ = 0;
    Pairs own_;
    std::vector<Kept> kept_;
    std::size_t placed_ = 0, sent_ = 0;  // of those that are kept
    std::size_t copied_ = 0;             // own pairs
};

template <class Key>
class SharedJoin {
  public:
    SharedJoin(const JoinSpec& spec, Lanes<Key>& lanes) : spec_(spec), lanes_(lanes) {}

    // Joins a group whose slices are admitted by admit(i), at the same time; then, by one worker, by
    // admitted(). Pairs are written to `pairs`, or only counted if it is null. With `ends`, ends[i] becomes
    // the number of pairs up to arrival i.
    template <class Admit, class Admitted>
    std::uint64_t run(SharedIndexes<Key>& indexes, std::size_t workers, const Slices<Key>& slices,
                      const std::uint8_t* sides, Pairs* pairs, std::uint64_t* ends, Admit admit,
                      Admitted admitted) {
        Workers& pool = lanes_.pool();
        prepare(workers, pairs, ends);
        pool.run(workers, [&](std::size_t number) {
            const auto take = [&](std::size_t phase, auto work) {
                lanes_.deal(phase).take(number, workers, work);
            };
            take(kAdmit, admit);
            pool.meet([&] {
                admitted();
                list(slices, sides);
                indexes.start(queue_, workers, lanes_.wanted());
            });
            take(kProbe, [&](std::size_t i) { indexes.fill(i); });
            pool.meet();
            Worker& worker = *workers_[number];
            if (!lanes_[0].listed(pairs)) indexes.work(number, worker.count);
            else if (lanes_[0].filter.empty()) indexes.work(number, worker.list, worker.outbox);
            else indexes.work(number, worker.filtered, worker.outbox);
        });
        std::uint64_t found = 0;
        for (std::size_t i = 0; i < workers; ++i) found += workers_[i]->found();
        if (!pairs) return found;
        if (found > pairs->room()) {
            pairs->reserve(found);
            pool.run(workers, [&](std::size_t number) { workers_[number]->outbox.send_placed(); });
        }
        pairs->add(found);
        return found;
    }

    void free() { workers_.clear(); }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const auto& worker : workers_) total += sizeof *worker + worker->bytes();
        return total;
    }

  private:
    // Each worker tests candidates by itself, for the arrivals that the first lane has read, and with the
    // keys that it stores.
    struct Worker {
        Worker(const JoinSpec& spec, const CandidateFilter& first)
            : filter(spec), filtered(filter), outbox(spec.sorted) {
            filter.share(first);
            filter.test_for(first);
        }

        std::uint64_t found() const { return outbox.found() + count.size(); }
        std::size_t bytes() const {
            return filter.bytes() + list.bytes() + filtered.bytes() + outbox.bytes();
        }

        CandidateFilter filter;
        MatchList list;
        FilteredList filtered;
        MatchCount count;
        PairOutbox<Key> outbox;
    };

    void prepare(std::size_t workers, Pairs* pairs, std::uint64_t* ends) {
        while (workers_.size() < workers)
            workers_.push_back(std::make_unique<Worker>(spec_, lanes_[0].filter));
        for (std::size_t i = 0; i < workers; ++i) {
            workers_[i]->count.clear();
            workers_[i]->outbox.start(pairs, ends);
        }
    }

    void list(const Slices<Key>& slices, const std::uint8_t* sides) {
        queue_.clear();
        for (std::size_t i = 0; i < slices.size(); ++i) {
            GroupBuffer<Key>& buffer = lanes_[i].buffer;
            const Slice slice = slices[i];
            queue_.push_back({buffer.queue(), slice.from, slice.size(), buffer.places(),
                              sides ? sides + slice.from : nullptr});
        }
    }

    const JoinSpec& spec_;
    Lanes<Key>& lanes_;
    std::vector<QueueSlice<Key>> queue_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
