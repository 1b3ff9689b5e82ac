// The bucket-tree: small unsorted leaves under a directory of their ranges, never rebuilt as a whole.
//
// An insert appends to the leaf of its key; a probe compares all keys of the leaves that its interval meets,
// a vector at a time. Nothing is deleted: entries that the window has forgotten are squeezed out of a leaf
// when it is full, and by a sweep that passes over all leaves once per window and joins neighbours that have
// become small. A leaf that is full of living entries is split in two at a middling key; one at either end of
// the keys, where rising or falling keys arrive, is left full, or three quarters full, instead. A leaf with
// one single key becomes a queue (bucket_queue.hpp). So it starts from one empty leaf and follows any
// distribution, and has no long pauses once it has grown to its size. It joins the splitters over sub-trees
// of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen) with the unsorted
// partitions of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen).
//
// Insert: one line of keys and one of positions; probe: the keys of one or two leaves, up to four lines each,
// and the positions of what lies in the interval; both the way to them.
// 13-20 bytes a tuple with 32-bit keys. Leaves have numbers of 25 bits, enough for 500 million entries of any
// keys and a billion of even ones.
#pragma once

#include "bucket_directory.hpp"
#include "bucket_queue.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BucketTree {
    using Directory = BucketDirectory<Key>;
    using Slot = typename Directory::Slot;
    using Block = typename Directory::Block;

  public:
    explicit BucketTree(const IndexOptions& = {}) { directory_.start(leaves_.take()); }
    BucketTree(const BucketTree&) = delete;
    BucketTree& operator=(const BucketTree&) = delete;

    void insert(Key key, std::uint32_t position) { insert(key, position, prefetch_insert(key)); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        scan(directory_.find(interval.low), interval, visible, matches);
    }

    // Where an insert or a probe goes; its memory is on its way from now on. Holds until leaves are split or
    // joined.
    Slot prefetch_insert(Key key) const {
        const Slot slot = directory_.find(key);
        fetch_end(slot);
        return slot;
    }
    Slot prefetch_probe(Interval<Key> interval) const {
        const Slot slot = directory_.find(interval.low);
        fetch_keys(slot);
        return slot;
    }

    void insert(Key key, std::uint32_t position, Slot slot) {
        begin(position);
        place(key, position, slot);
        sweep(position, 1);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, Slot slot) const {
        scan(slot, interval, visible, matches);
    }

    // Where up to kGroup entries go; their memory is on its way from now on.
    struct GroupInserts {
        Slot slots[kGroup];
        std::uint64_t version;  // of the tree: when slots or entries have moved, they are found again
    };

    void prefetch_inserts(const Entry<Key>* entries, std::size_t count, GroupInserts& hints) const {
        hints.version = version_;
        locate(count, hints.slots, [&](std::size_t i) { return entries[i].key; });
        for (std::size_t i = 0; i < count; ++i) fetch_end(hints.slots[i]);
    }

    // The leaves that up to kGroup probes visit: mostly one each, or two where an interval reaches into the
    // next.
    struct GroupProbes {
        enum class Kind : std::uint8_t { first, second, many };
        struct Visit {
            Slot slot;
            std::uint32_t task;
            Kind kind;
        };
        Visit visits[2 * kGroup];
        unsigned count = 0;
        std::uint64_t version;

        void add(Slot slot, std::size_t task, Kind kind) {
            visits[count++] = {slot, static_cast<std::uint32_t>(task), kind};
        }
    };

    void prefetch_probes(const Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                         GroupProbes& visits) const {
        using Kind = typename GroupProbes::Kind;
        Slot slots[kGroup];
        visits.count = 0;
        visits.version = version_;
        locate(count, slots, [&](std::size_t i) { return tasks[order[i]].interval.low; });
        for (std::size_t i = 0; i < count; ++i) {
            const Slot slot = slots[i];
            const Key high = tasks[order[i]].interval.high;
            fetch_keys(slot);
            if (high <= slot.bound()) [[likely]] {
                visits.add(slot, order[i], is_queue(slot) ? Kind::many : Kind::first);
                continue;
            }
            Slot following = slot;
            Directory::next(following);
            fetch_keys(following);
            if (high <= following.bound() && !is_queue(slot) && !is_queue(following)) {
                visits.add(slot, order[i], Kind::first);
                visits.add(following, order[i], Kind::second);
            } else {
                visits.add(slot, order[i], Kind::many);
            }
        }
    }

    void insert_group(const Entry<Key>* entries, std::size_t count, const GroupInserts& hints) {
        begin(entries[0].value);
        for (std::size_t i = 0; i < count; ++i)
            place(entries[i].key, entries[i].value,
                  hints.version == version_ ? hints.slots[i] : directory_.find(entries[i].key));
        sweep(entries[count - 1].value, count);
    }

    void insert_group(const Entry<Key>* entries, std::size_t count) {
        GroupInserts hints;
        prefetch_inserts(entries, count, hints);
        insert_group(entries, count, hints);
    }

    // In the order of keys, so that neighbours fill their leaves one after the other.
    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        begin(entries[0].value);
        GroupInserts hints[2];
        const auto prefetch_at = [&](std::size_t at, GroupInserts& to) {
            if (at < count) prefetch_inserts(by_key + at, std::min(kGroup, count - at), to);
        };
        prefetch_at(0, hints[0]);
        for (std::size_t at = 0, turn = 0; at < count; at += kGroup, turn ^= 1) {
            prefetch_at(at + kGroup, hints[turn ^ 1]);
            insert_group(by_key + at, std::min(kGroup, count - at), hints[turn]);
        }
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count) {
        batch_.reserve(count);
        std::memcpy(batch_.data(), entries, count * sizeof(Entry<Key>));
        sort_entries(batch_.data(), count, sorting_);
        insert_batch(entries, count, batch_.data());
    }

    // All keys come first, so that only those positions are fetched that are asked for.
    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count, Matches& matches,
                     const GroupProbes& visits) const {
        using Kind = typename GroupProbes::Kind;
        if (visits.version != version_) return probe_group(tasks, order, count, matches);
        std::uint64_t chosen[2 * kGroup];
        for (unsigned i = 0; i < visits.count; ++i) {
            const auto& visit = visits.visits[i];
            chosen[i] = visit.kind == Kind::many ? 0 : choose(visit.slot, tasks[visit.task].interval);
        }
        for (unsigned i = 0; i < visits.count; ++i) {
            const auto& [slot, number, kind] = visits.visits[i];
            Task<Key>& task = tasks[number];
            if (kind != Kind::second) matches.begin(task);
            if (kind != Kind::many) [[likely]]
                matches.among(leaves_[slot.leaf()].positions, chosen[i], task.visible);
            else scan(slot, task.interval, task.visible, matches);
            task.found_to = matches.size();
        }
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        GroupProbes visits;
        prefetch_probes(tasks, order, count, visits);
        probe_group(tasks, order, count, matches, visits);
    }

    template <class Matches>
    void probe_sorted(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                      Matches& matches) const {
        GroupProbes visits[2];
        const auto prefetch_at = [&](std::size_t at, GroupProbes& to) {
            if (at < count) prefetch_probes(tasks, order + at, std::min(kGroup, count - at), to);
        };
        prefetch_at(0, visits[0]);
        for (std::size_t at = 0, turn = 0; at < count; at += kGroup, turn ^= 1) {
            for (std::size_t i = at + 2 * kGroup; i < std::min(at + 3 * kGroup, count); ++i) {
                prefetch(&tasks[order[i]]);  // sorted ones are scattered
                prefetch(&tasks[order[i]].found_to);
            }
            prefetch_at(at + kGroup, visits[turn ^ 1]);
            probe_group(tasks, order + at, std::min(kGroup, count - at), matches, visits[turn]);
        }
    }

    // A large window that goes at once goes in steps, or what is older still would seem to lie ahead.
    void forget(std::uint32_t position) {
        while (begun_ && before(first_ + kOldest, position)) {
            first_ += kOldest;
            sweep_all();
        }
        first_ = position;
        if (begun_ && position - clean_from_ > kOldest) sweep_all();
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
        require(!begun_ || !before(first_, first), "bucket-tree: knows what is forgotten");
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
                    require(leaf.positions[i] - clean_from_ < next - clean_from_,
                            "bucket-tree: positions have arrived, and not too long ago");
                }
            }
            lower = static_cast<Key>(upper + 1);
        } while (Directory::next(slot));
        require(queues + free_queues_.size() == queues_.size(), "bucket-tree: no queue is lost");
    }

    std::size_t bytes() const {
        std::size_t total = directory_.bytes() + leaves_.bytes() + batch_.bytes() + sorting_.bytes() +
                            free_queues_.capacity() * sizeof(std::uint32_t);
        for (const BucketQueue& queue : queues_) total += queue.bytes();
        return total;
    }

  private:
    static constexpr unsigned kEntries = 64;
    static constexpr unsigned kSplit = 58;               // living entries from which on a full leaf is split
    static constexpr unsigned kJoin = 46;                // of two neighbours up to which they are joined
    static constexpr unsigned kQueue = 127;              // as the count of a slot: its leaf is a queue
    static_assert(kQueue > kJoin && kQueue > kEntries);  // a queue has never room, nor is it joined
    static_assert(kQueue < 1u << Directory::kCountBits);
    static constexpr unsigned kSamples = 9;
    static constexpr unsigned kLeavesAhead = 4;
    static constexpr std::uint32_t kOldest = std::uint32_t{1} << 29;
    static constexpr std::uint64_t kSteps = 2;  // of the sweep, for each entry inserted at most

    struct alignas(kCacheLine) Leaf {
        Key keys[kEntries];
        std::uint32_t positions[kEntries];
    };

    // Leaves by number, in slabs.
    class Leaves {
      public:
        Leaf& operator[](std::uint32_t leaf) { return slabs_[leaf / kSlab][leaf % kSlab]; }
        const Leaf& operator[](std::uint32_t leaf) const { return slabs_[leaf / kSlab][leaf % kSlab]; }

        // The first slab grows, so that few leaves take little memory; from then on slabs are added, early
        // enough for a window that has grown to its size not to need another.
        void reserve(std::size_t count) {
            while (free_.size() < count) grow();
            if (slabs_.back().capacity() < kSlab || free_.size() >= kSpare) return;
            try {
                grow();
            } catch (const std::bad_alloc&) {
                // There are enough for now.
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
            if (before + has > Directory::kMaxLeaves) throw std::bad_alloc();
            free_.reserve(before + has);
            slabs_.back().reserve(has, had);
            for (std::size_t i = has; i-- > had;) free_.push_back(static_cast<std::uint32_t>(before + i));
        }

        std::vector<Buffer<Leaf>> slabs_;
        std::vector<std::uint32_t> free_;
    };

    static bool is_queue(Slot slot) { return slot.count() == kQueue; }
    BucketQueue& queue(Slot slot) { return queues_[slot.leaf()]; }
    const BucketQueue& queue(Slot slot) const { return queues_[slot.leaf()]; }

    // --- Finding ---

    template <class KeyOf>
    void locate(std::size_t count, Slot* slots, KeyOf key_of) const {
        for (std::size_t i = 0; i < count; ++i) {
            slots[i].block = directory_.find_block(key_of(i));
            prefetch_span<sizeof(Block::bounds)>(slots[i].block->bounds);
        }
        for (std::size_t i = 0; i < count; ++i) {
            slots[i].at = Directory::slot_in(slots[i].block, key_of(i));
            prefetch(slots[i].block->leaves + slots[i].at);
        }
    }

    void fetch_end(Slot slot) const {
        if (is_queue(slot)) return;
        const Leaf& leaf = leaves_[slot.leaf()];
        const unsigned end = std::min<unsigned>(slot.count(), kEntries - 1);
        prefetch(leaf.keys + end);
        prefetch(leaf.positions + end);
    }

    void fetch_keys(Slot slot) const {
        if (!is_queue(slot)) fetch_used(leaves_[slot.leaf()].keys, slot.count());
    }

    void fetch_positions(Slot slot) const {
        if (!is_queue(slot)) fetch_used(leaves_[slot.leaf()].positions, slot.count());
    }

    // The lines that hold the first `count` entries.
    template <class Part>
    static void fetch_used(const Part* part, unsigned count) {
        const unsigned last = count - (count > 0);
        for (unsigned i = 0; i < kEntries; i += kCacheLine / sizeof(Part)) prefetch(part + std::min(i, last));
    }

    // Which entries of a leaf lie in the interval. Their positions are on their way from now on.
    std::uint64_t choose(Slot slot, Interval<Key> interval) const {
        const Leaf& leaf = leaves_[slot.leaf()];
        const std::uint64_t chosen = lanes_within<kEntries>(leaf.keys, slot.count(), interval);
        prefetch(leaf.positions + std::countr_zero(chosen | std::uint64_t{1} << 63));
        prefetch(leaf.positions + (63 - std::countl_zero(chosen | 1)));
        return chosen;
    }

    // All leaves that an interval reaches into, from its first one on; some are on their way ahead of their
    // turn.
    template <class Matches>
    void scan(Slot slot, Interval<Key> interval, Visible visible, Matches& matches) const {
        Slot ahead = slot;
        bool reaches = true;
        const auto fetch_next = [&] {
            reaches = reaches && ahead.bound() < interval.high && Directory::next(ahead);
            if (!reaches) return;
            fetch_positions(ahead);
            if (interval.high <= ahead.bound()) fetch_keys(ahead);
        };
        for (unsigned i = 1; i < kLeavesAhead && reaches; ++i) fetch_next();
        for (bool first = true;; first = false) {
            fetch_next();
            const bool last = interval.high <= slot.bound();
            if (is_queue(slot)) {
                queue(slot).probe(visible, matches);
            } else if (const Leaf& leaf = leaves_[slot.leaf()]; first || last) {
                matches.entries(leaf.keys, leaf.positions, slot.count(), interval, visible);
            } else {
                matches.positions(leaf.positions, slot.count(), visible);
            }
            if (last || !Directory::next(slot)) return;
        }
    }

    // --- Inserting ---

    // Positions count from anywhere; the first of all tells from where.
    void begin(std::uint32_t position) {
        if (begun_) return;
        begun_ = true;
        first_ = clean_from_ = cycle_from_ = position;
    }

    void place(Key key, std::uint32_t position, Slot slot) {
        if (is_queue(slot)) return queue(slot).push(position);
        unsigned count = slot.count();
        if (count == kEntries) {
            slot = make_room(key, slot);
            if (is_queue(slot)) return queue(slot).push(position);
            count = slot.count();
        }
        Leaf& leaf = leaves_[slot.leaf()];
        leaf.keys[count] = key;
        leaf.positions[count] = position;
        slot.set_count(count + 1);
    }

    // The slot where `key` has room, once its full leaf was squeezed or split.
    Slot make_room(Key key, Slot slot) {
        const unsigned living = squeeze(slot);
        if (living <= kSplit) return slot;
        leaves_.reserve(2);
        directory_.reserve(2);
        ++version_;
        const Leaf& leaf = leaves_[slot.leaf()];
        Key least = leaf.keys[0], greatest = leaf.keys[0];
        for (unsigned i = 1; i < living; ++i) {
            least = std::min(least, leaf.keys[i]);
            greatest = std::max(greatest, leaf.keys[i]);
        }
        const bool at_end = slot.bound() == Directory::kGreatest, at_start = slot == directory_.first();
        if (least == greatest) {
            make_queue(slot, least);
        } else if (at_end && key > greatest) {
            directory_.split(slot, greatest, leaves_.take());
        } else if (at_start && key < least) {
            slot = directory_.split(slot, static_cast<Key>(least - 1), slot.leaf());
            Slot behind = slot;
            Directory::next(behind);
            behind.set_count(living);
            slot.set(leaves_.take(), 0);
        } else {
            const unsigned quarter = living / 4;
            const unsigned wanted = at_end ? living - quarter : at_start ? quarter : living / 2;
            divide(slot, pivot(leaf.keys, living, greatest, wanted), living);
        }
        slot = directory_.find(key);
        return is_queue(slot) || slot.count() < kEntries ? slot : make_room(key, slot);
    }

    // Drops the dead; returns how many live.
    unsigned squeeze(Slot slot) {
        Leaf& leaf = leaves_[slot.leaf()];
        constexpr std::uint32_t kHalf = std::uint32_t{1}
                                        << 31;  // of all positions: those that are not before
        const auto kept = static_cast<unsigned>(take_visible(
            leaf.keys, leaf.positions, slot.count(), Visible{first_, kHalf}, leaf.keys, leaf.positions));
        slot.set_count(kept);
        return kept;
    }

    // A key that parts the entries well: about as many as wanted are up to it; there are some on both sides.
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
    void divide(Slot slot, Key pivot, unsigned count) {
        slot = directory_.split(slot, pivot, leaves_.take());
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

    // A leaf that has one single key becomes its queue; leaves without entries take the rest of its range.
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

    // Passes over as many leaves as the entries inserted ask for: all of them once per window.
    void sweep(std::uint32_t newest, std::size_t inserted) {
        const std::uint64_t window = std::max<std::uint64_t>(newest - first_ + 1, kEntries);
        debt_ += inserted * directory_.leaves();
        for (std::uint64_t steps = std::min(debt_ / window, kSteps * inserted); steps > 0; --steps) {
            debt_ -= window;
            sweep_one();
        }
        debt_ = std::min(debt_, window * kEntries);
    }

    // Nothing may be kept so long that its position seems to lie ahead. Only where positions hold next to no
    // entries does the sweep take that long to come round.
    void sweep_all() {
        do sweep_one();
        while (swept_ != 0);
        do sweep_one();
        while (swept_ != 0);
    }

    void sweep_one() {
        Slot slot = directory_.find(swept_);
        Slot following = slot;
        const bool more = Directory::next(following);
        swept_ = more ? static_cast<Key>(slot.bound() + 1) : Key{0};
        if (!more) {
            clean_from_ = cycle_from_;
            cycle_from_ = first_;
        }
        if (is_queue(slot)) {
            queue(slot).forget(first_);
            if (queue(slot).size() > kJoin / 2) return;
            end_queue(slot);
        } else {
            squeeze(slot);
        }
        // The one before has just been swept, so that its count is of the living.
        if (slot.at > 0) {
            const Slot before{slot.block, slot.at - 1};
            if (before.count() + slot.count() <= kJoin) join(before, slot);
        }
        if (!more || following.block != slot.block) {
            if (slot.block->size < Directory::kSlots / 4) version_ += directory_.merge_blocks(slot.block);
        }
    }

    // Moves the entries of the leaf behind into this one.
    void join(Slot slot, Slot following) {
        ++version_;
        Leaf& left = leaves_[slot.leaf()];
        const Leaf& right = leaves_[following.leaf()];
        const unsigned count = slot.count(), more = following.count();
        std::memcpy(left.keys + count, right.keys, more * sizeof(Key));
        std::memcpy(left.positions + count, right.positions, more * sizeof(std::uint32_t));
        slot.set_count(count + more);
        leaves_.give_back(following.leaf());
        directory_.absorb_next(slot);
    }

    // A queue with few entries becomes a leaf again.
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
    Leaves leaves_;
    std::vector<BucketQueue> queues_;
    std::vector<std::uint32_t> free_queues_;
    bool begun_ = false;
    std::uint32_t first_ = 0;       // positions before are forgotten
    std::uint64_t version_ = 0;     // counts the times that slots or entries moved
    std::uint64_t debt_ = 0;        // of the sweep: leaves to pass, times the window
    std::uint32_t cycle_from_ = 0;  // what was forgotten when the sweep began its round
    std::uint32_t clean_from_ = 0;  // positions before are no longer kept: those of the round before
    Key swept_ = 0;                 // the sweep goes on at the leaf of this key
    Buffer<Entry<Key>> batch_;
    Buffer<Entry<Key>> sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
