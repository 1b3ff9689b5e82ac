// IM-Tree and PIM-Tree: many small merges, sub-trees at every depth, hand-over-hand locks.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/im_tree.hpp"
#include "../index/pim_tree.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;
using slidejoin::IndexOptions;

namespace {

// Counts the locks that are held and checks hand-over-hand locking: a second lock must be that of a later
// sub-tree, and the first of two must be released first.
class CountingLock {
  public:
    void lock() {
        CHECK(!held_);
        if (held_now == 1) CHECK(last < this);
        held_ = true;
        last = this;
        most_held = std::max(most_held, ++held_now);
        handed_over += held_now == 2;
        ++taken;
    }

    void unlock() {
        CHECK(held_);
        if (held_now == 2) CHECK(last != this);
        held_ = false;
        --held_now;
    }

    ~CountingLock() { broken |= held_; }

    static inline int held_now = 0, most_held = 0;
    static inline std::uint64_t taken = 0, handed_over = 0;
    static inline const CountingLock* last = nullptr;
    static inline bool broken = false;

  private:
    bool held_ = false;
};

template <class Key>
using Pim = PimTree<Key>;
template <class Key>
using LockedPim = PimTree<Key, CountingLock>;

IndexOptions merging(double ratio, std::uint32_t depth, std::uint32_t least) {
    IndexOptions options;
    options.merge_ratio = ratio;
    options.insertion_depth = depth;
    options.min_entries = least;
    return options;
}

// Tuple by tuple with hints, as the driver does it, compared with a plain list.
template <class Index>
void check_hints(const IndexOptions& options, std::uint32_t start, Shape shape) {
    testing::Random random(9);
    Index index(options);
    Model<std::uint32_t> model;
    std::uint32_t first = start;
    for (std::uint32_t i = 0; i < 3000; ++i) {
        const std::uint32_t next = start + i;
        const auto key = make_key<std::uint32_t>(shape, i, random);
        index.insert(key, next, index.prefetch_insert(key));
        model.entries.push_back({key, next});
        Interval<std::uint32_t> interval{key / 2, key};
        MatchList list;
        index.probe(interval, {first, next - first}, list, index.prefetch_probe(interval));
        if (i % 7 == 0) {
            std::vector<std::uint32_t> found(list.data(), list.data() + list.size());
            std::sort(found.begin(), found.end());
            CHECK(found == model.probe(interval, {first, next - first}));
        }
        if (i >= 700) first = next - 700;
        index.forget(first);
        if (i % 101 == 0) index.check(first, next + 1);
    }
}

// A large window slides over several merges, in batches, then in groups, then tuple by tuple; positions wrap
// around.
template <class Index>
void check_large(const IndexOptions& options) {
    constexpr std::uint32_t kCount = 100'000, kWindow = 30'000, kStart = 0u - 50'000u;
    testing::Random random(1);
    Index index(options);
    std::vector<Entry<std::uint64_t>> entries(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i)
        entries[i] = {random() >> (i < kCount / 2 ? 40 : 4), kStart + i};  // the key range changes abruptly
    for (std::uint32_t done = 0; done < kCount;) {
        const std::uint32_t step = std::min(kCount - done, done < 50'000 ? 1000u : done < 80'000 ? 16u : 1u);
        insert_sorting(index, &entries[done], step);
        done += step;
        const std::uint32_t first = done < kWindow ? 0 : done - kWindow;
        index.forget(kStart + first);
        if (done % 4000 < step) {
            index.check(kStart + first, kStart + done);
            MatchCount all, some;
            const Visible visible{kStart + first, done - first};
            index.probe({0, ~std::uint64_t{0}}, visible, all);
            CHECK_EQUAL(all.size(), done - first);
            const std::uint64_t low = entries[done - 1].key, high = low + low / 4;
            index.probe({low, high}, visible, some);
            const auto expected = std::count_if(entries.begin() + first, entries.begin() + done,
                                                [&](const auto& e) { return low <= e.key && e.key <= high; });
            CHECK_EQUAL(some.size(), static_cast<std::size_t>(expected));
        }
    }
}

// Entries are far apart: forgotten ones must be removed before their positions are used again.
template <class Index>
void check_rare_inserts() {
    Index index(merging(0.125, 0, 1024));
    std::uint32_t position = 0;
    for (int i = 0; i < 40; ++i) {
        index.insert(7, position);
        index.forget(position);
        index.check(position, position + 1);
        MatchCount count;
        index.probe({7, 7}, {position, 1u << 30}, count);
        CHECK_EQUAL(count.size(), 1u);
        for (int step = 0; step < 4; ++step) {  // positions pass without a key
            position += 1u << 27;
            index.forget(position);
        }
    }
}

// Entries are so rare that their number never triggers a merge, but the window never runs empty: forgotten
// entries are removed by their age alone.
template <class Index>
void check_rare_inserts_that_overlap() {
    Index index(merging(0.125, 0, 1024));
    constexpr std::uint64_t kStep = std::uint64_t{1} << 28;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t first = i < 2 ? 0 : (i - 2) * kStep;
        index.insert(7, static_cast<std::uint32_t>(i * kStep));
        index.forget(static_cast<std::uint32_t>(first));
        index.check(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(i * kStep + 1));
        MatchCount count;
        index.probe({7, 7}, {static_cast<std::uint32_t>(first), (1u << 31) - (1u << 20)}, count);
        CHECK_EQUAL(count.size(), std::min<std::uint64_t>(i + 1, 3));
    }
}

// The largest possible window is forgotten at once, while entries that were forgotten before are still held.
template <class Index>
void check_largest_window_at_once() {
    constexpr std::uint32_t kMostLive = (1u << 31) - (1u << 20), kOld = LazyExpiry::kLongest;
    for (const std::uint32_t start : {0u, 0u - 77u}) {
        Index index(merging(0.125, 0, 1024));
        for (std::uint32_t i = 0; i < 200; ++i) index.insert(7, start + i);
        index.insert(8, start + kOld);
        index.forget(start + kOld - 1);  // too recent for a merge to be required
        index.forget(start + kOld + kMostLive);
        index.insert(9, start + kOld + kMostLive);
        MatchCount count;
        index.probe({0, 100}, {start + kOld + kMostLive, kMostLive}, count);
        CHECK_EQUAL(count.size(), 1u);
        index.check(start + kOld + kMostLive, start + kOld + kMostLive + 1);
    }
}

}  // namespace

TEST(im_tree) { check_all(slidejoin::IndexKind::im_tree); }
TEST(pim_tree) { check_all(slidejoin::IndexKind::pim_tree); }

TEST(im_tree_merges_often) {
    check_all(slidejoin::IndexKind::im_tree, merging(0.01, 0, 64));
    check_all(slidejoin::IndexKind::im_tree, merging(0.25, 0, 16));
    check_all(slidejoin::IndexKind::im_tree, merging(1.0, 0, 1));
}

TEST(pim_tree_merges_often) {
    check_all(slidejoin::IndexKind::pim_tree, merging(0.01, 0, 64));
    check_all(slidejoin::IndexKind::pim_tree, merging(0.25, 1, 16));
    check_all(slidejoin::IndexKind::pim_tree, merging(0.25, 4, 64));
    check_all(slidejoin::IndexKind::pim_tree, merging(1.0, 2, 1));
}

TEST(merging_trees_hints) {
    for (const Shape shape : kShapes)
        for (const std::uint32_t start : {0u, 0xfffffc00u})
            for (const std::uint32_t depth : {0u, 4u}) {
                check_hints<ImTree<std::uint32_t>>(merging(0.125, depth, 16), start, shape);
                check_hints<Pim<std::uint32_t>>(merging(0.125, depth, 16), start, shape);
                check_hints<LockedPim<std::uint32_t>>(merging(0.125, depth, 16), start, shape);
            }
}

TEST(merging_trees_large) {
    check_large<ImTree<std::uint64_t>>({});
    check_large<ImTree<std::uint64_t>>(merging(0.0625, 0, 64));
    for (const std::uint32_t depth : {0u, 1u, 2u, 3u, 4u})
        check_large<Pim<std::uint64_t>>(merging(0.0625, depth, 64));
}

TEST(merging_trees_with_rare_inserts) {
    check_rare_inserts<ImTree<std::uint32_t>>();
    check_rare_inserts<Pim<std::uint32_t>>();
    check_rare_inserts_that_overlap<ImTree<std::uint32_t>>();
    check_rare_inserts_that_overlap<Pim<std::uint32_t>>();
}

TEST(merging_trees_forget_the_largest_window_at_once) {
    check_largest_window_at_once<ImTree<std::uint32_t>>();
    check_largest_window_at_once<Pim<std::uint32_t>>();
}

TEST(merging_trees_give_memory_back) {
    check_bytes(slidejoin::IndexKind::im_tree, 28, 45);
    check_bytes(slidejoin::IndexKind::pim_tree, 28, 45);
}

TEST(pim_tree_sub_trees_follow_the_keys) {
    // Rising keys go to the last sub-tree only, until the next merge has rebuilt the ranges.
    const IndexOptions options = merging(0.125, 2, 64);
    SubTrees<std::uint32_t, NoLock> sub_trees(options);
    ImmutableTree<std::uint32_t> stable;
    sub_trees.restart(stable, 64);
    CHECK_EQUAL(sub_trees.count(), 1u);  // before the first merge
    for (const std::uint32_t size : {10u, 33u, 1025u, 40'000u}) {
        SortedEntries<std::uint32_t> run;
        run.start(size);
        for (std::uint32_t i = 0; i < size; ++i) run.add(i * 10, i);
        run.finish();
        stable.take(run);
        sub_trees.restart(stable, 64);
        CHECK_EQUAL(sub_trees.depth(), std::min(2u, stable.height()));
        CHECK_EQUAL(sub_trees.count(), stable.nodes(sub_trees.depth()));
        const std::size_t last = stable.descend(0, 0, sub_trees.depth(), ~0u);
        CHECK_EQUAL(last, sub_trees.count() - 1);
        sub_trees.insert(size * 20, 0, sub_trees.prefetch_insert(size * 20, last));
        sub_trees.check(stable);
    }
}

TEST(pim_tree_locks_hand_over_hand) {
    CountingLock::taken = CountingLock::handed_over = 0;
    CountingLock::most_held = 0;
    for (const std::uint32_t depth : {0u, 2u}) check_all<LockedPim>(merging(0.25, depth, 64));
    CHECK_EQUAL(CountingLock::held_now, 0);
    CHECK_EQUAL(CountingLock::most_held, 2);
    CHECK(CountingLock::taken > CountingLock::handed_over && CountingLock::handed_over > 0);
    CHECK(!CountingLock::broken);
}

TEST(pim_tree_takes_the_lock_of_each_sub_tree_that_it_touches) {
    LockedPim<std::uint32_t> index(merging(0.25, 2, 64));
    std::uint32_t next = 0;
    for (; next < 3000; ++next) index.insert(next * 7919u, next);
    const auto taken_by = [](auto act) {
        const std::uint64_t before = CountingLock::taken;
        act();
        return CountingLock::taken - before;
    };
    Entry<std::uint32_t> entries[20];
    for (auto& entry : entries) entry = {7, next++};
    CHECK_EQUAL(taken_by([&] { index.insert(9, 3000 + 20); }), 1u);
    CHECK_EQUAL(taken_by([&] { index.insert_group(entries, 5); }), 5u);
    CHECK_EQUAL(taken_by([&] { index.insert_batch(entries, 20, entries); }), 1u);  // all of one sub-tree
    MatchCount count;
    CHECK_EQUAL(taken_by([&] { index.probe({7, 7}, {0, 1}, count); }), 1u);
    CHECK(taken_by([&] { index.probe({0, ~0u}, {0, 1}, count); }) > 20);
}
SLIDEJOIN_TARGET_END
