// A probe interval has exactly the keys that match: left + lower <= right <= left + upper.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../probe.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

static Bound sum(__int128 offset) {
    return {BoundKind::sum, static_cast<std::int64_t>(offset >> 64), static_cast<std::uint64_t>(offset), 0.0};
}
static Bound real(double offset) { return {BoundKind::sum, 0, 0, offset}; }
static Bound step(std::int64_t places) {
    return {BoundKind::step, places < 0 ? -1 : 0, static_cast<std::uint64_t>(places), 0.0};
}

TEST(every_int8_pair) {
    for (int lower = -300; lower <= 300; lower += 17)
        for (int upper = lower; upper <= lower + 60; upper += 13) {
            const Band<std::int8_t> band({sum(lower), sum(upper)});
            for (int left = -128; left < 128; ++left)
                for (int right = -128; right < 128; ++right) {
                    const bool match = left + lower <= right && right <= left + upper;
                    const auto l = encode(static_cast<std::int8_t>(left));
                    const auto r = encode(static_cast<std::int8_t>(right));
                    CHECK(band.partners(Side::left, l).contains(r) == match);
                    CHECK(band.partners(Side::right, r).contains(l) == match);
                }
        }
}

template <class User>
static void check_integer_ends() {
    using Limits = std::numeric_limits<User>;
    const __int128 span = static_cast<__int128>(Limits::max()) - Limits::min();
    std::vector<User> keys;
    for (int i = 0; i < 3; ++i) {
        keys.push_back(static_cast<User>(Limits::min() + static_cast<User>(i)));
        keys.push_back(static_cast<User>(Limits::max() - static_cast<User>(i)));
        keys.push_back(static_cast<User>(i));
    }
    std::vector<__int128> offsets{0, 1, -1, span, -span, span - 1, 1 - span, span + 1, -span - 1};
    for (const __int128 lower : offsets)
        for (const __int128 upper : offsets) {
            if (lower > upper) continue;
            const Band<User> band({sum(lower), sum(upper)});
            for (const User left : keys)
                for (const User right : keys) {
                    const __int128 difference = static_cast<__int128>(right) - left;
                    const bool match = lower <= difference && difference <= upper;
                    CHECK(band.partners(Side::left, encode(left)).contains(encode(right)) == match);
                    CHECK(band.partners(Side::right, encode(right)).contains(encode(left)) == match);
                }
        }
}

TEST(integers_at_the_ends_of_their_types) {
    check_integer_ends<std::int32_t>();
    check_integer_ends<std::uint32_t>();
    check_integer_ends<std::int64_t>();
    check_integer_ends<std::uint64_t>();
}

template <class User>
static void check_floats() {
    using Limits = std::numeric_limits<User>;
    testing::Random random(11);
    const auto any = [&]() -> User {
        switch (testing::below(random, 8)) {
            case 0:
                return std::bit_cast<User>(static_cast<Encoded<User>>(random()));
            case 1:
                return Limits::infinity();
            case 2:
                return -Limits::infinity();
            case 3:
                return Limits::max() / static_cast<User>(1 + testing::below(random, 4));
            case 4:
                return static_cast<User>(testing::below(random, 3)) * Limits::denorm_min();
            case 5:
                return static_cast<User>(testing::below(random, 100)) / 10;
            case 6:
                return -static_cast<User>(testing::below(random, 100)) / 10;
            default:
                return static_cast<User>(testing::below(random, 1000)) * User(1e7);
        }
    };
    int tried = 0;
    while (tried < 20000) {
        const User a = any(), b = any(), left = any(), other = any();
        if (!std::isfinite(a) || !std::isfinite(b) || is_null(left) || is_null(other)) continue;
        ++tried;
        const User lower = std::min(a, b), upper = std::max(a, b);
        const Band<User> band({real(lower), real(upper)});
        // Keys around the ends of the interval show wrong rounding.
        std::vector<User> rights{other, left + lower, left + upper};
        for (int i = 0; i < 2; ++i) {
            rights.push_back(std::nextafter(rights[1], i ? Limits::infinity() : -Limits::infinity()));
            rights.push_back(std::nextafter(rights[2], i ? Limits::infinity() : -Limits::infinity()));
        }
        for (const User right : rights) {
            if (is_null(right)) continue;
            const bool match = left + lower <= right && right <= left + upper;
            CHECK(band.partners(Side::left, encode(left)).contains(encode(right)) == match);
            const auto lefts = band.partners(Side::right, encode(right));
            CHECK(lefts.contains(encode(left)) == match);
            if (lefts.empty()) continue;
            // Both ends are in the interval, their outer neighbours are not.
            const auto holds = [&](Encoded<User> key) {
                const User x = decode<User>(key);
                return x + lower <= right && right <= x + upper;
            };
            CHECK(holds(lefts.low) && holds(lefts.high));
            if (lefts.low > encode(-Limits::infinity())) CHECK(!holds(lefts.low - 1));
            if (lefts.high < encode(Limits::infinity())) CHECK(!holds(lefts.high + 1));
        }
    }
}

TEST(floats_follow_the_sum_form) {
    check_floats<float>();
    check_floats<double>();
    const Band<double> band({real(0.0), real(0.3)});
    CHECK(band.partners(Side::right, encode(0.4)).contains(encode(0.1)));  // though 0.4 - 0.1 > 0.3
}

template <class User>
static void check_comparisons(std::vector<User> keys) {
    const Bound open;
    const struct {
        Band<User> band;
        bool (*holds)(User, User);
    } cases[] = {
        {Band<User>({step(0), step(0)}), [](User l, User r) { return l == r; }},
        {Band<User>({step(1), open}), [](User l, User r) { return l < r; }},
        {Band<User>({step(0), open}), [](User l, User r) { return l <= r; }},
        {Band<User>({open, step(-1)}), [](User l, User r) { return l > r; }},
        {Band<User>({open, step(0)}), [](User l, User r) { return l >= r; }},
        {Band<User>({open, open}), [](User, User) { return true; }},
    };
    for (const auto& [band, holds] : cases)
        for (const User left : keys)
            for (const User right : keys) {
                CHECK(band.partners(Side::left, encode(left)).contains(encode(right)) == holds(left, right));
                CHECK(band.partners(Side::right, encode(right)).contains(encode(left)) == holds(left, right));
            }
}

// Half-open ranges that start at a sum, inclusive or exclusive: keys where sums are rounded, and at the ends.
template <class User>
static void check_offsets() {
    using Limits = std::numeric_limits<User>;
    std::vector<User> keys{-Limits::infinity(), -Limits::max(),    -1, 0, Limits::denorm_min(),
                           Limits::max(),       Limits::infinity()};
    for (const User key : {User(0.1), User(0.3), User(0.4), User(1) / 3, User(1e10)})
        for (const User near : {key, std::nextafter(key, User(0)), std::nextafter(key, User(2e10))})
            keys.push_back(near);
    for (const User offset : {User(0.3), User(-0.3), User(1e10), Limits::max(), Limits::denorm_min()}) {
        const Bound open, at = real(offset), beyond{BoundKind::beyond, 0, 0, static_cast<double>(offset)};
        const Band<User> less({beyond, open}), less_equal({at, open}), greater({open, beyond}),
            greater_equal({open, at});
        for (const User left : keys)
            for (const User right : keys) {
                const User sum = left + offset;
                const auto check = [&](const Band<User>& band, bool match) {
                    CHECK(band.partners(Side::left, encode(left)).contains(encode(right)) == match);
                    CHECK(band.partners(Side::right, encode(right)).contains(encode(left)) == match);
                };
                check(less, sum < right);
                check(less_equal, sum <= right);
                check(greater, sum > right);
                check(greater_equal, sum >= right);
            }
    }
}

TEST(half_lines_with_an_offset) {
    check_offsets<float>();
    check_offsets<double>();
}

// Probing many keys at once gives the same as one by one.
TEST(many_narrow_integers) {
    using Limits = std::numeric_limits<std::int32_t>;
    std::vector<std::uint32_t> keys;
    std::vector<std::uint8_t> sides;
    for (const std::int32_t key :
         {Limits::min(), Limits::min() + 1, -1, 0, 1, Limits::max() - 1, Limits::max()})
        for (const std::uint8_t side : {std::uint8_t{0}, std::uint8_t{1}}) {
            keys.push_back(encode(key));
            sides.push_back(side);
        }
    const Bound open{BoundKind::none, 0, 0, 0.0};
    const __int128 far = static_cast<__int128>(1) << 33;
    const Bound bounds[] = {open,    sum(0),   sum(1),    sum(-1),  sum(-10),
                            sum(10), sum(far), sum(-far), step(-1), step(1)};
    for (const Bound& lower : bounds)
        for (const Bound& upper : bounds) {
            const Band<std::int32_t> band({lower, upper});
            std::vector<Interval<std::uint32_t>> found(keys.size());
            band.partners({sides.data(), Side::left}, keys.data(), keys.size(), found.data());
            for (std::size_t i = 0; i < keys.size(); ++i) {
                const auto alone = band.partners(Side{sides[i]}, keys[i]);
                CHECK(found[i].empty() == alone.empty());
                CHECK(alone.empty() || (found[i].low == alone.low && found[i].high == alone.high));
            }
        }
}

TEST(comparisons) {
    const double tiny = std::numeric_limits<double>::denorm_min(),
                 inf = std::numeric_limits<double>::infinity();
    check_comparisons<double>({-inf, -1.5, -tiny, -0.0, 0.0, tiny, 1.5, inf});
    check_comparisons<float>({-0.0f, 0.0f, 1.0f, std::numeric_limits<float>::infinity()});
    check_comparisons<std::int64_t>({INT64_MIN, -1, 0, 1, INT64_MAX});
    check_comparisons<std::uint64_t>({0, 1, UINT64_MAX});
    check_comparisons<std::uint8_t>({0, 1, 255});
}

TEST(overlapping_ranges_are_joined) {
    const UnionCondition<std::int32_t> condition({{sum(-5), sum(5)}, {sum(3), sum(8)}, {sum(20), sum(35)}});
    const std::uint32_t key = encode(std::int32_t{100});
    Interval<std::uint32_t> found[3];
    condition.partners({nullptr, Side::left}, &key, 1, found);
    CHECK(decode<std::int32_t>(found[0].low) == 95 && decode<std::int32_t>(found[0].high) == 108);
    CHECK(decode<std::int32_t>(found[1].low) == 120 && decode<std::int32_t>(found[1].high) == 135);
    CHECK(found[2].empty());
    condition.partners({nullptr, Side::right}, &key, 1, found);
    CHECK(decode<std::int32_t>(found[0].low) == 65 && decode<std::int32_t>(found[0].high) == 80);
    CHECK(decode<std::int32_t>(found[1].low) == 92 && decode<std::int32_t>(found[1].high) == 105);
    CHECK(found[2].empty());
}
SLIDEJOIN_TARGET_END
