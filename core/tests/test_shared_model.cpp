// The protocols of the shared index (join/shared_index.hpp) as small models: every interleaving of two or
// three threads over a few arrivals is tried. All arrivals match, so that each must find all before it, once.
// Each model must also notice mistakes that are made on purpose.
#include <cstdint>
#include <cstring>
#include <string_view>
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
    std::unordered_set<std::size_t> seen;  // hashes, of 64 bits
    std::vector<State> open{initial};
    const char* wrong = nullptr;
    while (!open.empty() && !wrong) {
        const State state = open.back();
        open.pop_back();
        const std::string_view bytes(reinterpret_cast<const char*>(&state), sizeof state);
        if (!seen.insert(std::hash<std::string_view>()(bytes)).second) continue;
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
    swap_by_who_takes_the_last_piece,
    stages_share_a_counter,
    pieces_without_a_phase,
};

// A worker's step on its way with one arrival, then with a piece of the merge.
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
    kHelp,
    kReadStage,
    kTakePiece,
    kMakePiece,
    kMarkPiece,
    kCountPiece,
    kLeavePiece,
    kPlaceEdge,  // from here on: the one who has made the last piece of the copy
    kSwap,
    kWaitAgain,
    kStartInserts,
    kAdvanceLast,  // the one who has inserted the last that was left
    kBegin,        // the first worker, if there is a merge
    kWait,
    kStart,
    kEnd,
};

enum Stage : std::uint8_t { kNoStage, kCount, kCopy, kInsertLeft, kStages };

struct Worker {
    std::uint8_t step, arrival, phase, edge, found, searched;
    std::uint8_t stage, piece;
    bool holds, helps, last;  // an arrival; a piece; the last piece
};

constexpr std::uint8_t kIdle = 255;
enum Indexed : std::uint8_t { kNot, kPending, kIs };

// Phases: 0 before the merge, 1 while the next tree is built, 2 afterwards. Thread 0 begins the merge, if
// there is one; all make pieces of it. Counting notes where a piece of the copy goes, which must stay as it
// is.
struct Shared {
    std::uint8_t arrivals, next, phase, locked;
    Bug bug;
    bool merges, blocks;
    std::uint8_t tree[2], edge[2], indexed[kArrivals], announced[kThreads];
    std::uint8_t stage, taken[kStages], made[kStages];
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
        if (worker.step == kWait) return bug == Bug::no_wait_before_merge || none_before(1);
        if (worker.step == kWaitAgain) return bug == Bug::no_wait_after_swap || none_before(2);
        // A worker that a merge stops does not wait with its phase announced; one that waits for pieces to be
        // made by others has nothing to do before a stage begins or the phase changes.
        if (worker.step == kHelp && worker.holds) {
            if (bug == Bug::phase_kept_while_waiting) return phase != 1;
            return phase != 1 || pieces_left();
        }
        if (worker.step == kTake && next == arrivals && stage != kNoStage) return pieces_left();
        return true;
    }

    void step(unsigned thread) {
        Worker& worker = workers[thread];
        if (worker.step < kHelp) work(worker, announced[thread]);
        else if (worker.step < kPlaceEdge) help(worker, announced[thread]);
        else merge(worker);
    }

    void check_end() const {
        const unsigned all = below(arrivals), used = merges ? 1 : 0;
        if (tree[used] != all) throw Wrong{"an arrival is not in the tree"};
        for (unsigned i = 0; i < arrivals; ++i)
            if (indexed[i] != kIs) throw Wrong{"an arrival is not marked"};
    }

  private:
    static constexpr unsigned kPieces = 2;  // of counting and copying: even and odd arrivals

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

    unsigned pieces(unsigned of_stage) const { return of_stage == kInsertLeft ? arrivals : kPieces; }
    std::uint8_t& counter(unsigned of_stage) {
        return taken[bug == Bug::stages_share_a_counter ? unsigned{kCount} : of_stage];
    }
    bool pieces_left() const {
        const unsigned counted = bug == Bug::stages_share_a_counter ? unsigned{kCount} : stage;
        return stage != kNoStage && taken[counted] < pieces(stage);
    }

    void begin_stage(std::uint8_t next_stage) {
        stage = next_stage;
        if (bug == Bug::stages_share_a_counter) counter(next_stage) = 0;
    }

    void work(Worker& worker, std::uint8_t& announced_phase) {
        const unsigned used = copy(worker);
        switch (worker.step++) {
            case kTake:
                if (next == arrivals) {  // nobody leaves while a merge is under way
                    worker.step = stage == kNoStage ? kEnd : kHelp;
                    return;
                }
                worker.arrival = next++;
                worker.found = 0;
                worker.holds = true;
                if (!merges) worker.step = kReadEdge;
                return;
            case kReadPhase:
                worker.phase = phase;
                return;
            case kAnnounce:
                announced_phase = worker.phase;
                return;
            case kConfirm:
                if (phase != worker.phase && bug != Bug::phase_not_confirmed) worker.step = kReadPhase;
                else if (worker.helps) worker.step = kReadStage;
                else if (blocks && worker.phase == 1) {
                    if (bug != Bug::phase_kept_while_waiting) announced_phase = kIdle;
                    worker.step = kHelp;
                }
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
                worker.found = worker.edge = worker.searched = 0;
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
                forget(worker, false);
                worker.step = merges ? kHelp : kTake;
                return;
        }
    }

    // Back to the arrival that a merge has stopped, or to the next one.
    void resume(Worker& worker) const {
        const bool holds = worker.holds;
        forget(worker, holds);
        worker.step = holds ? kReadPhase : kTake;
    }

    // States that differ in what a worker no longer needs are the same.
    static void forget(Worker& worker, bool holds) {
        const std::uint8_t arrival = holds ? worker.arrival : std::uint8_t{0}, step = worker.step;
        worker = {};
        worker.arrival = arrival;
        worker.step = step;
        worker.holds = holds;
    }

    void help(Worker& worker, std::uint8_t& announced_phase) {
        switch (worker.step++) {
            case kHelp:
                if (!pieces_left()) return resume(worker);
                worker.helps = true;
                if (bug != Bug::pieces_without_a_phase) worker.step = kReadPhase;
                return;
            case kReadStage:
                worker.stage = stage;
                if (stage == kNoStage) worker.step = kLeavePiece;
                return;
            case kTakePiece:
                worker.piece = counter(worker.stage)++;
                if (worker.piece >= pieces(worker.stage)) worker.step = kLeavePiece;
                else if (bug == Bug::swap_by_who_takes_the_last_piece)
                    worker.last = worker.piece + 1u == pieces(worker.stage);
                return;
            case kMakePiece:
                if (worker.stage == kCopy) {
                    const unsigned piece = worker.piece == 0 ? 0b0101u : 0b1010u;
                    tree[1] |= static_cast<std::uint8_t>(tree[0] & piece);
                }
                if (worker.stage == kInsertLeft && indexed[worker.piece] == kPending)
                    tree[copy(worker)] |= static_cast<std::uint8_t>(1u << worker.piece);
                return;
            case kMarkPiece:
                if (worker.stage == kInsertLeft && indexed[worker.piece] == kPending)
                    indexed[worker.piece] = kIs;
                return;
            case kCountPiece:
                ++made[worker.stage];
                if (bug != Bug::swap_by_who_takes_the_last_piece)
                    worker.last = made[worker.stage] == pieces(worker.stage);
                if (worker.last && worker.stage == kCount) {
                    begin_stage(kCopy);
                    worker.last = false;
                }
                return;
            case kLeavePiece:
                announced_phase = kIdle;
                if (!worker.last) return resume(worker);
                worker.step = worker.stage == kCopy ? kPlaceEdge : kAdvanceLast;
                worker.stage = worker.piece = worker.phase = 0;
                return;
        }
    }

    void merge(Worker& worker) {
        switch (worker.step++) {
            case kBegin:
                phase = 1;
                worker.step = kWait;
                return;
            case kWait:
                worker.step = kStart;
                return;
            case kStart:
                begin_stage(kCount);
                return resume(worker);
            case kPlaceEdge:
                if (bug != Bug::one_edge_for_both_trees) edge[1] = first_not_indexed(edge[0]);
                return;
            case kSwap:
                phase = 2;
                return;
            case kWaitAgain:
                return;
            case kStartInserts:
                begin_stage(kInsertLeft);
                return resume(worker);
            case kAdvanceLast:
                if (!locked) edge_of(1) = first_not_indexed(edge_of(1));
                stage = kNoStage;
                return resume(worker);
        }
    }
};

const char* edge_protocol(Bug bug, unsigned threads, unsigned arrivals, std::size_t* states = nullptr) {
    return explore(Shared::start(arrivals, false, false, bug), threads, states);
}

const char* merge_protocol(Bug bug, unsigned threads = 2, bool blocks = false,
                           std::size_t* states = nullptr) {
    return explore(Shared::start(threads == 2 ? 3 : 2, true, blocks, bug), threads, states);
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
    std::size_t states[2];
    CHECK(merge_protocol(Bug::none, 2, false, &states[0]) == nullptr);
    CHECK(merge_protocol(Bug::none, 3, false, &states[1]) == nullptr);
    CHECK(states[0] > 10'000);
    CHECK(states[1] > 1'000'000);
    for (const Bug bug : {Bug::no_wait_before_merge, Bug::no_wait_after_swap, Bug::phase_not_confirmed,
                          Bug::pending_counted_as_indexed, Bug::edge_after_search,
                          Bug::stages_share_a_counter, Bug::pieces_without_a_phase})
        CHECK(merge_protocol(bug) != nullptr);
    for (const Bug bug : {Bug::one_edge_for_both_trees, Bug::swap_by_who_takes_the_last_piece})
        CHECK(merge_protocol(bug, 3) != nullptr);
}

TEST(shared_model_of_the_blocking_merge) {
    CHECK(merge_protocol(Bug::none, 2, true) == nullptr);
    CHECK(merge_protocol(Bug::no_wait_before_merge, 2, true) != nullptr);
    CHECK(merge_protocol(Bug::phase_kept_while_waiting, 2, true) != nullptr);
}
