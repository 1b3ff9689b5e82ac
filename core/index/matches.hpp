// How an index reports what a probe has found. It hands over stretches of its own arrays, in whichever of six
// forms it has them; the classes below list the matches among them, count them, or test them first.
//
//   positions   the visible ones of some positions match
//   padded      the same for an array with kBlock readable slots behind it: a few cost no branch
//   entries     entries match that lie in the interval and are visible
//   among       the visible ones match of up to 64 positions whose bit is set
//   all         all of these positions match
//   run         all positions [from, to) of a run match
//
// Listing costs a vector of candidates per step, counting `all` and `run` nothing.
#pragma once

#include "../key.hpp"
#include "../memory.hpp"
#include "../simd.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// One interval to probe, and, once probed, where its matches stand in the list.
template <class Key>
struct Task {
    Interval<Key> interval;
    Visible visible;
    std::uint32_t arrival;  // number within the group or batch
    bool partner_is_left;
    std::size_t found_from;
    std::size_t found_to;
};

// The number by which results refer to a run. It is assigned when a result first refers to the run, and
// expires with the run.
class RunNumber {
  public:
    bool assigned() const { return number_ != nullptr; }
    std::uint64_t value() const { return *number_; }

    // The pointer that is returned expires when the run changes or is dropped.
    std::weak_ptr<const std::uint64_t> assign(std::uint64_t number) {
        number_ = std::make_shared<const std::uint64_t>(number);
        return number_;
    }

    // The run has changed.
    void withdraw() { number_.reset(); }

  private:
    std::shared_ptr<const std::uint64_t> number_;
};

// Positions in key order, with kBlock readable slots behind them. A result may name a part of the run instead
// of listing it; the index withdraws the number when the positions change.
struct RunOfPositions {
    RunNumber* number;
    const std::uint32_t* positions;
    std::size_t size;
};

// Thrown where a list of matches has grown beyond its limit.
struct TooManyMatches {};

// Matches as positions relative to the first visible one, in the order in which they were reported.
class FoundPositions {
  public:
    static constexpr std::size_t kNoLimit = SIZE_MAX / 2;

    std::size_t size() const { return size_; }
    void clear() { size_ = 0; }
    std::uint32_t* data() { return found_.data(); }
    std::size_t bytes() const { return found_.bytes(); }

    // From now on the list throws TooManyMatches when it is added to and has more than so many already.
    void limit(std::size_t most) {
        limit_ = most;
        ready_ = 0;
    }

    void free() {
        found_ = {};
        size_ = ready_ = 0;
    }

    // Adds matches that another list has.
    void append(const std::uint32_t* found, std::size_t count) {
        found_.reserve(size_ + count, size_);
        std::copy_n(found, count, found_.data() + size_);
        size_ += count;
    }

    // Makes so many slots readable behind the last match.
    void pad(std::size_t slots) { found_.reserve(size_ + slots, size_); }

  protected:
    // Writable room for `count` more matches and a block behind them.
    std::uint32_t* room_for(std::size_t count) {
        if (size_ + count + kBlock > ready_) make_ready(size_ + count + kBlock);
        return found_.data() + size_;
    }

    Buffer<std::uint32_t> found_;
    std::size_t size_ = 0;

  private:
    void make_ready(std::size_t needed) {
        if (size_ > limit_) throw TooManyMatches();
        found_.reserve(needed, size_);
        ready_ = std::max(needed, std::min(found_.capacity(), limit_));
    }

    std::size_t limit_ = kNoLimit;
    std::size_t ready_ = 0;  // slots that can be used without a look at the limit
};

struct NoTest {
    template <class Key>
    void begin(const Task<Key>&) {}
    std::size_t test(const std::uint32_t*, std::size_t count) const { return count; }
    template <class Key>
    void fetch(const Task<Key>&, const std::uint32_t*, std::uint64_t) const {}
};

// Lists the matches that pass a test: begin(task) tells it the task, test(found, count) moves those that pass
// to the front and returns how many they are. fetch(task, positions, chosen) prefetches what the test reads.
template <class Test>
class TestedList : public FoundPositions {
  public:
    TestedList() = default;
    explicit TestedList(Test test) : test_(test) {}

    // The matches that follow belong to this task.
    template <class Key>
    void begin(Task<Key>& task) {
        task.found_from = size_;
        test_.begin(task);
    }

    // Called before among() for this task; calls for other tasks may come in between.
    template <class Key>
    void fetch(const Task<Key>& task, const std::uint32_t* positions, std::uint64_t chosen) const {
        test_.fetch(task, positions, chosen);
    }

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        std::uint32_t* const out = room_for(count);
        add(out, select_positions(positions, count, visible, out));
    }

    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        std::uint32_t* const out = room_for(count);
        add(out, select_padded(positions, count, visible, out));
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        std::uint32_t* const out = room_for(count);
        add(out, select_entries(keys, positions, count, interval, visible, out));
    }

    [[gnu::always_inline]] void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        std::uint32_t* const out = room_for(64);
        add(out, select_among(positions, chosen, visible, out));
    }

    void all(const std::uint32_t* positions, std::size_t count, Visible visible) {
        this->positions(positions, count, visible);
    }

    void run(const RunOfPositions& run, std::size_t from, std::size_t to, Visible visible) {
        padded(run.positions + from, to - from, visible);
    }

  private:
    void add(std::uint32_t* found, std::size_t count) { size_ += test_.test(found, count); }

    [[no_unique_address]] Test test_;
};

using MatchList = TestedList<NoTest>;

// Counts matches.
class MatchCount {
  public:
    std::size_t size() const { return size_; }
    void clear() { size_ = 0; }

    template <class Key>
    void begin(Task<Key>& task) {
        task.found_from = size_;
    }

    template <class Key>
    void fetch(const Task<Key>&, const std::uint32_t*, std::uint64_t) const {}

    void positions(const std::uint32_t* positions, std::size_t count, Visible visible) {
        size_ += tally_positions(positions, count, visible);
    }

    void padded(const std::uint32_t* positions, std::size_t count, Visible visible) {
        size_ += tally_padded(positions, count, visible);
    }

    template <class Key>
    void entries(const Key* keys, const std::uint32_t* positions, std::size_t count, Interval<Key> interval,
                 Visible visible) {
        size_ += tally_entries(keys, positions, count, interval, visible);
    }

    void among(const std::uint32_t* positions, std::uint64_t chosen, Visible visible) {
        size_ += tally_among(positions, chosen, visible);
    }

    void all(const std::uint32_t*, std::size_t count, Visible) { size_ += count; }
    void run(const RunOfPositions&, std::size_t from, std::size_t to, Visible) { size_ += to - from; }

  private:
    std::size_t size_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
