// Locks for work of well below a microsecond, such as an insert into a sub-tree: they wait with a few pauses,
// then let other threads run. About 10 ns without contention.
#pragma once

#include "target.hpp"

// A point at which another thread may get ahead of this one (workers.hpp).
#ifndef SLIDEJOIN_YIELD
#define SLIDEJOIN_YIELD(point)
#endif

namespace slidejoin::SLIDEJOIN_TARGET {

// Waits for another thread, one turn at a time.
class Patience {
  public:
    void wait() {
        if (turns_++ >= kPauses) return std::this_thread::yield();
#if defined(__x86_64__)
        _mm_pause();
#endif
    }

  private:
    static constexpr unsigned kPauses = 32;

    unsigned turns_ = 0;
};

class SpinLock {
  public:
    void lock() {
        for (Patience patience; !try_lock();) patience.wait();
    }

    bool try_lock() {
        SLIDEJOIN_YIELD(before a lock);
        return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
    }

    void unlock() {
        SLIDEJOIN_YIELD(inside a lock);
        held_.store(false, std::memory_order_release);
    }

  private:
    std::atomic<bool> held_{false};
};

struct NoLock {
    void lock() {}
    void unlock() {}
};

// Holds a lock as long as it lives. hand_over takes the next lock before it releases this one.
template <class Lock>
class Holding {
  public:
    explicit Holding(Lock& lock) : lock_(&lock) { lock_->lock(); }
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    ~Holding() { lock_->unlock(); }

    void hand_over(Lock& next) {
        next.lock();
        lock_->unlock();
        lock_ = &next;
    }

  private:
    Lock* lock_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
