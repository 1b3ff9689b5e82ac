// The bucket-tree compared with a plain list, on adversarial inputs.
//
// The inputs are made for the structure: the distribution of keys changes when a leaf is about to split, keys
// go to the fullest leaf, leaves have one key or nearly one, windows run empty, and positions wrap around.
// The list has 64-bit positions, so that they never wrap around.
#include <deque>

#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/bucket_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(bucket_tree) { check_all(slidejoin::IndexKind::bucket_tree); }

namespace {

constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostLive = (std::uint64_t{1} << 31) - (std::uint64_t{1} << 20);  // of any window

// Visits the leaves themselves instead of the matches of a probe.
struct Watch {
    struct Leaf {
        const std::uint32_t* positions;
        std::size_t count;
    };
    std::vector<Leaf> leaves;
    std::size_t queued = 0;

    void padded(const std::uint32_t* positions, std::size_t count, Visible) {
        leaves.push_back({positions, count});
    }
    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible) {
        leaves.push_back({positions, static_cast<std::size_t>(std::popcount(chosen))});
    }
    void all(const std::uint32_t*, std::size_t count, Visible) { queued += count; }
};

// A bucket-tree and a plain list that get the same operations.
template <class Key>
class Duel {
  public:
    static constexpr Key kMost = ~Key{0};

    explicit Duel(std::uint64_t start = 0) : first_(start), next_(start) {}

    std::uint64_t first() const { return first_; }
    std::uint64_t next() const { return next_; }
    std::size_t bytes() const { return tree_.bytes(); }

    void skip(std::uint64_t positions) { next_ += positions; }

    void insert(Key key) {
        tree_.insert(key, low(next_));
        held_.push_back({key, next_++});
    }

    void insert_many(const std::vector<Key>& keys) {
        std::vector<Entry<Key>> entries;
        for (const Key key : keys) {
            entries.push_back({key, low(next_)});
            held_.push_back({key, next_++});
        }
        insert_sorting(tree_, entries.data(), entries.size());
    }

    // Forgets all but the last positions.
    void keep(std::uint64_t positions) {
        if (next_ - first_ <= positions) return;
        first_ = next_ - positions;
        tree_.forget(low(first_));
        while (!held_.empty() && held_.front().position < first_) held_.pop_front();
    }

    void check() const { tree_.check(low(first_), low(next_)); }

    void probe(Interval<Key> interval, std::uint64_t from, std::uint64_t to) const {
        std::vector<std::uint32_t> expected;
        for (const Held& each : held_)
            if (interval.contains(each.key) && from <= each.position && each.position < to)
                expected.push_back(low(each.position - from));
        const Visible visible{low(from), low(to - from)};
        MatchList list;
        MatchCount count;
        tree_.probe(interval, visible, list);
        tree_.probe(interval, visible, count);
        std::vector<std::uint32_t> found(list.data(), list.data() + list.size());
        std::sort(found.begin(), found.end());
        CHECK(found == expected);
        CHECK_EQUAL(count.size(), expected.size());
    }

    void probe_all() const { probe({0, kMost}, first_, next_); }

    // An interval between two stored keys, or at one, and a part of the visible range.
    void probe_some(testing::Random& random) const {
        if (held_.empty()) return probe_all();
        const auto any = [&] { return held_[testing::below(random, held_.size())]; };
        Interval<Key> interval{any().key, any().key};
        if (interval.low > interval.high) std::swap(interval.low, interval.high);
        switch (testing::below(random, 6)) {
            case 0:
                interval.high = interval.low;
                break;
            case 1:  // ends just before a stored key
                interval.high -= interval.high > interval.low;
                break;
            case 2:
                interval.high = kMost;
                break;
            case 3:
                interval.low = 0;
                break;
        }
        const std::uint64_t from = testing::below(random, 2) ? first_ : any().position;
        const std::uint64_t to = testing::below(random, 2) ? next_ : std::max(from, any().position);
        probe(interval, from, to);
    }

    // A key of the leaf that has most entries.
    Key fullest() const {
        Watch watch;
        tree_.probe({0, kMost}, {0, 0}, watch);
        const auto& leaves = watch.leaves;
        const auto most = std::max_element(leaves.begin(), leaves.end(),
                                           [](const auto& a, const auto& b) { return a.count < b.count; });
        for (std::size_t i = most == leaves.end() ? 0 : most->count; i-- > 0;) {
            const auto at = std::lower_bound(
                held_.begin(), held_.end(), first_ + (most->positions[i] - low(first_)),
                [](const Held& held, std::uint64_t position) { return held.position < position; });
            if (at != held_.end() && low(at->position) == most->positions[i]) return at->key;
        }
        return 0;
    }

    // The number of leaves, without queues.
    std::size_t leaves() const {
        Watch watch;
        tree_.probe({0, kMost}, {0, 0}, watch);
        return watch.leaves.size();
    }

  private:
    struct Held {
        Key key;
        std::uint64_t position;
    };

    static std::uint32_t low(std::uint64_t position) { return static_cast<std::uint32_t>(position); }

    BucketTree<Key> tree_;
    std::deque<Held> held_;  // oldest first
    std::uint64_t first_;
    std::uint64_t next_;
};

enum class Foe {
    alternating,
    equal_and_distinct,
    staircase_up,
    staircase_down,
    fullest,
    rising_jumps,
    falling_jumps,
    nearly_one,
    ends
};
constexpr Foe kFoes[] = {Foe::alternating, Foe::equal_and_distinct, Foe::staircase_up,  Foe::staircase_down,
                         Foe::fullest,     Foe::rising_jumps,       Foe::falling_jumps, Foe::nearly_one,
                         Foe::ends};

template <class Key>
Key next_key(Foe foe, std::uint64_t i, const Duel<Key>& duel, testing::Random& random) {
    constexpr Key kMost = ~Key{0};
    const auto any = static_cast<Key>(random());
    switch (foe) {
        case Foe::alternating:  // a leaf splits at 58 live entries: all keys, then a cluster elsewhere
            return i / 58 % 2 ? static_cast<Key>(kMost / 7 * (i / 116 % 7) + any % 16) : any;
        case Foe::equal_and_distinct:
            return i / 150 % 2 ? any : static_cast<Key>(kMost / 3);
        case Foe::staircase_up:  // runs a little longer than a leaf
            return static_cast<Key>(i / 70);
        case Foe::staircase_down:
            return static_cast<Key>(kMost - i / 70 * 2);
        case Foe::fullest:
            return i % 3 ? static_cast<Key>(duel.fullest() + any % 3) : any;
        case Foe::rising_jumps:
            return static_cast<Key>(i * 5 + i / 100 % 4 * 1'000'000);
        case Foe::falling_jumps:
            return static_cast<Key>(kMost - i * 5 - i / 100 % 4 * 1'000'000);
        case Foe::nearly_one:  // the one other key is just above or just below
            return static_cast<Key>(1000 + (i % 57 ? 0 : i / 57 % 3 - 1));
        case Foe::ends:  // the keys that also stand for an empty slot
            return i % 3 == 0   ? kMost
                   : i % 3 == 1 ? Key{0}
                   : i / 90 % 2 ? any
                                : static_cast<Key>(kMost - any % 2);
    }
    return 0;
}

// How the size of a window changes: it stays, it grows and shrinks to nothing, or many entries expire at once
// after a long time, as they do on the faster of two sides.
enum class Pace { steady, breathing, seldom };
constexpr Pace kPaces[] = {Pace::steady, Pace::breathing, Pace::seldom};

template <class Key>
void slide(Duel<Key>& duel, Pace pace, std::uint64_t i, std::uint64_t size) {
    switch (pace) {
        case Pace::steady:
            return duel.keep(size);
        case Pace::breathing:
            return duel.keep(i / size % 3 == 2 ? size - i % size - 1 : 2 * size);
        case Pace::seldom:
            return duel.keep(i % (2 * size) ? 3 * size : size / 4);
    }
}

// All invariants are checked after every operation.
template <class Key>
void check_closely(Foe foe, Pace pace, std::uint64_t start) {
    testing::Random random(static_cast<unsigned>(foe) * 3 + static_cast<unsigned>(pace));
    Duel<Key> duel(start);
    for (std::uint64_t i = 0; i < 900; ++i) {
        duel.insert(next_key(foe, i, duel, random));
        duel.check();
        slide(duel, pace, i, 130);
        duel.check();
        duel.probe_some(random);
    }
    duel.keep(0);
    duel.check();
    duel.probe_all();
}

// Larger windows, with groups and batches of all sizes.
template <class Key>
void check_widely(Foe foe, Pace pace, std::uint64_t start) {
    testing::Random random(static_cast<unsigned>(foe) * 5 + static_cast<unsigned>(pace));
    Duel<Key> duel(start);
    std::uint64_t checked = 0;
    for (std::uint64_t i = 0; i < 9000;) {
        const std::uint64_t count = 1 + testing::below(random, i % 4 == 0 ? 200 : 20);
        std::vector<Key> keys;
        for (std::uint64_t k = 0; k < count; ++k) keys.push_back(next_key(foe, i + k, duel, random));
        duel.insert_many(keys);
        i += count;
        slide(duel, pace, i, 1500);
        if (i - checked < 150) continue;
        checked = i;
        duel.check();
        duel.probe_some(random);
        duel.probe_all();
    }
}

}  // namespace

TEST(bucket_tree_adversaries_step_by_step) {
    for (const Foe foe : kFoes)
        for (const Pace pace : kPaces) {
            check_closely<std::uint32_t>(foe, pace, 0);
            check_closely<std::uint64_t>(foe, pace, kWrap - 500);
        }
}

TEST(bucket_tree_adversaries_in_large_windows) {
    for (const Foe foe : kFoes)
        for (const Pace pace : kPaces) {
            check_widely<std::uint32_t>(foe, pace, kWrap - 5000);
            check_widely<std::uint64_t>(foe, pace, 0);
        }
}

// Each key gets a queue of its own, wherever its leaf stands in a block, and each queue ends again.
TEST(bucket_tree_of_queues_only) {
    testing::Random random(11);
    Duel<std::uint32_t> duel;
    constexpr std::uint32_t kKeys = 700, kTimes = 130;
    for (std::uint32_t i = 0; i < kKeys * kTimes; ++i) {
        duel.insert(static_cast<std::uint32_t>(testing::below(random, kKeys)));
        if (i % 3001 == 0) duel.check();
    }
    duel.check();
    CHECK_EQUAL(duel.leaves(), 1u);  // of the keys above all of them
    for (int i = 0; i < 20; ++i) duel.probe_some(random);
    for (std::uint32_t i = 0; i < kKeys * kTimes; ++i) {
        duel.insert(static_cast<std::uint32_t>(random()));
        duel.keep(kKeys * kTimes / 2);
        if (i % 3001 == 0) duel.check();
    }
    duel.check();
    duel.probe_all();
    duel.probe({0, kKeys}, duel.first(), duel.next());
}

// The range of keys moves away and back: blocks are split in the middle, run empty and are merged.
TEST(bucket_tree_of_many_blocks) {
    testing::Random random(12);
    Duel<std::uint64_t> duel(kWrap - 60'000);
    for (std::uint64_t i = 0; i < 120'000; i += 15) {
        const std::uint64_t center = (i / 30'000 % 2 ? 3 : 1) * (std::uint64_t{1} << 60);
        std::vector<std::uint64_t> keys;
        for (int k = 0; k < 15; ++k) keys.push_back(center + (random() >> 6));
        duel.insert_many(keys);
        duel.keep(i < 60'000 ? 30'000 : 5000);
        if (i % 6000 == 0) {
            duel.check();
            duel.probe_some(random);
            duel.probe_all();
        }
    }
    duel.keep(0);
    duel.insert(1);
    duel.check();
    duel.probe_all();
}

// Positions without an entry: they wrap around hundreds of times.
TEST(bucket_tree_over_many_wrap_arounds) {
    testing::Random random(13);
    for (const std::uint64_t widest : {std::uint64_t{1} << 30, kMostLive}) {
        Duel<std::uint32_t> duel(5);
        for (int i = 0; i < 6000; ++i) {
            // Bursts of one key and of all keys, and long gaps.
            const int burst = i % 97 == 0 ? 150 : 1;
            for (int k = 0; k < burst; ++k) duel.insert(i % 2 ? 7 : static_cast<std::uint32_t>(random()));
            duel.skip(testing::below(random, std::uint64_t{1} << (5 + i % 25)));
            duel.keep(i % 50 == 49 ? 0 : widest);
            if (i % 5 == 0) duel.probe_some(random);
            if (i % 25 == 0) {
                duel.check();
                duel.probe_all();
            }
        }
        CHECK(duel.next() > 20 * kWrap);
    }
}

// Entries are so rare that the sweep hardly moves, and no step is large enough to trigger it: forgotten
// entries are removed from leaves and queues by their age alone.
TEST(bucket_tree_of_rare_entries) {
    for (const int together : {1, 70}) {
        Duel<std::uint32_t> duel;
        for (int i = 0; i < 200; ++i) {
            for (int k = 0; k < together; ++k) duel.insert(7);
            duel.probe_all();
            duel.check();
            duel.skip(std::uint64_t{1} << 28);
            duel.keep(std::uint64_t{3} << 28);
            duel.probe_all();
        }
    }
}

// The largest possible window is forgotten at once, while entries that were forgotten before are still held.
TEST(bucket_tree_forgets_the_largest_window_at_once) {
    for (const std::uint64_t start : {std::uint64_t{0}, kWrap - 77}) {
        for (const int old : {1, 30, 100}) {
            Duel<std::uint32_t> duel(start);
            for (int i = 0; i < old; ++i) duel.insert(7);
            duel.skip((std::uint64_t{1} << 29) - 100);
            duel.keep(0);  // too recent for a sweep to be required
            duel.insert(8);
            duel.skip(kMostLive - 1);
            duel.check();
            duel.probe_all();
            duel.keep(0);
            duel.insert(9);
            duel.probe_all();
            duel.skip(kMostLive - 1);
            duel.probe_all();
            duel.check();
        }
    }
}

// The largest window, all of one key: most of its queue is dead, and farther from the newest entry than half
// of all positions.
TEST(bucket_tree_queues_in_the_largest_window) {
    Duel<std::uint32_t> duel(kWrap - 1000);
    for (int round = 0; round < 8; ++round) {
        duel.keep(0);
        for (int i = 0; i < 1000; ++i) duel.insert(7);
        duel.skip((std::uint64_t{1} << 29) - 5000);
        for (int i = 0; i < 3; ++i) duel.insert(7);
        duel.keep(3);
        duel.skip(kMostLive - 3);
        duel.probe_all();
        duel.check();
    }
}

// A probe locates its leaves again if inserts have moved entries in the meantime.
TEST(bucket_tree_probes_located_before_inserts) {
    BucketTree<std::uint32_t> tree;
    std::uint32_t position = 0;
    for (; position < 1000; ++position) tree.insert(position * 1000, position);
    std::vector<Task<std::uint32_t>> tasks;
    std::uint32_t order[kGroup];
    for (std::uint32_t i = 0; i < kGroup; ++i) {
        order[i] = i;
        tasks.push_back({{i * 60000, i * 60000 + 5000}, {0, 5000}, i, false, 0, 0});
    }
    BucketTree<std::uint32_t>::GroupProbes visits;
    tree.prefetch_probes(tasks.data(), order, kGroup, visits);
    for (std::uint32_t i = 0; i < 1000; ++i, ++position) tree.insert(i * 1000 + 1, position);
    MatchList list;
    tree.probe_group(tasks.data(), order, kGroup, list, visits);
    for (const Task<std::uint32_t>& task : tasks) {
        std::vector<std::uint32_t> found(list.data() + task.found_from, list.data() + task.found_to);
        std::sort(found.begin(), found.end());
        std::vector<std::uint32_t> expected;
        for (std::uint32_t at = 0; at < position; ++at)
            if (task.interval.contains(at < 1000 ? at * 1000 : (at - 1000) * 1000 + 1))
                expected.push_back(at);
        CHECK(found == expected);
    }
}

// The memory of dead entries is freed, whether keys drift or not, and all memory in use is counted.
TEST(bucket_tree_memory_follows_the_window) {
    constexpr std::uint32_t kWindow = 20'000;
    for (const Foe foe : {Foe::rising_jumps, Foe::falling_jumps, Foe::staircase_up}) {
        BucketTree<std::uint32_t> tree;
        testing::Random random(14);
        const Duel<std::uint32_t> nobody;
        std::size_t early = 0;
        for (std::uint32_t i = 0; i < 20 * kWindow; ++i) {
            tree.insert(next_key(foe, i, nobody, random), i);
            if (i >= kWindow) tree.forget(i - kWindow + 1);
            if (i == 4 * kWindow) early = tree.bytes();
        }
        CHECK(tree.bytes() <= early + early / 4);
    }
    BucketTree<std::uint32_t> queue;
    for (std::uint32_t i = 0; i < 20 * kWindow; ++i) {
        queue.insert(7, i);
        if (i >= kWindow) queue.forget(i - kWindow + 1);
    }
    const std::size_t empty = BucketTree<std::uint32_t>().bytes();
    CHECK(queue.bytes() >= empty + 4 * kWindow);
    CHECK(queue.bytes() <= empty + 3 * 4 * kWindow);
}

// Splits are even enough: an entry takes 12 bytes, and empty slots and the directory add a third on average,
// or two thirds.
TEST(bucket_tree_leaves_are_filled_well) {
    testing::Random random(15);
    Duel<std::uint64_t> duel;
    constexpr std::uint64_t kCount = 40'000;
    for (std::uint64_t i = 0; i < kCount; ++i) duel.insert(random());
    CHECK(duel.leaves() > kCount / 64);
    CHECK(duel.leaves() < kCount / 32);
    CHECK(duel.bytes() > kCount * 12);
}

// More leaves than a slab has.
TEST(bucket_tree_of_several_slabs) {
    constexpr std::uint32_t kCount = 300'000;
    testing::Random random(16);
    BucketTree<std::uint32_t> tree;
    Model<std::uint32_t> model;
    for (std::uint32_t i = 0; i < kCount; ++i)
        model.entries.push_back({static_cast<std::uint32_t>(random()), i});
    for (std::uint32_t i = 0; i < kCount; i += 1000) insert_sorting(tree, &model.entries[i], 1000);
    tree.check(0, kCount);
    for (std::uint32_t low = 0; low < 10; ++low) {
        const Interval<std::uint32_t> interval{low << 28, (low << 28) + (1u << 26)};
        MatchList list;
        tree.probe(interval, {0, kCount}, list);
        CHECK(model.agrees(interval, {0, kCount}, list.data(), list.size()));
    }
}

TEST(bucket_directory_counts_its_memory) {
    BucketDirectory<std::uint64_t> directory;
    directory.start(0);
    for (std::uint32_t i = 1; i <= 3000; ++i) {
        directory.reserve(1);
        directory.split(directory.find(i * 10), i * 10, i);
    }
    directory.check();
    CHECK_EQUAL(directory.leaves(), 3001u);
    CHECK(directory.bytes() > 3000 * (sizeof(std::uint64_t) + 4 + 2));
}
SLIDEJOIN_TARGET_END
