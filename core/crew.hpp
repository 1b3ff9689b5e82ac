// The threads that read, store and take the rows of one join, and work in more parts than there are workers:
// each takes the next part when it has finished one, so that all end at about the same time even if parts are
// not equally hard. What is computed does not depend on who does it. Some 5 us a run.
#pragma once

#include "workers.hpp"

namespace slidejoin {

class SharedParts {
  public:
    // Parts of the numbers below `size`.
    SharedParts(std::size_t size, std::size_t parts) : size_(size), parts_(parts) {}

    std::size_t count() const { return parts_; }

    // Calls work(part, its numbers) for each part that no other worker takes.
    template <class Work>
    void each(const Work& work) {
        for (std::size_t part = next_++; part < parts_; part = next_++)
            work(part, Slice(size_, part, parts_));
    }

  private:
    std::size_t size_;
    std::size_t parts_;
    std::atomic<std::size_t> next_{0};
};

class Crew {
  public:
    explicit Crew(std::size_t workers) { want(workers); }

    // From now on so many workers; may be called by any thread.
    void want(std::size_t workers) { wanted_.store(std::max<std::size_t>(workers, 1)); }
    std::size_t wanted() const { return wanted_.load(); }

    const std::shared_ptr<Workers>& pool() const { return pool_; }

    // How many parts to cut `size` numbers into, if each is worth a worker's start from `least` on.
    std::size_t parts_of(std::size_t size, std::size_t least) const {
        const std::size_t workers = wanted();
        return workers == 1 ? 1 : std::clamp<std::size_t>(size / least, 1, kPartsEach * workers);
    }

    // Calls work(part, its numbers) for each part of the numbers below `size`, by as many workers as are
    // free: by the caller alone, where another caller has them.
    template <class Work>
    void run(std::size_t size, std::size_t parts, const Work& work) {
        if (parts == 1) return work(0, Slice(size, 0, 1));
        SharedParts shared(size, parts);
        const std::unique_lock<std::mutex> turn(pool_->turn(), std::try_to_lock);
        const auto share = [&](std::size_t) { shared.each(work); };
        if (turn) pool_->run(prepare(std::min(wanted(), parts)), share);
        else share(0);
    }

  private:
    // Without memory for more threads, those that there are do the work.
    std::size_t prepare(std::size_t workers) {
        try {
            return pool_->prepare(workers);
        } catch (const std::bad_alloc&) {
            return 1;
        }
    }

    static constexpr std::size_t kPartsEach = 4;

    std::atomic<std::size_t> wanted_{1};
    std::shared_ptr<Workers> pool_ = std::make_shared<Workers>();
};

}  // namespace slidejoin
