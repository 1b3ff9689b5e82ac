// The IM-Tree of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen): a B+-tree that
// takes the inserts and an immutable tree that holds the rest, merged when the B+-tree has reached its share
// (merging_tree.hpp has the costs).
#pragma once

#include "merging_tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// One B+-tree for all recent entries.
template <class Key>
class OneTree {
  public:
    using InsertHint = typename Tree<Key>::Leaf*;
    using ProbeHint = const typename Tree<Key>::Leaf*;

    static constexpr bool kOrdered = true;

    explicit OneTree(const IndexOptions&) {}
    OneTree(const OneTree&) = delete;
    OneTree& operator=(const OneTree&) = delete;

    void restart(const ImmutableTree<Key>&, std::size_t) {
        nodes_.clear();
        tree_.start(nodes_);
    }

    unsigned depth() const { return 0; }
    std::size_t count() const { return 1; }
    std::size_t size() const { return tree_.size(); }
    InsertHint prefetch_insert(Key key, std::size_t) const { return tree_.prefetch_insert(key); }
    ProbeHint prefetch_probe(Interval<Key> interval, std::size_t) const {
        return tree_.prefetch_probe(interval);
    }

    void insert(Key key, std::uint32_t position, InsertHint leaf) { tree_.insert(key, position, leaf); }

    void insert_group(const Entry<Key>* entries, const std::size_t*, std::size_t count) {
        tree_.insert_group(entries, count);
    }

    void insert_sorted(const Entry<Key>* entries, std::size_t count, const ImmutableTree<Key>&) {
        tree_.insert_sorted(entries, count);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, ProbeHint leaf,
               const ImmutableTree<Key>&) const {
        tree_.probe(interval, visible, matches, leaf);
    }

    template <class Visit>
    void visit(std::size_t, std::size_t, Visit visit) const {
        tree_.visit(visit);
    }

    void check(const ImmutableTree<Key>&) const { tree_.check(); }
    std::size_t bytes() const { return nodes_.bytes(); }

  private:
    TreeNodes<Key> nodes_;
    Tree<Key> tree_;
};

template <class Key>
using ImTree = MergingTree<Key, OneTree<Key>>;

}  // namespace slidejoin::SLIDEJOIN_TARGET
