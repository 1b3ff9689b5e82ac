// What Python hands to a native join: the conditions when it is made, and the columns of each batch.
#pragma once

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "names.hpp"

namespace slidejoin {
namespace {

using End = std::tuple<int, std::int64_t, std::uint64_t, double>;          // kind, high, low, real
using Limits = std::tuple<std::uint64_t, double, double, double, double>;  // as in ChoiceLimits
using Conjunct = std::tuple<std::string, std::vector<std::tuple<End, End>>>;

Bound bound_of(const End& end) {
    return {static_cast<BoundKind>(std::get<0>(end)), std::get<1>(end), std::get<2>(end), std::get<3>(end)};
}

// The conditions of a join and what of them is indexed; also the types of their keys.
JoinSpec spec_of(const std::vector<Conjunct>& on, std::uint32_t equalities, const std::string& banded,
                 std::vector<const KeyName*>& keys) {
    JoinSpec spec;
    for (const auto& [key, ranges] : on) {
        keys.push_back(&find(kKeys, key));
        ConjunctSpec conjunct{keys.back()->type, {}};
        for (const auto& [lower, upper] : ranges)
            conjunct.ranges.push_back({bound_of(lower), bound_of(upper)});
        spec.on.push_back(std::move(conjunct));
    }
    spec.indexed = {equalities, find(kBanded, banded).kind};
    if (equalities + (spec.indexed.band == Banded::conjunct) > spec.on.size())
        throw nb::value_error("fewer conjuncts than are indexed");
    return spec;
}

// Columns of one batch, checked against the types of their conjuncts; the caller's objects keep them alive.
class Arrays {
  public:
    Arrays(const std::vector<const KeyName*>& types, std::size_t size) : types_(types) { batch_.size = size; }

    // One (values, nulls or None) for each conjunct.
    static Arrays of(const std::vector<const KeyName*>& types, const nb::list& keys) {
        if (keys.size() != types.size() || types.empty())
            throw nb::type_error("not one key for each conjunct");
        Arrays arrays(types, view_of(nb::tuple(keys[0])[0], types[0]->dtype).size);
        for (const nb::handle& each : keys) {
            const nb::tuple key(nb::borrow<nb::tuple>(each));
            const nb::object nulls = key[1];
            arrays.add_key(key[0], nulls.is_none() ? nullptr : arrays.read<bool>(nulls, NPY_BOOL));
        }
        return arrays;
    }

    void add_key(const nb::handle& values, const bool* nulls) {
        keys_.push_back({view_of(values, types_[keys_.size()]->dtype, batch_.size).data, nulls});
    }

    // An array, or one side for all rows.
    void set_sides(const nb::handle& sides) {
        if (PyLong_Check(sides.ptr())) {
            sides_.assign(batch_.size, nb::cast<std::uint8_t>(sides));
            batch_.sides = sides_.data();
        } else {
            batch_.sides = read<std::uint8_t>(sides, NPY_UINT8);
        }
    }

    void set_times(const nb::handle& times, const nb::handle& nulls) {
        batch_.times = read<std::int64_t>(times, NPY_INT64);
        if (!nulls.is_none()) batch_.null_times = read<bool>(nulls, NPY_BOOL);
    }

    void set_store(bool store) { batch_.store = store; }

    const Batch& batch() {
        batch_.keys = keys_.data();
        return batch_;
    }

    template <class Value>
    const Value* read(const nb::handle& array, int type) const {
        return static_cast<const Value*>(view_of(array, type, batch_.size).data);
    }

  private:
    const std::vector<const KeyName*>& types_;
    Batch batch_{};
    std::vector<Column> keys_;
    std::vector<std::uint8_t> sides_;
};

}  // namespace
}  // namespace slidejoin
