// The conditions that the index does not decide. Their keys stand by position in a ring beside the index, all
// keys of a tuple together, and candidates are tested as soon as a scan has found them: none is ever listed
// that does not match. An event-time window is one of the conditions: a band on the timestamps. Cost: one
// cache line per candidate.
#pragma once

#include "../index/concept.hpp"
#include "index_keys.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class CandidateFilter {
    using Key = std::uint64_t;  // narrower keys are widened

  public:
    explicit CandidateFilter(const JoinSpec& spec) : self_join_(spec.self_join) {
        const bool first_decided = !is_compound(spec) && spec.indexed.band == Banded::conjunct;
        for (std::size_t i = first_decided ? 1 : 0; i < spec.on.size(); ++i)
            conjuncts_.push_back({make_condition<Key>(spec.on[i]), i, false});
        const bool time_decided = !is_compound(spec) && spec.indexed.band == Banded::time;
        if (spec.window.kind == WindowKind::event && !time_decided)
            conjuncts_.push_back({make_condition<Key>(time_band(spec.window)), 0, true});
        for (const TestedConjunct& conjunct : conjuncts_) {
            ends_.push_back((ends_.empty() ? 0 : ends_.back()) + conjunct.condition->width());
        }
        asked_.resize(ends_.empty() ? 0 : ends_.back());
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

    // From now on the stored keys of others are tested, which must outlive this.
    void share(const CandidateFilter& others) { shared_ = &others; }

    // Computes what each arrival of the group asks for.
    void ask(Arriving arriving, std::size_t count) {
        for (TestedConjunct& conjunct : conjuncts_) {
            const std::size_t asked = conjunct.condition->width() * count;
            conjunct.asked.reserve(2 * asked);
            if (!self_join_) {
                conjunct.condition->partners(arriving, conjunct.keys.data(), count, conjunct.asked.data());
                continue;
            }
            conjunct.second = asked;
            conjunct.condition->partners({nullptr, Side::right}, conjunct.keys.data(), count,
                                         conjunct.asked.data());
            conjunct.condition->partners({nullptr, Side::left}, conjunct.keys.data(), count,
                                         conjunct.asked.data() + asked);
        }
    }

    // Stores the keys of arrival i, which has just got the next position of its side.
    void keep(Side side, std::size_t i) {
        Key* row = stored_[static_cast<int>(side)].push(conjuncts_.size());
        for (const TestedConjunct& conjunct : conjuncts_) *row++ = conjunct.keys[i];
    }

    // Stores the keys of a position once more, under the next one.
    void copy(Side side, std::uint64_t position) {
        if (empty()) return;
        Rows& stored = stored_[static_cast<int>(side)];
        Key* row = stored.push(conjuncts_.size());
        const Key* from = stored.row(position - first_[static_cast<int>(side)], conjuncts_.size());
        std::copy_n(from, conjuncts_.size(), row);
    }

    // Whether a self-join's arrival asks for the same on both sides.
    bool symmetric(std::size_t arrival) const {
        for (const TestedConjunct& conjunct : conjuncts_) {
            const std::size_t width = conjunct.condition->width();
            const Interval<Key>* asked = conjunct.asked.data() + arrival * width;
            for (std::size_t i = 0; i < width; ++i)
                if (asked[i].low != asked[conjunct.second + i].low ||
                    asked[i].high != asked[conjunct.second + i].high)
                    return false;
        }
        return true;
    }

    // From now on candidates of this task are tested.
    template <class IndexKey>
    void begin(const Task<IndexKey>& task) {
        const int side = self_join_ || task.partner_is_left ? 0 : 1;
        const CandidateFilter& holder = shared_ ? *shared_ : *this;
        tested_ = &holder.stored_[side];
        shift_ = tested_->head() + (task.visible.first - static_cast<std::uint32_t>(holder.first_[side]));
        Asked* out = asked_.data();
        nothing_ = false;
        for (const TestedConjunct& conjunct : conjuncts_) {
            const std::size_t width = conjunct.condition->width();
            const Interval<Key>* asked = conjunct.asked.data() + task.arrival * width +
                                         (self_join_ && !task.partner_is_left ? conjunct.second : 0);
            nothing_ |= asked[0].empty();
            for (std::size_t i = 0; i < width; ++i) {
                const Interval<Key>& interval = asked[i].empty() ? asked[0] : asked[i];
                *out++ = {interval.low, interval.high - interval.low};
            }
        }
    }

    // Leaves of these candidates, given by their relative positions, those that match. Returns how many.
    std::size_t test(std::uint32_t* found, std::size_t count) const {
        if (nothing_) return 0;
        switch (asked_.size() == conjuncts_.size() ? conjuncts_.size() : 0) {
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

    void forget(Side side, std::uint64_t position) {
        std::uint64_t& first = first_[static_cast<int>(side)];
        stored_[static_cast<int>(side)].drop(position - first);
        first = position;
    }

    void load(Side side, std::uint64_t first) { first_[static_cast<int>(side)] = first; }

    std::size_t bytes() const {
        std::size_t total = stored_[0].bytes() + stored_[1].bytes();
        for (const TestedConjunct& conjunct : conjuncts_)
            total += conjunct.keys.bytes() + conjunct.asked.bytes();
        return total;
    }

  private:
    struct TestedConjunct {
        std::unique_ptr<Condition<Key>> condition;
        std::size_t number;
        bool time;              // or the timestamps of an event window
        Buffer<Key> keys = {};  // of the group under way
        Buffer<Interval<Key>> asked = {};
        std::size_t second = 0;  // where a self-join's intervals for right partners start
    };

    struct Asked {  // an interval as its start and how far it goes: one comparison decides
        Key low;
        Key span;

        bool contains(Key key) const { return key - low <= span; }
    };

    // A ring of rows of equal width.
    class Rows {
      public:
        std::uint32_t head() const { return static_cast<std::uint32_t>(head_); }
        std::size_t mask() const { return mask_; }
        const Key* data() const { return data_.data(); }
        std::size_t bytes() const { return data_.bytes(); }
        const Key* row(std::size_t i, std::size_t width) const {
            return data_.data() + ((head_ + i) & mask_) * width;
        }

        Key* push(std::size_t width) {
            if (size_ == capacity_) grow(width);
            return data_.data() + ((head_ + size_++) & mask_) * width;
        }

        void drop(std::size_t count) {
            head_ = (head_ + count) & mask_;
            size_ -= count;
        }

      private:
        void grow(std::size_t width) {
            const std::size_t larger = std::max<std::size_t>(64, 2 * capacity_);
            Buffer<Key> moved(larger * width);
            for (std::size_t i = 0; i < size_; ++i)
                std::copy_n(row(i, width), width, moved.data() + i * width);
            data_ = std::move(moved);
            head_ = 0;
            capacity_ = larger;
            mask_ = larger - 1;
        }

        Buffer<Key> data_;
        std::size_t head_ = 0;
        std::size_t size_ = 0;
        std::size_t capacity_ = 0;
        std::size_t mask_ = 0;
    };

    // Every condition is one interval, as nearly all are.
    template <std::size_t kWidth>
    std::size_t test_single(std::uint32_t* found, std::size_t count) const {
        const Key* data = tested_->data();
        const std::size_t mask = tested_->mask();
        Asked asked[kWidth];
        std::copy_n(asked_.data(), kWidth, asked);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t candidate = found[i];
            const Key* row = data + ((candidate + std::size_t{shift_}) & mask) * kWidth;
            bool inside = true;
            for (std::size_t k = 0; k < kWidth; ++k) inside &= asked[k].contains(row[k]);
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
                for (; at < ends_[f]; ++at) inside |= asked_[at].contains(row[f]);
                all &= inside;
            }
            found[kept] = found[i];
            kept += all;
        }
        return kept;
    }

    bool self_join_;
    std::vector<TestedConjunct> conjuncts_;
    std::vector<std::size_t> ends_;  // where each filter's intervals end in asked_
    Rows stored_[2];                 // of positions from first_ on
    std::uint64_t first_[2] = {0, 0};
    const CandidateFilter* shared_ = nullptr;  // whose stored keys are tested, if not these

    // The task under way.
    const Rows* tested_ = nullptr;
    std::uint32_t shift_ = 0;
    bool nothing_ = false;  // one of the conditions holds for no key
    std::vector<Asked> asked_;
};

// Collects the matches among the candidates of an index.
class FilteredList {
  public:
    FilteredList(CandidateFilter& filter, MatchList& list) : filter_(filter), list_(list) {}

    std::size_t size() const { return list_.size(); }

    template <class Key>
    void begin(Task<Key>& task) {
        list_.begin(task);
        filter_.begin(task);
    }

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        const std::size_t before = list_.size();
        list_.positions(positions, count, visible);
        test(before);
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        const std::size_t before = list_.size();
        list_.entries(keys, positions, count, interval, visible);
        test(before);
    }

    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        const std::size_t before = list_.size();
        list_.among(positions, chosen, visible);
        test(before);
    }

    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        const std::size_t before = list_.size();
        list_.padded(positions, count, visible);
        test(before);
    }

    void all(const std::uint32_t* positions, std::size_t count, Visible visible) {
        this->positions(positions, count, visible);
    }

    void run(const RunOfPositions& run, std::size_t from, std::size_t to, Visible visible) {
        const std::size_t before = list_.size();
        list_.run(run, from, to, visible);
        test(before);
    }

  private:
    void test(std::size_t before) {
        list_.truncate(before + filter_.test(list_.data() + before, list_.size() - before));
    }

    CandidateFilter& filter_;
    MatchList& list_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
