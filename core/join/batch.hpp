// A group of arrivals on its way through the join: what it inserts, and what it probes for.
//
// A large group, a batch, is inserted and probed in key order, so that neighbours in the index are used one
// after the other. The visible range of each arrival keeps results exact, and the result writer restores the
// order of arrival. The sort, 10-20 ns an arrival, pays when a batch is dense in the window.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// What the arrivals of a group insert, by their own side, and what they probe for, by the side that they
// probe.
template <class Key>
struct Group {
    Task<Key>* tasks;
    const Entry<Key>* entries[2];
    const Entry<Key>* by_key[2];  // the same in key order, if the group is sorted
    std::size_t entry_count[2];
    const std::uint32_t* order[2];  // numbers of tasks
    std::size_t order_count[2];
    bool sorted;  // tasks are listed by the lower ends of their intervals
    bool single;  // one arrival, with one entry and one task
};

template <class Key>
class GroupBuffer {
  public:
    GroupBuffer(bool self_join, std::size_t width) : self_join_(self_join), width_(width) {}

    // Empties the group and makes room for `count` arrivals.
    void start(std::size_t count) {
        task_count_ = 0;
        for (int i = 0; i < 2; ++i) entry_count_[i] = order_count_[i] = 0;
        if (count <= reserved_) return;
        const std::size_t most_tasks =
            (self_join_ ? 2 : 1) * width_ * count + 1;  // add_plain writes one more
        tasks_.reserve(most_tasks);
        for (int i = 0; i < 2; ++i) {
            entries_[i].reserve(count);
            order_[i].reserve(most_tasks);
        }
        places_.reserve(count);
        reserved_ = count;
    }

    Place* places() { return places_.data(); }  // of each arrival
    Task<Key>* tasks() { return tasks_.data(); }
    std::size_t task_count() const { return task_count_; }

    // Arrival i, which has a key and a place. The reader has the group from `at` on.
    template <class Reader>
    void add(std::uint32_t i, Side own, bool store, const Reader& reader, std::size_t at) {
        const Place& place = places_[i];
        const int side = static_cast<int>(own);
        if (store) entries_[side][entry_count_[side]++] = {reader.keys()[at + i], low_bits(place.position)};
        if (place.first == place.last) return;
        add_tasks(reader.intervals(at + i), i, self_join_ || own == Side::right);
        if (self_join_ && !reader.symmetric(at + i, i)) add_tasks(reader.right_intervals(at + i), i, false);
    }

    // All arrivals of a group at once: each is stored and has one interval.
    void add_plain(const std::uint8_t* sides, const Key* keys, const Interval<Key>* intervals,
                   std::size_t count) {
        Entry<Key>* entries[2] = {entries_[0].data(), entries_[1].data()};
        std::uint32_t* order[2] = {order_[0].data(), order_[1].data()};
        std::uint32_t tasks = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            const unsigned own = sides[i] & 1;
            const Place& place = places_[i];
            *entries[own]++ = {keys[i], low_bits(place.position)};
            tasks_[tasks] = {intervals[i], place.visible(), i, own == 1, 0, 0};
            *order[own ^ 1] = tasks;
            const bool probes = place.first != place.last && !intervals[i].empty();
            order[own ^ 1] += probes;
            tasks += probes;
        }
        task_count_ = tasks;
        for (int i = 0; i < 2; ++i) {
            entry_count_[i] = static_cast<std::size_t>(entries[i] - entries_[i].data());
            order_count_[i] = static_cast<std::size_t>(order[i] - order_[i].data());
        }
    }

    // The group of `count` arrivals; `ascending` says that a greater key has an interval that begins no
    // earlier.
    Group<Key> group(std::size_t count, bool ascending, bool may_be_single) {
        const bool single =
            may_be_single && count == 1 && task_count_ == 1 && entry_count_[0] + entry_count_[1] == 1;
        const bool sorted = count > kGroup;
        for (int own = 0; sorted && own < 2; ++own) {
            const int probed = self_join_ ? own : 1 - own;
            if (ascending && entry_count_[own] == order_count_[probed]) {
                sort_both(own, probed);
            } else {
                sort_copy(entries_[own].data(), entry_count_[own], by_key_[own], scratch_);
                sort_tasks(probed);
            }
        }
        return listed(sorted, single);
    }

    // The same in the order of arrival.
    Group<Key> queue() { return listed(false, false); }

    std::size_t bytes() const {
        std::size_t total =
            places_.bytes() + tasks_.bytes() + numbered_.bytes() + scratch_.bytes() + permuted_.bytes();
        for (int i = 0; i < 2; ++i) total += entries_[i].bytes() + order_[i].bytes() + by_key_[i].bytes();
        return total;
    }

  private:
    // The intervals that an arrival probes for: `width`, of which the first empty one ends the list.
    void add_tasks(const Interval<Key>* intervals, std::uint32_t arrival, bool partner_is_left) {
        for (std::size_t i = 0; i < width_ && !intervals[i].empty(); ++i) {
            tasks_[task_count_] = {intervals[i], places_[arrival].visible(), arrival, partner_is_left, 0, 0};
            const int probed = partner_is_left ? 0 : 1;
            order_[probed][order_count_[probed]++] = static_cast<std::uint32_t>(task_count_++);
        }
    }

    Group<Key> listed(bool sorted, bool single) {
        Group<Key> group{tasks_.data(), {}, {}, {}, {}, {}, sorted, single};
        for (int i = 0; i < 2; ++i) {
            group.entries[i] = entries_[i].data();
            group.by_key[i] = by_key_[i].data();
            group.entry_count[i] = entry_count_[i];
            group.order[i] = order_[i].data();
            group.order_count[i] = order_count_[i];
        }
        return group;
    }

    // Sorts the tasks that probe a side by the lower ends of their intervals.
    void sort_tasks(int probed) {
        std::uint32_t* const order = order_[probed].data();
        const std::size_t count = order_count_[probed];
        numbered_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) numbered_[i] = {tasks_[order[i]].interval.low, order[i]};
        sort_entries(numbered_.data(), count, scratch_);
        for (std::size_t i = 0; i < count; ++i) order[i] = numbered_[i].value;
    }

    // Sorts a side's entries by key and, by the same order, their tasks, of which there is one for each.
    void sort_both(int own, int probed) {
        const Entry<Key>* const entries = entries_[own].data();
        std::uint32_t* const order = order_[probed].data();
        const std::size_t count = entry_count_[own];
        if (count == 0) return;
        numbered_.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            numbered_[i] = {entries[i].key, static_cast<std::uint32_t>(i)};
        sort_entries(numbered_.data(), count, scratch_);
        by_key_[own].reserve(count);
        permuted_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t from = numbered_[i].value;
            by_key_[own][i] = {numbered_[i].key, entries[from].value};
            permuted_[i] = order[from];
        }
        std::memcpy(order, permuted_.data(), count * sizeof *order);
    }

    bool self_join_;
    std::size_t width_;         // intervals of an arrival
    std::size_t reserved_ = 0;  // arrivals that there is room for
    Buffer<Place> places_;
    Buffer<Task<Key>> tasks_;
    std::size_t task_count_ = 0;
    Buffer<Entry<Key>> entries_[2];  // by own side
    Buffer<Entry<Key>> by_key_[2];
    std::size_t entry_count_[2] = {0, 0};
    Buffer<std::uint32_t> order_[2];  // tasks, by the side that they probe
    std::size_t order_count_[2] = {0, 0};
    Buffer<Entry<Key>> numbered_, scratch_;  // for sorting
    Buffer<std::uint32_t> permuted_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
