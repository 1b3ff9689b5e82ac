// The tuples of one side of an event window that may still match, by time.
//
// Streams are in the order of time for the most part. A tuple that is not earlier than the last one joins a
// queue that is sorted by itself; only the others go to a heap. A tuple in order costs O(1), one out of order
// O(log w).
#pragma once

#include "memory.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class LiveTuples {
  public:
    std::size_t size() const { return queue_.size() + heap_.size(); }
    std::size_t bytes() const { return queue_.bytes() + heap_.capacity() * sizeof(Tuple); }

    void push(std::int64_t time, std::uint64_t position) {
        if (queue_.size() == 0 || queue_[queue_.size() - 1].time <= time) {
            queue_.push({time, position});
        } else {
            heap_.push_back({time, position});
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
    }

    // Removes the tuples whose time is dead, which holds for every earlier time, too; `tell` gets the
    // position of each, in no order.
    template <class Dead, class Tell>
    void expire(const Dead& dead, const Tell& tell) {
        std::size_t gone = 0;
        for (; gone < queue_.size() && dead(queue_[gone].time); ++gone) tell(queue_[gone].position);
        if (gone) queue_.drop(gone);
        const std::size_t few = heap_.size() / 64;
        for (std::size_t popped = 0; !heap_.empty() && dead(heap_.front().time); ++popped) {
            if (popped == few) {
                expire_many(dead, tell);
                break;
            }
            tell(heap_.front().position);
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            heap_.pop_back();
        }
    }

    // Removes the tuples whose positions are before this one.
    void erase_before(std::uint64_t position) {
        std::size_t gone = 0;
        while (gone < queue_.size() && queue_[gone].position < position) ++gone;
        queue_.drop(gone);
        std::erase_if(heap_, [&](const Tuple& each) { return each.position < position; });
        std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    }

    void clear() {
        queue_.drop(queue_.size());
        heap_.clear();
    }

    void shrink() {
        queue_.shrink();
        heap_.shrink_to_fit();
    }

  private:
    struct Tuple {
        std::int64_t time;
        std::uint64_t position;
        auto operator<=>(const Tuple&) const = default;
    };

    // One pass over the heap instead of a descent for each tuple.
    template <class Dead, class Tell>
    void expire_many(const Dead& dead, const Tell& tell) {
        const auto living =
            std::partition(heap_.begin(), heap_.end(), [&](const Tuple& each) { return dead(each.time); });
        for (auto each = heap_.begin(); each != living; ++each) tell(each->position);
        heap_.erase(heap_.begin(), living);
        std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    }

    Ring<Tuple> queue_;        // sorted by time and by position
    std::vector<Tuple> heap_;  // the earliest on top
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
