// What the index is asked by: an arrival's indexed key, and the intervals of keys that it looks for.
//
// A single condition is indexed as it is. Equalities together with a band, `symbol` and `price`, become one
// key of 64 bits: a hash of what must be equal in the high half, the cell of the band's key in the low half.
// Cells are a quarter to an eighth of the band wide and numbered modulo 2^32, so an arrival looks for one run
// of cells, or two where it wraps. Different symbols rarely share a hash and far keys rarely a cell; what is
// found too much is dropped by the exact conditions (filter.hpp). Cost: a few ns per arrival and condition.
#pragma once

#include "../hash.hpp"
#include "../probe.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Indexed {
  public:
    virtual ~Indexed() = default;
    virtual std::size_t width() const = 0;  // intervals for each arrival
    // Reads the keys of arrivals [start, start + count) and sets nulls[i] where one is missing.
    virtual void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) = 0;
    // What the arrivals that were read last look for; as Condition::partners.
    virtual void partners(Arriving arriving, const Key* keys, std::size_t count,
                          Interval<Key>* intervals) = 0;
};

// The column of a condition: a conjunct's, or the timestamps.
inline Column column_of(const Batch& batch, std::size_t conjunct, bool time) {
    return time ? Column{batch.times, batch.null_times} : batch.keys[conjunct];
}

template <class Key>
class IndexedCondition final : public Indexed<Key> {
  public:
    explicit IndexedCondition(const JoinSpec& spec)
        : time_(spec.indexed.band == Banded::time),
          condition_(make_condition<Key>(time_ ? time_band(spec.window) : spec.on[0])) {}

    std::size_t width() const override { return condition_->width(); }

    void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) override {
        condition_->encode_keys(column_of(batch, 0, time_), start, count, keys, nulls);
    }

    void partners(Arriving arriving, const Key* keys, std::size_t count, Interval<Key>* intervals) override {
        condition_->partners(arriving, keys, count, intervals);
    }

  private:
    bool time_;
    std::unique_ptr<Condition<Key>> condition_;
};

// Numbers the cells of a band's keys: a function that never falls, of encoded keys.
class Cells {
  public:
    explicit Cells(const ConjunctSpec& band)
        : type_(band.key), whole_(type_ != KeyType::float32 && type_ != KeyType::float64) {
        if (whole_) {
            __int128 narrowest = static_cast<__int128>(1) << 66;
            for (const Range& range : band.ranges)
                narrowest = std::min(narrowest, whole_offset(range.upper) - whole_offset(range.lower));
            while (shift_ < 63 && narrowest >> (shift_ + 3)) ++shift_;
        } else {
            double narrowest = std::numeric_limits<double>::infinity();
            for (const Range& range : band.ranges)
                narrowest = std::min(narrowest, range.upper.real - range.lower.real);
            // Of a band of width 0 the cells are as small as they come.
            const int exponent = narrowest > 0 ? std::ilogb(narrowest) : -1000;
            scale_ = std::ldexp(1.0, std::clamp(2 - exponent, -1000, 1000));
        }
    }

    std::uint64_t operator()(std::uint64_t key) const {
        if (whole_) return key >> shift_;
        const double value = type_ == KeyType::float32
                                 ? static_cast<double>(decode<float>(static_cast<std::uint32_t>(key)))
                                 : decode<double>(key);
        const double cell = std::floor(value * scale_);
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::clamp(cell, -kFar, kFar)));
    }

  private:
    static constexpr double kFar = 0x1p62;

    KeyType type_;
    bool whole_;
    unsigned shift_ = 0;
    double scale_ = 0;
};

class IndexedCompound final : public Indexed<std::uint64_t> {
    using Key = std::uint64_t;

  public:
    explicit IndexedCompound(const JoinSpec& spec) : time_(spec.indexed.band == Banded::time) {
        for (std::size_t i = 0; i < spec.indexed.equalities; ++i)
            equal_.push_back(make_condition<Key>(spec.on[i]));
        if (spec.indexed.band == Banded::none) return;
        const ConjunctSpec band = time_ ? time_band(spec.window) : spec.on.at(equal_.size());
        band_ = make_condition<Key>(band);
        cells_.emplace_back(band);
    }

    // Every interval of cells may wrap.
    std::size_t width() const override { return band_ ? 2 * band_->width() : 1; }

    void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) override {
        parts_.reserve(count);
        std::fill_n(keys, count, kSeed);
        for (std::size_t k = 0; k < equal_.size(); ++k) {
            equal_[k]->encode_keys(batch.keys[k], start, count, parts_.data(), nulls);
            for (std::size_t i = 0; i < count; ++i) keys[i] = fold(keys[i] ^ parts_[i], kFactor) + parts_[i];
        }
        for (std::size_t i = 0; i < count; ++i) keys[i] = fold(keys[i] ^ kFactor, kSeed);
        if (!band_) return;
        band_->encode_keys(column_of(batch, equal_.size(), time_), start, count, parts_.data(), nulls);
        for (std::size_t i = 0; i < count; ++i) keys[i] = (keys[i] & ~kLow) | (cells_[0](parts_[i]) & kLow);
    }

    void partners(Arriving arriving, const Key* keys, std::size_t count, Interval<Key>* intervals) override {
        if (!band_) {
            for (std::size_t i = 0; i < count; ++i) intervals[i] = {keys[i], keys[i]};
            return;
        }
        const std::size_t asked = band_->width();
        exact_.reserve(asked * count);
        band_->partners(arriving, parts_.data(), count, exact_.data());
        for (std::size_t i = 0; i < count; ++i)
            write(keys[i] & ~kLow, exact_.data() + i * asked, asked, intervals + i * width());
    }

  private:
    static constexpr Key kLow = 0xffffffff;
    static constexpr Key kSeed = 0x9e3779b97f4a7c15, kFactor = 0xd1b54a32d192ed03;

    void write(Key hash, const Interval<Key>* exact, std::size_t asked, Interval<Key>* out) const {
        std::size_t count = 0;
        for (std::size_t i = 0; i < asked && !exact[i].empty(); ++i) {
            const Key from = cells_[0](exact[i].low), to = cells_[0](exact[i].high);
            const Key low = from & kLow, high = to & kLow;
            if (to - from >= kLow) {
                out[count++] = {hash, hash | kLow};
            } else if (low <= high) {
                out[count++] = {hash | low, hash | high};
            } else {
                out[count++] = {hash | low, hash | kLow};
                out[count++] = {hash, hash | high};
            }
        }
        if (count > 1) count = merge_intervals(out, count);
        for (; count < width(); ++count) out[count] = {std::numeric_limits<Key>::max(), 0};
    }

    bool time_;
    std::vector<std::unique_ptr<Condition<Key>>> equal_;
    std::unique_ptr<Condition<Key>> band_;
    std::vector<Cells> cells_;  // of the band, if there is one
    Buffer<Key> parts_;         // encoded keys of one condition, of the band's in the end
    Buffer<Interval<Key>> exact_;
};

inline bool is_compound(const JoinSpec& spec) { return spec.indexed.equalities > 0; }

// The width of the indexed keys, as one of their types.
inline bool has_wide_keys(const JoinSpec& spec) {
    if (is_compound(spec) || spec.indexed.band == Banded::time) return true;
    const KeyType type = spec.on.at(0).key;
    return type == KeyType::int64 || type == KeyType::uint64 || type == KeyType::float64;
}

template <class Key>
std::unique_ptr<Indexed<Key>> make_indexed(const JoinSpec& spec) {
    if constexpr (sizeof(Key) == 8)
        if (is_compound(spec)) return std::make_unique<IndexedCompound>(spec);
    return std::make_unique<IndexedCondition<Key>>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
