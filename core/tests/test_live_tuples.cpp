// The tuples of an event window that may still match, against a plain list of them.
#include "../target.hpp"
#include "testing.hpp"

SLIDEJOIN_TARGET_BEGIN

#include "../window.hpp"

using namespace slidejoin;
using namespace slidejoin::SLIDEJOIN_TARGET;

namespace {

using Limits = std::numeric_limits<std::int64_t>;

struct Listed {
    std::int64_t time;
    std::uint64_t position;
};

// Both hold the same tuples, and tell the same ones when time moves on.
class Twins {
  public:
    void push(std::int64_t time) {
        live_.push(time, next_);
        list_.push_back({time, next_++});
        CHECK_EQUAL(live_.size(), list_.size());
    }

    void expire(Instant time) {
        std::vector<std::uint64_t> told, expected;
        live_.expire(time, [&](std::uint64_t position) { told.push_back(position); });
        remove([&](const Listed& each) { return each.time < time; }, &expected);
        std::sort(told.begin(), told.end());
        CHECK(told == expected);
        CHECK_EQUAL(live_.size(), list_.size());
    }

    void erase_before(std::uint64_t position) {
        live_.erase_before(position);
        remove([&](const Listed& each) { return each.position < position; }, nullptr);
        CHECK_EQUAL(live_.size(), list_.size());
    }

    void clear() {
        live_.clear();
        list_.clear();
        CHECK_EQUAL(live_.size(), 0u);
    }

    LiveTuples& live() { return live_; }
    std::uint64_t next() const { return next_; }

  private:
    template <class Which>
    void remove(Which which, std::vector<std::uint64_t>* positions) {
        for (const Listed& each : list_)
            if (positions && which(each)) positions->push_back(each.position);
        std::erase_if(list_, which);
    }

    LiveTuples live_;
    std::vector<Listed> list_;
    std::uint64_t next_ = 0;
};

}  // namespace

TEST(live_tuples_leave_in_the_order_of_time) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        testing::Random random(seed);
        const auto any = [&](std::uint64_t limit) {
            return static_cast<std::int64_t>(testing::below(random, limit));
        };
        Twins twins;
        std::int64_t now = seed % 2 ? 0 : -1000;
        const std::uint64_t spread = std::uint64_t{1} << any(14);
        for (int step = 0; step < 100; ++step) {
            for (std::int64_t i = any(20); i-- > 0;)
                twins.push(now + any(spread) - (any(4) ? 0 : 3));  // some are due
            now += any(any(10) ? 8 : 3000);
            if (any(3)) twins.expire(now);
            if (any(40) == 0) twins.erase_before(twins.next() / 2);
            if (any(80) == 0) twins.clear();
            if (any(40) == 0) twins.live().shrink();
        }
        twins.expire(now + 20'000);
        CHECK_EQUAL(twins.live().size(), 0u);
    }
}

TEST(live_tuples_at_the_ends_of_time) {
    Twins twins;
    const std::int64_t times[] = {Limits::max(),     Limits::min(),     0, -1,
                                  Limits::max() - 1, Limits::min() + 1, 1};
    for (const std::int64_t time : times) twins.push(time);
    twins.expire(kNever);
    for (const std::int64_t time : {Limits::min(), Limits::min() + 1, Limits::min() + 2, std::int64_t{0},
                                    std::int64_t{1}, Limits::max() - 1, Limits::max()}) {
        twins.expire(time);
        for (const std::int64_t each : times) twins.push(each);
        twins.expire(time);
    }
    twins.expire(Instant{Limits::max()} + 1);
    CHECK_EQUAL(twins.live().size(), 0u);
    for (const std::int64_t time : times) twins.push(time);
    twins.expire(Instant{Limits::max()} + 2);
    CHECK_EQUAL(twins.live().size(), 0u);
}

TEST(many_live_tuples_of_the_current_time_cost_nothing) {
    LiveTuples live;
    const auto ignore = [](std::uint64_t) {};
    live.push(10, 0);
    for (std::uint64_t i = 1; i <= 100'000; ++i) {
        live.push(5, i);
        live.expire(5, ignore);  // quadratic if it looked at all of them
    }
    CHECK_EQUAL(live.size(), 100'001u);
    live.expire(6, ignore);
    CHECK_EQUAL(live.size(), 1u);
    live.expire(7, ignore);
    CHECK(live.bytes() < 1 << 16);
}
