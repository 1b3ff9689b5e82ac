// What the bucket-tree holds, and how it changes: leaves and queues of entries under a directory of their
// ranges, never rebuilt as a whole.
//
// An insert appends to the leaf of its key. A full leaf is compacted: its expired entries are removed. If
// most of its entries are live, it is split in two near its median; a leaf at either end of the keys, where
// ascending or descending keys arrive, is left full, or three quarters full, instead. A leaf of one single
// key becomes a queue (bucket_queue.hpp). A sweep passes over all leaves once per window, compacts them, and
// joins neighbours that have become small. So it starts from one empty leaf and follows any distribution,
// without long pauses. Insert O(1) amortised once the leaf is found; the sweep costs about one leaf for every
// 30 inserts.
#pragma once

#include "bucket_directory.hpp"
#include "bucket_leaves.hpp"
#include "bucket_queue.hpp"
#include "lazy_expiry.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BucketStore {
  public:
    using Directory = BucketDirectory<Key>;
    using Slot = typename Directory::Slot;
    using Block = typename Directory::Block;
    using Leaf = BucketLeaf<Key>;
    static constexpr unsigned kEntries = Leaf::kEntries;

    BucketStore() { directory_.start(leaves_.take()); }
    BucketStore(const BucketStore&) = delete;
    BucketStore& operator=(const BucketStore&) = delete;

    const Directory& directory() const { return directory_; }
    static bool is_queue(Slot slot) { return slot.count() == kQueue; }
    Leaf& leaf(Slot slot) { return leaves_[slot.leaf()]; }
    const Leaf& leaf(Slot slot) const { return leaves_[slot.leaf()]; }
    const BucketQueue& queue(Slot slot) const { return queues_[slot.leaf()]; }

    // Counts the times that slots or entries moved: slots that were found before are no longer valid.
    std::uint64_t version() const { return version_; }

    // The next entries to insert begin with this position.
    void start(std::uint32_t position) {
        if (!expiry_.started()) cycle_from_ = position;
        expiry_.start(position);
    }

    // Inserts into the slot of the key.
    void place(Key key, std::uint32_t position, Slot slot) {
        if (is_queue(slot)) return queue(slot).push(position);
        if (slot.count() == kEntries) {
            slot = make_room(key, slot);
            if (is_queue(slot)) return queue(slot).push(position);
        }
        leaf(slot).append(key, position, slot);
    }

    // What a worker may change on its own, while others do the same elsewhere: the leaves of some blocks. It
    // takes new leaves from those that it was lent.
    struct Share {
        std::vector<std::uint32_t> leaves;
        std::ptrdiff_t added = 0;  // leaves of the directory
        std::uint64_t moves = 0;   // as version_
        std::vector<Key> ended;    // keys of queues that have become short
    };

    // Lends leaves for the splits of about so many entries. Those that a worker has left, it keeps.
    void lend(Share& share, std::size_t entries) {
        const std::size_t wanted = entries / (kEntries / 2) + 1;
        for (; share.leaves.size() > 2 * wanted; share.leaves.pop_back())
            leaves_.give_back(share.leaves.back());
        if (share.leaves.size() >= wanted) return;
        share.leaves.reserve(wanted);
        leaves_.reserve(wanted - share.leaves.size());
        while (share.leaves.size() < wanted) share.leaves.push_back(leaves_.take());
    }

    // Takes all of them back.
    void take_back(Share& share) {
        for (const std::uint32_t leaf : share.leaves) leaves_.give_back(leaf);
        share.leaves.clear();
    }

    // Inserts into a slot that is the worker's own; returns false if that would change more than is its own.
    bool place_within(Key key, std::uint32_t position, Slot slot, Share& share) {
        while (!is_queue(slot) && slot.count() == kEntries) {
            const unsigned live = compact(slot);
            if (live <= kSplit) break;
            const auto [least, greatest] = extremes(leaves_[slot.leaf()].keys, live);
            if (least == greatest || share.leaves.empty() || !Directory::has_room(slot)) {
                if (live == kEntries) return false;
                break;
            }
            split_leaf(key, slot, least, greatest, live, share.leaves.back());
            share.leaves.pop_back();
            ++share.added;
            ++share.moves;
            slot = directory_.find(key);
        }
        place(key, position, slot);
        return true;
    }

    // Chooses the blocks that a sweep for so many inserted entries passes.
    void plan_sweep(std::uint32_t newest, std::size_t inserted, std::vector<Block*>& blocks) {
        blocks.clear();
        const std::uint64_t window = owe(newest, inserted);
        std::uint64_t steps = std::min(debt_ / window, kSteps * inserted);
        for (Block* block = directory_.find(swept_).block; block && steps > 0; block = block->next) {
            blocks.push_back(block);
            const std::uint64_t passed = std::min<std::uint64_t>(steps, block->size);
            steps -= passed;
            debt_ -= passed * window;
            pass({block, block->size - 1});
        }
    }

    // Sweeps a block that is the worker's own.
    void sweep_block(Block* block, Share& share) {
        for (unsigned at = 0; at < block->size;) {
            const Slot slot{block, at};
            if (is_queue(slot)) {
                queue(slot).forget(expiry_.first());
                if (queue(slot).size() <= kJoin / 2) share.ended.push_back(slot.bound());
            } else {
                compact(slot);
                if (const Slot before{block, at - 1}; at > 0 && before.count() + slot.count() <= kJoin) {
                    share.leaves.push_back(slot.leaf());
                    --share.added;
                    ++share.moves;
                    join(before, slot);
                    continue;
                }
            }
            ++at;
        }
    }

    // Counts what a worker has changed, and does what it could not.
    void settle(Share& share) {
        directory_.count_leaves(share.added);
        version_ += share.moves;
        for (const Key key : share.ended) end_queue(directory_.find(key));
        share.added = 0;
        share.moves = 0;
        share.ended.clear();
    }

    // Merges blocks that were swept, given in the order of keys, with those behind them.
    void merge_small(const std::vector<Block*>& blocks) {
        for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) merge_small(*block);
    }

    // Sweeps as many leaves as the inserted entries require: all leaves once per window.
    void sweep(std::uint32_t newest, std::size_t inserted) {
        const std::uint64_t window = owe(newest, inserted);
        if (debt_ < window) return;
        for (std::uint64_t steps = std::min(debt_ / window, kSteps * inserted); steps > 0; --steps) {
            debt_ -= window;
            sweep_one();
        }
    }

    // The sweep removes expired entries.
    void forget(std::uint32_t position) {
        expiry_.forget(position, [&] { sweep_all(); });
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        Slot slot = directory_.first();
        do {
            if (is_queue(slot)) {
                queue(slot).each([&](std::uint32_t position) { visit(slot.bound(), position); });
            } else {
                const Leaf& leaf = leaves_[slot.leaf()];
                for (unsigned i = 0; i < slot.count(); ++i) visit(leaf.keys[i], leaf.positions[i]);
            }
        } while (Directory::next(slot));
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        require(!expiry_.started() || !before(expiry_.first(), first), "bucket-tree: knows what has expired");
        const std::uint32_t oldest = expiry_.oldest();
        directory_.check();
        std::size_t queues = 0;
        Key lower = 0;
        Slot slot = directory_.first();
        do {
            const Key upper = slot.bound();
            if (is_queue(slot)) {
                require(lower == upper, "bucket-tree: a queue is of one key");
                queue(slot).check();
                ++queues;
            } else {
                require(slot.count() <= kEntries, "bucket-tree: a leaf is not overfull");
                const Leaf& leaf = leaves_[slot.leaf()];
                for (unsigned i = 0; i < slot.count(); ++i) {
                    require(lower <= leaf.keys[i] && leaf.keys[i] <= upper,
                            "bucket-tree: a leaf has its range");
                    require(leaf.positions[i] - oldest < next - oldest,
                            "bucket-tree: positions have arrived, and not too long ago");
                }
            }
            lower = static_cast<Key>(upper + 1);
        } while (Directory::next(slot));
        require(queues + free_queues_.size() == queues_.size(), "bucket-tree: no queue is lost");
    }

    std::size_t bytes() const {
        std::size_t total =
            directory_.bytes() + leaves_.bytes() + free_queues_.capacity() * sizeof(std::uint32_t);
        for (const BucketQueue& queue : queues_) total += queue.bytes();
        return total;
    }

  private:
    static constexpr unsigned kSplit = 58;               // a full leaf with more live entries is split
    static constexpr unsigned kJoin = 46;                // neighbours with so many entries are joined
    static constexpr unsigned kQueue = 127;              // as the count of a slot: its leaf is a queue
    static_assert(kQueue > kJoin && kQueue > kEntries);  // a queue never has room, nor is it joined
    static_assert(kQueue < 1u << Directory::kCountBits);
    static constexpr unsigned kSamples = 9;
    static constexpr std::uint64_t kSteps = 2;  // most steps of the sweep for each entry inserted

    BucketQueue& queue(Slot slot) { return queues_[slot.leaf()]; }

    // --- Making room ---

    // Compacts or splits the full leaf of `key`. Returns the slot that has room for it.
    Slot make_room(Key key, Slot slot) {
        const unsigned live = compact(slot);
        if (live <= kSplit) return slot;
        leaves_.reserve(2);
        directory_.reserve(2);
        ++version_;
        const auto [least, greatest] = extremes(leaves_[slot.leaf()].keys, live);
        if (least == greatest) {
            make_queue(slot, least);
        } else {
            slot = directory_.make_room(slot);
            directory_.count_leaves(1);
            split_leaf(key, slot, least, greatest, live, leaves_.take());
        }
        slot = directory_.find(key);
        return is_queue(slot) || slot.count() < kEntries ? slot : make_room(key, slot);
    }

    static std::pair<Key, Key> extremes(const Key* keys, unsigned count) {
        Key least = keys[0], greatest = keys[0];
        for (unsigned i = 1; i < count; ++i) {
            least = std::min(least, keys[i]);
            greatest = std::max(greatest, keys[i]);
        }
        return {least, greatest};
    }

    // Splits a leaf of different keys, whose block has room, to make room for `key`.
    void split_leaf(Key key, Slot slot, Key least, Key greatest, unsigned live, std::uint32_t added) {
        const bool at_end = slot.bound() == Directory::kGreatest, at_start = slot == directory_.first();
        if (at_end && key > greatest) {
            Directory::split_within(slot, greatest, added);
        } else if (at_start && key < least) {
            Directory::split_within(slot, static_cast<Key>(least - 1), slot.leaf());
            Slot behind = slot;
            Directory::next(behind);
            behind.set_count(live);
            slot.set(added, 0);
        } else {
            const unsigned quarter = live / 4;
            const unsigned wanted = at_end ? live - quarter : at_start ? quarter : live / 2;
            divide(slot, pivot(leaves_[slot.leaf()].keys, live, greatest, wanted), live, added);
        }
    }

    // Removes expired entries. Returns how many remain.
    unsigned compact(Slot slot) {
        Leaf& leaf = leaves_[slot.leaf()];
        const auto kept = static_cast<unsigned>(
            take_visible(leaf.keys, leaf.positions, slot.count(), expiry_.live(), leaf.keys, leaf.positions));
        slot.set_count(kept);
        return kept;
    }

    // A key to split the entries at: about as many as wanted are up to it, and some on both sides.
    static Key pivot(const Key* keys, unsigned count, Key greatest, unsigned wanted) {
        Key best = 0;
        unsigned best_distance = kEntries;
        const auto consider = [&](Key key) {
            if (key == greatest) return;
            unsigned below = 0;
            for (unsigned i = 0; i < count; ++i) below += keys[i] <= key;
            const unsigned distance = below > wanted ? below - wanted : wanted - below;
            if (distance < best_distance) {
                best = key;
                best_distance = distance;
            }
        };
        for (unsigned i = 0; i < kSamples; ++i) consider(keys[i * count / kSamples]);
        for (unsigned i = 0; best_distance > count / 4 && i < count; ++i) consider(keys[i]);
        return best;
    }

    // Entries above the pivot move to a new leaf.
    void divide(Slot slot, Key pivot, unsigned count, std::uint32_t added) {
        Directory::split_within(slot, pivot, added);
        Slot behind = slot;
        Directory::next(behind);
        Leaf& left = leaves_[slot.leaf()];
        Leaf& right = leaves_[behind.leaf()];
        unsigned kept = 0, moved = 0;
        for (unsigned i = 0; i < count; ++i) {
            const Key key = left.keys[i];
            const std::uint32_t position = left.positions[i];
            const bool stays = key <= pivot;
            right.keys[moved] = key;
            right.positions[moved] = position;
            left.keys[kept] = key;
            left.positions[kept] = position;
            kept += stays;
            moved += !stays;
        }
        slot.set_count(kept);
        behind.set_count(moved);
    }

    // Turns a leaf of one single key into a queue; empty leaves take the rest of its range.
    void make_queue(Slot slot, Key key) {
        const std::uint32_t number = take_queue();
        BucketQueue& queue = queues_[number];
        const Leaf& leaf = leaves_[slot.leaf()];
        const unsigned count = slot.count();
        queue.reserve(count);
        std::uint32_t positions[kEntries];
        std::copy_n(leaf.positions, count, positions);
        std::sort(positions, positions + count,
                  [](std::uint32_t a, std::uint32_t b) { return before(a, b); });
        for (unsigned i = 0; i < count; ++i) queue.push(positions[i]);
        if (slot.bound() != key) slot = directory_.split(slot, key, leaves_.take());
        if (key > lower_of(slot)) {
            slot = directory_.split(slot, static_cast<Key>(key - 1), leaves_.take());
            slot.set_count(0);
            Directory::next(slot);
        }
        leaves_.give_back(slot.leaf());
        slot.set(number, kQueue);
    }

    std::uint32_t take_queue() {
        if (free_queues_.empty()) {
            free_queues_.reserve(queues_.size() + 1);
            if (queues_.size() == Directory::kMaxLeaves) throw std::bad_alloc();
            queues_.emplace_back();
            return static_cast<std::uint32_t>(queues_.size() - 1);
        }
        const std::uint32_t number = free_queues_.back();
        free_queues_.pop_back();
        return number;
    }

    Key lower_of(Slot slot) const {
        return Directory::previous(slot) ? static_cast<Key>(slot.bound() + 1) : Key{0};
    }

    // --- Sweeping ---

    // Sweeps all leaves, so that 32-bit positions never wrap around. It is needed only where few positions
    // hold entries: else the sweep passes all leaves in time.
    void sweep_all() {
        do sweep_one();
        while (swept_ != 0);
        do sweep_one();
        while (swept_ != 0);
    }

    // Counts what the sweep owes for inserted entries. Returns the window.
    std::uint64_t owe(std::uint32_t newest, std::size_t inserted) {
        const std::uint64_t window = std::max<std::uint64_t>(newest - expiry_.first() + 1, kEntries);
        debt_ = std::min(debt_, window * kEntries) + inserted * directory_.leaves();
        return window;
    }

    void sweep_one() {
        const Slot slot = directory_.find(swept_);
        pass(slot);
        if (is_queue(slot)) {
            queue(slot).forget(expiry_.first());
            if (queue(slot).size() > kJoin / 2) return;
            end_queue(slot);
        } else {
            compact(slot);
        }
        const bool last = slot.at + 1 == slot.block->size;
        // The leaf before has just been swept, so its count has no expired entries.
        if (slot.at > 0) {
            const Slot before{slot.block, slot.at - 1};
            if (before.count() + slot.count() <= kJoin) {
                leaves_.give_back(slot.leaf());
                directory_.count_leaves(-1);
                ++version_;
                join(before, slot);
            }
        }
        if (last) merge_small(slot.block);
    }

    // The sweep continues behind this slot, which is prefetched; behind the last one it begins its next
    // round.
    void pass(Slot slot) {
        Slot following = slot;
        const bool more = Directory::next(following);
        swept_ = more ? static_cast<Key>(slot.bound() + 1) : Key{0};
        if (more && !is_queue(following)) prefetch_span<sizeof(Leaf)>(&leaf(following));
        if (more) return;
        expiry_.cleaned(cycle_from_);
        cycle_from_ = expiry_.first();
    }

    void merge_small(Block* block) {
        if (block->size < Directory::kSlots / 4) version_ += directory_.merge_blocks(block);
    }

    // Moves the entries of the next leaf into this one; that leaf is no longer used.
    void join(Slot slot, Slot following) {
        Leaf& left = leaves_[slot.leaf()];
        const Leaf& right = leaves_[following.leaf()];
        const unsigned count = slot.count(), more = following.count();
        std::memcpy(left.keys + count, right.keys, more * sizeof(Key));
        std::memcpy(left.positions + count, right.positions, more * sizeof(std::uint32_t));
        slot.set_count(count + more);
        Directory::absorb_next(slot);
    }

    // Turns a queue with few entries into a leaf again.
    void end_queue(Slot slot) {
        leaves_.reserve(1);
        free_queues_.reserve(queues_.size());
        ++version_;
        const std::uint32_t number = slot.leaf();
        const std::uint32_t leaf = leaves_.take();
        unsigned count = 0;
        queues_[number].each([&](std::uint32_t position) {
            leaves_[leaf].keys[count] = slot.bound();
            leaves_[leaf].positions[count++] = position;
        });
        queues_[number] = BucketQueue();
        free_queues_.push_back(number);
        slot.set(leaf, count);
    }

    Directory directory_;
    LeafPool<Key> leaves_{Directory::kMaxLeaves};
    std::vector<BucketQueue> queues_;
    std::vector<std::uint32_t> free_queues_;
    LazyExpiry expiry_;
    std::uint64_t version_ = 0;     // counts the times that slots or entries moved
    std::uint64_t debt_ = 0;        // leaves that the sweep must pass, times the window
    std::uint32_t cycle_from_ = 0;  // positions before had expired when the sweep began its round
    Key swept_ = 0;                 // the sweep continues at the leaf of this key
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
