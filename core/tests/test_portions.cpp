// Pushes in portions find what whole pushes find, in the same order, and a rehearsal tells what a push would
// do.
#include "worker_cases.hpp"

using namespace slidejoin;

namespace {

struct Result {
    std::vector<std::int64_t> left, right;
    std::vector<std::uint64_t> finals;  // positions, and sides in their last bit, behind so many pairs
    std::vector<std::uint32_t> late;
    bool operator==(const Result&) const = default;

    void add(const Pairs& pairs, const Finals& reported) {
        for (std::size_t i = 0; i < reported.after.size(); ++i) {
            finals.push_back(left.size() + reported.after[i]);
            finals.push_back(reported.position[i] << 1 | reported.side[i]);
        }
        left.insert(left.end(), pairs.left(), pairs.left() + pairs.size());
        right.insert(right.end(), pairs.right(), pairs.right() + pairs.size());
    }
};

Batch part_of(const Batch& batch, std::size_t from, std::size_t count, Column (&keys)[2]) {
    for (int i = 0; i < 2; ++i) {
        const Column& column = batch.keys[i];
        keys[i] = {static_cast<const std::int32_t*>(column.values) + from,
                   column.nulls ? column.nulls + from : nullptr};
    }
    return {batch.sides + from, keys, batch.times + from, nullptr, count, batch.store};
}

Result push_whole(Engine& engine, const Batch& batch) {
    Result result;
    Pairs pairs;
    engine.push(batch, &pairs);
    result.add(pairs, engine.finals());
    result.late = engine.late();
    return result;
}

// Most pairs of a portion come back in `most`.
Result push_in_portions(Engine& engine, const Batch& batch, std::size_t limit, std::size_t& most) {
    Result result;
    for (std::size_t from = 0; from < batch.size;) {
        Column keys[2];
        Pairs pairs;
        Portion portion = engine.push_some(part_of(batch, from, batch.size - from, keys), pairs, limit);
        for (const std::uint32_t row : engine.late())
            result.late.push_back(row + static_cast<std::uint32_t>(from));
        result.add(pairs, engine.finals());
        most = std::max(most, pairs.size());
        CHECK(portion.taken > 0);
        from += portion.taken;
        while (portion.more) {
            Pairs more;
            portion.more = engine.list_more(more, limit);
            result.add(more, engine.finals());
            most = std::max(most, more.size());
        }
        engine.check();
    }
    return result;
}

template <class Call>
void for_batches(const Input& input, std::size_t step, Call call) {
    for (std::size_t from = 0; from < input.keys.size(); from += step) {
        const std::size_t count = std::min(step, input.keys.size() - from);
        const bool* const nulls = reinterpret_cast<const bool*>(input.nulls.data()) + from;
        const Column keys[] = {{input.keys.data() + from, nulls}, {input.others.data() + from, nullptr}};
        call(batch_of(input, from, count, keys));
    }
}

void compare_portions(JoinSpec spec, const Input& input, std::uint32_t workers) {
    constexpr std::size_t kLimit = 100;
    const auto whole = make_engine(spec, Level::portable);
    spec.workers = workers;
    const auto in_portions = make_engine(spec, Level::portable);
    std::size_t most = 0;
    for_batches(input, 900, [&](const Batch& batch) {
        CHECK(push_whole(*whole, batch) == push_in_portions(*in_portions, batch, kLimit, most));
        CHECK_EQUAL(whole->stats().matches, in_portions->stats().matches);
        CHECK_EQUAL(whole->stats().stored[0], in_portions->stats().stored[0]);
    });
    CHECK(whole->stats().matches > 10000);
    CHECK(most > 0 && most <= 4 * kLimit);
}

template <class Call>
void for_joins(IndexKind index, Call call) {
    JoinSpec spec = band_join(index, 300, 250);
    call(spec);
    spec.finals[0] = spec.finals[1] = true;
    spec.on.push_back({KeyType::int32, {{offset(0), offset(4)}}});
    call(spec);
    spec = band_join(index, 300, 300);
    spec.self_join = true;
    call(spec);
    spec = band_join(index, 0, 0);
    spec.on[0].ranges.push_back({offset(900), offset(1100)});
    spec.window.kind = WindowKind::time;
    spec.window.duration = 300;
    call(spec);
    spec.window = {.kind = WindowKind::event, .before = 200, .after = 150, .lateness = 5};
    spec.finals[0] = true;
    call(spec);
}

}  // namespace

TEST(portions_are_the_push) {
    const Input input = make_input(Shape::few, 2400, 40, 11);
    for (const IndexKind index : kIndexes)
        for_joins(index, [&](const JoinSpec& spec) { compare_portions(spec, input, 1); });
    for_joins(IndexKind::bucket_tree, [&](const JoinSpec& spec) { compare_portions(spec, input, 3); });
}

TEST(rows_that_are_final_at_once_come_before_arrivals_that_are_listed_in_parts) {
    Input input = make_input(Shape::equal, 1200, 3, 7);
    std::fill_n(input.sides.begin(), 900, std::uint8_t{1});  // the first push finds nothing, so that the
    std::fill_n(input.nulls.begin(), 900, std::uint8_t{0});  // second one begins with a large group:
    input.nulls[900] = 1;                                    // one with a null key in front
    JoinSpec spec = band_join(IndexKind::bucket_tree, 500, 500);
    spec.finals[0] = spec.finals[1] = true;
    compare_portions(spec, input, 1);
    compare_portions(spec, input, 3);
}

TEST(portions_of_many_lanes_end) {
    constexpr std::size_t kLanes = 64, kArriving = 128 * kLanes;
    constexpr std::size_t kStored = 8 * kArriving;  // so that all that arrive are one group
    Input input = make_input(Shape::rising, kStored + kArriving, 0, 1);
    std::fill_n(input.sides.begin(), kStored, std::uint8_t{1});
    std::fill(input.sides.begin() + kStored, input.sides.end(), std::uint8_t{0});
    std::fill_n(input.keys.begin(), 500, -1000);
    input.keys[kStored] = -1000;  // the only row that has matches
    std::fill(input.keys.begin() + kStored + 1, input.keys.end(), -2000);
    JoinSpec spec = band_join(IndexKind::bucket_tree, kStored, kStored);
    spec.workers = kLanes;
    const auto engine = make_engine(spec, Level::portable);
    std::size_t most = 0, from = 0;
    for (const std::size_t count : {kStored, kArriving}) {
        const Column keys[] = {{input.keys.data() + from, nullptr}, {input.others.data() + from, nullptr}};
        push_in_portions(*engine, batch_of(input, from, count, keys), 100, most);
        from += count;
    }
    CHECK_EQUAL(engine->stats().matches, 500u);
    CHECK(most < 500);
}

TEST(a_push_of_few_matches_is_one_portion) {
    const Input input = make_input(Shape::uniform, 900, 0, 3);
    const auto engine = make_engine(band_join(IndexKind::bucket_tree, 400, 400), Level::portable);
    for_batches(input, 900, [&](const Batch& batch) {
        Pairs pairs;
        const Portion portion = engine->push_some(batch, pairs, 100000);
        CHECK_EQUAL(portion.taken, batch.size);
        CHECK(!portion.more);
        CHECK(pairs.size() > 0);
    });
}

TEST(a_rehearsal_tells_what_a_push_does) {
    const Input input = make_input(Shape::few, 2400, 40, 5);
    for (const IndexKind index : kIndexes)
        for_joins(index, [&](const JoinSpec& spec) {
            const auto engine = make_engine(spec, Level::portable), rows = make_engine(spec, Level::portable);
            for_batches(input, 400, [&](const Batch& batch) {
                const Rehearsed bound = engine->rehearse(batch, false, UINT64_MAX - 1);
                const Rehearsed exact = engine->rehearse(batch, true, UINT64_MAX - 1);
                const auto held_by = [&](Engine& of, int side) {
                    const Stats stats = of.stats();
                    return spec.window.kind == WindowKind::event ? stats.stored[side]
                                                                 : stats.next[side] - stats.first[side];
                };
                std::uint64_t fanout = 0;
                std::uint64_t held[2] = {held_by(*rows, 0), held_by(*rows, 1)};
                for (std::size_t i = 0; i < batch.size; ++i) {
                    Column keys[2];
                    Pairs pairs;
                    fanout = std::max(fanout, rows->push(part_of(batch, i, 1, keys), &pairs));
                    for (int side = 0; side < 2; ++side)
                        held[side] = std::max(held[side], held_by(*rows, side));
                }
                const bool tested = spec.on.size() > 1 || spec.window.kind == WindowKind::event;
                if (!tested && !spec.self_join) CHECK_EQUAL(exact.fanout, fanout);
                CHECK(exact.fanout >= fanout && bound.fanout >= exact.fanout);
                for (int side = 0; side < 2; ++side) {
                    CHECK_EQUAL(exact.held[side], held[side]);
                    CHECK(bound.held[side] >= held[side]);
                }
                CHECK(engine->rehearse(batch, true, 3).fanout >= std::min<std::uint64_t>(fanout, 3));
                push_whole(*engine, batch);
                CHECK_EQUAL(engine->stats().matches, rows->stats().matches);
            });
        });
}
