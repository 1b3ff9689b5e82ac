// A plan decides speed, never results: every plan of a condition gives the same pairs, final tuples and late
// rows as a definition of thirty lines, also after its state was loaded into another engine.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "../engine.hpp"
#include "../outcome.hpp"
#include "testing.hpp"

using namespace slidejoin;

namespace {

struct Tuple {
    int side;
    std::int32_t symbol;
    double price;
    std::int64_t time;
    bool store;
};

struct Event {  // a pair, or a final tuple with -1 for its partner
    std::int64_t left, right;
    bool operator==(const Event&) const = default;
};

constexpr double kWidth = 0.75;
constexpr std::int64_t kBefore = 7, kAfter = 4, kLateness = 5;

std::vector<Tuple> make_input(std::size_t count, unsigned seed) {
    testing::Random random(seed);
    std::vector<Tuple> input;
    for (std::size_t i = 0; i < count; ++i) {
        const double price = static_cast<double>(testing::below(random, 64)) * 0.25 - 8;
        const bool odd = testing::below(random, 50) == 0;
        input.push_back({static_cast<int>(testing::below(random, 2)),
                         static_cast<std::int32_t>(testing::below(random, 4)),
                         odd ? (testing::below(random, 2) ? 1e300 : -1.0 / 0.0) : price,
                         static_cast<std::int64_t>(i / 3 + testing::below(random, 9)), (i / 40) % 5 != 4});
    }
    return input;
}

// The whole run of an event window: compares each tuple with all others.
class Definition {
  public:
    std::vector<Event> events;
    std::vector<std::size_t> late;

    void push(const Tuple& tuple, std::size_t number) {
        if (tuple.time < watermark_) {
            late.push_back(number);
            return;
        }
        Row row{tuple, numbers_[tuple.side]++};
        for (Row& met : rows_[1 - tuple.side]) {
            const Tuple& left = tuple.side == 0 ? tuple : met.tuple;
            const Tuple& right = tuple.side == 0 ? met.tuple : tuple;
            const std::int64_t gap = right.time - left.time;
            if (!met.tuple.store || left.symbol != right.symbol || gap < -kBefore || gap > kAfter ||
                !(left.price - kWidth <= right.price && right.price <= left.price + kWidth))
                continue;
            events.push_back(tuple.side == 0 ? Event{row.number, met.number} : Event{met.number, row.number});
            met.matched = row.matched = true;
        }
        rows_[tuple.side].push_back(row);
        latest_[tuple.side] = std::max(latest_[tuple.side], tuple.time - kLateness);
        watermark_ = std::max(watermark_, std::min(latest_[0], latest_[1]));
        for (const int side : {0, 1})
            for (Row& each : rows_[side]) {
                const std::int64_t reach = side == 0 ? kAfter : kBefore;
                if (each.done || (each.tuple.store && each.tuple.time + reach >= watermark_)) continue;
                each.done = true;
                if (!each.matched)
                    events.push_back(side == 0 ? Event{each.number, -1} : Event{-1, each.number});
            }
    }

  private:
    struct Row {
        Tuple tuple;
        std::int64_t number;
        bool matched = false;
        bool done = false;
    };
    std::vector<Row> rows_[2];
    std::int64_t numbers_[2] = {0, 0};
    std::int64_t latest_[2] = {-1000, -1000};
    std::int64_t watermark_ = -1000;
};

Bound sum(double real, std::int64_t whole) {
    return {BoundKind::sum, whole < 0 ? -1 : 0, static_cast<std::uint64_t>(whole), real};
}

JoinSpec join(const IndexedSpec& indexed, IndexKind index, std::uint32_t group) {
    const Bound same{BoundKind::step, 0, 0, 0.0};
    JoinSpec spec;
    spec.on = {{KeyType::int32, {{same, same}}}, {KeyType::float64, {{sum(-kWidth, 0), sum(kWidth, 0)}}}};
    spec.indexed = indexed;
    spec.index = index;
    spec.window.kind = WindowKind::event;
    spec.window.before = kBefore;
    spec.window.after = kAfter;
    spec.window.lateness = kLateness;
    spec.finals[0] = spec.finals[1] = true;
    spec.group = group;
    return spec;
}

// An engine with an outcome. Its tuples have numbers that stay valid when positions change; some are
// probe-only.
class Replay {
  public:
    Replay(const JoinSpec& spec, Level level)
        : spec_(spec), level_(level), engine_(make_engine(spec, level)) {}

    std::vector<Event> events;
    std::vector<std::size_t> late;

    void push(const std::vector<Tuple>& input, std::size_t start, std::size_t count) {
        Arrays arrays(input.data() + start, count);
        Pairs pairs;
        Batch batch = arrays.batch(count);
        batch.store = input[start].store;
        engine_->push(batch, &pairs);
        std::vector<bool> is_late(count);
        for (const std::uint32_t row : engine_->late()) {
            late.push_back(start + row);
            is_late[row] = true;
        }
        for (std::size_t i = 0; i < count; ++i)
            if (!is_late[i]) {
                const int side = input[start + i].side;
                held_[side].push_back({input[start + i], numbers_[side]++});
            }
        for (const int side : {0, 1}) outcome_.extend(side, first_[side] + held_[side].size());
        emit(pairs);
        follow();
        engine_->check();
    }

    // Continues in a new engine.
    void move() {
        const JoinState state = engine_->state();
        std::optional<Arrays> arrays[2];
        std::vector<std::uint8_t> unseen[2];
        Stored stored[2];
        for (const int side : {0, 1}) {
            std::vector<Tuple> tuples;
            for (const Held& held : held_[side]) tuples.push_back(held.tuple);
            arrays[side].emplace(tuples.data(), tuples.size());
            unseen[side] = engine_->unseen(side, first_[side], first_[side] + tuples.size());
            stored[side] = {arrays[side]->batch(tuples.size()),
                            reinterpret_cast<const bool*>(unseen[side].data())};
        }
        engine_ = make_engine(spec_, level_);
        engine_->load(state, stored);
        engine_->check();
    }

  private:
    struct Held {
        Tuple tuple;
        std::int64_t number;
    };

    struct Arrays {
        std::vector<std::uint8_t> sides;
        std::vector<std::int32_t> symbols;
        std::vector<double> prices;
        std::vector<std::int64_t> times;
        Column columns[2];

        Arrays(const Tuple* tuples, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
                sides.push_back(static_cast<std::uint8_t>(tuples[i].side));
                symbols.push_back(tuples[i].symbol);
                prices.push_back(tuples[i].price);
                times.push_back(tuples[i].time);
            }
            columns[0] = {symbols.data(), nullptr};
            columns[1] = {prices.data(), nullptr};
        }
        Arrays(const Arrays&) = delete;

        Batch batch(std::size_t count) { return {sides.data(), columns, times.data(), nullptr, count}; }
    };

    std::int64_t number(int side, std::int64_t position) const {
        if (position < 0) return -1;
        return held_[side].at(static_cast<std::uint64_t>(position) - first_[side]).number;
    }

    void emit(const Pairs& pairs) {
        Pairs out;
        outcome_.write(pairs, nullptr, engine_->finals(), out);
        for (std::size_t i = 0; i < out.size(); ++i)
            events.push_back({number(0, out.left()[i]), number(1, out.right()[i])});
    }

    void follow() {
        const Stats stats = engine_->stats();
        for (const int side : {0, 1}) {
            const auto& moved = engine_->renumbered(side);
            const std::uint64_t kept = moved.empty() ? stats.next[side] : stats.first[side];
            held_[side].resize(kept - first_[side]);
            for (const std::uint64_t position : moved)
                held_[side].push_back(held_[side][position - first_[side]]);
            held_[side].erase(
                held_[side].begin(),
                held_[side].begin() + static_cast<std::ptrdiff_t>(stats.first[side] - first_[side]));
            first_[side] = stats.first[side];
            outcome_.follow(side, stats.first[side], stats.next[side], moved);
        }
    }

    JoinSpec spec_;
    Level level_;
    std::unique_ptr<Engine> engine_;
    Outcome outcome_{JoinType{{true, true}}};
    std::vector<Held> held_[2];
    std::uint64_t first_[2] = {0, 0};
    std::int64_t numbers_[2] = {0, 0};
};

}  // namespace

TEST(every_plan_gives_the_same) {
    const std::vector<Tuple> input = make_input(800, 3);
    Definition definition;
    for (std::size_t i = 0; i < input.size(); ++i) definition.push(input[i], i);
    CHECK(definition.events.size() > 300 && !definition.late.empty());
    const IndexedSpec plans[] = {{0, Banded::conjunct},
                                 {0, Banded::time},
                                 {1, Banded::none},
                                 {1, Banded::conjunct},
                                 {1, Banded::time}};
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        for (const IndexedSpec& plan : plans)
            for (const IndexKind index : {IndexKind::nested_loop, IndexKind::b_tree})
                for (const std::uint32_t group : {1u, 16u, 200u})
                    for (const bool moving : {false, true}) {
                        Replay run(join(plan, index, group), level);
                        for (std::size_t start = 0; start < input.size(); start += 40) {
                            run.push(input, start, std::min<std::size_t>(40, input.size() - start));
                            if (moving && start % 3 == 0) run.move();
                        }
                        CHECK(run.events == definition.events);
                        CHECK(run.late == definition.late);
                    }
    }
}

TEST(the_living_behind_a_far_tuple_keep_their_flags) {
    std::vector<Tuple> input = make_input(30000, 5);
    for (Tuple& tuple : input) tuple.store = true;
    input[1].time = 1'000'000'000'000;  // never expires, so that the others get new positions
    Definition definition;
    for (std::size_t i = 0; i < 4000; ++i) definition.push(input[i], i);
    Replay run(join({1, Banded::conjunct}, IndexKind::b_tree, 4096),
               supported(Level::avx2) ? Level::avx2 : Level::portable);
    for (std::size_t start = 0; start < input.size(); start += 1000) {
        run.push(input, start, 1000);
        if (start % 7000 == 0) run.move();
        if (start == 3000) CHECK(run.events == definition.events);
    }
}

// Buffers grow independently: each must be large enough, whatever the sizes of the batches. With these sizes,
// a buffer of several entries per arrival does not grow at 182 arrivals, while one of a single entry grows to
// 271.
TEST(batches_that_grow_step_by_step) {
    const std::vector<Tuple> input = make_input(2000, 7);
    for (const IndexedSpec& plan : {IndexedSpec{1, Banded::conjunct}, IndexedSpec{0, Banded::conjunct}}) {
        JoinSpec spec = join(plan, IndexKind::b_tree, 4096);
        if (plan.equalities == 0) std::swap(spec.on[0], spec.on[1]), spec.on.pop_back();
        if (plan.equalities == 0) spec.on[0].ranges.push_back({sum(2, 0), sum(3, 0)});
        spec.window = {};
        spec.window.left = spec.window.right = 100'000;
        const auto engine = make_engine(spec, Level::portable);
        std::size_t start = 0;
        for (const std::size_t count : {17, 17, 25, 37, 55, 82, 122, 182, 271, 271}) {
            std::vector<std::uint8_t> sides(count, 0);
            std::vector<std::int32_t> symbols(count, 0);
            std::vector<double> prices;
            for (std::size_t i = 0; i < count; ++i) prices.push_back(input[start++].price);
            const Column symbol{symbols.data(), nullptr}, price{prices.data(), nullptr};
            const Column both[] = {symbol, price};
            Pairs pairs;
            engine->push({sides.data(), plan.equalities ? both : &price, nullptr, nullptr, count}, &pairs);
            engine->check();
        }
    }
}

TEST(outcomes_of_each_join_type) {
    const Finals all{{1, 3, 3}, {0, 1, 2}, {0, 1, 0}};
    Pairs pairs;
    pairs.reserve(3);
    std::copy_n(std::array{0, 0, 1}.begin(), 3, pairs.left());
    std::copy_n(std::array{0, 1, 1}.begin(), 3, pairs.right());
    pairs.add(3);
    const bool wanted[] = {true, false, true};
    const auto run = [&](const JoinType& type, const bool* mask) {
        Outcome outcome(type);
        for (const int each : {0, 1}) outcome.extend(each, 3);
        Finals finals;
        for (std::size_t i = 0; i < 3; ++i)
            if (type.preserves[all.side[i]]) {
                finals.after.push_back(all.after[i]);
                finals.position.push_back(all.position[i]);
                finals.side.push_back(all.side[i]);
            }
        Pairs out;
        outcome.write(pairs, mask, finals, out);
        outcome.finish(out);
        std::vector<Event> events;
        for (std::size_t i = 0; i < out.size(); ++i) events.push_back({out.left()[i], out.right()[i]});
        return events;
    };
    using Events = std::vector<Event>;
    const JoinType inner{}, left_outer{{true, false}}, right_outer{{false, true}}, full{{true, true}};
    const JoinType semi[] = {{{false, false}, 0}, {{false, false}, 1}};
    const JoinType anti[] = {{{true, false}, 0}, {{false, true}, 1}};
    CHECK(run(inner, nullptr) == (Events{{0, 0}, {0, 1}, {1, 1}}));
    CHECK(run(inner, wanted) == (Events{{0, 0}, {1, 1}}));
    CHECK(run(left_outer, nullptr) == (Events{{0, 0}, {0, 1}, {1, 1}, {2, -1}}));
    CHECK(run(right_outer, wanted) == (Events{{0, 0}, {1, 1}, {-1, 2}}));
    CHECK(run(full, nullptr) == (Events{{0, 0}, {0, 1}, {1, 1}, {2, -1}, {-1, 2}}));
    CHECK(run(semi[0], nullptr) == (Events{{0, -1}, {1, -1}}));
    CHECK(run(semi[0], wanted) == (Events{{0, -1}, {1, -1}}));
    CHECK(run(semi[1], nullptr) == (Events{{-1, 0}, {-1, 1}}));
    CHECK(run(anti[0], nullptr) == (Events{{2, -1}}));
    CHECK(run(anti[1], nullptr) == (Events{{-1, 2}}));
}

TEST(a_position_that_is_not_held_is_a_defect) {
    Outcome outcome(JoinType{{true, false}});
    outcome.extend(0, 2);
    outcome.follow(0, 1, 2, {});
    Pairs out;
    bool refused = false;
    try {
        outcome.write({}, nullptr, {{0}, {0}, {0}}, out);
    } catch (const BrokenInvariant&) {
        refused = true;
    }
    CHECK(refused);
}
