// The positions of one single key, in the order of arrival: replaces a leaf of the bucket-tree when many
// entries have the same key. Two searches find the visible ones, which are contiguous, so counting does not
// read them. Positions are in chunks of 1024, readable in whole blocks, so that growth moves nothing. Push
// O(1), probe O(log n), 4 bytes a tuple.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class BucketQueue {
  public:
    std::size_t size() const { return end_ - begin_; }

    // Afterwards `count` pushes cannot fail.
    void reserve(std::size_t count) {
        while ((chunks_.size() * kChunk) - end_ < count) chunks_.emplace_back(kChunk + kBlock);
    }

    void push(std::uint32_t position) {
        reserve(1);
        chunks_[end_ / kChunk][end_ % kChunk] = position;
        ++end_;
    }

    // Removes the positions before this one.
    void forget(std::uint32_t first) {
        begin_ = place_of(first, begin_);
        const std::size_t gone = begin_ / kChunk;
        if (gone == 0) return;
        chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(gone));
        begin_ -= gone * kChunk;
        end_ -= gone * kChunk;
    }

    template <class Matches>
    void probe(Visible visible, Matches& matches) const {
        std::size_t from = place_of(visible.first, begin_);
        const std::size_t to = place_of(visible.first + visible.count, from);
        while (from < to) {
            const std::size_t stop = std::min(to, (from / kChunk + 1) * kChunk);
            matches.all(chunks_[from / kChunk].data() + from % kChunk, stop - from, visible);
            from = stop;
        }
    }

    // Calls visit(position) for each.
    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = begin_; i < end_; ++i) visit(at(i));
    }

    void check() const {
        for (std::size_t i = begin_ + 1; i < end_; ++i)
            require(at(i - 1) - at(begin_) < at(i) - at(begin_), "queue: positions rise");
    }

    std::size_t bytes() const {
        return sizeof *this + chunks_.size() * (kChunk + kBlock) * sizeof(std::uint32_t) +
               chunks_.capacity() * sizeof(Buffer<std::uint32_t>);
    }

  private:
    static constexpr std::size_t kChunk = 1024;

    std::uint32_t at(std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }

    // The place of the first position that is not before this one, from `low` on: expired positions may be
    // too far from the newest to be compared with it.
    std::size_t place_of(std::uint32_t position, std::size_t low) const {
        std::size_t high = end_;
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            if (before(at(middle), position)) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    std::vector<Buffer<std::uint32_t>> chunks_;
    std::size_t begin_ = 0;  // places, counted from the first chunk on
    std::size_t end_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
