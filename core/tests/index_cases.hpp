// Compares an index with a plain list and checks its invariants after each step: keys of many shapes, windows
// that grow and shrink, gaps in the positions, positions that wrap around.
#pragma once

#include "../index/concept.hpp"
#include "any_index.hpp"
#include "testing.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

enum class Shape { uniform, few, equal, rising, falling, sawtooth, ends };
inline constexpr Shape kShapes[] = {Shape::uniform, Shape::few,      Shape::equal, Shape::rising,
                                    Shape::falling, Shape::sawtooth, Shape::ends};

template <class Key>
inline Key make_key(Shape shape, std::uint64_t i, testing::Random& random) {
    switch (shape) {
        case Shape::uniform:
            return static_cast<Key>(random());
        case Shape::few:
            return static_cast<Key>(testing::below(random, 5));
        case Shape::equal:
            return 7;
        case Shape::rising:
            return static_cast<Key>(i * 3);
        case Shape::falling:
            return static_cast<Key>(~Key{0} - i * 3);
        case Shape::sawtooth:
            return static_cast<Key>(i % 300 * 11);
        case Shape::ends:
            return random() & 1 ? static_cast<Key>(testing::below(random, 3))
                                : static_cast<Key>(~Key{0} - testing::below(random, 3));
    }
    return 0;
}

template <class Key>
struct Model {
    std::vector<Entry<Key>> entries;  // live, in the order of positions

    std::vector<std::uint32_t> probe(Interval<Key> interval, Visible visible) const {
        std::vector<std::uint32_t> found;
        for (const Entry<Key>& entry : entries)
            if (interval.contains(entry.key) && visible.contains(entry.value))
                found.push_back(visible.relative(entry.value));
        return found;
    }

    // Whether `found` equals the result of probe(), in any order. Compiled without sanitizers, because the
    // list would take most of the time of a test.
    __attribute__((no_sanitize("address", "undefined"))) bool agrees(Interval<Key> interval, Visible visible,
                                                                     const std::uint32_t* found,
                                                                     std::size_t count) {
        seen_.assign(visible.count, 0);
        std::uint8_t* const seen = seen_.data();
        for (std::size_t i = 0; i < count; ++i) {
            if (found[i] >= visible.count || seen[found[i]]) return false;
            seen[found[i]] = 1;
        }
        const Entry<Key>* const all = entries.data();
        const std::size_t size = entries.size();
        for (std::size_t i = 0; i < size; ++i) {
            const std::uint32_t relative = all[i].value - visible.first;
            if (interval.low <= all[i].key && all[i].key <= interval.high && relative < visible.count) {
                if (!seen[relative]) return false;
                --count;
            }
        }
        return count == 0;
    }

  private:
    std::vector<std::uint8_t> seen_;
};

enum class Form { tuple, group, batch };

template <class Key, class Index>
void check_index(Index&& index, Shape shape, std::uint32_t start, Form form) {
    testing::Random random(static_cast<unsigned>(shape) + start + static_cast<unsigned>(form));
    Model<Key> model;
    std::uint32_t next = start, first = start;
    std::uint64_t inserted = 0;
    for (int round = 0; round < 80; ++round) {
        // The window grows for a while, then is nearly emptied.
        const std::size_t count = testing::below(random, form == Form::tuple   ? 20
                                                         : form == Form::group ? 16
                                                                               : 300);
        std::vector<Entry<Key>> entries;
        for (std::size_t i = 0; i < count; ++i) {
            next += static_cast<std::uint32_t>(testing::below(random, 8) == 0);  // a gap
            entries.push_back({make_key<Key>(shape, inserted++, random), next++});
        }
        if (form != Form::tuple) {
            insert_sorting(index, entries.data(), entries.size());
        } else {
            for (const Entry<Key>& entry : entries) index.insert(entry.key, entry.value);
        }
        model.entries.insert(model.entries.end(), entries.begin(), entries.end());

        std::vector<Task<Key>> tasks;
        std::vector<std::uint32_t> order;
        const int probes = form == Form::batch && round % 16 == 5 ? 300 : 10;  // many are probed in blocks
        for (int i = 0; i < probes; ++i) {
            Key low = make_key<Key>(shape, testing::below(random, inserted + 1), random);
            Key high = make_key<Key>(shape, testing::below(random, inserted + 1), random);
            if (i == 0) low = 0, high = ~Key{0};
            if (low > high) std::swap(low, high);
            const std::uint32_t from =
                first + static_cast<std::uint32_t>(testing::below(random, next - first + 1));
            const std::uint32_t seen = static_cast<std::uint32_t>(testing::below(random, next - from + 1));
            order.push_back(static_cast<std::uint32_t>(tasks.size()));
            tasks.push_back(
                {{low, high}, i == 0 ? Visible{first, next - first} : Visible{from, seen}, 0, false, 0, 0});
        }
        MatchList list;
        MatchCount counter;
        if (form == Form::batch)
            std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
                return tasks[a].interval.low < tasks[b].interval.low;
            });
        const std::size_t together = form == Form::tuple ? 1 : order.size();
        for (std::size_t i = 0; i < order.size(); i += together)
            probe_all(index, tasks.data(), &order[i], together, form == Form::batch, list);
        std::size_t total = 0;
        for (const Task<Key>& task : tasks) {
            CHECK(task.found_from <= task.found_to && task.found_to <= list.size());
            const std::size_t found = task.found_to - task.found_from;
            CHECK(model.agrees(task.interval, task.visible, list.data() + task.found_from, found));
            index.probe(task.interval, task.visible, counter);
            total += found;
        }
        CHECK_EQUAL(counter.size(), total);

        const std::uint64_t live = next - first;
        std::uint64_t gone = round % 40 > 34 ? live * 9 / 10 : testing::below(random, live / 8 + 2);
        if (round % 3 == 0) gone = std::min<std::uint64_t>(gone, 1);
        first += static_cast<std::uint32_t>(std::min(gone, live));
        index.forget(first);
        std::erase_if(model.entries, [&](const Entry<Key>& entry) { return before(entry.value, first); });
        index.check(first, next);
    }
    index.forget(next);
    index.check(next, next);
    MatchCount none;  // forgotten entries may still be held, but must not be found
    index.probe({0, ~Key{0}}, {next, 0}, none);
    CHECK_EQUAL(none.size(), 0u);
}

inline IndexOptions made_of(std::uint32_t min_entries, std::uint32_t partitions, double slack,
                            std::uint32_t subwindows) {
    IndexOptions options;
    options.min_entries = min_entries;
    options.partitions = partitions;
    options.slack = slack;
    options.subwindows = options.sorted_subwindows = subwindows;
    return options;
}

// Calls check(shape, first position, form) for all combinations.
template <class Check>
void for_all_cases(Check check) {
    for (const Shape shape : kShapes)
        for (const std::uint32_t start : {0u, 0xfffff000u})
            for (const Form form : {Form::tuple, Form::group, Form::batch}) check(shape, start, form);
}

// A structure that the join does not use.
template <template <class> class IndexOf>
void check_all(const IndexOptions& options = {}) {
    for_all_cases([&](Shape shape, std::uint32_t start, Form form) {
        check_index<std::uint32_t>(IndexOf<std::uint32_t>(options), shape, start, form);
        check_index<std::uint64_t>(IndexOf<std::uint64_t>(options), shape, start, form);
    });
}

inline void check_all(IndexKind kind, const IndexOptions& options = {}) {
    for_all_cases([&](Shape shape, std::uint32_t start, Form form) {
        check_index<std::uint32_t>(AnyIndex<std::uint32_t>(kind, options), shape, start, form);
        check_index<std::uint64_t>(AnyIndex<std::uint64_t>(kind, options), shape, start, form);
    });
}

// A window that slides for long: an index counts the bytes that it holds (a tuple has 12) and frees the
// memory of dropped entries.
inline void check_bytes(IndexKind kind, double least, double most, const IndexOptions& options = {}) {
    constexpr std::uint32_t kWindow = 20'000;
    testing::Random random(21);
    AnyIndex<std::uint64_t> index(kind, options);
    for (std::uint32_t i = 0; i < 12 * kWindow; i += 16) {
        Entry<std::uint64_t> entries[16];
        for (std::uint32_t k = 0; k < 16; ++k) entries[k] = {random(), i + k};
        index.insert_group(entries, 16);
        if (i >= kWindow) index.forget(i - kWindow);
    }
    const double each = static_cast<double>(index.bytes()) / kWindow;
    CHECK(least <= each);
    CHECK(each <= most);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
