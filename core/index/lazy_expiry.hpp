// Which positions have expired in an index that removes expired entries later than they expire.
//
// Positions have 32 bits, so an entry that stayed for 2^31 positions would seem to lie in the future. The
// index is therefore cleaned up at least once in kLongest positions. O(1) for each call, without the
// cleaning.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class LazyExpiry {
  public:
    static constexpr std::uint32_t kLongest = std::uint32_t{1} << 29;

    // Whether an entry was inserted; only then are the positions below known.
    bool started() const { return started_; }
    std::uint32_t first() const { return first_; }    // positions before it have expired
    std::uint32_t oldest() const { return oldest_; }  // the index holds no entry from before it

    // The positions that have not expired: half of all positions, from first() on.
    Visible live() const { return {first_, std::uint32_t{1} << 31}; }

    // Positions count from anywhere: the first insert says from where.
    void start(std::uint32_t position) {
        if (started_) return;
        started_ = true;
        first_ = oldest_ = position;
    }

    // The index holds nothing; the next insert starts anew.
    void stop() { started_ = false; }

    // Expires the positions before this one, in steps, so that positions never wrap around. clean() removes
    // expired entries and calls cleaned().
    template <class Clean>
    void forget(std::uint32_t position, Clean clean) {
        while (started_ && before(first_ + kLongest, position)) {
            first_ += kLongest;
            clean();
        }
        first_ = position;
        if (started_ && position - oldest_ > kLongest) clean();
    }

    // The entries from before this position, which has expired or is first(), have been removed.
    void cleaned(std::uint32_t position) { oldest_ = position; }

  private:
    bool started_ = false;
    std::uint32_t first_ = 0;
    std::uint32_t oldest_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
