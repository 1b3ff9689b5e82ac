// How a join driver uses indexes that several workers share (shared_index.hpp has the implementation): a
// queue of admitted arrivals is started, the workers join it, and each sends the results of what it has
// joined to their place in the order of arrival.
#pragma once

#include "index_pair.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Contiguous arrivals of a queue.
template <class Key>
struct QueueSlice {
    Group<Key> group;  // entries and tasks in the order of arrival
    std::size_t from;  // number of the first arrival in the queue
    std::size_t arrivals;
    const Place* places;        // of each arrival
    const std::uint8_t* sides;  // of each arrival; null in a self-join
};

// What was found for a few arrivals, a chunk of the queue.
template <class Key>
struct ChunkResults {
    const QueueSlice<Key>& slice;
    Slice arrivals;  // of the slice
    Slice tasks;
    FoundPositions& found;
};

// The results of one worker on their way.
template <class Key>
class Outbox {
  public:
    virtual ~Outbox() = default;
    // Takes the results of a chunk, which wait until their place is known. Returns how many pairs they are.
    virtual std::uint64_t keep(const ChunkResults<Key>& results) = 0;
    // So many pairs of the queue come before the oldest results that wait.
    virtual void send(std::uint64_t before) = 0;
};

template <class Key>
class SharedIndexes : public IndexPair<Key> {
  public:
    SharedIndexes<Key>* shared() override { return this; }

    // Starts a queue for up to `workers`, which stays in place until it is done. Workers from number `wanted`
    // on, which may change at any time, stop before their next task; the first one stays.
    virtual void start(const std::vector<QueueSlice<Key>>& queue, std::size_t workers,
                       const std::atomic<std::uint32_t>& wanted) = 0;

    // Lists what a slice inserts and probes for. Called once for each, by any thread, before the work begins.
    virtual void fill(std::size_t slice) = 0;

    // Joins arrivals until none is left. Several threads call it at the same time, each with another number.
    // Throws what stopped this worker; the others then return, and the indexes must not be used any more.
    virtual void work(std::size_t worker, MatchList& list, Outbox<Key>& outbox) = 0;
    virtual void work(std::size_t worker, FilteredList& list, Outbox<Key>& outbox) = 0;
    virtual void work(std::size_t worker, MatchCount& count) = 0;
};

// Compiled by itself, in shared_index.cpp.
template <class Key>
std::unique_ptr<IndexPair<Key>> make_shared_index(const JoinSpec& spec);

}  // namespace slidejoin::SLIDEJOIN_TARGET
