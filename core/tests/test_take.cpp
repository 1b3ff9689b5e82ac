// Rows that several workers store and take: the same bytes as those of one. Run under ThreadSanitizer, too.
#include <chrono>
#include <numeric>
#include <string>
#include <thread>

#include "../take.hpp"
#include "testing.hpp"

using namespace slidejoin;
using namespace testing;

namespace {

const std::vector<ColumnKind> kKinds{8, 4, kBits, kOffsets32, kOffsets64, 16};

// Columns of random values, of which some are null.
class RandomRows {
  public:
    RandomRows(Random& random, std::size_t size) : columns_(kKinds.size()) {
        array_.length = static_cast<std::int64_t>(size);
        array_.n_children = static_cast<std::int64_t>(kKinds.size());
        for (std::size_t i = 0; i < kKinds.size(); ++i) fill(columns_[i], kKinds[i], size, random);
        for (Column& column : columns_) children_.push_back(&column.array);
        array_.children = children_.data();
    }

    const ArrowArray& array() const { return array_; }

  private:
    struct Column {
        ArrowArray array{};
        std::vector<std::uint8_t> buffers[3];
        const void* pointers[3];
    };

    static void fill(Column& column, ColumnKind kind, std::size_t size, Random& random) {
        const auto bytes = [&](std::size_t count) {
            std::vector<std::uint8_t> made(count);
            for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(below(random, 256));
            return made;
        };
        column.buffers[0] = bytes(size / 8 + 1);
        if (kind >= 0) column.buffers[1] = bytes(kind ? size * static_cast<std::size_t>(kind) : size / 8 + 1);
        else {
            std::vector<std::int64_t> ends{0};
            for (std::size_t i = 0; i < size; ++i)
                ends.push_back(ends.back() +
                               static_cast<std::int64_t>(below(random, below(random, 4) ? 9 : 100)));
            column.buffers[2] = bytes(static_cast<std::size_t>(ends.back()) + 1);
            const std::size_t width = static_cast<std::size_t>(-kind);
            column.buffers[1].resize(ends.size() * width);
            for (std::size_t i = 0; i < ends.size(); ++i)
                std::memcpy(column.buffers[1].data() + i * width, &ends[i], width);
        }
        for (int i = 0; i < 3; ++i) column.pointers[i] = column.buffers[i].data();
        column.array.length = static_cast<std::int64_t>(size);
        column.array.null_count = -1;
        column.array.buffers = column.pointers;
    }

    ArrowArray array_{};
    std::vector<Column> columns_;
    std::vector<ArrowArray*> children_;
};

// All bytes of a result that mean something, in their order.
std::string bytes_of(std::unique_ptr<ArrowResult> result) {
    std::string all;
    ArrowArray array{};
    ArrowResult::hand_over(std::move(result), array);
    const auto add = [&](const void* data, std::size_t count) {
        all.append(static_cast<const char*>(data), count);
    };
    const auto count = static_cast<std::size_t>(array.length);
    for (std::int64_t i = 0; i < array.n_children; ++i) {
        const ArrowArray& column = *array.children[i];
        const ColumnKind kind = kKinds[static_cast<std::size_t>(i) % kKinds.size()];
        all += std::to_string(column.null_count) + " nulls";
        if (column.buffers[0]) add(column.buffers[0], count / 8);
        if (kind >= 0) {
            add(column.buffers[1], kind ? count * static_cast<std::size_t>(kind) : count / 8);
            continue;
        }
        const auto width = static_cast<std::size_t>(-kind);
        add(column.buffers[1], (count + 1) * width);
        std::int64_t end = 0;
        std::memcpy(&end, static_cast<const std::uint8_t*>(column.buffers[1]) + count * width, width);
        add(column.buffers[2], static_cast<std::size_t>(end));
    }
    array.release(&array);
    return all;
}

struct StoredRows {
    StoredRows(std::size_t workers, std::size_t rows, unsigned seed)
        : crew(workers), left(kKinds, 0), right(kKinds, 5) {
        Random random(seed);
        for (Rows* side : {&left, &right})
            for (std::size_t size : {rows, rows / 3, rows}) {
                side->append(RandomRows(random, size).array(), crew);
                side->limit(side->next() - std::min<std::uint64_t>(side->size(), 2 * rows), side->next());
            }
    }

    std::string taken(std::size_t count, unsigned seed, Crew& by) const {
        Random random(seed);
        std::vector<std::int64_t> positions[2];
        for (int side = 0; side < 2; ++side)
            for (std::size_t i = 0; i < count; ++i) {
                const Rows& rows = side ? right : left;
                const auto place = below(random, rows.size() + 1);
                positions[side].push_back(
                    place == rows.size() ? -1 : static_cast<std::int64_t>(rows.first() + place));
            }
        std::vector<std::size_t> all(kKinds.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        const std::vector<TakenRows> sides{{&left, positions[0].data(), all},
                                           {&right, positions[1].data(), all}};
        return bytes_of(Taker(sides, count, by).take(std::int64_t{1} << 30));
    }

    Crew crew;
    Rows left, right;
};

}  // namespace

TEST(workers_store_and_take_what_one_does) {
    for (const std::size_t rows : {1, 100, 9'000}) {
        const StoredRows alone(1, rows, 3);
        Crew one(1);
        for (const std::size_t workers : {2, 3, 8}) {
            StoredRows together(workers, rows, 3);
            for (const std::size_t count : {0, 1, 2048, 4096, 4097, 20'000})
                CHECK(together.taken(count, 9, together.crew) == alone.taken(count, 9, one));
        }
    }
}

// Pairs in arrays, written with others around them.
class ArrayPairs final : public PairBlocks {
  public:
    std::vector<std::int64_t> sides[2];

    std::size_t size() const override { return sides[0].size(); }
    std::size_t read(Slice pairs, std::int64_t* left, std::int64_t* right) const override {
        const std::size_t before = std::min(pairs.from, kMost - std::size_t{1});
        const std::size_t to = std::min(pairs.to + kMost - 1, size());
        std::copy(sides[0].data() + pairs.from - before, sides[0].data() + to, left);
        std::copy(sides[1].data() + pairs.from - before, sides[1].data() + to, right);
        return before;
    }
};

TEST(rows_of_pairs_in_blocks_are_taken_as_those_at_positions) {
    const StoredRows stored(1, 3'000, 6);
    Random random(8);
    ArrayPairs pairs;
    for (std::size_t i = 0; i < 9'000; ++i) {
        pairs.sides[0].push_back(static_cast<std::int64_t>(stored.left.first() + below(random, 2'000)));
        pairs.sides[1].push_back(static_cast<std::int64_t>(stored.right.first() + below(random, 2'000)));
    }
    std::vector<std::size_t> all(kKinds.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    const Rows* const rows[] = {&stored.left, &stored.right};
    for (const std::size_t first : {0, 1, 5'000})
        for (const bool swapped : {false, true})
            for (const std::size_t workers : {1, 3}) {
                Crew crew(workers);
                std::vector<TakenRows> in_blocks, at_positions;
                for (const bool right : {swapped, !swapped}) {
                    in_blocks.push_back({rows[right], nullptr, all, &pairs, right, first});
                    at_positions.push_back({rows[right], pairs.sides[right].data() + first, all});
                }
                const std::size_t count = pairs.size() - first;
                CHECK(bytes_of(Taker(in_blocks, count, crew).take(1 << 30)) ==
                      bytes_of(Taker(at_positions, count, crew).take(1 << 30)));
            }
}

TEST(each_part_is_taken_once) {
    Crew crew(4);
    for (int round = 0; round < 20; ++round) {
        std::vector<int> taken(20'000);
        crew.run(taken.size(), taken.size(), [&](std::size_t part, Slice numbers) {
            if (numbers.from == part && numbers.to == part + 1) ++taken[part];
        });
        CHECK_EQUAL(std::count(taken.begin(), taken.end(), 1), std::ptrdiff_t{20'000});
    }
}

TEST(who_finds_a_crew_at_work_works_alone) {
    Crew crew(3);
    std::atomic<int> others{0};
    crew.run(3, 3, [&](std::size_t part, Slice) {
        if (part > 0) return;
        std::thread([&] {
            const std::thread::id self = std::this_thread::get_id();
            crew.run(50, 50, [&](std::size_t, Slice) {
                others += std::this_thread::get_id() != self;
                std::this_thread::sleep_for(std::chrono::microseconds(300));
            });
        }).join();
    });
    CHECK_EQUAL(others.load(), 0);
}

TEST(a_crew_that_is_at_work_is_left_alone) {
    StoredRows stored(3, 5'000, 4);
    Crew one(1);
    const std::string expected = stored.taken(9'000, 1, one);
    std::vector<int> right(4);
    std::vector<std::thread> callers;
    for (std::size_t i = 0; i < right.size(); ++i)
        callers.emplace_back([&, i] {
            for (int round = 0; round < 4; ++round)
                right[i] += stored.taken(9'000, 1, stored.crew) == expected;
        });
    for (std::thread& caller : callers) caller.join();
    CHECK((right == std::vector<int>{4, 4, 4, 4}));
}

TEST(a_position_that_is_not_kept_is_refused_by_all_workers) {
    const StoredRows stored(1, 100, 5);
    Crew crew(3);
    std::vector<std::int64_t> positions(10'000, static_cast<std::int64_t>(stored.left.first()));
    positions[9'000] = static_cast<std::int64_t>(stored.left.next());
    bool refused = false;
    try {
        Taker({{&stored.left, positions.data(), {0}}}, positions.size(), crew).take(0);
    } catch (const std::out_of_range&) {
        refused = true;
    }
    CHECK(refused);
}

TEST(some_columns_are_those_among_all_in_any_order) {
    const StoredRows stored(1, 3'000, 7);
    Crew crew(2);
    const std::vector<std::int64_t> positions(5'000, static_cast<std::int64_t>(stored.left.first()));
    const auto child = [&](const std::vector<std::size_t>& columns, std::size_t at) {
        ArrowArray array{};
        ArrowResult::hand_over(
            Taker({{&stored.left, positions.data(), columns}}, positions.size(), crew).take(1 << 30), array);
        CHECK(array.n_children == static_cast<std::int64_t>(columns.size()));
        const std::string values(static_cast<const char*>(array.children[at]->buffers[1]), positions.size());
        array.release(&array);
        return values;
    };
    CHECK(child({5, 0, 1, 5}, 0) == child({0, 1, 5}, 2));
    CHECK(child({5, 0, 1, 5}, 1) == child({0, 1, 5}, 0));
    CHECK(child({5, 0, 1, 5}, 3) == child({5}, 0));
}

TEST(strings_that_are_lent_are_not_read_behind_their_end) {
    Random random(8);
    const RandomRows lent(random, 50);
    Crew one(1);
    Rows rows(kKinds, 0);
    rows.append(lent.array(), one, std::make_shared<int>(0));
    const std::vector<std::int64_t> last(100, 49);
    const std::vector<TakenRows> sides{{&rows, last.data(), {3, 4}}};
    CHECK(Taker(sides, last.size(), one).take(1 << 30) != nullptr);
}

TEST(strings_beyond_the_most_bytes_are_refused) {
    const StoredRows stored(1, 10'000, 6);
    std::vector<std::int64_t> positions(9'000);
    for (std::size_t i = 0; i < positions.size(); ++i)
        positions[i] = static_cast<std::int64_t>(stored.left.first() + i);
    const std::vector<TakenRows> sides{{&stored.left, positions.data(), {3}}};
    for (const std::size_t workers : {1, 3}) {
        Crew crew(workers);
        CHECK(Taker(sides, positions.size(), crew).take(9'000) == nullptr);
        CHECK(Taker(sides, positions.size(), crew).take(200'000) != nullptr);
    }
}
