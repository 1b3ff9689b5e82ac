// The directory of the bucket-tree: finds the leaf of a key.
//
// Leaves are listed in key order, in blocks of up to 32 slots. A slot has the greatest key of the leaf's
// range, the number of the leaf and the number of its entries. A block has unused slots at its end, so that
// splitting a leaf moves only a few numbers; a full block is split in two. Above the blocks stands a sorted
// level of their greatest keys, and above that a level with the last key of each of its cache lines, and so
// on. Finding a leaf compares one vector per level. Splitting a block moves the lowest level behind it, about
// 4 bytes for each 20 leaves.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BucketDirectory {
  public:
    static constexpr unsigned kSlots = 32;
    static constexpr unsigned kCountBits = 7;
    static constexpr std::uint32_t kMaxLeaves = std::uint32_t{1} << (32 - kCountBits);
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    struct alignas(kCacheLine) Block {
        Key bounds[kSlots];  // greatest key of each leaf's range; unused slots hold the greatest key
        std::uint32_t leaves[kSlots];  // number of each leaf, and in the low bits its count of entries
        Block* next;
        Block* previous;
        std::uint32_t size;
    };

    struct Slot {
        Block* block;
        unsigned at;

        Key bound() const { return block->bounds[at]; }
        std::uint32_t leaf() const { return block->leaves[at] >> kCountBits; }
        unsigned count() const { return block->leaves[at] & ((1u << kCountBits) - 1); }
        void set(std::uint32_t leaf, unsigned count) const { block->leaves[at] = leaf << kCountBits | count; }
        void set_count(unsigned count) const { set(leaf(), count); }
        void count_one() const { ++block->leaves[at]; }
        bool operator==(const Slot&) const = default;
    };

    // Starts with one leaf of all keys.
    void start(std::uint32_t leaf) {
        reserve(1);
        Block* block = new_block();
        Slot{block, 0}.set(leaf, 0);
        block->size = 1;
        blocks_.assign(1, block);
        first_ = block;
        leaves_ = 1;
        levels_[0][0] = kGreatest;
        rebuild(0);
    }

    std::size_t leaves() const { return leaves_; }
    Slot first() const { return {first_, 0}; }

    Slot find(Key key) const {
        Block* block = find_block(key);
        return {block, slot_in(block, key)};
    }

    // The two steps of find, for callers that prefetch in between.
    [[gnu::always_inline]] Block* find_block(Key key) const {
        std::size_t at = 0;
        for (std::size_t level = height_; level-- > 0;)
            at = at * kFan + count_below<kFan>(levels_[level].data() + at * kFan, key);
        return blocks_[at];
    }
    // The greatest key of the block of a key.
    Key block_bound(Key key) const {
        const Block* block = find_block(key);
        return block->bounds[block->size - 1];
    }
    [[gnu::always_inline]] static unsigned slot_in(const Block* block, Key key) {
        return count_below<kSlots>(block->bounds, key);
    }

    // Moves to the next or the previous slot; returns false at the end.
    static bool next(Slot& slot) {
        if (slot.at + 1 < slot.block->size) {
            ++slot.at;
            return true;
        }
        if (!slot.block->next) return false;
        slot = {slot.block->next, 0};
        return true;
    }
    static bool previous(Slot& slot) {
        if (slot.at > 0) {
            --slot.at;
            return true;
        }
        if (!slot.block->previous) return false;
        slot = {slot.block->previous, slot.block->previous->size - 1};
        return true;
    }

    // Afterwards `count` splits cannot fail.
    void reserve(std::size_t count) {
        pool_.reserve(count);
        const std::size_t most = blocks_.size() + count;
        if (most <= reserved_) return;
        const std::size_t room = std::max(most, reserved_ + reserved_ / 2);
        blocks_.reserve(room);
        std::size_t used = room;
        const std::size_t had = height_;
        std::size_t level = 0;
        for (; level == 0 || used > kFan; ++level) {
            if (level) used = (used + kFan - 1) / kFan;
            levels_[level].reserve(padded(used), levels_[level].capacity());
        }
        height_ = std::max(had, level);
        reserved_ = room;
        if (height_ > had && !blocks_.empty()) rebuild(0);
    }

    // Splits a leaf's range: it keeps the keys up to `bound`, a new leaf behind it takes the others. Returns
    // the slot of the first; the new one is the next. Other slots are no longer valid.
    Slot split(Slot slot, Key bound, std::uint32_t leaf) {
        slot = make_room(slot);
        count_leaves(1);
        split_within(slot, bound, leaf);
        return slot;
    }

    // Whether a split changes the block of the slot only; and the slot once it is so.
    static bool has_room(Slot slot) { return slot.block->size < kSlots; }
    Slot make_room(Slot slot) { return has_room(slot) ? slot : split_block(slot); }

    // Splits where the block has room; the leaf must be counted.
    static void split_within(Slot slot, Key bound, std::uint32_t leaf) {
        Block* block = slot.block;
        const unsigned at = slot.at, behind = block->size - at;
        std::memmove(block->bounds + at + 1, block->bounds + at, behind * sizeof(Key));
        std::memmove(block->leaves + at + 1, block->leaves + at, behind * sizeof(std::uint32_t));
        block->bounds[at] = bound;
        Slot{block, at + 1}.set(leaf, 0);
        ++block->size;
    }

    void count_leaves(std::ptrdiff_t added) { leaves_ += static_cast<std::size_t>(added); }

    // Gives the range of the slot behind `slot`, in the same block, to `slot`. The leaf must be counted out.
    static void absorb_next(Slot slot) {
        Block* block = slot.block;
        block->bounds[slot.at] = block->bounds[slot.at + 1];
        take_out(block, slot.at + 1);
    }

    // Merges a block with the next one if both have few leaves. Returns whether it did.
    bool merge_blocks(Block* block) {
        Block* next = block->next;
        if (!next || block->size + next->size > kSlots * 3 / 4) return false;
        const std::size_t at = place_of(block);
        std::memcpy(block->bounds + block->size, next->bounds, next->size * sizeof(Key));
        std::memcpy(block->leaves + block->size, next->leaves, next->size * sizeof(std::uint32_t));
        block->size += next->size;
        block->next = next->next;
        if (next->next) next->next->previous = block;
        pool_.give_back(next);
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        // The end of the other block is now the end of both.
        Key* const ends = levels_[0].data() + at;
        std::memmove(ends, ends + 1, (blocks_.size() - at) * sizeof(Key));
        rebuild(at);
        return true;
    }

    void check() const {
        std::size_t leaves = 0, blocks = 0;
        const Block* before = nullptr;
        for (const Block* block = first_; block; before = block, block = block->next, ++blocks) {
            require(blocks < blocks_.size() && blocks_[blocks] == block, "directory: blocks stand in order");
            require(block->previous == before, "directory: blocks know the one before");
            require(block->size >= 1 && block->size <= kSlots, "directory: a block has leaves");
            for (unsigned i = 0; i < block->size; ++i) {
                const Key lower = i ? block->bounds[i - 1] : before ? before->bounds[before->size - 1] : 0;
                require(block->bounds[i] > lower || (i == 0 && !before), "directory: bounds rise");
            }
            for (unsigned i = block->size; i < kSlots; ++i)
                require(block->bounds[i] == kGreatest, "directory: unused slots hold the greatest key");
            require(levels_[0][blocks] == block->bounds[block->size - 1],
                    "directory: the top knows the blocks");
            leaves += block->size;
        }
        require(blocks == blocks_.size() && leaves == leaves_, "directory: as many leaves as it counts");
        require(before->bounds[before->size - 1] == kGreatest,
                "directory: the last leaf takes the greatest key");
        for (std::size_t level = 1; level < height_; ++level)
            for (std::size_t i = 0; i < used_of(level); ++i)
                require(levels_[level][i] == levels_[level - 1][i * kFan + kFan - 1],
                        "directory: a level tells the greatest keys of the one below");
    }

    std::size_t bytes() const {
        std::size_t total = pool_.bytes() + blocks_.capacity() * sizeof(Block*);
        for (const Buffer<Key>& level : levels_) total += level.bytes();
        return total;
    }

  private:
    static constexpr std::size_t kFan = kCacheLine / sizeof(Key);
    static constexpr std::size_t kMostLevels = 9;  // of blocks with one leaf each
    static_assert(kMaxLeaves <= std::uint64_t{1} << 3 * kMostLevels);

    Block* new_block() {
        Block* block = pool_.take();
        std::fill_n(block->bounds, kSlots, kGreatest);
        block->next = block->previous = nullptr;
        block->size = 0;
        return block;
    }

    Slot split_block(Slot slot) {
        Block* left = slot.block;
        const std::size_t at = place_of(left);
        Block* right = new_block();
        constexpr unsigned kKept = kSlots / 2;
        right->size = left->size - kKept;
        std::memcpy(right->bounds, left->bounds + kKept, right->size * sizeof(Key));
        std::memcpy(right->leaves, left->leaves + kKept, right->size * sizeof(std::uint32_t));
        std::fill_n(left->bounds + kKept, right->size, kGreatest);
        left->size = kKept;
        right->next = left->next;
        right->previous = left;
        if (right->next) right->next->previous = right;
        left->next = right;
        Key* const ends = levels_[0].data() + at;
        std::memmove(ends + 1, ends, (blocks_.size() - at) * sizeof(Key));
        *ends = left->bounds[kKept - 1];
        blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, right);
        rebuild(at);
        return slot.at < kKept ? slot : Slot{right, slot.at - kKept};
    }

    static void take_out(Block* block, unsigned at) {
        const unsigned behind = --block->size - at;
        std::memmove(block->bounds + at, block->bounds + at + 1, behind * sizeof(Key));
        std::memmove(block->leaves + at, block->leaves + at + 1, behind * sizeof(std::uint32_t));
        block->bounds[block->size] = kGreatest;
    }

    // Finds a block's place by its last key, which no other block ends with.
    std::size_t place_of(const Block* block) const {
        const Key end = block->bounds[block->size - 1];
        const Key* ends = levels_[0].data();
        return static_cast<std::size_t>(std::lower_bound(ends, ends + blocks_.size(), end) - ends);
    }

    static std::size_t padded(std::size_t used) { return (used + kFan - 1) / kFan * kFan; }

    // The number of keys of a level, without the padding.
    std::size_t used_of(std::size_t level) const {
        std::size_t used = blocks_.size();
        for (; level > 0; --level) used = padded(used) / kFan;
        return used;
    }

    // Updates the levels above the lowest one, from block `from` on, and pads all levels.
    void rebuild(std::size_t from) {
        for (std::size_t level = 0; level < height_; ++level, from /= kFan) {
            Key* keys = levels_[level].data();
            const std::size_t used = used_of(level);
            for (std::size_t i = from; level && i < used; ++i)
                keys[i] = levels_[level - 1][i * kFan + kFan - 1];
            std::fill(keys + used, keys + padded(used), kGreatest);
        }
    }

    Pool<Block> pool_;
    Block* first_ = nullptr;
    std::vector<Block*> blocks_;
    Buffer<Key>
        levels_[kMostLevels];   // last keys of blocks, and of every kFan keys of the level below; padded
    std::size_t height_ = 0;    // levels
    std::size_t reserved_ = 0;  // blocks that all levels have room for
    std::size_t leaves_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
