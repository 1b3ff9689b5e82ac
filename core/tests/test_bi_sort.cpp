// BI-Sort compared with a plain list for many parameters, and its own features: runs and the insert buffer.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/bi_sort.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;
using slidejoin::IndexOptions;

TEST(bi_sort) { check_all(slidejoin::IndexKind::bi_sort); }

TEST(bi_sort_counts_its_memory) { check_bytes(slidejoin::IndexKind::bi_sort, 12.5, 25); }

TEST(bi_sort_of_small_subwindows) {
    IndexOptions options;
    options.min_entries = 4;
    check_all(slidejoin::IndexKind::bi_sort, options);
    options.buffer = 3;
    options.partitions = 2;
    options.sorted_subwindows = 3;
    check_all(slidejoin::IndexKind::bi_sort, options);
}

TEST(bi_sort_of_one_partition_and_of_many) {
    IndexOptions options;
    options.min_entries = 300;
    options.buffer = 1;
    options.partitions = 1;
    check_all(slidejoin::IndexKind::bi_sort, options);
    options.partitions = 1 << 20;
    options.buffer = 1 << 20;
    options.sorted_subwindows = 2;
    check_all(slidejoin::IndexKind::bi_sort, options);
}

namespace {

// Counts the entries that are returned as parts of runs, and those that are read.
struct Watch {
    std::size_t named = 0, read = 0;

    void run(const RunOfPositions&, std::size_t from, std::size_t to, Visible) { named += to - from; }
    void padded(const std::uint32_t*, std::size_t count, Visible) { read += count; }
    template <class Key>
    void entries(const Key*, const std::uint32_t*, std::size_t count, Interval<Key>, Visible) {
        read += count;
    }
};

constexpr Interval<std::uint32_t> kAll{0, ~0u};

}  // namespace

TEST(bi_sort_names_what_is_seen_whole) {
    IndexOptions options;
    options.buffer = 10;
    SortedPart<std::uint32_t> part(100, options, nullptr);
    for (std::uint32_t i = 0; i < 25; ++i) part.insert(1000 - i, i);
    Watch watch;
    part.probe(kAll, {0, 25}, true, watch);
    CHECK_EQUAL(watch.named, 20u);  // the buffer was merged twice
    CHECK_EQUAL(watch.read, 5u);
    part.seal();
    part.check();
    watch = {};
    part.probe(kAll, {0, 25}, true, watch);
    CHECK_EQUAL(watch.named, 25u);
    CHECK_EQUAL(watch.read, 0u);
    watch = {};
    part.probe({990, 994}, {0, 25}, false, watch);
    CHECK_EQUAL(watch.named, 0u);
    CHECK_EQUAL(watch.read, 5u);
}

TEST(bi_sort_merges_large_batches_directly) {
    IndexOptions options;
    options.buffer = 10;
    SortedPart<std::uint64_t> part(100, options, nullptr);
    std::vector<Entry<std::uint64_t>> batch;
    for (std::uint32_t i = 0; i < 40; ++i) batch.push_back({i / 2, i});
    part.insert(7, 100);
    part.insert_sorted(batch.data(), 5);
    Watch watch;
    part.probe({0, ~std::uint64_t{0}}, {0, 200}, true, watch);
    CHECK_EQUAL(watch.read, 6u);
    part.insert_sorted(batch.data() + 5, 35);
    watch = {};
    part.probe({0, ~std::uint64_t{0}}, {0, 200}, true, watch);
    CHECK_EQUAL(watch.named, 41u);
}

TEST(bi_sort_withdraws_the_number_of_a_run_that_changes) {
    struct Namer {
        std::weak_ptr<const std::uint64_t> given;
        void run(const RunOfPositions& run, std::size_t, std::size_t, Visible) {
            if (!run.number->assigned()) given = run.number->assign(3);
        }
        void padded(const std::uint32_t*, std::size_t, Visible) {}
        void entries(const std::uint32_t*, const std::uint32_t*, std::size_t, Interval<std::uint32_t>,
                     Visible) {}
    };
    IndexOptions options;
    options.buffer = 2;
    auto part = std::make_unique<SortedPart<std::uint32_t>>(10, options, nullptr);
    for (std::uint32_t i = 0; i < 3; ++i) part->insert(i, i);
    Namer first, second, third;
    part->probe(kAll, {0, 3}, true, first);
    part->probe(kAll, {0, 3}, true, second);
    CHECK(!first.given.expired() && second.given.expired());
    part->seal();
    CHECK(first.given.expired());
    part->probe(kAll, {0, 3}, true, third);
    CHECK(!third.given.expired());
    part.reset();
    CHECK(third.given.expired());
}

TEST(bi_sort_gallops) {
    IndexOptions options;
    options.min_entries = 20'000;
    BiSort<std::uint32_t> index(options);
    std::vector<Entry<std::uint32_t>> entries;
    for (std::uint32_t i = 0; i < 20'000; ++i) entries.push_back({i * 7919 % 20'000 * 10, i});
    insert_sorting(index, entries.data(), entries.size());
    index.check(0, 20'000);
    std::vector<Task<std::uint32_t>> tasks;
    std::vector<std::uint32_t> order;
    for (const std::uint32_t low : {0u, 5u, 5u, 1234u, 1235u, 90'000u, 199'990u, 199'991u, ~0u})
        for (const std::uint32_t width : {0u, 9u, 50'000u, 10u, ~0u}) {
            order.push_back(static_cast<std::uint32_t>(tasks.size()));
            tasks.push_back({{low, low > ~0u - width ? ~0u : low + width}, {0, 20'000}, 0, false, 0, 0});
        }
    MatchList list;
    index.probe_sorted(tasks.data(), order.data(), order.size(), list);
    for (const Task<std::uint32_t>& task : tasks) {
        std::size_t expected = 0;
        for (const Entry<std::uint32_t>& entry : entries) expected += task.interval.contains(entry.key);
        CHECK_EQUAL(task.found_to - task.found_from, expected);
    }
}
SLIDEJOIN_TARGET_END
