// Arrivals as the join uses them: which have a key, the keys that the index holds, and the intervals of keys
// that they probe for. Arrivals are read some thousand at a time, since keys and intervals of many cost less
// than of a few: 1-3 ns for a band of integers.
#pragma once

#include "index_keys.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class ArrivalReader {
  public:
    ArrivalReader(const JoinSpec& spec, CandidateFilter& filter)
        : self_join_(spec.self_join), index_keys_(make_index_keys<Key>(spec, &filter)), filter_(filter) {}

    std::size_t width() const { return index_keys_->width(); }  // intervals of an arrival
    bool ascending() const { return index_keys_->ascending(); }

    // Forgets what was read: the next batch begins.
    void start() { from_ = to_ = 0; }

    // Reads arrivals [start, start + count) of the batch, unless they have been read, and more behind them,
    // up to `end`, if no filter keeps keys of a group. Returns where the first one stands in the arrays
    // below.
    std::size_t read(const Batch& batch, std::size_t start, std::size_t count, std::size_t end) {
        if (start < from_ || start + count > to_) {
            if (filter_.empty()) count = std::max(count, std::min(kTogether, end - start));
            encode(batch, start, count);
            any_null_ = std::memchr(nulls_.data(), 1, count) != nullptr;
            find_intervals(batch, start, count);
            from_ = start;
            to_ = start + count;
        }
        return start - from_;
    }

    // Reads keys alone: tuples of a snapshot are stored without probing.
    void encode(const Batch& batch, std::size_t start, std::size_t count) {
        keys_.reserve(count);
        nulls_.reserve(count);
        std::fill_n(nulls_.data(), count, false);
        if (!filter_.empty()) filter_.read(batch, start, count, nulls_.data());
        index_keys_->read(batch, start, count, keys_.data(), nulls_.data());
    }

    const Key* keys() const { return keys_.data(); }
    const bool* nulls() const { return nulls_.data(); }
    bool any_null() const { return any_null_; }
    const Interval<Key>* intervals(std::size_t at) const { return intervals_.data() + at * width(); }

    // The intervals in which an arrival of a self-join finds right partners; intervals(at) has left ones.
    const Interval<Key>* right_intervals(std::size_t at) const { return intervals(at + to_ - from_); }

    // Whether an arrival of a self-join probes for the same on either side, so that once is enough. `arrival`
    // is its number in the group.
    bool symmetric(std::size_t at, std::size_t arrival) const {
        const Interval<Key>*left = intervals(at), *right = right_intervals(at);
        for (std::size_t i = 0; i < width(); ++i)
            if (left[i].low != right[i].low || left[i].high != right[i].high) return false;
        return filter_.symmetric(arrival);
    }

    void free() {
        keys_ = {};
        nulls_ = {};
        intervals_ = {};
        start();
    }

    std::size_t bytes() const { return keys_.bytes() + nulls_.bytes() + intervals_.bytes(); }

  private:
    static constexpr std::size_t kTogether = 1024;

    void find_intervals(const Batch& batch, std::size_t start, std::size_t count) {
        const Arriving arriving{self_join_ ? nullptr : batch.sides + start, Side::right};
        intervals_.reserve((self_join_ ? 2 : 1) * width() * count);
        if (!filter_.empty()) filter_.find_intervals(arriving, count);
        index_keys_->partners(arriving, keys_.data(), count, intervals_.data());
        if (self_join_)
            index_keys_->partners({nullptr, Side::left}, keys_.data(), count,
                                  intervals_.data() + width() * count);
    }

    bool self_join_;
    std::unique_ptr<IndexKeys<Key>> index_keys_;
    CandidateFilter& filter_;
    std::size_t from_ = 0;  // arrivals [from_, to_) of the batch have been read
    std::size_t to_ = 0;
    bool any_null_ = false;
    Buffer<Key> keys_;
    Buffer<bool> nulls_;
    Buffer<Interval<Key>> intervals_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
