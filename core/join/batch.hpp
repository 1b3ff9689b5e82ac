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

    // Orders the entries of one side by key, into `by_key`, and in the same order what their arrivals look
    // for: one task for each entry.
    void sort_both(const Entry<Key>* entries, std::size_t count, Buffer<Entry<Key>>& by_key,
                   std::uint32_t* order) {
        if (count == 0) return;
        numbered_.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            numbered_[i] = {entries[i].key, static_cast<std::uint32_t>(i)};
        sort_entries(numbered_.data(), count, sorting_);
        by_key.reserve(count);
        permuted_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t from = numbered_[i].value;
            by_key[i] = {numbered_[i].key, entries[from].value};
            permuted_[i] = order[from];
        }
        std::memcpy(order, permuted_.data(), count * sizeof *order);
    }

    std::size_t bytes() const { return numbered_.bytes() + sorting_.bytes() + permuted_.bytes(); }

  private:
    Buffer<Entry<Key>> numbered_;
    Buffer<Entry<Key>> sorting_;
    Buffer<std::uint32_t> permuted_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
