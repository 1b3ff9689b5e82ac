// The conditions that the index does not decide. Their keys are stored by position in a ring beside the
// index, all keys of a tuple together. Candidates are tested as soon as the index reports them, so only
// matches are listed. An event-time window is one of the conditions: a band on the timestamps. Cost: one
// cache line per candidate.
#pragma once

#include "../index/concept.hpp"
#include "../probe.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The column of a condition: that of a conjunct, or the timestamps.
inline Column column_of(const Batch& batch, std::size_t conjunct, bool time) {
    return time ? Column{batch.times, batch.null_times} : batch.keys[conjunct];
}

class CandidateFilter {
    using Key = std::uint64_t;  // narrower keys are widened

  public:
    static constexpr std::size_t kSelected = 256;

    explicit CandidateFilter(const JoinSpec& spec) : self_join_(spec.self_join) {
        const bool first_decided = !is_compound(spec) && spec.indexed.band == Banded::conjunct;
        for (std::size_t i = first_decided ? 1 : 0; i < spec.on.size(); ++i)
            conjuncts_.emplace_back(make_condition<Key>(spec.on[i]), i, false);
        const bool time_decided = !is_compound(spec) && spec.indexed.band == Banded::time;
        if (spec.window.kind == WindowKind::event && !time_decided)
            conjuncts_.emplace_back(make_condition<Key>(time_band(spec.window)), 0, true);
        for (const TestedConjunct& conjunct : conjuncts_)
            ends_.push_back((ends_.empty() ? 0 : ends_.back()) + conjunct.width);
        tested_intervals_.resize(ends_.empty() ? 0 : ends_.back());
    }

    bool empty() const { return conjuncts_.empty(); }

    // Reads the keys of a group.
    void read(const Batch& batch, std::size_t start, std::size_t count, bool* nulls) {
        for (TestedConjunct& conjunct : conjuncts_) {
            conjunct.keys.reserve(count);
            const Column column = column_of(batch, conjunct.number, conjunct.time);
            conjunct.condition->encode_keys(column, start, count, conjunct.keys.data(), nulls);
        }
    }

    // Tests the stored keys of another filter from now on, which must outlive this one.
    void share(const CandidateFilter& others) { shared_ = &others; }

    // Tests for the arrivals that another filter reads from now on, which must outlive this one.
    void test_for(const CandidateFilter& reader) { reader_ = &reader; }

    // Makes room for so many tuples of each side: until then storing them moves none that is tested.
    void reserve(std::size_t count) {
        for (KeyRing& stored : stored_) stored.reserve(count, conjuncts_.size());
    }

    // Computes the intervals of each arrival of the group, of the conditions from `first` on.
    void find_intervals(Arriving arriving, std::size_t count, std::size_t first = 0) {
        for (std::size_t k = first; k < conjuncts_.size(); ++k) {
            TestedConjunct& conjunct = conjuncts_[k];
            const std::size_t intervals = conjunct.width * count;
            conjunct.intervals.reserve(2 * intervals);
            if (!self_join_) {
                conjunct.condition->partners(arriving, conjunct.keys.data(), count,
                                             conjunct.intervals.data());
                continue;
            }
            conjunct.second = intervals;
            conjunct.condition->partners({nullptr, Side::right}, conjunct.keys.data(), count,
                                         conjunct.intervals.data());
            conjunct.condition->partners({nullptr, Side::left}, conjunct.keys.data(), count,
                                         conjunct.intervals.data() + intervals);
        }
    }

    // The keys of the group that condition i tests, and their intervals. In a self-join, `second` selects the
    // intervals for right partners, otherwise they are those for left ones. The timestamps of event windows
    // come last.
    const Key* keys(std::size_t i) const { return conjuncts_[i].keys.data(); }
    const Interval<Key>* intervals(std::size_t i, bool second) const {
        return conjuncts_[i].intervals.data() + (second ? conjuncts_[i].second : 0);
    }
    std::size_t size() const { return conjuncts_.size(); }

    // Stores the keys of arrival i of the group at the next position of its side.
    void keep(Side side, std::size_t i) { keep(side, *this, i); }

    // The same for a group that another filter of the same conditions has read.
    void keep(Side side, const CandidateFilter& group, std::size_t i) {
        Key* row = stored_[static_cast<int>(side)].push(conjuncts_.size());
        for (const TestedConjunct& conjunct : group.conjuncts_) *row++ = conjunct.keys[i];
    }

    // Stores the keys of a position again, at the next one.
    void copy(Side side, std::uint64_t position) {
        if (empty()) return;
        KeyRing& stored = stored_[static_cast<int>(side)];
        Key* row = stored.push(conjuncts_.size());
        const Key* from = stored.row(position - first_[static_cast<int>(side)], conjuncts_.size());
        std::copy_n(from, conjuncts_.size(), row);
    }

    // Whether a self-join's arrival has the same intervals for left and for right partners.
    bool symmetric(std::size_t arrival) const {
        for (const TestedConjunct& conjunct : conjuncts_) {
            const Interval<Key>* intervals = conjunct.intervals.data() + arrival * conjunct.width;
            for (std::size_t i = 0; i < conjunct.width; ++i)
                if (intervals[i].low != intervals[conjunct.second + i].low ||
                    intervals[i].high != intervals[conjunct.second + i].high)
                    return false;
        }
        return true;
    }

    // The candidates that follow belong to this task.
    template <class IndexKey>
    void begin(const Task<IndexKey>& task) {
        const int side = self_join_ || task.partner_is_left ? 0 : 1;
        const CandidateFilter& holder = shared_ ? *shared_ : *this;
        tested_ = &holder.stored_[side];
        shift_ = tested_->head() + (task.visible.first - static_cast<std::uint32_t>(holder.first_[side]));
        TestedInterval* out = tested_intervals_.data();
        nothing_ = false;
        for (const TestedConjunct& conjunct : reader_ ? reader_->conjuncts_ : conjuncts_) {
            const Interval<Key>* const intervals = intervals_of(conjunct, task);
            nothing_ |= intervals[0].empty();
            for (std::size_t i = 0; i < conjunct.width; ++i) {
                const Interval<Key>& interval = intervals[i].empty() ? intervals[0] : intervals[i];
                *out++ = {interval.low, interval.high - interval.low};
            }
        }
    }

    // Prefetches what begin() reads, and the keys of the chosen positions, candidates of this task.
    template <class IndexKey>
    void fetch(const Task<IndexKey>& task, const std::uint32_t* positions, std::uint64_t chosen) const {
        const int side = self_join_ || task.partner_is_left ? 0 : 1;
        const CandidateFilter& holder = shared_ ? *shared_ : *this;
        const KeyRing& stored = holder.stored_[side];
        const std::uint32_t shift = stored.head() - static_cast<std::uint32_t>(holder.first_[side]);
        for (const TestedConjunct& conjunct : reader_ ? reader_->conjuncts_ : conjuncts_)
            prefetch(intervals_of(conjunct, task));
        for (; chosen; chosen &= chosen - 1) {
            const std::uint32_t at = positions[std::countr_zero(chosen)] + shift;
            prefetch(stored.data() + (at & stored.mask()) * conjuncts_.size());
        }
    }

    // Moves the candidates that match, given by their relative positions, to the front. Returns how many.
    std::size_t test(std::uint32_t* found, std::size_t count) const {
        if (nothing_) return 0;
        switch (tested_intervals_.size() == conjuncts_.size() ? conjuncts_.size() : 0) {
            case 1:
                return test_single<1>(found, count);
            case 2:
                return test_single<2>(found, count);
            case 3:
                return test_single<3>(found, count);
            default:
                return test_any(found, count);
        }
    }

    // The same for the rows [from, from + count) of a batch, kSelected at most: lists those that match.
    std::size_t select(const Batch& batch, std::size_t from, std::size_t count, std::uint32_t* found) const {
        if (nothing_) return 0;
        Key keys[kSelected];
        bool fails[kSelected];
        std::fill_n(fails, count, false);
        for (std::size_t f = 0, start = 0; f < conjuncts_.size(); start = ends_[f++]) {
            const TestedConjunct& conjunct = conjuncts_[f];
            const Column column = column_of(batch, conjunct.number, conjunct.time);
            conjunct.condition->encode_keys(column, from, count, keys, fails);
            for (std::size_t i = 0; i < count; ++i) {
                bool inside = false;
                for (std::size_t at = start; at < ends_[f]; ++at)
                    inside |= tested_intervals_[at].contains(keys[i]);
                fails[i] |= !inside;
            }
        }
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            found[kept] = static_cast<std::uint32_t>(from + i);
            kept += !fails[i];
        }
        return kept;
    }

    void forget(Side side, std::uint64_t position) {
        std::uint64_t& first = first_[static_cast<int>(side)];
        stored_[static_cast<int>(side)].drop(position - first);
        first = position;
    }

    // Gives back memory that is not needed any more.
    void shrink() {
        for (TestedConjunct& conjunct : conjuncts_) {
            conjunct.keys = {};
            conjunct.intervals = {};
        }
        for (KeyRing& stored : stored_) stored.shrink(conjuncts_.size());
    }

    void load(Side side, std::uint64_t first) { first_[static_cast<int>(side)] = first; }

    std::size_t bytes() const {
        std::size_t total = stored_[0].bytes() + stored_[1].bytes();
        for (const TestedConjunct& conjunct : conjuncts_)
            total += conjunct.keys.bytes() + conjunct.intervals.bytes();
        return total;
    }

  private:
    struct TestedConjunct {
        TestedConjunct(std::unique_ptr<Condition<Key>> tested, std::size_t number, bool time)
            : condition(std::move(tested)), width(condition->width()), number(number), time(time) {}

        std::unique_ptr<Condition<Key>> condition;
        std::size_t width;  // intervals of an arrival
        std::size_t number;
        bool time;              // a band on the timestamps of an event window
        Buffer<Key> keys = {};  // of the current group
        Buffer<Interval<Key>> intervals = {};
        std::size_t second = 0;  // start of a self-join's intervals for right partners
    };

    template <class IndexKey>
    const Interval<Key>* intervals_of(const TestedConjunct& conjunct, const Task<IndexKey>& task) const {
        return conjunct.intervals.data() + task.arrival * conjunct.width +
               (self_join_ && !task.partner_is_left ? conjunct.second : 0);
    }

    struct TestedInterval {  // an interval as its start and its length: one comparison decides
        Key low;
        Key span;

        bool contains(Key key) const { return key - low <= span; }
    };

    // A ring of rows of equal width.
    class KeyRing {
      public:
        std::uint32_t head() const { return static_cast<std::uint32_t>(head_); }
        std::size_t mask() const { return mask_; }
        const Key* data() const { return data_.data(); }
        std::size_t bytes() const { return data_.bytes(); }
        const Key* row(std::size_t i, std::size_t width) const {
            return data_.data() + ((head_ + i) & mask_) * width;
        }

        Key* push(std::size_t width) {
            if (size_ == capacity_) resize(std::max(kLeast, 2 * capacity_), width);
            return data_.data() + ((head_ + size_++) & mask_) * width;
        }

        void reserve(std::size_t count, std::size_t width) {
            if (size_ + count > capacity_) resize(std::max(kLeast, std::bit_ceil(size_ + count)), width);
        }

        void drop(std::size_t count) {
            head_ = (head_ + count) & mask_;
            size_ -= count;
        }

        // Gives back memory that the rows do not need.
        void shrink(std::size_t width) {
            const std::size_t needed = std::max(kLeast, std::bit_ceil(size_));
            if (needed < capacity_) resize(needed, width);
        }

      private:
        static constexpr std::size_t kLeast = 64;

        void resize(std::size_t capacity, std::size_t width) {
            Buffer<Key> moved(capacity * width);
            for (std::size_t i = 0; i < size_; ++i)
                std::copy_n(row(i, width), width, moved.data() + i * width);
            data_ = std::move(moved);
            head_ = 0;
            capacity_ = capacity;
            mask_ = capacity - 1;
        }

        Buffer<Key> data_;
        std::size_t head_ = 0;
        std::size_t size_ = 0;
        std::size_t capacity_ = 0;
        std::size_t mask_ = 0;
    };

    // Every condition is one interval: the common case.
    template <std::size_t kWidth>
    std::size_t test_single(std::uint32_t* found, std::size_t count) const {
        const Key* data = tested_->data();
        const std::size_t mask = tested_->mask();
        TestedInterval intervals[kWidth];
        std::copy_n(tested_intervals_.data(), kWidth, intervals);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t candidate = found[i];
            const Key* row = data + ((candidate + std::size_t{shift_}) & mask) * kWidth;
            bool inside = true;
            for (std::size_t k = 0; k < kWidth; ++k) inside &= intervals[k].contains(row[k]);
            found[kept] = candidate;
            kept += inside;
        }
        return kept;
    }

    std::size_t test_any(std::uint32_t* found, std::size_t count) const {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const Key* row =
                tested_->data() + ((found[i] + std::size_t{shift_}) & tested_->mask()) * conjuncts_.size();
            bool all = true;
            for (std::size_t f = 0, at = 0; f < conjuncts_.size(); ++f) {
                bool inside = false;
                for (; at < ends_[f]; ++at) inside |= tested_intervals_[at].contains(row[f]);
                all &= inside;
            }
            found[kept] = found[i];
            kept += all;
        }
        return kept;
    }

    bool self_join_;
    std::vector<TestedConjunct> conjuncts_;
    std::vector<std::size_t> ends_;  // where each filter's intervals end in tested_intervals_
    KeyRing stored_[2];              // of positions from first_ on
    std::uint64_t first_[2] = {0, 0};
    const CandidateFilter* shared_ = nullptr;  // has the stored keys, if this one has not
    const CandidateFilter* reader_ = nullptr;  // has the arrivals' intervals, if this one has not

    // The current task.
    const KeyRing* tested_ = nullptr;
    std::uint32_t shift_ = 0;
    bool nothing_ = false;  // one of the conditions has an empty interval
    std::vector<TestedInterval> tested_intervals_;
};

// Lists the candidates of an index that match.
using FilteredList = TestedList<CandidateFilter&>;

}  // namespace slidejoin::SLIDEJOIN_TARGET
