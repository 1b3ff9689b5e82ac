// The join of two tables compared with a test of every pair, on all instruction sets and with several
// workers: under Address- and UndefinedBehaviorSanitizer, and separately under ThreadSanitizer.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "../table_join.hpp"
#include "../workers.hpp"
#include "table_cases.hpp"

using namespace slidejoin;

using namespace testing;

static TableJoinResult joined(const TableJoinSpec& spec, const Table& left, const Table& right, Level level) {
    std::vector<Column> columns[2];
    const Table* tables[] = {&left, &right};
    for (int side = 0; side < 2; ++side)
        for (std::size_t i = 0; i < spec.on.on.size(); ++i)
            columns[side].push_back({tables[side]->columns[i].data(),
                                     reinterpret_cast<const bool*>(tables[side]->nulls[i].data())});
    TableJoinResult result;
    join_tables(spec, {nullptr, columns[0].data(), nullptr, nullptr, left.size()},
                {nullptr, columns[1].data(), nullptr, nullptr, right.size()}, level, result);
    return result;
}

// All pairs of a result, so many at a time where they are in blocks.
static Found pairs_of(const TableJoinResult& result, std::size_t at_a_time = 2048) {
    Found found;
    if (!result.blocks) {
        for (std::size_t i = 0; i < result.pairs.size(); ++i)
            found.emplace_back(result.pairs.left()[i], result.pairs.right()[i]);
        return found;
    }
    for (std::size_t at = 0; at < result.blocks->size(); at += at_a_time) {
        const Slice slice(at, std::min(at + at_a_time, result.blocks->size()));
        Values left(slice.size() + PairBlocks::kSpare), right(left.size());
        const std::size_t before = result.blocks->read(slice, left.data(), right.data());
        for (std::size_t i = 0; i < slice.size(); ++i)
            found.emplace_back(left[before + i], right[before + i]);
    }
    return found;
}

static void check(const JoinSpec& on, const Table& left, const Table& right) {
    const Found expected = every_pair(on, left, right);
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        for (const std::size_t workers : {1, 2, 3, 5}) {
            const TableJoinSpec spec{on, workers, 1, expected.size()};
            CHECK(pairs_of(joined(spec, left, right, level)) == expected);
            const TableJoinResult blocks =
                joined({on, workers, 1, expected.size(), -1, true}, left, right, level);
            for (const std::size_t at_a_time : {1, 7, 2048}) CHECK(pairs_of(blocks, at_a_time) == expected);
            for (const int side : {0, 1}) {
                const TableJoinResult flags = joined({on, workers, 1, 0, side}, left, right, level);
                std::vector<std::uint8_t> matched(side == 0 ? left.size() : right.size());
                for (const auto& pair : expected)
                    matched[static_cast<std::size_t>(side == 0 ? pair.first : pair.second)] = 1;
                CHECK(flags.matched == matched);
            }
        }
    }
}

TEST(tables_join_as_every_pair_says) {
    Random random(5);
    for (const JoinSpec& on : conditions())
        for (const auto& [left, right] :
             {std::pair<std::size_t, std::size_t>{0, 9}, {9, 0}, {1, 1}, {40, 300}, {300, 7}})
            check(on, random_table(random, on.on.size(), left, 60),
                  random_table(random, on.on.size(), right, 60));
}

// Rows enough for several buckets and blocks; few of them match.
TEST(tables_of_many_rows) {
    Random random(6);
    const JoinSpec on = conditions()[0];
    for (const std::uint64_t range : {std::uint64_t{1} << 17, std::uint64_t{1} << 62}) {
        const Table left = random_table(random, 1, 20'000, range),
                    right = random_table(random, 1, 9'000, range);
        Found expected;
        std::vector<std::pair<std::int64_t, std::int64_t>> order;
        for (std::size_t row = 0; row < right.size(); ++row)
            if (!right.nulls[0][row]) order.emplace_back(right.columns[0][row], row);
        std::sort(order.begin(), order.end());
        for (std::size_t row = 0; row < left.size(); ++row) {
            if (left.nulls[0][row]) continue;
            const std::int64_t key = left.columns[0][row];
            std::vector<std::int64_t> partners;
            auto at = std::lower_bound(order.begin(), order.end(), std::pair{key - 2, std::int64_t{0}});
            for (; at != order.end() && static_cast<__int128>(at->first) <= static_cast<__int128>(key) + 3;
                 ++at)
                partners.push_back(at->second);
            std::sort(partners.begin(), partners.end());
            for (const std::int64_t partner : partners) expected.emplace_back(row, partner);
        }
        for (const std::size_t workers : {1, 4}) {
            for (const bool blocks : {false, true}) {
                const TableJoinResult result = joined({on, workers, 1, std::uint64_t{1} << 40, -1, blocks},
                                                      left, right, Level::portable);
                CHECK_EQUAL(result.blocks != nullptr, blocks);
                CHECK(pairs_of(result) == expected);
            }
        }
    }
}

// Rows with so many pairs fit into the room behind a block; with more, pairs are in memory.
TEST(tables_are_joined_in_blocks_where_no_row_has_many_pairs) {
    JoinSpec equal = conditions()[4];
    equal.on.resize(1);
    equal.indexed = {0, Banded::conjunct};
    for (const std::size_t most : {PairBlocks::kMost, PairBlocks::kMost + 1}) {
        Table left{{Values(40, 7)}, {std::vector<std::uint8_t>(40)}};
        Table right{{Values(most, 7)}, {std::vector<std::uint8_t>(most)}};
        left.columns[0][3] = left.columns[0][39] = 8;
        check(equal, left, right);
        const TableJoinResult result = joined({equal, 1, 1, 1 << 20, -1, true}, left, right, Level::portable);
        CHECK_EQUAL(result.blocks != nullptr, most == PairBlocks::kMost);
    }
}

// Most rows have one key, next to each other or scattered, and one key lies far away: their bucket is sorted
// by all workers, and the pairs of a few rows are shared by all.
TEST(tables_with_a_hot_key) {
    Random random(8);
    for (const std::size_t condition : {0, 3})
        for (const bool scattered : {false, true}) {
            const JoinSpec on = conditions()[condition];
            Table left = random_table(random, on.on.size(), 700, 5'000),
                  right = random_table(random, on.on.size(), 400, 5'000);
            for (Table* table : {&left, &right}) {
                for (std::size_t row = 100; row < 160; ++row)
                    table->columns[0][scattered ? row * 7 % table->size() : row] = 9;
                table->columns[0][5] = std::int64_t{1} << 60;
            }
            check(on, left, right);
        }
}

TEST(more_pairs_than_the_limit_are_refused) {
    Random random(7);
    for (const JoinSpec& on : conditions()) {
        const Table left = random_table(random, on.on.size(), 200, 12),
                    right = random_table(random, on.on.size(), 200, 12);
        const std::size_t count = every_pair(on, left, right).size();
        if (!count) continue;
        for (const std::size_t workers : {1, 3}) {
            bool refused = false;
            try {
                joined({on, workers, 1, count - 1}, left, right, Level::portable);
            } catch (const BatchError& error) {
                refused = error.kind == BatchError::Kind::capacity;
            }
            CHECK(refused);
        }
    }
}

TEST(an_error_of_a_worker_is_thrown_when_all_have_ended) {
    Workers pool;
    std::vector<int> ran(4);
    bool thrown = false;
    try {
        pool.run(pool.prepare(4), [&](std::size_t worker) {
            ran[worker] = 1;
            if (worker == 2) throw std::runtime_error("worker 2");
        });
    } catch (const std::runtime_error& error) {
        thrown = std::string(error.what()) == "worker 2";
    }
    CHECK(thrown);
    CHECK((ran == std::vector<int>{1, 1, 1, 1}));
}
