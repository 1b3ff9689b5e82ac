// The whole join, on every instruction set of this processor, compared with a nested loop of ten lines.
#include <limits>

#include "../engine.hpp"
#include "testing.hpp"

using namespace slidejoin;

struct Pair {
    std::int64_t left, right;
    bool operator==(const Pair&) const = default;
};

struct Input {
    std::vector<std::uint8_t> sides;
    std::vector<std::int32_t> keys;
    std::vector<std::int64_t> times;
};

static Input make_input(std::size_t count, unsigned seed, std::uint64_t right_is_one_in = 3) {
    testing::Random random(seed);
    Input input;
    std::int64_t time = -50;
    for (std::size_t i = 0; i < count; ++i) {
        input.sides.push_back(testing::below(random, right_is_one_in) == 0);
        input.keys.push_back(static_cast<std::int32_t>(testing::below(random, 60)) - 30);
        input.times.push_back(time += static_cast<std::int64_t>(testing::below(random, 3)));
    }
    return input;
}

static std::vector<Pair> by_definition(const Input& input, const WindowSpec& window, int lower, int upper,
                                       bool self_join) {
    std::vector<Pair> pairs;
    std::vector<std::size_t> rows[2];  // arrivals of each side
    for (std::size_t i = 0; i < input.keys.size(); ++i) {
        const int side = self_join ? 0 : input.sides[i];
        const auto& met = rows[self_join ? 0 : 1 - side];
        const std::uint64_t kept = (self_join ? 0 : 1 - side) == 0 ? window.left : window.right;
        for (std::size_t p = 0; p < met.size(); ++p) {
            if (window.kind == WindowKind::rows
                    ? p + kept < met.size()
                    : input.times[met[p]] < input.times[i] - static_cast<std::int64_t>(window.duration))
                continue;
            const auto matches = [&](int left, int right) {
                return left + lower <= right && right <= left + upper;
            };
            const int key = input.keys[i], partner = input.keys[met[p]];
            const auto own = static_cast<std::int64_t>(rows[side].size()),
                       other = static_cast<std::int64_t>(p);
            if (self_join) {
                if (matches(partner, key)) pairs.push_back({other, own});
                else if (matches(key, partner)) pairs.push_back({own, other});
            } else if (side == 0 ? matches(key, partner) : matches(partner, key)) {
                pairs.push_back(side == 0 ? Pair{own, other} : Pair{other, own});
            }
        }
        rows[side].push_back(i);
    }
    return pairs;
}

static Bound bound(int value) {
    return {BoundKind::sum, value < 0 ? -1 : 0, static_cast<std::uint64_t>(std::int64_t{value}), 0.0};
}

static WindowSpec rows(std::uint64_t left, std::uint64_t right) {
    WindowSpec spec;
    spec.left = left;
    spec.right = right;
    return spec;
}

static WindowSpec within(std::uint64_t duration) {
    WindowSpec spec;
    spec.kind = WindowKind::time;
    spec.duration = duration;
    return spec;
}

static WindowSpec interval(std::int64_t before_and_after) {
    WindowSpec spec;
    spec.kind = WindowKind::event;
    spec.before = spec.after = before_and_after;
    spec.lateness = 0;
    return spec;
}

#define SLIDEJOIN_KIND_OF(kind, ...) IndexKind::kind,
static constexpr IndexKind kIndexes[] = {SLIDEJOIN_INDEXES(SLIDEJOIN_KIND_OF)};
#undef SLIDEJOIN_KIND_OF

static JoinSpec join(IndexKind index, const WindowSpec& window, int lower, int upper, bool self_join,
                     std::uint32_t group) {
    JoinSpec spec;
    spec.on = {{KeyType::int32, {{bound(lower), bound(upper)}}}};
    spec.index = index;
    spec.options.min_entries = 32;
    spec.window = window;
    spec.self_join = self_join;
    spec.group = group;
    return spec;
}

// With index=auto, counting many matches changes the index, and listing them changes it again.
TEST(the_index_is_exchanged_without_a_trace) {
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        for (const WindowSpec& window : {rows(700, 900), within(1500)}) {
            JoinSpec spec = join(IndexKind::b_tree, window, -20, 20, false, 4096);
            const auto fixed = make_engine(spec, level);
            spec.automatic = true;
            const auto chosen = make_engine(spec, level);
            CHECK(chosen->index().kind == IndexKind::bucket_tree);
            Input input = make_input(60000, 7);
            for (std::int32_t& key : input.keys) key = key / 10 * 10;  // few keys, many of each
            std::uint64_t changes = 0;
            for (std::size_t from = 0, count = 0; from < input.keys.size(); from += count) {
                count = std::min<std::size_t>(from < 30000 ? 3000 : 37, input.keys.size() - from);
                const Column keys{input.keys.data() + from, nullptr};
                const Batch batch{input.sides.data() + from, &keys, input.times.data() + from, nullptr,
                                  count};
                if (from < 30000) {
                    CHECK_EQUAL(chosen->push(batch, nullptr), fixed->push(batch, nullptr));
                } else {
                    Pairs found, expected;
                    chosen->push(batch, &found);
                    fixed->push(batch, &expected);
                    CHECK_EQUAL(found.size(), expected.size());
                    CHECK(std::equal(found.left(), found.left() + found.size(), expected.left()));
                    CHECK(std::equal(found.right(), found.right() + found.size(), expected.right()));
                }
                if (count == 3000) chosen->check();
                if (from == 27000) CHECK(chosen->index().kind == IndexKind::bi_sort);
                changes = chosen->index().changes;
            }
            CHECK(chosen->index().kind == IndexKind::im_tree);
            CHECK_EQUAL(changes, 2u);
        }
    }
}

// The window of 20,000 tuples shrinks to the last 50: memory shrinks with it, and results stay exact.
TEST(a_window_that_shrinks_gives_its_memory_back) {
    constexpr std::size_t kFull = 20000, kKept = 50;
    Input input = make_input(kFull + kKept + 1, 11);
    for (std::size_t i = 0; i < input.keys.size(); ++i) {
        input.keys[i] = static_cast<std::int32_t>(i * 7919 % 30011);
        input.times[i] = i < kFull ? 0 : i < kFull + kKept ? 1000 : 1500;
    }
    input.keys.back() = input.keys[kFull + kKept / 2] + 1;
    input.sides.back() = !input.sides[kFull + kKept / 2];
    for (const IndexKind index : kIndexes) {
        for (const std::size_t each : {0, 1, 2, 3}) {
            const WindowSpec window = each < 2 ? within(1000) : interval(900);
            const std::size_t step = each % 2 ? input.keys.size() : 1;
            const auto engine = make_engine(join(index, window, -1, 1, false, 4096), Level::portable);
            std::uint64_t full = 0, found = 0;
            const auto push = [&](std::size_t from, std::size_t count) {
                const Column keys{input.keys.data() + from, nullptr};
                found = engine->push(
                    {input.sides.data() + from, &keys, input.times.data() + from, nullptr, count}, nullptr);
            };
            push(0, kFull);
            full = engine->stats().memory_bytes;
            for (std::size_t i = kFull; i < kFull + kKept; i += step)
                push(i, std::min(step, kFull + kKept - i));
            push(kFull + kKept, 1);
            CHECK_EQUAL(engine->stats().stored[0] + engine->stats().stored[1], kKept + 1);
            CHECK(engine->stats().memory_bytes < full / 4);
            CHECK(found >= 1);
            engine->check();
        }
    }
}

// The other side is empty: there is nothing to find and nothing to insert.
TEST(a_batch_of_one_side) {
    const Input input = make_input(100, 4, 1000000);
    for (const Level level : kLevels)
        for (const IndexKind index : kIndexes) {
            if (!supported(level)) continue;
            const auto engine = make_engine(join(index, rows(40, 40), -2, 2, false, 4096), level);
            const Column keys{input.keys.data(), nullptr};
            Pairs pairs;
            CHECK_EQUAL(engine->push({input.sides.data(), &keys, nullptr, nullptr, 100}, &pairs), 0u);
            CHECK_EQUAL(pairs.size(), 0u);
            engine->check();
        }
}

// Arrivals of one push are processed as if one after the other.
TEST(tuple_by_tuple_in_one_push) {
    const Input input = make_input(400, 5);
    const auto expected = by_definition(input, rows(30, 50), -5, 5, false);
    for (const Level level : kLevels)
        for (const IndexKind index : kIndexes) {
            if (!supported(level)) continue;
            const auto engine = make_engine(join(index, rows(30, 50), -5, 5, false, 1), level);
            const Column keys{input.keys.data(), nullptr};
            Pairs pairs;
            engine->push({input.sides.data(), &keys, nullptr, nullptr, input.keys.size()}, &pairs);
            CHECK_EQUAL(pairs.size(), expected.size());
            for (std::size_t i = 0; i < pairs.size(); ++i)
                CHECK((Pair{pairs.left()[i], pairs.right()[i]} == expected[i]));
        }
}

TEST(all_levels_indexes_windows_and_groups) {
    const Input input = make_input(700, 1);
    const WindowSpec windows[] = {rows(40, 40), rows(3, 90), rows(1000, 1000), within(30)};
    for (const WindowSpec& window : windows)
        for (const bool self_join : {false, true}) {
            if (self_join && window.left != window.right) continue;
            for (const auto& [lower, upper] : {std::pair{-2, 3}, {0, 0}, {5, 9}, {-100, 100}}) {
                const auto expected = by_definition(input, window, lower, upper, self_join);
                for (const Level level : kLevels) {
                    if (!supported(level)) continue;
                    for (const IndexKind index : kIndexes)
                        for (const std::uint32_t group : {1u, 5u, 16u, 17u, 200u}) {
                            const auto engine =
                                make_engine(join(index, window, lower, upper, self_join, group), level);
                            std::vector<Pair> found;
                            for (std::size_t start = 0; start < input.keys.size(); start += 111) {
                                const std::size_t count =
                                    std::min<std::size_t>(111, input.keys.size() - start);
                                Pairs pairs;
                                const Column keys{input.keys.data() + start, nullptr};
                                engine->push({input.sides.data() + start, &keys, input.times.data() + start,
                                              nullptr, count},
                                             &pairs);
                                for (std::size_t i = 0; i < pairs.size(); ++i)
                                    found.push_back({pairs.left()[i], pairs.right()[i]});
                                engine->check();
                            }
                            CHECK(found == expected);
                            CHECK_EQUAL(engine->stats().matches, expected.size());
                        }
                }
            }
        }
}

// One side has forty times as many tuples as the other: its index drops many at once, or one at a time.
TEST(sides_of_unequal_rates) {
    const Input input = make_input(3000, 2, 41);
    for (const WindowSpec& window : {rows(900, 5), rows(5, 900), within(700)}) {
        const auto expected = by_definition(input, window, -2, 3, false);
        for (const Level level : kLevels) {
            if (!supported(level)) continue;
            for (const IndexKind index : kIndexes)
                for (const std::uint32_t group : {1u, 16u, 300u}) {
                    const auto engine = make_engine(join(index, window, -2, 3, false, group), level);
                    Pairs pairs;
                    const Column keys{input.keys.data(), nullptr};
                    engine->push({input.sides.data(), &keys, input.times.data(), nullptr, input.keys.size()},
                                 &pairs);
                    engine->check();
                    CHECK_EQUAL(pairs.size(), expected.size());
                    for (std::size_t i = 0; i < pairs.size(); ++i)
                        CHECK((Pair{pairs.left()[i], pairs.right()[i]}) == expected[i]);
                }
        }
    }
}

TEST(a_refused_batch_changes_nothing) {
    const auto engine = make_engine(join(IndexKind::b_tree, within(10), 0, 0, false, 16), Level::portable);
    const std::uint8_t sides[] = {0, 1, 0, 2};
    const std::int32_t keys[] = {1, 1, 1, 1};
    const std::int64_t times[] = {5, 6, 4, 7};
    const Column column{keys, nullptr};
    const auto refused = [&](std::size_t count) {
        try {
            engine->push({sides, &column, times, nullptr, count}, nullptr);
        } catch (const BatchError& error) {
            return error.row;
        }
        return std::size_t{99};
    };
    CHECK_EQUAL(refused(4), 3u);
    CHECK_EQUAL(refused(3), 2u);
    CHECK_EQUAL(engine->stats().rows[0] + engine->stats().rows[1], 0u);
    CHECK_EQUAL(engine->push({sides, &column, times, nullptr, 2}, nullptr), 1u);
    CHECK_EQUAL(engine->push({sides, &column, times + 3, nullptr, 1}, nullptr), 1u);
    CHECK_EQUAL(refused(1), 0u);  // 5 after 7
}

TEST(null_keys_take_a_place_and_match_nothing) {
    for (const IndexKind index : kIndexes) {
        const auto engine = make_engine(join(index, rows(3, 3), 0, 0, false, 1), Level::portable);
        const std::uint8_t sides[] = {0, 0, 1, 1, 0, 0, 1};
        const std::int32_t keys[] = {1, 1, 1, 1, 1, 1, 1};
        const bool nulls[] = {true, false, false, true, false, true, false};
        const Column column{keys, nulls};
        // 1 from the first right tuple, 1 from the third left one, 2 from the last: positions 1 and 2 of 1,
        // 2, 3.
        CHECK_EQUAL(engine->push({sides, &column, nullptr, nullptr, 7}, nullptr), 4u);
        engine->check();
    }
}

TEST(pairs_grow_and_fit) {
    Pairs pairs;
    for (int i = 0; i < 1000; ++i) {
        pairs.reserve(3);
        for (std::size_t k = 0; k < 2; ++k)
            pairs.left()[pairs.size() + k] = pairs.right()[pairs.size() + k] = i;
        pairs.add(2);
    }
    pairs.fit();
    const Pairs moved = std::move(pairs);
    CHECK_EQUAL(moved.size(), 2000u);
    CHECK_EQUAL(moved.left()[1999], 999);
    CHECK_EQUAL(moved.right()[0], 0);
}
