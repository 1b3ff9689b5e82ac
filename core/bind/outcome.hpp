// The outcome of a join type as Python sees it.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "../outcome.hpp"
#include "arrays.hpp"
#include "names.hpp"

namespace slidejoin {
namespace {

// What a join type makes of pairs and final tuples.
class NativeOutcome {
  public:
    NativeOutcome(std::tuple<bool, bool> preserves, int only)
        : outcome_({{std::get<0>(preserves), std::get<1>(preserves)}, only < 0 ? -1 : checked(only)}) {}

    bool uses(int side) const { return outcome_.uses(checked(side)); }
    void extend(int side, std::uint64_t next) { outcome_.extend(checked(side), next); }
    void limit(int side, std::uint64_t first, std::uint64_t next) {
        outcome_.limit(checked(side), first, next);
    }
    void renumber(int side, const Numbers& old, std::uint64_t first) {
        translated([&] { outcome_.renumber(checked(side), old.data(), old.shape(0), first); });
    }

    nb::tuple write(const Numbers& left, const Numbers& right, const std::optional<Flags>& wanted,
                    const std::tuple<Numbers, Numbers, Bytes>& finals) {
        const auto& [after, position, side] = finals;
        if (left.shape(0) != right.shape(0) || (wanted && wanted->shape(0) != left.shape(0)) ||
            after.shape(0) != position.shape(0) || after.shape(0) != side.shape(0))
            throw nb::value_error("arrays of different lengths");
        const Outcome::Found found{left.data(),   right.data(),  wanted ? wanted->data() : nullptr,
                                   left.shape(0), after.data(),  position.data(),
                                   side.data(),   after.shape(0)};
        return written([&](Pairs& pairs) { outcome_.write(found, pairs); });
    }

    nb::tuple finish() {
        return written([&](Pairs& pairs) { outcome_.finish(pairs); });
    }

    nb::object flags(int side) const { return bytes(outcome_.flags(checked(side))); }
    void load(int side, std::uint64_t first, const Bytes& flags) {
        outcome_.load(checked(side), first, flags.data(), flags.shape(0));
    }
    std::size_t memory_bytes() const { return outcome_.bytes(); }

  private:
    static int checked(int side) {
        if (side != 0 && side != 1) throw nb::value_error("side is neither 0 nor 1");
        return side;
    }

    template <class Write>
    static nb::tuple written(Write write) {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        translated([&] {
            nb::gil_scoped_release released;
            write(*pairs);
            pairs->fit();
        });
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    Outcome outcome_;
};

}  // namespace
}  // namespace slidejoin
