// The nodes of a B+-tree, and what is done inside one of them.
//
// Nodes are whole cache lines. Keys and positions of a leaf stand apart, so a search reads keys only. Keys
// fill whole vectors; the space of the last slots of the second array is the node's header, and unused key
// slots hold the greatest key, so that a search compares all slots at once. Nodes come from pools that
// several trees may share. Each operation moves at most one node's entries.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
struct TreeNodes {
    static constexpr unsigned kSlots = 256 / sizeof(Key);
    static constexpr unsigned kLeafEntries = kSlots - 4;
    static constexpr unsigned kInnerKeys = kSlots - 2;
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    struct alignas(kCacheLine) Leaf {
        Key keys[kSlots];
        std::uint32_t positions[kLeafEntries];
        Leaf* next;
        std::uint32_t count;

        void start() {
            std::fill_n(keys, kSlots, kGreatest);
            next = nullptr;
            count = 0;
        }

        bool has_room() const { return count < kLeafEntries; }

        // Behind the entries of the same key.
        void insert(Key key, std::uint32_t position) {
            const unsigned at = count_up_to<kSlots>(keys, count, key);
            const unsigned behind = count - at;
            std::memmove(keys + at + 1, keys + at, behind * sizeof(Key));
            std::memmove(positions + at + 1, positions + at, behind * sizeof(std::uint32_t));
            keys[at] = key;
            positions[at] = position;
            ++count;
        }

        void erase(unsigned at) {
            const unsigned behind = --count - at;
            std::memmove(keys + at, keys + at + 1, behind * sizeof(Key));
            std::memmove(positions + at, positions + at + 1, behind * sizeof(std::uint32_t));
            keys[count] = kGreatest;
        }

        // Moves the entries from `kept` on to the front of `right`.
        void move_tail(unsigned kept, Leaf* right) {
            const unsigned moved = count - kept;
            std::memmove(right->keys + moved, right->keys, right->count * sizeof(Key));
            std::memmove(right->positions + moved, right->positions, right->count * sizeof(std::uint32_t));
            std::memcpy(right->keys, keys + kept, moved * sizeof(Key));
            std::memcpy(right->positions, positions + kept, moved * sizeof(std::uint32_t));
            std::fill_n(keys + kept, moved, kGreatest);
            count = kept;
            right->count += moved;
        }

        // Moves the first `moved` entries of `right` to the end.
        void append(Leaf* right, unsigned moved) {
            std::memcpy(keys + count, right->keys, moved * sizeof(Key));
            std::memcpy(positions + count, right->positions, moved * sizeof(std::uint32_t));
            count += moved;
            right->count -= moved;
            std::memmove(right->keys, right->keys + moved, right->count * sizeof(Key));
            std::memmove(right->positions, right->positions + moved, right->count * sizeof(std::uint32_t));
            std::fill_n(right->keys + right->count, moved, kGreatest);
        }
    };

    struct alignas(kCacheLine) Inner {  // child i holds keys up to separator i, child i+1 from it on
        Key keys[kSlots];
        void* children[kInnerKeys + 1];
        std::uint32_t count;  // separators; one child more

        // `size` separators and one child more.
        void fill(const Key* separators, void* const* below, unsigned size) {
            std::memcpy(keys, separators, size * sizeof(Key));
            std::fill_n(keys + size, kSlots - size, kGreatest);
            std::memcpy(children, below, (size + 1) * sizeof(void*));
            count = size;
        }

        // Separator `at`, and the child behind it.
        void insert(unsigned at, Key separator, void* child) {
            const unsigned behind = count - at;
            std::memmove(keys + at + 1, keys + at, behind * sizeof(Key));
            std::memmove(children + at + 2, children + at + 1, behind * sizeof(void*));
            keys[at] = separator;
            children[at + 1] = child;
            ++count;
        }

        void erase(unsigned at) {
            const unsigned behind = --count - at;
            std::memmove(keys + at, keys + at + 1, behind * sizeof(Key));
            std::memmove(children + at + 1, children + at + 2, behind * sizeof(void*));
            keys[count] = kGreatest;
        }
    };

    Pool<Leaf> leaves;
    Pool<Inner> inners;

    std::size_t bytes() const { return leaves.bytes() + inners.bytes(); }

    // Takes all nodes back; the trees that had them must be started anew.
    void clear() {
        leaves.clear();
        inners.clear();
    }
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
