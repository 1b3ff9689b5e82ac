// A window in two parts, the shape of the IM-Tree and the PIM-Tree of "Parallel Index-based Stream Join on a
// Multicore CPU" (Shahvarani, Jacobsen): arrivals enter a small mutable part, most entries stand in an
// immutable tree. When the mutable part holds a share m (merge_ratio) of the window, both are merged into the
// next immutable tree, and entries that were forgotten until then are left out; between merges the visible
// range filters them. Nothing is ever deleted.
//
// An insert costs O(log(m w)), and 1 + 1/m entries copied at the merges; a probe searches both parts. Memory:
// the immutable tree and one run more, which takes the next merge's result, then the mutable part.
#pragma once

#include "immutable_tree.hpp"
#include "tree.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The mutable part. It may follow the immutable tree: at depth() every entry belongs to the part of the node
// that its key belongs to. InsertHint and ProbeHint say where an insert or a probe goes on.
template <class M, class Key>
concept MutablePart =
    requires(M part, const M constant, const ImmutableTree<Key>& stable, const IndexOptions& options, Key key,
             std::size_t node, std::uint32_t position, Interval<Key> interval, Visible visible,
             const Entry<Key>* entries, std::size_t count, const std::size_t* nodes, MatchList list,
             typename M::InsertHint insert_hint, typename M::ProbeHint probe_hint) {
        M(options);
        part.restart(stable, count);  // empty, for about `count` entries
        { constant.depth() } -> std::same_as<unsigned>;
        { constant.prefetch_insert(key, node) } -> std::same_as<typename M::InsertHint>;
        { constant.prefetch_probe(interval, node) } -> std::same_as<typename M::ProbeHint>;
        part.insert(key, position, insert_hint);
        part.insert_group(entries, nodes, count);
        part.insert_sorted(entries, count, stable);
        constant.probe(interval, visible, list, probe_hint, stable);
        constant.visit([](const Key*, const std::uint32_t*, std::size_t) {});  // entries in key order
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
        recent_.restart(stable_, options_.least);
    }

    void insert(Key key, std::uint32_t position) { insert(key, position, prefetch_insert(key)); }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        probe(interval, visible, matches, prefetch_probe(interval));
    }

    // Where an insert or a probe goes; its memory is on its way from now on. Holds until the next insert.
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

    void insert_batch(const Entry<Key>* entries, std::size_t count) {
        batch_.reserve(count);
        std::memcpy(batch_.data(), entries, count * sizeof(Entry<Key>));
        sort_entries(batch_.data(), count, sorting_);
        recent_.insert_sorted(batch_.data(), count, stable_);
        note(entries[0].value, entries[count - 1].value, count);
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        Key lows[kGroup] = {};
        std::size_t nodes[kGroup] = {};
        typename Mutable::ProbeHint recent[kGroup] = {};
        for (std::size_t i = 0; i < count; ++i) lows[i] = tasks[order[i]].interval.low;
        stable_.locate(lows, count, 0, recent_.depth(), nodes);
        for (std::size_t i = 0; i < count; ++i)
            recent[i] = recent_.prefetch_probe(tasks[order[i]].interval, nodes[i]);
        stable_.locate(lows, count, recent_.depth(), stable_.height(), nodes);
        for (std::size_t i = 0; i < count; ++i) {
            Task<Key>& task = tasks[order[i]];
            matches.begin(task);
            probe(task.interval, task.visible, matches, {recent[i], nodes[i]});
            task.found_to = matches.size();
        }
    }

    template <class Visit>
    void each(Visit visit) const {
        const auto visit_all = [&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) visit(keys[i], positions[i]);
        };
        visit_all(stable_.run().keys.data(), stable_.run().positions.data(), stable_.size());
        recent_.visit(visit_all);
    }

    // A large window is forgotten in steps, so that 32-bit positions never wrap around.
    void forget(std::uint32_t position) {
        if (!started_ || !before(first_, position)) return;
        if (before(first_ + kLongest / 2, position)) {
            forget(first_ + kLongest / 2);
            return forget(position);
        }
        first_ = position;
        if (before(last_, first_)) {  // nothing is left: what was known of positions goes out of date
            if (recent_count_ + stable_.size() > 0) merge();
            started_ = false;
        } else if (first_ - oldest_ > kLongest) {
            merge();
        }
    }

    void check(std::uint32_t, std::uint32_t next) const {
        stable_.check();
        recent_.check(stable_);
        const bool holds = stable_.size() + recent_count_ > 0;
        require(!holds || before(last_, next), "merging tree: the last entry is not before its time");
        std::size_t held = 0;
        const auto in_window = [&](const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i)
                require(positions[i] - oldest_ <= last_ - oldest_,
                        "merging tree: positions are between the oldest and the last");
        };
        in_window(stable_.run().positions.data(), stable_.size());
        recent_.visit([&](const Key*, const std::uint32_t* positions, std::size_t count) {
            in_window(positions, count);
            held += count;
        });
        require(held == recent_count_, "merging tree: as many recent entries as it counts");
        require(!holds || held + stable_.size() <= std::size_t{last_ - oldest_} + 1,
                "merging tree: as many entries as positions at most");
    }

    std::size_t bytes() const {
        return stable_.bytes() + spare_.bytes() + recent_.bytes() + batch_.bytes() + sorting_.bytes();
    }

  private:
    // What was forgotten is gone after so many positions at the latest, however rare inserts are.
    static constexpr std::uint32_t kLongest = std::uint32_t{1} << 30;

    std::size_t window() const { return before(last_, first_) ? 0 : std::size_t{last_ - first_} + 1; }

    // How many recent entries make a merge.
    std::size_t limit() const {
        const double share = options_.merge_ratio * static_cast<double>(window());
        return std::max<std::size_t>(options_.least, static_cast<std::size_t>(share));
    }

    // Entries of these positions have come.
    void note(std::uint32_t from, std::uint32_t to, std::size_t count) {
        if (!started_) first_ = oldest_ = from;
        started_ = true;
        last_ = to;
        recent_count_ += count;
        if (recent_count_ >= limit()) merge();
    }

    void merge() {
        spare_.start(std::min(stable_.size() + recent_count_, window()));
        Copy copy{stable_.run().keys.data(),
                  stable_.run().positions.data(),
                  stable_.size(),
                  0,
                  spare_.keys.data(),
                  spare_.positions.data(),
                  0,
                  first_};
        recent_.visit([&](const Key* keys, const std::uint32_t* positions, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
                copy.up_to(keys[i]);  // of equal keys, those of the immutable tree are older
                copy.put(keys[i], positions[i]);
            }
        });
        copy.rest();
        spare_.size = copy.size;
        spare_.finish();
        stable_.take(spare_);
        recent_count_ = 0;
        oldest_ = first_;
        recent_.restart(stable_, limit());
    }

    // Copies what is not forgotten; an entry that is, is overwritten by the next.
    struct Copy {
        const Key* from_keys;
        const std::uint32_t* from_positions;
        std::size_t from_size;
        std::size_t taken;
        Key* keys;
        std::uint32_t* positions;
        std::size_t size;
        std::uint32_t first;

        void put(Key key, std::uint32_t position) {
            keys[size] = key;
            positions[size] = position;
            size += !before(position, first);
        }

        void up_to(Key key) {
            for (; taken < from_size && from_keys[taken] <= key; ++taken)
                put(from_keys[taken], from_positions[taken]);
        }

        void rest() {
            for (; taken < from_size; ++taken) put(from_keys[taken], from_positions[taken]);
        }
    };

    IndexOptions options_;
    ImmutableTree<Key> stable_;
    Mutable recent_;
    SortedEntries<Key> spare_;  // takes the result of the next merge
    std::size_t recent_count_ = 0;
    bool started_ = false;      // something was inserted; only then are these known:
    std::uint32_t first_ = 0;   // positions before are forgotten
    std::uint32_t last_ = 0;    // position of the newest entry
    std::uint32_t oldest_ = 0;  // no entry stands before it
    Buffer<Entry<Key>> batch_;
    Buffer<Entry<Key>> sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
