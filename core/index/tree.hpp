// A B+-tree of (key, position) entries: what the b-tree, the chains and the mutable parts of the merging
// trees are made of.
//
// Nodes are searched by comparing all their keys at once (tree_nodes.hpp). Equal keys stand in the order of
// their positions. Insert, erase and probe O(log n); 12-24 bytes an entry, depending on how full the leaves
// are.
#pragma once

#include "tree_nodes.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Tree {
    using Nodes = TreeNodes<Key>;
    using Inner = typename Nodes::Inner;

  public:
    using Leaf = typename Nodes::Leaf;

    Tree() = default;  // to be started
    explicit Tree(Nodes& nodes) { start(nodes); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    // Starts empty, or starts again after the nodes that it had were taken back.
    void start(Nodes& nodes) {
        nodes_ = &nodes;
        root_ = first_ = nodes_->leaves.take();
        first_->start();
        height_ = 0;
        size_ = 0;
        ++version_;
    }

    std::size_t size() const { return size_; }
    const void* root() const { return root_; }
    std::uint64_t version() const { return version_; }  // counts the times that entries moved between leaves

    void insert(Key key, std::uint32_t position) { insert(key, position, prefetch_insert(key)); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        scan(prefetch_probe(interval), interval, visible, matches);
    }

    // Prefetches the leaf of an insert or a probe. The hint holds until the tree changes.
    Leaf* prefetch_insert(Key key) const { return descend<kUpper>(key); }
    Leaf* prefetch_probe(Interval<Key> interval) const { return descend<kLower>(interval.low); }

    void insert(Key key, std::uint32_t position, Leaf* leaf) {
        if (leaf->has_room()) leaf->insert(key, position);
        else insert_entry(key, position);
        ++size_;
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, const Leaf* leaf) const {
        scan(leaf, interval, visible, matches);
    }

    // Inserts at most kGroup entries, which are located together.
    void insert_group(const Entry<Key>* entries, std::size_t count) {
        Key keys[kGroup];
        Leaf* leaves[kGroup];
        for (std::size_t i = 0; i < count; ++i) keys[i] = entries[i].key;
        locate<kUpper>(keys, count, leaves);
        const std::uint64_t version = version_;
        for (std::size_t i = 0; i < count; ++i) {
            if (version == version_ && leaves[i]->count < kLeafEntries)
                leaves[i]->insert(keys[i], entries[i].value);
            else insert_entry(keys[i], entries[i].value);
        }
        size_ += count;
    }

    // Inserts entries in key order, so that neighbours in the tree are changed one after the other.
    void insert_sorted(const Entry<Key>* entries, std::size_t count) {
        for (std::size_t i = 0; i < count; i += kGroup)
            insert_group(entries + i, std::min(kGroup, count - i));
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        Key lows[kGroup] = {};
        Leaf* leaves[kGroup];
        for (std::size_t i = 0; i < count; ++i) lows[i] = tasks[order[i]].interval.low;
        locate<kLower>(lows, count, leaves);
        for (std::size_t i = 0; i < count; ++i) {
            Task<Key>& task = tasks[order[i]];
            matches.begin(task);
            scan(leaves[i], task.interval, task.visible, matches);
            task.found_to = matches.size();
        }
    }

    // Deletes the oldest entry of `key`; `leaf` is prefetch_erase(key).
    void erase_first(Key key, Leaf* leaf) {
        --size_;
        const unsigned at = count_below<kSlots>(leaf->keys, key);
        if (at < leaf->count && (leaf->count > kLeafLow || height_ == 0)) return leaf->erase(at);
        Path path = path_to<kLower>(key);
        unsigned first = count_below<kSlots>(path.leaf->keys, key);
        if (first == path.leaf->count) {  // the separator equals the key, which is not in the left child
            next_leaf(path);
            first = 0;
        }
        path.leaf->erase(first);
        if (path.leaf->count < kLeafLow && height_ > 0) refill_leaf(path);
    }

    // Deletes the oldest entry of each of at most kGroup keys.
    void erase_group(const Key* keys, std::size_t count) {
        Leaf* leaves[kGroup];
        locate<kLower>(keys, count, leaves);
        const std::uint64_t version = version_;
        for (std::size_t i = 0; i < count; ++i)
            erase_first(keys[i], version == version_ ? leaves[i] : descend<kLower>(keys[i]));
    }

    Leaf* prefetch_erase(Key key) const { return descend<kLower>(key); }

    // Calls visit(keys, positions, count) for the entries of each leaf, in the order of keys.
    template <class Visit>
    void visit(Visit visit) const {
        for (const Leaf* leaf = first_; leaf; leaf = leaf->next)
            visit(leaf->keys, leaf->positions, leaf->count);
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        this->visit([&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) visit(keys[i], positions[i]);
        });
    }

    // `ordered`: equal keys were inserted in the order of their positions.
    void check(bool ordered = true) const {
        Walk walk;
        walk.ordered = ordered;
        check_node(root_, height_, nullptr, nullptr, walk);
        require(walk.entries == size_, "tree: as many entries as it counts");
        require(walk.first == first_, "tree: the first leaf is known");
        require(walk.last == nullptr || walk.last->next == nullptr, "tree: the last leaf ends the chain");
    }

  private:
    static constexpr unsigned kSlots = Nodes::kSlots;
    static constexpr unsigned kLeafEntries = Nodes::kLeafEntries;
    static constexpr unsigned kInnerKeys = Nodes::kInnerKeys;
    static constexpr unsigned kLeafLow = kLeafEntries / 4;  // fewer entries: borrow or merge
    static constexpr unsigned kInnerLow = kInnerKeys / 4;
    static constexpr unsigned kMaxHeight = 12;  // 2^31 entries at the least fill need 11
    static constexpr Key kGreatest = Nodes::kGreatest;

    struct Step {
        Inner* node;
        unsigned child;
    };
    struct Path {  // from the root down; steps[0] is the root, the leaf's parent is the last
        Step steps[kMaxHeight];
        Leaf* leaf;
    };

    enum Descent { kLower, kUpper };  // to the first, or behind the last, entry of a key

    template <Descent kDescent>
    static unsigned child_of(const Inner* inner, Key key) {
        return kDescent == kLower ? count_below<kSlots>(inner->keys, key)
                                  : count_up_to<kSlots>(inner->keys, inner->count, key);
    }

    template <Descent kDescent>
    Leaf* descend(Key key) const {
        void* node = root_;
        for (unsigned level = height_; level > 0; --level) {
            const Inner* inner = static_cast<const Inner*>(node);
            node = inner->children[child_of<kDescent>(inner, key)];
        }
        prefetch_span<sizeof(Leaf)>(node);
        return static_cast<Leaf*>(node);
    }

    template <Descent kDescent>
    Path path_to(Key key) const {
        Path path;
        void* node = root_;
        for (unsigned depth = 0; depth < height_; ++depth) {
            Inner* inner = static_cast<Inner*>(node);
            const unsigned child = child_of<kDescent>(inner, key);
            path.steps[depth] = {inner, child};
            node = inner->children[child];
        }
        path.leaf = static_cast<Leaf*>(node);
        return path;
    }

    // Finds the leaves of several keys, level by level; nodes are prefetched while others are searched.
    template <Descent kDescent>
    void locate(const Key* keys, std::size_t count, Leaf** leaves) const {
        void* nodes[kGroup];
        std::fill_n(nodes, count, root_);
        for (unsigned level = height_; level > 0; --level) {
            for (std::size_t i = 0; i < count; ++i) {
                const Inner* inner = static_cast<const Inner*>(nodes[i]);
                nodes[i] = inner->children[child_of<kDescent>(inner, keys[i])];
                if (level > 1) prefetch_span<sizeof(Inner::keys)>(nodes[i]);
                else prefetch_span<sizeof(Leaf)>(nodes[i]);
            }
        }
        for (std::size_t i = 0; i < count; ++i) leaves[i] = static_cast<Leaf*>(nodes[i]);
    }

    template <class Matches>
    void scan(const Leaf* leaf, Interval<Key> interval, Visible visible, Matches& matches) const {
        unsigned from = count_below<kSlots>(leaf->keys, interval.low);
        while (true) {
            const unsigned to = count_up_to<kSlots>(leaf->keys, leaf->count, interval.high);
            if (from < to) matches.positions(leaf->positions + from, to - from, visible);
            if (to < leaf->count || !leaf->next) return;
            leaf = leaf->next;
            if (leaf->next) prefetch_span<sizeof(Leaf)>(leaf->next);
            from = 0;
        }
    }

    void insert_entry(Key key, std::uint32_t position) {
        Leaf* leaf = descend<kUpper>(key);
        if (leaf->count == kLeafEntries) {
            split(path_to<kUpper>(key), key);
            leaf = descend<kUpper>(key);
        }
        leaf->insert(key, position);
    }

    // Makes room for `key` in the full leaf at the path's end. Reserves all memory before anything changes.
    void split(const Path& path, Key key) {
        nodes_->leaves.reserve(1);
        nodes_->inners.reserve(height_ + 1);
        ++version_;
        Leaf* left = path.leaf;
        Leaf* right = nodes_->leaves.take();
        right->start();
        // Ascending keys fill the last leaf completely instead of leaving every leaf half empty.
        const bool ascending = !left->next && key >= left->keys[kLeafEntries - 1];
        const unsigned kept = ascending ? kLeafEntries - 1 : kLeafEntries / 2;
        left->move_tail(kept, right);
        right->next = left->next;
        left->next = right;
        insert_child(path, height_, right->keys[0], right);
    }

    // Adds `child`, which starts at `separator`, behind the child that the path takes at depth - 1.
    void insert_child(const Path& path, unsigned depth, Key separator, void* child) {
        if (depth == 0) {
            Inner* root = nodes_->inners.take();
            void* const children[] = {root_, child};
            root->fill(&separator, children, 1);
            root_ = root;
            ++height_;
            return;
        }
        auto [node, at] = path.steps[depth - 1];
        if (node->count == kInnerKeys) {
            Inner* right = nodes_->inners.take();
            const unsigned kept = kInnerKeys / 2;  // separator `kept` moves up
            const Key up = node->keys[kept];
            right->fill(node->keys + kept + 1, node->children + kept + 1, node->count - kept - 1);
            std::fill_n(node->keys + kept, node->count - kept, kGreatest);
            node->count = kept;
            insert_child(path, depth - 1, up, right);
            if (at > kept) {
                node = right;
                at -= kept + 1;
            }
        }
        node->insert(at, separator, child);
    }

    void next_leaf(Path& path) const {
        unsigned depth = height_;
        while (path.steps[depth - 1].child == path.steps[depth - 1].node->count) --depth;
        void* node = path.steps[depth - 1].node->children[++path.steps[depth - 1].child];
        for (; depth < height_; ++depth) {
            path.steps[depth] = {static_cast<Inner*>(node), 0};
            node = static_cast<Inner*>(node)->children[0];
        }
        path.leaf = static_cast<Leaf*>(node);
    }

    // The leaf has too few entries: merges it with a neighbour under the same parent, or divides the entries
    // of both evenly.
    void refill_leaf(const Path& path) {
        ++version_;
        auto [parent, at] = path.steps[height_ - 1];
        const unsigned separator = at < parent->count ? at : at - 1;
        Leaf* left = static_cast<Leaf*>(parent->children[separator]);
        Leaf* right = static_cast<Leaf*>(parent->children[separator + 1]);
        const unsigned total = left->count + right->count;
        if (total <= kLeafEntries * 3 / 4) {
            left->append(right, right->count);
            left->next = right->next;
            nodes_->leaves.give_back(right);
            remove_child(path, height_, separator);
            return;
        }
        if (left->count < total / 2) left->append(right, total / 2 - left->count);
        else left->move_tail(total / 2, right);
        parent->keys[separator] = right->keys[0];
    }

    // Removes separator `at` and the child behind it from the node at depth - 1.
    void remove_child(const Path& path, unsigned depth, unsigned at) {
        Inner* node = path.steps[depth - 1].node;
        node->erase(at);
        if (depth == 1) {
            if (node->count == 0) {
                root_ = node->children[0];
                --height_;
                nodes_->inners.give_back(node);
            }
        } else if (node->count < kInnerLow) {
            refill_inner(path, depth - 1);
        }
    }

    // The same for an inner node at `depth`: with all separators of both, and the parent's between them.
    void refill_inner(const Path& path, unsigned depth) {
        auto [parent, at] = path.steps[depth - 1];
        const unsigned separator = at < parent->count ? at : at - 1;
        Inner* left = static_cast<Inner*>(parent->children[separator]);
        Inner* right = static_cast<Inner*>(parent->children[separator + 1]);
        Key keys[2 * kInnerKeys + 1];
        void* children[2 * kInnerKeys + 2];
        const unsigned total = left->count + right->count + 1;
        std::memcpy(keys, left->keys, left->count * sizeof(Key));
        keys[left->count] = parent->keys[separator];
        std::memcpy(keys + left->count + 1, right->keys, right->count * sizeof(Key));
        std::memcpy(children, left->children, (left->count + 1) * sizeof(void*));
        std::memcpy(children + left->count + 1, right->children, (right->count + 1) * sizeof(void*));
        if (total <= kInnerKeys * 3 / 4) {
            left->fill(keys, children, total);
            nodes_->inners.give_back(right);
            remove_child(path, depth, separator);
            return;
        }
        const unsigned half = total / 2;
        left->fill(keys, children, half);
        parent->keys[separator] = keys[half];
        right->fill(keys + half + 1, children + half + 1, total - half - 1);
    }

    struct Walk {
        std::size_t entries = 0;
        const Leaf* first = nullptr;
        const Leaf* last = nullptr;
        std::uint32_t last_position = 0;
        bool ordered = true;
    };

    void check_node(const void* node, unsigned level, const Key* from, const Key* to, Walk& walk) const {
        const auto check_keys = [&](const Key* keys, unsigned count) {
            for (unsigned i = 0; i < count; ++i) {
                require(i == 0 || keys[i - 1] <= keys[i], "tree: keys of a node are sorted");
                require(!from || *from <= keys[i], "tree: keys are not below the left separator");
                require(!to || keys[i] <= *to, "tree: keys are not above the right separator");
            }
            for (unsigned i = count; i < kSlots; ++i)
                require(keys[i] == kGreatest, "tree: unused slots hold the greatest key");
        };
        if (level > 0) {
            const Inner* inner = static_cast<const Inner*>(node);
            require(inner->count >= (level == height_ ? 1 : kInnerLow) && inner->count <= kInnerKeys,
                    "tree: an inner node is filled well");
            check_keys(inner->keys, inner->count);
            for (unsigned i = 0; i <= inner->count; ++i)
                check_node(inner->children[i], level - 1, i ? &inner->keys[i - 1] : from,
                           i < inner->count ? &inner->keys[i] : to, walk);
            return;
        }
        const Leaf* leaf = static_cast<const Leaf*>(node);
        require(leaf->count <= kLeafEntries, "tree: a leaf is not overfull");
        check_keys(leaf->keys, leaf->count);
        require(!walk.last || walk.last->next == leaf, "tree: leaves are chained in order");
        for (unsigned i = 0; i < leaf->count; ++i) {
            const Leaf* last = i ? leaf : walk.last;
            const bool equal =
                last && last->count && (i ? leaf->keys[i - 1] : last->keys[last->count - 1]) == leaf->keys[i];
            require(!walk.ordered || !equal || before(walk.last_position, leaf->positions[i]),
                    "tree: equal keys stand in the order of their positions");
            walk.last_position = leaf->positions[i];
        }
        walk.entries += leaf->count;
        if (!walk.first) walk.first = leaf;
        walk.last = leaf;
    }

    Nodes* nodes_ = nullptr;
    void* root_ = nullptr;
    Leaf* first_ = nullptr;
    unsigned height_ = 0;
    std::size_t size_ = 0;
    std::uint64_t version_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
