// Sorted (key, position) entries, in two arrays, and the one way to search sorted keys.
//
// SortedKeys searches an array that it does not own, which may be a buffer or a mapped file: one key by
// bisection, the last steps of it by comparing a vector at a time; intervals in ascending order from where
// the one before was found, as a merge does, a vector of keys at a step, and by galloping where the gap is
// wide. O(log n) for a single search, O(log of the distance) for the next of many.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Entries [from, to) of a sorted array.
struct EntryRange {
    std::uint32_t from = 0;
    std::uint32_t to = 0;

    std::uint32_t size() const { return to - from; }
};

// The keys of an interval, after those of an interval that began no later.
template <class Keys, class Key>
inline EntryRange next_range(const Keys& sorted, EntryRange last, Interval<Key> interval) {
    const std::size_t from = sorted.advance(last.from, interval.low);
    std::size_t to = sorted.size;
    if (interval.high != std::numeric_limits<Key>::max()) [[likely]] {
        // From the last end on, unless it lies behind this one: intervals may be of different widths.
        const Key end = interval.high + 1;
        const bool ahead = (last.to > from) & (sorted.keys[last.to - (last.to > 0)] < end);
        to = sorted.advance(ahead ? last.to : from, end);
    }
    return {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)};
}

// Sorted keys with kPadding readable slots behind the last one, which hold the greatest key.
template <class Key>
struct SortedKeys {
    static constexpr std::size_t kPadding = 256 / sizeof(Key);

    const Key* keys;
    std::size_t size;

    // How many keys are < key. Also for a part of an array whose following keys are not below `key`.
    std::size_t count_below(Key key) const {
        const Key* from = keys;
        std::size_t count = size;
        while (count > kPadding) {
            const std::size_t half = count / 2;
            from = from[half - 1] < key ? from + half : from;
            count -= half;
        }
        return static_cast<std::size_t>(from - keys) +
               slidejoin::SLIDEJOIN_TARGET::count_below<kPadding>(from, key);
    }

    // The same where the first `at` keys are known to be below.
    std::size_t advance(std::size_t at, Key key) const {
        const std::size_t here = lane_count(lanes_below(keys + at, key));
        if (here < kLanes) [[likely]]
            return at + here;
        return gallop(at + kLanes, key);
    }

    // How many keys are <= key where the first `at` are known to be.
    std::size_t advance_past(std::size_t at, Key key) const {
        return key == kGreatest ? size : advance(at, static_cast<Key>(key + 1));
    }

    // Finds the keys of intervals that ascend by their lower ends, in this call and over calls with the same
    // cursor, and prefetches the positions. Each search depends on the one before, so several sequences of
    // them run side by side; find(key) counts the keys below `key` for the start of each sequence.
    template <class Find>
    void locate(const Interval<Key>* intervals, std::size_t count, EntryRange& cursor, EntryRange* found,
                const std::uint32_t* positions, Find find) const {
        const std::size_t length = count / kSequences;
        EntryRange last[kSequences] = {cursor};
        for (std::size_t i = 1; i < kSequences && length > 0; ++i)
            last[i].from = static_cast<std::uint32_t>(find(intervals[i * length].low));
        for (std::size_t i = 0; i < length; ++i)
            for (std::size_t sequence = 0; sequence < kSequences; ++sequence) {
                const std::size_t at = sequence * length + i;
                found[at] = last[sequence] = next_range(*this, last[sequence], intervals[at]);
                prefetch(positions + found[at].from);
            }
        cursor = length > 0 ? last[kSequences - 1] : cursor;
        for (std::size_t i = kSequences * length; i < count; ++i)
            found[i] = cursor = next_range(*this, cursor, intervals[i]);
    }

  private:
    static constexpr std::size_t kLanes = kKeyLanes<Key>;
    static constexpr std::size_t kSequences = 4;
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    // Steps that double, then a search of the last step.
    [[gnu::noinline]] std::size_t gallop(std::size_t at, Key key) const {
        std::size_t step = kLanes;
        while (at + step <= size && keys[at + step - 1] < key) {
            at += step;
            step *= 2;
        }
        return at + SortedKeys{keys + at, std::min(step, size - at)}.count_below(key);
    }
};

// At least one sorted key, without padding, such as in a mapped file: the last keys are copied to where there
// is some. A search stays inside the array even if the keys are not sorted.
template <class Key>
class UnpaddedKeys {
  public:
    const Key* const keys;
    const std::size_t size;

    UnpaddedKeys(const Key* all, std::size_t count)
        : keys(all),
          size(count),
          head_{all, count > kTail ? count - kTail : 0},
          border_(head_.size ? all[head_.size] : 0) {
        std::fill(std::copy(all + head_.size, all + count, tail_), std::end(tail_),
                  std::numeric_limits<Key>::max());
    }

    std::size_t advance(std::size_t at, Key key) const {
        if (at < head_.size && key <= border_) [[likely]]
            return head_.advance(at, key);
        const std::size_t done = std::max(at, head_.size) - head_.size;
        return head_.size + SortedKeys<Key>{tail_, size - head_.size}.advance(done, key);
    }

  private:
    static constexpr std::size_t kPadding = SortedKeys<Key>::kPadding;
    static constexpr std::size_t kTail = 2 * kPadding;  // a search of unsorted keys may step over kPadding

    SortedKeys<Key> head_;  // all but the last keys, which can be read behind it
    Key border_;            // the first key behind the head
    Key tail_[kTail + kPadding];
};

// Equal keys stand in the order of their positions.
template <class Key>
struct SortedEntries {
    static constexpr std::size_t kPadding = SortedKeys<Key>::kPadding;

    Buffer<Key> keys;
    Buffer<std::uint32_t> positions;
    std::size_t size = 0;

    // Empties it and makes room for so many entries and the padding.
    void start(std::size_t capacity) {
        size = 0;
        keys.reserve(capacity + kPadding);
        positions.reserve(capacity + kPadding);
    }

    void add(Key key, std::uint32_t position) {
        keys[size] = key;
        positions[size++] = position;
    }

    // Writes the padding, once all entries are there.
    void finish() { std::fill_n(keys.data() + size, kPadding, std::numeric_limits<Key>::max()); }

    SortedKeys<Key> search() const { return {keys.data(), size}; }

    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < size; ++i) visit(keys[i], positions[i]);
    }

    std::size_t bytes() const { return keys.bytes() + positions.bytes(); }

    // `ordered`: equal keys stand in the order of their positions.
    void check(bool ordered = true) const {
        for (std::size_t i = 1; i < size; ++i) {
            require(keys[i - 1] <= keys[i], "sorted entries: keys are sorted");
            require(!ordered || keys[i - 1] != keys[i] || before(positions[i - 1], positions[i]),
                    "sorted entries: equal keys stand in the order of their positions");
        }
        for (std::size_t i = 0; i < kPadding; ++i)
            require(keys[size + i] == std::numeric_limits<Key>::max(),
                    "sorted entries: the greatest key stands behind the last one");
    }
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
