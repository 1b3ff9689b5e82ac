// The shared index against the serial join: every distribution, windows of all sizes, both kinds of merge,
// several workers that are disturbed at random, that come and go, and that fail.
#include "shared_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;
using slidejoin::IndexOptions;
using testing::Disturbance;

namespace {

// ThreadSanitizer makes everything ten times slower.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t kShort = 4;
#else
constexpr std::size_t kShort = 1;
#endif

bool is_long() {
    const char* form = std::getenv("SLIDEJOIN_TESTS");
    return form && std::strcmp(form, "long") == 0;
}

IndexOptions merging(double ratio, std::uint32_t depth, std::uint32_t least) {
    IndexOptions options;
    options.merge_ratio = ratio;
    options.insertion_depth = depth;
    options.min_entries = least;
    return options;
}

void compare(const Case& given, const IndexOptions& index, const Sharing& sharing,
             std::initializer_list<std::size_t> queues, std::size_t workers, unsigned seed = 1) {
    Comparison<std::uint32_t> comparison(given, index, sharing, seed);
    for (const std::size_t arrivals : queues) comparison.join(arrivals, workers);
}

// Disturbs threads as long as it lives.
struct Disturbed {
    explicit Disturbed(unsigned yields) { Disturbance::yields = yields; }
    ~Disturbed() { Disturbance::yields = 0, Disturbance::fails_after = 0; }
};

// Random windows, workers, sizes of tasks and merges, disturbed at random. Some 10^6 tuples in a minute.
void stress(std::uint64_t tuples, unsigned seed) {
    testing::Random random(seed);
    const Disturbed disturbed(is_long() ? 8 : 50);
    for (std::uint64_t done = 0; done < tuples;) {
        Case given;
        given.shape = kShapes[testing::below(random, std::size(kShapes))];
        given.self_join = testing::below(random, 4) == 0;
        const bool wide = given.shape == Shape::uniform || given.shape == Shape::rising;
        for (std::uint32_t& window : given.window)
            window = 1 + static_cast<std::uint32_t>(testing::below(random, wide ? 5000 : 300));
        given.start = testing::below(random, 3) == 0 ? (std::uint64_t{1} << 32) - 1000 : 0;
        given.nulls = testing::below(random, 3) == 0 ? 5 : 0;
        given.left_of = 2 + static_cast<unsigned>(testing::below(random, 4));
        given.intervals = given.self_join ? 2 : 1 + static_cast<unsigned>(testing::below(random, 2));
        given.reach = given.shape == Shape::rising    ? 30
                      : given.shape == Shape::uniform ? std::uint64_t{1} << 22
                                                      : 3;
        const double ratios[] = {1.0, 0.25, 0.01};
        const std::uint32_t least = 1 + static_cast<std::uint32_t>(testing::below(random, 64));
        const IndexOptions index = merging(ratios[testing::below(random, 3)],
                                           static_cast<std::uint32_t>(testing::below(random, 4)), least);
        const auto workers = 1 + static_cast<std::uint32_t>(testing::below(random, 6));
        Comparison<std::uint32_t> comparison(
            given, index,
            {workers, 1 + static_cast<std::uint32_t>(testing::below(random, 12)),
             testing::below(random, 2) == 0},
            static_cast<unsigned>(random()));
        for (int queue = 0; queue < 6; ++queue) {
            const std::size_t arrivals = 1 + testing::below(random, 4000);
            comparison.join(arrivals, workers);
            done += arrivals;
        }
    }
}

}  // namespace

TEST(shared_index_equals_the_serial_join) {
    const Disturbed disturbed(300);
    for (const Shape shape : kShapes)
        for (const bool self_join : {false, true})
            for (const bool blocking : {false, true})
                for (const std::uint32_t workers : {1u, 2u, 3u, 8u}) {
                    Case given;
                    given.shape = shape;
                    given.self_join = self_join;
                    given.intervals = self_join ? 2 : 1;
                    given.window[0] = given.window[1] = 120;
                    given.start = self_join ? 0 : (std::uint64_t{1} << 32) - 500;
                    compare(given, merging(0.25, 2, 16), {workers, 8, blocking},
                            {1, 300, 3, 0, 1200 / kShort}, workers);
                    given.reach = 3;
                    given.window[1] = 400;
                    compare(given, merging(0.125, 0, 64), {workers, 5, blocking}, {1500 / kShort}, workers);
                }
}

TEST(shared_index_with_windows_smaller_than_the_queue) {
    const Disturbed disturbed(100);
    for (const std::uint32_t window : {1u, 2u, 7u, 40u})
        for (const std::uint32_t size : {1u, 2u, 8u, 20u})
            for (const bool self_join : {false, true}) {
                Case given;
                given.shape = Shape::few;
                given.self_join = self_join;
                given.window[0] = window;
                given.window[1] = 3 * window;
                compare(given, merging(1.0, 1, 4), {4, size, false}, {500, 1, 1500}, 4);
            }
}

TEST(shared_index_with_nulls_one_side_and_several_intervals) {
    const Disturbed disturbed(100);
    for (const unsigned nulls : {1u, 2u, 10u})
        for (const unsigned left_of : {1u, 10u}) {
            Case given;
            given.nulls = nulls;
            given.left_of = left_of;
            given.intervals = 3;
            given.reach = std::uint64_t{1} << 27;
            compare(given, merging(0.25, 0, 16), {3, 8, false}, {1000, 2000}, 3);
        }
}

TEST(shared_index_counts) {
    for (const bool blocking : {false, true}) {
        Case given;
        given.reach = std::uint64_t{1} << 27;
        Comparison<std::uint32_t> comparison(given, merging(0.25, 1, 16), {3, 8, blocking});
        for (const std::size_t arrivals : {1u, 1000u, 4000u}) comparison.count(arrivals, 3);
    }
}

TEST(shared_index_by_one_thread_and_by_several_in_turn) {
    Case given;
    given.shape = Shape::sawtooth;
    Comparison<std::uint32_t> comparison(given, merging(0.25, 1, 16), {3, 4, false});
    for (int round = 0; round < 10; ++round) {
        comparison.join(500, 3);
        comparison.join_serially(400);
        comparison.join_serially(10);
    }
    CHECK(comparison.matches() > 10'000);
}

TEST(shared_index_gives_memory_back) {
    Case given;
    given.reach = std::uint64_t{1} << 20;
    given.window[0] = given.window[1] = 20'000 / kShort;
    Comparison<std::uint32_t> comparison(given, {}, {2, 8, false});
    for (int round = 0; round < 10; ++round) comparison.join(20'000 / kShort, 2);
    const double each = static_cast<double>(comparison.shared().bytes()) / (40'000 / kShort);
    CHECK(16 <= each);
    CHECK(each <= 80);
}

// Queues so short that a result that is left behind is not picked up by a later one.
TEST(shared_index_leaves_no_result_behind) {
    const Disturbed disturbed(3);
    Case given;
    given.shape = Shape::equal;
    given.window[0] = given.window[1] = 5;
    Comparison<std::uint32_t> comparison(given, merging(1.0, 1, 4), {3, 1, false});
    for (std::size_t round = 0; round < 600; ++round) comparison.join(2 + round % 3, 3);
}

TEST(shared_index_under_stress) { stress(is_long() ? 10'000'000 : 60'000 / kShort, is_long() ? 2 : 1); }

// Workers come and go while a queue is joined; only the first one stays.
TEST(shared_index_workers_come_and_go) {
    constexpr std::uint32_t kMost = 6;
    const Disturbed disturbed(100);
    testing::Random random(3);
    for (const bool blocking : {false, true}) {
        Case given;
        given.reach = std::uint64_t{1} << 24;
        given.window[0] = given.window[1] = 2000;
        Comparison<std::uint32_t> comparison(given, merging(0.125, 1, 16), {kMost, 4, blocking});
        for (int queue = 0; queue < (is_long() ? 300 : 2); ++queue) {
            comparison.start(20'000 / kShort);
            std::atomic<bool> done{false};
            std::atomic<int> entered{0};
            const auto work = [&](std::size_t worker) {
                ++entered;
                comparison.work(worker);
            };
            std::atomic<std::uint32_t>& wanted = comparison.wanted();
            wanted = 1;
            in_threads(kMost + 1, [&](std::size_t worker) {
                if (worker == kMost) {  // changes the number of workers
                    while (!done) {
                        wanted = static_cast<std::uint32_t>(testing::below(random, kMost + 1));
                        usleep(200);
                    }
                    return;
                }
                if (worker == 0) {
                    work(0);
                    done = true;
                    return;
                }
                while (!done) {
                    if (worker < wanted) work(worker);
                    std::this_thread::yield();
                }
            });
            CHECK(entered > 1);
            comparison.finish();
        }
    }
}

// A failure at any point ends the join with that error: no worker waits for another one.
TEST(shared_index_fails_without_a_hang) {
    const Disturbed disturbed(100);
    int failures = 0;
    for (const bool blocking : {false, true})
        for (std::int64_t after = 1; after < 40'000; after += after / 2 + 7) {
            Case given;
            given.reach = std::uint64_t{1} << 24;
            given.window[0] = given.window[1] = 500;
            Comparison<std::uint32_t> comparison(given, merging(0.125, 1, 16), {4, 4, blocking});
            comparison.start(5000);
            Disturbance::fails_after = after;
            try {
                in_threads(4, [&](std::size_t worker) { comparison.work(worker); });
            } catch (const std::bad_alloc&) {
                ++failures;
            }
            Disturbance::fails_after = 0;
        }
    CHECK(failures > 10);
}

TEST(shared_index_whose_receiver_fails) {
    Case given;
    given.reach = std::uint64_t{1} << 24;
    Comparison<std::uint32_t> comparison(given, merging(0.125, 1, 16), {4, 4, false});
    comparison.start(5000);
    struct Failing final : Outbox<std::uint32_t> {
        explicit Failing(std::atomic<int>& kept) : kept(kept) {}
        std::uint64_t keep(const ChunkResults<std::uint32_t>&) override {
            const int number = ++kept;
            if (number == 100) throw std::runtime_error("full");
            if (number > 100) usleep(1000);  // until the others have been told
            return 1;
        }
        // Nothing behind the chunk that failed: one of the first 100 + 3.
        void send(std::uint64_t before) override { CHECK(before < 103); }
        std::atomic<int>& kept;
    };
    std::atomic<int> kept{0};
    bool failed = false;
    try {
        in_threads(4, [&](std::size_t worker) {
            MatchList list;
            Failing outbox(kept);
            comparison.shared().work(worker, list, outbox);
        });
    } catch (const std::runtime_error& error) {
        failed = std::strcmp(error.what(), "full") == 0;
    }
    CHECK(failed);
    CHECK(kept < 600);  // of 1,250 chunks
}
