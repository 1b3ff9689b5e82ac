// Nested loop: every probe scans the whole window. A baseline of "Parallel Index-based Stream Join on a
// Multicore CPU" (Shahvarani, Jacobsen); other indexes are checked against it.
// Insert and forget O(1), probe O(w) at a vector's width of entries per step, 8-12 bytes a tuple.
#pragma once

#include "fifo.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class NestedLoop {
  public:
    explicit NestedLoop(const IndexOptions& = {}) {}

    void insert(Key key, std::uint32_t position) { window_.push(key, position); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        const std::size_t from = window_.count_before(visible.first);
        const std::size_t to = window_.count_before(visible.first + visible.count);
        window_.parts(from, to, [&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            matches.entries(keys, positions, count, interval, visible);
        });
    }

    void forget(std::uint32_t position) { window_.drop(window_.count_before(position)); }

    template <class Visit>
    void each(Visit visit) const {
        window_.each(visit);
    }

    void check(std::uint32_t first, std::uint32_t next) const { window_.check(first, next); }
    std::size_t bytes() const { return window_.bytes(); }

  private:
    Fifo<Key> window_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
