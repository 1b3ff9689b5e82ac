// The chained indexes of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen): a
// window as L (chain_length) sub-indexes by arrival (subwindows.hpp), of which the newest, a B+-tree, takes
// the inserts and the oldest is dropped whole.
//
// b-chain: all sub-indexes are B+-trees. ib-chain: a full one is turned into an immutable tree, which is
// smaller and faster to search, once in O(n). An insert costs O(log w), a probe L searches; no entry is
// deleted by itself.
#pragma once

#include "immutable_tree.hpp"
#include "subwindows.hpp"
#include "tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// A sub-index that stays a B+-tree.
template <class Key>
class TreePart {
  public:
    using InsertHint = typename Tree<Key>::Leaf*;
    using ProbeHint = const typename Tree<Key>::Leaf*;

    TreePart(std::size_t, const IndexOptions&, const TreePart*) {}
    TreePart(const TreePart&) = delete;
    TreePart& operator=(const TreePart&) = delete;

    InsertHint prefetch_insert(Key key) const { return tree_.prefetch_insert(key); }
    ProbeHint prefetch_probe(Interval<Key> interval) const { return tree_.prefetch_probe(interval); }

    void insert(Key key, std::uint32_t position) { tree_.insert(key, position); }
    void insert(Key key, std::uint32_t position, InsertHint leaf) { tree_.insert(key, position, leaf); }
    void insert_group(const Entry<Key>* entries, std::size_t count) { tree_.insert_group(entries, count); }
    void insert_sorted(const Entry<Key>* entries, std::size_t count) { tree_.insert_sorted(entries, count); }
    void seal() {}

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool, Matches& matches) const {
        tree_.probe(interval, visible, matches);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool, Matches& matches, ProbeHint leaf) const {
        tree_.probe(interval, visible, matches, leaf);
    }

    template <class Visit>
    void each(Visit visit) const {
        tree_.each(visit);
    }

    void check() const { tree_.check(); }
    std::size_t size() const { return tree_.size(); }
    std::size_t bytes() const { return nodes_.bytes(); }

  private:
    TreeNodes<Key> nodes_;
    Tree<Key> tree_{nodes_};
};

// A sub-index that is a B+-tree until it is full, and then an immutable tree.
template <class Key>
class SealedTreePart {
  public:
    using InsertHint = typename Tree<Key>::Leaf*;
    struct ProbeHint {
        const typename Tree<Key>::Leaf* leaf;  // of the B+-tree, if it is not sealed
        std::size_t sealed_leaf;
    };

    SealedTreePart(std::size_t, const IndexOptions&, const SealedTreePart*)
        : growing_(std::make_unique<Growing>()) {}

    InsertHint prefetch_insert(Key key) const { return growing_->tree.prefetch_insert(key); }

    ProbeHint prefetch_probe(Interval<Key> interval) const {
        if (growing_) return {growing_->tree.prefetch_probe(interval), 0};
        return {nullptr, sealed_.prefetch_leaf(interval.low)};
    }

    void insert(Key key, std::uint32_t position) { growing_->tree.insert(key, position); }

    void insert(Key key, std::uint32_t position, InsertHint leaf) {
        growing_->tree.insert(key, position, leaf);
    }

    void insert_group(const Entry<Key>* entries, std::size_t count) {
        growing_->tree.insert_group(entries, count);
    }

    void insert_sorted(const Entry<Key>* entries, std::size_t count) {
        growing_->tree.insert_sorted(entries, count);
    }

    void seal() {
        SortedEntries<Key> run;
        run.start(growing_->tree.size());
        growing_->tree.visit([&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            std::memcpy(run.keys.data() + run.size, keys, count * sizeof(Key));
            std::memcpy(run.positions.data() + run.size, positions, count * sizeof(std::uint32_t));
            run.size += count;
        });
        run.finish();
        sealed_.take(run);
        growing_.reset();
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool whole, Matches& matches) const {
        probe(interval, visible, whole, matches, prefetch_probe(interval));
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool, Matches& matches, ProbeHint hint) const {
        if (growing_) growing_->tree.probe(interval, visible, matches, hint.leaf);
        else sealed_.probe(interval, visible, matches, hint.sealed_leaf);
    }

    template <class Visit>
    void each(Visit visit) const {
        if (growing_) growing_->tree.each(visit);
        else sealed_.run().each(visit);
    }

    void check() const {
        require(!growing_ || sealed_.size() == 0, "ib-chain: entries are in one tree");
        if (growing_) growing_->tree.check();
        sealed_.check();
    }

    std::size_t size() const { return growing_ ? growing_->tree.size() : sealed_.size(); }

    std::size_t bytes() const {
        return sealed_.bytes() + (growing_ ? sizeof(Growing) + growing_->nodes.bytes() : 0);
    }

  private:
    struct Growing {
        TreeNodes<Key> nodes;
        Tree<Key> tree{nodes};
    };

    std::unique_ptr<Growing> growing_;  // until sealed
    ImmutableTree<Key> sealed_;
};

template <class Key>
class BChain : public SubwindowIndex<Key, TreePart<Key>> {
  public:
    explicit BChain(const IndexOptions& options)
        : SubwindowIndex<Key, TreePart<Key>>(options, options.chain_length) {}
};

template <class Key>
class IbChain : public SubwindowIndex<Key, SealedTreePart<Key>> {
  public:
    explicit IbChain(const IndexOptions& options)
        : SubwindowIndex<Key, SealedTreePart<Key>>(options, options.chain_length) {}
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
