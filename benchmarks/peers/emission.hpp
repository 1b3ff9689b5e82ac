// Output tuples that are written and stamped while a nested loop is still scanning. The engine hands over all
// matches of a push at its end; emitting_index.cpp compiles its nested loop to scan in pieces
// (emitting_loop.hpp) and to write the output tuples of a piece before the next one. A stamp costs a look at
// the clock, some 25 ns an output tuple.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peers {

// An input tuple as the schedule's file has it: R<ts, x, y> or S<ts, a, b, c, d>.
struct Tuple {
    double arrival;  // seconds; also its timestamp
    double ready;    // when a unit may process it
    double c;
    std::int32_t x;  // or a
    float y;         // or b
    std::uint8_t side;
    std::uint8_t d;
    std::uint8_t unused[6];
};
static_assert(sizeof(Tuple) == 40);

struct OutputTuple {
    double ts;
    std::int32_t x;
    float y;
    std::int32_t a;
    float b;
    double c;
    bool d;
};

class Emission {
  public:
    using Clock = std::chrono::steady_clock;

    // From now on the clock counts instead of telling the time: a comparison takes so many nanoseconds, a
    // look at the clock 25 times as many. For tests, whose answers must not depend on a busy machine.
    static void count_time(std::int64_t comparison) { comparison_ = comparison; }

    static std::int64_t now() {
        return comparison_ ? counted_ += 25 * comparison_ : Clock::now().time_since_epoch().count();
    }

    // The scans that follow belong to this arrival; partners[p] is the tuple at position p of the other side.
    static void begin(const Tuple& arrival, const std::vector<const Tuple*>& partners) {
        arrival_ = &arrival;
        partners_ = partners.data();
        outputs_.resize(partners.size());
        stamps_.resize(partners.size());
        comparisons_ = count_ = 0;
        emitting_ = 0;
        began_ = now();
    }

    static void compared(std::size_t count) {
        comparisons_ += count;
        counted_ += static_cast<std::int64_t>(count) * comparison_;
    }

    // The partners at positions first + found[i] match.
    static void emit(const std::uint32_t* found, std::size_t count, std::uint32_t first) {
        if (count == 0) return;
        const std::int64_t from = now();
        std::int64_t at = from;
        for (std::size_t i = 0; i < count; ++i) {
            const Tuple& partner = *partners_[first + found[i]];
            const Tuple& left = arrival_->side ? partner : *arrival_;
            const Tuple& right = arrival_->side ? *arrival_ : partner;
            outputs_[count_] = {arrival_->arrival, left.x, left.y, right.x, right.y, right.c, right.d != 0};
            at = now();
            stamps_[count_++] = static_cast<std::uint32_t>(at - began_);
        }
        emitting_ += at - from;
    }

    static std::int64_t began() { return began_; }
    static std::size_t comparisons() { return comparisons_; }
    static std::int64_t emitting() { return emitting_; }  // nanoseconds
    static std::size_t size() { return count_; }
    static const OutputTuple* outputs() { return outputs_.data(); }
    static const std::uint32_t* stamps() { return stamps_.data(); }  // nanoseconds since the beginning

  private:
    static inline const Tuple* arrival_ = nullptr;
    static inline const Tuple* const* partners_ = nullptr;
    static inline std::vector<OutputTuple> outputs_;
    static inline std::vector<std::uint32_t> stamps_;
    static inline std::size_t comparisons_ = 0;
    static inline std::size_t count_ = 0;
    static inline std::int64_t emitting_ = 0;
    static inline std::int64_t began_ = 0;
    static inline std::int64_t comparison_ = 0;  // nanoseconds of a clock that counts
    static inline std::int64_t counted_ = 0;
};

}  // namespace peers
