// Several workers share a group of arrivals in phases, with a meeting of all between two of them:
//
//   admit    each reads a slice of the arrivals, counts its sides, and gives its tuples their places; then it
//            sorts what they insert and probe for
//   insert   each inserts into one index, and into a range of keys of its own where the index can be divided
//   probe    each probes for its slice, with the visible ranges as filter: no index changes meanwhile
//   write    each writes the pairs of its slice behind those of the slices before
//
// Slices are contiguous, so the pairs come in the order of arrival, as those of one thread, with no copy in
// between. No lock is held: between two meetings, no two workers use what one of them changes. Cost: about
// 1 us for each of the five to seven meetings.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The lanes of a join, and the threads that work in them.
template <class Key>
class Lanes {
  public:
    explicit Lanes(const JoinSpec& spec) : spec_(spec) {
        lanes_.push_back(std::make_unique<Lane<Key>>(spec_));
    }

    Lane<Key>& operator[](std::size_t i) { return *lanes_[i]; }
    Workers& pool() { return pool_; }

    // From now on so many workers; may be called by any thread.
    void want(std::uint32_t workers) { wanted_.store(workers, std::memory_order_relaxed); }

    // Makes lanes and threads for a group of so many arrivals. Returns how many workers share it.
    std::size_t prepare(std::size_t arrivals) {
        const std::size_t wanted = wanted_.load(std::memory_order_relaxed);
        if (wanted <= 1 || arrivals < 2 * kShare) return 1;
        const std::size_t workers = pool_.prepare(std::min(wanted, arrivals / kShare));
        while (lanes_.size() < workers) {
            lanes_.push_back(std::make_unique<Lane<Key>>(spec_, lanes_[0].get()));
        }
        return workers;
    }

    // The next batch begins.
    void start() {
        for (const auto& lane : lanes_) lane->reader.start();
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

    const JoinSpec& spec_;
    std::vector<std::unique_ptr<Lane<Key>>> lanes_;
    Workers pool_;
    std::atomic<std::uint32_t> wanted_{1};
};

// One group on its way through the phases.
template <class Key>
class Phases {
  public:
    // Matches are written to `pairs`, or only counted if it is null.
    Phases(Lanes<Key>& lanes, std::size_t workers, IndexPair<Key>& indexes, std::size_t arrivals,
           Pairs* pairs)
        : lanes_(lanes),
          pool_(lanes.pool()),
          workers_(workers),
          indexes_(indexes),
          arrivals_(arrivals),
          pairs_(pairs),
          groups_(workers),
          shares_(workers) {}

    // Lets the workers admit the arrivals of `batch` from `start` on to a window of rows: all have keys and
    // are stored. If there is a null among them after all, otherwise() admits them.
    template <class Otherwise>
    void admit_plain(const Batch& batch, std::size_t start, Window& window, Otherwise otherwise) {
        bool nulls = false;
        pool_.run(workers_, [&](std::size_t worker) {
            Lane<Key>& lane = lanes_[worker];
            const Slice slice(arrivals_, worker, workers_);
            const std::size_t count = slice.to - slice.from;
            const std::uint8_t* const sides = batch.sides + start + slice.from;
            const std::size_t at = lane.reader.read(batch, start + slice.from, count, start + slice.to);
            Share& share = shares_[worker];
            share.nulls = lane.reader.any_null();
            share.rights = 0;
            for (std::size_t i = 0; i < count; ++i) share.rights += sides[i] & 1;
            pool_.meet();
            std::uint64_t next[2] = {window.next(Side::left), window.next(Side::right)};
            for (std::size_t i = 0; i < workers_; ++i) {
                if (shares_[i].nulls) {
                    if (worker == 0) nulls = true;
                    return;
                }
                if (i >= worker) continue;
                const Slice before(arrivals_, i, workers_);
                next[1] += shares_[i].rights;
                next[0] += before.to - before.from - shares_[i].rights;
            }
            lane.buffer.start(count);
            window.place_rows(sides, count, next, lane.buffer.places());
            lane.buffer.add_plain(sides, lane.reader.keys() + at, lane.reader.intervals(at), count);
            if (worker + 1 == workers_) std::copy_n(next, 2, next_);
        });
        if (nulls) otherwise();
        else window.advance_rows(next_);
    }

    // Joins what was admitted. With `ends`, ends[i] becomes the number of pairs up to arrival i.
    std::uint64_t run(std::uint64_t* ends) {
        pool_.run(workers_, [&](std::size_t worker) { work(worker, ends); });
        std::uint64_t total = 0;
        for (const Share& share : shares_) total += share.found;
        if (pairs_) pairs_->add(total);
        return total;
    }

  private:
    // What the others need to know of a worker's slice.
    struct alignas(kCacheLine) Share {
        bool nulls;
        std::uint64_t rights;
        std::uint64_t found;
    };

    void work(std::size_t worker, std::uint64_t* ends) {
        Lane<Key>& lane = lanes_[worker];
        const Slice slice(arrivals_, worker, workers_);
        const std::size_t count = slice.to - slice.from;
        groups_[worker] = lane.group(count, false);
        pool_.meet();
        indexes_.insert_together(groups_.data(), worker, workers_, pool_);
        pool_.meet();
        const bool listed = lane.listed(pairs_);
        std::uint64_t& found = shares_[worker].found;
        found = lane.collect(listed, [&](auto& matches) {
            static_cast<const IndexPair<Key>&>(indexes_).probe(groups_[worker], matches);
        });
        if (listed && !lane.exact()) {
            lane.pairs.clear();
            found = lane.append(lane.found(), pairs_ ? &lane.pairs : nullptr,
                                ends ? ends + slice.from : nullptr, count);
        }
        if (!pairs_) return;
        pool_.meet();
        if (worker == 0) reserve();
        pool_.meet();
        write(lane, worker, ends ? ends + slice.from : nullptr, count);
    }

    void reserve() {
        std::uint64_t total = 0;
        for (const Share& share : shares_) total += share.found;
        pairs_->reserve(total + kFew);
    }

    void write(Lane<Key>& lane, std::size_t worker, std::uint64_t* ends, std::size_t count) {
        std::uint64_t before = pairs_->size();
        for (std::size_t i = 0; i < worker; ++i) before += shares_[i].found;
        const std::size_t found = shares_[worker].found;
        PairRoom room(pairs_->left() + before, pairs_->right() + before, found, before);
        if (lane.exact()) {
            lane.write(lane.found(), &room, ends, count);
            return;
        }
        std::copy_n(lane.pairs.left(), found, room.left);
        std::copy_n(lane.pairs.right(), found, room.right);
        for (std::size_t i = 0; ends && i < count; ++i) ends[i] += before;
    }

    Lanes<Key>& lanes_;
    Workers& pool_;
    std::size_t workers_;
    IndexPair<Key>& indexes_;
    std::size_t arrivals_;
    Pairs* pairs_;
    std::vector<Group<Key>> groups_;
    std::vector<Share> shares_;
    std::uint64_t next_[2];
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
