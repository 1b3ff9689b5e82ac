// Several workers share a group of arrivals in phases, with a meeting of all between two of them:
//
//   admit    the keys and places of the tuples of a slice; what they insert and probe for is sorted
//   insert   the entries of one side, or of a range of keys of it where the index can be divided
//   probe    what a slice probes for, with the visible ranges as filter: no index changes meanwhile
//   write    the pairs of a slice, behind those of the slices before
//
// Slices are contiguous, so the pairs come in the order of arrival, as those of one thread, with no copy in
// between. No lock is held: between two meetings, no two workers use what one of them changes. Cost: 1-2 us
// for each of the four meetings.
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

    // Makes threads for a group of so many arrivals. Returns how many workers share it.
    std::size_t prepare(std::size_t arrivals) {
        const std::size_t wanted = wanted_.load(std::memory_order_relaxed);
        if (wanted <= 1 || arrivals < 2 * kShare || !free_) return 1;
        return pool_->prepare(std::min(wanted, arrivals / kShare));
    }

    // Makes a lane for each slice that workers share so many arrivals in. Returns their number.
    std::size_t slices(std::size_t arrivals, std::size_t workers) {
        const std::size_t slices = std::clamp(arrivals / kLarge, workers, kSlices * workers);
        reserve(slices);
        return slices;
    }

    // Makes so many lanes.
    void reserve(std::size_t lanes) {
        while (lanes_.size() < lanes) {
            lanes_.push_back(std::make_unique<Lane<Key>>(spec_, lanes_[0].get()));
            lanes_.back()->reader.start();
        }
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

// One group on its way through the phases. It is cut into slices, more than there are workers; in each phase
// a slice is done by the worker that is free for it.
template <class Key>
class Phases {
  public:
    // Matches are written to `pairs`, or only counted if it is null.
    Phases(Lanes<Key>& lanes, std::size_t workers, IndexPair<Key>& indexes, std::size_t arrivals,
           Pairs* pairs)
        : lanes_(lanes),
          pool_(lanes.pool()),
          workers_(workers),
          slices_(lanes.slices(arrivals, workers)),
          indexes_(indexes),
          arrivals_(arrivals),
          pairs_(pairs),
          groups_(slices_),
          shares_(slices_) {
        for (std::size_t phase = 0; phase < kPhases; ++phase) lanes.deal(phase).start(slices_);
    }

    std::size_t slices() const { return slices_; }
    Slice slice(std::size_t number) const { return Slice(arrivals_, number, slices_); }

    // Joins what was admitted. With `ends`, ends[i] becomes the number of pairs up to arrival i.
    std::uint64_t join(std::uint64_t* ends) {
        pool_.run(workers_, [&](std::size_t worker) {
            take(kAdmit, worker, [&](std::size_t i) { sort(i); });
            work(worker, [] {}, ends);
        });
        return finish();
    }

    // Admits the arrivals of `batch` from `start` on to a window of rows, if all have keys and are stored,
    // and joins them. If there is a null among them, otherwise() admits them.
    template <class Otherwise>
    std::uint64_t admit_and_join(const Batch& batch, std::size_t start, Window& window, Otherwise otherwise) {
        std::uint64_t next[2] = {window.next(Side::left), window.next(Side::right)};
        for (std::size_t i = 0; i < slices_; ++i) {
            std::copy_n(next, 2, shares_[i].next);
            const Slice slice = this->slice(i);
            const std::uint8_t* const sides = batch.sides + start;
            std::uint64_t rights = 0;
            for (std::size_t row = slice.from; row < slice.to; ++row) rights += sides[row] & 1;
            next[0] += slice.size() - rights;
            next[1] += rights;
        }
        bool nulls = false;
        const auto admitted = [&] {
            for (const Share& share : shares_) nulls |= share.nulls;
            if (!nulls) return window.advance_rows(next);
            otherwise();
            for (std::size_t i = 0; i < slices_; ++i) sort(i);
        };
        pool_.run(workers_, [&](std::size_t worker) {
            take(kAdmit, worker, [&](std::size_t i) {
                admit(i, batch, start, window);
                sort(i);
            });
            work(worker, admitted, nullptr);
        });
        return finish();
    }

  private:
    // What the others need to know of a slice.
    struct alignas(kCacheLine) Share {
        bool nulls;
        std::uint64_t next[2];  // positions of both sides before the slice
        std::uint64_t found;
        std::uint64_t before;  // pairs
    };

    void admit(std::size_t i, const Batch& batch, std::size_t start, const Window& window) {
        const Slice slice = this->slice(i);
        const std::uint8_t* const sides = batch.sides + start + slice.from;
        Lane<Key>& lane = lanes_[i];
        const std::size_t at = lane.reader.read(batch, start + slice.from, slice.size(), start + slice.to);
        shares_[i].nulls = lane.reader.any_null();
        lane.buffer.start(slice.size());
        window.place_rows(sides, slice.size(), shares_[i].next, lane.buffer.places());
        lane.buffer.add_plain(sides, lane.reader.keys() + at, lane.reader.intervals(at), slice.size());
    }

    void sort(std::size_t i) { groups_[i] = lanes_[i].group(slice(i).size(), false); }

    template <class Work>
    void take(std::size_t phase, std::size_t worker, Work work) {
        lanes_.deal(phase).take(worker, workers_, work);
    }

    template <class Admitted>
    void work(std::size_t worker, Admitted admitted, std::uint64_t* ends) {
        indexes_.insert_together(groups_, pool_, worker, admitted);
        take(kProbe, worker, [&](std::size_t i) { probe(i, ends); });
        if (!pairs_) return;
        pool_.meet([&] { reserve(); });
        take(kWrite, worker, [&](std::size_t i) { write(i, ends); });
    }

    void probe(std::size_t i, std::uint64_t* ends) {
        Lane<Key>& lane = lanes_[i];
        const bool listed = lane.listed(pairs_);
        std::uint64_t& found = shares_[i].found;
        found = lane.collect(listed, [&](auto& matches) {
            static_cast<const IndexPair<Key>&>(indexes_).probe(groups_[i], matches);
        });
        if (!listed || lane.exact()) return;
        lane.pairs.clear();
        const Slice slice = this->slice(i);
        found = lane.append(lane.found(), pairs_ ? &lane.pairs : nullptr, ends ? ends + slice.from : nullptr,
                            slice.size());
    }

    void reserve() {
        std::uint64_t total = 0;
        for (Share& share : shares_) {
            share.before = pairs_->size() + total;
            total += share.found;
        }
        pairs_->reserve(total + kFew);
    }

    void write(std::size_t i, std::uint64_t* ends) {
        Lane<Key>& lane = lanes_[i];
        const Slice slice = this->slice(i);
        const std::uint64_t found = shares_[i].found, before = shares_[i].before;
        if (ends) ends += slice.from;
        PairRoom room(pairs_->left() + before, pairs_->right() + before, found, before);
        if (lane.exact()) {
            lane.write(lane.found(), &room, ends, slice.size());
            return;
        }
        std::copy_n(lane.pairs.left(), found, room.left);
        std::copy_n(lane.pairs.right(), found, room.right);
        for (std::size_t row = 0; ends && row < slice.size(); ++row) ends[row] += before;
    }

    std::uint64_t finish() {
        std::uint64_t total = 0;
        for (const Share& share : shares_) total += share.found;
        if (pairs_) pairs_->add(total);
        return total;
    }

    Lanes<Key>& lanes_;
    Workers& pool_;
    std::size_t workers_;
    std::size_t slices_;
    IndexPair<Key>& indexes_;
    std::size_t arrivals_;
    Pairs* pairs_;
    std::vector<Group<Key>> groups_;
    std::vector<Share> shares_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
