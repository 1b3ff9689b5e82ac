// The join of two tables as Python sees it.
#pragma once

#include "../table_join.hpp"
#include "join.hpp"
#include "rows.hpp"

namespace slidejoin {
namespace {

// (left rows, right rows) of the pairs, with `blocks` as NativePairRows where no left row has many; or, with
// `flags_of` a side, (whether each of its rows has a partner,).
nb::tuple bind_join_tables(const std::vector<Conjunct>& on, std::uint32_t equalities,
                           const std::string& banded, const nb::list& left, const nb::list& right,
                           int flags_of, std::size_t workers, std::size_t share, std::uint64_t limit,
                           bool blocks, const std::string& level) {
    std::vector<const KeyName*> types;
    TableJoinSpec spec;
    spec.on = spec_of(on, equalities, banded, types);
    if (spec.on.indexed.band == Banded::time) throw nb::value_error("tables have no time of their own");
    spec.workers = std::max<std::size_t>(workers, 1);
    spec.share = std::max<std::size_t>(share, 1);
    spec.limit = limit;
    spec.flags_of = flags_of;
    spec.blocks = blocks;
    Arrays left_keys = Arrays::of(types, left), right_keys = Arrays::of(types, right);
    const Batch &left_batch = left_keys.batch(), &right_batch = right_keys.batch();
    auto* result = new TableJoinResult;
    const nb::capsule owner(result, [](void* p) noexcept { delete static_cast<TableJoinResult*>(p); });
    translated([&] {
        nb::gil_scoped_release released;
        join_tables(spec, left_batch, right_batch, level_of(level), *result);
        result->pairs.fit();
    });
    if (flags_of >= 0) return nb::make_tuple(taken(std::move(result->matched), NPY_UINT8));
    if (result->blocks) {
        const std::shared_ptr<const PairBlocks> pairs = std::move(result->blocks);
        const Slice all(0, pairs->size());
        return nb::make_tuple(NativePairRows{pairs, false, all}, NativePairRows{pairs, true, all});
    }
    return nb::make_tuple(positions(result->pairs.left(), result->pairs.size(), owner),
                          positions(result->pairs.right(), result->pairs.size(), owner));
}

}  // namespace
}  // namespace slidejoin
