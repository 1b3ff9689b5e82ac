// A pool of threads that run one piece of work together: they meet in the middle of it where they must, and
// an error of one ends the work of all. 1-5 us a run, 1-2 us a meeting, on cores with nothing else to do.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// Stress tests delay threads at random where they meet.
#if defined(SLIDEJOIN_STRESS)
namespace slidejoin {
void stress(const char* point);
}
#define SLIDEJOIN_YIELD(point) ::slidejoin::stress(#point)
#elif !defined(SLIDEJOIN_YIELD)
#define SLIDEJOIN_YIELD(point)
#endif

namespace slidejoin {

// Numbers [from, to); or part number `part` of `parts` of those below `size`, which are about equally long.
struct Slice {
    Slice(std::size_t from, std::size_t to) : from(from), to(to) {}
    Slice(std::size_t size, std::size_t part, std::size_t parts)
        : from(size / parts * part + std::min(part, size % parts)),
          to(size / parts * (part + 1) + std::min(part + 1, size % parts)) {}

    std::size_t size() const { return to - from; }

    std::size_t from;
    std::size_t to;
};

// The number of forks that have led to this process since the first call. A process id does not tell a
// process from a forked one: the system uses it again.
inline std::uint32_t forks() {
    static std::atomic<std::uint32_t> count{0};
    static const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });
    static_cast<void>(registered);
    return count;
}

// Waits until an atomic has another value than `seen` and returns it. It stays awake for a while, since what
// is waited for usually comes soon and waking up takes long; it lets others run meanwhile.
inline std::uint32_t await_change(const std::atomic<std::uint32_t>& watched, std::uint32_t seen,
                                  std::chrono::microseconds awake) {
    using Clock = std::chrono::steady_clock;
    constexpr int kLooks = 200;
    for (int look = 0; look < kLooks; ++look) {
        const std::uint32_t now = watched.load(std::memory_order_acquire);
        if (now != seen) return now;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    for (const auto end = Clock::now() + awake; Clock::now() < end;) {
        const std::uint32_t now = watched.load(std::memory_order_acquire);
        if (now != seen) return now;
        std::this_thread::yield();
    }
    while (true) {
        watched.wait(seen, std::memory_order_acquire);
        const std::uint32_t now = watched.load(std::memory_order_acquire);
        if (now != seen) return now;
    }
}

// Deals pieces of work: first to each worker those that are its own by their number, whose memory it has used
// before, then to whoever is free, so that a slow worker delays the others little.
class Deal {
  public:
    // Before the workers begin, and not while they take.
    void start(std::size_t pieces) {
        if (pieces > room_) {
            taken_ = std::make_unique<std::atomic<std::uint32_t>[]>(pieces);
            room_ = pieces;
            round_ = 0;
        }
        pieces_ = pieces;
        ++round_;
    }

    // Calls work(piece) for the pieces that fall to a worker.
    template <class Work>
    void take(std::size_t worker, std::size_t workers, Work work) {
        const std::size_t own = Slice(pieces_, worker, workers).from;
        for (std::size_t i = 0; i < pieces_; ++i) {
            const std::size_t piece = own + i < pieces_ ? own + i : own + i - pieces_;
            std::atomic<std::uint32_t>& taken = taken_[piece];
            if (taken.load(std::memory_order_relaxed) != round_ &&
                taken.exchange(round_, std::memory_order_relaxed) != round_)
                work(piece);
        }
    }

  private:
    std::unique_ptr<std::atomic<std::uint32_t>[]> taken_;  // the round in which each piece was taken last
    std::size_t room_ = 0;
    std::size_t pieces_ = 0;
    std::uint32_t round_ = 0;
};

// Threads that wait for work. It has one caller at a time. Where a fork has copied it, it starts threads
// anew.
class Workers {
  public:
    static constexpr std::size_t kMost = 1 << 10;

    Workers() = default;
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    ~Workers() { stop(); }

    // Held by the one that runs something, where there may be others.
    std::mutex& turn() { return turn_; }

    // Starts threads that are missing. Returns how many can work together: fewer than wanted where the system
    // has no more threads.
    std::size_t prepare(std::size_t wanted) {
        if (wanted <= 1) return 1;
        if (!state_ || state_->forks != forks()) {
            abandon();
            state_ = std::make_unique<State>();
        }
        if (state_->threads.size() + 1 < wanted) start(std::min(wanted, kMost) - 1);
        return std::min(wanted, state_->threads.size() + 1);
    }

    // Calls work(0) to work(workers - 1) at the same time, work(0) in the caller's thread, and waits for all.
    // Rethrows the first error. `workers` were prepared.
    template <class Work>
    void run(std::size_t workers, Work&& work) {
        if (state_) state_->working = static_cast<std::uint32_t>(workers);
        if (workers <= 1) return work(0);
        State& state = *state_;
        state.call = [&work](std::size_t worker) { work(worker); };
        state.error = nullptr;
        state.failed.store(false, std::memory_order_relaxed);
        state.arrived.store(0, std::memory_order_relaxed);
        state.running.store(state.working - 1, std::memory_order_relaxed);
        begin(state.working);
        guarded(state, 0);
        for (std::uint32_t left = state.running.load(std::memory_order_acquire); left > 0;)
            left = await_change(state.running, left, kMeeting);
        state.call = nullptr;
        if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
    }

    // Called by each of those that work: waits for the others. If one has failed, it ends the work of all.
    void meet() {
        meet([] {});
    }

    // The same; the last one to come calls between() before any goes on.
    template <class Between>
    void meet(Between between) {
        if (!state_ || state_->working <= 1) return between();  // the caller works alone
        State& state = *state_;
        SLIDEJOIN_YIELD(before a meeting);
        const std::uint32_t round = state.round.load(std::memory_order_acquire);
        if (failed()) throw Ended();
        if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == state.working) {
            between();
            state.arrived.store(0, std::memory_order_relaxed);
            state.round.store(round + 1, std::memory_order_release);
            state.round.notify_all();
        } else {
            await_change(state.round, round, kMeeting);
            if (failed()) throw Ended();
        }
        SLIDEJOIN_YIELD(after a meeting);
    }

    // How many take part in what is run.
    std::size_t working() const { return state_ ? state_->working : 1; }

    // Ends all threads.
    void stop() {
        if (!state_) return;
        if (state_->forks != forks()) return abandon();
        begin(0);
        for (std::thread& thread : state_->threads) thread.join();
        state_.reset();
    }

  private:
    // How long a worker stays awake for the others, and for what is run next.
    static constexpr std::chrono::microseconds kMeeting{5000}, kNextRun{1000};

    struct Ended {};  // thrown where another one has failed

    struct State {
        const std::uint32_t forks = slidejoin::forks();
        std::vector<std::thread> threads;
        std::function<void(std::size_t)> call;
        std::uint32_t working = 0;
        std::exception_ptr error;
        alignas(64) std::atomic<std::uint32_t> run{0};  // what was begun: its number, and who takes part
        alignas(64) std::atomic<std::uint32_t> running{0};
        alignas(64) std::atomic<std::uint32_t> arrived{0};
        alignas(64) std::atomic<std::uint32_t> round{0};
        alignas(64) std::atomic<bool> failed{false};
    };
    static constexpr std::uint32_t kNumber = 2 * kMost;  // lower bits of State::run: so many take part

    // Whether one of those that work has failed.
    bool failed() const { return state_->failed.load(std::memory_order_acquire); }

    void start(std::size_t threads) {
        State* const state = state_.get();
        // Signals are for the caller's thread.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            state->threads.reserve(threads);
            while (state->threads.size() < threads) {
                const auto worker = static_cast<std::uint32_t>(state->threads.size() + 1);
                const std::uint32_t seen = state->run.load(std::memory_order_relaxed);
                state->threads.emplace_back([state, worker, seen] { serve(*state, worker, seen); });
            }
        } catch (const std::exception&) {
            // No more threads, or no memory for one: those that there are do the work.
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    // Begins what the first `workers` take part in; with 0 all threads end.
    void begin(std::uint32_t workers) {
        const std::uint32_t last = state_->run.load(std::memory_order_relaxed);
        state_->run.store((last / kNumber + 1) * kNumber + workers, std::memory_order_release);
        state_->run.notify_all();
    }

    // A thread that does not take part reads nothing but `run`, whose other parts may be those of the next.
    static void serve(State& state, std::uint32_t worker, std::uint32_t seen) {
        bool took_part = true;
        while (true) {
            seen = await_change(state.run, seen, took_part ? kNextRun : std::chrono::microseconds(0));
            const std::uint32_t workers = seen % kNumber;
            if (workers == 0) return;
            took_part = worker < workers;
            if (!took_part) continue;
            guarded(state, worker);
            if (state.running.fetch_sub(1, std::memory_order_acq_rel) == 1) state.running.notify_one();
        }
    }

    static void guarded(State& state, std::size_t worker) {
        try {
            state.call(worker);
        } catch (const Ended&) {
        } catch (...) {
            if (!state.failed.exchange(true)) state.error = std::current_exception();
            // Those who wait, or are about to, see a new round and the failure.
            state.round.fetch_add(1, std::memory_order_release);
            state.round.notify_all();
        }
    }

    // The threads of a parent process are not here: what describes them is left alone.
    void abandon() { static_cast<void>(state_.release()); }

    std::unique_ptr<State> state_;
    std::mutex turn_;
};

}  // namespace slidejoin
