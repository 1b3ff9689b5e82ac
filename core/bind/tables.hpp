// The join of two tables as Python sees it.
#pragma once

#include "../table_join.hpp"
#include "join.hpp"

namespace slidejoin {
namespace {

using TableKeys = std::vector<std::tuple<AnyColumn, nb::object>>;  // values, nulls or None

// The keys of a table, checked against their types; the arrays are kept alive by the caller's list.
class TableBatch {
  public:
    TableBatch(const std::vector<const KeyName*>& types, const TableKeys& keys) : masks_(keys.size()) {
        if (keys.size() != types.size() || keys.empty())
            throw nb::type_error("not one key for each conjunct");
        size_ = std::get<0>(keys[0]).shape(0);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const auto& [values, nulls] = keys[i];
            check_key(*types[i], values, size_);
            if (!nulls.is_none() && (!nb::try_cast(nulls, masks_[i], false) || masks_[i].shape(0) != size_))
                throw nb::type_error("nulls are no array of bool of the same length");
            columns_.push_back({values.data(), nulls.is_none() ? nullptr : masks_[i].data()});
        }
    }

    Batch batch() const { return {nullptr, columns_.data(), nullptr, nullptr, size_}; }

  private:
    std::vector<Flags> masks_;
    std::vector<Column> columns_;
    std::size_t size_ = 0;
};

// (left rows, right rows) of the pairs; or, with `flags_of` a side, (whether each of its rows has a
// partner,).
nb::tuple bind_join_tables(const std::vector<Conjunct>& on, std::uint32_t equalities,
                           const std::string& banded, const TableKeys& left, const TableKeys& right,
                           int flags_of, std::size_t workers, std::size_t share, std::uint64_t limit,
                           const std::string& level) {
    std::vector<const KeyName*> types;
    TableJoinSpec spec;
    spec.on = spec_of(on, equalities, banded, types);
    if (spec.on.indexed.band == Banded::time) throw nb::value_error("tables have no time of their own");
    spec.workers = std::max<std::size_t>(workers, 1);
    spec.share = std::max<std::size_t>(share, 1);
    spec.limit = limit;
    spec.flags_of = flags_of;
    const TableBatch left_keys(types, left), right_keys(types, right);
    auto* result = new TableJoinResult;
    const nb::capsule owner(result, [](void* p) noexcept { delete static_cast<TableJoinResult*>(p); });
    translated([&] {
        nb::gil_scoped_release released;
        join_tables(spec, left_keys.batch(), right_keys.batch(), level_of(level), *result);
        result->pairs.fit();
    });
    if (flags_of >= 0) return nb::make_tuple(bytes(result->matched));
    return nb::make_tuple(positions(result->pairs.left(), result->pairs.size(), owner),
                          positions(result->pairs.right(), result->pairs.size(), owner));
}

}  // namespace
}  // namespace slidejoin
