// The PIM-Tree of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen): the IM-Tree
// with its mutable part split into sub-trees, one for each node of the immutable tree at the insertion depth
// D_I. A search of the immutable tree finds the sub-tree on its way, so the upper levels of the mutable part
// need no memory of their own, sub-trees have one leaf or a few, and inserts into different ones do not
// conflict. Every merge builds a new immutable tree, so the ranges of the sub-trees follow the keys.
// merging_tree.hpp has the costs.
//
// Sub-trees are chained: a scan that reaches the end of one continues in the next. Each has a lock, which an
// insert holds and which a scan hands over along the chain, holding two at most; the immutable tree is read
// without a lock. Without threads the lock is NoLock, which costs neither space nor time. With threads, a
// second lock guards the nodes that the sub-trees share, and the driver must guard the merge.
#pragma once

#include "../spin_lock.hpp"
#include "merging_tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key, class Lock>
class SubTrees {
    using Leaf = typename Tree<Key>::Leaf;

  public:
    // With real locks a hint has only the sub-tree: other threads may change its leaves before it is used.
    template <class LeafPointer>
    struct Hint {
        std::size_t sub_tree;
        LeafPointer leaf;
    };
    using InsertHint = Hint<Leaf*>;
    using ProbeHint = Hint<const Leaf*>;

    static constexpr bool kOrdered = std::is_same_v<Lock, NoLock>;

    explicit SubTrees(const IndexOptions& options) : wanted_depth_(options.insertion_depth) {}
    SubTrees(const SubTrees&) = delete;
    SubTrees& operator=(const SubTrees&) = delete;

    void restart(const ImmutableTree<Key>& stable, std::size_t expected) {
        depth_ = depth_for(stable, expected);
        count_ = stable.nodes(depth_);
        nodes_.clear();
        if (sub_trees_.size() < count_) sub_trees_ = std::vector<SubTree>(count_);
        for (std::size_t i = 0; i < count_; ++i) {
            sub_trees_[i].tree.start(nodes_);
            sub_trees_[i].note_root();
        }
    }

    unsigned depth() const { return depth_; }
    std::size_t count() const { return count_; }
    std::size_t size() const {
        std::size_t total = 0;
        for (std::size_t i = 0; i < count_; ++i) total += sub_trees_[i].tree.size();
        return total;
    }

    InsertHint prefetch_insert(Key key, std::size_t node) const {
        if constexpr (kFree) return {node, sub_trees_[node].tree.prefetch_insert(key)};
        prefetch(&sub_trees_[node]);
        return {node, nullptr};
    }

    ProbeHint prefetch_probe(Interval<Key> interval, std::size_t node) const {
        if constexpr (kFree) return {node, sub_trees_[node].tree.prefetch_probe(interval)};
        prefetch(&sub_trees_[node]);
        return {node, nullptr};
    }

    // With real locks: prefetches the root of a sub-tree, most often its only leaf, without its lock.
    void prefetch_root(std::size_t node) const {
        prefetch_span<sizeof(Leaf)>(sub_trees_[node].root.load(std::memory_order_relaxed));
    }

    void insert(Key key, std::uint32_t position, InsertHint hint) {
        SubTree& into = sub_trees_[hint.sub_tree];
        const Holding<Lock> holding(into.lock);
        Leaf* const leaf = hint.leaf ? hint.leaf : into.tree.prefetch_insert(key);
        if (leaf->has_room()) return into.tree.insert(key, position, leaf);
        const Holding<NodesLock> taking(nodes_lock_);
        into.tree.insert(key, position, leaf);
        into.note_root();
    }

    // `nodes` are the nodes that the entries belong to.
    void insert_group(const Entry<Key>* entries, const std::size_t* nodes, std::size_t count) {
        InsertHint hints[kGroup];
        std::uint64_t versions[kGroup];
        for (std::size_t i = 0; i < count; ++i) {
            hints[i] = prefetch_insert(entries[i].key, nodes[i]);
            versions[i] = sub_trees_[nodes[i]].tree.version();
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (versions[i] != sub_trees_[nodes[i]].tree.version()) hints[i].leaf = nullptr;
            insert(entries[i].key, entries[i].value, hints[i]);
        }
    }

    void insert_sorted(const Entry<Key>* entries, std::size_t count, const ImmutableTree<Key>& stable) {
        while (count > 0) {
            const std::size_t node = stable.descend(0, 0, depth_, entries[0].key);
            const Key bound = stable.bound(depth_, node);
            std::size_t together = 1;
            while (together < count && entries[together].key <= bound) ++together;
            const Holding<Lock> holding(sub_trees_[node].lock);
            const Holding<NodesLock> taking(nodes_lock_);
            sub_trees_[node].tree.insert_sorted(entries, together);
            sub_trees_[node].note_root();
            entries += together;
            count -= together;
        }
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, ProbeHint hint,
               const ImmutableTree<Key>& stable) const {
        const SubTree* at = &sub_trees_[hint.sub_tree];
        Holding<Lock> holding(at->lock);
        at->tree.probe(interval, visible, matches, hint.leaf ? hint.leaf : at->tree.prefetch_probe(interval));
        for (std::size_t i = hint.sub_tree; stable.bound(depth_, i) < interval.high; ++i) {
            ++at;
            holding.hand_over(at->lock);
            at->tree.probe(interval, visible, matches);
        }
    }

    template <class Visit>
    void visit(std::size_t from, std::size_t to, Visit visit) const {
        for (std::size_t i = from; i < to; ++i) sub_trees_[i].tree.visit(visit);
    }

    void check(const ImmutableTree<Key>& stable) const {
        require(depth_ <= stable.height() && count_ == stable.nodes(depth_), "sub-trees: one for each node");
        for (std::size_t i = 0; i < count_; ++i) {
            sub_trees_[i].tree.check(kOrdered);
            sub_trees_[i].tree.visit([&](const Key* keys, const std::uint32_t*, std::size_t count) {
                for (std::size_t k = 0; k < count; ++k) {
                    require(keys[k] <= stable.bound(depth_, i), "sub-trees: keys are not above the node's");
                    require(i == 0 || stable.bound(depth_, i - 1) < keys[k],
                            "sub-trees: keys are above those of the node before");
                }
            });
        }
    }

    std::size_t bytes() const { return nodes_.bytes() + sub_trees_.capacity() * sizeof(SubTree); }

  private:
    static constexpr bool kFree = kOrdered;

    using NodesLock = std::conditional_t<kFree, NoLock, SpinLock>;
    struct NoRoot {
        void store(const void*, std::memory_order) {}
    };
    using Root = std::conditional_t<kFree, NoRoot, std::atomic<const void*>>;

    struct alignas(kFree ? alignof(Tree<Key>) : kCacheLine) SubTree {
        Tree<Key> tree;
        [[no_unique_address]] mutable Lock lock;
        [[no_unique_address]] Root root{};  // what prefetch_root may read without the lock

        void note_root() { root.store(tree.root(), std::memory_order_relaxed); }
    };
    static_assert(!kFree || sizeof(SubTree) == sizeof(Tree<Key>));

    // By default the deepest level at which sub-trees are expected to fill half a leaf.
    unsigned depth_for(const ImmutableTree<Key>& stable, std::size_t expected) const {
        if (wanted_depth_) return std::min<unsigned>(wanted_depth_, stable.height());
        unsigned depth = 0;
        while (depth < stable.height() &&
               stable.nodes(depth + 1) * (TreeNodes<Key>::kLeafEntries / 2) <= expected)
            ++depth;
        return depth;
    }

    std::uint32_t wanted_depth_;
    unsigned depth_ = 0;
    std::size_t count_ = 0;
    TreeNodes<Key> nodes_;
    [[no_unique_address]] NodesLock nodes_lock_;
    std::vector<SubTree> sub_trees_;  // the first count_ are used
};

template <class Key, class Lock = NoLock>
using PimTree = MergingTree<Key, SubTrees<Key, Lock>>;

}  // namespace slidejoin::SLIDEJOIN_TARGET
