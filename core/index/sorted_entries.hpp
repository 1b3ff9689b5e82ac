// A sorted run: keys in order, and the positions that belong to them, in two arrays. Equal keys stand in the
// order of their positions. What an interval has in it is one stretch; sorted intervals go on from where the
// one before began and ended, a vector of keys at a step, as a merge does, and gallop where the gap is wide.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
struct SortedEntries {
    Buffer<Key> keys;
    Buffer<std::uint32_t> positions;
    std::size_t size = 0;

    // Room for so many entries, and for a vector of keys behind them; what it held is lost.
    void start(std::size_t capacity) {
        size = 0;
        keys.reserve(capacity + kPadding);
        positions.reserve(capacity + kPadding);
    }

    void add(Key key, std::uint32_t position) {
        keys[size] = key;
        positions[size++] = position;
    }

    // Slots behind the last key hold the greatest one.
    void finish() { std::fill_n(keys.data() + size, kPadding, std::numeric_limits<Key>::max()); }

    std::size_t bytes() const { return keys.bytes() + positions.bytes(); }

    void check() const {
        for (std::size_t i = 1; i < size; ++i) {
            require(keys[i - 1] <= keys[i], "run: keys are sorted");
            require(keys[i - 1] != keys[i] || before(positions[i - 1], positions[i]),
                    "run: equal keys stand in the order of their positions");
        }
    }

    static constexpr std::size_t kPadding = 256 / sizeof(Key);

    // --- Searching ---

    struct Stretch {
        std::uint32_t from = 0;
        std::uint32_t to = 0;
    };

    // How many of `count` sorted keys, with kPadding slots behind them, are < key.
    static std::size_t count_of(const Key* keys, std::size_t count, Key key) {
        const Key* from = keys;
        while (count > kPadding) {
            const std::size_t half = count / 2;
            from = from[half - 1] < key ? from + half : from;
            count -= half;
        }
        return static_cast<std::size_t>(from - keys) + count_below<kPadding>(from, key);
    }

    // How many keys are < key where the first `at` are known to be: a vector of keys, else steps that double
    // and halve again.
    std::size_t advance(std::size_t at, Key key) const {
        const std::size_t here = lane_count(lanes_below(keys.data() + at, key));
        if (here < kLanes) [[likely]]
            return at + here;
        return gallop(at + kLanes, key);
    }

    // The keys of an interval, after those of an interval that began no later.
    Stretch next(Stretch last, Interval<Key> interval) const {
        const std::size_t from = advance(last.from, interval.low);
        std::size_t to = size;
        if (interval.high != kGreatest) [[likely]] {
            // From the end before, unless it lies behind this one: intervals may be of different widths.
            const Key end = interval.high + 1;
            const bool ahead = (last.to > from) & (keys[last.to - (last.to > 0)] < end);
            to = advance(ahead ? last.to : from, end);
        }
        return {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)};
    }

    // Where the keys of some intervals stand, which ascend by their lower ends, in this call and over calls
    // with the same cursor. Each search waits for the one before, so several sequences of them go side by
    // side; find(key) tells where the others begin.
    template <class Find>
    void locate(const Interval<Key>* intervals, std::size_t count, Stretch& cursor, Stretch* found,
                Find find) const {
        const std::size_t length = count / kSequences;
        Stretch last[kSequences] = {cursor};
        for (std::size_t i = 1; i < kSequences && length > 0; ++i)
            last[i].from = static_cast<std::uint32_t>(find(intervals[i * length].low));
        for (std::size_t i = 0; i < length; ++i)
            for (std::size_t sequence = 0; sequence < kSequences; ++sequence) {
                const std::size_t at = sequence * length + i;
                found[at] = last[sequence] = next(last[sequence], intervals[at]);
                prefetch(positions.data() + found[at].from);
            }
        cursor = length > 0 ? last[kSequences - 1] : cursor;
        for (std::size_t i = kSequences * length; i < count; ++i)
            found[i] = cursor = next(cursor, intervals[i]);
    }

  private:
    static constexpr std::size_t kLanes = kKeyLanes<Key>;
    static constexpr std::size_t kSequences = 4;  // of sorted intervals, looked for side by side
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    [[gnu::noinline]] std::size_t gallop(std::size_t at, Key key) const {
        std::size_t step = kLanes;
        while (at + step <= size && keys[at + step - 1] < key) {
            at += step;
            step *= 2;
        }
        return at + count_of(keys.data() + at, std::min(step, size - at), key);
    }
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
