// The splitters of range partitions: P - 1 keys in ascending order; partition i holds the keys above splitter
// i - 1 up to splitter i. For the partitions of "PanJoin: A Partition-based Adaptive Stream Join" (Pan,
// Jacobsen).
//
// They are searched as a tree without pointers: nodes of a few cache lines, compared a vector at a time,
// above them a level with the last splitter of each node, and so on. O(log P); a search that starts from the
// partition of a smaller key climbs only as far as needed (the rebounding search of PanJoin, level by level).
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// What the next subwindow learns of a partition.
template <class Key>
struct Histogram {
    std::size_t count;
    Key least;  // if the partition is not empty
    Key greatest;
};

template <class Key>
class Splitters {
  public:
    // Equal ranges over all possible keys.
    explicit Splitters(std::uint32_t partitions) : Splitters(partitions, Empty{}) {
        const unsigned __int128 keys = static_cast<unsigned __int128>(kGreatest) + 1;
        for (std::uint32_t j = 1; j < partitions; ++j)
            splitters_[j - 1] = static_cast<Key>(keys * j / partitions - 1);
        finish();
    }

    // Ranges that would have held equal numbers of the `total` tuples that histogram(0), histogram(1), ...
    // describe, if the keys of each partition were uniform between its least and its greatest one. One pass
    // over both: O(P), and exact, since the products stay below 2^128.
    template <class HistogramOf>
    Splitters(std::uint32_t partitions, std::size_t total, HistogramOf histogram)
        : Splitters(partitions, Empty{}) {
        using Wide = unsigned __int128;
        std::size_t before = 0;  // tuples in the partitions before `at`
        std::uint32_t at = 0;
        Histogram<Key> here = histogram(0);
        for (std::uint32_t j = 1; j < partitions; ++j) {
            const Wide balanced = Wide{total} * j;  // tuples up to splitter j, times P
            while (balanced > Wide{before + here.count} * partitions) {
                before += here.count;
                here = histogram(++at);
            }
            const Wide inside = balanced - Wide{before} * partitions;
            const Wide step = inside * (here.greatest - here.least) / (Wide{here.count} * partitions);
            splitters_[j - 1] = here.least + static_cast<Key>(step);
        }
        finish();
    }

    std::uint32_t partitions() const { return partitions_; }
    std::size_t bytes() const { return splitters_.bytes(); }

    std::uint32_t find(Key key) const { return descend(levels_, 0, key); }

    // The partition of `key`, which is not before partition `from`.
    std::uint32_t find(Key key, std::uint32_t from) const {
        std::size_t node = from / kFan;
        unsigned level = 0;
        while (level + 1 < levels_ && node_at(level, node)[kFan - 1] < key) {
            node /= kFan;
            ++level;
        }
        return descend(level + 1, node, key);
    }

    // The greatest key that a partition can hold: its splitter, or the greatest possible key.
    Key last(std::uint32_t partition) const { return splitters_[partition]; }

    // The keys of a partition; empty if two splitters are equal.
    Interval<Key> range(std::uint32_t partition) const {
        if (partition > 0 && splitters_[partition - 1] == kGreatest) return {kGreatest, 0};
        return {partition == 0 ? Key{0} : static_cast<Key>(splitters_[partition - 1] + 1), last(partition)};
    }

    void check() const {
        for (std::uint32_t i = 1; i + 1 < partitions_; ++i)
            require(splitters_[i - 1] <= splitters_[i], "splitters: never falling");
        for (unsigned level = 1; level < levels_; ++level)
            for (std::size_t i = 0; i < nodes_[level - 1]; ++i)
                require(node_at(level, 0)[i] == node_at(level - 1, i)[kFan - 1],
                        "splitters: the last one of each node stands above it");
    }

  private:
    static constexpr unsigned kFan = 4 * kCacheLine / sizeof(Key);
    static constexpr unsigned kMostLevels = 4;  // 2^20 partitions, 32 a node
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    struct Empty {};

    Splitters(std::uint32_t partitions, Empty) : partitions_(partitions) {
        std::size_t nodes = (partitions + kFan - 1) / kFan, total = 0;
        while (true) {
            offsets_[levels_] = total * kFan;
            nodes_[levels_++] = nodes;
            total += nodes;
            if (nodes == 1) break;
            nodes = (nodes + kFan - 1) / kFan;
        }
        splitters_.reserve(total * kFan);
    }

    // Pads the first level and fills the levels above it.
    void finish() {
        std::fill(&splitters_[partitions_ - 1], splitters_.data() + nodes_[0] * kFan, kGreatest);
        for (unsigned level = 1; level < levels_; ++level) {
            Key* const keys = splitters_.data() + offsets_[level];
            for (std::size_t i = 0; i < nodes_[level - 1]; ++i) keys[i] = node_at(level - 1, i)[kFan - 1];
            std::fill(keys + nodes_[level - 1], keys + nodes_[level] * kFan, kGreatest);
        }
    }

    const Key* node_at(unsigned level, std::size_t node) const {
        return splitters_.data() + offsets_[level] + node * kFan;
    }

    // Searches from a node of the highest of so many levels down.
    std::uint32_t descend(unsigned levels, std::size_t node, Key key) const {
        for (unsigned level = levels; level-- > 0;)
            node = node * kFan + count_below<kFan>(node_at(level, node), key);
        return static_cast<std::uint32_t>(node);
    }

    std::uint32_t partitions_;
    unsigned levels_ = 0;  // splitters first
    std::size_t offsets_[kMostLevels];
    std::size_t nodes_[kMostLevels];
    Buffer<Key> splitters_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
