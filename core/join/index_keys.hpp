// The key of an arrival in the index, and the intervals of keys that it probes for.
//
// A single condition is indexed as it is. Equalities together with a band, such as `symbol` and `price`,
// become one key of 64 bits: a hash of the equal columns in the high half, the cell of the band's key in the
// low half. Cells are a quarter to an eighth of the band wide; 2^24 neighbouring cells form a block, which a
// hash puts somewhere into the low half. So an arrival probes for one run of cells, or for more where it
// crosses a border. Different symbols rarely share a hash, and distant keys rarely a place; the exact
// conditions (filter.hpp) remove the false positives. Cost: a few ns per arrival and condition.
#pragma once

#include "../hash.hpp"
#include "../probe.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class IndexKeys {
  public:
    virtual ~IndexKeys() = default;
    virtual std::size_t width() const = 0;  // intervals for each arrival
    // Whether each arrival has one interval, and the intervals ascend with the keys.
    virtual bool ascending() const = 0;
    // Reads the keys of arrivals [start, start + count) and sets nulls[i] where one is missing.
    virtual void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) = 0;
    // The intervals of the arrivals that were read last; as Condition::partners.
    virtual void partners(Arriving arriving, const Key* keys, std::size_t count,
                          Interval<Key>* intervals) = 0;
};

// The column of a condition: that of a conjunct, or the timestamps.
inline Column column_of(const Batch& batch, std::size_t conjunct, bool time) {
    return time ? Column{batch.times, batch.null_times} : batch.keys[conjunct];
}

template <class Key>
class SingleKeys final : public IndexKeys<Key> {
  public:
    explicit SingleKeys(const JoinSpec& spec)
        : time_(spec.indexed.band == Banded::time),
          condition_(make_condition<Key>(time_ ? time_band(spec.window) : spec.on[0])) {}

    std::size_t width() const override { return condition_->width(); }
    bool ascending() const override { return width() == 1; }  // a band: sums and steps are monotone

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

// Numbers the cells of a band's keys: a monotone function of encoded keys. Floats are divided by the width of
// a cell; where that is less than their spacing, each float is a cell of its own.
class Cells {
  public:
    explicit Cells(const ConjunctSpec& band)
        : type_(band.key), whole_(type_ != KeyType::float32 && type_ != KeyType::float64) {
        if (whole_) {
            __int128 narrowest = static_cast<__int128>(1) << 66;
            for (const Range& range : band.ranges)
                narrowest = std::min(narrowest, whole_offset(range.upper) - whole_offset(range.lower));
            while (shift_ < 63 && narrowest >> (shift_ + 3)) ++shift_;
            return;
        }
        double narrowest = std::numeric_limits<double>::infinity();
        for (const Range& range : band.ranges)
            narrowest = std::min(narrowest, range.upper.real - range.lower.real);
        const int exponent = narrowest > 0 && std::isfinite(narrowest) ? std::ilogb(narrowest) : -990;
        scale_ = std::ldexp(1.0, std::clamp(2 - exponent, -960, 960));
        limit_ = type_ == KeyType::float32 ? 0x1p24 : 0x1p53;
        above_ = code(limit_ / scale_);
        below_ = code(-limit_ / scale_);
    }

    std::uint64_t operator()(std::uint64_t key) const {
        if (whole_) return key >> shift_;
        const double cell = std::floor(value(key) * scale_);
        const auto limit = static_cast<std::uint64_t>(limit_);
        if (cell >= limit_) return limit + (key - above_);
        if (cell < -limit_) return -limit - (below_ - key);
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(cell));
    }

  private:
    double value(std::uint64_t key) const {
        if (type_ == KeyType::float32)
            return static_cast<double>(decode<float>(static_cast<std::uint32_t>(key)));
        return decode<double>(key);
    }

    std::uint64_t code(double value) const {
        return type_ == KeyType::float32 ? encode(static_cast<float>(value)) : encode(value);
    }

    KeyType type_;
    bool whole_;
    unsigned shift_ = 0;
    double scale_ = 1;
    double limit_ = 0;         // number of the last cell for which a float is divided
    std::uint64_t above_ = 0;  // the keys at +limit_ and -limit_
    std::uint64_t below_ = 0;
};

class CompoundKeys final : public IndexKeys<std::uint64_t> {
    using Key = std::uint64_t;

  public:
    explicit CompoundKeys(const JoinSpec& spec) : time_(spec.indexed.band == Banded::time) {
        for (std::size_t i = 0; i < spec.indexed.equalities; ++i)
            equal_.push_back(make_condition<Key>(spec.on[i]));
        if (spec.indexed.band == Banded::none) return;
        const ConjunctSpec band = time_ ? time_band(spec.window) : spec.on.at(equal_.size());
        band_ = make_condition<Key>(band);
        cells_.emplace_back(band);
    }

    bool ascending() const override { return false; }  // keys are hashes
    // Every interval of cells may lie in two blocks, and each part of it may wrap around.
    std::size_t width() const override { return band_ ? 4 * band_->width() : 1; }

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
        for (std::size_t i = 0; i < count; ++i) keys[i] = (keys[i] & ~kLow) | place(cells_[0](parts_[i]));
    }

    void partners(Arriving arriving, const Key* keys, std::size_t count, Interval<Key>* intervals) override {
        if (!band_) {
            for (std::size_t i = 0; i < count; ++i) intervals[i] = {keys[i], keys[i]};
            return;
        }
        const std::size_t ranges = band_->width();
        exact_.reserve(ranges * count);
        band_->partners(arriving, parts_.data(), count, exact_.data());
        const std::size_t width = 4 * ranges;
        for (std::size_t i = 0; i < count; ++i)
            write(keys[i] & ~kLow, exact_.data() + i * ranges, ranges, intervals + i * width, width);
    }

  private:
    static constexpr Key kLow = 0xffffffff;
    static constexpr unsigned kBlockBits = 24;
    static constexpr Key kInBlock = (Key{1} << kBlockBits) - 1;
    static constexpr Key kSeed = 0x9e3779b97f4a7c15, kFactor = 0xd1b54a32d192ed03;

    // The low half of a key in this cell.
    static Key place(Key cell) {
        return (fold((cell >> kBlockBits) ^ kSeed, kFactor) + (cell & kInBlock)) & kLow;
    }

    void write(Key hash, const Interval<Key>* exact, std::size_t ranges, Interval<Key>* out,
               std::size_t width) const {
        std::size_t count = 0;
        const auto add = [&](Key from, Key to) {  // cells of one block
            const Key low = place(from), high = place(to);
            if (low <= high) {
                out[count++] = {hash | low, hash | high};
            } else {
                out[count++] = {hash | low, hash | kLow};
                out[count++] = {hash, hash | high};
            }
        };
        for (std::size_t i = 0; i < ranges && !exact[i].empty(); ++i) {
            const Key from = cells_[0](exact[i].low), to = cells_[0](exact[i].high);
            if (to - from > kInBlock) {
                out[count++] = {hash, hash | kLow};
            } else if (from >> kBlockBits == to >> kBlockBits) {
                add(from, to);
            } else {
                add(from, from | kInBlock);
                add(to & ~kInBlock, to);
            }
        }
        if (count > 1) count = merge_intervals(out, count);
        for (; count < width; ++count) out[count] = {std::numeric_limits<Key>::max(), 0};
    }

    bool time_;
    std::vector<std::unique_ptr<Condition<Key>>> equal_;
    std::unique_ptr<Condition<Key>> band_;
    std::vector<Cells> cells_;  // of the band, if there is one
    Buffer<Key> parts_;         // encoded keys of one condition, of the band at last
    Buffer<Interval<Key>> exact_;
};

template <class Key>
std::unique_ptr<IndexKeys<Key>> make_index_keys(const JoinSpec& spec) {
    if constexpr (sizeof(Key) == 8)
        if (is_compound(spec)) return std::make_unique<CompoundKeys>(spec);
    return std::make_unique<SingleKeys<Key>>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
