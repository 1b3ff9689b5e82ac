// Tuples that became final, in the order in which a push reports them: with the arrival that made them so,
// behind the pairs of that arrival.
#pragma once

#include "../window.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class FinalTuples {
  public:
    explicit FinalTuples(Window& window) : window_(window) {}

    const Finals& reported() const { return reported_; }
    bool any() const { return !window_.finals().empty(); }  // to be reported
    void clear() { reported_.clear(); }
    void shrink() { arrivals_.shrink_to_fit(); }

    // Notes which tuples became final with arrival `arrival`, or with a call of its own.
    void end(std::uint32_t arrival) {
        std::vector<Window::Final>& finals = window_.finals();
        if (finals.size() == arrivals_.size()) return;
        std::sort(finals.begin() + static_cast<std::ptrdiff_t>(arrivals_.size()), finals.end());
        arrivals_.resize(finals.size(), arrival);
    }

    // Reports the tuples that became final, with arrivals before `until`; after(arrival) counts the pairs
    // before them.
    template <class After>
    void report(After after, std::size_t until = SIZE_MAX) {
        end(0);
        std::vector<Window::Final>& finals = window_.finals();
        std::size_t count = 0;
        for (; count < finals.size() && arrivals_[count] < until; ++count) {
            reported_.after.push_back(after(arrivals_[count]));
            reported_.position.push_back(finals[count].position);
            reported_.side.push_back(static_cast<std::uint8_t>(finals[count].side));
        }
        finals.erase(finals.begin(), finals.begin() + static_cast<std::ptrdiff_t>(count));
        arrivals_.erase(arrivals_.begin(), arrivals_.begin() + static_cast<std::ptrdiff_t>(count));
    }

  private:
    Window& window_;
    Finals reported_;
    std::vector<std::uint32_t> arrivals_;  // the arrival with which each of window_.finals() became so
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
