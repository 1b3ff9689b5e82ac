// The outcome of a join type as Python sees it.
#pragma once

#include <nanobind/stl/tuple.h>

#include "../outcome.hpp"
#include "names.hpp"

namespace slidejoin {
namespace {

// What a join type makes of pairs and final tuples.
class NativeOutcome {
  public:
    NativeOutcome(std::tuple<bool, bool> preserves, int only)
        : outcome_({{std::get<0>(preserves), std::get<1>(preserves)}, only < 0 ? -1 : checked(only)}) {}

    bool uses(int side) const { return outcome_.uses(checked(side)); }
    // Positions of the matches that the end of input brings.
    nb::tuple finish() const {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        outcome_.finish(*pairs);
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    nb::object flags(int side) const { return taken(outcome_.flags(checked(side)), NPY_UINT8); }
    void load(int side, std::uint64_t first, const Bytes& flags) {
        outcome_.load(checked(side), first, flags.data(), flags.shape(0));
    }
    std::size_t memory_bytes() const { return outcome_.bytes(); }
    Outcome& outcome() { return outcome_; }

  private:
    static int checked(int side) {
        if (side != 0 && side != 1) throw nb::value_error("side is neither 0 nor 1");
        return side;
    }

    Outcome outcome_;
};

}  // namespace
}  // namespace slidejoin
