// What every index of a window can do, and how the join drivers call it.
//
// An index holds (key, position) entries of one side. Entries arrive in the order of their positions and
// expire in the same order. A probe finds the entries whose key lies in an interval and whose position is
// visible. It may run while the index holds entries that the probing tuple must not see, which is what makes
// groups and batches exact. An index may keep expired entries, for at most 2^31 positions.
#pragma once

#include "../engine.hpp"
#include "../sort.hpp"
#include "../window.hpp"
#include "matches.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Arrivals that are located together, so that their memory accesses overlap.
inline constexpr std::size_t kGroup = 16;

template <class I, class Key>
concept WindowIndex = requires(I index, const I constant, Key key, std::uint32_t position,
                               Interval<Key> interval, Visible visible, MatchList list, MatchCount count) {
    I(IndexOptions{});
    index.insert(key, position);
    constant.probe(interval, visible, list);
    constant.probe(interval, visible, count);
    index.forget(position);                    // positions before this one have expired
    constant.each([](Key, std::uint32_t) {});  // all entries in any order, expired ones among them
    constant.check(position, position);        // throws BrokenInvariant; holds positions [first, next)
    { constant.bytes() } -> std::same_as<std::size_t>;
};

// An index that can prefetch the memory of an insert and of a probe: prefetch_insert and prefetch_probe
// return a hint, and insert and probe go on from there when they are given it.
template <class I, class Key>
concept PrefetchingIndex = requires(const I index, Key key, Interval<Key> interval) {
    index.prefetch_insert(key);
    index.prefetch_probe(interval);
};

// Entries in the order of their positions, and the same in key order.
template <class Key>
struct EntryList {
    const Entry<Key>* entries;
    const Entry<Key>* by_key;
    std::size_t count;
};

// Inserts entries, given in the order of their positions. More than kGroup come in key order, too, and go in
// as a batch (insert_batch) where the index can use that order; up to kGroup as a group (insert_group) where
// the index overlaps their memory accesses.
template <class Key, class Index>
inline void insert_all(Index& index, const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
    if constexpr (requires { index.insert_batch(entries, count, by_key); })
        if (count > kGroup) return index.insert_batch(entries, count, by_key);
    if constexpr (requires { index.insert_group(entries, count); })
        if (count > 1 && count <= kGroup) return index.insert_group(entries, count);
    for (std::size_t i = 0; i < count; ++i) index.insert(entries[i].key, entries[i].value);
}

// The largest group that suits an index whose window holds so many tuples: a larger one makes probes read
// more tuples that they must not see.
template <class Index>
inline std::uint64_t largest_group(std::uint64_t live) {
    if constexpr (requires { Index::largest_group(live); }) return Index::largest_group(live);
    return live / 8;
}

// Prefetches a task: those in the order of their intervals are scattered in memory.
template <class Key>
inline void prefetch_task(const Task<Key>& task) {
    prefetch(&task);
    prefetch(&task.found_to);
}

// Probes the tasks that `order` lists: sorted ones in one pass where the index can (probe_sorted), else a
// group at a time (probe_group).
template <class Key, class Index, class Matches>
inline void probe_all(const Index& index, Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                      bool sorted, Matches& matches) {
    if constexpr (requires { index.probe_sorted(tasks, order, count, matches); })
        if (sorted) return index.probe_sorted(tasks, order, count, matches);
    if constexpr (requires { index.probe_group(tasks, order, count, matches); }) {
        if (count > 1) {
            for (std::size_t i = 0; i < count; i += kGroup) {
                for (std::size_t next = i + 2 * kGroup; next < std::min(i + 3 * kGroup, count); ++next)
                    prefetch_task(tasks[order[next]]);
                index.probe_group(tasks, order + i, std::min(kGroup, count - i), matches);
            }
            return;
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        Task<Key>& task = tasks[order[i]];
        matches.begin(task);
        index.probe(task.interval, task.visible, matches);
        task.found_to = matches.size();
    }
}

inline bool before(std::uint32_t a, std::uint32_t b) {  // positions less than 2^31 apart
    return static_cast<std::int32_t>(a - b) < 0;
}

inline void require(bool holds, const char* what) {
    if (!holds) throw BrokenInvariant(what);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
