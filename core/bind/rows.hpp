// Stored rows as Python sees them: tables come in and go out through the Arrow C data interface.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <optional>

#include "../take.hpp"
#include "batch.hpp"

namespace slidejoin {
namespace {

// Calls into stored rows, the errors of their files turned into those of the package.
template <class Call>
auto spilling(Call call) {
    try {
        return call();
    } catch (const SpillError& error) {
        raise("CapacityError", error.what());
    } catch (const ForkError& error) {
        raise("UsageError", error.what());
    }
}

// Room in files for so many bytes, as long as the array is there.
nb::object allocate_spilled(const std::shared_ptr<SpillFiles>& files, std::size_t bytes) {
    auto room = std::make_unique<SpilledBytes>(files);
    spilling([&] { room->grow(std::max<std::size_t>(bytes, 1), 0); });
    files->touched(bytes);
    std::uint8_t* const data = room->data();
    const nb::capsule owner(room.get(), [](void* p) noexcept { delete static_cast<SpilledBytes*>(p); });
    room.release();
    return array_over(data, bytes, NPY_UINT8, owner);
}

// The left or right rows of pairs that are not in memory, for NativeRows::take; slices share the pairs.
struct NativePairRows {
    std::shared_ptr<const PairBlocks> pairs;
    bool is_right;
    Slice slice;

    std::size_t size() const { return slice.size(); }
    NativePairRows part(const nb::slice& of) const {
        const auto [from, to, step, count] = of.compute(size());
        if (step != 1) throw nb::value_error("pairs in blocks are sliced without steps");
        return {pairs, is_right, Slice(slice.from + from, slice.from + from + count)};
    }
};

class NativeRows {
  public:
    NativeRows(const std::vector<ColumnKind>& kinds, std::uint64_t first, std::shared_ptr<Crew> crew,
               std::shared_ptr<SpillFiles> files)
        : rows_(spilling([&] { return Rows(kinds, first, files); })),
          crew_(crew ? std::move(crew) : std::make_shared<Crew>(1)),
          files_(std::move(files)) {}
    ~NativeRows() { release(); }
    NativeRows(const NativeRows&) = delete;

    // Replaces everything from a position on by a batch. Where `borrow` is given, the memory of a single
    // array may be used as it is.
    void write(std::uint64_t at, NativeBatch& batch, bool borrow) {
        const auto& arrays = batch.arrays();
        limit(rows_.first(), at);
        const std::size_t before = rows_.next();
        try {
            for (const auto& array : arrays)
                spilling([&] { rows_.append(*array, *crew_, borrow ? array : nullptr); });
        } catch (...) {
            rows_.limit(rows_.first(), at);
            throw;
        }
        if (files_) files_->touched((rows_.next() - before) * rows_.row_bytes());
    }

    // In files, makes room for a batch.
    void reserve(NativeBatch& batch) {
        own();
        spilling([&] { rows_.reserve(batch.arrays()); });
    }

    // Bytes of memory that are allocated when a batch is written.
    std::size_t growth(NativeBatch& batch) const { return rows_.growth(batch.arrays()); }

    void limit(std::uint64_t first, std::uint64_t next) {
        own();
        rows_.limit(first, next);
    }

    using Places = std::optional<std::vector<std::size_t>>;  // of columns; none: all

    // The address of an ArrowArray that holds columns of the rows at these positions, and columns of `other`
    // rows behind them; None where a column has too many bytes for its offsets. It is there until the next
    // take.
    nb::object take(const nb::handle& positions, std::int64_t most, const NativeRows* other,
                    const nb::handle& others, const Places& columns, const Places& other_columns) {
        own();
        auto [side, count] = taken(positions, columns);
        std::vector<TakenRows> sides{std::move(side)};
        if (other) {
            auto [more, as_many] = other->taken(others, other_columns);
            if (as_many != count || more.pairs != sides[0].pairs || more.first != sides[0].first)
                throw nb::type_error("rows of different pairs");
            sides.push_back(std::move(more));
        }
        std::unique_ptr<ArrowResult> result;
        {
            std::optional<nb::gil_scoped_release> released;
            if (count >= kUnlocked) released.emplace();
            result = Taker(sides, count, *crew_).take(most);
        }
        for (const TakenRows& side : sides) touch(count * side.columns.size());
        if (!result) return nb::none();
        release();
        ArrowResult::hand_over(std::move(result), out_);
        return nb::cast(reinterpret_cast<std::uintptr_t>(&out_));
    }

    // Which pairs of rows have the same bytes in two columns; None: all.
    nb::object same(std::size_t column, const nb::handle& positions, const NativeRows& other,
                    std::size_t other_column, const nb::handle& others) const {
        const auto [data, count] = numbers(positions);
        const auto [more, as_many] = numbers(others);
        if (as_many != count) throw nb::value_error("arrays of different lengths");
        own();
        touch(2 * count);
        nb::object flags;
        auto* out = new_array<bool>(count, NPY_BOOL, flags);
        if (Rows::same(rows_, column, data, other.rows_, other_column, more, count, out)) return nb::none();
        return flags;
    }

    std::uint64_t first() const { return rows_.first(); }
    std::size_t bytes() const { return rows_.bytes(); }
    std::size_t spilled() const { return rows_.spilled(); }

  private:
    static constexpr std::size_t kMappedAround = std::size_t{1} << 16;  // bytes that one access may map
    static constexpr std::size_t kUnlocked = 4096;  // rows from which on other threads may run

    // Columns of the rows at these positions, or of those of pairs, and how many rows.
    std::pair<TakenRows, std::size_t> taken(const nb::handle& positions, const Places& columns) const {
        if (nb::isinstance<NativePairRows>(positions)) {
            const auto& [pairs, is_right, slice] = nb::cast<const NativePairRows&>(positions);
            return {{&rows_, nullptr, places(columns), pairs.get(), is_right, slice.from}, slice.size()};
        }
        const auto [data, count] = numbers(positions);
        return {{&rows_, data, places(columns)}, count};
    }

    static std::pair<const std::int64_t*, std::size_t> numbers(const nb::handle& array) {
        const ArrayView view = view_of(array, NPY_INT64);
        return {static_cast<const std::int64_t*>(view.data), view.size};
    }

    std::vector<std::size_t> places(const Places& columns) const {
        std::vector<std::size_t> all(columns ? 0 : rows_.columns());
        std::iota(all.begin(), all.end(), std::size_t{0});
        if (!columns) return all;
        for (const std::size_t column : *columns)
            if (column >= rows_.columns()) throw nb::index_error("a column that is not stored");
        return *columns;
    }

    void own() const {
        if (files_) spilling([&] { files_->require_own_process(); });
    }
    void touch(std::size_t values) const {
        if (files_) files_->touched(values * kMappedAround);
    }

    void release() {
        if (out_.release) out_.release(&out_);
    }

    Rows rows_;
    std::shared_ptr<Crew> crew_;
    std::shared_ptr<SpillFiles> files_;  // nullptr: rows are in memory
    ArrowArray out_{};
};

}  // namespace
}  // namespace slidejoin
