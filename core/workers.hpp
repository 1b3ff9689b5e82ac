// Runs one piece of work in several threads, waits for them, and rethrows the first error: in threads of its
// own, some 10-50 us a thread, or in those of a pool, 1-5 us.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

// Stress tests delay threads at random where they meet.
#if defined(SLIDEJOIN_STRESS)
namespace slidejoin {
void stress();
}
#define SLIDEJOIN_YIELD(point) ::slidejoin::stress()
#elif !defined(SLIDEJOIN_YIELD)
#define SLIDEJOIN_YIELD(point)
#endif

namespace slidejoin {

// Part number `part` of `parts` of the numbers below `size`; all parts are about equally long.
struct Slice {
    Slice(std::size_t size, std::size_t part, std::size_t parts)
        : from(size / parts * part + std::min(part, size % parts)),
          to(size / parts * (part + 1) + std::min(part + 1, size % parts)) {}

    std::size_t size() const { return to - from; }

    std::size_t from;
    std::size_t to;
};

// Calls work(0) to work(workers - 1), each in its own thread, the first one in the caller's.
inline void run_workers(std::size_t workers, const std::function<void(std::size_t)>& work) {
    std::vector<std::exception_ptr> errors(workers);
    const auto guarded = [&](std::size_t worker) {
        try {
            work(worker);
        } catch (...) {
            errors[worker] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(workers);
    std::size_t started = 1;
    try {
        for (; started < workers; ++started) threads.emplace_back(guarded, started);
    } catch (const std::system_error&) {
        // The system has no more threads: the caller does the rest.
    }
    guarded(0);
    for (std::size_t worker = started; worker < workers; ++worker) guarded(worker);
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

// Waits until an atomic has another value than `seen` and returns it: looks for a moment, since what is
// waited for usually comes soon, then lets others run, then sleeps, from which waking takes long.
inline std::uint32_t await_change(const std::atomic<std::uint32_t>& watched, std::uint32_t seen,
                                  int turns = 200) {
    constexpr int kLooks = 200;
    for (int turn = 0; turn < turns; ++turn) {
        for (int look = 0; look < kLooks; ++look) {
            const std::uint32_t now = watched.load(std::memory_order_acquire);
            if (now != seen) return now;
#if defined(__x86_64__)
            if (turn < 2) __builtin_ia32_pause();
            else break;
#endif
        }
        if (turn >= 2) std::this_thread::yield();
    }
    while (true) {
        watched.wait(seen, std::memory_order_acquire);
        const std::uint32_t now = watched.load(std::memory_order_acquire);
        if (now != seen) return now;
    }
}

// Deals pieces of work to those who are free to take one, so that a slow worker delays the others little.
class Deal {
  public:
    void start(std::size_t pieces) {
        pieces_ = pieces;
        next_.store(0, std::memory_order_relaxed);
    }

    // Calls work(piece) for the pieces that fall to the caller.
    template <class Work>
    void take(Work work) {
        for (std::size_t piece; (piece = next_.fetch_add(1, std::memory_order_relaxed)) < pieces_;)
            work(piece);
    }

  private:
    std::size_t pieces_ = 0;
    alignas(64) std::atomic<std::size_t> next_{0};
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

    // Starts threads that are missing. Returns how many can work together: fewer than wanted where the system
    // has no more threads.
    std::size_t prepare(std::size_t wanted) {
        if (wanted <= 1) return 1;
        if (!state_ || state_->process != getpid()) {
            abandon();
            state_ = std::make_unique<State>();
            state_->process = getpid();
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
            left = await_change(state.running, left);
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
            await_change(state.round, round);
            if (failed()) throw Ended();
        }
        SLIDEJOIN_YIELD(after a meeting);
    }

    // How many take part in what is run.
    std::size_t working() const { return state_ ? state_->working : 1; }

    // Whether one of those that work has failed.
    bool failed() const { return state_->failed.load(std::memory_order_acquire); }

    // Ends all threads.
    void stop() {
        if (!state_) return;
        if (state_->process != getpid()) return abandon();
        begin(0);
        for (std::thread& thread : state_->threads) thread.join();
        state_.reset();
    }

  private:
    struct Ended {};  // thrown where another one has failed

    struct State {
        pid_t process;
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
            seen = took_part ? await_change(state.run, seen) : await_change(state.run, seen, 0);
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
};

}  // namespace slidejoin
