// No join at all: an arrival costs about as much as with a fast structure, touches no memory and never takes
// longer. What the pauses of this one show is the machine's own share: interrupts, and others on the core.
#pragma once

#include "structure.hpp"

namespace peers {

class SpinJoin final : public Structure {
  public:
    std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs*) override {
        for (std::size_t i = from; i < to; ++i) {
            Random random(static_cast<std::uint64_t>(arrivals.keys[i]), i);
            for (int turn = 0; turn < kTurns; ++turn) sum_ += random.bits();
        }
        kept_ = sum_;
        return 0;
    }

    double bytes_per_tuple() override { return 0; }

  private:
    static constexpr int kTurns = 40;  // 0.2 us

    std::uint64_t sum_ = 0;
    volatile std::uint64_t kept_ = 0;  // so that the work is done
};

}  // namespace peers
