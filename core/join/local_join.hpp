// Workers that have indexes of their own (local_indexes.hpp) join groups of arrivals. The caller is the
// manager: it admits and sorts the arrivals, writes the commands, and works as the others do.
//
//   collect   the manager admits the next group and writes its commands, while the others are at this one
//   process   each worker carries out the commands for its local indexes: inserts their share of the group,
//             probes for all of it, and lists the matches
//   write     after a meeting, each takes the matches of a slice of the arrivals from all lists, and writes
//             the pairs behind those of the slices before
//
// An arrival is ready when all workers have passed it. So the pairs stand in the order of arrival, and those
// of an arrival by position, as from one thread. Cost: two meetings, and a copy of every match.
#pragma once

#include "local_indexes.hpp"
#include "phased.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class LocalJoin {
  public:
    using First = std::array<std::uint64_t, 2>;  // positions of both sides before these have expired

    LocalJoin(const JoinSpec& spec, Lanes<Key>& lanes) : self_join_(spec.self_join), lanes_(lanes) {}

    // Arrivals of the next group, if it has been collected.
    std::size_t ahead() const { return next_.count; }

    // Collects the next group: admit(lane) admits it, and returns what had expired before. Only the manager
    // calls it.
    template <class Admit>
    void collect(LocalIndexes<Key>& locals, std::size_t count, Admit admit) {
        lanes_.reserve(2);
        next_.lane = 1 - next_.lane;
        Lane<Key>& lane = lanes_[next_.lane];
        next_.first = admit(lane);
        next_.group = lane.group(count, false);
        locals.command(next_.group, static_cast<std::uint32_t>(next_.first[0]),
                       static_cast<std::uint32_t>(next_.first[1]), next_.queues);
        next_.count = count;
    }

    // The group that was collected is joined now. Returns what had expired before it.
    First begin() {
        std::swap(now_, next_);
        next_.lane = now_.lane;
        next_.count = 0;
        return now_.first;
    }

    // Joins the group, while the manager calls ahead(), which may collect the next one. Matches are written
    // to `pairs`, or only counted if it is null. With `ends`, ends[i] becomes the number of pairs up to
    // arrival i.
    template <class Ahead>
    std::uint64_t run(LocalIndexes<Key>& locals, std::size_t workers, Pairs* pairs, std::uint64_t* ends,
                      Ahead ahead) {
        prepare(locals.size());
        const bool listed = lanes_[0].listed(pairs);
        SliceWriter<Key> writer(workers, pairs);
        lanes_.pool().run(workers, [&](std::size_t worker) {
            if (worker == 0) ahead();
            std::uint64_t found = 0;
            for (std::size_t i = worker; i < now_.queues.size(); i += workers)
                found += lanes_[i].collect(
                    listed, [&](auto& matches) { process(locals, i, matches, lanes_[i].found()); });
            if (!listed) return writer.count(worker, found);
            lanes_.pool().meet();
            const Gathered gathered = gather(worker, Slice(now_.count, worker, workers));
            Lane<Key>& lane = lanes_[worker];
            const auto write = [&](PairRoom* out, std::uint64_t* ends) {
                return gathered.write(lane, out, ends);
            };
            writer.list(worker, lane, gathered.matches.size(), ends, write);
            if (!pairs) return;
            lanes_.pool().meet([&] { writer.reserve(); });
            writer.write(worker, lane, gathered.slice, ends, write);
        });
        lanes_[0].filter.test_for(lanes_[0].filter);
        return writer.finish();
    }

    // The same with matches as parts of runs; the workers report parts, and the manager writes them. `start`
    // is the number of the group's first arrival in the batch.
    template <class Ahead>
    std::uint64_t run(LocalIndexes<Key>& locals, std::size_t workers, HandedRuns& handed, RangeResult& result,
                      std::size_t start, Buffer<std::uint64_t>& ends, Ahead ahead) {
        prepare(locals.size());
        const bool filtered = !lanes_[0].filter.empty();
        lanes_.pool().run(workers, [&](std::size_t worker) {
            if (worker == 0) ahead();
            for (std::size_t i = worker; i < now_.queues.size(); i += workers) {
                MatchRanges& ranges = *answers_[i].ranges;
                ranges.start(now_.group.tasks, task_count(), now_.count);
                lanes_[i].filtered().clear();
                if (filtered) process(locals, i, lanes_[i].filtered(), lanes_[i].filtered());
                else process(locals, i, ranges, ranges);
            }
        });
        lanes_[0].filter.test_for(lanes_[0].filter);
        std::vector<const MatchRanges*> lists;
        for (std::size_t i = 0; i < now_.queues.size(); ++i) lists.push_back(answers_[i].ranges.get());
        ends.reserve(now_.count);
        const Slice all(now_.count, 0, 1);
        const Gathered gathered = gather(0, all);
        result.pairs.reserve(gathered.matches.size() + kFew);
        PairRoom room(result.pairs);
        gathered.write(lanes_[0], &room, ends.data());
        result.pairs.add(room.size);
        const Place* const places = lanes_[now_.lane].buffer.places();
        for (std::size_t i = 0; i < now_.count; ++i) {
            result.arrival.resize(ends[i], static_cast<std::int64_t>(start + i));
            result.positions.push_back(static_cast<std::int64_t>(places[i].position));
        }
        return room.size + write_parts(lists, places, now_.count, start, handed, result);
    }

    void free() { answers_.clear(); }

    std::size_t bytes() const {
        std::size_t total = bytes_of(now_.queues) + bytes_of(next_.queues);
        for (const Answer& each : answers_)
            total += sizeof each + each.tasks.bytes() + each.gathered.bytes() + each.ranges->bytes();
        return total;
    }

  private:
    struct Collected {
        std::size_t count = 0;
        std::size_t lane = 0;  // the lane that has read it
        First first{};
        Group<Key> group{};
        std::vector<CommandQueue> queues;
    };

    // What a local index has found; and, as worker of the same number, the matches of a slice.
    struct Answer {
        bool probed = false;
        Buffer<Task<Key>> tasks;  // say where in `found` the matches of each task are
        FoundPositions* found = nullptr;
        std::unique_ptr<MatchRanges> ranges;
        MatchList gathered;
    };

    // The matches of a slice of the arrivals, from all local indexes.
    struct Gathered {
        const Task<Key>* tasks;
        std::size_t task_count;
        const Place* places;
        Slice slice;
        FoundPositions& matches;

        std::uint64_t write(Lane<Key>& lane, PairRoom* out, std::uint64_t* ends) const {
            return lane.writer().write(tasks, task_count, places, matches, out, ends, slice.to, slice.from);
        }
    };

    std::size_t task_count() const { return now_.group.order_count[0] + now_.group.order_count[1]; }

    void prepare(std::size_t locals) {
        lanes_.reserve(std::max<std::size_t>(locals, 2));
        while (answers_.size() < locals) {
            auto ranges = std::make_unique<MatchRanges>(self_join_);
            answers_.emplace_back();
            answers_.back().ranges = std::move(ranges);
        }
    }

    template <class Matches>
    void process(LocalIndexes<Key>& locals, std::size_t i, Matches& matches, FoundPositions& found) {
        Answer& answer = answers_[i];
        answer.tasks.reserve(task_count());
        std::copy_n(now_.group.tasks, task_count(), answer.tasks.data());
        lanes_[i].filter.test_for(lanes_[now_.lane].filter);
        answer.found = &found;
        answer.probed = locals.carry_out(i, now_.queues[i], now_.group, answer.tasks.data(), matches);
    }

    Gathered gather(std::size_t worker, Slice slice) {
        Task<Key>* const tasks = now_.group.tasks;
        const auto first_of = [&](std::size_t arrival) {
            return std::partition_point(tasks, tasks + task_count(),
                                        [&](const Task<Key>& task) { return task.arrival < arrival; });
        };
        Task<Key>*const from = first_of(slice.from), *const to = first_of(slice.to);
        MatchList& gathered = answers_[worker].gathered;
        gathered.clear();
        for (Task<Key>* task = from; task != to; ++task) {
            task->found_from = gathered.size();
            for (std::size_t i = 0; i < now_.queues.size(); ++i) {
                if (!answers_[i].probed) continue;
                const Task<Key>& found = answers_[i].tasks[static_cast<std::size_t>(task - tasks)];
                gathered.append(answers_[i].found->data() + found.found_from,
                                found.found_to - found.found_from);
            }
            task->found_to = gathered.size();
        }
        return {from, static_cast<std::size_t>(to - from), lanes_[now_.lane].buffer.places(), slice,
                gathered};
    }

    bool self_join_;
    Lanes<Key>& lanes_;
    Collected now_, next_;
    std::vector<Answer> answers_;  // of each local index
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
