// The rows of one side by position: columns that are stored contiguously.
//
// Rows are appended at the end and dropped from the start; each call handles all columns and either happens
// or does not. Every call names absolute positions, so that a call can be repeated. An append costs O(rows)
// amortised, a take O(positions). Memory stays within a small factor of the stored rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "columns.hpp"

namespace slidejoin {

class Rows {
  public:
    Rows(const std::vector<ColumnKind>& kinds, std::uint64_t first) : first_(first), next_(first) {
        for (const ColumnKind kind : kinds) columns_.emplace_back(kind);
    }

    std::uint64_t first() const { return first_; }
    std::uint64_t next() const { return next_; }
    std::size_t size() const { return static_cast<std::size_t>(next_ - first_); }
    std::size_t columns() const { return columns_.size(); }
    std::size_t bytes() const {
        std::size_t bytes = 0;
        for (const StoredColumn& column : columns_) bytes += column.bytes();
        return bytes;
    }

    // Appends a batch whose children are the columns. On an error nothing of it stays.
    void append(const ArrowArray& batch, const std::shared_ptr<void>& lender = nullptr) {
        if (static_cast<std::size_t>(batch.n_children) != columns_.size())
            throw std::invalid_argument("a batch with other columns");
        const auto from = static_cast<std::size_t>(batch.offset);
        const auto count = static_cast<std::size_t>(batch.length);
        try {
            for (std::size_t i = 0; i < columns_.size(); ++i)
                columns_[i].append(*batch.children[i], from, count, size(), lender);
        } catch (...) {
            for (StoredColumn& column : columns_) column.truncate(size());
            throw;
        }
        next_ += count;
    }

    // Drops the rows before `first` and from `next` on.
    void limit(std::uint64_t first, std::uint64_t next) {
        require(first <= next && next <= next_, first, next);
        if (next < next_) {
            require(next >= first_, first, next);
            next_ = next;
            for (StoredColumn& column : columns_) column.truncate(size());
        }
        if (first <= first_) return;
        const auto count = static_cast<std::size_t>(first - first_);
        for (StoredColumn& column : columns_) column.drop(count, size());
        first_ = first;
    }

    // Adds the columns [from, to) of the rows at these positions to a result; -1 is a row of nulls. False
    // where a column with 32-bit offsets would have more than `most` bytes.
    bool take(const std::int64_t* positions, std::size_t count, std::int64_t most, std::size_t from,
              std::size_t to, ArrowResult& out) const {
        const Chosen chosen(*this, positions, count);
        for (std::size_t i = from; i < to; ++i) {
            auto taken = columns_.at(i).take(chosen.picks, size(), most);
            if (!taken) return false;
            out.add(std::move(taken));
        }
        return true;
    }

    // Which pairs of rows have equal byte strings; returns whether all have. Positions exist.
    static bool same(const Rows& a, std::size_t column_a, const std::int64_t* positions_a, const Rows& b,
                     std::size_t column_b, const std::int64_t* positions_b, std::size_t count, bool* out) {
        const StoredColumn &one = a.columns_.at(column_a), &other = b.columns_.at(column_b);
        if (!one.is_bytes() || !other.is_bytes()) throw std::invalid_argument("not a column of bytes");
        const Chosen rows_a(a, positions_a, count), rows_b(b, positions_b, count);
        bool all = true;
        for (std::size_t i = 0; i < count; ++i)
            all &= out[i] = StoredColumn::same(one, rows_a.picks.rows[i], other, rows_b.picks.rows[i]);
        return all;
    }

  private:
    // Positions as places among the stored rows.
    struct Chosen {
        Chosen(const Rows& rows, const std::int64_t* positions, std::size_t count) {
            picks = {positions, nullptr, count};
            const auto first = static_cast<std::int64_t>(rows.first_);
            const auto size = static_cast<std::uint64_t>(rows.size());
            bool some_missing = false;
            for (std::size_t i = 0; i < count; ++i) {
                const bool missing = positions[i] == -1;
                some_missing |= missing;
                if (!missing && static_cast<std::uint64_t>(positions[i] - first) >= size)
                    throw std::out_of_range("position " + std::to_string(positions[i]) + "; rows " +
                                            std::to_string(rows.first_) + " to " +
                                            std::to_string(rows.next_) + " are kept");
            }
            if (!first && !some_missing) return;
            places.resize(count);
            if (some_missing) flags.resize(count);
            for (std::size_t i = 0; i < count; ++i) {
                const bool missing = positions[i] == -1;
                places[i] = missing ? 0 : positions[i] - first;
                if (some_missing) flags[i] = missing;
            }
            picks.rows = places.data();
            if (some_missing) picks.missing = flags.data();
        }
        Picks picks;
        std::vector<std::int64_t> places;
        std::vector<std::uint8_t> flags;
    };

    void require(bool condition, std::uint64_t first, std::uint64_t next) const {
        if (!condition)
            throw std::out_of_range("limit(" + std::to_string(first) + ", " + std::to_string(next) +
                                    "); rows " + std::to_string(first_) + " to " + std::to_string(next_) +
                                    " are kept");
    }

    std::vector<StoredColumn> columns_;
    std::uint64_t first_;
    std::uint64_t next_;
};

}  // namespace slidejoin
