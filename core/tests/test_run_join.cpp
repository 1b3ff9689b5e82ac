// The join of sorted runs against every pair compared, on all levels, with chunks of all sizes; also where
// the arrays end, which are copied to memory of their exact size.
#include <memory>
#include <set>

#include "../run_join.hpp"
#include "table_cases.hpp"

using namespace testing;

// The rows of a table that can have partners, sorted, and which row is where.
struct SortedTable {
    SortedTable(const RunJoin& join, const JoinSpec& on, const Table& table) {
        std::vector<Column> given;
        for (std::size_t i = 0; i < on.on.size(); ++i)
            given.push_back({table.columns[i].data(), reinterpret_cast<const bool*>(table.nulls[i].data())});
        join.sort({nullptr, given.data(), nullptr, nullptr, table.size()}, rows);
        for (std::size_t i = 0; i < on.on.size(); ++i) {
            Values& values = columns.emplace_back();
            for (const std::int64_t row : rows.order)
                values.push_back(table.columns[i][static_cast<std::size_t>(row)]);
            values.shrink_to_fit();
        }
        rows.wide.shrink_to_fit();
        for (const Values& values : columns) pointers.push_back({values.data(), nullptr});
    }

    Run run() const {
        return {rows.wide.data(), {nullptr, pointers.data(), nullptr, nullptr, rows.order.size()}};
    }

    SortedRows rows;
    std::vector<Values> columns;
    std::vector<Column> pointers;
};

static Found found_by(const RunJoin& join, const SortedTable& left, const SortedTable& right,
                      std::size_t limit) {
    const Run runs[] = {left.run(), right.run()};
    const std::unique_ptr<RunPairs> reader = join.pairs(runs[0], runs[1]);
    Found found;
    for (bool last = false;;) {
        Pairs chunk;
        reader->next(limit, chunk);
        CHECK(chunk.size() <= limit);
        CHECK(!last || chunk.size() == 0);
        if (chunk.size() == 0) break;
        last = chunk.size() < limit;
        for (std::size_t i = 0; i < chunk.size(); ++i)
            found.emplace_back(left.rows.order.at(static_cast<std::size_t>(chunk.left()[i])),
                               right.rows.order.at(static_cast<std::size_t>(chunk.right()[i])));
        CHECK(found.size() <= left.rows.order.size() * right.rows.order.size());
    }
    std::sort(found.begin(), found.end());
    return found;
}

static void check_flags(const RunJoin& join, const SortedTable& left, const SortedTable& right, int side,
                        const Found& expected) {
    const SortedTable& own = side ? right : left;
    std::set<std::int64_t> matched;
    for (const auto& pair : expected) matched.insert(side ? pair.second : pair.first);
    std::vector<std::uint8_t> flags(own.rows.order.size());
    flags.shrink_to_fit();
    const Run runs[] = {left.run(), right.run()};
    join.match(runs[0], runs[1], side, flags.data());
    for (std::size_t i = 0; i < flags.size(); ++i)
        CHECK_EQUAL(flags[i], std::uint8_t{matched.contains(own.rows.order[i])});
}

static void check(const JoinSpec& on, const Table& left, const Table& right,
                  const std::vector<std::size_t>& limits) {
    const Found expected = every_pair(on, left, right);
    for (const Level level : kLevels) {
        if (!supported(level)) continue;
        const std::unique_ptr<RunJoin> join = make_run_join(on, level);
        const SortedTable sorted_left(*join, on, left), sorted_right(*join, on, right);
        CHECK(std::is_sorted(sorted_left.rows.wide.begin(), sorted_left.rows.wide.end()));
        for (const std::size_t limit : limits)
            CHECK(found_by(*join, sorted_left, sorted_right, limit) == expected);
        for (const int side : {0, 1}) check_flags(*join, sorted_left, sorted_right, side, expected);
    }
}

TEST(runs_join_as_every_pair_says) {
    Random random(5);
    for (const JoinSpec& on : conditions())
        for (const auto& [left, right] : {std::pair<std::size_t, std::size_t>{0, 9},
                                          {9, 0},
                                          {0, 0},
                                          {1, 1},
                                          {40, 300},
                                          {300, 7},
                                          {3, 900}})
            check(on, random_table(random, on.on.size(), left, 60),
                  random_table(random, on.on.size(), right, 60), {1, 2, 7, 1 << 20});
}

// Rows enough for several groups of probing rows; few of them match.
TEST(runs_of_many_rows) {
    Random random(6);
    JoinSpec apart;  // the rows that are taken next probe far before the last part of those before
    apart.on = {{KeyType::int64, {{sum(-5000), sum(-4960)}, {sum(4960), sum(5000)}}}};
    for (const JoinSpec& on : {conditions()[0], conditions()[5], apart})
        for (const auto& [left, right] :
             {std::pair<std::size_t, std::size_t>{4'600, 9'400}, {11, 20'000}, {20'000, 300}})
            check(on, random_table(random, on.on.size(), left, 90'000),
                  random_table(random, on.on.size(), right, 90'000), {100, 1 << 20});
}

// Runs whose ends lie everywhere in and around the keys that are copied, and keys of both ends of the type.
TEST(runs_of_every_length) {
    Random random(7);
    JoinSpec ends;  // one row in two has the greatest key
    ends.on = {band(-1, 1)};
    for (std::size_t size = 1; size < 200; size += size < 8 ? 1 : 3) {
        Table many = random_table(random, 1, size, 300), few = random_table(random, 1, 9, 300);
        check(ends, few, many, {1 << 20});
        for (std::size_t row = 0; row < size; row += 2)
            many.columns[0][row] = std::numeric_limits<std::int64_t>::max();
        few.columns[0] = {std::numeric_limits<std::int64_t>::min(),
                          0,
                          299,
                          std::numeric_limits<std::int64_t>::max() - 1,
                          std::numeric_limits<std::int64_t>::max(),
                          std::numeric_limits<std::int64_t>::max(),
                          1,
                          2,
                          3};
        check(ends, few, many, {1 << 20});
        check(ends, many, few, {3});
    }
}

TEST(a_first_partner_behind_many_candidates) {
    JoinSpec on;
    on.on = {band(-2000, 2000), band(0, 0)};
    Table one{{{0}, {700}}, {{0}, {0}}}, many{{{}, {}}, {{}, {}}};
    for (std::int64_t i = 0; i < 1000; ++i)
        for (std::size_t column : {0, 1}) {
            many.columns[column].push_back(i);
            many.nulls[column].push_back(0);
        }
    check(on, one, many, {1});
    check(on, many, one, {1});
}

// Unsorted keys, as a damaged file has them: nothing outside the arrays is read or reported.
TEST(unsorted_runs_are_read_inside_their_bounds) {
    Random random(8);
    for (const JoinSpec& on : conditions())
        for (const Level level : kLevels) {
            if (!supported(level)) continue;
            const std::unique_ptr<RunJoin> join = make_run_join(on, level);
            for (int round = 0; round < 40; ++round) {
                const SortedTable left(*join, on, random_table(random, on.on.size(), 50, 3000));
                SortedTable right(*join, on, random_table(random, on.on.size(), below(random, 600), 3000));
                std::shuffle(right.rows.wide.begin(), right.rows.wide.end(), random);
                found_by(*join, left, right, 64);
                std::vector<std::uint8_t> flags(std::max(left.rows.order.size(), right.rows.order.size()));
                const Run runs[] = {left.run(), right.run()};
                for (const int side : {0, 1}) join->match(runs[0], runs[1], side, flags.data());
            }
        }
}
