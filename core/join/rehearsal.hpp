// What a batch would do, without doing it: how many tuples it would make the windows hold, and how many
// matches one of its tuples would have. A join with limits asks before it takes a batch that may exceed them.
//
// Partners that are stored are counted by the index, with the tests that follow it; those in the same batch
// by a search in its sorted keys, without the tests. An estimate takes all that is stored now for visible, so
// it never counts too few; the exact count admits the batch to copies of the windows. 50-200 ns a tuple, and
// 10-25 bytes of copying for each tuple that a window of time holds where it is exact.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Rehearsal {
  public:
    Rehearsal(const JoinSpec& spec, Lane<Key>& lane, const IndexPair<Key>& indexes, const Window& window)
        : spec_(spec), lane_(lane), indexes_(indexes), window_(window) {}

    // With `enough` matches of a tuple the count may end.
    Rehearsed run(const Batch& batch, bool exact, std::uint64_t enough) {
        for (const Side side : {Side::left, Side::right}) {
            const int i = static_cast<int>(side);
            result_.held[i] = window_.held(side);
            first_[i] = window_.first(side);
            next_[i] = window_.next(side);
        }
        std::optional<Window> copy;
        if (exact) copy.emplace(window_);
        admit(batch, copy ? &*copy : nullptr);
        if (enough < UINT64_MAX) count(enough);
        return result_;
    }

  private:
    void admit(const Batch& batch, Window* window) {
        GroupBuffer<Key>& group = lane_.buffer;
        const ArrivalReader<Key>& reader = lane_.reader;
        group.start(batch.size);
        const std::size_t at = lane_.reader.read(batch, 0, batch.size, batch.size);
        const bool rows = spec_.window.kind == WindowKind::rows;
        for (std::uint32_t i = 0; i < batch.size; ++i) {
            const Side side =
                spec_.self_join ? Side::left : Side{static_cast<std::uint8_t>(batch.sides[i] & 1)};
            const bool timed = !rows && !(batch.null_times && batch.null_times[i]);
            const std::int64_t time = rows ? 0 : batch.times[i];
            const bool null = reader.nulls()[at + i] || !(rows || timed);
            const bool placed = batch.store || rows;
            group.places()[i] = {};
            if (window) {
                if (spec_.window.kind == WindowKind::event && timed && window->refuse(side, time)) continue;
                group.places()[i] = window->admit(side, time, {timed, null, batch.store});
                window->finals().clear();
                std::uint64_t& held = result_.held[static_cast<int>(side)];
                held = std::max(held, window->held(side));
            } else {
                const int own = static_cast<int>(side), met = spec_.self_join ? own : 1 - own;
                group.places()[i] = {next_[own], first_[met], next_[met]};
                next_[own] += placed;
                result_.held[own] += placed;
            }
            if (!null) group.add(i, side, batch.store, reader, at);
        }
    }

    // Counts the matches of each arrival.
    void count(std::uint64_t enough) {
        const Group<Key> group = lane_.buffer.queue();
        for (int i = 0; i < 2; ++i) {
            sort_copy(group.entries[i], group.entry_count[i], by_key_[i], scratch_);
            positions_[i].reserve(group.entry_count[i] + kBlock);
            for (std::size_t k = 0; k < group.entry_count[i]; ++k) positions_[i][k] = by_key_[i][k].value;
            sizes_[i] = group.entry_count[i];
        }
        lane_.limit(enough < FoundPositions::kNoLimit ? static_cast<std::size_t>(enough)
                                                      : FoundPositions::kNoLimit);
        Task<Key>* const tasks = lane_.buffer.tasks();
        std::uint64_t found = 0;
        for (std::size_t i = 0; i < lane_.buffer.task_count(); ++i) {
            if (i == 0 || tasks[i].arrival != tasks[i - 1].arrival) found = 0;
            found += stored(tasks + i, enough) + among(tasks[i]);
            if (found > result_.fanout) {
                result_.fanout = found;
                result_.row = tasks[i].arrival;
                if (found >= enough) return;
            }
        }
    }

    std::uint64_t stored(Task<Key>* task, std::uint64_t enough) {
        const std::uint32_t first = 0;
        Group<Key> group{task, {}, {}, {}, {&first, &first}, {0, 0}, false, false};
        group.order_count[task->partner_is_left ? 0 : 1] = 1;
        try {
            return lane_.collect(!lane_.filter.empty(),
                                 [&](auto& matches) { indexes_.probe(group, matches); });
        } catch (const TooManyMatches&) {
            return enough;
        }
    }

    // Candidates in the same batch.
    std::uint64_t among(const Task<Key>& task) const {
        const int side = spec_.self_join || task.partner_is_left ? 0 : 1;
        const Entry<Key>* const begin = by_key_[side].data();
        const Entry<Key>* const end = begin + sizes_[side];
        const auto from = std::lower_bound(begin, end, task.interval.low,
                                           [](const Entry<Key>& entry, Key key) { return entry.key < key; });
        const auto to = std::upper_bound(from, end, task.interval.high,
                                         [](Key key, const Entry<Key>& entry) { return key < entry.key; });
        return tally_positions(positions_[side].data() + (from - begin), static_cast<std::size_t>(to - from),
                               task.visible);
    }

    const JoinSpec& spec_;
    Lane<Key>& lane_;
    const IndexPair<Key>& indexes_;
    const Window& window_;
    Rehearsed result_{};
    std::uint64_t first_[2], next_[2];
    Buffer<Entry<Key>> by_key_[2], scratch_;
    Buffer<std::uint32_t> positions_[2];
    std::size_t sizes_[2] = {0, 0};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
