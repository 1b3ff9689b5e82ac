// From matches to pairs of positions: arrivals in their order, each arrival's partners by position.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class ResultWriter {
  public:
    // Appends the matches of all tasks. Tasks stand in the order of their arrivals; an arrival has more than
    // one only where it may stand on either side of a pair (self-joins).
    template <class Key>
    void write(const Task<Key>* tasks, std::size_t count, const Place* places, MatchList& matches,
               Pairs& pairs) {
        pairs.reserve(matches.size());
        for (std::size_t i = 0; i < count;) {
            const Place& place = places[tasks[i].arrival];
            std::size_t end = i + 1;
            while (end < count && tasks[end].arrival == tasks[i].arrival) ++end;
            if (end == i + 1) write_one(tasks[i], place, matches, pairs);
            else write_several(tasks + i, tasks + end, place, matches, pairs);
            i = end;
        }
    }

    std::size_t bytes() const { return sorting_.bytes() + mixed_.bytes() + mixed_sorting_.bytes(); }

  private:
    template <class Key>
    void write_one(const Task<Key>& task, const Place& place, MatchList& matches, Pairs& pairs) {
        std::uint32_t* found = matches.data() + task.found_from;
        const std::size_t count = task.found_to - task.found_from;
        sort_positions(found, count, sorting_);
        std::int64_t* left = pairs.left() + pairs.size();
        std::int64_t* right = pairs.right() + pairs.size();
        std::int64_t* partners = task.partner_is_left ? left : right;
        std::int64_t* own = task.partner_is_left ? right : left;
        for (std::size_t i = 0; i < count; ++i) {
            partners[i] = static_cast<std::int64_t>(place.first + found[i]);
            own[i] = static_cast<std::int64_t>(place.position);
        }
        pairs.add(count);
    }

    template <class Key>
    void write_several(const Task<Key>* task, const Task<Key>* end, const Place& place, MatchList& matches,
                       Pairs& pairs) {
        std::size_t count = 0;
        for (; task != end; ++task) {
            mixed_.reserve(count + task->found_to - task->found_from, count);
            for (std::size_t i = task->found_from; i < task->found_to; ++i)
                mixed_[count++] = std::uint64_t{matches.data()[i]} << 1 | task->partner_is_left;
        }
        radix_sort(mixed_.data(), count, mixed_sorting_, [](std::uint64_t match) { return match; });
        std::int64_t* sides[2] = {pairs.left() + pairs.size(), pairs.right() + pairs.size()};
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned own = mixed_[i] & 1;
            sides[own][i] = static_cast<std::int64_t>(place.position);
            sides[1 - own][i] = static_cast<std::int64_t>(place.first + (mixed_[i] >> 1));
        }
        pairs.add(count);
    }

    Buffer<std::uint32_t> sorting_;
    Buffer<std::uint64_t> mixed_;  // relative position * 2 + whether the partner is the left tuple
    Buffer<std::uint64_t> mixed_sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
