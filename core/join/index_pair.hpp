// The indexes of both sides, of any kind, as the join drivers call them: once for each group. Every kind of
// index is compiled by itself (structure.cpp); behind the two or three virtual calls of a group everything is
// inlined.
#pragma once

#include "../workers.hpp"
#include "batch.hpp"
#include "filter.hpp"
#include "plain.hpp"
#include "ranges.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SharedIndexes;

template <class Key>
class IndexPair {
  public:
    virtual ~IndexPair() = default;
    // Inserts all entries, then probes for all tasks.
    virtual void join(const Group<Key>& group, MatchList& matches) = 0;
    virtual void join(const Group<Key>& group, MatchCount& matches) = 0;
    virtual void join(const Group<Key>& group, FilteredList& matches) = 0;
    virtual void join(const Group<Key>& group, MatchRanges& matches) = 0;
    // Joins plain arrivals, as PlainJoin::run does. Other indexes than the bucket-tree return 0.
    virtual std::size_t join_plain(const PlainArrivals<Key>&, std::size_t, std::size_t, ResultWriter&,
                                   MatchList&, Pairs&) {
        return 0;
    }
    // The same in two steps for several workers: all call insert_together with the same sorted groups, which
    // follow each other in the order of arrival; then each group is probed for by one of them. Once all have
    // come, one of them calls ready(), before the groups are read. Indexes that workers share in another way
    // do without.
    virtual void insert_together(const std::vector<Group<Key>>&, Workers&, std::size_t,
                                 const std::function<void()>&) {
        not_in_phases();
    }
    virtual void probe(const Group<Key>&, MatchList&) const { not_in_phases(); }
    virtual void probe(const Group<Key>&, MatchCount&) const { not_in_phases(); }
    virtual void probe(const Group<Key>&, FilteredList&) const { not_in_phases(); }
    // Begins a subwindow of a side for up to `capacity` entries, the first of which must follow; nothing if
    // the index has no subwindows.
    virtual void create(int, std::uint32_t, std::size_t) {}
    // `by_key` are the same entries in key order; not read for up to kGroup.
    virtual void insert(int side, const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) = 0;
    // Appends the entries of a side to `out`, in any order, expired ones among them.
    virtual void list(int side, std::vector<Entry<Key>>& out) const = 0;
    virtual std::uint64_t largest_group(std::uint64_t live) const = 0;
    virtual void forget(std::uint32_t left, std::uint32_t right) = 0;
    virtual void check(int side, std::uint32_t first, std::uint32_t next) const = 0;
    virtual std::size_t bytes() const = 0;
    // The same indexes where several workers can join over them at the same time.
    virtual SharedIndexes<Key>* shared() { return nullptr; }

  private:
    [[noreturn]] static void not_in_phases() { throw std::logic_error("these indexes have no phases"); }
};

template <class Key, class Index, class Base = IndexPair<Key>>
class IndexPairOf : public Base {
    static_assert(WindowIndex<Index, Key>);

  public:
    explicit IndexPairOf(const JoinSpec& spec)
        : self_join_(spec.self_join), index_{Index(spec.options), Index(spec.options)} {}

    void join(const Group<Key>& group, MatchList& matches) override { run(group, matches); }
    void join(const Group<Key>& group, MatchCount& matches) override { run(group, matches); }
    void join(const Group<Key>& group, FilteredList& matches) override { run(group, matches); }
    void join(const Group<Key>& group, MatchRanges& matches) override { run(group, matches); }

    std::size_t join_plain(const PlainArrivals<Key>& arrivals, std::size_t group, std::size_t limit,
                           ResultWriter& writer, MatchList& list, Pairs& pairs) override {
        if constexpr (requires { typename Index::Leaf; })
            return PlainJoin<Key, Index>(index_, writer, list).run(arrivals, group, limit, pairs);
        return 0;
    }

    void insert_together(const std::vector<Group<Key>>& groups, Workers& pool, std::size_t worker,
                         const std::function<void()>& ready) override {
        const auto take = [&](auto work) { deal_.take(worker, pool.working(), work); };
        if constexpr (requires { typename Index::Parts; }) {
            pool.meet([&] {
                ready();
                begin_parts(groups, pool.working());
            });
            take([&](std::size_t piece) { index_[piece % 2].insert_part(parts_[piece % 2], piece / 2); });
            pool.meet([&] { settle_parts(); });
            take([&](std::size_t piece) { index_[piece % 2].sweep_part(parts_[piece % 2], piece / 2); });
            pool.meet([&] { for_both([&](int i) { index_[i].end_parts(parts_[i]); }); });
        } else {
            pool.meet([&] {
                ready();
                deal_.start(2);
            });
            take([&](std::size_t side) { insert_gathered(groups, static_cast<int>(side)); });
            pool.meet();
        }
    }

    void probe(const Group<Key>& group, MatchList& matches) const override { probe_both(group, matches); }
    void probe(const Group<Key>& group, MatchCount& matches) const override { probe_both(group, matches); }
    void probe(const Group<Key>& group, FilteredList& matches) const override { probe_both(group, matches); }

    void insert(int side, const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) override {
        insert_all(index_[side], entries, count, by_key);
    }

    void create(int side, std::uint32_t position, std::size_t capacity) override {
        if constexpr (requires { index_[side].create(position, capacity); })
            index_[side].create(position, capacity);
    }

    void list(int side, std::vector<Entry<Key>>& out) const override {
        index_[side].each([&](Key key, std::uint32_t position) { out.push_back({key, position}); });
    }

    std::uint64_t largest_group(std::uint64_t live) const override {
        return slidejoin::SLIDEJOIN_TARGET::largest_group<Index>(live);
    }

    void forget(std::uint32_t left, std::uint32_t right) override {
        index_[0].forget(left);
        index_[1].forget(right);
    }

    void check(int side, std::uint32_t first, std::uint32_t next) const override {
        index_[side].check(first, next);
    }

    std::size_t bytes() const override {
        std::size_t total = sizeof *this + index_[0].bytes() + index_[1].bytes();
        for (const Gathered& each : gathered_)
            total += each.entries.bytes() + each.by_key.bytes() + each.scratch.bytes();
        if constexpr (requires { parts_[0].bytes(); }) total += parts_[0].bytes() + parts_[1].bytes();
        return total;
    }

  protected:
    bool self_join_;
    Index index_[2];  // a self-join uses the first only

  private:
    const Index& probed(int side) const { return index_[self_join_ ? 0 : side]; }

    template <class Matches>
    void run(const Group<Key>& group, Matches& matches) {
        if (group.single) {
            const int own = group.tasks->partner_is_left;
            return run_one(own, *group.entries[own], *group.tasks, matches);
        }
        if constexpr (requires { typename Index::GroupInserts; })
            if (group.order_count[0] <= kGroup && group.order_count[1] <= kGroup && !group.sorted)
                return run_prefetched(group, matches);
        for (int i = 0; i < 2; ++i)
            insert_all(index_[i], group.entries[i], group.entry_count[i], group.by_key[i]);
        probe_both(group, matches);
    }

    template <class Matches>
    void probe_both(const Group<Key>& group, Matches& matches) const {
        for (int i = 0; i < 2; ++i)
            probe_all(probed(i), group.tasks, group.order[i], group.order_count[i], group.sorted, matches);
    }

    // Divides the entries of both sides into parts, as many as there are workers.
    void begin_parts(const std::vector<Group<Key>>& groups, std::size_t workers) {
        for_both([&](int side) {
            parts_[side].lists.clear();
            for (const Group<Key>& group : groups)
                parts_[side].lists.push_back(
                    {group.entries[side], group.by_key[side], group.entry_count[side]});
            index_[side].begin_parts(parts_[side], workers);
        });
        deal_.start(2 * workers);
    }

    void settle_parts() {
        for_both([&](int side) { index_[side].settle_parts(parts_[side]); });
        deal_.start(2 * parts_[0].parts.size());
    }

    template <class Call>
    static void for_both(Call call) {
        call(0);
        call(1);
    }

    // Inserts the entries of all groups as those of one.
    void insert_gathered(const std::vector<Group<Key>>& groups, int side) {
        std::size_t count = 0;
        for (const Group<Key>& group : groups) count += group.entry_count[side];
        if (!count) return;
        Gathered& gathered = gathered_[side];
        gathered.entries.reserve(count);
        Entry<Key>* to = gathered.entries.data();
        for (const Group<Key>& group : groups)
            to = std::copy_n(group.entries[side], group.entry_count[side], to);
        sort_copy(gathered.entries.data(), count, gathered.by_key, gathered.scratch);
        insert_all(index_[side], gathered.entries.data(), count, gathered.by_key.data());
    }

    // Prefetches the memory of the whole group in both indexes before any of it is used.
    template <class Matches>
    void run_prefetched(const Group<Key>& group, Matches& matches) {
        typename Index::GroupInserts inserts[2];
        typename Index::GroupProbes probes[2];
        for (int i = 0; i < 2; ++i) {
            index_[i].prefetch_inserts(group.entries[i], group.entry_count[i], inserts[i]);
            probed(i).prefetch_probes(group.tasks, group.order[i], group.order_count[i], probes[i]);
        }
        for (int i = 0; i < 2; ++i)
            if (group.entry_count[i])
                index_[i].insert_group(group.entries[i], group.entry_count[i], inserts[i]);
        for (int i = 0; i < 2; ++i)
            probed(i).probe_group(group.tasks, group.order[i], group.order_count[i], matches, probes[i]);
    }

    // One tuple: prefetches the memory of both indexes before either is used.
    template <class Matches>
    void run_one(int own, const Entry<Key>& entry, Task<Key>& task, Matches& matches) {
        const Index& met = index_[1 - own];
        matches.begin(task);
        if constexpr (PrefetchingIndex<Index, Key>) {
            const auto insert_at = index_[own].prefetch_insert(entry.key);
            const auto probe_at = met.prefetch_probe(task.interval);
            index_[own].insert(entry.key, entry.value, insert_at);
            met.probe(task.interval, task.visible, matches, probe_at);
        } else {
            index_[own].insert(entry.key, entry.value);
            met.probe(task.interval, task.visible, matches);
        }
        task.found_to = matches.size();
    }

    struct Gathered {
        Buffer<Entry<Key>> entries, by_key, scratch;
    };
    struct NoParts {};
    template <class I>
    static auto parts_of(int) -> typename I::Parts;
    template <class I>
    static NoParts parts_of(...);

    Gathered gathered_[2];  // where an index takes the entries of a side from one worker
    [[no_unique_address]] decltype(parts_of<Index>(0)) parts_[2];
    Deal deal_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
