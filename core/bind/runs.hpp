// The join of sorted runs as Python sees it. A run is (keys, columns), two tuples deep, so that the arrays
// stay alive and in place as long as the tuple.
#pragma once

#include "../run_join.hpp"
#include "arguments.hpp"

namespace slidejoin {
namespace {

// The arrays of a run, read in place.
class RunArrays {
  public:
    RunArrays(const std::vector<const KeyName*>& types, bool wide, const nb::tuple& run)
        : owner_(run), arrays_(types, view_of(run[0], wide ? NPY_UINT64 : NPY_UINT32).size) {
        const auto columns = nb::cast<nb::tuple>(run[1]);
        if (columns.size() != types.size()) throw nb::type_error("not one column for each conjunct");
        for (const nb::handle& column : columns) arrays_.add_key(column, nullptr);
        run_ = {view_of(run[0], wide ? NPY_UINT64 : NPY_UINT32).data, arrays_.batch()};
    }
    RunArrays(const RunArrays&) = delete;

    const Run& run() const { return run_; }

  private:
    nb::tuple owner_;
    Arrays arrays_;
    Run run_;
};

class NativeRunPairs {
  public:
    NativeRunPairs(const RunJoin& join, std::unique_ptr<RunArrays> left, std::unique_ptr<RunArrays> right)
        : left_(std::move(left)),
          right_(std::move(right)),
          pairs_(translated([&] { return join.pairs(left_->run(), right_->run()); })) {}

    // (left rows, right rows) of up to `limit` more pairs.
    nb::tuple next(std::size_t limit) {
        Pairs* pairs;
        const nb::capsule owner = new_pairs(pairs);
        {
            nb::gil_scoped_release released;
            pairs_->next(limit, *pairs);
            pairs->fit();
        }
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

  private:
    std::unique_ptr<RunArrays> left_, right_;
    std::unique_ptr<RunPairs> pairs_;
};

class NativeRunJoin {
  public:
    NativeRunJoin(const std::vector<Conjunct>& on, std::uint32_t equalities, const std::string& banded,
                  const std::string& level) {
        const JoinSpec spec = spec_of(on, equalities, banded, types_);
        if (spec.indexed.band == Banded::time) throw nb::value_error("runs have no time of their own");
        wide_ = has_wide_keys(spec);
        join_ = make_run_join(spec, level_of(level));
    }

    // The order of the rows that can have partners, and their keys.
    nb::tuple sort(const nb::list& columns) const {
        Arrays arrays = Arrays::of(types_, columns);
        const Batch& rows = arrays.batch();
        SortedRows sorted;
        translated([&] {
            nb::gil_scoped_release released;
            join_->sort(rows, sorted);
        });
        const nb::object keys =
            wide_ ? taken(std::move(sorted.wide), NPY_UINT64) : taken(std::move(sorted.narrow), NPY_UINT32);
        return nb::make_tuple(taken(std::move(sorted.order)), keys);
    }

    NativeRunPairs pairs(const nb::tuple& left, const nb::tuple& right) const {
        return NativeRunPairs(*join_, read(left), read(right));
    }

    // Whether each row of one side has a partner.
    nb::object matched(const nb::tuple& left, const nb::tuple& right, int side) const {
        if (side != 0 && side != 1) throw nb::value_error("a side is 0 or 1");
        const auto left_run = read(left), right_run = read(right);
        // Pages of zeros that nobody writes to cost nothing.
        const npy_intp size = static_cast<npy_intp>((side ? right_run : left_run)->run().rows.size);
        const nb::object flags = nb::steal(PyArray_ZEROS(1, &size, NPY_BOOL, 0));
        if (!flags.is_valid()) throw nb::python_error();
        auto* out = static_cast<std::uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(flags.ptr())));
        translated([&] {
            nb::gil_scoped_release released;
            join_->match(left_run->run(), right_run->run(), side, out);
        });
        return flags;
    }

  private:
    std::unique_ptr<RunArrays> read(const nb::tuple& run) const {
        return std::make_unique<RunArrays>(types_, wide_, run);
    }

    std::vector<const KeyName*> types_;
    bool wide_;
    std::unique_ptr<RunJoin> join_;
};

}  // namespace
}  // namespace slidejoin
