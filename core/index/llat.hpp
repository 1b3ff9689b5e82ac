// The linked-list adaptive table (LLAT): the tuples of one subwindow in chains of blocks, one chain for each
// partition, however long it becomes. From "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen).
//
// The table consists of 2P blocks of equal room. A chain begins with one block and is extended by others when
// it is full. Blocks are taken in the order of their numbers, so memory behind the last one is never touched.
// Insert O(1). A block keeps its keys and its positions in two arrays of whole cache lines, so that vectors
// of both can be read up to the last slot.
//
// 2P blocks are enough for the N tuples of a subwindow, whatever their keys, if a block has room R >= N / P:
// - P chains that are never split (the partitions of a RaP-Table): a chain is extended only when its last
//   block is full and one more tuple arrives. When the r-th block beyond the first P is taken, r blocks are
//   full and one tuple more is inserted, so r R < N <= P R: fewer than P are ever taken.
// - Chains that are split in two (the leaves of a WiB+-Tree): their room is R >= 2N / P, and all but one have
//   at least R / 4 tuples. A chain of n >= R / 4 tuples takes ceil(n / R) <= 4n / R blocks; with the one that
//   may have fewer, and before the N-th tuple is stored, these are at most 4 (N - 1) / R + 1 < 2P + 1.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Llat {
  public:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    static constexpr std::uint32_t kMostPartitions = std::uint32_t{1} << 20;

    // A chain is named by its first block, which has the least and greatest key of the chain. The block that
    // is not full yet is the second, or the first and only one.
    struct Block {
        Key least;
        Key greatest;
        std::uint32_t count;
        std::uint32_t next;
    };

    // The number of partitions of a subwindow: as many as wanted, or so many that each has about `share`
    // tuples.
    static std::uint32_t partitions_for(std::size_t capacity, std::uint32_t wanted, std::size_t share) {
        const std::size_t partitions = wanted ? wanted : capacity / share;
        const std::size_t most = std::min<std::size_t>(capacity, kMostPartitions);
        return static_cast<std::uint32_t>(
            std::clamp<std::size_t>(partitions, 1, std::max<std::size_t>(most, 1)));
    }

    // The room of a block: `slack` times the even share of a partition, in whole vectors.
    static std::size_t room_for(std::size_t capacity, std::uint32_t partitions, double slack) {
        const std::size_t share = (capacity + partitions - 1) / partitions;
        const double wide = std::ceil(static_cast<double>(capacity) / partitions * slack);
        const std::size_t room = std::max({share, static_cast<std::size_t>(wide), std::size_t{1}});
        return (room + kVector - 1) / kVector * kVector;
    }

    Llat(std::uint32_t partitions, std::size_t room)
        : room_(static_cast<std::uint32_t>(room)),
          most_(2 * partitions),
          stride_(room * (sizeof(Key) + sizeof(std::uint32_t))),
          blocks_(most_),
          memory_(std::size_t{most_} * stride_) {}

    std::uint32_t room() const { return room_; }
    std::uint32_t used_blocks() const { return taken_ - free_count_; }
    const Block& block(std::uint32_t at) const { return blocks_[at]; }
    const Key* keys(std::uint32_t at) const { return reinterpret_cast<const Key*>(at_block(at)); }
    const std::uint32_t* positions(std::uint32_t at) const {
        return reinterpret_cast<const std::uint32_t*>(at_block(at) + room_ * sizeof(Key));
    }

    // Blocks in use; the others have not been touched and take no memory yet.
    std::size_t bytes() const { return taken_ * (stride_ + sizeof(Block)) + scratch_.bytes(); }

    // Begins a chain.
    std::uint32_t begin() {
        const std::uint32_t at = take();
        blocks_[at] = kEmpty;
        return at;
    }

    // How many tuples the chain can take before it needs another block.
    std::uint32_t free(std::uint32_t chain) const { return room_ - blocks_[open(chain)].count; }

    void insert(std::uint32_t chain, Key key, std::uint32_t position) {
        Block& first = blocks_[chain];
        first.least = std::min(first.least, key);
        first.greatest = std::max(first.greatest, key);
        std::uint32_t at = open(chain);
        if (blocks_[at].count == room_) at = extend(chain);
        put(at, key, position);
    }

    // Appends one or more tuples, given in key order.
    void append(std::uint32_t chain, const Entry<Key>* sorted, std::size_t count) {
        Block& first = blocks_[chain];
        first.least = std::min(first.least, sorted[0].key);
        first.greatest = std::max(first.greatest, sorted[count - 1].key);
        while (count > 0) {
            std::uint32_t at = open(chain);
            if (blocks_[at].count == room_) at = extend(chain);
            const std::size_t fitting = std::min<std::size_t>(count, room_ - blocks_[at].count);
            for (std::size_t i = 0; i < fitting; ++i) put(at, sorted[i].key, sorted[i].value);
            sorted += fitting;
            count -= fitting;
        }
    }

    // Keys are not compared if all of the chain's lie inside the interval.
    template <class Matches>
    void probe(std::uint32_t chain, Interval<Key> interval, Visible visible, Matches& matches) const {
        const Block& first = blocks_[chain];
        if (first.least > interval.high || first.greatest < interval.low) return;
        const bool inside = interval.low <= first.least && first.greatest <= interval.high;
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next) {
            if (inside) matches.positions(positions(at), blocks_[at].count, visible);
            else matches.entries(keys(at), positions(at), blocks_[at].count, interval, visible);
        }
    }

    // Calls visit(key, position) for each tuple of a chain.
    template <class Visit>
    void each(std::uint32_t chain, Visit visit) const {
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next)
            for (std::uint32_t i = 0; i < blocks_[at].count; ++i) visit(keys(at)[i], positions(at)[i]);
    }

    std::size_t size(std::uint32_t chain) const {
        std::size_t total = 0;
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next) total += blocks_[at].count;
        return total;
    }

    std::size_t length(std::uint32_t chain) const {
        std::size_t blocks = 0;
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next) ++blocks;
        return blocks;
    }

    std::size_t count_below(std::uint32_t chain, Key key) const {
        std::size_t total = 0;
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next)
            for (std::uint32_t i = 0; i < blocks_[at].count; ++i) total += keys(at)[i] < key;
        return total;
    }

    void copy_keys(std::uint32_t chain, Key* out) const {
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next)
            out = std::copy_n(keys(at), blocks_[at].count, out);
    }

    // Moves the tuples above `cut` to a new chain; there are some on both sides.
    std::uint32_t cut(std::uint32_t chain, Key cut) {
        if (blocks_[chain].next != kNone) return cut_long(chain, cut);
        const std::uint32_t right = begin();
        Block& left = blocks_[chain];
        Key* const stay_keys = keys(chain);
        Key* const move_keys = keys(right);
        std::uint32_t* const stay_positions = positions(chain);
        std::uint32_t* const move_positions = positions(right);
        Key below = 0, above = std::numeric_limits<Key>::max();
        std::uint32_t stayed = 0, moved = 0;
        for (std::uint32_t i = 0; i < left.count; ++i) {  // without a branch, which would be unpredictable
            const Key key = stay_keys[i];
            const std::uint32_t position = stay_positions[i];
            const bool stays = key <= cut;
            move_keys[moved] = stay_keys[stayed] = key;
            move_positions[moved] = stay_positions[stayed] = position;
            below = std::max(below, stays ? key : Key{0});
            above = std::min(above, stays ? std::numeric_limits<Key>::max() : key);
            stayed += stays;
            moved += !stays;
        }
        blocks_[right] = {above, left.greatest, moved, kNone};
        left.greatest = below;
        left.count = stayed;
        return right;
    }

    // Prefetches the memory of an insert: first the chain's header, then its next slot.
    void prefetch_chain(std::uint32_t chain) const { prefetch(&blocks_[chain]); }
    void prefetch_slot(std::uint32_t chain) const {
        const std::uint32_t at = open(chain);
        const std::uint32_t slot = std::min(blocks_[at].count, room_ - 1);
        prefetch(keys(at) + slot);
        prefetch(positions(at) + slot);
    }

    // Prefetches what a probe of the chain's first block reads.
    void prefetch_tuples(std::uint32_t chain) const {
        constexpr std::size_t kKeys = kCacheLine / sizeof(Key);
        const std::size_t count = blocks_[chain].count;
        for (std::size_t i = 0; i < count; i += kKeys) prefetch(keys(chain) + i);
        for (std::size_t i = 0; i < count; i += kVector) prefetch(positions(chain) + i);
    }

    // Verifies a chain whose keys lie in `range`. Returns how many blocks it takes.
    std::size_t check(std::uint32_t chain, Interval<Key> range) const {
        require(used_blocks() <= most_, "llat: no more than 2P blocks");
        std::size_t blocks = 0;
        Key least = kEmpty.least, greatest = kEmpty.greatest;
        for (std::uint32_t at = chain; at != kNone; at = blocks_[at].next) {
            require(at < taken_ && ++blocks <= used_blocks(), "llat: a chain of blocks in use that ends");
            const bool full = blocks_[at].count == room_;
            require(full || (blocks_[at].count < room_ && at == open(chain)),
                    "llat: only one block has room");
            require(blocks_[at].count > 0 || at == chain, "llat: no empty block in a chain");
            for (std::uint32_t i = 0; i < blocks_[at].count; ++i) {
                least = std::min(least, keys(at)[i]);
                greatest = std::max(greatest, keys(at)[i]);
            }
        }
        require(least == blocks_[chain].least && greatest == blocks_[chain].greatest,
                "llat: the least and the greatest key of a chain");
        require(least > greatest || (range.contains(least) && range.contains(greatest)),
                "llat: keys in the chain that they belong to");
        return blocks;
    }

  private:
    static constexpr std::size_t kVector = kCacheLine / sizeof(std::uint32_t);
    static constexpr Block kEmpty{std::numeric_limits<Key>::max(), 0, 0, kNone};

    const std::byte* at_block(std::uint32_t at) const { return memory_.data() + at * stride_; }
    Key* keys(std::uint32_t at) { return const_cast<Key*>(std::as_const(*this).keys(at)); }
    std::uint32_t* positions(std::uint32_t at) {
        return const_cast<std::uint32_t*>(std::as_const(*this).positions(at));
    }

    std::uint32_t open(std::uint32_t chain) const {
        return blocks_[chain].next == kNone ? chain : blocks_[chain].next;
    }

    void put(std::uint32_t at, Key key, std::uint32_t position) {
        const std::uint32_t slot = blocks_[at].count++;
        keys(at)[slot] = key;
        positions(at)[slot] = position;
    }

    std::uint32_t take() {
        if (free_ != kNone) {
            --free_count_;
            return std::exchange(free_, blocks_[free_].next);
        }
        require(taken_ < most_, "llat: no more than 2P blocks");
        return taken_++;
    }

    std::uint32_t extend(std::uint32_t chain) {
        const std::uint32_t at = take();
        blocks_[at] = {0, 0, 0, blocks_[chain].next};
        blocks_[chain].next = at;
        return at;
    }

    // Copies the tuples and gives the chain's blocks back first: both parts need at most one block more.
    std::uint32_t cut_long(std::uint32_t chain, Key cut) {
        const std::size_t count = size(chain);
        scratch_.reserve(count);
        std::size_t copied = 0;
        each(chain, [&](Key key, std::uint32_t position) { scratch_[copied++] = {key, position}; });
        for (std::uint32_t at = blocks_[chain].next; at != kNone;) {
            const std::uint32_t next = std::exchange(blocks_[at].next, free_);
            free_ = std::exchange(at, next);
            ++free_count_;
        }
        blocks_[chain] = kEmpty;
        const std::uint32_t right = begin();
        for (std::size_t i = 0; i < count; ++i)
            insert(scratch_[i].key <= cut ? chain : right, scratch_[i].key, scratch_[i].value);
        return right;
    }

    std::uint32_t room_;
    std::uint32_t most_;
    std::size_t stride_;  // bytes of a block
    std::uint32_t taken_ = 0;
    std::uint32_t free_ = kNone;  // list of blocks that were given back
    std::uint32_t free_count_ = 0;
    Buffer<Block> blocks_;
    Buffer<std::byte> memory_;
    Buffer<Entry<Key>> scratch_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
