// The join of plain arrivals in one pass (join/plain.hpp), compared with a comparison of all with all.
//
// The arrivals it leaves to the general join are inserted one by one here, as that join would leave them.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../index/bucket_tree.hpp"
#include "../join/plain.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

// Arrivals, and the join of those before with each of them by definition.
template <class Key>
class Stream {
  public:
    Stream(std::uint64_t left, std::uint64_t right, std::uint64_t start)
        : window_{left, right}, next_{start, start}, start_(start) {}

    std::vector<std::uint8_t> sides;
    std::vector<Key> keys;
    std::vector<Interval<Key>> intervals;
    std::vector<Place> places;

    void add(unsigned side, Key key, Interval<Key> interval) {
        const std::uint64_t last = next_[side ^ 1];
        const std::uint64_t first = std::max(start_, last - std::min(last, window_[side ^ 1]));
        sides.push_back(static_cast<std::uint8_t>(side));
        keys.push_back(key);
        intervals.push_back(interval);
        places.push_back({next_[side]++, first, last});
        held_[side].push_back(key);
    }

    std::uint64_t start() const { return start_; }
    std::uint64_t window(int side) const { return window_[side]; }

    PlainArrivals<Key> from(std::size_t at, std::size_t count) const {
        return {&sides[at], &keys[at], &intervals[at], &places[at], count};
    }

    // The partners of one arrival.
    std::vector<std::int64_t> partners(std::size_t i) const {
        std::vector<std::int64_t> found;
        for (std::uint64_t met = places[i].first; met < places[i].last; ++met) {
            const Key key = held_[sides[i] ^ 1][met - start_];
            if (key >= intervals[i].low && key <= intervals[i].high)
                found.push_back(static_cast<std::int64_t>(met));
        }
        return found;
    }

  private:
    std::uint64_t window_[2];
    std::uint64_t next_[2];
    std::uint64_t start_;
    std::vector<Key> held_[2];
};

// Checks the pairs of arrivals [from, to): those of an arrival in order, if they are sorted.
template <class Key>
void check_pairs(const Stream<Key>& stream, std::size_t from, std::size_t to, Pairs& pairs, bool sorted) {
    std::size_t at = 0;
    for (std::size_t i = from; i < to; ++i) {
        const std::vector<std::int64_t> partners = stream.partners(i);
        CHECK(at + partners.size() <= pairs.size());
        const std::int64_t* const own = (stream.sides[i] ? pairs.right() : pairs.left()) + at;
        std::int64_t* const met = (stream.sides[i] ? pairs.left() : pairs.right()) + at;
        if (!sorted) std::sort(met, met + partners.size());
        CHECK(std::equal(partners.begin(), partners.end(), met));
        const auto position = static_cast<std::int64_t>(stream.places[i].position);
        CHECK(std::all_of(own, own + partners.size(), [&](std::int64_t each) { return each == position; }));
        at += partners.size();
    }
    CHECK_EQUAL(at, pairs.size());
}

// Joins the stream in calls of `step` arrivals. Returns how many of them were left to the general join.
template <class Key>
std::size_t check_stream(const Stream<Key>& stream, std::size_t group, std::size_t step, std::size_t limit,
                         bool sorted) {
    BucketTree<Key> indexes[2];
    ResultWriter writer(sorted);
    MatchList list;
    std::size_t left_over = 0, at = 0;
    while (at < stream.sides.size()) {
        const std::size_t count = std::min(step, stream.sides.size() - at);
        Pairs pairs;
        const std::size_t joined = PlainJoin<Key, BucketTree<Key>>(indexes, writer, list)
                                       .run(stream.from(at, count), group, limit, pairs);
        CHECK(joined <= count);
        CHECK(joined == count || pairs.size() < limit || pairs.size() - limit < 9 * 64 * group);
        check_pairs(stream, at, at + joined, pairs, sorted);
        at += joined;
        if (joined == count || pairs.size() >= limit) continue;
        for (std::size_t i = 0; i < std::min(group, count - joined); ++i, ++at, ++left_over)
            indexes[stream.sides[at]].insert(stream.keys[at], low_bits(stream.places[at].position));
        const unsigned own = stream.sides[at - 1];
        const Place& last = stream.places[at - 1];
        indexes[own].check(low_bits(stream.start()), low_bits(last.position + 1));
        indexes[own ^ 1].check(low_bits(stream.start()), low_bits(last.last));
    }
    // Expired entries are removed in time, unless they are left to the general join, which forgets them
    // itself.
    for (int side = 0; side < 2; ++side) {
        std::size_t held = 0;
        indexes[side].each([&](Key, std::uint32_t) { ++held; });
        if (left_over == 0) CHECK(held <= 3 * stream.window(side) + 256);
    }
    return left_over;
}

enum class Keys { spread, rising, falling, few, ends, same };

// Keys of which each meets about `matches` others.
template <class Key>
Stream<Key> make_stream(Keys kind, std::size_t count, std::uint64_t window, double matches, unsigned seed) {
    testing::Random random(seed);
    Stream<Key> stream(window, window / 2 + 1, seed % 2 ? 0 : (std::uint64_t{1} << 32) - window);
    constexpr Key kMost = std::numeric_limits<Key>::max();
    const Key gap = kMost / static_cast<Key>(window + 1);
    const auto reach = static_cast<Key>(static_cast<double>(gap) * matches / 2);
    for (std::size_t i = 0; i < count; ++i) {
        const Key any = static_cast<Key>(random());
        const Key step = static_cast<Key>(i) * (kMost / static_cast<Key>(count));
        const Key key = kind == Keys::rising    ? step
                        : kind == Keys::falling ? kMost - step
                        : kind == Keys::few     ? any % 5 * 1000
                        : kind == Keys::same    ? 7
                        : kind == Keys::ends    ? (any & 1 ? any % 40 : kMost - any % 40)
                                                : any;
        const unsigned side = testing::below(random, seed % 3 ? 2 : 9) == 0;
        Interval<Key> interval{key - std::min(key, reach), key + std::min<Key>(kMost - key, reach)};
        if (testing::below(random, 30) == 0) interval = {kMost, 0};
        stream.add(side, key, interval);
    }
    return stream;
}

template <class Key>
void check_plain() {
    unsigned seed = 1;
    std::size_t left_over = 0;
    for (const Keys kind : {Keys::spread, Keys::rising, Keys::falling, Keys::few, Keys::ends})
        for (const double matches : {0.5, 3.0, 12.0, 90.0})
            for (const std::size_t group : {1u, 3u, 16u}) {
                const auto stream = make_stream<Key>(kind, 3000, 300 + 250 * (seed % 3), matches, seed);
                const std::size_t step = seed % 2 ? 1024 : 7;
                const bool limited = seed % 4 == 0;
                const std::size_t left =
                    check_stream(stream, group, step, limited ? 64 : SIZE_MAX, seed % 5 != 0);
                // Only where pairs are limited arrivals with many leaves are left to the general join.
                if (!limited || (kind == Keys::spread && matches <= 3)) CHECK_EQUAL(left, 0u);
                left_over += left;
                ++seed;
            }
    CHECK(left_over > 0);
}

}  // namespace

// A queue of several chunks is read to their ends.
TEST(plain_arrivals_of_one_key) {
    for (const bool sorted : {false, true}) {
        const auto stream = make_stream<std::uint32_t>(Keys::same, 3000, 2500, 1, 3);
        check_stream(stream, 16, 1024, SIZE_MAX, sorted);
    }
}

TEST(plain_arrivals_in_one_pass) { check_plain<std::uint32_t>(); }
TEST(plain_arrivals_with_wide_keys_in_one_pass) { check_plain<std::uint64_t>(); }

SLIDEJOIN_TARGET_END
