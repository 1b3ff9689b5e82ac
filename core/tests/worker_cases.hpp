// Joins by several threads, compared with the join by one: inputs of many shapes, and what must be the same.
#pragma once

#include <limits>
#include <utility>

#include "../engine.hpp"
#include "testing.hpp"

namespace slidejoin {

struct Input {
    std::vector<std::uint8_t> sides;
    std::vector<std::int32_t> keys, others;
    std::vector<std::int64_t> times;
    std::vector<std::uint8_t> nulls;  // as bool
};

enum class Shape { uniform, few, equal, rising, falling, drifting, sawtooth, ends, one_sided };
inline constexpr Shape kShapes[] = {Shape::uniform, Shape::few,      Shape::rising,
                                    Shape::falling, Shape::drifting, Shape::one_sided};

inline Input make_input(Shape shape, std::size_t count, std::uint64_t nulls_in, unsigned seed) {
    testing::Random random(seed);
    Input input;
    std::int64_t time = 0;
    constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(), kMost = ~kLeast;
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::int32_t>(i);
        const auto any = static_cast<std::int32_t>(testing::below(random, 100000));
        input.sides.push_back(shape == Shape::one_sided ? testing::below(random, 50) == 0
                                                        : testing::below(random, 2) == 0);
        input.keys.push_back(shape == Shape::few        ? any % 3 * 1000
                             : shape == Shape::equal    ? 7
                             : shape == Shape::sawtooth ? number % 300 * 11
                             : shape == Shape::ends     ? (any & 1 ? kLeast + any % 3000 : kMost - any % 3000)
                             : shape == Shape::rising   ? number
                             : shape == Shape::falling  ? -number
                             : shape == Shape::drifting ? 10 * number + any % 1000
                                                        : any);
        input.others.push_back(any % 7);
        input.times.push_back(time += static_cast<std::int64_t>(testing::below(random, 3)));
        input.nulls.push_back(nulls_in && testing::below(random, nulls_in) == 0);
    }
    return input;
}

inline Bound offset(std::int64_t value) {
    return {BoundKind::sum, value < 0 ? -1 : 0, static_cast<std::uint64_t>(value), 0.0};
}

inline Batch batch_of(const Input& input, std::size_t from, std::size_t count, const Column* keys) {
    return {input.sides.data() + from, keys, input.times.data() + from, nullptr, count};
}

// Pushes the input into a join of one thread and one of several, whose number changes if `restless`. Some
// pushes are counted; with `probe_only`, some are of probe-only rows.
inline void compare(JoinSpec spec, const Input& input, std::size_t step, std::uint32_t workers, Level level,
                    bool restless = false, bool probe_only = false) {
    const Strategy strategy = std::exchange(spec.strategy, Strategy::automatic);
    const auto one = make_engine(spec, level);
    spec.workers = workers;
    spec.strategy = strategy == Strategy::automatic ? Strategy::phases : strategy;  // also of plain arrivals
    const auto several = make_engine(spec, level);
    testing::Random random(step);
    for (std::size_t from = 0; from < input.keys.size(); from += step) {
        const std::size_t count = std::min(step, input.keys.size() - from);
        const bool* const nulls = reinterpret_cast<const bool*>(input.nulls.data()) + from;
        const Column keys[] = {{input.keys.data() + from, nulls}, {input.others.data() + from, nullptr}};
        Batch batch = batch_of(input, from, count, keys);
        batch.store = !probe_only || testing::below(random, 8) != 0;
        if (restless) several->set_workers(1 + static_cast<std::uint32_t>(testing::below(random, workers)));
        const bool counts = !spec.finals[0] && testing::below(random, 4) == 0;
        Pairs expected, found;
        const std::uint64_t first = one->push(batch, counts ? nullptr : &expected);
        CHECK_EQUAL(several->push(batch, counts ? nullptr : &found), first);
        CHECK_EQUAL(found.size(), expected.size());
        CHECK(std::equal(found.left(), found.left() + found.size(), expected.left()));
        CHECK(std::equal(found.right(), found.right() + found.size(), expected.right()));
        CHECK(several->finals().after == one->finals().after);
        CHECK(several->finals().position == one->finals().position);
        CHECK(several->late() == one->late());
        several->check();
    }
    const Stats a = one->stats(), b = several->stats();
    for (int side = 0; side < 2; ++side) {
        CHECK_EQUAL(a.rows[side], b.rows[side]);
        CHECK_EQUAL(a.stored[side], b.stored[side]);
        CHECK_EQUAL(a.first[side], b.first[side]);
    }
    CHECK_EQUAL(a.matches, b.matches);
}

inline JoinSpec band_join(IndexKind index, std::uint64_t left, std::uint64_t right) {
    JoinSpec spec;
    spec.on = {{KeyType::int32, {{offset(-40), offset(50)}}}};
    spec.index = index;
    spec.options.min_entries = 64;
    spec.window.left = left;
    spec.window.right = right;
    spec.group = 1 << 18;
    return spec;
}

#define SLIDEJOIN_KIND_OF(kind, ...) IndexKind::kind,
#if defined(SLIDEJOIN_STRESS)  // few indexes are built for it (some_structures.cpp)
inline constexpr IndexKind kIndexes[] = {IndexKind::b_tree, IndexKind::pim_tree, IndexKind::bi_sort};
#else
inline constexpr IndexKind kIndexes[] = {SLIDEJOIN_INDEXES(SLIDEJOIN_KIND_OF)};
#endif
#undef SLIDEJOIN_KIND_OF

}  // namespace slidejoin
