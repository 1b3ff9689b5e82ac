// The watermark of event-time windows.
#pragma once

#include "engine.hpp"
#include "probe.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// The watermark is the smallest progress of the sides that are not idle. A side's progress is its greatest
// timestamp minus the lateness, or the time that it was promised to have reached, whichever is later. Tuples
// before the watermark are late. It never goes back.
class Watermark {
  public:
    Watermark(const WindowSpec& spec, bool self_join)
        : moves_(spec.moves), lateness_(spec.lateness), sides_(self_join ? 1 : 2) {}

    bool known() const { return at_ > kNever; }
    Instant at() const { return at_; }
    Instant progress(Side side) const { return progress_[static_cast<int>(side)]; }
    bool idle(Side side) const { return idle_[static_cast<int>(side)]; }
    bool is_late(std::int64_t time) const { return time < at_; }

    void see(Side side, std::int64_t time) {
        raise(side, moves_ ? static_cast<Instant>(time) - lateness_ : kNever);
    }
    void promise(Side side, std::int64_t time) { raise(side, time); }
    void wake(Side side) { idle_[static_cast<int>(side)] = false; }
    void rest(Side side) {
        idle_[static_cast<int>(side)] = true;
        move();
    }

    void load(const JoinState& state) {
        for (int i = 0; i < 2; ++i) {
            progress_[i] = state.sides[i].progress;
            idle_[i] = state.sides[i].idle;
        }
        at_ = state.watermark;
    }

  private:
    void raise(Side side, Instant to) {
        wake(side);
        Instant& progress = progress_[static_cast<int>(side)];
        progress = std::max(progress, to);
        move();
    }

    void move() {
        Instant least = -kNever;
        for (int i = 0; i < sides_; ++i)
            if (!idle_[i]) least = std::min(least, progress_[i]);
        if (least < -kNever) at_ = std::max(at_, least);
    }

    bool moves_;
    std::uint64_t lateness_;
    int sides_;
    bool idle_[2] = {false, false};
    Instant progress_[2] = {kNever, kNever};
    Instant at_ = kNever;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
