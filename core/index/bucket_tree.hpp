// The bucket-tree: small unsorted leaves under a directory of their ranges (bucket_store.hpp).
//
// A probe compares all keys of the leaves that its interval meets, a vector at a time. Expired entries are
// not deleted one by one, but when their leaf is full or swept. The bucket-tree combines the splitters over
// sub-trees of "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen) with the unsorted
// partitions of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen).
//
// An insert touches one cache line of keys and one of positions; a probe the keys of one or two leaves, up to
// four lines each, and the positions of those in the interval; both the way through the directory. Groups
// prefetch all of that. 13-20 bytes a tuple with 32-bit keys. Leaves have numbers of 25 bits, enough for 500
// million entries of any keys and a billion of uniform ones.
#pragma once

#include "bucket_store.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class BucketTree {
    using Directory = BucketDirectory<Key>;
    using Block = typename Directory::Block;

  public:
    using Leaf = BucketLeaf<Key>;
    using Slot = typename Directory::Slot;

    explicit BucketTree(const IndexOptions& = {}) {}

    void insert(Key key, std::uint32_t position) {
        start(position);
        place(key, position);
        sweep(position, 1);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        scan(find(interval.low), interval, visible, matches);
    }

    // The same in single steps, for callers that do them for many keys at a time (join/plain.hpp).
    [[gnu::always_inline]] Block* find_block(Key key) const {
        Block* const block = buckets_.directory().find_block(key);
        prefetch_span<sizeof(Block::bounds)>(block->bounds);
        return block;
    }
    [[gnu::always_inline]] static Slot find_slot(Block* block, Key key) {
        const unsigned at = Directory::slot_in(block, key);
        prefetch(block->leaves + at);
        return {block, at};
    }
    static bool next(Slot& slot) { return Directory::next(slot); }
    static bool is_queue(Slot slot) { return BucketStore<Key>::is_queue(slot); }
    Slot find(Key key) const { return buckets_.directory().find(key); }
    std::uint64_t version() const { return buckets_.version(); }  // slots hold as long as it stays
    const Leaf& leaf(Slot slot) const { return buckets_.leaf(slot); }
    void start(std::uint32_t position) { buckets_.start(position); }
    void place(Key key, std::uint32_t position) { buckets_.place(key, position, find(key)); }
    void sweep(std::uint32_t newest, std::size_t inserted) { buckets_.sweep(newest, inserted); }

    // Prefetches what an insert writes. Returns the leaf, or nullptr for a queue.
    Leaf* fetch_end(Slot slot) {
        if (is_queue(slot)) return nullptr;
        Leaf& leaf = buckets_.leaf(slot);
        const unsigned end = std::min<unsigned>(slot.count(), Leaf::kEntries - 1);
        prefetch_write(leaf.keys + end);
        prefetch_write(leaf.positions + end);
        return &leaf;
    }

    // Prefetches the keys that a probe compares. Returns the leaf, or nullptr for a queue.
    const Leaf* fetch_keys(Slot slot) const {
        if (is_queue(slot)) return nullptr;
        const Leaf& leaf = buckets_.leaf(slot);
        fetch_used(leaf.keys, slot.count());
        return &leaf;
    }

    void fetch_positions(Slot slot) const {
        if (!buckets_.is_queue(slot)) fetch_used(buckets_.leaf(slot).positions, slot.count());
    }

    // Prefetches what a probe of several leaves reads first. Returns whether that is all, and no queue.
    bool fetch_leaves(Slot slot, Interval<Key> interval) const {
        fetch_keys(slot);
        for (unsigned i = 0; i < kLeavesAhead && !is_queue(slot); ++i) {
            fetch_positions(slot);
            if (slot.bound() >= interval.high) return fetch_keys(slot) != nullptr;
            Directory::next(slot);
        }
        return false;
    }

    // Which of the first `count` entries of a leaf lie in the interval. Prefetches their positions.
    [[gnu::always_inline]] static std::uint64_t choose(const Leaf& leaf, unsigned count,
                                                       Interval<Key> interval) {
        const std::uint64_t chosen = lanes_within(leaf.keys, count, interval);
        prefetch(leaf.positions + std::countr_zero(chosen | std::uint64_t{1} << 63));
        prefetch(leaf.positions + (63 - std::countl_zero(chosen | 1)));
        return chosen;
    }

    // The slots of up to kGroup inserts, which are found again if the version has changed.
    struct GroupInserts {
        Slot slots[kGroup];
        std::uint64_t version;
    };

    void prefetch_inserts(const Entry<Key>* entries, std::size_t count, GroupInserts& hints) {
        hints.version = buckets_.version();
        locate(count, hints.slots, [&](std::size_t i) { return entries[i].key; });
        for (std::size_t i = 0; i < count; ++i) fetch_end(hints.slots[i]);
    }

    // The leaves that up to kGroup probes visit: mostly one each, or two where an interval reaches into the
    // next leaf.
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
        visits.version = buckets_.version();
        locate(count, slots, [&](std::size_t i) { return tasks[order[i]].interval.low; });
        for (std::size_t i = 0; i < count; ++i) {
            const Slot slot = slots[i];
            const Key high = tasks[order[i]].interval.high;
            fetch_keys(slot);
            if (high <= slot.bound()) [[likely]] {
                visits.add(slot, order[i], buckets_.is_queue(slot) ? Kind::many : Kind::first);
                continue;
            }
            Slot following = slot;
            Directory::next(following);
            fetch_keys(following);
            if (high <= following.bound() && !buckets_.is_queue(slot) && !buckets_.is_queue(following)) {
                visits.add(slot, order[i], Kind::first);
                visits.add(following, order[i], Kind::second);
            } else {
                visits.add(slot, order[i], Kind::many);
            }
        }
    }

    void insert_group(const Entry<Key>* entries, std::size_t count, const GroupInserts& hints) {
        buckets_.start(entries[0].value);
        for (std::size_t i = 0; i < count; ++i)
            buckets_.place(entries[i].key, entries[i].value,
                           hints.version == buckets_.version() ? hints.slots[i] : find(entries[i].key));
        buckets_.sweep(entries[count - 1].value, count);
    }

    void insert_group(const Entry<Key>* entries, std::size_t count) {
        GroupInserts hints;
        prefetch_inserts(entries, count, hints);
        insert_group(entries, count, hints);
    }

    // Inserts in key order, so that neighbours fill their leaves one after the other.
    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        buckets_.start(entries[0].value);
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

    // Ranges of keys that several workers insert into at the same time: whole blocks of the directory, so
    // that they share nothing. What would change more waits until all are done.
    struct Parts {
        struct Part {
            Key last;  // the greatest key of its range
            typename BucketStore<Key>::Share share;
            std::vector<Entry<Key>> entries;
            std::vector<Entry<Key>> waiting;
        };
        std::vector<EntryList<Key>> lists;  // what is inserted: each list behind the one before
        std::vector<Part> parts;
        std::vector<Key> samples;
        std::vector<Block*> swept;
        std::uint32_t newest;
        std::size_t count;

        std::size_t bytes() const {
            const auto of = [](const auto& vector) { return vector.capacity() * sizeof vector[0]; };
            std::size_t total = of(lists) + of(parts) + of(samples) + of(swept);
            for (const Part& part : parts)
                total += of(part.share.leaves) + of(part.share.ended) + of(part.entries) + of(part.waiting);
            return total;
        }
    };

    // Divides the keys into so many parts, with about as many of the lists' entries each.
    void begin_parts(Parts& parts, std::size_t wanted) {
        for (std::size_t i = wanted; i < parts.parts.size(); ++i) buckets_.take_back(parts.parts[i].share);
        const bool even = parts.parts.size() == wanted && are_even(parts);
        parts.parts.resize(wanted);
        parts.swept.clear();
        parts.count = 0;
        for (const EntryList<Key>& list : parts.lists) {
            if (!list.count) continue;
            if (!parts.count) buckets_.start(list.entries[0].value);
            parts.newest = list.entries[list.count - 1].value;
            parts.count += list.count;
        }
        if (!even) divide(parts);
        for (typename Parts::Part& part : parts.parts) {
            part.last = buckets_.directory().block_bound(part.last);
            part.waiting.clear();
            buckets_.lend(part.share, parts.count / wanted);
        }
    }

    // Inserts the entries of one part.
    void insert_part(Parts& parts, std::size_t number) {
        typename Parts::Part& part = parts.parts[number];
        const auto up_to = [](Key key, const Entry<Key>& entry) { return key < entry.key; };
        part.entries.clear();
        for (const EntryList<Key>& list : parts.lists) {
            const Entry<Key>*from = list.by_key, *const end = from + list.count;
            if (number) from = std::upper_bound(from, end, parts.parts[number - 1].last, up_to);
            part.entries.insert(part.entries.end(), from, std::upper_bound(from, end, part.last, up_to));
        }
        insert_within(part);
    }

    // What the workers could not insert; then each sweeps its share of some blocks.
    void settle_parts(Parts& parts) {
        for (typename Parts::Part& part : parts.parts) buckets_.settle(part.share);
        for (const typename Parts::Part& part : parts.parts)
            for (const Entry<Key>& entry : part.waiting) place(entry.key, entry.value);
        if (parts.count) buckets_.plan_sweep(parts.newest, parts.count, parts.swept);
    }

    void sweep_part(Parts& parts, std::size_t number) {
        for (std::size_t i = number; i < parts.swept.size(); i += parts.parts.size())
            buckets_.sweep_block(parts.swept[i], parts.parts[number].share);
    }

    void end_parts(Parts& parts) {
        for (typename Parts::Part& part : parts.parts) buckets_.settle(part.share);
        buckets_.merge_small(parts.swept);
    }

    // Compares all keys first, so that only the positions in the intervals are prefetched.
    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count, Matches& matches,
                     const GroupProbes& visits) const {
        using Kind = typename GroupProbes::Kind;
        if (visits.version != buckets_.version()) return probe_group(tasks, order, count, matches);
        std::uint64_t chosen[2 * kGroup];
        for (unsigned i = 0; i < visits.count; ++i) {
            const auto& visit = visits.visits[i];
            chosen[i] = visit.kind == Kind::many
                            ? 0
                            : choose(leaf(visit.slot), visit.slot.count(), tasks[visit.task].interval);
        }
        for (unsigned i = 0; i < visits.count; ++i) {
            const auto& visit = visits.visits[i];
            if (visit.kind != Kind::many)
                matches.fetch(tasks[visit.task], leaf(visit.slot).positions, chosen[i]);
        }
        for (unsigned i = 0; i < visits.count; ++i) {
            const auto& [slot, number, kind] = visits.visits[i];
            Task<Key>& task = tasks[number];
            if (kind != Kind::second) matches.begin(task);
            if (kind != Kind::many) [[likely]]
                matches.among(buckets_.leaf(slot).positions, chosen[i], task.visible);
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
            for (std::size_t i = at + 2 * kGroup; i < std::min(at + 3 * kGroup, count); ++i)
                prefetch_task(tasks[order[i]]);
            prefetch_at(at + kGroup, visits[turn ^ 1]);
            probe_group(tasks, order + at, std::min(kGroup, count - at), matches, visits[turn]);
        }
    }

    void forget(std::uint32_t position) { buckets_.forget(position); }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        buckets_.each(visit);
    }

    void check(std::uint32_t first, std::uint32_t next) const { buckets_.check(first, next); }
    std::size_t bytes() const { return buckets_.bytes(); }

  private:
    static constexpr unsigned kLeavesAhead = 8;

    // Whether each part had about its share of the last entries, so that the same division serves the next.
    static bool are_even(const Parts& parts) {
        const std::size_t share = parts.count / std::max<std::size_t>(1, parts.parts.size());
        for (const typename Parts::Part& part : parts.parts)
            if (part.entries.size() > share + share / 4) return false;
        return parts.count > 0;
    }

    // Divides the keys by a sample of the entries.
    static void divide(Parts& parts) {
        constexpr std::size_t kSamples = 64;  // for each part
        const std::size_t wanted = parts.parts.size();
        const std::size_t each = std::max<std::size_t>(4, kSamples * wanted / parts.lists.size());
        parts.samples.clear();
        for (const EntryList<Key>& list : parts.lists) {
            const std::size_t step = std::max<std::size_t>(1, list.count / each);
            for (std::size_t at = step / 2; at < list.count; at += step)
                parts.samples.push_back(list.by_key[at].key);
        }
        std::sort(parts.samples.begin(), parts.samples.end());
        for (std::size_t i = 0; i < wanted; ++i) {
            const std::size_t at = parts.samples.size() * (i + 1) / wanted;
            parts.parts[i].last = at < parts.samples.size() ? parts.samples[at] : Directory::kGreatest;
        }
    }

    void insert_within(typename Parts::Part& part) {
        const Entry<Key>* const entries = part.entries.data();
        const std::size_t count = part.entries.size();
        GroupInserts hints[2];
        const auto prefetch_at = [&](std::size_t at, GroupInserts& to) {
            if (at < count) prefetch_inserts(entries + at, std::min(kGroup, count - at), to);
            to.version = part.share.moves;
        };
        prefetch_at(0, hints[0]);
        for (std::size_t at = 0, turn = 0; at < count; at += kGroup, turn ^= 1) {
            prefetch_at(at + kGroup, hints[turn ^ 1]);
            for (std::size_t i = at; i < std::min(at + kGroup, count); ++i) {
                const Entry<Key>& entry = entries[i];
                const Slot slot =
                    hints[turn].version == part.share.moves ? hints[turn].slots[i - at] : find(entry.key);
                if (!buckets_.place_within(entry.key, entry.value, slot, part.share))
                    part.waiting.push_back(entry);
            }
        }
    }

    template <class KeyOf>
    void locate(std::size_t count, Slot* slots, KeyOf key_of) const {
        for (std::size_t i = 0; i < count; ++i) slots[i].block = find_block(key_of(i));
        for (std::size_t i = 0; i < count; ++i) slots[i] = find_slot(slots[i].block, key_of(i));
    }

    // The lines that hold the first `count` entries.
    template <class Part>
    static void fetch_used(const Part* part, unsigned count) {
        const unsigned last = count - (count > 0);
        for (unsigned i = 0; i < Leaf::kEntries; i += kCacheLine / sizeof(Part))
            prefetch(part + std::min(i, last));
    }

    // Reports the matches in all leaves of an interval, from its first one on; some leaves are prefetched
    // ahead.
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
            if (buckets_.is_queue(slot)) {
                buckets_.queue(slot).probe(visible, matches);
            } else if (const Leaf& leaf = buckets_.leaf(slot); first || last) {
                matches.among(leaf.positions, lanes_within(leaf.keys, slot.count(), interval), visible);
            } else {
                matches.padded(leaf.positions, slot.count(), visible);
            }
            if (last || !Directory::next(slot)) return;
        }
    }

    BucketStore<Key> buckets_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
