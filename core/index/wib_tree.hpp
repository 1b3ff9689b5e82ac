// WiB+-Tree: subwindows that are B+-trees with wide leaves of unsorted tuples. From "PanJoin: A
// Partition-based Adaptive Stream Join" (Pan, Jacobsen).
//
// An insert descends small sorted nodes and appends to a leaf, so filling a leaf of W tuples costs O(W)
// instead of O(W^2). Only a leaf that is full is put in order, and only as far as needed: its tuples are
// parted around a key near their median, O(W). Leaves are chains of an LLAT. Equal keys share a leaf, however
// many they are: a leaf that cannot be parted evenly enough goes on in another block. Rising keys leave full
// leaves behind. Every subwindow begins empty and learns nothing from the one before, so it takes keys of any
// kind.
#pragma once

#include "llat.hpp"
#include "subwindows.hpp"
#include "tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class WibSubwindow {
    using Node = typename Tree<Key>::Leaf;  // the lowest separators, with the leaves' chains

  public:
    // A leaf, by the node and the slot that name it and its greatest possible key.
    struct Place {
        Node* node = nullptr;
        unsigned slot = 0;

        std::uint32_t leaf() const { return node->positions[slot]; }
    };
    using Stretch = Place;  // where a probe begins
    using Cursor = Place;

    WibSubwindow(std::size_t capacity, const IndexOptions& options, const WibSubwindow*)
        : WibSubwindow(capacity, Table::partitions_for(capacity, options.partitions, kShare), options.slack) {
    }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return nodes_.bytes() + table_.bytes() + keys_.bytes(); }
    std::size_t leaves() const { return tree_.size(); }
    const Llat<Key>& table() const { return table_; }

    void insert(Key key, std::uint32_t position) {
        add(locate(tree_.prefetch_probe({key, key}), key), key, position);
        ++size_;
    }

    // Each search goes on from the leaf before; what a few tuples need is fetched together.
    void insert_sorted(const Entry<Key>* entries, std::size_t count) {
        Place places[kGroup];
        Node* node = nullptr;
        for (std::size_t done = 0; done < count; done += kGroup) {
            const std::size_t some = std::min(kGroup, count - done);
            for (std::size_t i = 0; i < some; ++i) {
                places[i] = locate_after(node, entries[done + i].key);
                node = places[i].node;
                table_.prefetch_chain(places[i].leaf());
            }
            for (std::size_t i = 0; i < some; ++i) table_.prefetch_slot(places[i].leaf());
            const std::size_t leaves = tree_.size();
            for (std::size_t i = 0; i < some; ++i) {
                const auto [key, position] = entries[done + i];
                if (leaves != tree_.size()) places[i] = locate(tree_.prefetch_probe({key, key}), key);
                add(places[i], key, position);
            }
            if (leaves != tree_.size()) node = nullptr;
        }
        size_ += count;
    }

    void seal() {}

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool, Matches& matches) const {
        scan(locate(tree_.prefetch_probe(interval), interval.low), interval, visible, matches);
    }

    // Many probes whose lower ends ascend, in two steps: all leaves are found, each from the node before, and
    // fetched; then they are scanned.
    void locate(const Interval<Key>* intervals, std::size_t count, Cursor& cursor, Stretch* found) const {
        for (std::size_t i = 0; i < count; ++i) {
            found[i] = cursor = locate_after(cursor.node, intervals[i].low);
            table_.prefetch_chain(cursor.leaf());
        }
        for (std::size_t i = 0; i < count; ++i) table_.prefetch_tuples(found[i].leaf());
    }

    template <class Matches>
    void report(Stretch found, Interval<Key> interval, Visible visible, bool, Matches& matches) const {
        scan(found, interval, visible, matches);
    }

    template <class Visit>
    void each(Visit visit) const {
        tree_.each([&](Key, std::uint32_t leaf) { table_.each(leaf, visit); });
    }

    void check() const {
        tree_.check();
        std::size_t tuples = 0, blocks = 0;
        Key from = 0;
        std::size_t leaves = 0;
        tree_.visit([&](const Key* separators, const std::uint32_t* blocks_of, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
                const Key last = separators[i];
                const bool is_last = ++leaves == tree_.size();
                require(from <= last && (last == kGreatest) == is_last,
                        "wib-tree: separators rise to the last key");
                blocks += table_.check(blocks_of[i], {from, last});
                tuples += table_.size(blocks_of[i]);
                require(is_last || table_.size(blocks_of[i]) >= least_part(),
                        "wib-tree: every leaf but the last has its part of tuples");
                from = static_cast<Key>(last + 1);
            }
        });
        require(tuples == size_, "wib-tree: as many tuples as it counts");
        require(blocks == table_.used_blocks(), "wib-tree: every block belongs to a leaf");
    }

  private:
    using Table = Llat<Key>;
    static constexpr unsigned kSlots = TreeNodes<Key>::kSlots;
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();
    static constexpr std::size_t kShare = 32;      // tuples of a leaf at half its width, about, unless told
    static constexpr std::size_t kCompared = 256;  // keys whose ranks are found by comparing

    // A leaf has twice the room of a partition, since being parted leaves it half full.
    WibSubwindow(std::size_t capacity, std::uint32_t partitions, double slack)
        : table_(partitions, Table::room_for(capacity, partitions, 2 * slack)) {
        tree_.insert(kGreatest, table_.begin());
    }

    std::size_t least_part() const { return table_.room() / 4; }

    static Place locate(Node* node, Key key) {
        unsigned slot = count_below<kSlots>(node->keys, key);
        if (slot == node->count) {
            node = node->next;
            slot = 0;
        }
        return {node, slot};
    }

    // The same for a key that is not before the node, or with none from the root.
    Place locate_after(Node* node, Key key) const {
        if (!node) return locate(tree_.prefetch_probe({key, key}), key);
        if (node->keys[node->count - 1] < key) {
            node = node->next;
            if (node->keys[node->count - 1] < key) node = tree_.prefetch_probe({key, key});
        }
        return locate(node, key);
    }

    void add(Place place, Key key, std::uint32_t position) {
        std::uint32_t leaf = place.leaf();
        if (table_.free(leaf) == 0) leaf = make_room(place, key);
        table_.insert(leaf, key, position);
    }

    // The leaf that takes `key`, after the full one at `place` has been parted, unless it must grow longer.
    std::uint32_t make_room(Place place, Key key) {
        const std::uint32_t leaf = place.leaf();
        const Key greatest = table_.block(leaf).greatest;
        if (place.node->keys[place.slot] == kGreatest &&
            key >= greatest) {  // rising: leave it full, or nearly
            if (key > greatest) return part(place, greatest, table_.begin());
            const Key cut = static_cast<Key>(greatest - 1);
            if (table_.count_below(leaf, greatest) >= least_part())
                return part(place, cut, table_.cut(leaf, cut));
        }
        // A leaf that could not be parted is looked at again when it is twice as long: O(1) a tuple.
        if (table_.block(leaf).least == greatest || !std::has_single_bit(table_.length(leaf))) return leaf;
        Key cut;
        if (!find_cut(leaf, cut)) return leaf;
        const std::uint32_t right = part(place, cut, table_.cut(leaf, cut));
        return key <= cut ? leaf : right;
    }

    // The leaf at `place` keeps the keys up to `cut`, `right` has those above. Returns `right`.
    std::uint32_t part(Place place, Key cut, std::uint32_t right) {
        const std::uint32_t left = std::exchange(place.node->positions[place.slot], right);
        tree_.insert(cut, left);
        return right;
    }

    // A key that parts the leaf's tuples, up to it and above, into two parts that are both large enough: as
    // near to the middle as equal keys allow, or near enough.
    bool find_cut(std::uint32_t leaf, Key& cut) {
        const std::size_t count = table_.size(leaf);
        keys_.reserve(count);
        table_.copy_keys(leaf, keys_.data());
        const Key middle = middle_key(count);
        std::size_t below = 0, up_to = 0;
        for (std::size_t i = 0; i < count; i += kKeyLanes<Key>) {
            below += lane_count(lanes_below(keys_.data() + i, middle));
            up_to += lane_count(lanes_up_to(keys_.data() + i, middle));
        }
        const auto smaller = [&](std::size_t part) { return std::min(part, count - part); };
        cut = smaller(below) > smaller(up_to) ? static_cast<Key>(middle - 1) : middle;
        return std::max(smaller(below), smaller(up_to)) >= least_part();
    }

    // A key of rank near the middle. Of a few keys the first that will do is taken: blocks hold whole
    // vectors.
    Key middle_key(std::size_t count) {
        Key* const keys = keys_.data();
        if (kBlock > 1 && count <= kCompared) {
            for (std::size_t i = 0; i < count; ++i) {
                std::size_t rank = 0;
                for (std::size_t at = 0; at < count; at += kKeyLanes<Key>)
                    rank += lane_count(lanes_below(keys + at, keys[i]));
                if (rank >= count * 15 / 32 && rank <= count * 17 / 32) return keys[i];
            }
        }
        std::nth_element(keys, keys + count / 2, keys + count);
        return keys[count / 2];
    }

    template <class Matches>
    void scan(Place place, Interval<Key> interval, Visible visible, Matches& matches) const {
        auto [node, slot] = place;
        while (true) {
            table_.probe(node->positions[slot], interval, visible, matches);
            if (node->keys[slot] >= interval.high) return;
            if (++slot == node->count) {
                node = node->next;
                slot = 0;
            }
        }
    }

    Table table_;
    TreeNodes<Key> nodes_;
    Tree<Key> tree_{nodes_};
    Buffer<Key> keys_;  // of a leaf to be parted
    std::size_t size_ = 0;
};

template <class Key>
class WibTree : public SubwindowIndex<Key, WibSubwindow<Key>> {
  public:
    explicit WibTree(const IndexOptions& options = {})
        : SubwindowIndex<Key, WibSubwindow<Key>>(options, options.subwindows) {}
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
