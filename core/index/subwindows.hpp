// A window as a chain of subwindows in the order of arrival: the newest takes the inserts, all are probed,
// and the oldest is dropped as a whole once its last entry has expired; until then its expired entries are
// filtered out. So no structure of a subwindow deletes entries. From the chained indexes of "Parallel
// Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen) and from "PanJoin: A Partition-based
// Adaptive Stream Join" (Pan, Jacobsen).
//
// A full window consists of `length` subwindows, the oldest and the newest of them in part. The size of the
// next one follows from what the window holds when it begins, since only windows of rows know it beforehand.
// Every probe visits each subwindow that it can see a part of, so its cost grows with `length`.
#pragma once

#include "concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The structure of a subwindow. It is made for at most `capacity` entries, and may learn from the one before
// it, which is sealed. Entries arrive in the order of positions or in sorted batches; seal() says that no
// more will come. `whole` says that a probe sees every position of this subwindow.
template <class P, class Key>
concept Subwindow = requires(P part, const P constant, const P* before, Key key, std::uint32_t position,
                             const Entry<Key>* sorted, std::size_t count, Interval<Key> interval,
                             Visible visible, bool whole, MatchList list) {
    P(count, IndexOptions{}, before);
    part.insert(key, position);
    part.insert_sorted(sorted, count);  // by key, equal keys by position
    part.seal();
    constant.probe(interval, visible, whole, list);
    constant.each([](Key, std::uint32_t) {});
    constant.check();
    { constant.size() } -> std::same_as<std::size_t>;
    { constant.bytes() } -> std::same_as<std::size_t>;
};

// A subwindow that can prefetch the memory of an insert or a probe (PrefetchingIndex, concept.hpp).
template <class P, class Key>
concept PrefetchingSubwindow = requires(const P part, Key key, Interval<Key> interval) {
    { part.prefetch_insert(key) } -> std::same_as<typename P::InsertHint>;  // a pointer
    { part.prefetch_probe(interval) } -> std::same_as<typename P::ProbeHint>;
};

// A subwindow that can locate the entries of many sorted intervals at once, and report them later. The cursor
// is the place of the interval before, which began no later.
template <class P, class Key>
concept LocatingSubwindow =
    requires(const P part, const Interval<Key>* intervals, std::size_t count, typename P::Cursor& cursor,
             typename P::Stretch* found, Visible visible, bool whole, MatchList list) {
        part.locate(intervals, count, cursor, found);
        part.report(*found, *intervals, visible, whole, list);
    };

template <class Key, class Part>
class SubwindowIndex {
    static_assert(Subwindow<Part, Key>);

  public:
    // A subwindow has a share of 1 / (`length` - 1) of the window.
    SubwindowIndex(const IndexOptions& options, std::uint32_t length)
        : options_(options), share_(std::max(length, 2u) - 1) {}

    void insert(Key key, std::uint32_t position) {
        if (full(position)) begin(position);
        note(position);
        parts_.back().part->insert(key, position);
    }

    // A batch is not divided if possible: rather than fill up a subwindow that is half full, it begins one
    // that has room for it. `by_key` are the same entries in key order.
    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        for (std::size_t done = 0; done < count;) {
            const std::size_t left = count - done;
            if (full(entries[done].value) || (room() < left && room() <= capacity_ / 2))
                begin(entries[done].value, left);
            const std::size_t fitting = std::min(left, room());
            const std::uint32_t first = entries[done].value;
            const std::uint32_t last = entries[done + fitting - 1].value;
            note(last);
            if (fitting == count) return parts_.back().part->insert_sorted(by_key, count);
            batch_.reserve(count);
            std::size_t chosen = 0;
            for (std::size_t i = 0; i < count; ++i) {
                batch_[chosen] = by_key[i];
                chosen += by_key[i].value - first <= last - first;
            }
            parts_.back().part->insert_sorted(batch_.data(), chosen);
            done += fitting;
        }
    }

    // Begins a subwindow of up to `capacity` entries; its first one, at `position`, must follow.
    void create(std::uint32_t position, std::size_t capacity) {
        if (parts_.empty()) first_ = position;
        parts_.reserve(parts_.size() + 1);
        Part* last = parts_.empty() ? nullptr : parts_.back().part.get();
        if (last) last->seal();
        parts_.push_back({std::make_unique<Part>(capacity, options_, last), position, position});
        capacity_ = capacity;
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        for (const Held& held : parts_)
            if (const Sight sight = held.seen_by(visible); sight != Sight::none)
                held.part->probe(interval, visible, sight == Sight::whole, matches);
    }

    // Prefetches in as many subwindows as short chains have; the others are searched when they are probed.
    auto prefetch_insert(Key key) const
        requires PrefetchingSubwindow<Part, Key>
    {
        return parts_.empty() || room() == 0 ? nullptr : parts_.back().part->prefetch_insert(key);
    }

    auto prefetch_probe(Interval<Key> interval) const
        requires PrefetchingSubwindow<Part, Key>
    {
        ChainHint<Part> hints;
        hints.count = std::min(parts_.size(), kPrefetched);
        for (std::size_t p = 0; p < hints.count; ++p) hints.at[p] = parts_[p].part->prefetch_probe(interval);
        return hints;
    }

    template <class Hint>
    void insert(Key key, std::uint32_t position, Hint hint) {
        if (!hint || full(position)) return insert(key, position);
        note(position);
        parts_.back().part->insert(key, position, hint);
    }

    template <class Matches, class Hint>
    void probe(Interval<Key> interval, Visible visible, Matches& matches, const Hint& hints) const {
        for (std::size_t p = 0; p < parts_.size(); ++p) {
            const Sight sight = parts_[p].seen_by(visible);
            if (sight == Sight::none) continue;
            if (p < hints.count)
                parts_[p].part->probe(interval, visible, sight == Sight::whole, matches, hints.at[p]);
            else parts_[p].part->probe(interval, visible, sight == Sight::whole, matches);
        }
    }

    void insert_group(const Entry<Key>* entries, std::size_t count)
        requires PrefetchingSubwindow<Part, Key>
    {
        if (!full(entries[count - 1].value) && room() >= count) {
            note(entries[count - 1].value);
            return parts_.back().part->insert_group(entries, count);
        }
        for (std::size_t i = 0; i < count; ++i) insert(entries[i].key, entries[i].value);
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count, Matches& matches) const
        requires PrefetchingSubwindow<Part, Key>
    {
        ChainHint<Part> hints[kGroup];
        for (std::size_t i = 0; i < count; ++i) hints[i] = prefetch_probe(tasks[order[i]].interval);
        for (std::size_t i = 0; i < count; ++i) {
            Task<Key>& task = tasks[order[i]];
            matches.begin(task);
            probe(task.interval, task.visible, matches, hints[i]);
            task.found_to = matches.size();
        }
    }

    // Tasks are sorted by the lower ends of their intervals. A block of them is located in one subwindow
    // after the other, so that the upper levels of a subwindow stay in cache; then each task reports its
    // matches in all subwindows.
    template <class Matches>
    void probe_sorted(Task<Key>* tasks, const std::uint32_t* order, std::size_t count, Matches& matches) const
        requires LocatingSubwindow<Part, Key>
    {
        constexpr std::size_t kTogether = 128;
        const std::size_t parts = parts_.size();
        std::vector<typename Part::Cursor> cursors(parts);
        const Held* const held = parts_.data();
        std::vector<typename Part::Stretch> found(parts * kTogether);
        Interval<Key> intervals[kTogether];
        for (std::size_t done = 0; done < count; done += kTogether) {
            const std::size_t here = std::min(kTogether, count - done);
            for (std::size_t i = 0; i < here; ++i) intervals[i] = tasks[order[done + i]].interval;
            for (std::size_t p = 0; p < parts; ++p)
                held[p].part->locate(intervals, here, cursors[p], &found[p * kTogether]);
            for (std::size_t i = 0; i < here; ++i) {
                if (done + i + kTogether < count) prefetch_task(tasks[order[done + i + kTogether]]);
                Task<Key>& task = tasks[order[done + i]];
                const Visible visible = task.visible;
                matches.begin(task);
                for (std::size_t p = 0; p < parts; ++p)
                    if (const Sight sight = held[p].seen_by(visible); sight != Sight::none)
                        held[p].part->report(found[p * kTogether + i], intervals[i], visible,
                                             sight == Sight::whole, matches);
                task.found_to = matches.size();
            }
        }
    }

    void forget(std::uint32_t position) {
        if (parts_.empty() || !before(first_, position)) return;
        first_ = position;
        slides_ = true;
        std::size_t gone = 0;
        while (gone < parts_.size() && before(parts_[gone].last, position)) ++gone;
        if (gone) parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(gone));
    }

    template <class Visit>
    void each(Visit visit) const {
        for (const Held& held : parts_) held.part->each(visit);
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const Held& held = parts_[i];
            require(!before(held.last, held.first) && before(held.last, next),
                    "subwindow: a range of positions");
            require(!before(held.last, first), "subwindow: a forgotten one is dropped");
            require(i == 0 || before(parts_[i - 1].last, held.first), "subwindow: one follows the other");
            require(held.part->size() > 0 && held.part->size() <= std::size_t{held.last - held.first} + 1,
                    "subwindow: as many entries as positions at most");
            held.part->check();
        }
        require(parts_.empty() || parts_.back().part->size() <= capacity_, "subwindow: not overfull");
    }

    std::size_t bytes() const {
        std::size_t total = batch_.bytes() + parts_.capacity() * sizeof(Held);
        for (const Held& held : parts_) total += sizeof(Part) + held.part->bytes();
        return total;
    }

  private:
    static constexpr std::size_t kPrefetched = 4;
    static constexpr std::uint32_t kMostSpread = std::uint32_t{1} << 30;

    template <class P>
    struct ChainHint {
        std::size_t count;
        typename P::ProbeHint at[kPrefetched];
    };

    enum class Sight { none, part, whole };

    struct Held {
        std::unique_ptr<Part> part;
        std::uint32_t first;  // positions
        std::uint32_t last;

        Sight seen_by(Visible visible) const {
            const auto from = static_cast<std::int32_t>(first - visible.first);
            const auto to = static_cast<std::int32_t>(last - visible.first);
            const auto count = static_cast<std::int32_t>(visible.count);
            if (to < 0 || from >= count) return Sight::none;
            return from >= 0 && to < count ? Sight::whole : Sight::part;
        }
    };

    // A subwindow is also full if its positions are so far apart that they would wrap around, which happens
    // when few positions hold an entry.
    bool full(std::uint32_t position) const {
        return parts_.empty() || room() == 0 || position - parts_.back().first > kMostSpread;
    }
    std::size_t room() const { return capacity_ - parts_.back().part->size(); }

    // A window that does not slide yet doubles with each subwindow. Batches are not divided between
    // subwindows.
    void begin(std::uint32_t position, std::size_t batch = 1) {
        std::size_t held = 0;  // entries: many positions may be without one
        for (const Held& each : parts_) held += each.part->size();
        held = std::min<std::size_t>(held, position - first_);
        std::size_t capacity = std::max<std::size_t>(options_.min_entries, slides_ ? held / share_ : held);
        create(position, (capacity + batch - 1) / batch * batch);
    }

    void note(std::uint32_t position) { parts_.back().last = position; }

    IndexOptions options_;
    std::size_t share_;
    std::vector<Held> parts_;   // oldest first
    std::size_t capacity_ = 0;  // of the newest
    std::uint32_t first_ = 0;   // positions before it have expired
    bool slides_ = false;
    Buffer<Entry<Key>> batch_;  // the part of a batch that a subwindow gets
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
