// The serial join. Arrivals go through in groups: admit (positions, visible ranges, probe intervals), insert
// all, probe all with the visible range as filter, write results, forget. A group of one is the join tuple by
// tuple; up to kGroup the index overlaps the memory accesses of the group; beyond it is the batch form.
#pragma once

#include "../index/concept.hpp"
#include "batch.hpp"
#include "result.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key, template <class> class IndexOf>
class SerialJoin final : public Engine {
    using Index = IndexOf<Key>;
    static_assert(WindowIndex<Index, Key>);

  public:
    SerialJoin(const JoinSpec& spec, std::unique_ptr<Condition<Key>> condition)
        : spec_(spec), condition_(std::move(condition)), window_(spec.window, spec.self_join) {}

    std::uint64_t push(const Batch& batch, Pairs* pairs) override {
        if (broken_) throw BrokenJoin();
        validate(batch);
        broken_ = true;  // until the batch is through: memory may run out in the middle of it
        std::uint64_t found = 0;
        for (std::size_t start = 0; start < batch.size;) {
            const std::size_t count = std::min(group_size(), batch.size - start);
            found += pairs ? join_group(batch, start, count, list_, pairs)
                           : join_group(batch, start, count, counter_, pairs);
            start += count;
        }
        matches_ += found;
        broken_ = false;
        return found;
    }

    Stats stats() override {
        Stats stats{};
        for (const Side side : {Side::left, Side::right}) {
            const int i = static_cast<int>(side);
            stats.rows[i] = window_.next(side);
            stats.nulls[i] = window_.nulls(side);
            stats.stored[i] = window_.stored(side);
            stats.memory_bytes += index_[i].bytes() + entries_[i].bytes() + order_[i].bytes();
        }
        stats.matches = matches_;
        stats.memory_bytes += sizeof *this + window_.bytes() + list_.bytes() + keys_.bytes() +
                              nulls_.bytes() + intervals_.bytes() + places_.bytes() + tasks_.bytes() +
                              sorter_.bytes() + writer_.bytes();
        return stats;
    }

    void check() override {
        if (broken_) throw BrokenJoin();
        for (const Side side : {Side::left, Side::right})
            index_[static_cast<int>(side)].check(low_bits(window_.first(side)), low_bits(window_.next(side)));
    }

  private:
    static std::uint32_t low_bits(std::uint64_t position) { return static_cast<std::uint32_t>(position); }

    Index& index(Side side) { return index_[spec_.self_join ? 0 : static_cast<int>(side)]; }

    // A group larger than the window would make every probe wade through tuples that it must not see.
    std::size_t group_size() {
        if (spec_.group <= kGroup) return spec_.group;
        const std::uint64_t live = window_.next(Side::left) - window_.first(Side::left) +
                                   window_.next(Side::right) - window_.first(Side::right);
        return std::clamp<std::uint64_t>(live, kGroup, spec_.group);
    }

    void validate(const Batch& batch) const {
        if (!spec_.self_join) {
            unsigned all = 0;
            for (std::size_t i = 0; i < batch.size; ++i) all |= batch.sides[i];
            for (std::size_t i = 0; all > 1 && i < batch.size; ++i)
                if (batch.sides[i] > 1)
                    throw BatchError(BatchError::Kind::side, i,
                                     "sides[" + std::to_string(i) + "] is " + std::to_string(batch.sides[i]) +
                                         "; expected 0 for left or 1 for right");
        }
        if (spec_.window.kind != WindowKind::time) return;
        std::int64_t latest = window_.latest();
        for (std::size_t i = 0; i < batch.size; ++i) {
            if (null_time(batch, i)) continue;
            if (batch.times[i] < latest)
                throw BatchError(BatchError::Kind::order, i,
                                 "times[" + std::to_string(i) + "] is " + std::to_string(batch.times[i]) +
                                     ", earlier than " + std::to_string(latest) +
                                     " before it; tuples of both sides must arrive in time order");
            latest = batch.times[i];
        }
        for (const Side side : {Side::left, Side::right})
            if (window_.next(side) - window_.first(side) + batch.size > kMaxLive)
                throw BatchError(BatchError::Kind::capacity, 0,
                                 "the window would hold more than 2^31 tuples of one side");
    }

    static bool null_time(const Batch& batch, std::size_t i) {
        return batch.null_times && batch.times[i] == std::numeric_limits<std::int64_t>::min();
    }

    template <class Matches>
    std::uint64_t join_group(const Batch& batch, std::size_t start, std::size_t count, Matches& matches,
                             [[maybe_unused]] Pairs* pairs) {
        admit(batch, start, count);
        matches.clear();
        if (count == 1 && task_count_ == 1 && !spec_.self_join) {
            insert_and_probe(Side{batch.sides[start]}, matches);
        } else {
            insert_and_probe_all(count, matches);
        }
        if constexpr (std::is_same_v<Matches, MatchList>)
            writer_.write(tasks_.data(), task_count_, places_.data(), matches, *pairs);
        for (const Side side : {Side::left, Side::right})
            if (entry_count_[static_cast<int>(side)] || spec_.window.kind == WindowKind::time)
                index_[static_cast<int>(side)].forget(low_bits(window_.first(side)));
        return matches.size();
    }

    // Tuple by tuple: both indexes' memory is fetched before either is used.
    template <class Matches>
    void insert_and_probe(Side side, Matches& matches) {
        const Entry<Key> entry = entries_[static_cast<int>(side)][0];
        Task<Key>& task = tasks_[0];
        Index& own = index(side);
        const Index& met = index(other(side));
        task.found_from = 0;
        if constexpr (AimedIndex<Index, Key>) {
            const auto insert_at = own.aim_insert(entry.key);
            const auto probe_at = met.aim_probe(task.interval);
            own.insert(entry.key, entry.value, insert_at);
            met.probe(task.interval, task.visible, matches, probe_at);
        } else {
            own.insert(entry.key, entry.value);
            met.probe(task.interval, task.visible, matches);
        }
        task.found_to = matches.size();
    }

    template <class Matches>
    void insert_and_probe_all(std::size_t count, Matches& matches) {
        for (const Side side : {Side::left, Side::right}) {
            const int i = static_cast<int>(side);
            insert_all(index_[i], entries_[i].data(), entry_count_[i]);
        }
        for (const Side side : {Side::left, Side::right}) {
            const int i = static_cast<int>(side);
            if (count > kGroup) sorter_.sort(tasks_.data(), order_[i].data(), order_count_[i]);
            probe_all(index(side), tasks_.data(), order_[i].data(), order_count_[i], matches);
        }
    }

    // Gives every arrival its place and notes what is to be inserted and what to be looked for.
    void admit(const Batch& batch, std::size_t start, std::size_t count) {
        reserve(count);
        condition_->encode_keys(batch.keys, start, count, keys_.data(), nulls_.data());
        if (spec_.self_join) {
            condition_->partners(Side::right, keys_.data(), count, intervals_.data());
            condition_->partners(Side::left, keys_.data(), count, intervals_.data() + count);
        } else {
            condition_->partners(batch.sides + start, keys_.data(), count, intervals_.data());
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            const Side side = spec_.self_join ? Side::left : Side{batch.sides[start + i]};
            const int own = static_cast<int>(side);
            bool null = nulls_[i];
            std::int64_t time = 0;
            if (spec_.window.kind == WindowKind::time) {
                time = batch.times[start + i];
                if (null_time(batch, start + i)) {
                    null = true;
                    time = window_.latest();
                }
            }
            const Place place = window_.admit(side, time, null);
            places_[i] = place;
            if (null) continue;
            entries_[own][entry_count_[own]++] = {keys_[i], low_bits(place.position)};
            if (place.first == place.last) continue;
            if (spec_.self_join) add_both_ways(intervals_[i], intervals_[count + i], place, i);
            else add_task(intervals_[i], place, i, side == Side::right);
        }
    }

    // Empties the lists of the group before and makes room for `count` arrivals.
    void reserve(std::size_t count) {
        task_count_ = 0;
        for (int i = 0; i < 2; ++i) entry_count_[i] = order_count_[i] = 0;
        if (count <= places_.capacity()) return;
        keys_.reserve(count);
        nulls_.reserve(count);
        intervals_.reserve(2 * count);
        tasks_.reserve(3 * count);
        for (int i = 0; i < 2; ++i) {
            entries_[i].reserve(count);
            order_[i].reserve(3 * count);
        }
        places_.reserve(count);  // the last one: its capacity speaks for all
    }

    void add_task(Interval<Key> interval, const Place& place, std::uint32_t arrival, bool partner_is_left) {
        if (interval.empty()) return;
        tasks_[task_count_] = {interval, place.visible(), arrival, partner_is_left, 0, 0};
        const int probed = partner_is_left ? 0 : 1;
        order_[probed][order_count_[probed]++] = static_cast<std::uint32_t>(task_count_++);
    }

    // A self-join's arrival looks for earlier tuples as its left partners, and for those that do not match
    // that way round, as its right partners.
    void add_both_ways(Interval<Key> as_left, Interval<Key> as_right, const Place& place,
                       std::uint32_t arrival) {
        add_task(as_left, place, arrival, true);
        if (as_right.empty()) return;
        if (as_left.empty() || as_left.high < as_right.low || as_right.high < as_left.low)
            return add_task(as_right, place, arrival, false);
        if (as_right.low < as_left.low)
            add_task({as_right.low, static_cast<Key>(as_left.low - 1)}, place, arrival, false);
        if (as_right.high > as_left.high)
            add_task({static_cast<Key>(as_left.high + 1), as_right.high}, place, arrival, false);
    }

    JoinSpec spec_;
    std::unique_ptr<Condition<Key>> condition_;
    Window window_;
    Index index_[2];  // a self-join uses the first only
    std::uint64_t matches_ = 0;
    bool broken_ = false;

    // The group under way.
    Buffer<Key> keys_;
    Buffer<bool> nulls_;
    Buffer<Interval<Key>> intervals_;
    Buffer<Place> places_;
    Buffer<Task<Key>> tasks_;
    std::size_t task_count_ = 0;
    Buffer<Entry<Key>> entries_[2];  // to insert, by own side
    std::size_t entry_count_[2] = {0, 0};
    Buffer<std::uint32_t> order_[2];  // tasks, by the side that they probe
    std::size_t order_count_[2] = {0, 0};
    TaskSorter<Key> sorter_;
    MatchList list_;
    MatchCount counter_;
    ResultWriter writer_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
