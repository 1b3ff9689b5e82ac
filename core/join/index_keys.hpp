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
#include "filter.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class IndexKeys {
  public:
    virtual ~IndexKeys() = default;
    virtual std::size_t width() const = 0;  // intervals for each arrival
    // Whether each arrival has one interval, and the intervals ascend with the keys.
    virtual bool ascending() const = 0;
    // Reads the keys of arrivals [start, start + count) and sets nulls[i] where one is missing. The join's
    // filter must have read them first.
    virtual void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) = 0;
    // The intervals of the arrivals that were read last; as Condition::partners. The join's filter must have
    // found its intervals first.
    virtual void partners(Arriving arriving, const Key* keys, std::size_t count,
                          Interval<Key>* intervals) = 0;
};

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

// Keys and intervals of the band come from a filter: that of the join, which has already read the arrivals,
// or an own one.
class CompoundKeys final : public IndexKeys<std::uint64_t> {
    using Key = std::uint64_t;

  public:
    explicit CompoundKeys(const JoinSpec& spec, const CandidateFilter* filter = nullptr)
        : own_(filter ? nullptr : std::make_unique<CandidateFilter>(indexed_part(spec))),
          filter_(filter ? *filter : *own_),
          equalities_(spec.indexed.equalities) {
        if (spec.indexed.band == Banded::none) return;
        const bool time = spec.indexed.band == Banded::time;
        const ConjunctSpec band = time ? time_band(spec.window) : spec.on.at(equalities_);
        band_ = time ? filter_.size() - 1 : equalities_;
        ranges_ = band.ranges.size();
        cells_.emplace_back(band);
    }

    bool ascending() const override { return false; }  // keys are hashes
    // Every interval of cells may lie in two blocks, and each part of it may wrap around.
    std::size_t width() const override { return ranges_ ? 4 * ranges_ : 1; }

    void read(const Batch& batch, std::size_t start, std::size_t count, Key* keys, bool* nulls) override {
        if (own_) own_->read(batch, start, count, nulls);
        std::fill_n(keys, count, kSeed);
        for (std::size_t k = 0; k < equalities_; ++k) {
            const Key* const parts = filter_.keys(k);
            for (std::size_t i = 0; i < count; ++i) keys[i] = fold(keys[i] ^ parts[i], kFactor) + parts[i];
        }
        for (std::size_t i = 0; i < count; ++i) keys[i] = fold(keys[i] ^ kFactor, kSeed);
        if (!ranges_) return;
        const Key* const parts = filter_.keys(band_);
        for (std::size_t i = 0; i < count; ++i) keys[i] = (keys[i] & ~kLow) | place(cells_[0](parts[i]));
    }

    void partners(Arriving arriving, const Key* keys, std::size_t count, Interval<Key>* intervals) override {
        if (!ranges_) {
            for (std::size_t i = 0; i < count; ++i) intervals[i] = {keys[i], keys[i]};
            return;
        }
        if (own_) own_->find_intervals(arriving, count, band_);
        const Interval<Key>* const exact =
            filter_.intervals(band_, !arriving.sides && arriving.all == Side::left);
        for (std::size_t i = 0; i < count; ++i)
            write(keys[i] & ~kLow, exact + i * ranges_, intervals + i * 4 * ranges_);
    }

  private:
    static constexpr Key kLow = 0xffffffff;
    static constexpr unsigned kBlockBits = 24;
    static constexpr Key kInBlock = (Key{1} << kBlockBits) - 1;
    static constexpr Key kSeed = 0x9e3779b97f4a7c15, kFactor = 0xd1b54a32d192ed03;

    static JoinSpec indexed_part(JoinSpec spec) {
        spec.on.resize(spec.indexed.equalities + (spec.indexed.band == Banded::conjunct));
        if (spec.indexed.band != Banded::time) spec.window.kind = WindowKind::rows;
        return spec;
    }

    // The low half of a key in this cell.
    static Key place(Key cell) {
        return (fold((cell >> kBlockBits) ^ kSeed, kFactor) + (cell & kInBlock)) & kLow;
    }

    void write(Key hash, const Interval<Key>* exact, Interval<Key>* out) const {
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
        for (std::size_t i = 0; i < ranges_ && !exact[i].empty(); ++i) {
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
        for (; count < 4 * ranges_; ++count) out[count] = {std::numeric_limits<Key>::max(), 0};
    }

    std::unique_ptr<CandidateFilter> own_;
    const CandidateFilter& filter_;
    std::size_t equalities_;
    std::size_t band_ = 0;      // number of the band's condition in the filter
    std::size_t ranges_ = 0;    // of the band, if there is one
    std::vector<Cells> cells_;  // likewise
};

template <class Key>
std::unique_ptr<IndexKeys<Key>> make_index_keys(const JoinSpec& spec,
                                                const CandidateFilter* filter = nullptr) {
    if constexpr (sizeof(Key) == 8)
        if (is_compound(spec)) return std::make_unique<CompoundKeys>(spec, filter);
    return std::make_unique<SingleKeys<Key>>(spec);
}

}  // namespace slidejoin::SLIDEJOIN_TARGET
