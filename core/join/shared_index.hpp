// Several workers join a queue of arrivals over one PIM-Tree for each side: the parallel join of "Parallel
// Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen), section 4. docs/concurrency.md says why
// it is correct.
//
// A worker takes the next chunk of the queue (task_size arrivals), probes for it, inserts it, and propagates
// the results of all chunks that are completed up to the first that is not. Chunks are inserted in any order.
// The edge of a side is the first chunk that is not indexed. A probe reads the edge, then searches the tree
// for partners before the edge and scans the queue from there on, so that it finds every partner once.
//
// A merge happens in phases. A worker announces the phase in which it works on a chunk. The merging worker
// begins a phase and waits until no worker is in an earlier one. In a merge that does not block, workers of
// the first phase leave the inserts of that side to the merging worker, who reads the tree and builds the
// next one; those of the second phase use the next tree, and the merging worker inserts what was left to it.
// Each tree has an edge of its own, so that workers of both phases can go on at the same time.
//
// Beside the join itself a chunk costs about ten atomic operations, and a lock for each sub-tree that it
// touches.
#pragma once

#include "../index/shared_tree.hpp"
#include "shared_queue.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// What a worker may do, and which copies of the trees are in use. Later phases have greater numbers.
class Phase {
  public:
    static constexpr std::uint64_t kIdle = 0;  // not a phase

    Phase(unsigned left, unsigned right) : number_(kNext | left << 2 | right << 3) {}
    explicit Phase(std::uint64_t number) : number_(number) {}

    std::uint64_t number() const { return number_; }
    unsigned copy(int side) const { return number_ >> (2 + side) & 1; }
    bool stopped() const { return (number_ & kMode) == kMode; }
    bool inserts(int side) const { return (number_ & kMode) != merging_mode(side); }

    Phase merging(int side) const { return Phase((number_ & ~kMode) + kNext + merging_mode(side)); }
    Phase stop() const { return Phase((number_ | kMode) + kNext); }
    Phase merged(int side) const { return Phase(((number_ & ~kMode) + kNext) ^ std::uint64_t{4} << side); }

  private:
    static constexpr std::uint64_t kMode = 3, kNext = 16;

    static std::uint64_t merging_mode(int side) { return static_cast<std::uint64_t>(side) + 1; }

    std::uint64_t number_;
};

template <class Key>
class SharedIndexPair final : public IndexPairOf<Key, SharedTree<Key>, SharedIndexes<Key>> {
    using Pair = IndexPairOf<Key, SharedTree<Key>, SharedIndexes<Key>>;
    using Pair::index_;
    using Pair::self_join_;
    using Tree = typename SharedTree<Key>::Copy;

  public:
    explicit SharedIndexPair(const JoinSpec& spec)
        : Pair(spec), task_size_(spec.task_size), blocking_merge_(spec.blocking_merge) {}

    void start(const Group<Key>& group, std::size_t arrivals, const Place* places, const std::uint8_t* sides,
               std::size_t workers, const std::atomic<std::uint32_t>& wanted) override {
        if (workers_.size() < workers) workers_ = std::vector<Worker>(workers);
        wanted_ = &wanted;
        tasks_ = group.tasks;
        const std::size_t task_count = group.order_count[0] + group.order_count[1];
        chunk_count_ = (arrivals + task_size_ - 1) / task_size_;
        if (chunks_.size() < chunk_count_ + 1) chunks_ = std::vector<Chunk>(chunk_count_ + 1);
        for (int side = 0; side < 2; ++side) {
            Waiting& waiting = waiting_[side];
            waiting.count = group.entry_count[side];
            waiting.keys.reserve(waiting.count);
            waiting.positions.reserve(waiting.count);
        }
        std::uint32_t entries[2] = {0, 0}, task = 0;
        for (std::size_t chunk = 0, i = 0; chunk <= chunk_count_; ++chunk) {
            chunks_[chunk].restart(task, entries);
            for (const std::size_t end = std::min(i + task_size_, arrivals); i < end; ++i) {
                const int side = sides ? sides[i] & 1 : 0;
                const std::uint32_t at = entries[side];
                if (at < waiting_[side].count &&
                    group.entries[side][at].value == static_cast<std::uint32_t>(places[i].position)) {
                    waiting_[side].keys[at] = group.entries[side][at].key;
                    waiting_[side].positions[at] = group.entries[side][at].value;
                    ++entries[side];
                }
                while (task < task_count && tasks_[task].arrival == i) ++task;
            }
        }
        for (int side = 0; side < 2; ++side) {
            require(entries[side] == waiting_[side].count, "queue: an arrival for each entry");
            start_side(side);
        }
        next_.value.store(0, std::memory_order_relaxed);
        propagated_.value.store(0, std::memory_order_relaxed);
    }

    void work(std::size_t worker, ListRing<MatchList>& lists, const Propagate& propagate) override {
        work_listing(worker, lists, propagate);
    }

    void work(std::size_t worker, ListRing<FilteredList>& lists, const Propagate& propagate) override {
        work_listing(worker, lists, propagate);
    }

    void work(std::size_t worker, MatchCount& count) override {
        run(worker, [&](std::size_t) -> MatchCount& { return count; }, [](Chunk&, MatchCount&) {});
    }

    std::size_t bytes() const override {
        std::size_t total = Pair::bytes() + sizeof *this - sizeof(Pair) + chunks_.capacity() * sizeof(Chunk) +
                            workers_.size() * sizeof(Worker);
        for (const Waiting& waiting : waiting_) total += waiting.keys.bytes() + waiting.positions.bytes();
        return total;
    }

  private:
    enum IndexState : std::uint8_t { kNotIndexed, kLeftToMerge, kIndexed };

    // Arrivals that are joined together. What it has ends where the next chunk's begins.
    struct Chunk {
        std::uint32_t first_task;
        std::uint32_t first_entry[2];  // by side
        std::atomic<std::uint8_t> indexed[2];
        std::atomic<bool> completed;
        FoundPositions* found;

        void restart(std::uint32_t task, const std::uint32_t (&entries)[2]) {
            first_task = task;
            for (int side = 0; side < 2; ++side) {
                first_entry[side] = entries[side];
                indexed[side].store(kNotIndexed, std::memory_order_relaxed);
            }
            completed.store(false, std::memory_order_relaxed);
            found = nullptr;
        }
    };

    // Each on cache lines of its own.
    template <class T>
    struct alignas(kCacheLine) Apart {
        T value{};
    };
    using Worker = Apart<std::atomic<std::uint64_t>>;  // the phase that it is in

    // The entries of the queue, of one side, in the order of arrival.
    struct Waiting {
        Buffer<Key> keys;
        Buffer<std::uint32_t> positions;
        std::size_t count = 0;
        std::size_t merge_at = 0;                   // a merge is due when so many are indexed
        Apart<std::atomic<std::uint32_t>> edge[2];  // for each copy of the tree: a chunk
        Apart<SpinLock> advancing;
    };

    // Announces a phase as long as it lives.
    class Active {
      public:
        Active(SharedIndexPair& shared, std::size_t worker) : in_(shared.workers_[worker].value) {
            for (Patience patience;;) {
                SLIDEJOIN_YIELD(before the phase is read);
                number_ = shared.phase_.load();
                if (Phase(number_).stopped()) {
                    if (shared.failed_.load(std::memory_order_relaxed)) return;
                    patience.wait();
                    continue;
                }
                SLIDEJOIN_YIELD(before the phase is announced);
                in_.store(number_);
                SLIDEJOIN_YIELD(before the phase is confirmed);
                if (shared.phase_.load() == number_) return;
                in_.store(Phase::kIdle, std::memory_order_release);
            }
        }
        Active(const Active&) = delete;
        Active& operator=(const Active&) = delete;
        ~Active() { in_.store(Phase::kIdle, std::memory_order_release); }

        Phase phase() const { return Phase(number_); }

      private:
        std::atomic<std::uint64_t>& in_;
        std::uint64_t number_;
    };

    // Counts the entries ahead: positions, and when to merge, are those of the whole queue.
    void start_side(int side) {
        Waiting& waiting = waiting_[side];
        Tree& tree = index_[side].copy(index_[side].used());
        const std::size_t recent = tree.recent_count();
        if (waiting.count)
            tree.announce(waiting.positions[0], waiting.positions[waiting.count - 1], waiting.count);
        const std::size_t limit = tree.limit();
        waiting.merge_at = limit - std::min(limit, recent);
        waiting.edge[index_[side].used()].value.store(0, std::memory_order_relaxed);
    }

    template <class List>
    void work_listing(std::size_t worker, ListRing<List>& lists, const Propagate& propagate) {
        const auto list_for = [&](std::size_t chunk) -> List& {
            return lists.take(chunk, propagated_.value.load(std::memory_order_acquire));
        };
        run(worker, list_for, [&](Chunk& chunk, List& list) {
            chunk.found = &list;
            SLIDEJOIN_YIELD(before a chunk is completed);
            chunk.completed.store(true);
            this->propagate(propagate);
        });
    }

    template <class MatchesFor, class Complete>
    void run(std::size_t worker, MatchesFor matches_for, Complete complete) try {
        while ((worker == 0 || worker < wanted_->load(std::memory_order_relaxed)) &&
               !failed_.load(std::memory_order_relaxed)) {
            const std::size_t number = next_.value.fetch_add(1, std::memory_order_relaxed);
            if (number >= chunk_count_) return;
            auto& matches = matches_for(number);
            bool due[2];
            {
                const Active active(*this, worker);
                if (active.phase().stopped()) return;
                probe(active.phase(), number, matches);
                for (int side = 0; side < 2; ++side) due[side] = insert(active.phase(), side, number);
            }
            complete(chunks_[number], matches);
            for (int side = 0; side < 2; ++side)
                if (due[side] && merging_.try_lock()) merge(side);
        }
    } catch (...) {
        failed_.store(true, std::memory_order_relaxed);
        throw;
    }

    Tree& tree(Phase phase, int side) { return index_[side].copy(phase.copy(side)); }

    template <class Matches>
    void probe(Phase phase, std::size_t number, Matches& matches) {
        const Chunk& chunk = chunks_[number];
        const Chunk& behind = chunks_[number + 1];
        const std::uint32_t edge[2] = {edge_entry(phase, 0), edge_entry(phase, 1)};
        for (std::uint32_t task = chunk.first_task; task < behind.first_task;) {
            std::uint32_t order[2][kGroup];
            std::size_t count[2] = {0, 0};
            for (; task < behind.first_task; ++task) {
                const int probed = self_join_ || tasks_[task].partner_is_left ? 0 : 1;
                if (count[probed] == kGroup) break;
                order[probed][count[probed]++] = task;
            }
            typename SharedTree<Key>::ProbeHint hints[2][kGroup];
            for (int side = 0; side < 2; ++side)
                tree(phase, side).locate_probes(tasks_, order[side], count[side], hints[side]);
            for (int side = 0; side < 2; ++side)
                for (std::size_t i = 0; i < count[side]; ++i)
                    tree(phase, side).recent().prefetch_root(hints[side][i].recent.sub_tree);
            for (int side = 0; side < 2; ++side)
                for (std::size_t i = 0; i < count[side]; ++i) {
                    Task<Key>& each = tasks_[order[side][i]];
                    matches.begin(each);
                    search(tree(phase, side), waiting_[side], edge[side], each, hints[side][i], matches);
                    scan(waiting_[side], edge[side], chunk.first_entry[side], behind.first_entry[side], each,
                         matches);
                    each.found_to = matches.size();
                }
        }
    }

    // The number of the first entry of a side's edge. All entries before it are in the tree of this phase.
    std::uint32_t edge_entry(Phase phase, int side) {
        const std::uint32_t edge =
            waiting_[side].edge[phase.copy(side)].value.load(std::memory_order_acquire);
        SLIDEJOIN_YIELD(after the edge is read);
        return chunks_[edge].first_entry[side];
    }

    // Finds the partners before the edge.
    template <class Hint, class Matches>
    void search(const Tree& tree, const Waiting& waiting, std::uint32_t edge, const Task<Key>& task,
                Hint hint, Matches& matches) {
        Visible visible = task.visible;
        if (edge < waiting.count) {
            const auto before_edge = static_cast<std::int32_t>(waiting.positions[edge] - visible.first);
            if (before_edge <= 0) return;
            visible.count = std::min(visible.count, static_cast<std::uint32_t>(before_edge));
        }
        tree.probe(task.interval, visible, matches, hint);
        SLIDEJOIN_YIELD(after the search);
    }

    // Finds the partners from the edge on. The chunk's own entries are [from, to); a task sees as many
    // entries before them, at most, as positions.
    template <class Matches>
    void scan(const Waiting& waiting, std::uint32_t edge, std::uint32_t from, std::uint32_t to,
              const Task<Key>& task, Matches& matches) {
        const std::uint32_t start = std::max(edge, from - std::min(from, task.visible.count));
        if (start < to)
            matches.entries(waiting.keys.data() + start, waiting.positions.data() + start, to - start,
                            task.interval, task.visible);
    }

    // Inserts a chunk's entries of a side. Returns whether a merge is due.
    bool insert(Phase phase, int side, std::size_t number) {
        if (chunks_[number].first_entry[side] == chunks_[number + 1].first_entry[side]) {
            set_indexed(side, number, kIndexed);
            return false;
        }
        if (!phase.inserts(side)) {
            set_indexed(side, number, kLeftToMerge);
            return false;
        }
        insert_chunk(tree(phase, side), side, number);
        return advance(side, phase.copy(side));
    }

    void insert_chunk(Tree& tree, int side, std::size_t number) {
        const std::uint32_t end = chunks_[number + 1].first_entry[side];
        const Waiting& waiting = waiting_[side];
        for (std::uint32_t i = chunks_[number].first_entry[side]; i < end;) {
            const std::size_t count = std::min<std::size_t>(kGroup, end - i);
            typename SharedTree<Key>::InsertHint hints[kGroup];
            tree.locate_inserts(waiting.keys.data() + i, count, hints);
            for (std::size_t k = 0; k < count; ++k) tree.recent().prefetch_root(hints[k].sub_tree);
            for (std::size_t k = 0; k < count; ++k, ++i)
                tree.insert_announced(waiting.keys[i], waiting.positions[i], hints[k]);
        }
        set_indexed(side, number, kIndexed);
    }

    void set_indexed(int side, std::size_t number, IndexState state) {
        SLIDEJOIN_YIELD(before a chunk is indexed);
        chunks_[number].indexed[side].store(state, std::memory_order_release);
    }

    // Moves the edge behind all chunks that are indexed, unless another worker is doing so. Returns whether a
    // merge is due.
    bool advance(int side, unsigned copy) {
        Waiting& waiting = waiting_[side];
        if (!waiting.advancing.value.try_lock()) return false;
        std::uint32_t edge = waiting.edge[copy].value.load(std::memory_order_relaxed);
        edge = first_not_indexed(side, edge);
        waiting.edge[copy].value.store(edge, std::memory_order_release);
        const bool due = is_due(side, edge);
        waiting.advancing.value.unlock();
        return due;
    }

    std::uint32_t first_not_indexed(int side, std::uint32_t from) const {
        while (from < chunk_count_ && chunks_[from].indexed[side].load(std::memory_order_acquire) == kIndexed)
            ++from;
        return from;
    }

    bool is_due(int side, std::uint32_t edge) const {
        return chunks_[edge].first_entry[side] >= waiting_[side].merge_at;
    }

    // Propagates the results of completed chunks up to the first that is not, unless another worker is doing
    // so. That one looks again after it has released the lock, so that no chunk is left behind. A failure
    // leaves it locked: nothing is propagated any more.
    void propagate(const Propagate& propagate) {
        while (is_completed(propagated_.value.load())) {
            SLIDEJOIN_YIELD(before the lock of propagation);
            if (propagating_.value.exchange(true)) return;
            std::size_t number = propagated_.value.load(std::memory_order_relaxed);
            for (; is_completed(number); ++number) {
                propagate(chunks_[number].first_task, chunks_[number + 1].first_task, *chunks_[number].found);
                SLIDEJOIN_YIELD(before results count as propagated);
                propagated_.value.store(number + 1, std::memory_order_release);
            }
            SLIDEJOIN_YIELD(inside the lock of propagation);
            propagating_.value.store(false);
        }
    }

    bool is_completed(std::size_t number) const {
        return number < chunk_count_ && chunks_[number].completed.load();
    }

    // Merges the tree of a side, if that is still due. Holds merging_, which it releases.
    void merge(int side) {
        const Unlocking releasing{merging_};
        const Phase before(phase_.load(std::memory_order_relaxed));
        Waiting& waiting = waiting_[side];
        const unsigned old = before.copy(side), next = 1 - old;
        if (!is_due(side, waiting.edge[old].value.load(std::memory_order_acquire))) return;
        const Phase building = blocking_merge_ ? before.stop() : before.merging(side);
        begin(building);
        index_[side].copy(old).merge_into(index_[side].copy(next));
        const std::uint32_t edge =
            first_not_indexed(side, waiting.edge[old].value.load(std::memory_order_relaxed));
        waiting.edge[next].value.store(edge, std::memory_order_relaxed);
        waiting.merge_at = chunks_[edge].first_entry[side] + index_[side].copy(next).limit();
        index_[side].use(next);
        begin(building.merged(side));
        const std::size_t taken = std::min(next_.value.load(std::memory_order_relaxed), chunk_count_);
        for (std::size_t number = edge; number < taken; ++number)
            if (chunks_[number].indexed[side].load(std::memory_order_acquire) == kLeftToMerge)
                insert_chunk(index_[side].copy(next), side, number);
        advance(side, next);
    }

    // Begins a phase and waits until no worker is in an earlier one.
    void begin(Phase phase) {
        SLIDEJOIN_YIELD(before a phase begins);
        phase_.store(phase.number());
        for (const Worker& worker : workers_)
            for (Patience patience;; patience.wait()) {
                const std::uint64_t in = worker.value.load();
                if (in == Phase::kIdle || in >= phase.number()) break;
            }
    }

    struct Unlocking {
        SpinLock& lock;
        ~Unlocking() { lock.unlock(); }
    };

    std::size_t task_size_;
    bool blocking_merge_;
    Task<Key>* tasks_ = nullptr;
    std::vector<Chunk> chunks_;  // and one behind the last
    std::size_t chunk_count_ = 0;
    Waiting waiting_[2];
    std::vector<Worker> workers_;
    const std::atomic<std::uint32_t>* wanted_ = nullptr;
    std::atomic<bool> failed_{false};
    std::atomic<std::uint64_t> phase_{Phase(0, 0).number()};
    Apart<std::atomic<std::size_t>> next_;  // chunk to be taken
    Apart<std::atomic<bool>> propagating_;
    Apart<std::atomic<std::size_t>> propagated_;  // chunks
    SpinLock merging_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
