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

#include "slice_writer.hpp"
#include "slices.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// One group on its way through the phases. It is cut into slices, more than there are workers; in each phase
// a slice is done by the worker that is free for it.
template <class Key>
class Phases {
  public:
    // Matches are written to `pairs`, or only counted if it is null.
    Phases(Lanes<Key>& lanes, std::size_t workers, IndexPair<Key>& indexes, Slices<Key>& slices, Pairs* pairs)
        : lanes_(lanes),
          pool_(lanes.pool()),
          workers_(workers),
          slices_(slices),
          indexes_(indexes),
          pairs_(pairs),
          groups_(slices.size()),
          writer_(slices.size(), pairs) {}

    // Joins what was admitted. With `ends`, ends[i] becomes the number of pairs up to arrival i.
    std::uint64_t join(std::uint64_t* ends) {
        pool_.run(workers_, [&](std::size_t worker) {
            take(kAdmit, worker, [&](std::size_t i) { sort(i); });
            work(worker, [] {}, ends);
        });
        return writer_.finish();
    }

    // Admits the arrivals of `batch` from `start` on, where that is plain, and joins them. If there is a null
    // among them, otherwise() admits them.
    template <class Otherwise>
    std::uint64_t admit_and_join(const Batch& batch, std::size_t start, Window& window, Otherwise otherwise) {
        slices_.count(batch, start, window);
        const auto admitted = [&] {
            if (slices_.take_positions(window)) return;
            otherwise();
            for (std::size_t i = 0; i < slices_.size(); ++i) sort(i);
        };
        pool_.run(workers_, [&](std::size_t worker) {
            take(kAdmit, worker, [&](std::size_t i) {
                slices_.admit(i, batch, start, window);
                sort(i);
            });
            work(worker, admitted, nullptr);
        });
        return writer_.finish();
    }

  private:
    void sort(std::size_t i) { groups_[i] = lanes_[i].group(slices_[i].size(), false); }

    template <class Work>
    void take(std::size_t phase, std::size_t worker, Work work) {
        lanes_.deal(phase).take(worker, workers_, work);
    }

    template <class Admitted>
    void work(std::size_t worker, Admitted admitted, std::uint64_t* ends) {
        indexes_.insert_together(groups_, pool_, worker, admitted);
        take(kProbe, worker, [&](std::size_t i) { probe(i, ends); });
        if (!pairs_) return;
        pool_.meet([&] { writer_.reserve(); });
        take(kWrite, worker,
             [&](std::size_t i) { writer_.write(i, lanes_[i], slices_[i], ends, write_of(i)); });
    }

    void probe(std::size_t i, std::uint64_t* ends) {
        Lane<Key>& lane = lanes_[i];
        const bool listed = lane.listed(pairs_);
        const std::size_t found = lane.collect(listed, [&](auto& matches) {
            static_cast<const IndexPair<Key>&>(indexes_).probe(groups_[i], matches);
        });
        if (listed) writer_.list(i, lane, found, ends, write_of(i));
        else writer_.count(i, found);
    }

    // How the pairs of a slice are written.
    auto write_of(std::size_t i) {
        return [this, i](PairRoom* out, std::uint64_t* ends) {
            const Slice slice = slices_[i];
            return lanes_[i].write(lanes_[i].found(), out, ends ? ends + slice.from : nullptr, slice.size());
        };
    }

    Lanes<Key>& lanes_;
    Workers& pool_;
    std::size_t workers_;
    Slices<Key>& slices_;
    IndexPair<Key>& indexes_;
    Pairs* pairs_;
    std::vector<Group<Key>> groups_;
    SliceWriter<Key> writer_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
