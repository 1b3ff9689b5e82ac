// How a join driver uses indexes that several workers share (shared_index.hpp has the implementation): one
// thread starts a queue of admitted arrivals, the workers join it, results come back in the order of arrival.
#pragma once

#include "index_pair.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The lists of one worker. A list holds the matches of a few arrivals, a chunk of the queue, until these are
// propagated, and is then used again.
template <class List>
class ListRing {
  public:
    using Make = std::function<std::unique_ptr<List>()>;

    explicit ListRing(Make make) : make_(std::move(make)) {}

    // Another queue begins.
    void restart() {
        for (const auto& slot : slots_) slot->until = 0;
    }

    // An empty list for a chunk, while so many chunks have been propagated. Chunks come in ascending order.
    List& take(std::size_t chunk, std::size_t propagated) {
        if (!newest_ || newest_->next->until > propagated) add();
        else newest_ = newest_->next;
        newest_->until = chunk + 1;
        newest_->list->clear();
        return *newest_->list;
    }

    std::size_t bytes() const {
        std::size_t total = slots_.capacity() * sizeof(slots_[0]);
        for (const auto& slot : slots_) total += sizeof *slot + sizeof *slot->list + slot->list->bytes();
        return total;
    }

  private:
    struct Slot {
        std::unique_ptr<List> list;
        std::size_t until;  // so many chunks have been propagated
        Slot* next;
    };

    // Behind the newest one, in front of the oldest.
    void add() {
        slots_.push_back(std::make_unique<Slot>(Slot{make_(), 0, nullptr}));
        Slot* const slot = slots_.back().get();
        slot->next = newest_ ? newest_->next : slot;
        if (newest_) newest_->next = slot;
        newest_ = slot;
    }

    Make make_;
    std::vector<std::unique_ptr<Slot>> slots_;
    Slot* newest_ = nullptr;  // of a circle
};

// Receives the results of tasks [first, end), which `found` lists: called by one worker at a time, in the
// order of arrival.
using Propagate = std::function<void(std::size_t first, std::size_t end, FoundPositions& found)>;

template <class Key>
class SharedIndexes : public IndexPair<Key> {
  public:
    SharedIndexes<Key>* shared() override { return this; }

    // Starts a queue for up to `workers`: a group with its entries and tasks in the order of arrival, and for
    // each arrival its place and, unless it is a self-join, its side. All of it stays in place until the
    // queue is done. Workers from number `wanted` on, which may change at any time, stop before their next
    // task; the first one stays.
    virtual void start(const Group<Key>& group, std::size_t arrivals, const Place* places,
                       const std::uint8_t* sides, std::size_t workers,
                       const std::atomic<std::uint32_t>& wanted) = 0;

    // Joins arrivals until none is left. Several threads call it at the same time, each with another number.
    // Throws what stopped this worker; the others then return, and the indexes must not be used any more.
    virtual void work(std::size_t worker, ListRing<MatchList>& lists, const Propagate& propagate) = 0;
    virtual void work(std::size_t worker, ListRing<FilteredList>& lists, const Propagate& propagate) = 0;
    virtual void work(std::size_t worker, MatchCount& count) = 0;
};

// Compiled by itself, in shared_index.cpp.
template <class Key>
std::unique_ptr<IndexPair<Key>> make_shared_index(const JoinSpec& spec);

}  // namespace slidejoin::SLIDEJOIN_TARGET
