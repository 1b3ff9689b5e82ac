// The entries of a window, oldest first: keys and positions in two rings. Positions ascend and may have gaps,
// since tuples without a key are not stored. Push and drop O(1), 8-12 bytes a tuple.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Fifo {
  public:
    std::size_t size() const { return keys_.size(); }
    Key key(std::size_t i) const { return keys_[i]; }
    std::uint32_t position(std::size_t i) const { return positions_[i]; }

    void push(Key key, std::uint32_t position) {
        keys_.push(key);
        positions_.push(position);
    }

    void drop(std::size_t count) {
        keys_.drop(count);
        positions_.drop(count);
    }

    // How many entries have a position before this one: gallops from the oldest, O(log of the result).
    std::size_t count_before(std::uint32_t position) const {
        std::size_t low = 0, high = 0;
        for (std::size_t step = 1; high < size() && before(positions_[high], position); step *= 2) {
            low = high + 1;
            high = std::min(high + step, size());
        }
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            if (before(positions_[middle], position)) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // Calls visit(keys, positions, count) for the one or two contiguous parts of entries [from, to).
    template <class Visit>
    void parts(std::size_t from, std::size_t to, Visit visit) const {
        while (from < to) {
            const std::size_t count = std::min(to - from, keys_.run(from));
            visit(&keys_[from], &positions_[from], count);
            from += count;
        }
    }

    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < size(); ++i) visit(key(i), position(i));
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        require(keys_.size() == positions_.size(), "fifo: as many keys as positions");
        for (std::size_t i = 0; i < size(); ++i) {
            require(!before(position(i), first) && before(position(i), next), "fifo: position is live");
            require(i == 0 || before(position(i - 1), position(i)), "fifo: positions rise");
        }
    }

    std::size_t bytes() const { return keys_.bytes() + positions_.bytes(); }

  private:
    Ring<Key> keys_;
    Ring<std::uint32_t> positions_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
