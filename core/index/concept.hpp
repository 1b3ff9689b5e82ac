// What every index of a window can do, and how the join drivers speak to it.
//
// An index holds (key, position) entries of one side. Entries arrive in the order of their positions and are
// forgotten in the same order. A probe finds the entries whose key lies in an interval and whose position is
// visible; it may be asked while entries are stored that the probing tuple must not see, which is what makes
// groups and batches exact. An index may keep entries that were forgotten, for at most 2^31 positions.
#pragma once

#include "../engine.hpp"
#include "../key.hpp"
#include "../memory.hpp"
#include "../simd.hpp"
#include "../sort.hpp"
#include "../window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Arrivals that are located together, with their memory fetched ahead.
inline constexpr std::size_t kGroup = 16;

// One interval to look for, and, once probed, where its matches stand in the list.
template <class Key>
struct Task {
    Interval<Key> interval;
    Visible visible;
    std::uint32_t arrival;  // number within the group or batch
    bool partner_is_left;
    std::size_t found_from;
    std::size_t found_to;
};

// The number of a run in results: given when one first speaks of it, and gone with the run.
class RunNumber {
  public:
    bool given() const { return number_ != nullptr; }
    std::uint64_t value() const { return *number_; }

    // The giver learns from what is returned whether the run still stands.
    std::weak_ptr<const std::uint64_t> give(std::uint64_t number) {
        number_ = std::make_shared<const std::uint64_t>(number);
        return number_;
    }

    // The run has changed.
    void withdraw() { number_.reset(); }

  private:
    std::shared_ptr<const std::uint64_t> number_;
};

// Positions that stand together because their keys do, with kBlock readable slots behind them. A result may
// name a part of the run instead of listing it: the structure withdraws the number where the positions
// change.
struct RunOfPositions {
    RunNumber* number;
    const std::uint32_t* positions;
    std::size_t size;
};

// Collects the relative positions of matches.
class MatchList {
  public:
    std::size_t size() const { return size_; }
    void clear() { size_ = 0; }
    void truncate(std::size_t size) { size_ = size; }
    std::uint32_t* data() { return found_.data(); }
    std::size_t bytes() const { return found_.bytes(); }

    // Makes so many slots readable behind the last match.
    void pad(std::size_t slots) { found_.reserve(size_ + slots, size_); }

    // What comes from now on belongs to this task.
    template <class Key>
    void begin(Task<Key>& task) {
        task.found_from = size_;
    }

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        found_.reserve(size_ + count + kBlock, size_);
        size_ += select_positions(positions, count, visible, found_.data() + size_);
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        found_.reserve(size_ + count + kBlock, size_);
        size_ += select_entries(keys, positions, count, interval, visible, found_.data() + size_);
    }

    // Those of up to 64 positions whose bit is set.
    [[gnu::always_inline]] void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        found_.reserve(size_ + 64 + kBlock, size_);
        size_ += select_among(positions, chosen, visible, found_.data() + size_);
    }

    // As `positions`, of an array with kBlock readable slots behind: a few cost no branch.
    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        found_.reserve(size_ + count + kBlock, size_);
        size_ += select_padded(positions, count, visible, found_.data() + size_);
    }

    // Positions that are all visible.
    void all(const std::uint32_t* positions, std::size_t count, Visible visible) {
        this->positions(positions, count, visible);
    }

    // Positions [from, to) of a run, all of them visible.
    void run(const RunOfPositions& run, std::size_t from, std::size_t to, Visible visible) {
        padded(run.positions + from, to - from, visible);
    }

  private:
    Buffer<std::uint32_t> found_;
    std::size_t size_ = 0;
};

// Counts matches.
class MatchCount {
  public:
    std::size_t size() const { return size_; }
    void clear() { size_ = 0; }

    template <class Key>
    void begin(Task<Key>& task) {
        task.found_from = size_;
    }

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        size_ += tally_positions(positions, count, visible);
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        size_ += tally_entries(keys, positions, count, interval, visible);
    }

    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        size_ += tally_among(positions, chosen, visible);
    }

    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        size_ += tally_padded(positions, count, visible);
    }

    void all(const std::uint32_t*, std::size_t count, Visible) { size_ += count; }
    void run(const RunOfPositions&, std::size_t from, std::size_t to, Visible) { size_ += to - from; }

  private:
    std::size_t size_ = 0;
};

template <class I, class Key>
concept WindowIndex = requires(I index, const I constant, Key key, std::uint32_t position,
                               Interval<Key> interval, Visible visible, MatchList list, MatchCount count) {
    I(IndexOptions{});
    index.insert(key, position);
    constant.probe(interval, visible, list);
    constant.probe(interval, visible, count);
    index.forget(position);              // positions before this one are never asked for again
    constant.check(position, position);  // throws BrokenInvariant; holds positions [first, next)
    { constant.bytes() } -> std::same_as<std::size_t>;
};

// An index that can fetch the memory of an insert and of a probe before either is done: prefetch_insert and
// prefetch_probe return where, and the calls that take it go on from there.
template <class I, class Key>
concept PrefetchingIndex = requires(const I index, Key key, Interval<Key> interval) {
    index.prefetch_insert(key);
    index.prefetch_probe(interval);
};

// Inserts entries, given in the order of their positions, and with them, or null, the same in the order of
// keys: whole batches or groups at a time where the index knows how to order or overlap its memory accesses
// (insert_batch, insert_group), else one by one.
template <class Key, class Index>
inline void insert_all(Index& index, const Entry<Key>* entries, std::size_t count,
                       const Entry<Key>* by_key = nullptr) {
    if constexpr (requires { index.insert_batch(entries, count, by_key); })
        if (count > kGroup && by_key) return index.insert_batch(entries, count, by_key);
    if constexpr (requires { index.insert_batch(entries, count); })
        if (count > kGroup) return index.insert_batch(entries, count);
    if constexpr (requires { index.insert_group(entries, count); })
        if (count > 1 && count <= kGroup) return index.insert_group(entries, count);
    for (std::size_t i = 0; i < count; ++i) index.insert(entries[i].key, entries[i].value);
}

// The most arrivals that an index wants at once where the window holds so many tuples: a larger group makes
// probes wade through tuples that they must not see.
template <class Index>
inline std::uint64_t largest_group(std::uint64_t live) {
    if constexpr (requires { Index::largest_group(live); }) return Index::largest_group(live);
    return live / 8;
}

// Probes the tasks whose numbers `order` lists: sorted ones in one pass where the index knows how
// (probe_sorted), else a group at a time (probe_group).
template <class Key, class Index, class Matches>
inline void probe_all(const Index& index, Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                      bool sorted, Matches& matches) {
    if constexpr (requires { index.probe_sorted(tasks, order, count, matches); })
        if (sorted) return index.probe_sorted(tasks, order, count, matches);
    if constexpr (requires { index.probe_group(tasks, order, count, matches); }) {
        if (count > 1) {
            for (std::size_t i = 0; i < count; i += kGroup) {
                for (std::size_t next = i + 2 * kGroup; next < std::min(i + 3 * kGroup, count); ++next) {
                    prefetch(&tasks[order[next]]);  // sorted ones are scattered
                    prefetch(&tasks[order[next]].found_to);
                }
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
