// An immutable search tree over sorted entries, which hold most of a merging tree, and full subwindows. The
// CSS-tree of "Cache Conscious Indexing for Decision-Support in Main Memory" (Rao, Ross), as "Parallel
// Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen) uses it.
//
// Blocks of kFanOut entries are the leaves. Each inner level lists the greatest key under every node of the
// level below. Levels are stored one behind the other, root first, and a node's children follow from its
// number, so no pointer is stored. A node is two cache lines and is searched by comparing all its keys at
// once. Built from the bottom up in O(n); search O(log n); beside the entries one key for every kFanOut - 1
// of them.
#pragma once

#include "sorted_entries.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class ImmutableTree {
  public:
    static constexpr unsigned kFanOut = 128 / sizeof(Key);

    ImmutableTree() {
        SortedEntries<Key> empty;
        empty.start(0);
        empty.finish();
        take(empty);
    }

    // Takes finished entries, and leaves those that it had.
    void take(SortedEntries<Key>& run) {
        shape(run.size);
        note_leaves(run, 0, run.size);
        take_noted(run);
    }

    // The same in steps, so that several workers write the entries: first the number of entries is told; then
    // leaves that end among entries [from, to) are noted as soon as these are written; then all are taken.
    void shape(std::size_t size) {
        std::size_t sizes[kMaxHeight + 1];  // nodes of each level, leaves first
        unsigned levels = 0;
        std::size_t keys = 0;
        sizes[0] = nodes_for(size);
        while (sizes[levels] > 1) {
            sizes[levels + 1] = nodes_for(sizes[levels]);
            keys += sizes[++levels] * kFanOut;
        }
        inner_.reserve(keys);
        height_ = levels;
        for (unsigned depth = 0; depth <= levels; ++depth) {
            nodes_[depth] = sizes[levels - depth];
            start_[depth] = depth ? start_[depth - 1] + nodes_[depth - 1] * kFanOut : 0;
        }
    }

    void note_leaves(const SortedEntries<Key>& run, std::size_t from, std::size_t to) {
        if (height_ == 0) return;
        Key* const keys = inner_.data() + start_[height_ - 1];
        const std::size_t end = std::min(to / kFanOut, nodes_[height_] - 1);
        for (std::size_t i = from / kFanOut; i < end; ++i) keys[i] = run.keys[last_of(i)];
    }

    void take_noted(SortedEntries<Key>& run) {
        std::swap(run_, run);
        for (unsigned depth = height_; depth-- > 0;) fill_level(depth);
    }

    const SortedEntries<Key>& run() const { return run_; }
    std::size_t size() const { return run_.size; }
    std::size_t bytes() const { return run_.bytes() + inner_.bytes(); }

    // The root is at depth 0, the leaves are at depth height().
    unsigned height() const { return height_; }
    std::size_t nodes(unsigned depth) const { return nodes_[depth]; }

    // The node at depth `to`, below `node` at depth `from`, that `key` belongs to: the first one whose bound
    // is not below the key. Every key belongs to exactly one node of a level.
    std::size_t descend(std::size_t node, unsigned from, unsigned to, Key key) const {
        for (unsigned depth = from; depth < to; ++depth) node = child(node, depth, key);
        return node;
    }

    // The greatest key that belongs to a node; the last node of a level takes all greater keys.
    Key bound(unsigned depth, std::size_t node) const {
        return depth == 0 ? kGreatest : inner_[start_[depth - 1] + node];
    }

    // How many entries stand before a node; behind the last one, all do.
    std::size_t entries_before(unsigned depth, std::size_t node) const {
        for (; depth <= height_; ++depth) node *= kFanOut;
        return std::min(node, run_.size);
    }

    // descend() for several keys, level by level; nodes are prefetched while others are searched.
    void locate(const Key* keys, std::size_t count, unsigned from, unsigned to, std::size_t* nodes) const {
        for (unsigned depth = from; depth < to; ++depth)
            for (std::size_t i = 0; i < count; ++i) {
                nodes[i] = child(nodes[i], depth, keys[i]);
                if (depth + 1 < height_) prefetch_span<kNodeBytes>(node_at(nodes[i], depth + 1));
                else fetch(nodes[i]);
            }
    }

    // Finds and prefetches the leaf where a probe begins.
    std::size_t prefetch_leaf(Key low) const { return prefetch_leaf(low, 0, 0); }
    std::size_t prefetch_leaf(Key low, std::size_t node, unsigned depth) const {
        const std::size_t leaf = descend(node, depth, height_, low);
        fetch(leaf);
        return leaf;
    }

    // `leaf` is prefetch_leaf(interval.low).
    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, std::size_t leaf) const {
        const std::size_t from = place_in(leaf, interval.low);
        const std::size_t to = end_from(leaf, interval.high);
        if (from < to) matches.positions(run_.positions.data() + from, to - from, visible);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        probe(interval, visible, matches, descend(0, 0, height_, interval.low));
    }

    // How many entries have a key below `key`.
    std::size_t lower_bound(Key key) const { return place_in(descend(0, 0, height_, key), key); }

    void check(bool ordered = true) const {  // as SortedEntries::check
        run_.check(ordered);
        require(nodes_[0] == 1, "immutable tree: one root");
        require(nodes_[height_] == nodes_for(run_.size), "immutable tree: as many leaves as the run fills");
        for (std::size_t i = run_.size; i < nodes_[height_] * kFanOut; ++i)
            require(run_.keys[i] == kGreatest, "immutable tree: the last leaf is padded");
        for (unsigned depth = 0; depth < height_; ++depth) {
            require(nodes_[depth] == nodes_for(nodes_[depth + 1]),
                    "immutable tree: a level fits the one below");
            const Key* keys = inner_.data() + start_[depth];
            for (std::size_t i = 0; i < nodes_[depth] * kFanOut; ++i)
                require(keys[i] == (i + 1 < nodes_[depth + 1] ? greatest_under(depth + 1, i) : kGreatest),
                        "immutable tree: a separator is the greatest key below it");
        }
    }

  private:
    static constexpr unsigned kMaxHeight = 8;  // 16^8 entries and more
    static constexpr std::size_t kNodeBytes = kFanOut * sizeof(Key);
    static constexpr std::size_t kNear = 4;  // leaves; the end of a longer range is found from the root
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();
    static_assert(SortedEntries<Key>::kPadding >= kFanOut);

    static std::size_t nodes_for(std::size_t keys) {
        return std::max<std::size_t>(1, (keys + kFanOut - 1) / kFanOut);
    }

    const Key* node_at(std::size_t node, unsigned depth) const {
        return inner_.data() + start_[depth] + node * kFanOut;
    }

    std::size_t child(std::size_t node, unsigned depth, Key key) const {
        return node * kFanOut + count_below<kFanOut>(node_at(node, depth), key);
    }

    std::size_t place_in(std::size_t leaf, Key key) const {
        return leaf * kFanOut + count_below<kFanOut>(run_.keys.data() + leaf * kFanOut, key);
    }

    void fetch(std::size_t leaf) const {
        prefetch_span<kNodeBytes>(run_.keys.data() + leaf * kFanOut);
        prefetch_span<kFanOut * sizeof(std::uint32_t)>(run_.positions.data() + leaf * kFanOut);
    }

    // The end of the entries up to `high`, which is not before this leaf. Most ranges end in the leaf where
    // they begin, so that only its lines are read.
    std::size_t end_from(std::size_t leaf, Key high) const {
        for (const std::size_t far = leaf + kNear; leaf < far; ++leaf) {
            const Key* keys = run_.keys.data() + leaf * kFanOut;
            const unsigned inside = count_up_to<kFanOut>(keys, kFanOut, high);
            const std::size_t end = leaf * kFanOut + inside;
            if (inside < kFanOut || end >= run_.size) return std::min(end, run_.size);
        }
        return high == kGreatest ? run_.size : lower_bound(static_cast<Key>(high + 1));
    }

    // The last node's separator is the greatest possible key, so that no search leaves the level. Those of
    // leaves have been noted.
    void fill_level(unsigned depth) {
        Key* keys = inner_.data() + start_[depth];
        const std::size_t below = nodes_[depth + 1];
        for (std::size_t i = 0; depth + 1 < height_ && i + 1 < below; ++i)
            keys[i] = greatest_under(depth + 1, i);
        std::fill(keys + below - 1, keys + nodes_[depth] * kFanOut, kGreatest);
    }

    // The greatest key under a node that is not the last of its level, and therefore full.
    Key greatest_under(unsigned depth, std::size_t node) const {
        return depth == height_ ? run_.keys[last_of(node)] : inner_[start_[depth] + last_of(node)];
    }

    static std::size_t last_of(std::size_t node) { return node * kFanOut + kFanOut - 1; }

    SortedEntries<Key> run_;
    Buffer<Key> inner_;
    unsigned height_ = 0;  // inner levels
    std::size_t nodes_[kMaxHeight + 1];
    std::size_t start_[kMaxHeight + 1];  // where a level's keys begin in inner_
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
