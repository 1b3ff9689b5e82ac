// A merge of runs gives the same as a stable sort of their concatenation.
#include <limits>

#include "../merge.hpp"
#include "testing.hpp"

using namespace slidejoin;

TEST(merged_runs_are_a_stable_sort) {
    testing::Random random(11);
    for (std::size_t count = 0; count < 20; ++count)
        for (const std::uint64_t distinct : {1u, 5u, 1000u}) {
            std::vector<std::vector<std::int64_t>> times(count);
            struct Row {
                std::int64_t time;
                std::uint8_t side;
                std::int64_t place;
                bool operator==(const Row&) const = default;
            };
            std::vector<Row> expected, found;
            std::vector<TimeRun> runs;
            std::int64_t places[2] = {0, 0};
            for (std::size_t i = 0; i < count; ++i) {
                const auto side = static_cast<std::uint8_t>(i * 2 >= count);
                for (std::uint64_t n = testing::below(random, 60); n > 0; --n)
                    times[i].push_back(static_cast<std::int64_t>(testing::below(random, distinct)));
                if (i % 4 == 3) times[i].push_back(std::numeric_limits<std::int64_t>::max());
                std::sort(times[i].begin(), times[i].end());
                runs.push_back({times[i].data(), times[i].size(), places[side], side});
                for (const std::int64_t time : times[i]) expected.push_back({time, side, places[side]++});
            }
            std::stable_sort(expected.begin(), expected.end(),
                             [](const Row& a, const Row& b) { return a.time < b.time; });
            std::size_t at = 0;
            merge_runs(runs, [&](std::uint8_t side, std::int64_t place) {
                found.push_back({at < expected.size() ? expected[at++].time : 0, side, place});
            });
            CHECK(found == expected);
        }
}
