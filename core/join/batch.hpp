// The batch form: what the serial join does differently when many arrivals go through it at once.
//
// A batch is inserted whole and then probed, both in key order, so that one pass over the index serves
// neighbours one after the other; the visible range of each arrival keeps the answer exact, and the result
// writer restores the order of arrival. Worth its sort when a batch is dense in the window.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BatchSorter {
  public:
    // Orders the listed tasks by the lower ends of their intervals.
    void sort_tasks(const Task<Key>* tasks, std::uint32_t* order, std::size_t count) {
        numbered_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) numbered_[i] = {tasks[order[i]].interval.low, order[i]};
        sort_entries(numbered_.data(), count, sorting_);
        for (std::size_t i = 0; i < count; ++i) order[i] = numbered_[i].value;
    }

    // Orders the entries of one side by key, into `by_key`, and the tasks that their arrivals have, one for
    // each entry. The order of keys is that of intervals wherever a band is indexed as it is; else tasks are
    // sorted for themselves.
    void sort_both(const Entry<Key>* entries, std::size_t count, Buffer<Entry<Key>>& by_key,
                   const Task<Key>* tasks, std::uint32_t* order) {
        numbered_.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            numbered_[i] = {entries[i].key, static_cast<std::uint32_t>(i)};
        sort_entries(numbered_.data(), count, sorting_);
        by_key.reserve(count);
        permuted_.reserve(count);
        bool ascending = true;
        Key low = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t from = numbered_[i].value;
            if (i + kAhead < count) prefetch(&tasks[order[numbered_[i + kAhead].value]]);
            by_key[i] = {numbered_[i].key, entries[from].value};
            permuted_[i] = order[from];
            const Key next = tasks[order[from]].interval.low;
            ascending &= low <= next;
            low = next;
        }
        if (!ascending) return sort_tasks(tasks, order, count);
        std::memcpy(order, permuted_.data(), count * sizeof *order);
    }

    std::size_t bytes() const { return numbered_.bytes() + sorting_.bytes() + permuted_.bytes(); }

  private:
    static constexpr std::size_t kAhead = 16;  // tasks that are on their way from memory

    Buffer<Entry<Key>> numbered_;
    Buffer<Entry<Key>> sorting_;
    Buffer<std::uint32_t> permuted_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
