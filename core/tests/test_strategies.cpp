// Workers with indexes of their own, round-robin and by subwindows: always the pairs of one thread, in the
// same order. Run under ThreadSanitizer, too.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "worker_cases.hpp"

using namespace slidejoin;

namespace {

// Pushes of fewer than 256 arrivals are joined by one thread, where there is nothing to delay.
#if defined(SLIDEJOIN_STRESS)
constexpr std::size_t kRows = 1500;
constexpr std::size_t kLeastPush = 256;
#else
constexpr std::size_t kRows = 3000;
constexpr std::size_t kLeastPush = 1;
#endif

constexpr Strategy kLocal[] = {Strategy::round_robin, Strategy::subwindows};

// So much of an input is used: SLIDEJOIN_TESTS=long takes more, a program with random delays less.
std::size_t part_of(std::size_t count) {
    const char* const form = std::getenv("SLIDEJOIN_TESTS");
    if (form && std::strcmp(form, "long") == 0) return 30 * count;
#if defined(SLIDEJOIN_STRESS)
    return count / 4;
#else
    return count;
#endif
}

JoinSpec local_join(Strategy strategy, IndexKind index, std::uint64_t left, std::uint64_t right) {
    JoinSpec spec = band_join(index, left, right);
    spec.strategy = strategy;
    spec.batch = 700;
    return spec;
}

// With probe-only pushes among the others.
void compare_local(const JoinSpec& spec, const Input& input, std::size_t step, std::uint32_t workers,
                   Level level, bool restless = false) {
    compare(spec, input, step, workers, level, restless, true);
}

// Not `equal`, of which every tuple matches every other.
constexpr Shape kAllShapes[] = {Shape::uniform,  Shape::few,      Shape::rising, Shape::falling,
                                Shape::drifting, Shape::sawtooth, Shape::ends,   Shape::one_sided};

}  // namespace

TEST(local_indexes_give_the_pairs_of_one_thread) {
    for (const Strategy strategy : kLocal)
        for (const Shape shape : kAllShapes)
            for (const std::uint32_t workers : {1u, 2u, 3u, 8u}) {
                const Input input = make_input(shape, kRows, workers == 3 ? 100 : 0, workers);
                compare_local(local_join(strategy, IndexKind::b_tree, 900, 400), input, kRows / 4, workers,
                              Level::portable);
            }
}

TEST(local_indexes_of_every_kind) {
    for (const Strategy strategy : kLocal)
        for (const IndexKind index : kIndexes) {
            compare_local(local_join(strategy, index, 1500, 800), make_input(Shape::uniform, 6000, 50, 5),
                          1024, 4, Level::portable);
            compare_local(local_join(strategy, index, 300, 300), make_input(Shape::drifting, 4000, 0, 6), 900,
                          3, Level::portable);
        }
}

TEST(local_indexes_on_every_instruction_set) {
    for (const Strategy strategy : kLocal)
        for (const Level level : kLevels)
            if (supported(level))
                compare_local(local_join(strategy, IndexKind::bi_sort, 2000, 3000),
                              make_input(Shape::uniform, 12000, 0, 4), 3000, 3, level);
}

TEST(local_indexes_where_everything_matches) {
    for (const Strategy strategy : kLocal)
        for (const IndexKind index : {IndexKind::b_tree, IndexKind::bi_sort})
            compare_local(local_join(strategy, index, 300, 350), make_input(Shape::equal, 2000, 9, 4), 700, 3,
                          Level::portable);
}

// Several groups for each push, so that the next one is admitted while this one is joined; and pushes of a
// few arrivals, which the caller joins alone.
TEST(local_indexes_with_windows_smaller_than_a_push) {
    for (const Strategy strategy : kLocal)
        for (const std::size_t step : {kLeastPush, kLeastPush + 6, kLeastPush + 99, std::size_t{4000}})
            for (const std::uint64_t window : {std::uint64_t{3}, std::uint64_t{150}, std::uint64_t{500}})
                compare_local(local_join(strategy, IndexKind::b_tree, window, 2 * window),
                              make_input(Shape::few, part_of(std::min<std::size_t>(300 * step, 8000)), 40, 8),
                              step, 4, Level::portable);
}

TEST(local_indexes_while_workers_come_and_go) {
    for (const Strategy strategy : kLocal)
        for (const IndexKind index : {IndexKind::b_tree, IndexKind::bi_sort, IndexKind::bucket_tree})
            for (const std::size_t step : {kLeastPush + 89, std::size_t{1000}, std::size_t{2600}})
                compare_local(local_join(strategy, index, 3000, 2000),
                              make_input(Shape::uniform, part_of(13000), 0, 9), step, 8, Level::portable,
                              true);
}

TEST(local_indexes_in_joins_of_all_kinds) {
    const Input input = make_input(Shape::uniform, kRows, 30, 3);
    for (const Strategy strategy : kLocal)
        for (const std::uint32_t workers : {2u, 5u})
            for (const std::size_t step : {kLeastPush + 59, kRows / 2}) {
                const JoinSpec plain = local_join(strategy, IndexKind::b_tree, 700, 700);
                JoinSpec spec = plain;
                spec.self_join = true;
                compare_local(spec, input, step, workers, Level::portable);

                spec = plain;
                spec.on[0].ranges.push_back({offset(45), offset(300)});  // overlaps the first
                compare_local(spec, input, step, workers, Level::portable);

                spec.on.push_back({KeyType::int32, {{offset(0), offset(2)}}});
                compare_local(spec, input, step, workers, Level::portable);
                spec.self_join = true;
                compare_local(spec, input, step, workers, Level::portable);

                spec = plain;
                spec.on.push_back({KeyType::int32, {{offset(0), offset(2)}}});
                spec.finals[0] = spec.finals[1] = true;
                compare_local(spec, input, step, workers, Level::portable);

                spec = plain;
                spec.window = {};
                spec.window.kind = WindowKind::time;
                spec.window.duration = 900;
                compare_local(spec, input, step, workers, Level::portable);

                spec.window.kind = WindowKind::event;
                spec.window.before = 700;
                spec.window.after = 400;
                spec.window.lateness = 5;
                compare_local(spec, input, step, workers, Level::portable);
                spec.finals[0] = true;
                compare_local(spec, input, step, workers, Level::portable);
            }
}

#if !defined(SLIDEJOIN_STRESS)  // whose program has not all indexes
TEST(local_indexes_that_the_join_chooses) {
    for (const Strategy strategy : kLocal) {
        JoinSpec spec = local_join(strategy, IndexKind::b_tree, 700, 900);
        spec.automatic = true;
        compare_local(spec, make_input(Shape::few, 30000, 0, 2), 2500, 3, Level::portable, true);
        const auto engine = make_engine(spec, Level::portable);
        CHECK(engine->strategy() == strategy);
    }
}
#endif

TEST(batches_that_close_by_time) {
    for (const std::uint64_t microseconds : {1u, 50u, 1000000u}) {
        JoinSpec spec = local_join(Strategy::subwindows, IndexKind::bi_sort, 2000, 2000);
        spec.batch_us = microseconds;
        compare_local(spec, make_input(Shape::uniform, 12000, 0, 2), 4000, 3, Level::portable);
    }
}

namespace {

// The matches of a batch in which each arrival may have parts of runs.
class Mirror {
  public:
    explicit Mirror(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

    std::vector<std::pair<std::int64_t, std::int64_t>> push(const Batch& batch, bool self_join,
                                                            std::size_t* parts) {
        RangeResult result;
        const std::uint64_t count = engine_->ranges(batch, result);
        for (RangeResult::NumberedRun& run : result.runs) runs_[run.number] = std::move(run.positions);
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        for (std::size_t i = 0; i < result.probe.size(); ++i) {
            CHECK(i == 0 || result.probe[i - 1] <= result.probe[i]);
            const auto row = static_cast<std::size_t>(result.probe[i]);
            const auto& run = runs_.at(static_cast<std::uint64_t>(result.run[i]));
            const bool right = self_join || batch.sides[row];
            for (std::int64_t at = result.start[i]; at < result.end[i]; ++at) {
                const std::int64_t own = result.positions[row], met = run.at(static_cast<std::size_t>(at));
                pairs.emplace_back(right ? met : own, right ? own : met);
            }
        }
        for (std::size_t i = 0; i < result.pairs.size(); ++i)
            pairs.emplace_back(result.pairs.left()[i], result.pairs.right()[i]);
        CHECK(std::is_sorted(result.arrival.begin(), result.arrival.end()));
        CHECK_EQUAL(result.arrival.size(), result.pairs.size());
        for (const std::uint64_t number : result.gone) CHECK_EQUAL(runs_.erase(number), std::size_t{1});
        CHECK_EQUAL(pairs.size(), count);
        *parts += result.probe.size();
        std::sort(pairs.begin(), pairs.end());
        return pairs;
    }

    Engine& engine() { return *engine_; }

  private:
    std::unique_ptr<Engine> engine_;
    std::map<std::uint64_t, std::vector<std::int64_t>> runs_;
};

void compare_ranges(JoinSpec spec, const Input& input, std::size_t step, std::uint32_t workers) {
    const Strategy strategy = std::exchange(spec.strategy, Strategy::automatic);
    Mirror one(make_engine(spec, Level::portable));
    spec.strategy = strategy;
    spec.workers = workers;
    Mirror several(make_engine(spec, Level::portable));
    testing::Random random(step);
    std::size_t parts = 0, ignored = 0;
    for (std::size_t from = 0; from < input.keys.size(); from += step) {
        const std::size_t count = std::min(step, input.keys.size() - from);
        const Column keys[] = {{input.keys.data() + from, nullptr}, {input.others.data() + from, nullptr}};
        const Batch batch = batch_of(input, from, count, keys);
        several.engine().set_workers(1 + static_cast<std::uint32_t>(testing::below(random, workers)));
        CHECK(several.push(batch, spec.self_join, &parts) == one.push(batch, spec.self_join, &ignored));
        several.engine().check();
    }
    if (spec.index == IndexKind::bi_sort && spec.on.size() == 1 && !spec.self_join) CHECK(parts > 0);
}

}  // namespace

TEST(workers_report_parts_of_runs) {
    const Input input = make_input(Shape::few, kRows * 5 / 6, 0, 12);
    for (const Strategy strategy : kLocal)
        for (const IndexKind index : {IndexKind::bi_sort, IndexKind::b_tree})
            for (const std::size_t step : {kLeastPush + 39, kRows / 3}) {
                JoinSpec spec = local_join(strategy, index, kRows / 6, kRows / 8);
                compare_ranges(spec, input, step, 4);
                spec.self_join = true;
                compare_ranges(spec, input, step, 4);
                spec.self_join = false;
                spec.on.push_back({KeyType::int32, {{offset(0), offset(2)}}});
                compare_ranges(spec, input, step, 3);
            }
}

// A new join goes on where another one stands.
TEST(local_indexes_are_restored) {
    const Input input = make_input(Shape::uniform, 9000, 0, 31);
    for (const Strategy strategy : kLocal)
        for (const bool self_join : {false, true}) {
            JoinSpec spec = local_join(strategy, IndexKind::bi_sort, 1200, 1200);
            spec.self_join = self_join;
            spec.workers = 3;
            auto several = make_engine(spec, Level::portable);
            spec.strategy = Strategy::automatic;
            spec.workers = 1;
            const auto one = make_engine(spec, Level::portable);
            spec.strategy = strategy;
            std::vector<std::int32_t> keys_of[2];
            for (std::size_t from = 0; from < input.keys.size(); from += 1500) {
                const Column keys{input.keys.data() + from, nullptr};
                Pairs found, expected;
                several->push(batch_of(input, from, 1500, &keys), &found);
                one->push(batch_of(input, from, 1500, &keys), &expected);
                CHECK_EQUAL(found.size(), expected.size());
                CHECK(std::equal(found.left(), found.left() + found.size(), expected.left()));
                CHECK(std::equal(found.right(), found.right() + found.size(), expected.right()));
                for (std::size_t i = from; i < from + 1500; ++i)
                    keys_of[self_join ? 0 : input.sides[i]].push_back(input.keys[i]);
                const JoinState state = several->state();
                Column stored_keys[2];
                Stored stored[2];
                std::vector<std::uint8_t> unseen[2];
                for (int side = 0; side < 2; ++side) {
                    const SideState& each = state.sides[side];
                    unseen[side] = several->unseen(side, each.first, each.next);
                    stored_keys[side] = {keys_of[side].data() + each.first, nullptr};
                    stored[side] = {{nullptr, &stored_keys[side], nullptr, nullptr, each.next - each.first},
                                    reinterpret_cast<const bool*>(unseen[side].data())};
                }
                spec.workers = 1 + static_cast<std::uint32_t>(from / 1500) % 4;
                several = make_engine(spec, Level::portable);
                several->load(state, stored);
                several->check();
            }
        }
}

#if !defined(SLIDEJOIN_STRESS)  // nothing is different there
namespace {

// Pushes rows [from, to) of an input, by 500.
void push_rows(Engine& engine, const Input& input, std::size_t from, std::size_t to) {
    for (; from < to; from += 500) {
        const Column keys{input.keys.data() + from, nullptr};
        engine.push(batch_of(input, from, 500, &keys), nullptr);
    }
}

}  // namespace

// The size of a subwindow follows from the rows that the window holds, not from their positions.
TEST(subwindows_of_a_restored_join_have_their_size) {
    const Input input = make_input(Shape::uniform, 6000, 0, 7);
    JoinSpec spec = local_join(Strategy::subwindows, IndexKind::bi_sort, 1000, 1000);
    spec.workers = 2;
    const auto fresh = make_engine(spec, Level::portable), restored = make_engine(spec, Level::portable);
    JoinState state = restored->state();
    Stored stored[2];
    const Column keys{input.keys.data(), nullptr};
    const bool unseen[1000] = {};
    for (int side = 0; side < 2; ++side) {
        state.sides[side].first = 50'000'000;
        state.sides[side].next = state.sides[side].first + 1000;
        stored[side] = {{nullptr, &keys, nullptr, nullptr, 1000}, unseen};
    }
    restored->load(state, stored);
    push_rows(*fresh, input, 0, 6000);
    push_rows(*restored, input, 0, 6000);
    CHECK(restored->stats().memory_bytes < 2 * fresh->stats().memory_bytes);
}

TEST(workers_that_go_take_their_memory_along) {
    const Input input = make_input(Shape::uniform, 60000, 0, 8);
    for (const Strategy strategy : kLocal) {
        JoinSpec spec = local_join(strategy, IndexKind::b_tree, 10000, 10000);
        spec.options = {};
        const auto always_one = make_engine(spec, Level::portable);
        spec.workers = 8;
        const auto fewer = make_engine(spec, Level::portable);
        push_rows(*always_one, input, 0, 60000);
        push_rows(*fewer, input, 0, 30000);
        fewer->set_workers(1);
        push_rows(*fewer, input, 30000, 60000);
        fewer->check();
        CHECK(fewer->stats().memory_bytes < always_one->stats().memory_bytes * 3 / 2);
    }
}
#endif
