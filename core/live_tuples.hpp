// The tuples of one side of an event window that may still match, by time.
//
// Most streams are nearly sorted by time. A tuple that is not earlier than the last one joins a queue, which
// is sorted by itself. The others go to a radix heap: a tuple is in the bucket of bit b if b is the highest
// bit in which its time differs from the current time. When the current time changes, and b is the highest
// bit that changes, all tuples in the buckets below b have expired, and those of bucket b are redistributed
// to lower buckets. A tuple in order costs O(1); one out of order is moved at most once for each bit of its
// distance from the current time.
#pragma once

#include "key.hpp"
#include "memory.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class LiveTuples {
  public:
    std::size_t size() const { return queue_.size() + strays_; }
    std::size_t bytes() const {
        std::size_t total = queue_.bytes() + moved_.capacity() * sizeof(Tuple);
        for (const std::vector<Tuple>& bucket : buckets_) total += bucket.capacity() * sizeof(Tuple);
        return total;
    }

    void push(std::int64_t time, std::uint64_t position) {
        const Tuple tuple{encode(time), position};
        if (queue_.size() == 0 || queue_[queue_.size() - 1].time <= tuple.time) return queue_.push(tuple);
        bucket_of(tuple).push_back(tuple);
        ++strays_;
    }

    // Removes the tuples with earlier times and calls tell(position) for each, in any order. A time before
    // that of an earlier call counts as that one.
    template <class Tell>
    void expire(Instant time, const Tell& tell) {
        using Limits = std::numeric_limits<std::int64_t>;
        if (time <= Limits::min()) return;
        const bool all = time > Limits::max();
        const std::uint64_t now =
            std::max(now_, encode(all ? Limits::max() : static_cast<std::int64_t>(time)));
        std::size_t gone = 0;
        for (; gone < queue_.size() && (queue_[gone].time < now || all); ++gone) tell(queue_[gone].position);
        if (gone) queue_.drop(gone);
        const auto top = static_cast<unsigned>(std::bit_width(now ^ now_));
        now_ = now;
        if (strays_ == 0) return;
        for (unsigned i = 0; i <= top; ++i) expire(buckets_[i], tell);
        if (top == 0) return;
        std::swap(moved_, buckets_[top + 1]);
        for (const Tuple& tuple : moved_) {
            if (tuple.time < now) tell(tuple.position), --strays_;
            else bucket_of(tuple).push_back(tuple);
        }
        empty(moved_);
    }

    // Removes the tuples whose positions are before this one.
    void erase_before(std::uint64_t position) {
        std::size_t gone = 0;
        while (gone < queue_.size() && queue_[gone].position < position) ++gone;
        queue_.drop(gone);
        for (std::vector<Tuple>& bucket : buckets_)
            strays_ -= std::erase_if(bucket, [&](const Tuple& each) { return each.position < position; });
    }

    void clear() {
        queue_.drop(queue_.size());
        for (std::vector<Tuple>& bucket : buckets_) empty(bucket);
        strays_ = 0;
    }

    void shrink() {
        queue_.shrink();
        for (std::vector<Tuple>& bucket : buckets_) bucket.shrink_to_fit();
        moved_.shrink_to_fit();
    }

  private:
    static constexpr std::size_t kKept = 128;  // capacity that an empty bucket may keep

    struct Tuple {
        std::uint64_t time;  // encoded
        std::uint64_t position;
    };

    std::vector<Tuple>& bucket_of(const Tuple& tuple) {
        const auto bits = static_cast<unsigned>(std::bit_width(tuple.time ^ now_));
        return buckets_[tuple.time < now_ ? 0 : bits + 1];
    }

    template <class Tell>
    void expire(std::vector<Tuple>& bucket, const Tell& tell) {
        for (const Tuple& tuple : bucket) tell(tuple.position);
        strays_ -= bucket.size();
        empty(bucket);
    }

    static void empty(std::vector<Tuple>& bucket) {
        if (bucket.capacity() > kKept) bucket = std::vector<Tuple>();
        else bucket.clear();
    }

    Ring<Tuple> queue_;               // sorted by time and by position
    std::vector<Tuple> buckets_[66];  // of the others: earlier than `now_`; equal to it; then by bits
    std::vector<Tuple> moved_;        // a bucket that is redistributed
    std::size_t strays_ = 0;          // tuples in buckets
    std::uint64_t now_ = 0;           // the latest time of a call of expire(), encoded
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
