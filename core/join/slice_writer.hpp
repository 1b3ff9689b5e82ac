// The last step of workers that share a group: each writes the pairs of a slice of the arrivals behind those
// of the slices before, so that all pairs stand in the order of arrival. Cost: one meeting.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SliceWriter {
  public:
    SliceWriter(Workers& pool, std::size_t workers, Pairs* pairs)
        : pool_(pool), pairs_(pairs), found_(workers) {}

    // For matches that were not listed.
    void count(std::size_t worker, std::uint64_t matches) { found_[worker].pairs = matches; }

    // Called by each worker, for `matches` that are listed; write(out, ends) writes them as
    // ResultWriter::write does. `slice` are the arrivals to which ends[] belongs.
    template <class Write>
    void write(std::size_t worker, Lane<Key>& lane, std::size_t matches, Slice slice, std::uint64_t* ends,
               Write write) {
        std::uint64_t& found = found_[worker].pairs;
        found = matches;
        if (!lane.exact()) found = write_apart(lane, matches, ends, write);
        if (!pairs_) return;
        pool_.meet([&] { pairs_->reserve(total() + kFew); });
        std::uint64_t before = pairs_->size();
        for (std::size_t i = 0; i < worker; ++i) before += found_[i].pairs;
        PairRoom room(pairs_->left() + before, pairs_->right() + before, found, before);
        if (lane.exact()) {
            write(&room, ends);
            return;
        }
        std::copy_n(lane.pairs.left(), found, room.left);
        std::copy_n(lane.pairs.right(), found, room.right);
        for (std::size_t i = slice.from; ends && i < slice.to; ++i) ends[i] += before;
    }

    // After all have written: the number of pairs.
    std::uint64_t finish() {
        if (pairs_) pairs_->add(total());
        return total();
    }

  private:
    struct alignas(kCacheLine) Found {
        std::uint64_t pairs = 0;
    };

    // Where several matches may be one pair: only writing tells how many pairs there are.
    template <class Write>
    std::uint64_t write_apart(Lane<Key>& lane, std::size_t matches, std::uint64_t* ends, Write write) {
        lane.pairs.clear();
        if (!pairs_) return write(nullptr, nullptr);
        lane.pairs.reserve(matches + kFew);
        PairRoom room(lane.pairs);
        write(&room, ends);
        return room.size;
    }

    std::uint64_t total() const {
        std::uint64_t sum = 0;
        for (const Found& each : found_) sum += each.pairs;
        return sum;
    }

    Workers& pool_;
    Pairs* pairs_;  // or null: pairs are only counted
    std::vector<Found> found_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
