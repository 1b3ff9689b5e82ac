// Several workers join a queue of arrivals over one PIM-Tree for each side: the parallel join of "Parallel
// Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen), section 4. docs/concurrency.md says why
// it is correct.
//
// A worker takes the next chunk of the queue (task_size arrivals), probes for it, inserts it, and gives all
// chunks that are completed, up to the first that is not, their place among the results. Each worker writes
// the results of its own chunks once they have a place. Chunks are inserted in any order. The edge of a side
// is the first chunk that is not indexed. A probe reads the edge, then searches the tree for partners before
// the edge and scans the queue from there on, so that it finds every partner once.
//
// A merge happens in phases. A worker announces the phase in which it works on a chunk. The worker who begins
// a phase waits until no other is in an earlier one. In the first phase the next tree is built from the one
// in use, into which nobody inserts; workers leave the inserts of that side to the merge, unless it blocks
// and they wait. In the second phase they use the next tree, and what was left is inserted. All of it is
// done in small pieces: a worker makes one after each chunk. Each tree has an edge of its own, so that
// workers of both phases can go on at the same time.
//
// Beside the join itself a chunk costs about ten atomic operations, and a lock for each sub-tree that it
// touches.
#pragma once

#include "../index/shared_tree.hpp"
#include "chunk_queue.hpp"
#include "merge_pieces.hpp"

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
    using Chunk = QueueChunk<Key>;
    using Entries = QueueEntries<Key>;

  public:
    explicit SharedIndexPair(const JoinSpec& spec)
        : Pair(spec), chunks_(spec.task_size), blocking_merge_(spec.blocking_merge) {}

    void start(const std::vector<QueueSlice<Key>>& queue, std::size_t workers,
               const std::atomic<std::uint32_t>& wanted) override {
        if (workers_.size() < workers) workers_ = std::vector<Worker>(workers);
        wanted_ = &wanted;
        chunks_.start(queue);
        for (int side = 0; side < 2; ++side) start_side(side);
        next_.value.store(0, std::memory_order_relaxed);
        placed_.value.store(0, std::memory_order_relaxed);
        pairs_ = 0;
    }

    void fill(std::size_t slice) override { chunks_.fill(slice); }

    void work(std::size_t worker, MatchList& list, Outbox<Key>& outbox) override {
        work_listing(worker, list, outbox);
    }

    void work(std::size_t worker, FilteredList& list, Outbox<Key>& outbox) override {
        work_listing(worker, list, outbox);
    }

    void work(std::size_t worker, MatchCount& count) override {
        run(worker, count, [](Chunk&, std::size_t) {}, [] { return true; });
    }

    std::size_t bytes() const override {
        return Pair::bytes() + sizeof *this - sizeof(Pair) + chunks_.bytes() +
               workers_.size() * sizeof(Worker);
    }

  private:
    // Each on cache lines of its own.
    template <class T>
    struct alignas(kCacheLine) Apart {
        T value{};
    };
    using Worker = Apart<std::atomic<std::uint64_t>>;  // the phase that it is in

    // How far a side is indexed.
    struct Indexed {
        std::size_t merge_at = 0;                   // a merge is due when so many entries of the queue are
        Apart<std::atomic<std::uint32_t>> edge[2];  // for each copy of the tree: a chunk
        Apart<SpinLock> advancing;
    };

    // Announces a phase as long as it lives.
    class Active {
      public:
        Active(SharedIndexPair& shared, std::size_t worker) : in_(shared.workers_[worker].value) {
            do {
                SLIDEJOIN_YIELD(before the phase is read);
                number_ = shared.phase_.load();
                SLIDEJOIN_YIELD(before the phase is announced);
                in_.store(number_);
                SLIDEJOIN_YIELD(before the phase is confirmed);
            } while (shared.phase_.load() != number_);
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
        Tree& tree = index_[side].copy(index_[side].used());
        const std::size_t recent = tree.recent_count(), count = chunks_.entries(side).count;
        if (count) tree.announce(chunks_.entries(side).first, chunks_.entries(side).last, count);
        const std::size_t limit = tree.limit();
        indexed_[side].merge_at = limit - std::min(limit, recent);
        indexed_[side].edge[index_[side].used()].value.store(0, std::memory_order_relaxed);
    }

    template <class List>
    void work_listing(std::size_t worker, List& list, Outbox<Key>& outbox) {
        std::vector<std::size_t> own;  // chunks whose results wait
        std::size_t sent = 0;
        const auto send = [&] {
            place();
            const std::size_t placed = placed_.value.load(std::memory_order_acquire);
            for (; sent < own.size() && own[sent] < placed; ++sent) {
                outbox.send(chunks_[own[sent]].before);
                SLIDEJOIN_YIELD(after results are propagated);
            }
            if (sent < own.size()) return false;
            own.clear();
            sent = 0;
            return true;
        };
        const auto complete = [&](Chunk& chunk, std::size_t number) {
            chunk.pairs = outbox.keep({*chunk.slice,
                                       {chunk.first_arrival, chunk.first_arrival + chunk.arrivals},
                                       {chunk.first_task, chunk.first_task + chunk.tasks},
                                       list});
            own.push_back(number);
            SLIDEJOIN_YIELD(before a chunk is completed);
            chunk.completed.store(true, std::memory_order_release);
            send();
            list.clear();
        };
        list.clear();
        run(worker, list, complete, send);
    }

    // send() sends results that wait for their place, and returns whether none waits any more.
    template <class Matches, class Complete, class Send>
    void run(std::size_t worker, Matches& matches, Complete complete, Send send) try {
        while (worker == 0 || worker < wanted_->load(std::memory_order_relaxed)) {
            const std::size_t number = next_.value.fetch_add(1, std::memory_order_relaxed);
            if (number >= chunks_.count()) break;
            if (failed_.load(std::memory_order_relaxed)) return;
            SLIDEJOIN_YIELD(after a chunk is taken);
            bool due[2] = {false, false};
            for (Patience patience; !join_chunk(worker, number, matches, due); patience.wait()) {
                help(worker);
                if (failed_.load(std::memory_order_relaxed)) return;
            }
            complete(chunks_[number], number);
            for (int side = 0; side < 2; ++side)
                if (due[side] && merging_.try_lock()) merge(side);
            help(worker);
        }
        for (Patience patience; !send() || pieces_.any(); patience.wait()) {
            help(worker);
            if (failed_.load(std::memory_order_relaxed)) return;
        }
    } catch (...) {
        failed_.store(true, std::memory_order_relaxed);
        throw;
    }

    // Probes for a chunk and inserts it. Returns false, and does nothing, while a merge stops everyone.
    template <class Matches>
    bool join_chunk(std::size_t worker, std::size_t number, Matches& matches, bool (&due)[2]) {
        const Active active(*this, worker);
        if (active.phase().stopped()) return false;
        probe(active.phase(), number, matches);
        for (int side = 0; side < 2; ++side) due[side] = insert(active.phase(), side, number);
        return true;
    }

    Tree& tree(Phase phase, int side) { return index_[side].copy(phase.copy(side)); }

    template <class Matches>
    void probe(Phase phase, std::size_t number, Matches& matches) {
        const Chunk& chunk = chunks_[number];
        const Chunk& behind = chunks_[number + 1];
        const std::uint32_t edge[2] = {edge_entry(phase, 0), edge_entry(phase, 1)};
        Task<Key>* const tasks = chunk.slice->group.tasks + chunk.first_task;
        for (std::uint32_t task = 0; task < chunk.tasks;) {
            std::uint32_t order[2][kGroup];
            std::size_t count[2] = {0, 0};
            for (; task < chunk.tasks; ++task) {
                const int probed = self_join_ || tasks[task].partner_is_left ? 0 : 1;
                if (count[probed] == kGroup) break;
                order[probed][count[probed]++] = task;
            }
            typename SharedTree<Key>::ProbeHint hints[2][kGroup];
            for (int side = 0; side < 2; ++side)
                tree(phase, side).locate_probes(tasks, order[side], count[side], hints[side]);
            for (int side = 0; side < 2; ++side)
                for (std::size_t i = 0; i < count[side]; ++i)
                    tree(phase, side).recent().prefetch_root(hints[side][i].recent.sub_tree);
            for (int side = 0; side < 2; ++side)
                for (std::size_t i = 0; i < count[side]; ++i) {
                    Task<Key>& each = tasks[order[side][i]];
                    matches.begin(each);
                    search(tree(phase, side), chunks_.entries(side), edge[side], each, hints[side][i],
                           matches);
                    scan(chunks_.entries(side), edge[side], chunk.first_entry[side], behind.first_entry[side],
                         each, matches);
                    each.found_to = matches.size();
                }
        }
    }

    // The number of the first entry of a side's edge. All entries before it are in the tree of this phase.
    std::uint32_t edge_entry(Phase phase, int side) {
        const std::uint32_t edge =
            indexed_[side].edge[phase.copy(side)].value.load(std::memory_order_acquire);
        SLIDEJOIN_YIELD(after the edge is read);
        return chunks_[edge].first_entry[side];
    }

    // Finds the partners before the edge.
    template <class Hint, class Matches>
    void search(const Tree& tree, const Entries& entries, std::uint32_t edge, const Task<Key>& task,
                Hint hint, Matches& matches) {
        Visible visible = task.visible;
        if (edge < entries.count) {
            const auto before_edge = static_cast<std::int32_t>(entries.positions[edge] - visible.first);
            if (before_edge <= 0) return;
            visible.count = std::min(visible.count, static_cast<std::uint32_t>(before_edge));
        }
        tree.probe(task.interval, visible, matches, hint);
        SLIDEJOIN_YIELD(after the search);
    }

    // Finds the partners from the edge on. The chunk's own entries are [from, to); a task sees as many
    // entries before them, at most, as positions.
    template <class Matches>
    void scan(const Entries& entries, std::uint32_t edge, std::uint32_t from, std::uint32_t to,
              const Task<Key>& task, Matches& matches) {
        const std::uint32_t start = std::max(edge, from - std::min(from, task.visible.count));
        if (start < to)
            matches.entries(entries.keys.data() + start, entries.positions.data() + start, to - start,
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
        const Entries& entries = chunks_.entries(side);
        for (std::uint32_t i = chunks_[number].first_entry[side]; i < end;) {
            const std::size_t count = std::min<std::size_t>(kGroup, end - i);
            typename SharedTree<Key>::InsertHint hints[kGroup];
            tree.locate_inserts(entries.keys.data() + i, count, hints);
            for (std::size_t k = 0; k < count; ++k) tree.recent().prefetch_root(hints[k].sub_tree);
            for (std::size_t k = 0; k < count; ++k, ++i)
                tree.insert_announced(entries.keys[i], entries.positions[i], hints[k]);
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
        Indexed& indexed = indexed_[side];
        if (!indexed.advancing.value.try_lock()) return false;
        std::uint32_t edge = indexed.edge[copy].value.load(std::memory_order_relaxed);
        edge = first_not_indexed(side, edge);
        indexed.edge[copy].value.store(edge, std::memory_order_release);
        const bool due = is_due(side, edge);
        indexed.advancing.value.unlock();
        return due;
    }

    std::uint32_t first_not_indexed(int side, std::uint32_t from) const {
        while (from < chunks_.count() &&
               chunks_[from].indexed[side].load(std::memory_order_acquire) == kIndexed)
            ++from;
        return from;
    }

    bool is_due(int side, std::uint32_t edge) const {
        return chunks_[edge].first_entry[side] >= indexed_[side].merge_at;
    }

    // Gives completed chunks up to the first that is not their place among the results, unless another worker
    // is doing so. What that one misses is left to the next who tries: every worker tries until the results
    // of its own chunks are sent.
    void place() {
        if (!is_completed(placed_.value.load(std::memory_order_relaxed)) || !placing_.value.try_lock())
            return;
        std::size_t number = placed_.value.load(std::memory_order_relaxed);
        for (; is_completed(number); ++number) {
            chunks_[number].before = pairs_;
            pairs_ += chunks_[number].pairs;
        }
        SLIDEJOIN_YIELD(before chunks count as placed);
        placed_.value.store(number, std::memory_order_release);
        placing_.value.unlock();
    }

    bool is_completed(std::size_t number) const {
        return number < chunks_.count() && chunks_[number].completed.load(std::memory_order_acquire);
    }

    // Begins to merge the tree of a side, if that is still due. Holds merging_, which end_merge releases. A
    // worker makes a piece after each chunk: if there are not that many chunks left, the next queue begins
    // with the merge.
    void merge(int side) {
        const Phase before(phase_.load(std::memory_order_relaxed));
        const unsigned old = before.copy(side), next = 1 - old;
        const std::uint32_t edge = indexed_[side].edge[old].value.load(std::memory_order_acquire);
        const bool late = edge + pieces_.pieces(index_[side].copy(old)) > chunks_.count();
        if (!is_due(side, edge) || (late && indexed_[side].merge_at > 0)) return merging_.unlock();
        merged_ = side;
        begin(blocking_merge_ ? before.stop() : before.merging(side));
        pieces_.start(index_[side].copy(old), index_[side].copy(next));
    }

    // Makes a piece of the merge, if one is under way and has any left.
    void help(std::size_t worker) {
        if (!pieces_.any()) return;
        MergeStage ended = MergeStage::none;
        {
            const Active active(*this, worker);
            ended = pieces_.make([&](std::size_t chunk) { insert_left(active.phase(), chunk); });
        }
        if (ended == MergeStage::copy) swap_trees();
        if (ended == MergeStage::insert) end_merge();
    }

    // The next tree is built: it is used from now on.
    void swap_trees() {
        const int side = merged_;
        Indexed& indexed = indexed_[side];
        const Phase building(phase_.load(std::memory_order_relaxed));
        const unsigned old = building.copy(side), next = 1 - old;
        const std::uint32_t edge =
            first_not_indexed(side, indexed.edge[old].value.load(std::memory_order_relaxed));
        indexed.edge[next].value.store(edge, std::memory_order_relaxed);
        indexed.merge_at = chunks_[edge].first_entry[side] + index_[side].copy(next).limit();
        index_[side].use(next);
        begin(building.merged(side));
        const std::size_t taken = std::min(next_.value.load(std::memory_order_relaxed), chunks_.count());
        if (!pieces_.insert(edge, std::max<std::size_t>(taken, edge))) end_merge();
    }

    // Inserts a chunk that was left to the merge.
    void insert_left(Phase phase, std::size_t number) {
        if (chunks_[number].indexed[merged_].load(std::memory_order_acquire) != kLeftToMerge) return;
        insert_chunk(tree(phase, merged_), merged_, number);
        advance(merged_, phase.copy(merged_));
    }

    void end_merge() {
        advance(merged_, Phase(phase_.load(std::memory_order_relaxed)).copy(merged_));
        pieces_.end();
        merging_.unlock();
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

    ChunkQueue<Key> chunks_;
    bool blocking_merge_;
    Indexed indexed_[2];  // by side
    std::vector<Worker> workers_;
    const std::atomic<std::uint32_t>* wanted_ = nullptr;
    std::atomic<bool> failed_{false};
    std::atomic<std::uint64_t> phase_{Phase(0, 0).number()};
    Apart<std::atomic<std::size_t>> next_;  // chunk to be taken
    Apart<SpinLock> placing_;
    std::uint64_t pairs_ = 0;                 // of the chunks that are placed
    Apart<std::atomic<std::size_t>> placed_;  // chunks
    SpinLock merging_;
    int merged_ = 0;  // side
    MergePieces<Tree> pieces_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
