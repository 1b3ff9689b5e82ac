// A queue of arrivals (shared_queue.hpp) in chunks, which workers take one after the other, and the entries
// of both sides in the order of arrival, which probes scan. Some 3 ns an arrival, by several workers at the
// same time; memory: an entry of each arrival, and a cache line for each chunk.
#pragma once

#include "shared_queue.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

enum IndexState : std::uint8_t { kNotIndexed, kLeftToMerge, kIndexed };

// Arrivals that are joined together. Its entries end where the next chunk's begin.
template <class Key>
struct alignas(kCacheLine) QueueChunk {
    const QueueSlice<Key>* slice;
    std::uint32_t first_arrival, arrivals;  // of the slice
    std::uint32_t first_task, tasks;
    std::uint32_t first_entry[2];  // of the queue, by side
    std::uint64_t pairs, before;   // found, and of the chunks before
    std::atomic<std::uint8_t> indexed[2];
    std::atomic<bool> completed;
};

// The entries of one side.
template <class Key>
struct QueueEntries {
    Buffer<Key> keys;
    Buffer<std::uint32_t> positions;
    std::size_t count;
    std::uint32_t first, last;  // positions, if there are any
};

template <class Key>
class ChunkQueue {
    using Chunk = QueueChunk<Key>;

  public:
    explicit ChunkQueue(std::size_t task_size) : task_size_(task_size) {}

    std::size_t count() const { return count_; }
    Chunk& operator[](std::size_t i) { return chunks_[i]; }  // there is one behind the last
    const Chunk& operator[](std::size_t i) const { return chunks_[i]; }
    const QueueEntries<Key>& entries(int side) const { return entries_[side]; }

    // Before any slice is filled.
    void start(const std::vector<QueueSlice<Key>>& slices) {
        slices_ = &slices;
        begins_.clear();
        Begin at{};
        for (const QueueSlice<Key>& slice : slices) {
            begins_.push_back(at);
            at.chunk += (slice.arrivals + task_size_ - 1) / task_size_;
            for (int side = 0; side < 2; ++side) {
                const std::size_t count = slice.group.entry_count[side];
                if (!count) continue;
                if (!at.entry[side]) entries_[side].first = slice.group.entries[side][0].value;
                entries_[side].last = slice.group.entries[side][count - 1].value;
                at.entry[side] += static_cast<std::uint32_t>(count);
            }
        }
        count_ = at.chunk;
        if (chunks_.size() < count_ + 1) chunks_ = std::vector<Chunk>(count_ + 1);
        std::copy_n(at.entry, 2, chunks_[count_].first_entry);
        for (int side = 0; side < 2; ++side) {
            entries_[side].count = at.entry[side];
            entries_[side].keys.reserve(at.entry[side]);
            entries_[side].positions.reserve(at.entry[side]);
        }
    }

    void fill(std::size_t number) {
        const QueueSlice<Key>& slice = (*slices_)[number];
        const Task<Key>* const tasks = slice.group.tasks;
        const std::size_t task_count = slice.group.order_count[0] + slice.group.order_count[1];
        Begin at = begins_[number];
        std::uint32_t task = 0, taken[2] = {0, 0};
        for (std::uint32_t i = 0; i < slice.arrivals; ++at.chunk) {
            Chunk& chunk = chunks_[at.chunk];
            chunk.slice = &slice;
            chunk.first_arrival = i;
            chunk.first_task = task;
            for (int side = 0; side < 2; ++side) {
                chunk.first_entry[side] = at.entry[side] + taken[side];
                chunk.indexed[side].store(kNotIndexed, std::memory_order_relaxed);
            }
            chunk.completed.store(false, std::memory_order_relaxed);
            for (const std::size_t end = std::min(i + task_size_, slice.arrivals); i < end; ++i) {
                const int side = slice.sides ? slice.sides[i] & 1 : 0;
                const Entry<Key>* const entry = slice.group.entries[side] + taken[side];
                if (taken[side] < slice.group.entry_count[side] &&
                    entry->value == low_bits(slice.places[i].position)) {
                    const std::uint32_t to = at.entry[side] + taken[side]++;
                    entries_[side].keys[to] = entry->key;
                    entries_[side].positions[to] = entry->value;
                }
                while (task < task_count && tasks[task].arrival == i) ++task;
            }
            chunk.arrivals = i - chunk.first_arrival;
            chunk.tasks = task - chunk.first_task;
        }
        for (int side = 0; side < 2; ++side)
            require(taken[side] == slice.group.entry_count[side], "queue: an arrival for each entry");
    }

    std::size_t bytes() const {
        std::size_t total = chunks_.capacity() * sizeof(Chunk) + begins_.capacity() * sizeof(Begin);
        for (const QueueEntries<Key>& each : entries_) total += each.keys.bytes() + each.positions.bytes();
        return total;
    }

  private:
    // Where a slice begins.
    struct Begin {
        std::size_t chunk;
        std::uint32_t entry[2];
    };

    std::size_t task_size_;
    const std::vector<QueueSlice<Key>>* slices_ = nullptr;
    std::vector<Begin> begins_;
    std::vector<Chunk> chunks_;
    std::size_t count_ = 0;
    QueueEntries<Key> entries_[2];
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
