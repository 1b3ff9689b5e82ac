// Admits arrivals: each gets its position and the positions that it may see, late ones are refused, and what
// they insert and probe for is noted. 5-15 ns an arrival, the reading of its key included.
#pragma once

#include "finals.hpp"
#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Admission {
  public:
    // `filter` stores the keys that the index does not decide about.
    Admission(const JoinSpec& spec, Window& window, CandidateFilter& filter, FinalTuples& finals,
              std::size_t width)
        : spec_(spec),
          window_(window),
          filter_(filter),
          finals_(finals),
          one_pass_(!spec.self_join && !spec.finals[0] && !spec.finals[1] && filter.empty() && width == 1),
          plain_(one_pass_ && spec.window.kind == WindowKind::rows) {}

    // Whether arrivals can be admitted all at once.
    bool plain() const { return plain_; }

    // Whether they can and may then be joined in one pass (plain.hpp); and those of a batch.
    bool one_pass() const {
        const WindowSpec& window = spec_.window;
        return one_pass_ && spec_.strategy == Strategy::automatic &&
               (plain_ || (window.kind == WindowKind::time && !window.self_purge && !window.most[0] &&
                           !window.most[1]));
    }
    bool one_pass(const Batch& batch) const {
        return one_pass() && batch.store && !(batch.null_times && !plain_);
    }

    // Rows of the batch that came too late.
    std::vector<std::uint32_t>& late() { return late_; }
    const std::vector<std::uint32_t>& late() const { return late_; }

    // Gives every arrival its place and notes in a lane what it inserts and what it probes for. `before`
    // arrivals of the group are in other lanes; those up to `end` may be read with them.
    void admit(const Batch& batch, std::size_t start, std::size_t count, Lane<Key>& lane, std::size_t before,
               std::size_t end) {
        GroupBuffer<Key>& group = lane.buffer;
        const ArrivalReader<Key>& reader = lane.reader;
        group.start(count);
        const std::size_t at = lane.reader.read(batch, start, count, end);
        if (plain_ && batch.store && !reader.any_null()) {
            window_.admit_rows(batch.sides + start, count, group.places());
            group.add_plain(batch.sides + start, reader.keys() + at, reader.intervals(at), count);
            return;
        }
        const bool event = spec_.window.kind == WindowKind::event;
        const bool placed = batch.store || spec_.window.kind == WindowKind::rows;
        const bool defers = window_.may_defer_expiry();
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::size_t row = start + i;
            const Side side = spec_.self_join ? Side::left : side_of(batch, row);
            bool timed = false;
            std::int64_t time = 0;
            if (spec_.window.kind != WindowKind::rows) {
                timed = !batch.null_times || !batch.null_times[row];
                time = batch.times[row];
                if (event && timed && window_.refuse(side, time)) {
                    late_.push_back(static_cast<std::uint32_t>(row));
                    group.places()[i] = {};
                    continue;
                }
            }
            const bool null = reader.nulls()[at + i] || (spec_.window.kind != WindowKind::rows && !timed);
            const Window::Manner manner{timed, null, batch.store};
            group.places()[i] =
                defers ? window_.enter(side, time, manner) : window_.admit(side, time, manner);
            if (finals_.any()) finals_.end(static_cast<std::uint32_t>(before + i));
            if (placed && !filter_.empty()) filter_.keep(side, lane.filter, i);
            if (!null) group.add(i, side, batch.store, reader, at);
        }
        if (defers) window_.forget_dead();
    }

  private:
    // Masked, since the caller's array may change after it was validated.
    static Side side_of(const Batch& batch, std::size_t row) {
        return Side{static_cast<std::uint8_t>(batch.sides[row] & 1)};
    }

    const JoinSpec& spec_;
    Window& window_;
    CandidateFilter& filter_;
    FinalTuples& finals_;
    bool one_pass_, plain_;
    std::vector<std::uint32_t> late_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
