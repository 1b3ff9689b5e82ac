// Several threads: the pool of workers, and joins that share their batches among them, which must give the
// pairs of one thread in the same order. Run under ThreadSanitizer, too.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "../workers.hpp"
#include "worker_cases.hpp"

using namespace slidejoin;

#if defined(SLIDEJOIN_STRESS)
static std::atomic<int> fails_after{0};  // so many meetings, before or after them; 0: none fails

void slidejoin::stress(const char* point) {
    thread_local std::minstd_rand random(std::random_device{}());
    if (std::strstr(point, "a meeting") && fails_after > 0 && --fails_after == 0) throw std::bad_alloc();
    switch (random() % 8) {
        case 0:
            return std::this_thread::yield();
        case 1:
            return std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
        default:
            return;
    }
}
#endif

TEST(all_workers_work_and_meet) {
    Workers pool;
    for (const std::size_t wanted : {1, 2, 5, 3, 8, 2}) {
        const std::size_t workers = pool.prepare(wanted);
        CHECK_EQUAL(workers, wanted);
        for (int run = 0; run < 50; ++run) {
            std::vector<int> written(workers), seen(workers);
            pool.run(workers, [&](std::size_t worker) {
                for (int round = 1; round <= 4; ++round) {
                    written[worker] = round;
                    pool.meet();
                    for (const int each : written) seen[worker] += each == round;
                    pool.meet();
                }
            });
            for (const int each : seen) CHECK_EQUAL(each, static_cast<int>(4 * workers));
        }
    }
}

TEST(an_error_of_one_worker_ends_all) {
    Workers pool;
    const std::size_t workers = pool.prepare(6);
    for (std::size_t failing = 0; failing < workers; ++failing)
        for (int round = 0; round < 3; ++round) {
            std::atomic<int> passed{0};
            bool thrown = false;
            try {
                pool.run(workers, [&](std::size_t worker) {
                    for (int i = 0; i < 3; ++i) {
                        if (worker == failing && i == round) throw std::runtime_error("no");
                        pool.meet();
                        ++passed;
                    }
                });
            } catch (const std::runtime_error&) {
                thrown = true;
            }
            CHECK(thrown);
            CHECK(passed <= static_cast<int>(workers) * round);  // nobody passed a meeting without the one
            std::atomic<int> done{0};
            pool.run(workers, [&](std::size_t) {
                pool.meet();
                ++done;
            });
            CHECK_EQUAL(done.load(), static_cast<int>(workers));
        }
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST(a_pool_that_a_fork_copied_starts_its_own_threads) {
    Workers pool;
    std::atomic<int> done{0};
    pool.run(pool.prepare(4), [&](std::size_t) { ++done; });
    const pid_t child = fork();
    if (child == 0) {
        std::atomic<int> here{0};
        pool.run(pool.prepare(4), [&](std::size_t) {
            pool.meet();
            ++here;
        });
        pool.stop();
        _exit(here == 4 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool.run(pool.prepare(4), [&](std::size_t) { ++done; });
    CHECK_EQUAL(done.load(), 8);
}
#endif

#if defined(SLIDEJOIN_STRESS)
constexpr std::size_t kArrivals = 4000;
constexpr std::size_t kSharedArrivals = 800;  // every lock of a shared index is a point to wait at
#else
constexpr std::size_t kArrivals = 6000;
constexpr std::size_t kSharedArrivals = 8000;
#endif

static JoinSpec shared_join(std::uint64_t left, std::uint64_t right) {
    JoinSpec spec = band_join(IndexKind::pim_tree, left, right);
    spec.strategy = Strategy::shared_index;
    return spec;
}

TEST(workers_give_the_pairs_of_one_thread) {
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        for (const Shape shape : kShapes)
            for (const std::uint32_t workers : {2u, 3u, 8u}) {
                const Input input = make_input(shape, kArrivals, workers == 3 ? 100 : 0, workers);
                compare(band_join(IndexKind::bucket_tree, kArrivals / 6, kArrivals / 4), input, 1500, workers,
                        level);
                if (workers == 3)
                    compare(band_join(IndexKind::sorted_run, 900, 900), input, 1100, workers, level);
            }
    }
}

TEST(workers_share_every_index) {
    for (const IndexKind index : kIndexes)
        compare(band_join(index, 1500, 800), make_input(Shape::uniform, 6000, 50, 5), 1024, 4,
                Level::portable);
}

TEST(workers_share_one_index) {
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        for (const Shape shape : kShapes)
            for (const std::uint32_t workers : {1u, 2u, 8u}) {
                JoinSpec spec = shared_join(1000, 300);
                spec.blocking_merge = workers == 2 && shape != Shape::uniform;
                spec.task_size = shape == Shape::few ? 1 : 8;
                compare(spec, make_input(shape, kSharedArrivals, workers == 8 ? 40 : 0, workers), 350,
                        workers, level);
            }
    }
}

TEST(workers_come_and_go) {
    for (const Shape shape : {Shape::uniform, Shape::drifting}) {
        compare(band_join(IndexKind::bucket_tree, 3000, 2000), make_input(shape, 2 * kArrivals, 0, 9), 1000,
                8, Level::portable, true);
        compare(shared_join(3000, 2000), make_input(shape, 2 * kSharedArrivals, 0, 9), 400, 8,
                Level::portable, true);
    }
}

TEST(workers_share_joins_of_all_kinds) {
    const auto compare_all = [&](std::size_t arrivals, std::uint32_t workers, const auto& join_with) {
        const Input input = make_input(Shape::uniform, arrivals, 30, 3);
        JoinSpec spec = join_with(1200);
        spec.self_join = true;
        compare(spec, input, 1024, workers, Level::portable);

        spec = join_with(1200);
        spec.on[0].ranges.push_back({offset(45), offset(300)});  // overlaps the first
        compare(spec, input, 1024, workers, Level::portable);

        spec = join_with(1200);
        spec.on.push_back({KeyType::int32, {{offset(0), offset(2)}}});
        spec.finals[0] = spec.finals[1] = true;
        compare(spec, input, 1024, workers, Level::portable);

        spec = join_with(0);
        spec.window.kind = WindowKind::time;
        spec.window.duration = 1500;
        compare(spec, input, 1024, workers, Level::portable);

        spec.window = {};
        spec.window.kind = WindowKind::event;
        spec.window.before = 700;
        spec.window.after = 400;
        spec.window.lateness = 5;
        spec.finals[0] = true;
        compare(spec, input, 1024, workers, Level::portable);
    };
    for (const std::uint32_t workers : {2u, 5u}) {
        compare_all(kArrivals, workers,
                    [](std::uint64_t rows) { return band_join(IndexKind::bucket_tree, rows, rows); });
        compare_all(kSharedArrivals, workers, [](std::uint64_t rows) { return shared_join(rows, rows); });
    }
}

namespace {

JoinSpec join_of(Strategy strategy) {
    if (strategy == Strategy::shared_index) return shared_join(600, 400);
    JoinSpec spec = band_join(IndexKind::bucket_tree, 600, 400);
    spec.strategy = strategy;
    spec.batch = 500;
    return spec;
}

constexpr Strategy kStrategies[] = {Strategy::phases, Strategy::shared_index, Strategy::round_robin,
                                    Strategy::subwindows};

// Positions of a join that has seen nearly 2^32 rows of each side wrap around soon; some arrivals are late.
void pass_two_to_the_32(Engine& engine, const Input& input, std::size_t step,
                        std::vector<std::int64_t>& out) {
    JoinState state = engine.state();
    for (SideState& side : state.sides) side.first = side.next = (std::uint64_t{1} << 32) - 900;
    const Stored none[2] = {};
    engine.load(state, none);
    for (std::size_t from = 0; from < input.keys.size(); from += step) {
        const Column keys{input.keys.data() + from, nullptr};
        Pairs pairs;
        engine.push(batch_of(input, from, std::min(step, input.keys.size() - from), &keys), &pairs);
        engine.check();
        out.insert(out.end(), pairs.left(), pairs.left() + pairs.size());
        out.insert(out.end(), pairs.right(), pairs.right() + pairs.size());
        out.insert(out.end(), engine.late().begin(), engine.late().end());
        out.push_back(-1);
    }
}

}  // namespace

TEST(workers_pass_position_two_to_the_32_with_late_arrivals) {
    Input input = make_input(Shape::uniform, 4000, 0, 21);
    for (std::int32_t& key : input.keys) key %= 5000;
    for (std::size_t i = 0; i < input.times.size(); i += 9) input.times[i] -= 40;
    for (const Strategy strategy : kStrategies) {
        JoinSpec spec = join_of(strategy);
        spec.window = {};
        spec.window.kind = WindowKind::event;
        spec.window.before = 500;
        spec.window.after = 300;
        spec.window.lateness = 20;
        spec.workers = 3;
        std::vector<std::int64_t> found, expected;
        pass_two_to_the_32(*make_engine(spec, Level::portable), input, 700, found);
        spec.strategy = Strategy::automatic;
        spec.workers = 1;
        const auto one = make_engine(spec, Level::portable);
        pass_two_to_the_32(*one, input, 700, expected);
        CHECK(found == expected);
        CHECK(one->stats().matches > 1000);
        CHECK(one->state().sides[0].next > std::uint64_t{1} << 32);
    }
}

TEST(memory_of_several_workers_is_counted) {
    const Input input = make_input(Shape::uniform, 40000, 0, 2);
    std::uint64_t bytes[2];
    for (const bool several : {false, true}) {
        JoinSpec spec = band_join(IndexKind::bucket_tree, 20000, 20000);
        spec.on[0].ranges.push_back({offset(60), offset(70)});  // or one worker would take another way
        spec.workers = several ? 4 : 1;
        const auto engine = make_engine(spec, Level::portable);
        for (std::size_t from = 0; from < 40000; from += 10000) {
            const Column part{input.keys.data() + from, nullptr};
            engine->push(batch_of(input, from, 10000, &part), nullptr);
        }
        bytes[several] = engine->stats().memory_bytes;
    }
    CHECK(bytes[1] > bytes[0] + 10000 * 2 * sizeof(std::uint32_t));  // the entries of the parts
}

#if defined(SLIDEJOIN_STRESS)
// A worker that fails, before or after any meeting, ends the push with its error; the join is broken then.
TEST(an_error_of_a_worker_ends_the_push) {
    const Input input = make_input(Shape::uniform, 3000, 0, 5);
    for (const Strategy strategy : kStrategies) {
        int failures = 0;
        for (int after = 1; after < 60; after += 1 + after / 4) {
            JoinSpec spec = join_of(strategy);
            spec.workers = 3;
            const auto engine = make_engine(spec, Level::portable);
            int refused = 0;
            for (std::size_t from = 0; from < 3000; from += 1000) {
                const Column keys{input.keys.data() + from, nullptr};
                Pairs pairs;
                const Batch batch = batch_of(input, from, 1000, &keys);
                fails_after = after;
                try {
                    engine->push(batch, &pairs);
                    fails_after = 0;
                    continue;
                } catch (const std::bad_alloc&) {
                    ++failures;
                }
                try {
                    engine->push(batch, &pairs);
                } catch (const BrokenJoin&) {
                    ++refused;
                }
                try {
                    engine->check();
                } catch (const BrokenJoin&) {
                    ++refused;
                }
                CHECK_EQUAL(refused, 2);
                break;
            }
        }
        CHECK(failures > 0 || strategy == Strategy::shared_index);  // which has no meetings
    }
}
#endif
