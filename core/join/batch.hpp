// The batch form: what the serial join does differently when many arrivals go through it at once.
//
// A batch is inserted whole and then probed, both in key order, so that one pass over the index serves
// neighbours one after the other; the visible range of each arrival keeps the answer exact, and the result
// writer restores the order of arrival. Worth its sort when a batch is dense in the window.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class TaskSorter {
  public:
    // Orders the listed tasks by the lower end of their intervals.
    void sort(const Task<Key>* tasks, std::uint32_t* order, std::size_t count) {
        entries_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) entries_[i] = {tasks[order[i]].interval.low, order[i]};
        sort_entries(entries_.data(), count, sorting_);
        for (std::size_t i = 0; i < count; ++i) order[i] = entries_[i].value;
    }

    std::size_t bytes() const { return entries_.bytes() + sorting_.bytes(); }

  private:
    Buffer<Entry<Key>> entries_;
    Buffer<Entry<Key>> sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
