// Tables of 64-bit keys to join, conditions on them, and every pair compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../engine.hpp"
#include "testing.hpp"

namespace testing {

using namespace slidejoin;

using Values = std::vector<std::int64_t>;
using Found = std::vector<std::pair<std::int64_t, std::int64_t>>;

inline Bound sum(std::int64_t offset) {
    return {BoundKind::sum, offset >> 63, static_cast<std::uint64_t>(offset), 0.0};
}

inline ConjunctSpec band(std::int64_t lower, std::int64_t upper) {
    return {KeyType::int64, {{sum(lower), sum(upper)}}};
}

inline bool holds(const ConjunctSpec& conjunct, std::int64_t left, std::int64_t right) {
    const auto offset = [](const Bound& bound) {
        return static_cast<__int128>(bound.high) << 64 | bound.low;
    };
    return std::any_of(conjunct.ranges.begin(), conjunct.ranges.end(), [&](const Range& range) {
        return left + offset(range.lower) <= right && right <= left + offset(range.upper);
    });
}

// A table: values of one column for each conjunct, and which of them are missing.
struct Table {
    std::vector<Values> columns;
    std::vector<std::vector<std::uint8_t>> nulls;

    std::size_t size() const { return columns[0].size(); }
};

inline Table random_table(Random& random, std::size_t columns, std::size_t size, std::uint64_t range) {
    Table table;
    for (std::size_t i = 0; i < columns; ++i) {
        Values values(size);
        std::vector<std::uint8_t> nulls(size);
        for (std::size_t row = 0; row < size; ++row) {
            values[row] = static_cast<std::int64_t>(below(random, range)) - 3;
            if (below(random, 50) == 0) values[row] = std::numeric_limits<std::int64_t>::max();
            nulls[row] = below(random, 20) == 0;
        }
        table.columns.push_back(std::move(values));
        table.nulls.push_back(std::move(nulls));
    }
    return table;
}

inline Found every_pair(const JoinSpec& on, const Table& left, const Table& right) {
    Found found;
    for (std::size_t a = 0; a < left.size(); ++a)
        for (std::size_t b = 0; b < right.size(); ++b) {
            bool match = true;
            for (std::size_t i = 0; match && i < on.on.size(); ++i)
                match = !left.nulls[i][a] && !right.nulls[i][b] &&
                        holds(on.on[i], left.columns[i][a], right.columns[i][b]);
            if (match) found.emplace_back(a, b);
        }
    return found;
}

inline std::vector<JoinSpec> conditions() {
    const ConjunctSpec equal = band(0, 0);
    const ConjunctSpec two_bands{KeyType::int64, {{sum(-4), sum(-2)}, {sum(3), sum(5)}}};
    std::vector<JoinSpec> all;
    const auto add = [&](std::vector<ConjunctSpec> on, std::uint32_t equalities, Banded banded) {
        JoinSpec spec;
        spec.on = std::move(on);
        spec.indexed = {equalities, banded};
        all.push_back(std::move(spec));
    };
    add({band(-2, 3)}, 0, Banded::conjunct);
    add({band(1, 0)}, 0, Banded::conjunct);  // matches nothing
    add({two_bands}, 0, Banded::conjunct);
    add({band(-40, 40), band(0, 5)}, 0, Banded::conjunct);
    add({equal, equal}, 2, Banded::none);
    add({equal, band(-9, 9)}, 1, Banded::conjunct);
    add({equal, two_bands, band(-30, 2)}, 1, Banded::conjunct);
    add({band(-40, 40), band(0, 25), band(-20, 1)}, 0, Banded::conjunct);
    return all;
}

}  // namespace testing
