// Probe intervals: the keys of the other side that an arrival matches.
//
// A condition is a union of ranges of the right key around the left one. An end of a range is open, or
// left + offset, always computed in this form and in the key's own type, or a number of steps in the order of
// keys (strict comparisons). For a left arrival the ranges are the intervals. A right arrival needs the left
// keys whose ranges enclose it: for integers that is the reversed range. For floats rounding makes the
// reversed sum inexact, but the sum is monotone in the left key, so the partners still form one interval; its
// ends are found by a short galloping search around the rounded difference. Intervals are therefore exact for
// every type and no candidate is tested twice. Cost: a few ns for integers, 5-20 ns for floats, up to 1 µs
// where a right key nearly equals a bound and the left keys are tiny beside both.
#pragma once

#include "engine.hpp"
#include "key.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

enum class Side : std::uint8_t { left = 0, right = 1 };

inline Side other(Side side) { return side == Side::left ? Side::right : Side::left; }

// The sides of the tuples of a group: one for each, or one for all.
struct Arriving {
    const std::uint8_t* sides;  // or nullptr
    Side all;

    Side of(std::size_t i) const { return sides ? Side{sides[i]} : all; }
};

// Offsets of integers, and steps, need one bit more than the key, and a sign.
template <class Key>
using Wide = std::conditional_t<sizeof(Key) == 4, std::int64_t, __int128>;

inline __int128 whole_offset(const Bound& bound) {
    return static_cast<__int128>(bound.high) << 64 | bound.low;
}

template <class Key>
inline Wide<Key> exact_offset(const Bound& bound) {
    const __int128 exact = whole_offset(bound);
    if constexpr (sizeof(Key) == 8) return exact;
    constexpr __int128 kFar = std::int64_t{1} << 40;  // farther than any two narrow keys
    return static_cast<std::int64_t>(std::clamp(exact, -kFar, kFar));
}

template <class User>
class Band {
  public:
    using Key = Encoded<User>;

    explicit Band(const Range& range) : lower_(range.lower), upper_(range.upper) {}

    // Keys of the other side that match `key` arriving on `side`.
    Interval<Key> partners(Side side, Key key) const {
        if constexpr (std::is_floating_point_v<User>)
            if (lower_.is_sum() || upper_.is_sum()) return float_partners(side, key);
        return side == Side::left ? stepped(key, lower_, 1, upper_) : stepped(key, upper_, -1, lower_);
    }

    // The same for many narrow integers, without a branch.
    void partners(Arriving arriving, const Key* keys, std::size_t count, Interval<Key>* out) const {
        constexpr Wide<Key> kAll = Wide<Key>{1} << 34;  // an open end, as an offset
        const auto below = [](const End& end) { return end.kind == BoundKind::none ? -kAll : end.offset; };
        const auto above = [](const End& end) { return end.kind == BoundKind::none ? kAll : end.offset; };
        const Wide<Key> from[2] = {below(lower_), -above(upper_)}, to[2] = {above(upper_), -below(lower_)};
        for (std::size_t i = 0; i < count; ++i) {
            const bool right = arriving.of(i) == Side::right;
            const Wide<Key> low = keys[i] + (right ? from[1] : from[0]);
            const Wide<Key> high = keys[i] + (right ? to[1] : to[0]);
            const bool empty = high < 0 || low > Wide<Key>{kMax};
            const Wide<Key> least = std::max<Wide<Key>>(low, kMin), most = std::min<Wide<Key>>(high, kMax);
            out[i] = {static_cast<Key>(empty ? kMax : least), static_cast<Key>(empty ? kMin : most)};
        }
    }

  private:
    static constexpr Key kMin = 0, kMax = std::numeric_limits<Key>::max();
    using Limits = std::numeric_limits<User>;

    struct End {
        explicit End(const Bound& bound)
            : kind(bound.kind), offset(exact_offset<Key>(bound)), real(static_cast<User>(bound.real)) {}
        bool is_sum() const { return kind == BoundKind::sum || strict(); }
        bool strict() const { return kind == BoundKind::beyond; }
        BoundKind kind;
        Wide<Key> offset;
        User real;
    };

    // [key + sign * low, key + sign * high], cut to the range of keys.
    static Interval<Key> stepped(Key key, const End& low, int sign, const End& high) {
        const Wide<Key> from = low.kind == BoundKind::none ? Wide<Key>{kMin} : key + sign * low.offset;
        const Wide<Key> to = high.kind == BoundKind::none ? Wide<Key>{kMax} : key + sign * high.offset;
        if (to < 0 || from > Wide<Key>{kMax}) return {kMax, kMin};
        return {from < 0 ? kMin : static_cast<Key>(from), to > Wide<Key>{kMax} ? kMax : static_cast<Key>(to)};
    }

    Interval<Key> float_partners(Side side, Key key) const {
        const User value = decode<User>(key);
        const bool low_open = lower_.kind == BoundKind::none, high_open = upper_.kind == BoundKind::none;
        if (side == Side::left)  // beyond the infinities there are keys, of NaN, that no tuple has
            return {low_open ? kMin : encode<User>(value + lower_.real) + lower_.strict(),
                    high_open ? kMax : encode<User>(value + upper_.real) - upper_.strict()};
        if (lower_.strict() && value == -Limits::infinity()) return {kMax, kMin};
        if (upper_.strict() && value == Limits::infinity()) return {kMax, kMin};
        return {high_open ? kMin : least_reaching(value), low_open ? kMax : greatest_below(value)};
    }

    // The greatest left key x with x + lower <= value, or < if the end is strict. -inf qualifies.
    Key greatest_below(User value) const {
        const auto holds = [&](Key x) {
            const User sum = decode<User>(x) + lower_.real;
            return lower_.strict() ? sum < value : sum <= value;
        };
        const Key first = encode(-Limits::infinity());
        const Key last = encode(Limits::infinity());
        return boundary(encode<User>(value - lower_.real), first, last, holds);
    }

    // The least left key x with value <= x + upper, or < if the end is strict. +inf qualifies.
    Key least_reaching(User value) const {
        const auto holds = [&](Key x) {
            const User sum = decode<User>(~x) + upper_.real;
            return upper_.strict() ? value < sum : value <= sum;
        };
        const Key first = ~encode(Limits::infinity());
        const Key last = ~encode(-Limits::infinity());
        return ~boundary(~encode<User>(value - upper_.real), first, last, holds);
    }

    // The last x of [first, last] that satisfies a condition, which holds at `first` and, once it fails, at
    // no later x. Gallops away from a guess, then bisects: two tests when the guess is right.
    template <class Holds>
    static Key boundary(Key guess, Key first, Key last, Holds holds) {
        Key yes, no;
        if (holds(guess)) {
            yes = guess;
            for (Key step = 1;; step *= 2) {
                if (last - yes < step) step = last - yes;
                if (step == 0) return last;
                if (!holds(yes + step)) {
                    no = yes + step;
                    break;
                }
                yes += step;
            }
        } else {
            no = guess;
            for (Key step = 1;; step *= 2) {
                if (no - first <= step) {
                    yes = first;
                    break;
                }
                if (holds(no - step)) {
                    yes = no - step;
                    break;
                }
                no -= step;
            }
        }
        while (no - yes > 1) {
            const Key middle = yes + (no - yes) / 2;
            (holds(middle) ? yes : no) = middle;
        }
        return yes;
    }

    End lower_;
    End upper_;
};

// Sorts intervals and merges those that overlap, so that no partner is found twice. Returns how many remain.
template <class Key>
inline std::size_t merge_intervals(Interval<Key>* intervals, std::size_t count) {
    std::sort(intervals, intervals + count,
              [](const Interval<Key>& a, const Interval<Key>& b) { return a.low < b.low; });
    std::size_t last = 0;
    for (std::size_t i = 1; i < count; ++i) {
        if (intervals[i].low <= intervals[last].high)
            intervals[last].high = std::max(intervals[last].high, intervals[i].high);
        else intervals[++last] = intervals[i];
    }
    return last + 1;
}

// A conjunct for keys of any type. The join drivers call it once per group.
template <class Key>
class Condition {
  public:
    virtual ~Condition() = default;

    // The number of intervals that `partners` writes for each key.
    virtual std::size_t width() const = 0;

    // Encodes keys [start, start + count) and sets nulls[i] where a key is missing.
    virtual void encode_keys(const Column& column, std::size_t start, std::size_t count, Key* encoded,
                             bool* nulls) const = 0;

    // The intervals of each key: disjoint and ascending; unused ones are empty and at the end.
    virtual void partners(Arriving arriving, const Key* keys, std::size_t count,
                          Interval<Key>* intervals) const = 0;
};

// `Key` may be wider than the type needs: filters store conjuncts of all types in 64 bits.
template <class User, class Key = Encoded<User>>
class UnionCondition final : public Condition<Key> {
  public:
    explicit UnionCondition(const std::vector<Range>& ranges) {
        for (const Range& range : ranges) bands_.emplace_back(range);
    }

    std::size_t width() const override { return bands_.size(); }

    void encode_keys(const Column& column, std::size_t start, std::size_t count, Key* encoded,
                     bool* nulls) const override {
        const User* values = static_cast<const User*>(column.values) + start;
        for (std::size_t i = 0; i < count; ++i) {
            const bool null = is_null(values[i]) || (column.nulls && column.nulls[start + i]);
            nulls[i] |= null;
            encoded[i] = encode(null ? User{0} : values[i]);
        }
    }

    void partners(Arriving arriving, const Key* keys, std::size_t count,
                  Interval<Key>* intervals) const override {
        if constexpr (std::is_integral_v<User> && sizeof(Key) == 4)
            if (bands_.size() == 1) return bands_[0].partners(arriving, keys, count, intervals);
        for (std::size_t i = 0; i < count; ++i) write(arriving.of(i), keys[i], intervals + i * width());
    }

  private:
    void write(Side side, Key key, Interval<Key>* out) const {
        std::size_t count = 0;
        for (const Band<User>& band : bands_) {
            const auto found = band.partners(side, static_cast<Encoded<User>>(key));
            if (!found.empty()) out[count++] = {found.low, found.high};
        }
        if (count > 1) count = merge_intervals(out, count);
        for (; count < bands_.size(); ++count) out[count] = {std::numeric_limits<Key>::max(), 0};
    }

    std::vector<Band<User>> bands_;
};

// Builds the condition of a conjunct for keys of its own width, or widened to `Key`.
template <class Key, class User>
std::unique_ptr<Condition<Key>> make_condition_of(const ConjunctSpec& conjunct) {
    if constexpr (sizeof(Encoded<User>) <= sizeof(Key))
        return std::make_unique<UnionCondition<User, Key>>(conjunct.ranges);
    throw std::logic_error("the key type is wider than the keys of this join");
}

// The condition that an event window puts on timestamps.
inline ConjunctSpec time_band(const WindowSpec& window) {
    const auto offset = [](__int128 value) {
        return Bound{BoundKind::sum, static_cast<std::int64_t>(value >> 64),
                     static_cast<std::uint64_t>(value), 0.0};
    };
    return {KeyType::int64, {{offset(-static_cast<__int128>(window.before)), offset(window.after)}}};
}

template <class Key>
std::unique_ptr<Condition<Key>> make_condition(const ConjunctSpec& conjunct) {
    switch (conjunct.key) {
        case KeyType::int8:
            return make_condition_of<Key, std::int8_t>(conjunct);
        case KeyType::int16:
            return make_condition_of<Key, std::int16_t>(conjunct);
        case KeyType::int32:
            return make_condition_of<Key, std::int32_t>(conjunct);
        case KeyType::int64:
            return make_condition_of<Key, std::int64_t>(conjunct);
        case KeyType::uint8:
            return make_condition_of<Key, std::uint8_t>(conjunct);
        case KeyType::uint16:
            return make_condition_of<Key, std::uint16_t>(conjunct);
        case KeyType::uint32:
            return make_condition_of<Key, std::uint32_t>(conjunct);
        case KeyType::uint64:
            return make_condition_of<Key, std::uint64_t>(conjunct);
        case KeyType::float32:
            return make_condition_of<Key, float>(conjunct);
        case KeyType::float64:
            return make_condition_of<Key, double>(conjunct);
    }
    throw std::logic_error("unknown key type");
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
