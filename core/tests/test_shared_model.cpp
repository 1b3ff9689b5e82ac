// The protocols of the shared index (join/shared_index.hpp) as small models: every interleaving of two or
// three threads over a few arrivals is tried. All arrivals match, so that each must find all before it, once.
// Each model must also notice mistakes that are made on purpose.
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "testing.hpp"

namespace {

constexpr unsigned kArrivals = 4, kThreads = 3;

unsigned below(unsigned arrival) { return (1u << arrival) - 1; }  // a set of arrivals

struct Wrong {
    const char* what;
};

// Tries all orders of steps. A state has enabled(thread), step(thread), which throws Wrong, finished(thread)
// and check_end(). Returns what is wrong, or nullptr.
template <class State>
const char* explore(const State& initial, unsigned threads, std::size_t* states = nullptr) {
    std::unordered_set<std::string> seen;
    std::vector<State> open{initial};
    const char* wrong = nullptr;
    while (!open.empty() && !wrong) {
        const State state = open.back();
        open.pop_back();
        if (!seen.emplace(reinterpret_cast<const char*>(&state), sizeof state).second) continue;
        bool moves = false, finished = true;
        try {
            for (unsigned thread = 0; thread < threads; ++thread) {
                finished &= state.finished(thread);
                if (state.finished(thread) || !state.enabled(thread)) continue;
                moves = true;
                State next = state;
                next.step(thread);
                open.push_back(next);
            }
            if (finished) state.check_end();
            else if (!moves) throw Wrong{"deadlock"};
        } catch (const Wrong& caught) {
            wrong = caught.what;
        }
    }
    if (states) *states = seen.size();
    return wrong;
}

enum class Bug : std::uint8_t {
    none,
    edge_after_search,
    indexed_before_insert,
    search_beyond_edge,
    scan_behind_edge,
    no_wait_before_merge,
    no_wait_after_swap,
    one_edge_for_both_trees,
    phase_not_confirmed,
    phase_kept_while_waiting,
    edge_of_taken_chunks,
    pending_counted_as_indexed,
};

// A worker's step on its way with one arrival.
enum Step : std::uint8_t {
    kTake,
    kReadPhase,
    kAnnounce,
    kConfirm,
    kReadEdge,
    kSearch,
    kScan,
    kInsert,
    kMark,
    kLock,
    kAdvance,
    kUnlock,
    kLeave,
    kEnd,
    kBegin,  // from here on: those of the merging worker
    kWait,
    kBuild,
    kPlaceEdge,
    kSwap,
    kWaitAgain,
    kInsertPending,
    kMarkPending,
    kAdvanceLast,
};

struct Worker {
    std::uint8_t step, arrival, phase, edge, found, searched;
};

constexpr std::uint8_t kIdle = 255;
enum Indexed : std::uint8_t { kNot, kPending, kIs };

// Phases: 0 before the merge, 1 while the next tree is built, 2 afterwards. Thread 0 merges, if one does.
struct Shared {
    std::uint8_t arrivals, next, phase, locked;
    Bug bug;
    bool merges, blocks;
    std::uint8_t tree[2], edge[2], indexed[kArrivals], announced[kThreads];
    Worker workers[kThreads];

    static Shared start(unsigned arrivals, bool merges, bool blocks, Bug bug) {
        Shared state;
        std::memset(&state, 0, sizeof state);  // padding, too: states are compared by their bytes
        state.arrivals = static_cast<std::uint8_t>(arrivals);
        state.merges = merges;
        state.blocks = blocks;
        state.bug = bug;
        for (std::uint8_t& each : state.announced) each = kIdle;
        if (merges) state.workers[0].step = kBegin;
        return state;
    }

    bool finished(unsigned thread) const { return workers[thread].step == kEnd; }

    bool enabled(unsigned thread) const {
        const Worker& worker = workers[thread];
        if (worker.step == kReadPhase) return !(blocks && phase == 1);
        if (worker.step == kWait) return bug == Bug::no_wait_before_merge || none_before(1);
        if (worker.step == kWaitAgain) return bug == Bug::no_wait_after_swap || none_before(2);
        return true;
    }

    void step(unsigned thread) {
        Worker& worker = workers[thread];
        if (worker.step < kBegin) work(worker, announced[thread]);
        else merge(worker);
    }

    void check_end() const {
        const unsigned all = below(arrivals), used = merges ? 1 : 0;
        if (tree[used] != all) throw Wrong{"an arrival is not in the tree"};
        for (unsigned i = 0; i < arrivals; ++i)
            if (indexed[i] != kIs) throw Wrong{"an arrival is not marked"};
    }

  private:
    bool none_before(std::uint8_t wanted) const {
        for (const std::uint8_t each : announced)
            if (each != kIdle && each < wanted) return false;
        return true;
    }

    unsigned copy(const Worker& worker) const { return worker.phase == 2; }
    std::uint8_t& edge_of(unsigned tree) { return edge[bug == Bug::one_edge_for_both_trees ? 0 : tree]; }

    std::uint8_t first_not_indexed(std::uint8_t from) const {
        while (from < arrivals && indexed[from] == kIs) ++from;
        return from;
    }

    void find(Worker& worker, unsigned arrivals_found) const {
        arrivals_found &= below(worker.arrival);
        if (worker.found & arrivals_found) throw Wrong{"a pair is found twice"};
        worker.found |= static_cast<std::uint8_t>(arrivals_found);
    }

    void work(Worker& worker, std::uint8_t& announced_phase) {
        const unsigned used = copy(worker);
        switch (worker.step++) {
            case kTake:
                worker.arrival = next;
                worker.found = 0;
                if (next == arrivals) worker.step = kEnd;
                else ++next;
                if (!merges) worker.step = worker.step == kEnd ? kEnd : kReadEdge;
                return;
            case kReadPhase:
                worker.phase = phase;
                return;
            case kAnnounce:
                announced_phase = worker.phase;
                return;
            case kConfirm:
                if (phase == worker.phase || bug == Bug::phase_not_confirmed) return;
                if (bug != Bug::phase_kept_while_waiting) announced_phase = kIdle;
                worker.step = kReadPhase;
                return;
            case kReadEdge:
                if (bug == Bug::edge_after_search) worker.searched = tree[used];
                else worker.edge = edge_of(used);
                return;
            case kSearch:
                if (bug == Bug::edge_after_search) worker.edge = edge_of(used);
                else worker.searched = tree[used];
                find(worker,
                     bug == Bug::search_beyond_edge ? worker.searched : worker.searched & below(worker.edge));
                return;
            case kScan:
                find(worker, ~below(worker.edge + (bug == Bug::scan_behind_edge)));
                if (worker.found != below(worker.arrival)) throw Wrong{"a pair is missing"};
                return;
            case kInsert:
                if (merges && worker.phase == 1) {
                    indexed[worker.arrival] = bug == Bug::pending_counted_as_indexed ? kIs : kPending;
                    worker.step = bug == Bug::pending_counted_as_indexed ? kLock : kLeave;
                } else if (bug == Bug::indexed_before_insert) {
                    indexed[worker.arrival] = kIs;
                } else {
                    tree[used] |= static_cast<std::uint8_t>(1u << worker.arrival);
                }
                return;
            case kMark:
                if (bug == Bug::indexed_before_insert)
                    tree[used] |= static_cast<std::uint8_t>(1u << worker.arrival);
                indexed[worker.arrival] = kIs;
                return;
            case kLock:
                if (locked) worker.step = kLeave;
                locked = 1;
                return;
            case kAdvance:
                worker.edge = bug == Bug::edge_of_taken_chunks ? next : first_not_indexed(edge_of(used));
                return;
            case kUnlock:
                edge_of(used) = worker.edge;
                locked = 0;
                return;
            case kLeave:
                announced_phase = kIdle;
                worker.step = kTake;
                return;
        }
    }

    void merge(Worker& worker) {
        switch (worker.step++) {
            case kBegin:
                phase = 1;
                return;
            case kWait:
                return;
            case kBuild:
                tree[1] = tree[0];
                return;
            case kPlaceEdge:
                if (bug != Bug::one_edge_for_both_trees) edge[1] = first_not_indexed(edge[0]);
                return;
            case kSwap:
                phase = 2;
                return;
            case kWaitAgain:
                worker.arrival = 0;
                return;
            case kInsertPending:  // and the next step: one arrival after the other
                while (worker.arrival < arrivals && indexed[worker.arrival] != kPending) ++worker.arrival;
                if (worker.arrival == arrivals) worker.step = kAdvanceLast;
                else tree[1] |= static_cast<std::uint8_t>(1u << worker.arrival);
                return;
            case kMarkPending:
                indexed[worker.arrival] = kIs;
                worker.step = kInsertPending;
                return;
            case kAdvanceLast:
                if (!locked) edge_of(1) = first_not_indexed(edge_of(1));
                worker.step = kEnd;
                return;
        }
    }
};

const char* edge_protocol(Bug bug, unsigned threads, unsigned arrivals, std::size_t* states = nullptr) {
    return explore(Shared::start(arrivals, false, false, bug), threads, states);
}

const char* merge_protocol(Bug bug, bool blocks = false, std::size_t* states = nullptr) {
    return explore(Shared::start(kArrivals, true, blocks, bug), kThreads, states);
}

}  // namespace

TEST(shared_model_of_the_edge) {
    std::size_t states = 0;
    CHECK(edge_protocol(Bug::none, 1, kArrivals) == nullptr);
    CHECK(edge_protocol(Bug::none, 2, kArrivals) == nullptr);
    CHECK(edge_protocol(Bug::none, 3, 3, &states) == nullptr);
    CHECK(states > 10'000);
    for (const Bug bug : {Bug::edge_after_search, Bug::indexed_before_insert, Bug::search_beyond_edge,
                          Bug::scan_behind_edge, Bug::edge_of_taken_chunks})
        CHECK(edge_protocol(bug, 2, 3) != nullptr);
}

TEST(shared_model_of_the_merge) {
    std::size_t states = 0;
    CHECK(merge_protocol(Bug::none, false, &states) == nullptr);
    CHECK(states > 10'000);
    for (const Bug bug : {Bug::no_wait_before_merge, Bug::no_wait_after_swap, Bug::one_edge_for_both_trees,
                          Bug::phase_not_confirmed, Bug::pending_counted_as_indexed, Bug::edge_after_search})
        CHECK(merge_protocol(bug) != nullptr);
}

TEST(shared_model_of_the_blocking_merge) {
    CHECK(merge_protocol(Bug::none, true) == nullptr);
    CHECK(merge_protocol(Bug::no_wait_before_merge, true) != nullptr);
    CHECK(merge_protocol(Bug::phase_kept_while_waiting, true) != nullptr);
}
