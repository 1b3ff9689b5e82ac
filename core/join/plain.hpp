// The join of plain arrivals in one pass: each is stored, probes for one interval, and what it finds are its
// pairs. Inner and semi joins on one band over windows of rows or of time are of this kind.
//
// A group is located in both indexes, inserted, compared with the leaves that it probes and written as pairs,
// with nothing between these steps but a few numbers for each arrival. An arrival that meets several leaves
// or many candidates takes longer; where pairs are limited, a group that reaches beyond a few leaves is left
// to the general join. 30 to 40 ns an arrival with two matches in cache.
#pragma once

#include "result.hpp"

// The end of a step, for programs that measure how long each takes (benchmarks/peers/steps.hpp).
#ifndef SLIDEJOIN_STEP
#define SLIDEJOIN_STEP(name)
#endif

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
struct PlainArrivals {
    const std::uint8_t* sides;  // 0 or 1
    const Key* keys;
    const Interval<Key>* intervals;
    const Place* places;
    std::size_t count;

    unsigned side(std::size_t i) const { return sides[i]; }
    PlainArrivals from(std::size_t first) const {
        return {sides + first, keys + first, intervals + first, places + first, count - first};
    }
};

template <class Key, class Index>
class PlainJoin {
  public:
    PlainJoin(Index (&indexes)[2], ResultWriter& writer, MatchList& list)
        : indexes_{indexes, indexes + 1}, writer_(writer), list_(list) {}

    // Joins arrivals in groups and appends their pairs, until there are `limit` of them or a few more.
    // Returns how many arrivals were joined: all, or those before a group that the general join must take.
    std::size_t run(const PlainArrivals<Key>& arrivals, std::size_t group, std::size_t limit, Pairs& pairs) {
        limited_ = limit != SIZE_MAX;
        const unsigned own = arrivals.side(0);
        indexes_[own]->start(low_bits(arrivals.places[0].position));
        indexes_[own ^ 1]->start(low_bits(arrivals.places[0].last));
        const auto one = [](std::size_t) { return std::integral_constant<std::size_t, 1>(); };
        const auto some = [&](std::size_t left) { return std::min(group, left); };
        return group == 1 ? run(arrivals, limit, pairs, one) : run(arrivals, limit, pairs, some);
    }

  private:
    // The same with groups of size_of(arrivals that are left), which may be known to the compiler.
    template <class SizeOf>
    std::size_t run(const PlainArrivals<Key>& arrivals, std::size_t limit, Pairs& pairs, SizeOf size_of) {
        std::size_t joined = 0;
        while (joined < arrivals.count && pairs.size() < limit) {
            const auto size = size_of(arrivals.count - joined);
            const auto part = arrivals.from(joined);
            SLIDEJOIN_STEP(prepare);
            if (!locate<true>(part, size)) break;
            SLIDEJOIN_STEP(locate);
            if (insert(part, size)) locate<false>(part, size);
            SLIDEJOIN_STEP(insert);
            choose(part, size);
            SLIDEJOIN_STEP(compare);
            write(part, size, pairs);
            SLIDEJOIN_STEP(write);
            joined += size;
            if (joined % kGroup == 0) clean_up();
            SLIDEJOIN_STEP(clean);
        }
        clean_up();
        return joined;
    }

    using Slot = typename Index::Slot;
    using Leaf = typename Index::Leaf;

    // Where an arrival is inserted, which leaf it probes and what it has chosen of its entries.
    struct Visit {
        Slot insert;
        Slot probe;
        Leaf* into;
        const Leaf* from;
        std::uint64_t chosen;
    };

    // The leaf behind, where an interval reaches into it.
    struct Second {
        Slot slot;
        Chosen chosen;
    };

    static bool are_few(std::uint64_t chosen) { return std::popcount(chosen) <= static_cast<int>(kChosen); }

    // Finds where the arrivals are inserted, unless they have been, and what they probe, and prefetches it.
    // Returns whether none probes too many leaves.
    template <bool kInserts, class Size>
    bool locate(const PlainArrivals<Key>& group, Size size) {
        for (std::size_t i = 0; i < size; ++i) {
            const unsigned own = group.side(i);
            if constexpr (kInserts) visits_[i].insert.block = indexes_[own]->find_block(group.keys[i]);
            visits_[i].probe.block = indexes_[own ^ 1]->find_block(group.intervals[i].low);
        }
        for (std::size_t i = 0; i < size; ++i) {
            Visit& visit = visits_[i];
            if constexpr (kInserts) visit.insert = Index::find_slot(visit.insert.block, group.keys[i]);
            visit.probe = Index::find_slot(visit.probe.block, group.intervals[i].low);
        }
        for (int i = 0; i < 2; ++i) versions_[i] = indexes_[i]->version();
        seconds_of_ = many_ = 0;
        bool far = false;
        for (std::size_t i = 0; i < size; ++i) {
            Visit& visit = visits_[i];
            const unsigned own = group.side(i);
            if constexpr (kInserts) visit.into = indexes_[own]->fetch_end(visit.insert);
            visit.from = indexes_[own ^ 1]->fetch_keys(visit.probe);
            if constexpr (!std::is_same_v<Size, std::size_t>)  // nothing else is there to wait for
                indexes_[own ^ 1]->fetch_positions(visit.probe);
            if (visit.from && group.intervals[i].high <= visit.probe.bound()) [[likely]]
                continue;
            Slot following = visit.probe;
            if (visit.from && Index::next(following) && group.intervals[i].high <= following.bound() &&
                indexes_[own ^ 1]->fetch_keys(following)) {
                seconds_[i].slot = following;
                seconds_of_ |= 1u << i;
            } else {
                many_ |= 1u << i;
                far |= !indexes_[own ^ 1]->fetch_leaves(visit.probe, group.intervals[i]);
            }
        }
        return !limited_ || !far;
    }

    // Returns whether slots have moved, so that they must be located again.
    template <class Size>
    bool insert(const PlainArrivals<Key>& group, Size size) {
        for (std::size_t i = 0; i < size; ++i) {
            const unsigned own = group.side(i);
            Index& index = *indexes_[own];
            const Visit& visit = visits_[i];
            const std::uint32_t position = low_bits(group.places[i].position);
            ++inserted_[own];
            last_[own] = &group.places[i];
            if (visit.into && index.version() == versions_[own] && visit.insert.count() < Leaf::kEntries)
                [[likely]]
                visit.into->append(group.keys[i], position, visit.insert);
            else index.place(group.keys[i], position);
        }
        return indexes_[0]->version() != versions_[0] || indexes_[1]->version() != versions_[1];
    }

    // Compares the keys of leaves; prefetches the positions of those in the intervals.
    template <class Size>
    void choose(const PlainArrivals<Key>& group, Size size) {
        for (std::size_t i = 0; i < size; ++i) {
            Visit& visit = visits_[i];
            if (many_ >> i & 1) [[unlikely]]
                continue;
            const Interval<Key> interval = group.intervals[i];
            const std::uint64_t chosen = Index::choose(*visit.from, visit.probe.count(), interval);
            visit.chosen = interval.empty() ? 0 : chosen;
        }
        for (unsigned left = seconds_of_; left; left &= left - 1) {
            const int i = std::countr_zero(left);
            Second& second = seconds_[i];
            const Leaf& leaf = indexes_[group.side(i) ^ 1]->leaf(second.slot);
            second.chosen = {leaf.positions, Index::choose(leaf, second.slot.count(), group.intervals[i])};
        }
    }

    template <class Size>
    void write(const PlainArrivals<Key>& group, Size size, Pairs& pairs) {
        pairs.reserve(kPairRoom);
        std::size_t written = pairs.size();
        std::int64_t* out[2] = {pairs.left(), pairs.right()};
        const unsigned special = seconds_of_ | many_;
        for (std::size_t i = 0; i < size; ++i) {
            const Place& place = group.places[i];
            const unsigned own = group.side(i);
            const Visit& visit = visits_[i];
            if (special >> i & 1 || !are_few(visit.chosen)) [[unlikely]] {
                pairs.add(written - pairs.size());
                write_more(group, i, pairs);
                written = pairs.size();
                out[0] = pairs.left();
                out[1] = pairs.right();
                continue;
            }
            fill_chosen(static_cast<std::int64_t>(place.position), out[own] + written);
            written += write_chosen({visit.from->positions, visit.chosen}, place.visible(), place.first,
                                    out[own ^ 1] + written);
        }
        pairs.add(written - pairs.size());
    }

    // Writes the pairs of one arrival, however many there are.
    [[gnu::noinline]] void write_more(const PlainArrivals<Key>& group, std::size_t i, Pairs& pairs) {
        const Place& place = group.places[i];
        const Interval<Key> interval = group.intervals[i];
        const unsigned own = group.side(i);
        list_.clear();
        PairList found(pairs, place, own);
        if (many_ >> i & 1) {
            if (interval.empty()) return;
            if (writer_.sorted()) indexes_[own ^ 1]->probe(interval, place.visible(), list_);
            else indexes_[own ^ 1]->probe(interval, place.visible(), found);
        } else {
            const Chosen all{visits_[i].from->positions, visits_[i].chosen};
            const Chosen second = seconds_of_ >> i & 1 ? seconds_[i].chosen : Chosen{all.positions, 0};
            Chosen rest = all;
            for (std::size_t k = 0; k < kChosen; ++k) rest.bits &= rest.bits - 1;
            const Chosen first{all.positions, all.bits ^ rest.bits};
            if (rest.bits == 0) rest = second;
            if (are_few(rest.bits) && (second.bits == 0 || first.bits == all.bits)) {
                std::int64_t* const out[2] = {pairs.left() + pairs.size(), pairs.right() + pairs.size()};
                fill_chosen(static_cast<std::int64_t>(place.position), out[own]);
                fill_chosen(static_cast<std::int64_t>(place.position), out[own] + kChosen);
                pairs.add(write_chosen(first, rest, place.visible(), place.first, out[own ^ 1]));
                return;
            }
            for (const Chosen& chosen : {all, second})
                if (writer_.sorted()) list_.among(chosen.positions, chosen.bits, place.visible());
                else if (chosen.bits) found.among(chosen.positions, chosen.bits, place.visible());
        }
        if (!writer_.sorted()) return pairs.reserve(kPairRoom);
        const Task<Key> task{interval, place.visible(), 0, own == 1, 0, list_.size()};
        pairs.reserve(list_.size() + kPairRoom);
        PairRoom room(pairs);
        writer_.write(&task, 1, &place, list_, &room);
        pairs.add(room.size);
    }

    // Expires what arrivals no longer see, and sweeps as much as they have inserted.
    void clean_up() {
        for (int i = 0; i < 2; ++i) {
            if (!inserted_[i]) continue;
            indexes_[i ^ 1]->forget(low_bits(last_[i]->first));
            indexes_[i]->sweep(low_bits(last_[i]->position), inserted_[i]);
            inserted_[i] = 0;
        }
    }

    Index* indexes_[2];
    ResultWriter& writer_;
    MatchList& list_;
    Visit visits_[kGroup];
    Second seconds_[kGroup];
    unsigned seconds_of_ = 0;  // arrivals that have one, as bits
    unsigned many_ = 0;        // arrivals that probe more leaves, or a queue
    bool limited_ = false;     // whether pairs are
    std::uint64_t versions_[2];
    std::size_t inserted_[2] = {0, 0};  // arrivals of each side since the last sweep,
    const Place* last_[2];              // and the place of the last one
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
