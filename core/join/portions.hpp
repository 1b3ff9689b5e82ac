// Lists the matches of a group in portions of bounded size.
//
// A push lists the matches of a group at once. Where they are too many, the group, which is in the index by
// then, is probed for again: some arrivals at a time, in their order, and the window of one arrival in parts
// where the arrival alone has too many. The visible range of each probe keeps this exact. A portion that
// turns out too large is thrown away and halved, which costs at most the limit. Nothing is forgotten or given
// another position until all portions are listed.
#pragma once

#include "lane.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class Portions {
  public:
    // Whether there are matches to be listed.
    bool open() const { return lane_ < lanes_; }
    // The number, in the group, of the first arrival whose matches are not all listed.
    std::size_t arrival() const { return before_ + arrival_; }

    // Begins with the arrivals of so many lanes, the first of which holds `count` arrivals.
    void begin(std::size_t lanes, std::size_t count) {
        lanes_ = lanes;
        lane_ = before_ = 0;
        step_ = 1;
        enter(count);
    }

    // Ends without listing the rest.
    void end() { lane_ = lanes_ = 0; }

    std::size_t lanes() const { return lanes_; }
    std::size_t lane() const { return lane_; }
    std::size_t first_of_lane() const { return before_; }

    // Lists matches of the current lane, about `limit` at most, and appends their pairs. With `ends`, ends[i]
    // becomes the number of pairs up to arrival i of the lane, of those whose matches are all listed now.
    // Returns the number of pairs.
    std::uint64_t list(Lane<Key>& lane, const IndexPair<Key>& indexes, std::size_t limit, Pairs& pairs,
                       std::uint64_t* ends) {
        const std::size_t tasks = lane.buffer.task_count();
        while (true) {
            if (task_ == tasks) {  // arrivals without tasks
                note_ends(pairs.size(), ends, count_);
                arrival_ = count_;
                return 0;
            }
            const std::size_t to = inside() ? end_of(lane, task_) : end_of_step(lane);
            if (!collect(lane, indexes, to, limit)) continue;
            return write(lane, to, limit, pairs, ends);
        }
    }

    // Goes on to the next lane, of `count` arrivals, once the current one is listed. Returns whether there is
    // one.
    bool listed() const { return arrival_ == count_; }
    void next_lane(std::size_t count) {
        before_ += count_;
        ++lane_;
        enter(count);
    }

    std::size_t bytes() const { return order_[0].bytes() + order_[1].bytes() + parts_.bytes(); }

  private:
    void enter(std::size_t count) {
        count_ = count;
        arrival_ = task_ = 0;
        whole();
    }

    // The next arrival is listed with its whole window.
    void whole() { from_ = span_ = 0; }
    bool inside() const { return span_ > 0; }  // a part of an arrival's window

    static std::size_t end_of(Lane<Key>& lane, std::size_t task) {
        const Task<Key>* const tasks = lane.buffer.tasks();
        std::size_t end = task + 1;
        while (end < lane.buffer.task_count() && tasks[end].arrival == tasks[task].arrival) ++end;
        return end;
    }

    // The end of the tasks of the next `step_` arrivals or so.
    std::size_t end_of_step(Lane<Key>& lane) const {
        return end_of(lane, std::min(task_ + step_, lane.buffer.task_count()) - 1);
    }

    // Lists the matches of the tasks up to `to`. Returns false, and makes the next portion smaller, if there
    // are too many.
    bool collect(Lane<Key>& lane, const IndexPair<Key>& indexes, std::size_t to, std::size_t limit) {
        Task<Key>* const tasks = inside() ? part_of(lane, to) : lane.buffer.tasks() + task_;
        for (auto& order : order_) order.reserve(to - task_);
        std::size_t counts[2] = {0, 0};
        for (std::uint32_t i = 0; i < to - task_; ++i) {
            const int probed = tasks[i].partner_is_left ? 0 : 1;
            order_[probed][counts[probed]++] = i;
        }
        const Group<Key> group{
            tasks, {}, {}, {}, {order_[0].data(), order_[1].data()}, {counts[0], counts[1]}, false, false};
        const bool alone = tasks[0].arrival == tasks[to - task_ - 1].arrival;
        const Place& place = lane.buffer.places()[tasks[0].arrival];
        const std::uint64_t span = inside() ? span_ : place.last - place.first;
        try {
            lane.limit(limit);
            lane.collect(true, [&](auto& matches) { indexes.probe(group, matches); });
            return true;
        } catch (const TooManyMatches&) {
        }
        if (!alone) step_ = std::max<std::size_t>(1, step_ / 4);
        else if (span > 1) span_ = (span + 1) / 2;
        else throw std::logic_error("one tuple matches more often than once");
        return false;
    }

    // The tasks of one arrival, for the current part of its window.
    Task<Key>* part_of(Lane<Key>& lane, std::size_t to) {
        const Task<Key>* const tasks = lane.buffer.tasks() + task_;
        const Place& place = lane.buffer.places()[tasks[0].arrival];
        span_ = std::min(span_, place.last - place.first - from_);
        parts_.reserve(to - task_);
        for (std::size_t i = 0; i < to - task_; ++i) {
            parts_[i] = tasks[i];
            parts_[i].visible = {static_cast<std::uint32_t>(place.first + from_),
                                 static_cast<std::uint32_t>(span_)};
        }
        return parts_.data();
    }

    std::uint64_t write(Lane<Key>& lane, std::size_t to, std::size_t limit, Pairs& pairs,
                        std::uint64_t* ends) {
        Place* const places = lane.buffer.places();
        Task<Key>* const all = lane.buffer.tasks();
        const std::size_t next = to < lane.buffer.task_count() ? all[to].arrival : count_;
        const std::size_t found = lane.found().size();
        pairs.reserve(found + kFew);
        PairRoom room(pairs);
        std::uint64_t written;
        if (inside()) {
            note_ends(pairs.size(), ends, all[task_].arrival);  // of arrivals without tasks
            arrival_ = all[task_].arrival;
            Place& place = places[arrival_];
            const Place window = place;
            place.first += from_;
            written = lane.writer().write(parts_.data(), to - task_, places, lane.found(), &room);
            place = window;
            from_ += span_;
            pairs.add(room.size);
            if (from_ < place.last - place.first) {
                if (found < limit / 2) span_ *= 2;
                return written;
            }
            note_ends(pairs.size(), ends, next);
            whole();
        } else {
            written = lane.writer().write(all + task_, to - task_, places, lane.found(), &room, ends, next,
                                          arrival_);
            pairs.add(room.size);
            if (found < limit / 2) step_ = std::min(2 * step_, lane.buffer.task_count());
        }
        task_ = to;
        arrival_ = next;
        return written;
    }

    void note_ends(std::uint64_t pairs, std::uint64_t* ends, std::size_t next) const {
        for (std::size_t i = arrival_; ends && i < next; ++i) ends[i] = pairs;
    }

    std::size_t lanes_ = 0;
    std::size_t lane_ = 0;
    std::size_t before_ = 0;   // arrivals in the lanes before
    std::size_t count_ = 0;    // arrivals of the lane
    std::size_t arrival_ = 0;  // of the lane
    std::size_t task_ = 0;     // its first one
    std::size_t step_ = 1;     // tasks of a portion
    std::uint64_t from_ = 0;   // where the window of the arrival is listed from
    std::uint64_t span_ = 0;   // how many positions of it together; 0: all
    Buffer<std::uint32_t> order_[2];
    Buffer<Task<Key>> parts_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
