// The leaves of the bucket-tree: up to 64 unsorted entries each, keys and positions apart, in slabs.
//
// A leaf goes by its number. Taking and giving back O(1); a slab is one huge page, or three for 64-bit keys.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
struct alignas(kCacheLine) BucketLeaf {
    static constexpr unsigned kEntries = 64;

    Key keys[kEntries];
    std::uint32_t positions[kEntries];

    // Adds an entry to a leaf with room; its slot counts them.
    template <class Slot>
    void append(Key key, std::uint32_t position, Slot slot) {
        const unsigned count = slot.count();
        keys[count] = key;
        positions[count] = position;
        slot.count_one();
    }
};

template <class Key>
class LeafPool {
    using Leaf = BucketLeaf<Key>;

  public:
    explicit LeafPool(std::size_t most) : most_(most) {}

    Leaf& operator[](std::uint32_t leaf) { return slabs_[leaf / kSlab][leaf % kSlab]; }
    const Leaf& operator[](std::uint32_t leaf) const { return slabs_[leaf / kSlab][leaf % kSlab]; }

    // Afterwards `count` calls of take() cannot fail. The first slab grows, so that few leaves take little
    // memory. Further slabs are added before they are needed, so that a window that has reached its size
    // does not wait for one.
    void reserve(std::size_t count) {
        while (free_.size() < count) grow();
        if (slabs_.back().capacity() < kSlab || free_.size() >= kSpare) return;
        try {
            grow();
        } catch (const std::bad_alloc&) {
            // The spare leaves are not needed yet.
        }
    }

    std::uint32_t take() {
        reserve(1);
        const std::uint32_t leaf = free_.back();
        free_.pop_back();
        return leaf;
    }

    void give_back(std::uint32_t leaf) { free_.push_back(leaf); }

    std::size_t bytes() const {
        std::size_t total = free_.capacity() * sizeof(std::uint32_t);
        for (const Buffer<Leaf>& slab : slabs_) total += slab.bytes();
        return total;
    }

  private:
    static constexpr std::size_t kSlab = sizeof(Key) == 4 ? 4096 : 8192;  // one huge page, or three
    static_assert(kSlab * sizeof(Leaf) % kHugePage == 0);
    static constexpr std::size_t kSpare = kSlab / 32;

    void grow() {
        const bool adds = slabs_.empty() || slabs_.back().capacity() == kSlab;
        if (adds) {
            slabs_.reserve(slabs_.size() + 1);
            slabs_.emplace_back();
        }
        const std::size_t had = slabs_.back().capacity();
        const std::size_t before = (slabs_.size() - 1) * kSlab;
        const std::size_t has = before ? kSlab : std::min(kSlab, std::max<std::size_t>(4, had * 4));
        if (before + has > most_) throw std::bad_alloc();
        free_.reserve(before + has);
        slabs_.back().reserve(has, had);
        for (std::size_t i = has; i-- > had;) free_.push_back(static_cast<std::uint32_t>(before + i));
    }

    std::size_t most_;  // leaves that there may be
    std::vector<Buffer<Leaf>> slabs_;
    std::vector<std::uint32_t> free_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
