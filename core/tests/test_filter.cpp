// The keys of an index and the filter of its candidates, compared with the conditions themselves.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../join/index_keys.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

static Bound sum(std::int64_t offset) {
    return {BoundKind::sum, offset < 0 ? -1 : 0, static_cast<std::uint64_t>(offset), 0.0};
}

static ConjunctSpec band(std::int64_t lower, std::int64_t upper) {
    return {KeyType::int64, {{sum(lower), sum(upper)}}};
}

static ConjunctSpec not_equal() { return {KeyType::int64, {{{}, sum(-1)}, {sum(1), {}}}}; }

static bool holds(const ConjunctSpec& conjunct, std::int64_t left, std::int64_t right) {
    for (const Range& range : conjunct.ranges) {
        const auto offset = [](const Bound& bound) { return static_cast<std::int64_t>(bound.low); };
        if ((range.lower.kind == BoundKind::none || left + offset(range.lower) <= right) &&
            (range.upper.kind == BoundKind::none || right <= left + offset(range.upper)))
            return true;
    }
    return false;
}

// Rows of both sides, each with a key for every condition and a time.
struct Rows {
    explicit Rows(const JoinSpec& spec) : columns(spec.on.size() + 1) {}

    void add(testing::Random& random) {
        for (auto& column : columns) column.push_back(static_cast<std::int64_t>(testing::below(random, 9)));
    }

    Batch batch() {
        keys.clear();
        for (const auto& column : columns) keys.push_back({column.data(), nullptr});
        return {nullptr, keys.data(), columns.back().data(), nullptr, columns.back().size()};
    }

    std::vector<std::vector<std::int64_t>> columns;  // the times come last
    std::vector<Column> keys;
};

static bool matches(const JoinSpec& spec, const Rows& left, std::size_t i, const Rows& right, std::size_t j) {
    for (std::size_t k = 1; k < spec.on.size(); ++k)
        if (!holds(spec.on[k], left.columns[k][i], right.columns[k][j])) return false;
    return spec.window.kind != WindowKind::event ||
           holds(time_band(spec.window), left.columns.back()[i], right.columns.back()[j]);
}

// Rows arrive in groups, meet all rows of the other side (of a self-join: all rows before), and are stored;
// the oldest ones are forgotten. Positions start shortly before 2^32.
static void check_filter(const JoinSpec& spec, std::uint64_t seed) {
    testing::Random random(seed);
    CandidateFilter filter(spec);
    Rows rows[2] = {Rows(spec), Rows(spec)};
    const std::uint64_t start = (std::uint64_t{1} << 32) - 150;
    std::uint64_t first[2] = {start, start};
    for (const Side side : {Side::left, Side::right}) filter.load(side, start);
    for (int round = 0; round < 120; ++round) {
        const Side side =
            spec.self_join ? Side::left : Side{static_cast<std::uint8_t>(testing::below(random, 2))};
        const int own = static_cast<int>(side), other = spec.self_join ? own : 1 - own;
        const std::size_t before = rows[own].columns.back().size(), count = 1 + testing::below(random, 16);
        for (std::size_t i = 0; i < count; ++i) rows[own].add(random);
        bool nulls[16] = {};
        filter.read(rows[own].batch(), before, count, nulls);
        filter.find_intervals({nullptr, side}, count);
        const std::size_t stored = spec.self_join ? before : rows[other].columns.back().size();
        const auto gone = static_cast<std::size_t>(first[other] - start);
        for (std::size_t i = 0; i < count; ++i)
            for (const bool partner_is_left : {false, true}) {
                if (!spec.self_join && partner_is_left != (side == Side::right)) continue;
                const Visible visible{static_cast<std::uint32_t>(first[other]),
                                      static_cast<std::uint32_t>(stored - gone)};
                const Task<std::uint64_t> task{{}, visible, static_cast<std::uint32_t>(i), partner_is_left,
                                               0,  0};
                std::vector<std::uint32_t> found, expected;
                for (std::uint32_t at = 0; at < visible.count; ++at) {
                    found.push_back(at);
                    const std::size_t mine = before + i, partner = gone + at;
                    if (partner_is_left ? matches(spec, rows[other], partner, rows[own], mine)
                                        : matches(spec, rows[own], mine, rows[other], partner))
                        expected.push_back(at);
                }
                filter.begin(task);
                found.resize(filter.test(found.data(), found.size()));
                CHECK(found == expected);
            }
        for (std::size_t i = 0; i < count; ++i) filter.keep(side, i);
        const std::size_t live = before + count - static_cast<std::size_t>(first[own] - start);
        first[own] += live > 100 ? live - 100 : testing::below(random, 3) == 0 ? live / 2 : 0;
        filter.forget(side, first[own]);
    }
    CHECK(filter.bytes() >= 100 * 8);
}

TEST(filters_keep_what_every_condition_holds_for) {
    for (const bool self_join : {false, true})
        for (std::size_t more = 1; more <= 4; ++more)
            for (const bool unequal : {false, true}) {
                JoinSpec spec;
                spec.self_join = self_join;
                spec.on.assign(1, band(0, 0));  // the index decides it
                for (std::size_t k = 0; k < more; ++k)
                    spec.on.push_back(band(-3 + static_cast<std::int64_t>(k), 4));
                if (unequal) spec.on.back() = not_equal();
                spec.window.left = spec.window.right = 100;
                check_filter(spec, more);
            }
}

// At the ends of the type some intervals are empty and must contain no key.
TEST(filters_find_nothing_in_empty_intervals) {
    using Limits = std::numeric_limits<std::int64_t>;
    const std::vector<std::int64_t> values{Limits::min(), -1, 0, Limits::max()};
    for (const auto& [conjunct, expected] :
         {std::pair{band(1, 4), std::vector<std::uint32_t>{}}, {not_equal(), {0, 1, 2}}}) {
        JoinSpec spec;
        spec.on = {band(0, 0), conjunct};
        CandidateFilter filter(spec);
        Rows rows(spec);
        rows.columns.assign(3, values);
        bool nulls[4] = {};
        filter.read(rows.batch(), 0, 4, nulls);
        for (std::size_t i = 0; i < 4; ++i) filter.keep(Side::right, i);
        filter.find_intervals({nullptr, Side::left}, 4);
        filter.begin(Task<std::uint64_t>{{}, {0, 4}, 3, false, 0, 0});  // of the greatest value
        std::vector<std::uint32_t> found{0, 1, 2, 3};
        found.resize(filter.test(found.data(), found.size()));
        CHECK(found == expected);
    }
}

TEST(filters_test_the_time_of_an_event_window) {
    JoinSpec spec;
    spec.on.assign(1, band(0, 0));
    spec.window = {.kind = WindowKind::event, .before = 2, .after = 3};
    check_filter(spec, 1);
    spec.on.push_back(band(-4, 2));
    check_filter(spec, 2);
}

TEST(filters_copy_keys_to_a_new_position) {
    JoinSpec spec;
    spec.on = {band(0, 0), band(0, 0)};
    CandidateFilter filter(spec);
    Rows rows(spec);
    testing::Random random(3);
    for (int i = 0; i < 5; ++i) rows.add(random);
    for (std::size_t i = 0; i < 5; ++i) rows.columns[1][i] = static_cast<std::int64_t>(10 + i);
    bool nulls[5] = {};
    filter.read(rows.batch(), 0, 5, nulls);
    for (std::size_t i = 0; i < 5; ++i) filter.keep(Side::left, i);
    filter.forget(Side::left, 2);
    filter.copy(Side::left, 3);
    filter.find_intervals({nullptr, Side::right}, 5);
    filter.begin(Task<std::uint64_t>{{}, {2, 4}, 3, true, 0, 0});
    std::uint32_t found[4] = {0, 1, 2, 3};
    CHECK_EQUAL(filter.test(found, 4), std::size_t{2});
    CHECK_EQUAL(found[0], 1u);
    CHECK_EQUAL(found[1], 3u);
}

TEST(self_joins_know_which_arrivals_ask_for_the_same_on_both_sides) {
    JoinSpec spec;
    spec.self_join = true;
    for (const bool same : {true, false}) {
        spec.on = {band(0, 0), band(-2, 2), same ? band(-1, 1) : band(-1, 2)};
        CandidateFilter filter(spec);
        Rows rows(spec);
        testing::Random random(5);
        rows.add(random);
        bool nulls[1] = {};
        filter.read(rows.batch(), 0, 1, nulls);
        filter.find_intervals({nullptr, Side::left}, 1);
        CHECK_EQUAL(filter.symmetric(0), same);
    }
}

// --- the keys of equalities and a band together ---

template <class User>
static void check_compound(ConjunctSpec band, const std::vector<User>& values,
                           const std::function<bool(User, User)>& in_band) {
    JoinSpec spec;
    spec.on = {{KeyType::int64, {{sum(0), sum(0)}}}, band};
    spec.indexed = {1, Banded::conjunct};
    CompoundKeys keys(spec);
    std::vector<std::int64_t> groups;
    std::vector<User> banded;
    for (const User value : values)
        for (const std::int64_t group : {-1, 0, 7}) {
            groups.push_back(group);
            banded.push_back(value);
        }
    const Column columns[] = {{groups.data(), nullptr}, {banded.data(), nullptr}};
    const std::size_t count = groups.size(), width = keys.width();
    std::vector<std::uint64_t> encoded(count);
    std::vector<Interval<std::uint64_t>> asked(count * width);
    const auto nulls = std::make_unique<bool[]>(count);
    keys.read({nullptr, columns, nullptr, nullptr, count}, 0, count, encoded.data(), nulls.get());
    std::size_t candidates = 0, partners = 0;
    for (const Side side : {Side::left, Side::right}) {
        keys.partners({nullptr, side}, encoded.data(), count, asked.data());
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t j = 0; j < count; ++j) {
                const bool is_left = side == Side::left;
                const bool partner = groups[i] == groups[j] && (is_left ? in_band(banded[i], banded[j])
                                                                        : in_band(banded[j], banded[i]));
                int times = 0;
                for (std::size_t k = 0; k < width; ++k) times += asked[i * width + k].contains(encoded[j]);
                CHECK(times <= 1);
                CHECK(times == 1 || !partner);
                candidates += static_cast<std::size_t>(times);
                partners += partner;
            }
    }
    CHECK(candidates <= 2 * partners);  // cells are an eighth to a quarter of the band
}

TEST(compound_keys_find_every_partner_of_a_band_of_integers) {
    for (const std::int64_t centre : {std::int64_t{0}, std::int64_t{1} << 40, -(std::int64_t{5} << 27)}) {
        std::vector<std::int64_t> values;
        for (std::int64_t i = -150; i < 150; ++i) values.push_back(centre + i * 4);
        for (const auto& [lower, upper] :
             {std::pair<std::int64_t, std::int64_t>{-64, 64}, {8, 100}, {-3, 60}})
            check_compound<std::int64_t>(band(lower, upper), values, [=](std::int64_t a, std::int64_t b) {
                return a + lower <= b && b <= a + upper;
            });
    }
}

TEST(compound_keys_find_every_partner_of_a_band_of_floats) {
    for (const double centre : {0.0, 1e15, -3e9, 1e17, -1e17}) {
        std::vector<double> values;
        for (int i = -100; i < 100; ++i) values.push_back(centre + i * 0.5);
        const ConjunctSpec band{KeyType::float64,
                                {{{BoundKind::sum, 0, 0, -4.0}, {BoundKind::sum, 0, 0, 9.0}}}};
        check_compound<double>(band, values, [](double a, double b) { return a - 4 <= b && b <= a + 9; });
    }
}
