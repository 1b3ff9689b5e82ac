// Entries that wait to be merged into a sorted array, in the order of their arrival. An insert appends, a
// probe compares all of them. Sorting them when they are merged costs 8-10 ns an entry.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class InsertBuffer {
  public:
    std::size_t size() const { return size_; }
    std::size_t capacity() const { return positions_.capacity(); }

    void reserve(std::size_t capacity) {
        keys_.reserve(capacity, size_);
        positions_.reserve(capacity, size_);
    }

    void add(Key key, std::uint32_t position) {
        keys_[size_] = key;
        positions_[size_++] = position;
    }

    void clear() { size_ = 0; }

    // The entries in key order, equal keys in the order of their positions.
    const Entry<Key>* sorted() {
        sorted_.reserve(size_);
        for (std::size_t i = 0; i < size_; ++i) sorted_[i] = {keys_[i], positions_[i]};
        sort_entries(sorted_.data(), size_, scratch_);
        return sorted_.data();
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        if (size_) matches.entries(keys_.data(), positions_.data(), size_, interval, visible);
    }

    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < size_; ++i) visit(keys_[i], positions_[i]);
    }

    std::size_t bytes() const {
        return keys_.bytes() + positions_.bytes() + sorted_.bytes() + scratch_.bytes();
    }

  private:
    Buffer<Key> keys_;
    Buffer<std::uint32_t> positions_;
    std::size_t size_ = 0;
    Buffer<Entry<Key>> sorted_;
    Buffer<Entry<Key>> scratch_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
