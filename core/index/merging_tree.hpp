// A window in two parts, as in the IM-Tree and the PIM-Tree of "Parallel Index-based Stream Join on a
// Multicore CPU" (Shahvarani, Jacobsen): arrivals enter a small mutable part, most entries are in an
// immutable tree. When the mutable part holds a share m (merge_ratio) of the window, both are merged into the
// next immutable tree, which leaves out expired entries; between merges the visible range filters them. No
// entry is deleted by itself.
//
// An insert costs O(log(m w)), and 1 + 1/m entries copied by the merges; a probe searches both parts. Memory:
// the immutable tree, an array of the same size that takes the result of the next merge, and the mutable
// part.
#pragma once

#include "immutable_tree.hpp"
#include "lazy_expiry.hpp"
#include "tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The mutable part. It may be divided as the immutable tree is: every entry belongs to the node at depth()
// that its key belongs to. InsertHint and ProbeHint say where an insert or a probe continues.
template <class M, class Key>
concept MutablePart =
    requires(M part, const M constant, const ImmutableTree<Key>& stable, const IndexOptions& options, Key key,
             std::size_t node, std::uint32_t position, Interval<Key> interval, Visible visible,
             const Entry<Key>* entries, std::size_t count, const std::size_t* nodes, MatchList list,
             typename M::InsertHint insert_hint, typename M::ProbeHint probe_hint) {
        M(options);
        { M::kOrdered } -> std::convertible_to<bool>;  // equal keys stand in the order of their positions
        part.restart(stable, count);                   // empty, for about `count` entries
        { constant.depth() } -> std::same_as<unsigned>;
        { constant.count() } -> std::same_as<std::size_t>;  // nodes at this depth
        { constant.size() } -> std::same_as<std::size_t>;   // entries
        { constant.prefetch_insert(key, node) } -> std::same_as<typename M::InsertHint>;
        { constant.prefetch_probe(interval, node) } -> std::same_as<typename M::ProbeHint>;
        part.insert(key, position, insert_hint);
        part.insert_group(entries, nodes, count);
        part.insert_sorted(entries, count, stable);
        constant.probe(interval, visible, list, probe_hint, stable);
        // The entries of nodes [from, to) in key order.
        constant.visit(node, count, [](const Key*, const std::uint32_t*, std::size_t) {});
        constant.check(stable);
        { constant.bytes() } -> std::same_as<std::size_t>;
    };

template <class Key, class Mutable>
class MergingTree {
    static_assert(MutablePart<Mutable, Key>);

  public:
    using InsertHint = typename Mutable::InsertHint;
    struct ProbeHint {
        typename Mutable::ProbeHint recent;
        std::size_t leaf;  // of the immutable tree
    };

    explicit MergingTree(const IndexOptions& options) : options_(options), recent_(options) {
        recent_.restart(stable_, options_.min_entries);
    }

    void insert(Key key, std::uint32_t position) { insert(key, position, prefetch_insert(key)); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        probe(interval, visible, matches, prefetch_probe(interval));
    }

    // Prefetches the memory of an insert or a probe. The hint holds until the next insert.
    InsertHint prefetch_insert(Key key) const {
        return recent_.prefetch_insert(key, stable_.descend(0, 0, recent_.depth(), key));
    }

    ProbeHint prefetch_probe(Interval<Key> interval) const {
        const std::size_t node = stable_.descend(0, 0, recent_.depth(), interval.low);
        const typename Mutable::ProbeHint recent = recent_.prefetch_probe(interval, node);
        return {recent, stable_.prefetch_leaf(interval.low, node, recent_.depth())};
    }

    void insert(Key key, std::uint32_t position, InsertHint hint) {
        recent_.insert(key, position, hint);
        note(position, position, 1);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, ProbeHint hint) const {
        recent_.probe(interval, visible, matches, hint.recent, stable_);
        stable_.probe(interval, visible, matches, hint.leaf);
    }

    void insert_group(const Entry<Key>* entries, std::size_t count) {
        Key keys[kGroup] = {};
        std::size_t nodes[kGroup] = {};
        for (std::size_t i = 0; i < count; ++i) keys[i] = entries[i].key;
        stable_.locate(keys, count, 0, recent_.depth(), nodes);
        recent_.insert_group(entries, nodes, count);
        note(entries[0].value, entries[count - 1].value, count);
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        recent_.insert_sorted(by_key, count, stable_);
        note(entries[0].value, entries[count - 1].value, count);
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        ProbeHint hints[kGroup];
        locate_probes(tasks, order, count, hints);
        for (std::size_t i = 0; i < count; ++i) {
            Task<Key>& task = tasks[order[i]];
            matches.begin(task);
            probe(task.interval, task.visible, matches, hints[i]);
            task.found_to = matches.size();
        }
    }

    // The hints of at most kGroup probes, or inserts, which are located together.
    void locate_probes(const Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                       ProbeHint* hints) const {
        Key lows[kGroup] = {};
        std::size_t nodes[kGroup] = {};
        for (std::size_t i = 0; i < count; ++i) lows[i] = tasks[order[i]].interval.low;
        stable_.locate(lows, count, 0, recent_.depth(), nodes);
        for (std::size_t i = 0; i < count; ++i)
            hints[i].recent = recent_.prefetch_probe(tasks[order[i]].interval, nodes[i]);
        stable_.locate(lows, count, recent_.depth(), stable_.height(), nodes);
        for (std::size_t i = 0; i < count; ++i) hints[i].leaf = nodes[i];
    }

    void locate_inserts(const Key* keys, std::size_t count, InsertHint* hints) const {
        std::size_t nodes[kGroup] = {};
        stable_.locate(keys, count, 0, recent_.depth(), nodes);
        for (std::size_t i = 0; i < count; ++i) hints[i] = recent_.prefetch_insert(keys[i], nodes[i]);
    }

    // Several workers insert, in any order, entries that were announced together; nothing is merged
    // meanwhile. `from` and `to` are the positions of the first and the last one.
    void announce(std::uint32_t from, std::uint32_t to, std::size_t count) {
        expiry_.start(from);
        last_ = to;
        recent_count_ += count;
    }

    void insert_announced(Key key, std::uint32_t position, InsertHint hint) {
        recent_.insert(key, position, hint);
    }

    const Mutable& recent() const { return recent_; }
    std::size_t recent_count() const { return recent_count_; }  // those announced among them

    // So many recent entries are merged.
    std::size_t limit() const {
        const double share = options_.merge_ratio * static_cast<double>(window());
        return std::max<std::size_t>(options_.min_entries, static_cast<std::size_t>(share));
    }

    // A merge makes another tree, `next`, of what this one holds; announced entries that are not inserted yet
    // are to be inserted there. This tree is only read, and `next` keeps the memory that it has. Several
    // workers make the parts of a merge at the same time: each copies the entries of some nodes of the
    // mutable part, and of the immutable tree's nodes with the same numbers, to their place.
    std::size_t nodes() const { return recent_.count(); }
    std::size_t size() const { return stable_.size() + recent_count_; }

    // The entries of some nodes: those that have not expired, and those of the mutable part.
    struct NodeEntries {
        std::size_t live = 0;
        std::size_t recent = 0;
    };

    NodeEntries count_entries(std::size_t from, std::size_t to) const {
        const std::size_t begin = first_of(from);
        const std::uint32_t* const positions = stable_.run().positions.data();
        NodeEntries entries{tally_positions(positions + begin, first_of(to) - begin, expiry_.live()), 0};
        recent_.visit(from, to, [&](const Key*, const std::uint32_t* recent, std::size_t count) {
            entries.live += tally_positions(recent, count, expiry_.live());
            entries.recent += count;
        });
        return entries;
    }

    // Makes room for so many entries.
    void start_merge(MergingTree& next, std::size_t size) const {
        next.spare_ = {};
        next.stable_.take(next.spare_);
        next.spare_.start(size);
        next.spare_.size = size;
        next.stable_.shape(size);
    }

    // Copies the entries of nodes [from, to), those numbered [at, end) of all.
    void merge_nodes(std::size_t from, std::size_t to, MergingTree& next, std::size_t at,
                     std::size_t end) const {
        copy_nodes(from, to, next.spare_, at, end);
        next.stable_.note_leaves(next.spare_, at, end);
    }

    // All entries have been copied; so many are of the mutable part.
    void finish_merge(MergingTree& next, std::size_t recent) const {
        next.spare_.finish();
        next.stable_.take_noted(next.spare_);
        restart(next, recent);
    }

    // Expired entries are left out by the next merge.
    void forget(std::uint32_t position) {
        expiry_.forget(position, [&] { merge(); });
        if (!expiry_.started() || !before(last_, position)) return;
        if (recent_count_ + stable_.size() > 0) merge();
        expiry_.stop();
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        stable_.run().each(visit);
        recent_.visit(0, nodes(), [&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) visit(keys[i], positions[i]);
        });
    }

    void check(std::uint32_t, std::uint32_t next) const {
        stable_.check(Mutable::kOrdered);
        recent_.check(stable_);
        const bool holds = stable_.size() + recent_count_ > 0;
        require(!holds || before(last_, next), "merging tree: the last entry is not before its time");
        std::size_t held = 0;
        const auto in_window = [&](const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i)
                require(positions[i] - expiry_.oldest() <= last_ - expiry_.oldest(),
                        "merging tree: positions are between the oldest and the last");
        };
        in_window(stable_.run().positions.data(), stable_.size());
        recent_.visit(0, nodes(), [&](const Key*, const std::uint32_t* positions, std::size_t count) {
            in_window(positions, count);
            held += count;
        });
        require(held == recent_count_, "merging tree: as many recent entries as it counts");
        require(!holds || held + stable_.size() <= std::size_t{last_ - expiry_.oldest()} + 1,
                "merging tree: as many entries as positions at most");
    }

    std::size_t bytes() const { return stable_.bytes() + spare_.bytes() + recent_.bytes(); }

  private:
    std::size_t window() const {
        return before(last_, expiry_.first()) ? 0 : std::size_t{last_ - expiry_.first()} + 1;
    }

    // `count` entries were inserted, the first and the last at these positions.
    void note(std::uint32_t from, std::uint32_t to, std::size_t count) {
        expiry_.start(from);
        last_ = to;
        recent_count_ += count;
        if (recent_count_ >= limit()) merge();
    }

    // Merges this tree by itself.
    void merge() {
        const std::size_t recent = recent_.size();
        spare_.start(std::min(size(), window()));
        spare_.size = copy_nodes(0, nodes(), spare_, 0, size());
        spare_.finish();
        stable_.take(spare_);
        restart(*this, recent);
    }

    // Copies the entries of nodes [from, to) behind `at` others, up to `end` at most. Returns how many there
    // are then.
    std::size_t copy_nodes(std::size_t from, std::size_t to, SortedEntries<Key>& out, std::size_t at,
                           std::size_t end) const {
        Copy copy{stable_.run().keys.data(),
                  stable_.run().positions.data(),
                  first_of(to),
                  first_of(from),
                  out.keys.data(),
                  out.positions.data(),
                  at,
                  end,
                  expiry_.first()};
        recent_.visit(from, to, [&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
                copy.up_to(keys[i]);  // of equal keys, those of the immutable tree are older
                copy.put(keys[i], positions[i]);
            }
        });
        copy.rest();
        return copy.size;
    }

    // The mutable part of `next`, whose immutable tree now holds `recent` more of this one's entries.
    void restart(MergingTree& next, std::size_t recent) const {
        next.recent_count_ = recent_count_ - recent;
        next.expiry_ = expiry_;
        next.expiry_.cleaned(expiry_.first());
        next.last_ = last_;
        next.recent_.restart(next.stable_, limit());
    }

    // How many entries of the immutable tree stand before a node of the mutable part.
    std::size_t first_of(std::size_t node) const { return stable_.entries_before(recent_.depth(), node); }

    // Copies entries that have not expired; an expired one is overwritten by the next. Nothing is written
    // from `end` on, where the entries of other nodes stand.
    struct Copy {
        const Key* from_keys;
        const std::uint32_t* from_positions;
        std::size_t from_end;
        std::size_t taken;
        Key* keys;
        std::uint32_t* positions;
        std::size_t size;
        std::size_t end;
        std::uint32_t first;

        void put(Key key, std::uint32_t position) {
            if (size == end) return;  // the rest has expired
            keys[size] = key;
            positions[size] = position;
            size += !before(position, first);
        }

        void up_to(Key key) {
            for (; taken < from_end && from_keys[taken] <= key; ++taken)
                put(from_keys[taken], from_positions[taken]);
        }

        void rest() {
            for (; taken < from_end; ++taken) put(from_keys[taken], from_positions[taken]);
        }
    };

    IndexOptions options_;
    ImmutableTree<Key> stable_;
    Mutable recent_;
    SortedEntries<Key> spare_;  // takes the result of the next merge
    std::size_t recent_count_ = 0;
    LazyExpiry expiry_;
    std::uint32_t last_ = 0;  // position of the newest entry
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
