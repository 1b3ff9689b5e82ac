// Queues of arrivals for the shared index, threads that join them, and the serial join of the same queues to
// compare with. Threads let others run, or fail, at random at every point where that may matter.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <thread>

#include "testing.hpp"

namespace testing {

// What happens at SLIDEJOIN_YIELD(point).
struct Disturbance {
    static inline std::atomic<unsigned> yields{0};           // one of so many points yields; 0: none does
    static inline std::atomic<std::int64_t> fails_after{0};  // so many points; 0: none fails

    static void at(const char* point) {
        thread_local std::uint64_t state = 0x9e3779b97f4a7c15u ^ reinterpret_cast<std::uintptr_t>(&state);
        const unsigned rate = yields.load(std::memory_order_relaxed);
        if (rate != 0) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            if (state % rate == 0) std::this_thread::yield();
            if (state % (500 * rate) == 1) usleep(50);
        }
        // No failure where none can happen: while a lock is released, or a phase is announced.
        if (std::strstr(point, "inside") || std::strstr(point, "the phase")) return;
        if (fails_after.load(std::memory_order_relaxed) > 0 && fails_after.fetch_sub(1) == 1)
            throw std::bad_alloc();
    }
};

}  // namespace testing

#define SLIDEJOIN_YIELD(point) testing::Disturbance::at(#point)
#define SLIDEJOIN_PART_ENTRIES 40

#include "../join/shared_index.hpp"
#include "index_cases.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Runs work(0) to work(count - 1) in threads and rethrows the first error.
template <class Work>
void in_threads(std::size_t count, Work work) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(count);
    for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            try {
                work(i);
            } catch (...) {
                errors[i] = std::current_exception();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

struct Case {
    Shape shape = Shape::uniform;
    bool self_join = false;
    std::uint32_t window[2] = {300, 300};
    std::uint64_t start = 0;  // first position
    unsigned nulls = 0;       // one of so many arrivals has no key; 0: all have one
    unsigned intervals = 1;   // of an arrival
    std::uint64_t reach = 0;  // half the width of an interval; 0: it ends at random keys
    unsigned left_of = 2;     // one of so many arrivals is of the left side
};

struct Sharing {
    std::uint32_t workers;
    std::uint32_t task_size;
    bool blocking_merge;
};

// Arrivals with their places in windows of rows, a queue at a time.
template <class Key>
class Queues {
  public:
    Queues(const Case& given, unsigned seed) : case_(given), random_(seed) {
        for (int side = 0; side < 2; ++side) next_[side] = first_[side] = given.start;
    }

    void make(std::size_t arrivals) {
        tasks_.clear();
        places_.clear();
        sides_.clear();
        for (int side = 0; side < 2; ++side) entries_[side].clear(), order_[side].clear();
        for (std::uint32_t i = 0; i < arrivals; ++i) add(i);
        for (int side = 0; side < 2; ++side) {
            by_key_[side] = entries_[side];
            std::stable_sort(by_key_[side].begin(), by_key_[side].end(),
                             [](const auto& a, const auto& b) { return a.key < b.key; });
        }
    }

    Group<Key> group() {
        Group<Key> group{};
        group.tasks = tasks_.data();
        for (int side = 0; side < 2; ++side) {
            group.entries[side] = entries_[side].data();
            group.by_key[side] = by_key_[side].data();
            group.entry_count[side] = entries_[side].size();
            group.order[side] = order_[side].data();
            group.order_count[side] = order_[side].size();
        }
        return group;
    }

    // The same in slices, each with tasks whose arrivals are numbered from its first one on.
    std::vector<QueueSlice<Key>> slices(std::size_t count) {
        std::vector<QueueSlice<Key>> slices;
        std::size_t task = 0, entry[2] = {0, 0};
        for (std::size_t i = 0; i < count; ++i) {
            const slidejoin::Slice arrivals(places_.size(), i, count);
            Group<Key> group{};
            group.tasks = tasks_.data() + task;
            for (int side = 0; side < 2; ++side) group.entries[side] = entries_[side].data() + entry[side];
            for (std::size_t row = arrivals.from; row < arrivals.to; ++row) {
                const int side = case_.self_join ? 0 : sides_[row];
                const bool stored =
                    entry[side] < entries_[side].size() &&
                    entries_[side][entry[side]].value == static_cast<std::uint32_t>(places_[row].position);
                entry[side] += stored;
                group.entry_count[side] += stored;
                for (; task < tasks_.size() && tasks_[task].arrival == row; ++task) {
                    tasks_[task].arrival -= static_cast<std::uint32_t>(arrivals.from);
                    ++group.order_count[tasks_[task].partner_is_left ? 0 : 1];
                }
            }
            slices.push_back({group, arrivals.from, arrivals.size(), places_.data() + arrivals.from,
                              case_.self_join ? nullptr : sides_.data() + arrivals.from});
        }
        return slices;
    }

    const std::vector<Task<Key>>& tasks() const { return tasks_; }

    std::uint32_t first(int side) const { return static_cast<std::uint32_t>(first_[side]); }
    std::uint32_t next(int side) const { return static_cast<std::uint32_t>(next_[side]); }

  private:
    void add(std::uint32_t i) {
        const int side = case_.self_join || testing::below(random_, case_.left_of) == 0 ? 0 : 1;
        const int met = case_.self_join ? 0 : 1 - side;
        const Place place{next_[side], first_[met], next_[met]};
        sides_.push_back(static_cast<std::uint8_t>(side));
        places_.push_back(place);
        const Key key = make_key<Key>(case_.shape, made_++, random_);
        const bool null = case_.nulls && testing::below(random_, case_.nulls) == 0;
        if (!null) entries_[side].push_back({key, static_cast<std::uint32_t>(place.position)});
        for (unsigned k = 0; !null && place.first != place.last && k < case_.intervals; ++k) {
            const bool partner_is_left = case_.self_join ? k % 2 == 0 : met == 0;
            order_[partner_is_left ? 0 : 1].push_back(static_cast<std::uint32_t>(tasks_.size()));
            tasks_.push_back({interval(key), place.visible(), i, partner_is_left, 0, 0});
        }
        ++next_[side];
        if (next_[side] - first_[side] > case_.window[side]) ++first_[side];
    }

    Interval<Key> interval(Key key) {
        const Key reach = static_cast<Key>(case_.reach);
        if (reach) return {key - std::min(key, reach), key + std::min<Key>(~Key{0} - key, reach)};
        Key other = make_key<Key>(case_.shape, testing::below(random_, made_), random_);
        return {std::min(key, other), std::max(key, other)};
    }

    Case case_;
    testing::Random random_;
    std::uint64_t made_ = 0;
    std::uint64_t next_[2], first_[2];
    std::vector<Task<Key>> tasks_;
    std::vector<Place> places_;
    std::vector<std::uint8_t> sides_;
    std::vector<Entry<Key>> entries_[2], by_key_[2];
    std::vector<std::uint32_t> order_[2];
};

// The positions that one worker finds for each task, and where it sends them.
template <class Key>
class TestOutbox final : public Outbox<Key> {
  public:
    struct Sent {
        std::uint64_t before;
        const Task<Key>* first;  // the results of the chunk's tasks, from this one on
        std::vector<std::vector<std::uint32_t>> found;
    };

    std::uint64_t keep(const ChunkResults<Key>& results) override {
        Sent kept{0, results.slice.group.tasks + results.tasks.from, {}};
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < results.tasks.size(); ++i) {
            const Task<Key>& task = kept.first[i];
            CHECK(results.arrivals.from <= task.arrival && task.arrival < results.arrivals.to);
            CHECK(task.found_from <= task.found_to && task.found_to <= results.found.size());
            std::uint32_t* const found = results.found.data();
            kept.found.emplace_back(found + task.found_from, found + task.found_to);
            total += kept.found.back().size();
        }
        kept_.push_back(std::move(kept));
        return total;
    }

    void send(std::uint64_t before) override { kept_[sent_++].before = before; }

    // What was sent; nothing may be left.
    std::vector<Sent> take() {
        CHECK_EQUAL(sent_, kept_.size());
        sent_ = 0;
        return std::exchange(kept_, {});
    }

    void drop() {
        kept_.clear();
        sent_ = 0;
    }

  private:
    std::vector<Sent> kept_;
    std::size_t sent_ = 0;
};

// The shared index and the serial one, side by side.
template <class Key>
class Comparison {
  public:
    Comparison(const Case& given, const IndexOptions& index, const Sharing& sharing, unsigned seed = 1)
        : queues_(given, seed),
          self_join_(given.self_join),
          serial_{PimTree<Key>(index), PimTree<Key>(index)},
          shared_(spec(given, index, sharing)),
          lists_(sharing.workers),
          outboxes_(sharing.workers),
          wanted_(sharing.workers) {}

    SharedIndexPair<Key>& shared() { return shared_; }
    std::atomic<std::uint32_t>& wanted() { return wanted_; }

    void work(std::size_t worker) { shared_.work(worker, lists_[worker], outboxes_[worker]); }

    // Makes a queue and starts it.
    void start(std::size_t arrivals) {
        queues_.make(arrivals);
        start();
    }

    // Joins the queue serially, too, and compares.
    void finish() {
        std::vector<typename TestOutbox<Key>::Sent> all;
        for (TestOutbox<Key>& outbox : outboxes_)
            for (auto& sent : outbox.take()) all.push_back(std::move(sent));
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
            return std::pair(a.first, a.found.size()) < std::pair(b.first, b.found.size());
        });
        compare(all);
        matches_ += found_.size();
        forget();
        for (int side = 0; side < (self_join_ ? 1 : 2); ++side)
            shared_.check(side, queues_.first(side), queues_.next(side));
    }

    // Joins a queue of so many arrivals, by so many workers.
    void join(std::size_t arrivals, std::size_t workers) {
        start(arrivals);
        in_threads(workers, [&](std::size_t worker) { work(worker); });
        finish();
    }

    // The same without a list of matches.
    void count(std::size_t arrivals, std::size_t workers) {
        start(arrivals);
        std::vector<MatchCount> counts(workers);
        in_threads(workers, [&](std::size_t worker) { shared_.work(worker, counts[worker]); });
        join_alone();
        std::size_t total = 0;
        for (const MatchCount& each : counts) total += each.size();
        CHECK_EQUAL(total, found_.size());
        forget();
    }

    // The same as one group, by one thread, as any index.
    void join_serially(std::size_t arrivals) {
        queues_.make(arrivals);
        MatchList list;
        shared_.join(queues_.group(), list);
        const std::vector<QueueSlice<Key>> slices = queues_.slices(1);
        outboxes_[0].keep({slices[0], {0, arrivals}, {0, queues_.tasks().size()}, list});
        outboxes_[0].send(0);
        finish();
    }

    std::uint64_t matches() const { return matches_; }

  private:
    static JoinSpec spec(const Case& given, const IndexOptions& index, const Sharing& sharing) {
        JoinSpec spec;
        spec.task_size = sharing.task_size;
        spec.blocking_merge = sharing.blocking_merge;
        spec.self_join = given.self_join;
        spec.options = index;
        return spec;
    }

    // Compares the results of all tasks with those of the serial join.
    template <class Sent>
    void compare(std::vector<Sent>& all) {
        join_alone();
        const Task<Key>* task = queues_.tasks().data();
        std::uint64_t before = 0;
        for (Sent& sent : all) {
            CHECK_EQUAL(sent.before, before);
            if (!sent.found.empty()) CHECK(sent.first == task);
            for (std::vector<std::uint32_t>& found : sent.found) {
                std::uint32_t* const from = found_.data() + task->found_from;
                std::uint32_t* const to = found_.data() + task->found_to;
                std::sort(from, to);
                std::sort(found.begin(), found.end());
                CHECK(std::equal(from, to, found.begin(), found.end()));
                before += found.size();
                ++task;
            }
        }
        CHECK(task == queues_.tasks().data() + queues_.tasks().size());
    }

    // Joins the queue serially.
    void join_alone() {
        const Group<Key> group = queues_.group();
        found_.clear();
        for (int i = 0; i < 2; ++i)
            insert_all(serial_[i], group.entries[i], group.entry_count[i], group.by_key[i]);
        for (int i = 0; i < 2; ++i)
            probe_all(serial_[self_join_ ? 0 : i], group.tasks, group.order[i], group.order_count[i], false,
                      found_);
    }

    void forget() {
        for (int side = 0; side < 2; ++side) serial_[side].forget(queues_.first(side));
        shared_.forget(queues_.first(0), queues_.first(1));
    }

    // In one to three slices.
    void start() {
        for (TestOutbox<Key>& outbox : outboxes_) outbox.drop();
        slices_ = queues_.slices(1 + started_++ % 3);
        shared_.start(slices_, outboxes_.size(), wanted_);
        for (std::size_t i = 0; i < slices_.size(); ++i) shared_.fill(i);
    }

    Queues<Key> queues_;
    bool self_join_;
    PimTree<Key> serial_[2];
    SharedIndexPair<Key> shared_;
    std::vector<MatchList> lists_;
    std::vector<TestOutbox<Key>> outboxes_;
    std::vector<QueueSlice<Key>> slices_;
    std::size_t started_ = 0;
    std::atomic<std::uint32_t> wanted_;
    MatchList found_;
    std::uint64_t matches_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
