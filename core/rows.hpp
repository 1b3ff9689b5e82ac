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
    // With files, the columns are there and not in memory.
    Rows(const std::vector<ColumnKind>& kinds, std::uint64_t first,
         const std::shared_ptr<SpillFiles>& files = nullptr)
        : first_(first), next_(first) {
        for (const ColumnKind kind : kinds) columns_.emplace_back(kind, files);
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
    std::size_t spilled() const {
        std::size_t bytes = 0;
        for (const StoredColumn& column : columns_) bytes += column.spilled();
        return bytes;
    }

    // About the bytes of a stored row, in files.
    std::size_t row_bytes() const { return spilled() / std::max<std::size_t>(size(), 1); }

    using Batches = std::vector<std::shared_ptr<ArrowArray>>;

    // In files, makes room for batches, so that appending them cannot fail for want of it.
    void reserve(const Batches& batches) {
        for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].reserve(room_of(batches, i), size());
    }

    // Bytes of memory that are allocated when batches are appended.
    std::size_t growth(const Batches& batches) const {
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < columns_.size(); ++i)
            bytes += columns_[i].growth(room_of(batches, i), size());
        return bytes;
    }

    // Appends a batch whose children are the columns. On an error nothing of it stays.
    void append(const ArrowArray& batch, Crew& crew, const std::shared_ptr<void>& lender = nullptr) {
        if (static_cast<std::size_t>(batch.n_children) != columns_.size())
            throw std::invalid_argument("a batch with other columns");
        const auto from = static_cast<std::size_t>(batch.offset);
        const auto count = static_cast<std::size_t>(batch.length);
        Copies copies;
        try {
            for (std::size_t i = 0; i < columns_.size(); ++i)
                columns_[i].append(*batch.children[i], from, count, size(), lender, copies);
        } catch (...) {
            copies.make();
            for (StoredColumn& column : columns_) column.truncate(size());
            throw;
        }
        copies.make(crew);
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

    const StoredColumn& column(std::size_t i) const { return columns_.at(i); }

    // The places of positions among the stored rows, 0 for those that are -1. Returns whether there are any,
    // and which, if so.
    bool find(const std::int64_t* positions, std::size_t count, std::int64_t* places,
              std::uint8_t* missing) const {
        std::uint64_t outside = 0;  // the highest bit: a place is before the rows or behind them
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t place = static_cast<std::uint64_t>(positions[i]) - first_;
            places[i] = static_cast<std::int64_t>(place);
            outside |= place | (next_ - first_ - 1 - place);
        }
        if (outside >> 63 == 0) return false;
        for (std::size_t i = 0; i < count; ++i) {
            missing[i] = positions[i] == -1;
            if (missing[i]) places[i] = 0;
            else if (static_cast<std::uint64_t>(places[i]) >= size()) refuse(positions[i]);
        }
        return true;
    }

    // Which pairs of rows have equal byte strings; returns whether all have. Positions exist.
    static bool same(const Rows& a, std::size_t column_a, const std::int64_t* positions_a, const Rows& b,
                     std::size_t column_b, const std::int64_t* positions_b, std::size_t count, bool* out) {
        const StoredColumn &one = a.columns_.at(column_a), &other = b.columns_.at(column_b);
        if (!one.is_bytes() || !other.is_bytes()) throw std::invalid_argument("not a column of bytes");
        std::vector<std::int64_t> places(2 * count);
        std::vector<std::uint8_t> missing(count);
        a.find(positions_a, count, places.data(), missing.data());
        b.find(positions_b, count, places.data() + count, missing.data());
        bool all = true;
        for (std::size_t i = 0; i < count; ++i)
            all &= out[i] = StoredColumn::same(one, places[i], other, places[count + i]);
        return all;
    }

  private:
    StoredColumn::Room room_of(const Batches& batches, std::size_t column) const {
        StoredColumn::Room room;
        for (const auto& batch : batches)
            columns_[column].add_room(*batch->children[column], static_cast<std::size_t>(batch->offset),
                                      static_cast<std::size_t>(batch->length), room);
        return room;
    }

    [[noreturn]] void refuse(std::int64_t position) const {
        throw std::out_of_range("position " + std::to_string(position) + "; rows " + std::to_string(first_) +
                                " to " + std::to_string(next_) + " are kept");
    }

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
