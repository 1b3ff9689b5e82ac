// The classic B+-tree, one entry inserted and one deleted per arrival: the baseline of "Parallel Index-based
// Stream Join on a Multicore CPU" (Shahvarani, Jacobsen).
//
// Entries expire in the order of their positions, and equal keys stand in the same order (tree.hpp), so the
// entry to delete is always the first of its key. Insert, delete and probe O(log w); 12-24 bytes a tuple for
// the tree, and 8-12 for the order of arrival.
#pragma once

#include "fifo.hpp"
#include "tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BPlusTree {
    using Leaf = typename Tree<Key>::Leaf;

  public:
    explicit BPlusTree(const IndexOptions& = {}) {}
    BPlusTree(const BPlusTree&) = delete;
    BPlusTree& operator=(const BPlusTree&) = delete;

    void insert(Key key, std::uint32_t position) { insert(key, position, prefetch_insert(key)); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        tree_.probe(interval, visible, matches);
    }

    // Prefetches the leaf of an insert or a probe. The hint holds until the tree changes.
    Leaf* prefetch_insert(Key key) const { return tree_.prefetch_insert(key); }
    Leaf* prefetch_probe(Interval<Key> interval) const { return tree_.prefetch_probe(interval); }

    void insert(Key key, std::uint32_t position, Leaf* leaf) {
        window_.push(key, position);
        tree_.insert(key, position, leaf);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, const Leaf* leaf) const {
        tree_.probe(interval, visible, matches, leaf);
    }

    void insert_group(const Entry<Key>* entries, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) window_.push(entries[i].key, entries[i].value);
        tree_.insert_group(entries, count);
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        for (std::size_t i = 0; i < count; ++i) window_.push(entries[i].key, entries[i].value);
        tree_.insert_sorted(by_key, count);
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        tree_.probe_group(tasks, order, count, matches);
    }

    void forget(std::uint32_t position) {
        const std::size_t expired = window_.count_before(position);
        if (expired == 0) return;
        if (expired == 1) {
            const Key key = window_.key(0);
            tree_.erase_first(key,
                              oldest_version_ == tree_.version() ? oldest_leaf_ : tree_.prefetch_erase(key));
        } else {
            erase_oldest(expired);
        }
        window_.drop(expired);
        fetch_oldest();
    }

    template <class Visit>
    void each(Visit visit) const {
        window_.each(visit);
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        window_.check(first, next);
        tree_.check();
        require(tree_.size() == window_.size(), "b-tree: as many entries as the window");
    }

    std::size_t bytes() const {
        return window_.bytes() + nodes_.bytes() + expired_.bytes() + scratch_.bytes();
    }

  private:
    static constexpr std::uint64_t kNoVersion = ~std::uint64_t{0};

    // Deletes many entries in key order, so that neighbours in the tree are changed one after the other.
    void erase_oldest(std::size_t expired) {
        Key keys[kGroup];
        expired_.reserve(expired);
        for (std::size_t i = 0; i < expired; ++i) expired_[i] = {window_.key(i), 0};
        if (expired > kGroup) sort_entries(expired_.data(), expired, scratch_);
        for (std::size_t done = 0; done < expired; done += kGroup) {
            const std::size_t count = std::min(kGroup, expired - done);
            for (std::size_t i = 0; i < count; ++i) keys[i] = expired_[done + i].key;
            tree_.erase_group(keys, count);
        }
    }

    // Prefetches the leaf of the next entry to expire.
    void fetch_oldest() {
        oldest_version_ = kNoVersion;
        if (window_.size() == 0) return;
        oldest_leaf_ = tree_.prefetch_erase(window_.key(0));
        oldest_version_ = tree_.version();
    }

    TreeNodes<Key> nodes_;
    Tree<Key> tree_{nodes_};
    Fifo<Key> window_;
    Leaf* oldest_leaf_ = nullptr;  // of the window's oldest entry, while oldest_version_ is the version
    std::uint64_t oldest_version_ = kNoVersion;
    Buffer<Entry<Key>> expired_;
    Buffer<Entry<Key>> scratch_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
