// Memory runs out at every allocation in turn. A structure can still be destroyed without a leak; a join
// reports that it is broken, or continues with correct results.
#include "../columns.hpp"
#include "../target.hpp"
#include "failing_allocator.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "index_cases.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;
using testing::FailingAllocations;

// Small subwindows and merges, so that memory is allocated and freed often.
static IndexOptions busy_options() {
    IndexOptions options;
    options.min_entries = 64;
    options.chain_length = 4;
    options.subwindows = options.sorted_subwindows = 4;
    options.buffer = 16;
    options.merge_ratio = 0.25;
    return options;
}

// Runs attempt(n), which fails at the n-th allocation, for every n at first and for fewer of them later,
// until an attempt succeeds. Returns the number of failed runs.
template <class Attempt>
static int at_every_allocation(Attempt attempt) {
    int failures = 0;
    for (std::uint64_t n = 1; attempt(n); n += 1 + n / 20) ++failures;
    return failures;
}

template <class Key>
struct Steps {
    static constexpr std::size_t kWindow = 500;
    std::vector<Entry<Key>> entries;
    std::vector<Task<Key>> tasks;
    std::vector<std::uint32_t> order;

    // Keys that are uniform for a while, then all equal, then drift.
    Steps() {
        testing::Random random(1);
        for (std::uint32_t i = 0; i < 3000; ++i)
            entries.push_back({i < 1200   ? static_cast<Key>(random())
                               : i < 1600 ? Key{9}
                                          : static_cast<Key>(i * 100 + testing::below(random, 5000)),
                               i});
        for (std::uint32_t i = 0; i < 40; ++i) {
            const Key low = static_cast<Key>(~Key{0} / 48 * i);
            tasks.push_back({{low, static_cast<Key>(low + ~Key{0} / 8)}, {0, 0}, 0, false, 0, 0});
            order.push_back(i);
        }
    }
};

// Tuple by tuple, in groups and in batches, in turn.
template <class Index, class Key>
static std::size_t live(Index& index, Steps<Key>& steps) {
    MatchList list;
    MatchCount count;
    std::size_t found = 0;
    const std::size_t sizes[] = {1, 1, 16, 1, 7, 300, 1, 40};
    std::size_t turn = 0;
    for (std::size_t i = 0; i < steps.entries.size(); ++turn) {
        const std::size_t size = std::min(sizes[turn % std::size(sizes)], steps.entries.size() - i);
        insert_sorting(index, &steps.entries[i], size);
        i += size;
        const std::size_t first = i > Steps<Key>::kWindow ? i - Steps<Key>::kWindow : 0;
        for (Task<Key>& task : steps.tasks)
            task.visible = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(i - first)};
        list.clear();
        count.clear();
        const std::size_t asked = std::min(size, steps.tasks.size());
        probe_all(index, steps.tasks.data(), steps.order.data(), asked, size > kGroup, list);
        probe_all(index, steps.tasks.data(), steps.order.data(), asked, size > kGroup, count);
        found += list.size() + count.size();
        index.forget(static_cast<std::uint32_t>(first));
    }
    return found;
}

template <class Key>
static void check_structure(IndexKind kind) {
    Steps<Key> steps;
    AnyIndex<Key> plain(IndexKind::nested_loop, {});
    const std::size_t expected = live(plain, steps);
    const IndexOptions options = busy_options();
    const int failures = at_every_allocation([&](std::uint64_t n) {
        const FailingAllocations failing(n);
        try {
            AnyIndex<Key> index(kind, options);
            CHECK_EQUAL(live(index, steps), expected);
            index.check(static_cast<std::uint32_t>(steps.entries.size() - Steps<Key>::kWindow),
                        static_cast<std::uint32_t>(steps.entries.size()));
        } catch (const std::bad_alloc&) {
            CHECK(failing.failed());
            return true;
        }
        CHECK(!failing.failed());
        return false;
    });
    CHECK(failures > 0);
}

TEST(memory_of_a_structure_runs_out) {
    for (const IndexKind kind : kAllKinds) {
        check_structure<std::uint32_t>(kind);
        check_structure<std::uint64_t>(kind);
    }
}

TEST(memory_of_a_result_runs_out) {
    const int failures = at_every_allocation([](std::uint64_t n) {
        const FailingAllocations failing(n);
        ArrowArray out{};
        try {
            auto result = std::make_unique<ArrowResult>(3, 1);
            for (int i = 0; i < 3; ++i) {
                auto column = std::make_unique<ArrowResult>(3, 2);
                column->allocate<std::int64_t>(1, 3);
                result->add(std::move(column));
            }
            ArrowResult::hand_over(std::move(result), out);
        } catch (const std::bad_alloc&) {
            CHECK(failing.failed());
            CHECK(!out.release);
            return true;
        }
        CHECK_EQUAL(out.n_children, 3);
        ArrowArray moved = *out.children[1];  // a child may outlive its parent
        out.children[1]->release = nullptr;
        out.release(&out);
        CHECK(!out.release);
        moved.release(&moved);
        return false;
    });
    CHECK(failures > 5);
}

// --- The whole join ---

struct Stream {
    std::vector<std::uint8_t> sides;
    std::vector<std::int32_t> keys;
    std::vector<std::int64_t> times;
};

static Stream make_stream() {
    testing::Random random(2);
    Stream stream;
    for (std::int64_t i = 0; i < 2400; ++i) {
        stream.sides.push_back(random() & 1);
        stream.keys.push_back(static_cast<std::int32_t>(testing::below(random, 500)));
        stream.times.push_back(i + (i % 7 == 0 ? -3 : 0));
    }
    std::sort(stream.times.begin(), stream.times.end());
    return stream;
}

static Bound bound(std::int64_t value) {
    return {BoundKind::sum, value < 0 ? -1 : 0, static_cast<std::uint64_t>(value), 0.0};
}

static JoinSpec make_spec(IndexKind index, WindowKind window, std::uint32_t group) {
    JoinSpec spec;
    spec.on = {{KeyType::int32, {{bound(-1), bound(1)}}}};
    spec.index = index;
    spec.options = busy_options();
    spec.group = group;
    spec.window.kind = window;
    spec.window.left = spec.window.right = 300;
    spec.window.duration = 600;
    spec.window.before = spec.window.after = 300;
    return spec;
}

using Found = std::vector<std::pair<std::int64_t, std::int64_t>>;

// The pairs of a run in pushes of 200. A push that runs out of memory is repeated with enough memory. It then
// succeeds or reports that the join is broken; in that case nothing is returned.
static bool run(const JoinSpec& spec, Level level, const Stream& stream, std::uint64_t fail_at, Found& found,
                bool& failed) {
    std::unique_ptr<Engine> engine;
    std::uint64_t done = 0;  // allocations
    failed = false;
    const auto attempt = [&](auto action) {
        const FailingAllocations failing(failed || !fail_at ? 0 : fail_at - done);
        try {
            action();
        } catch (const std::bad_alloc&) {
            CHECK(failing.failed());
            failed = true;
            return false;
        }
        CHECK(!failing.failed());
        done += failing.count();
        return true;
    };
    if (!attempt([&] { engine = make_engine(spec, level); })) engine = make_engine(spec, level);
    for (std::size_t start = 0; start < stream.keys.size(); start += 200) {
        const Column keys{stream.keys.data() + start, nullptr};
        const Batch batch{stream.sides.data() + start, &keys, stream.times.data() + start, nullptr, 200};
        Pairs pairs;
        if (!attempt([&] { engine->push(batch, &pairs); })) {
            pairs = Pairs();
            int refused = 0;
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
            CHECK(refused != 1);
            if (refused) return false;
        }
        for (std::size_t i = 0; i < pairs.size(); ++i) found.push_back({pairs.left()[i], pairs.right()[i]});
        engine->check();
    }
    return true;
}

static void check_join(IndexKind index) {
    const Stream stream = make_stream();
    Level level = Level::portable;
    for (const Level each : kLevels)
        if (supported(each)) level = each;
    const std::pair<WindowKind, std::uint32_t> windows_and_groups[] = {
        {WindowKind::rows, 1}, {WindowKind::rows, 1000}, {WindowKind::time, 16}, {WindowKind::event, 200}};
    for (const auto& [window, group] : windows_and_groups) {
        const JoinSpec spec = make_spec(index, window, group);
        JoinSpec plain = spec;
        plain.index = IndexKind::nested_loop;
        Found expected;
        bool failed = false;
        CHECK(run(plain, level, stream, 0, expected, failed));
        CHECK(!expected.empty());
        const int failures = at_every_allocation([&](std::uint64_t n) {
            Found found;
            if (run(spec, level, stream, n, found, failed)) CHECK(found == expected);
            return failed;
        });
        CHECK(failures > 0);
    }
}

TEST(memory_of_a_join_runs_out) {
    for (const IndexKind kind : kAllKinds) check_join(kind);
}

// A push without memory for the indexes of more workers is refused before it changes anything.
TEST(memory_for_more_workers_runs_out) {
    const Stream stream = make_stream();
    const Column keys{stream.keys.data(), nullptr};
    const Batch batch{stream.sides.data(), &keys, stream.times.data(), nullptr, 200};
    for (const Strategy strategy : {Strategy::round_robin, Strategy::subwindows}) {
        JoinSpec spec = make_spec(IndexKind::bi_sort, WindowKind::rows, 1000);
        spec.strategy = strategy;
        const auto engine = make_engine(spec, Level::portable);
        engine->push(batch, nullptr);
        engine->set_workers(5);
        bool refused = false;
        try {
            const FailingAllocations failing(1);
            engine->push(batch, nullptr);
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        CHECK(refused);
        engine->check();
        CHECK(engine->push(batch, nullptr) > 0);
    }
}

// A join that lacks the memory to replace its index keeps the present one and loses nothing.
TEST(memory_for_an_exchange_runs_out) {
    testing::Random random(3);
    Stream stream;
    for (std::int64_t i = 0; i < 30000; ++i) {
        stream.sides.push_back(random() & 1);
        stream.keys.push_back(static_cast<std::int32_t>(testing::below(random, 60)));
    }
    JoinSpec spec = make_spec(IndexKind::b_tree, WindowKind::rows, 4096);
    spec.on[0].ranges = {{bound(-20), bound(20)}};
    spec.window.left = spec.window.right = 800;
    spec.automatic = true;
    constexpr std::size_t kPush = 2000;
    // Counts the matches of each push. Memory fails in push `failing` at allocation `at`, if there are so
    // many.
    bool failed = false;
    const auto run = [&](std::size_t pushes, std::size_t failing, std::uint64_t at,
                         std::vector<std::uint64_t>& counts) {
        const auto engine = make_engine(spec, Level::portable);
        std::vector<std::uint64_t> changes;
        for (std::size_t push = 0; push < pushes; ++push) {
            const Column keys{stream.keys.data() + push * kPush, nullptr};
            const Batch batch{stream.sides.data() + push * kPush, &keys, nullptr, nullptr, kPush};
            std::uint64_t count = 0;
            {
                const FailingAllocations allocations(push == failing ? at : 0);
                count = engine->push(batch, nullptr);
                failed |= allocations.failed();
            }
            counts.push_back(count);
            changes.push_back(engine->index().changes);
        }
        engine->check();
        return changes;
    };
    std::vector<std::uint64_t> expected;
    const auto changes = run(stream.keys.size() / kPush, 0, 0, expected);
    const auto exchange = static_cast<std::size_t>(
        std::find(changes.begin(), changes.end(), std::uint64_t{1}) - changes.begin());
    const std::size_t pushes = exchange + 3;
    CHECK(pushes <= changes.size());
    expected.resize(pushes);
    int stayed = 0;
    failed = true;
    for (std::uint64_t at = 1; failed; ++at) {
        std::vector<std::uint64_t> counts;
        failed = false;
        try {
            const auto seen = run(pushes, exchange, at, counts);
            stayed += seen[exchange] == 0;
        } catch (const std::bad_alloc&) {
            failed = true;  // the push itself needed it
            continue;
        }
        CHECK(counts == expected);
    }
    CHECK(stayed > 0);
}

SLIDEJOIN_TARGET_END
