// The conjuncts that are not indexed. Their keys stand by position in rings beside the index; candidates that
// the index finds are tested there, before any pair is written. An event-time window is one of them: a band
// on the timestamps. Cost: one load and one comparison per candidate and conjunct.
#pragma once

#include "../index/concept.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class Filters {
    using Key = std::uint64_t;  // narrower keys are widened

  public:
    explicit Filters(const JoinSpec& spec) : self_join_(spec.self_join) {
        for (std::size_t i = 1; i < spec.on.size(); ++i)
            filters_.push_back({make_condition<Key>(spec.on[i])});
        if (spec.window.kind == WindowKind::event) {
            timed_ = true;
            filters_.push_back({make_condition<Key>(
                {KeyType::int64,
                 {{offset(-static_cast<__int128>(spec.window.before)), offset(spec.window.after)}}})});
        }
    }

    bool empty() const { return filters_.empty(); }

    // Reads the keys of a group and computes what each arrival asks for.
    void read(const Batch& batch, std::size_t start, std::size_t count, bool* nulls) {
        for (std::size_t f = 0; f < filters_.size(); ++f) {
            Filter& filter = filters_[f];
            const bool time = timed_ && f + 1 == filters_.size();
            const Column column = time ? Column{batch.times, batch.null_times} : batch.keys[f + 1];
            const std::size_t width = filter.condition->width();
            filter.keys.reserve(count);
            filter.asked.reserve(2 * width * count);
            filter.condition->encode_keys(column, start, count, filter.keys.data(), nulls);
            if (self_join_) {
                filter.second = width * count;
                filter.condition->partners(Side::right, filter.keys.data(), count, filter.asked.data());
                filter.condition->partners(Side::left, filter.keys.data(), count,
                                           filter.asked.data() + filter.second);
            } else {
                filter.condition->partners(batch.sides + start, filter.keys.data(), count,
                                           filter.asked.data());
            }
        }
    }

    // Stores the keys of arrival i, which has just got the next position of its side.
    void keep(Side side, std::size_t i) {
        for (Filter& filter : filters_) filter.stored[static_cast<int>(side)].push(filter.keys[i]);
    }

    // Stores the keys of a position once more, under the next one.
    void copy(Side side, std::uint64_t position) {
        for (Filter& filter : filters_) {
            Ring<Key>& stored = filter.stored[static_cast<int>(side)];
            const Key key = stored[position - first_[static_cast<int>(side)]];
            stored.push(key);
        }
    }

    // Whether a self-join's arrival asks for the same on both sides.
    bool symmetric(std::size_t arrival) const {
        for (const Filter& filter : filters_) {
            const std::size_t width = filter.condition->width();
            const Interval<Key>* asked = filter.asked.data() + arrival * width;
            for (std::size_t i = 0; i < width; ++i)
                if (asked[i].low != asked[filter.second + i].low ||
                    asked[i].high != asked[filter.second + i].high)
                    return false;
        }
        return true;
    }

    // Leaves of each listed task's candidates those that pass all filters, and moves them together. The
    // candidates stand in `matches` from `begin` on, in the order of the list.
    template <class IndexKey>
    void apply(Task<IndexKey>* tasks, const std::uint32_t* order, std::size_t count, const Place* places,
               MatchList& matches, std::size_t begin) const {
        std::uint32_t* found = matches.data();
        std::size_t end = begin;
        for (std::size_t i = 0; i < count; ++i) {
            Task<IndexKey>& task = tasks[order[i]];
            const int side = self_join_ || task.partner_is_left ? 0 : 1;
            const std::uint64_t shift = places[task.arrival].first - first_[side];
            const std::size_t start = end;
            std::size_t from = task.found_from, to = task.found_to;
            for (const Filter& filter : filters_) {
                const std::size_t width = filter.condition->width();
                const Interval<Key>* asked = filter.asked.data() + task.arrival * width +
                                             (self_join_ && !task.partner_is_left ? filter.second : 0);
                end = start;
                for (std::size_t at = from; at < to; ++at) {
                    const Key key = filter.stored[side][found[at] + shift];
                    bool inside = asked[0].contains(key);
                    for (std::size_t k = 1; k < width; ++k) inside |= asked[k].contains(key);
                    found[end] = found[at];
                    end += inside;
                }
                from = start;
                to = end;
            }
            task.found_from = start;
            task.found_to = end;
        }
        matches.truncate(end);
    }

    void forget(Side side, std::uint64_t position) {
        std::uint64_t& first = first_[static_cast<int>(side)];
        for (Filter& filter : filters_) filter.stored[static_cast<int>(side)].drop(position - first);
        first = position;
    }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const Filter& filter : filters_)
            total += filter.stored[0].bytes() + filter.stored[1].bytes() + filter.keys.bytes() +
                     filter.asked.bytes();
        return total;
    }

  private:
    struct Filter {
        std::unique_ptr<Condition<Key>> condition;
        Ring<Key> stored[2] = {};  // of positions from first_ on
        Buffer<Key> keys = {};     // of the group under way
        Buffer<Interval<Key>> asked = {};
        std::size_t second = 0;  // where a self-join's intervals for right partners start
    };

    static Bound offset(__int128 value) {
        return {BoundKind::sum, static_cast<std::int64_t>(value >> 64), static_cast<std::uint64_t>(value),
                0.0};
    }

    bool self_join_;
    bool timed_ = false;
    std::vector<Filter> filters_;
    std::uint64_t first_[2] = {0, 0};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
