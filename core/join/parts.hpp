// Finds where the partners of probing rows stand in sorted keys: for each interval of a row, one part of
// them.
//
// Intervals are searched for in ascending order, each from where the one before was found. Those of one range
// ascend with the keys of the rows; others are sorted. Cost: 20-40 ns a row where parts are near each other,
// O(log of the distance) where they are not.
#pragma once

#include "../index/sorted_entries.hpp"
#include "index_keys.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class PartFinder {
  public:
    PartFinder(const JoinSpec& spec, Side probing)
        : probing_(probing), indexed_(make_index_keys<Key>(spec)), width_(indexed_->width()) {}

    std::size_t width() const { return width_; }  // parts of each row

    // Finds the parts of rows [start, start + count) that have keys: found(i * width() + k, part) for part k
    // of row start + i, in the order of their first keys. If intervals ascend with keys, rows must, too, in
    // this call and over calls.
    template <class Keys, class Found>
    void find(const Batch& rows, std::size_t start, std::size_t count, bool* nulls, const Keys& sorted,
              Found found) {
        const std::size_t slots = count * width_;
        keys_.reserve(count);
        intervals_.reserve(slots);
        indexed_->read(rows, start, count, keys_.data(), nulls);
        indexed_->partners({nullptr, probing_}, keys_.data(), count, intervals_.data());
        const Interval<Key>* const intervals = intervals_.data();
        EntryRange last;
        if (indexed_->ascending()) {
            last = last_;
            for (std::size_t i = 0; i < count; ++i)
                if (!intervals[i].empty() && !nulls[i])
                    found(i, last = next_range(sorted, last, intervals[i]));
            last_ = last;
            return;
        }
        tasks_.reserve(slots);
        std::size_t tasks = 0;
        for (std::size_t slot = 0; slot < slots; ++slot)
            if (!intervals[slot].empty() && !nulls[slot / width_])
                tasks_[tasks++] = {intervals[slot].low, static_cast<std::uint32_t>(slot)};
        // Equalities with a band ascend like keys but for a few rows.
        const auto before = [](const Entry<Key>& a, const Entry<Key>& b) { return a.key < b.key; };
        if (!std::is_sorted(tasks_.data(), tasks_.data() + tasks, before))
            sort_entries(tasks_.data(), tasks, sorting_);
        const Entry<Key>* const in_order = tasks_.data();
        for (std::size_t task = 0; task < tasks; ++task) {
            const std::uint32_t slot = in_order[task].value;
            found(slot, last = next_range(sorted, last, intervals[slot]));
        }
    }

  private:
    Side probing_;
    std::unique_ptr<IndexKeys<Key>> indexed_;
    std::size_t width_;
    EntryRange last_;  // of rows in the order of their keys
    Buffer<Key> keys_;
    Buffer<Interval<Key>> intervals_;
    Buffer<Entry<Key>> tasks_, sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
