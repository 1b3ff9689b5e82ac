// The RaP-Table compared with a plain list (index_cases.hpp), and how soon its partitions are even.
//
// Evenness is measured by the mean deviation of the partition sizes from an even share, in shares
// (imbalance), and by the largest partition. With repeated keys no splitters are perfect: the imbalance of
// the best possible splitters, which are computed from the tuples themselves, is subtracted.
#include <random>

#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/rap_table.hpp"
#include "index_cases.hpp"

using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

template <class Key>
using Keys = std::vector<Key>;

template <class Key>
std::unique_ptr<RapSubwindow<Key>> filled(const Keys<Key>& keys, std::uint32_t partitions,
                                          const RapSubwindow<Key>* before) {
    auto part = std::make_unique<RapSubwindow<Key>>(keys.size(), made_of(1, partitions, 1.25, 2), before);
    for (std::uint32_t i = 0; i < keys.size(); ++i) part->insert(keys[i], i);
    part->seal();
    part->check();
    CHECK(part->table().used_blocks() < 2 * partitions);
    return part;
}

// The imbalance of the best splitters for these keys, which are at the ranks of the tuples themselves.
template <class Key>
double least_imbalance(Keys<Key> keys, std::uint32_t partitions) {
    std::sort(keys.begin(), keys.end());
    const double share = static_cast<double>(keys.size()) / partitions;
    double total = 0;
    std::size_t from = 0;
    for (std::uint32_t j = 1; j <= partitions; ++j) {
        std::size_t to = keys.size() * j / partitions;
        while (to > 0 && to < keys.size() && keys[to] == keys[to - 1]) ++to;
        to = std::max(from, to);
        total += std::abs(static_cast<double>(to - from) - share);
        from = to;
    }
    return total / static_cast<double>(keys.size());
}

template <class Key>
std::size_t most_of_one_key(Keys<Key> keys) {
    std::sort(keys.begin(), keys.end());
    std::size_t most = 0, run = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        run = i > 0 && keys[i] == keys[i - 1] ? run + 1 : 1;
        most = std::max(most, run);
    }
    return most;
}

struct Evenness {
    double imbalance;  // beyond what no splitters could avoid
    double largest;    // in even shares, without the most frequent key's tuples
};

template <class Key>
Evenness evenness(const RapSubwindow<Key>& part, const Keys<Key>& keys, std::uint32_t partitions) {
    const std::size_t repeated = most_of_one_key(keys);
    const double share = static_cast<double>(keys.size()) / partitions;
    std::size_t largest = 0;
    double total = 0;  // distance from the even share
    for (std::uint32_t i = 0; i < part.splitters().partitions(); ++i) {
        largest = std::max(largest, part.table().size(i));
        total += std::abs(static_cast<double>(part.table().size(i)) - share);
    }
    return {total / static_cast<double>(keys.size()) - least_imbalance(keys, partitions),
            static_cast<double>(largest - std::min(largest, repeated - 1)) / share};
}

// The evenness after 0, 1, 2, ... adjustments; draw() makes new keys for each subwindow.
template <class Key, class Draw>
std::vector<Evenness> adjusted(std::uint32_t partitions, int adjustments, Draw draw) {
    std::unique_ptr<RapSubwindow<Key>> before;
    std::vector<Evenness> all;
    for (int i = 0; i <= adjustments; ++i) {
        const Keys<Key> keys = draw();
        before = filled<Key>(keys, partitions, before.get());
        all.push_back(evenness(*before, keys, partitions));
    }
    return all;
}

// For 32-bit keys: log_P 2^32.
int adjustments_at_worst(std::uint32_t partitions) {
    const int digit = std::countr_zero(partitions);
    return (32 + digit - 1) / digit;
}

// Keys made from real numbers of [0, 1).
template <class Key>
Key scaled(double x) {
    const double inside = std::clamp(x, 0.0, 1.0 - 0x1p-32);
    return static_cast<Key>(std::ldexp(inside, sizeof(Key) * 8));
}

enum class Law { uniform, gaussian, gamma_1_5, gamma_3_3, zipf, b_model };
constexpr Law kLaws[] = {Law::uniform,   Law::gaussian, Law::gamma_1_5,
                         Law::gamma_3_3, Law::zipf,     Law::b_model};

template <class Key>
Key draw(Law law, testing::Random& random) {
    const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    switch (law) {
        case Law::uniform:
            return static_cast<Key>(random());
        case Law::gaussian:
            return scaled<Key>(std::normal_distribution<>(0.5, 0.125)(random));
        case Law::gamma_1_5:
            return scaled<Key>(std::gamma_distribution<>(1, 5)(random) / 100);
        case Law::gamma_3_3:
            return scaled<Key>(std::gamma_distribution<>(3, 3)(random) / 100);
        case Law::zipf:  // rank r of 2^20 has a frequency of about 1 / r
            return static_cast<Key>(std::exp(unit() * std::log(double{1 << 20})));
        case Law::b_model: {  // 0.7 of the keys of a range are in its lower half
            Key key = 0;
            for (unsigned bit = 0; bit < 24; ++bit) key = static_cast<Key>(key << 1 | (unit() > 0.7));
            return key;
        }
    }
    return 0;
}

template <class Key>
void check_laws(std::uint32_t partitions, std::size_t count) {
    testing::Random random(partitions);
    for (const Law law : kLaws) {
        const auto all = adjusted<Key>(partitions, 4, [&] {
            Keys<Key> keys(count);
            for (Key& key : keys) key = draw<Key>(law, random);
            return keys;
        });
        for (std::size_t i = 3; i < all.size(); ++i) {
            CHECK(all[i].imbalance < 0.35);
            CHECK(all[i].largest < 5);
        }
    }
}

}  // namespace

TEST(rap_table) { check_all(slidejoin::IndexKind::rap_table); }
TEST(rap_table_of_small_subwindows) {
    check_all(slidejoin::IndexKind::rap_table, made_of(16, 0, 1.25, 8));
    check_all(slidejoin::IndexKind::rap_table, made_of(64, 0, 1.25, 8));
}
TEST(rap_table_of_small_partitions) {
    check_all(slidejoin::IndexKind::rap_table, made_of(1024, 1024, 1.1, 2));
}
TEST(rap_table_of_few_partitions) { check_all(slidejoin::IndexKind::rap_table, made_of(400, 3, 2.0, 3)); }
TEST(rap_table_of_one_partition) { check_all(slidejoin::IndexKind::rap_table, made_of(64, 1, 1.25, 64)); }

TEST(rap_table_counts_its_memory) { check_bytes(slidejoin::IndexKind::rap_table, 18, 32); }

TEST(the_first_splitters_cut_all_keys_evenly) {
    const Splitters<std::uint32_t> four(4);
    for (std::uint32_t j = 0; j < 4; ++j) CHECK_EQUAL(four.last(j), (j + 1) * 0x40000000u - 1);
    const Splitters<std::uint64_t> three(3);
    CHECK_EQUAL(three.last(0), std::uint64_t{0x5555555555555554});
    CHECK_EQUAL(three.last(2), ~std::uint64_t{0});
}

TEST(splitters_are_found_like_by_counting) {
    testing::Random random(3);
    for (const std::uint32_t partitions : {1u, 2u, 31u, 64u, 65u, 1000u, 5000u}) {
        Keys<std::uint64_t> keys(2 * partitions);
        for (auto& key : keys) key = random() >> testing::below(random, 64);
        const auto part = filled<std::uint64_t>(keys, partitions, nullptr);
        const auto next = filled<std::uint64_t>(keys, partitions, part.get());
        for (const auto* each : {part.get(), next.get()}) {
            const Splitters<std::uint64_t>& splitters = each->splitters();
            std::uint32_t last = 0;
            std::sort(keys.begin(), keys.end());
            for (const std::uint64_t key : keys) {
                std::uint32_t expected = 0;
                while (splitters.last(expected) < key) ++expected;
                CHECK_EQUAL(splitters.find(key), expected);
                last = splitters.find(key, last);
                CHECK_EQUAL(last, expected);
                CHECK(splitters.range(expected).contains(key));
            }
            CHECK_EQUAL(splitters.find(~std::uint64_t{0}), partitions - 1);
            CHECK_EQUAL(splitters.find(~std::uint64_t{0}, last), partitions - 1);
        }
    }
}

TEST(splitters_are_exact_at_the_ends_of_the_type) {
    // Two partitions of four tuples each: half of them up to the middle of [least, greatest].
    const std::uint64_t top = ~std::uint64_t{0};
    const auto part = filled<std::uint64_t>({0, 0, top, top}, 1, nullptr);
    const RapSubwindow<std::uint64_t> halves(4, made_of(1, 2, 1.25, 2), part.get());
    CHECK_EQUAL(halves.splitters().last(0), top / 2);
    const auto high = filled<std::uint64_t>({top - 8, top - 8, top, top}, 1, nullptr);
    const RapSubwindow<std::uint64_t> fourths(4, made_of(1, 4, 1.25, 2), high.get());
    for (std::uint64_t j = 1; j < 4; ++j)
        CHECK_EQUAL(fourths.splitters().last(static_cast<std::uint32_t>(j - 1)), top - 8 + 2 * j);
    const auto equal = filled<std::uint32_t>({~0u, ~0u, ~0u, ~0u}, 4, nullptr);
    const auto again = filled<std::uint32_t>({~0u, ~0u, 0, 5}, 4, equal.get());
    for (std::uint32_t j = 0; j < 4; ++j) CHECK_EQUAL(again->splitters().last(j), ~0u);
}

// After three adjustments the imbalance is at most 0.35 shares, without the part that repeated keys make
// unavoidable (random tuples alone give 0.2 with 32 per partition), and no partition has five shares.
TEST(partitions_are_even_after_three_adjustments) {
    check_laws<std::uint32_t>(1024, 1 << 15);
    check_laws<std::uint64_t>(1024, 1 << 15);
    check_laws<std::uint32_t>(256, 1 << 14);
}

TEST(rising_keys_stay_correct) {
    std::uint32_t key = 0;
    const auto all = adjusted<std::uint32_t>(64, 3, [&] {
        Keys<std::uint32_t> keys(4096);
        for (std::uint32_t& each : keys) each = key++;
        return keys;
    });
    CHECK(all[3].largest > 32);  // all in the last partition: this structure is not made for such keys
}

// Most keys are at one end, and a few far away keep the range wide: every adjustment divides it by P.
TEST(the_worst_case_takes_as_many_adjustments_as_the_keys_have_digits) {
    testing::Random random(9);
    for (const std::uint32_t partitions : {16u, 256u, 1024u}) {
        const int most = adjustments_at_worst(partitions);
        const std::size_t count = 32 * partitions;
        const auto all = adjusted<std::uint32_t>(partitions, most, [&] {
            Keys<std::uint32_t> keys;
            for (std::uint32_t far = ~0u; far > 8 * partitions; far /= partitions) keys.push_back(far);
            while (keys.size() < count)
                keys.push_back(static_cast<std::uint32_t>(testing::below(random, 8 * partitions)));
            return keys;
        });
        CHECK(all[0].largest > partitions / 2);
        CHECK(all[1].largest > partitions / 2);
        CHECK(all.back().imbalance < 0.35);
        CHECK(all.back().largest < 4);
    }
}

// Views of videos as in public data sets: log-normal, nine of ten in a 250th of the range. With few
// partitions they are the worst case.
TEST(views_of_videos_are_divided_evenly) {
    testing::Random random(4);
    std::lognormal_distribution<double> law(8.3, 2.9);
    Keys<std::uint32_t> views;
    while (views.size() < 4000) views.push_back(static_cast<std::uint32_t>(std::min(law(random), 6.5e7)));
    for (const std::uint32_t partitions : {16u, 64u, 256u, 512u}) {
        const int most = partitions >= 256 ? 3 : adjustments_at_worst(partitions);
        const auto all = adjusted<std::uint32_t>(partitions, most, [&] {
            std::shuffle(views.begin(), views.end(), random);
            return views;
        });
        CHECK(all[0].largest > partitions / 2);
        CHECK(all.back().imbalance < 0.35);
        CHECK(all.back().largest < 5);
    }
}
SLIDEJOIN_TARGET_END
