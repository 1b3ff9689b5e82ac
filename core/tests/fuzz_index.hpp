// Interprets any bytes as a script of operations on an index, and compares the index with a plain list.
//
// The first bytes choose the structure by its IndexKind, the key's width, the first position and the
// parameters; each operation then takes a byte and its operands. Missing bytes read as 0, so that every input
// is valid. Batches are drawn from a seed: a few bytes are enough to fill, seal, merge and drop.
#pragma once

#include "index_cases.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class Script {
  public:
    Script(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}

    bool ended() const { return data_ == end_; }
    std::uint8_t byte() { return ended() ? std::uint8_t{0} : *data_++; }
    std::size_t below(std::size_t limit) { return byte() % limit; }

  private:
    const std::uint8_t* data_;
    const std::uint8_t* end_;
};

inline IndexOptions read_options(Script& script) {
    // Ends of the ranges in catalog.hpp, and values between; sizes are kept small.
    constexpr std::uint32_t kChains[] = {2, 3, 5, 64}, kDepths[] = {1, 2, 3, 4},
                            kSubwindows[] = {2, 3, 8, 1024}, kPartitions[] = {0, 1, 2, 7, 33, 600},
                            kLeast[] = {1, 2, 8, 30, 100, 1024}, kBuffers[] = {0, 1, 5, 16, 64, 1000};
    constexpr double kRatios[] = {0x1p-10, 0.0625, 0.125, 0.5, 1.0}, kSlacks[] = {1.1, 1.25, 1.6, 2.0};
    const auto pick = [&](const auto& values) { return values[script.below(std::size(values))]; };
    IndexOptions options;
    options.chain_length = pick(kChains);
    options.merge_ratio = pick(kRatios);
    options.insertion_depth = pick(kDepths);
    options.subwindows = options.sorted_subwindows = pick(kSubwindows);
    options.partitions = pick(kPartitions);
    options.slack = pick(kSlacks);
    options.min_entries = pick(kLeast);
    options.buffer = pick(kBuffers);
    return options;
}

template <class Key>
class IndexFuzzer {
  public:
    IndexFuzzer(IndexKind kind, Script& script)
        : script_(script), first_(start(script.byte())), next_(first_), index_(kind, read_options(script)) {}

    void run() {
        for (int step = 0; step < kSteps && !script_.ended(); ++step) operate();
        check();
        // Forgotten entries stay forgotten, also when the window is empty.
        forget(next_ - first_);
        check();
        probe_one({0, ~Key{0}}, {next_, 0});
    }

  private:
    static constexpr int kSteps = 2000;
    static constexpr std::size_t kMostLive = 2500;

    static std::uint32_t start(std::uint8_t choice) {
        constexpr std::uint32_t kStarts[] = {0, 1, 0x7fffff80u, 0xfffffc00u, 0xffffffffu};
        return kStarts[choice % std::size(kStarts)];
    }

    void operate() {
        const std::uint8_t what = script_.byte();
        switch (what & 15) {
            case 0:
            case 1:
                return insert_one();
            case 2:
            case 3:
                return insert_many(1 + script_.below(kGroup), false);
            case 4:
            case 5:
            case 6:
                return insert_many(1 + script_.byte() * (what >> 6), true);
            case 7:
            case 8:
                return probe_one(interval(), visible());
            case 9:
            case 10:
                return probe_many(1 + script_.below(40), what & 16);
            case 11:
                return forget(script_.below(8));
            case 12:
                return forget(std::uint64_t{next_ - first_} * script_.byte() / 255);
            case 13:
                return check();
            case 14:
                shape_ = what >> 4;
                return;
            case 15:
                return skip(what >> 4);
        }
    }

    // Skips positions, as tuples with null keys do: a few, or so many that positions wrap around and entries
    // that were forgotten long ago would be visible again if they were still held.
    void skip(unsigned count) {
        if (count < 12) {
            next_ += count;
            return;
        }
        next_ += std::uint32_t{1} << 29;
        if (next_ - first_ > std::uint32_t{1} << 30) forget(next_ - first_ - (std::uint32_t{1} << 30));
    }

    // The key of the current shape that a byte stands for.
    Key key(std::uint8_t byte) {
        constexpr Key kMost = ~Key{0};
        const Key steps = static_cast<Key>(inserted_);
        switch (shape_) {
            case 0:
                return byte;
            case 1:
                return static_cast<Key>(kMost / 255 * byte);
            case 2:
                return byte & 128 ? static_cast<Key>(kMost - (byte & 3)) : static_cast<Key>(byte & 3);
            case 3:
                return static_cast<Key>(steps * 2 + (byte & 7));
            case 4:
                return static_cast<Key>(kMost - steps * 2 - (byte & 7));
            case 5:
                return 7;
            case 6:
                return byte & 1 ? Key{1000} : Key{3};
            case 7:
                return static_cast<Key>(inserted_ % 40 * 9);
            case 8:  // half of the keys are equal
                return byte & 1 ? static_cast<Key>(kMost / 2) : static_cast<Key>(kMost / 255 * byte);
            default:  // a cloud that drifts
                return static_cast<Key>(kMost / 2 + steps * (shape_ - 8) + byte);
        }
    }

    Key operand() { return key(script_.byte()); }

    void insert_one() {
        const Key key = operand();
        make_room(1);
        index_.insert(key, next_);
        note({key, next_++});
    }

    void insert_many(std::size_t count, bool drawn) {
        std::vector<Entry<Key>> entries;
        make_room(count);
        std::uint32_t seed = drawn ? script_.byte() : 0;
        for (std::size_t i = 0; i < count; ++i) {
            seed = seed * 1664525u + 1013904223u;
            entries.push_back({drawn ? key(static_cast<std::uint8_t>(seed >> 24)) : operand(), next_++});
            next_ += drawn && seed >> 28 == 5;  // a gap
            note(entries.back());
        }
        insert_sorting(index_, entries.data(), entries.size());
    }

    void note(Entry<Key> entry) {
        model_.entries.push_back(entry);
        ++inserted_;
    }

    // The plain list is slow: a window that grows too large for it is made smaller.
    void make_room(std::size_t count) {
        if (model_.entries.size() + count > kMostLive) forget(next_ - first_);
    }

    Interval<Key> interval() {
        Key low = operand(), high = operand();
        if (low > high) std::swap(low, high);
        switch (script_.below(8)) {
            case 0:
                return {0, ~Key{0}};
            case 1:
                return {0, high};
            case 2:
                return {low, ~Key{0}};
            case 3:
                return {low, low};
            default:
                return {low, high};
        }
    }

    Visible visible() {
        const std::uint32_t live = next_ - first_;
        const std::uint32_t from = static_cast<std::uint32_t>(std::uint64_t{live} * script_.byte() / 255);
        const std::uint32_t to = static_cast<std::uint32_t>(std::uint64_t{live} * script_.byte() / 255);
        if (from > to) return {first_, live};
        return {first_ + from, to - from};
    }

    void probe_one(Interval<Key> interval, Visible visible) {
        const std::vector<std::uint32_t> expected = model_.probe(interval, visible);
        MatchList list;
        MatchCount count;
        index_.probe(interval, visible, list);
        index_.probe(interval, visible, count);
        compare(list, 0, list.size(), expected);
        CHECK_EQUAL(count.size(), expected.size());
    }

    void probe_many(std::size_t count, bool sorted) {
        std::vector<Task<Key>> tasks;
        std::vector<std::uint32_t> order;
        for (std::size_t i = 0; i < count; ++i) {
            order.push_back(static_cast<std::uint32_t>(i));
            tasks.push_back({interval(), visible(), 0, false, 0, 0});
        }
        if (sorted)
            std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
                return tasks[a].interval.low < tasks[b].interval.low;
            });
        MatchList list;
        MatchCount counter;
        std::vector<Task<Key>> counted = tasks;
        probe_all(index_, tasks.data(), order.data(), count, sorted, list);
        probe_all(index_, counted.data(), order.data(), count, sorted, counter);
        CHECK_EQUAL(counter.size(), list.size());
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<std::uint32_t> expected = model_.probe(tasks[i].interval, tasks[i].visible);
            compare(list, tasks[i].found_from, tasks[i].found_to, expected);
            CHECK_EQUAL(counted[i].found_to - counted[i].found_from, expected.size());
        }
    }

    void compare(MatchList& list, std::size_t from, std::size_t to,
                 const std::vector<std::uint32_t>& expected) {
        CHECK(from <= to && to <= list.size());
        std::vector<std::uint32_t> found(list.data() + from, list.data() + to);
        std::sort(found.begin(), found.end());
        CHECK(found == expected);
    }

    void forget(std::size_t count) {
        first_ += static_cast<std::uint32_t>(std::min<std::size_t>(count, next_ - first_));
        index_.forget(first_);
        std::erase_if(model_.entries, [&](const Entry<Key>& entry) { return before(entry.value, first_); });
    }

    void check() {
        index_.check(first_, next_);
        CHECK(index_.bytes() < std::size_t{1} << 30);
    }

    Script& script_;
    std::uint32_t first_;  // positions [first_, next_) are live
    std::uint32_t next_;
    AnyIndex<Key> index_;
    Model<Key> model_;
    std::uint64_t inserted_ = 0;
    unsigned shape_ = 0;
};

inline void fuzz_index(const std::uint8_t* data, std::size_t size) {
    Script script(data, size);
    const IndexKind kind = kAllKinds[script.below(std::size(kAllKinds))];
    const bool wide = script.byte() & 1;
    if (wide) IndexFuzzer<std::uint64_t>(kind, script).run();
    else IndexFuzzer<std::uint32_t>(kind, script).run();
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
