// The window as one sorted run: compared with a plain list, and merges that drop dead entries.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/sorted_run.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

TEST(sorted_run) { check_all(slidejoin::IndexKind::sorted_run); }

TEST(sorted_run_counts_its_memory) { check_bytes(slidejoin::IndexKind::sorted_run, 15, 40); }

namespace {

template <class Key>
std::vector<Entry<Key>> batch_of(std::size_t count, std::uint32_t first, Key factor) {
    std::vector<Entry<Key>> entries;
    for (std::uint32_t i = 0; i < count; ++i)
        entries.push_back({static_cast<Key>((first + i) * factor), first + i});
    return entries;
}

template <class Key>
std::size_t entries_of(const SortedRun<Key>& index) {
    std::size_t count = 0;
    index.each([&](Key, std::uint32_t) { ++count; });
    return count;
}

}  // namespace

TEST(sorted_run_drops_the_dead_as_it_merges) {
    SortedRun<std::uint64_t> index;
    const std::uint32_t start = ~0u - 3000;  // positions wrap around
    for (std::uint32_t done = 0; done < 10000; done += 1000) {
        const auto batch = batch_of<std::uint64_t>(1000, start + done, 0x9e3779b97f4a7c15u);
        insert_sorting(index, batch.data(), batch.size());
        index.forget(start + done + 1000 - std::min(done + 1000, 2500u));
        index.check(start + done + 1000 - std::min(done + 1000, 2500u), start + done + 1000);
        CHECK(entries_of(index) <= 3500);
    }
    CHECK(entries_of(index) >= 2500);
}

TEST(sorted_run_puts_equal_keys_in_order_of_arrival) {
    SortedRun<std::uint32_t> index;
    for (std::uint32_t done = 0; done < 2000; done += 500) {
        const auto batch = batch_of<std::uint32_t>(500, done, 0);
        insert_sorting(index, batch.data(), batch.size());
        index.check(0, done + 500);
    }
    MatchList list;
    index.probe({0, 0}, {0, 2000}, list);
    CHECK_EQUAL(list.size(), 2000u);
    for (std::uint32_t i = 0; i < 2000; ++i) CHECK_EQUAL(list.data()[i], i);
}

TEST(sorted_run_keeps_the_greatest_keys) {
    constexpr std::uint32_t kMost = ~0u;
    SortedRun<std::uint32_t> index;
    std::vector<Entry<std::uint32_t>> batch;
    for (std::uint32_t i = 0; i < 400; ++i) batch.push_back({i % 2 ? kMost : kMost - 1, i});
    insert_sorting(index, batch.data(), 200);
    insert_sorting(index, batch.data() + 200, 200);
    index.check(0, 400);
    MatchCount all, greatest;
    index.probe({0, kMost}, {0, 400}, all);
    index.probe({kMost, kMost}, {0, 400}, greatest);
    CHECK_EQUAL(all.size(), 400u);
    CHECK_EQUAL(greatest.size(), 200u);
}

TEST(sorted_run_cleans_up_before_positions_come_round) {
    SortedRun<std::uint32_t> index;
    const auto batch = batch_of<std::uint32_t>(300, 0, 3);
    insert_sorting(index, batch.data(), batch.size());
    index.insert(5, 300);
    for (std::uint32_t part = 1; part <= 3; ++part) index.forget(part << 28);  // in steps
    CHECK_EQUAL(entries_of(index), 0u);
    const auto later = batch_of<std::uint32_t>(300, 3u << 28, 3);
    insert_sorting(index, later.data(), later.size());
    index.forget((3u << 28) + (1u << 30));  // at once
    CHECK_EQUAL(entries_of(index), 0u);
}

SLIDEJOIN_TARGET_END
