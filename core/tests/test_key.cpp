// Encoding preserves order and value for every key type.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../key.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

template <class User>
static std::vector<User> samples() {
    using Limits = std::numeric_limits<User>;
    std::vector<User> values{Limits::lowest(), Limits::max(), User{0}, User{1}, User{42}};
    if constexpr (std::is_signed_v<User>) values.insert(values.end(), {User{-1}, User{-42}});
    if constexpr (std::is_floating_point_v<User>)
        values.insert(values.end(), {Limits::infinity(), -Limits::infinity(), Limits::denorm_min(),
                                     -Limits::denorm_min(), Limits::min(), -Limits::min(), User(0.1)});
    testing::Random random(7);
    for (int i = 0; i < 200; ++i) {
        const auto value = std::bit_cast<User>(
            static_cast<
                std::conditional_t<sizeof(User) == 1, std::uint8_t,
                                   std::conditional_t<sizeof(User) == 2, std::uint16_t, Encoded<User>>>>(
                random()));
        if (!is_null(value)) values.push_back(value);
    }
    return values;
}

template <class User>
static void check_encoding() {
    for (const User a : samples<User>()) {
        CHECK(decode<User>(encode(a)) == a);
        for (const User b : samples<User>()) {
            CHECK((a < b) == (encode(a) < encode(b)));
            CHECK((a == b) == (encode(a) == encode(b)));
        }
    }
}

TEST(encoding_keeps_order) {
    check_encoding<std::int8_t>();
    check_encoding<std::int16_t>();
    check_encoding<std::int32_t>();
    check_encoding<std::int64_t>();
    check_encoding<std::uint8_t>();
    check_encoding<std::uint16_t>();
    check_encoding<std::uint32_t>();
    check_encoding<std::uint64_t>();
    check_encoding<float>();
    check_encoding<double>();
}

TEST(negative_zero_is_zero) {
    CHECK(encode(-0.0) == encode(0.0));
    CHECK(encode(-0.0f) == encode(0.0f));
}

TEST(nan_is_null) {
    CHECK(is_null(std::numeric_limits<double>::quiet_NaN()));
    CHECK(is_null(-std::numeric_limits<float>::quiet_NaN()));
    CHECK(!is_null(std::numeric_limits<double>::infinity()));
    CHECK(!is_null(0));
}
SLIDEJOIN_TARGET_END
