// Finds where the partners of probing rows stand in sorted keys: for each interval of a row, one part of
// them.
//
// Intervals are searched for in ascending order, each from where the one before was found. Those of one range
// ascend with the keys of the rows; others are sorted. Cost: 10-30 ns a row where parts are near each other,
// O(log of the distance) where they are not.
#pragma once

#include "../index/sorted_entries.hpp"
#include "index_keys.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class PartFinder {
  public:
    PartFinder(const JoinSpec& spec, Side probing)
        : probing_(probing), indexed_(make_index_keys<Key>(spec)) {}

    std::size_t width() const { return indexed_->width(); }  // parts of each row

    // Finds the parts of rows [start, start + count) that have keys: found(i * width() + k, part) for part k
    // of row start + i, in the order of their first keys. If intervals ascend with keys, rows must, too, in
    // this call and over calls.
    template <class Keys, class Found>
    void find(const Batch& rows, std::size_t start, std::size_t count, bool* nulls, const Keys& sorted,
              Found found) {
        const std::size_t slots = count * width();
        keys_.reserve(count);
        intervals_.reserve(slots);
        indexed_->read(rows, start, count, keys_.data(), nulls);
        indexed_->partners({nullptr, probing_}, keys_.data(), count, intervals_.data());
        if (indexed_->ascending()) {
            for (std::size_t i = 0; i < count; ++i)
                if (!intervals_[i].empty() && !nulls[i]) found(i, last_ = sorted.next(last_, intervals_[i]));
            return;
        }
        tasks_.reserve(slots);
        std::size_t tasks = 0;
        for (std::size_t slot = 0; slot < slots; ++slot)
            if (!intervals_[slot].empty() && !nulls[slot / width()])
                tasks_[tasks++] = {intervals_[slot].low, static_cast<std::uint32_t>(slot)};
        sort_entries(tasks_.data(), tasks, sorting_);
        last_ = {};
        for (std::size_t task = 0; task < tasks; ++task) {
            const std::uint32_t slot = tasks_[task].value;
            found(slot, last_ = sorted.next(last_, intervals_[slot]));
        }
    }

  private:
    Side probing_;
    std::unique_ptr<IndexKeys<Key>> indexed_;
    EntryRange last_;
    Buffer<Key> keys_;
    Buffer<Interval<Key>> intervals_;
    Buffer<Entry<Key>> tasks_, sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
