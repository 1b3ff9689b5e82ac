// The last step of workers that share a group: the pairs of each slice of the arrivals are written behind
// those of the slices before, so that all pairs stand in the order of arrival. Cost: one meeting.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SliceWriter {
  public:
    // Matches are written to `pairs`, or only counted if it is null.
    SliceWriter(std::size_t slices, Pairs* pairs) : pairs_(pairs), shares_(slices) {}

    // The matches of a slice that were not listed.
    void count(std::size_t slice, std::uint64_t matches) { shares_[slice].found = matches; }

    // The matches of a slice that are listed; write(out, ends) writes them as ResultWriter::write does. Where
    // several matches may be one pair, only writing tells how many pairs there are: they are written apart.
    template <class Write>
    void list(std::size_t slice, Lane<Key>& lane, std::size_t matches, std::uint64_t* ends, Write write) {
        std::uint64_t& found = shares_[slice].found;
        found = matches;
        if (lane.exact()) return;
        lane.pairs.clear();
        if (!pairs_) {
            found = write(nullptr, nullptr);
            return;
        }
        lane.pairs.reserve(matches + kFew);
        PairRoom room(lane.pairs);
        write(&room, ends);
        found = room.size;
    }

    // Makes room for the pairs of all slices, by one worker.
    void reserve() {
        for (std::size_t i = 1; i < shares_.size(); ++i)
            shares_[i].before = shares_[i - 1].before + shares_[i - 1].found;
        pairs_->reserve(total() + kFew);
    }

    // Writes the pairs of a slice to their place. ends[i] belongs to its arrivals, from `arrivals.from` on.
    template <class Write>
    void write(std::size_t slice, Lane<Key>& lane, Slice arrivals, std::uint64_t* ends, Write write) {
        const std::uint64_t found = shares_[slice].found, before = pairs_->size() + shares_[slice].before;
        PairRoom room(pairs_->left() + before, pairs_->right() + before, found, before);
        if (lane.exact()) {
            write(&room, ends);
            return;
        }
        std::copy_n(lane.pairs.left(), found, room.left);
        std::copy_n(lane.pairs.right(), found, room.right);
        for (std::size_t i = arrivals.from; ends && i < arrivals.to; ++i) ends[i] += before;
    }

    // After all have written: the number of pairs.
    std::uint64_t finish() {
        if (pairs_) pairs_->add(total());
        return total();
    }

  private:
    struct alignas(kCacheLine) Share {
        std::uint64_t found = 0;
        std::uint64_t before = 0;  // pairs
    };

    std::uint64_t total() const {
        std::uint64_t sum = 0;
        for (const Share& each : shares_) sum += each.found;
        return sum;
    }

    Pairs* pairs_;
    std::vector<Share> shares_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
