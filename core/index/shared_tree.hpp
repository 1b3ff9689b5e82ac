// A PIM-Tree that several workers use at the same time, in two copies: a merge builds the next tree in the
// one that nobody reads, while the other answers probes. join/shared_index.hpp decides who may do what when.
// For a single thread it is an index like any other. Memory: that of a PIM-Tree, and a second mutable part.
#pragma once

#include "pim_tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SharedTree {
  public:
    using Copy = PimTree<Key, SpinLock>;
    using InsertHint = typename Copy::InsertHint;
    using ProbeHint = typename Copy::ProbeHint;

    explicit SharedTree(const IndexOptions& options) : copies_{Copy(options), Copy(options)} {}

    // A longer queue would only take longer to admit, and more memory.
    static std::uint64_t largest_group(std::uint64_t live) {
        return std::min<std::uint64_t>(live / 8, std::uint64_t{1} << 15);
    }

    // For several workers: both copies, and which one is in use.
    Copy& copy(unsigned number) { return copies_[number]; }
    unsigned used() const { return used_; }
    void use(unsigned copy) { used_ = copy; }

    // For one thread.
    void insert(Key key, std::uint32_t position) { tree().insert(key, position); }
    void insert_group(const Entry<Key>* entries, std::size_t count) { tree().insert_group(entries, count); }
    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        tree().insert_batch(entries, count, by_key);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        tree().probe(interval, visible, matches);
    }
    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        tree().probe_group(tasks, order, count, matches);
    }

    void forget(std::uint32_t position) { tree().forget(position); }
    void check(std::uint32_t first, std::uint32_t next) const { tree().check(first, next); }
    std::size_t bytes() const { return copies_[0].bytes() + copies_[1].bytes(); }

    template <class Visit>
    void each(Visit visit) const {
        tree().each(visit);
    }

  private:
    Copy& tree() { return copies_[used_]; }
    const Copy& tree() const { return copies_[used_]; }

    Copy copies_[2];
    unsigned used_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
