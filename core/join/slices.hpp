// A group of arrivals in slices, contiguous parts that several workers admit at the same time, and the lanes
// in which they do. A slice goes first to the worker who had it before, whose cache has its memory.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

enum GroupPhase { kAdmit, kProbe, kWrite, kPhases };

// The lanes of a join, and the threads that work in them.
template <class Key>
class Lanes {
  public:
    explicit Lanes(const JoinSpec& spec)
        : spec_(spec), pool_(spec.pool ? spec.pool : std::make_shared<Workers>()) {
        lanes_.push_back(std::make_unique<Lane<Key>>(spec_));
    }

    Lane<Key>& operator[](std::size_t i) { return *lanes_[i]; }
    Workers& pool() { return *pool_; }
    Deal& deal(std::size_t phase) { return deals_[phase]; }

    // From now on so many workers; may be called by any thread.
    void want(std::uint32_t workers) { wanted_.store(workers, std::memory_order_relaxed); }

    const std::atomic<std::uint32_t>& wanted() const { return wanted_; }

    // How many workers share a group of so many arrivals.
    std::size_t sharing(std::size_t arrivals) const {
        const std::size_t wanted = wanted_.load(std::memory_order_relaxed);
        return free_ ? std::max<std::size_t>(std::min(wanted, arrivals / kShare), 1) : 1;
    }

    // The same, as far as threads can be made for them.
    std::size_t prepare(std::size_t arrivals) { return pool_->prepare(sharing(arrivals)); }

    // In how many slices workers share so many arrivals.
    static std::size_t slices(std::size_t arrivals, std::size_t workers) {
        return std::clamp(arrivals / kLarge, workers, kSlices * workers);
    }

    // Makes so many lanes.
    void reserve(std::size_t lanes) {
        while (lanes_.size() < lanes) {
            lanes_.push_back(std::make_unique<Lane<Key>>(spec_, lanes_[0].get()));
            lanes_.back()->reader.start();
        }
    }

    // From now on each lane lists so many matches at most.
    void limit(std::size_t matches) {
        for (const auto& lane : lanes_) lane->limit(matches);
    }

    // The next batch begins. The threads are the join's as long as what is returned lives, unless another
    // caller has them.
    [[nodiscard]] std::unique_lock<std::mutex> start() {
        for (const auto& lane : lanes_) lane->reader.start();
        std::unique_lock<std::mutex> turn(pool_->turn(), std::try_to_lock);
        free_ = turn.owns_lock();
        return turn;
    }

    // Frees what a group needs.
    void free() {
        for (const auto& lane : lanes_) lane->free();
    }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const auto& lane : lanes_) total += sizeof *lane + lane->bytes();
        return total;
    }

  private:
    static constexpr std::size_t kShare = 128;  // least number of arrivals for a worker
    static constexpr std::size_t kLarge = 512;  // so many are worth a slice more than there are workers
    static constexpr std::size_t kSlices = 2;   // at most, for each worker

    const JoinSpec& spec_;
    std::vector<std::unique_ptr<Lane<Key>>> lanes_;
    std::shared_ptr<Workers> pool_;
    bool free_ = false;  // whether the threads are the join's
    Deal deals_[kPhases];
    std::atomic<std::uint32_t> wanted_{1};
};

// The slices of one group, each in a lane. Where arrivals need nothing but their place in a window of rows,
// all slices are admitted at once: how many tuples of each side come before a slice is counted ahead.
template <class Key>
class Slices {
  public:
    Slices(Lanes<Key>& lanes, std::size_t slices, std::size_t arrivals)
        : lanes_(lanes), arrivals_(arrivals), shares_(slices) {
        lanes.reserve(slices);
        for (std::size_t phase = 0; phase < kPhases; ++phase) lanes.deal(phase).start(slices);
    }

    std::size_t size() const { return shares_.size(); }
    std::size_t arrivals() const { return arrivals_; }
    Slice operator[](std::size_t i) const { return Slice(arrivals_, i, size()); }

    // Before the workers begin: counts the arrivals of `batch` from `start` on.
    void count(const Batch& batch, std::size_t start, const Window& window) {
        next_[0] = window.next(Side::left);
        next_[1] = window.next(Side::right);
        for (std::size_t i = 0; i < size(); ++i) {
            std::copy_n(next_, 2, shares_[i].next);
            const Slice slice = (*this)[i];
            const std::uint8_t* const sides = batch.sides + start;
            std::uint64_t rights = 0;
            for (std::size_t row = slice.from; row < slice.to; ++row) rights += sides[row] & 1;
            next_[0] += slice.size() - rights;
            next_[1] += rights;
        }
    }

    // By any worker, once for each slice.
    void admit(std::size_t i, const Batch& batch, std::size_t start, const Window& window) {
        const Slice slice = (*this)[i];
        const std::uint8_t* const sides = batch.sides + start + slice.from;
        Lane<Key>& lane = lanes_[i];
        const std::size_t at = lane.reader.read(batch, start + slice.from, slice.size(), start + slice.to);
        shares_[i].nulls = lane.reader.any_null();
        lane.buffer.start(slice.size());
        window.place_rows(sides, slice.size(), shares_[i].next, lane.buffer.places());
        lane.buffer.add_plain(sides, lane.reader.keys() + at, lane.reader.intervals(at), slice.size());
    }

    // After all are admitted, by one worker. Returns false, and takes no position, if one has no key: then
    // they must be admitted one after the other.
    bool take_positions(Window& window) {
        for (const Share& share : shares_)
            if (share.nulls) return false;
        window.advance_rows(next_);
        return true;
    }

  private:
    struct alignas(kCacheLine) Share {
        bool nulls = false;
        std::uint64_t next[2];  // positions of both sides before the slice
    };

    Lanes<Key>& lanes_;
    std::size_t arrivals_;
    std::vector<Share> shares_;
    std::uint64_t next_[2];  // behind the last one
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
