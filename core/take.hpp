// Takes rows by position into the columns of a result. Workers share parts of the positions, and take all
// columns of a part; strings need a second pass, once the bytes of every part are known. 1-2 ns a value in
// cache; bound by memory beyond. The result does not depend on the number of workers.
#pragma once

#include "rows.hpp"
#include "table_join.hpp"

namespace slidejoin {

// Some columns of the rows at these positions; -1 is a row of nulls. Or of the left or right rows of pairs,
// from pair `first` on; then all sides are of the same pairs.
struct TakenRows {
    const Rows* rows;
    const std::int64_t* positions;
    std::vector<std::size_t> columns;
    const PairBlocks* pairs = nullptr;
    bool is_right = false;
    std::size_t first = 0;
};

class Taker {
  public:
    // Takes `count` rows of each side; their columns stand side by side.
    Taker(const std::vector<TakenRows>& sides, std::size_t count, Crew& crew)
        : sides_(sides),
          count_(count),
          crew_(crew),
          blocks_((count + kBlockRows - 1) / kBlockRows),
          parts_(crew.parts_of(blocks_, 1)),
          result_(std::make_unique<ArrowResult>(count, 1)) {}

    // The columns, or nullptr where one with 32-bit offsets would have more than `most` bytes.
    std::unique_ptr<ArrowResult> take(std::int64_t most) {
        for (const TakenRows& side : sides_) {
            // Of many rows, some are taken for missing before they are looked at.
            const bool missing =
                !side.pairs && (blocks_ > 1 || std::find(side.positions, side.positions + count_, -1) !=
                                                   side.positions + count_);
            for (const std::size_t i : side.columns) add(side.rows->column(i), missing);
        }
        totals_.resize(columns_.size() * parts_);
        crew_.run(blocks_, parts_, [&](std::size_t part, Slice blocks) { take_part(part, blocks); });
        if (has_strings_) {
            for (std::size_t i = 0; i < columns_.size(); ++i)
                if (columns_[i].from->is_bytes() && !make_room(i, most)) return nullptr;
            crew_.run(blocks_, parts_, [&](std::size_t part, Slice blocks) { take_strings(part, blocks); });
        }
        for (std::size_t i = 0; i < columns_.size(); ++i) set_nulls(i);
        return std::move(result_);
    }

  private:
    static constexpr std::size_t kBlockRows = 2048;  // a multiple of 8: blocks share no byte of bits

    struct TakenColumn {
        const StoredColumn* from;
        ArrowResult* to;
        std::uint8_t* values;                    // or the ends of strings
        std::uint8_t* validity;                  // or nullptr
        std::unique_ptr<std::int64_t[]> begins;  // of strings, in the store
        std::uint8_t* strings = nullptr;
    };
    struct Total {
        std::int64_t nulls = 0;
        std::int64_t bytes = 0;  // of strings: in this part, then in all parts before it
    };

    Total& total(std::size_t column, std::size_t part) { return totals_[column * parts_ + part]; }

    void add(const StoredColumn& from, bool missing) {
        auto made = std::make_unique<ArrowResult>(count_, from.is_bytes() ? 3 : 2);
        auto* values = made->allocate<std::uint8_t>(1, from.taken_bytes(count_));
        std::uint8_t* validity = nullptr;
        if (missing || from.nullable()) validity = made->allocate<std::uint8_t>(0, (count_ + 7) / 8);
        columns_.push_back({&from, made.get(), values, validity, nullptr});
        if (from.is_bytes()) {
            const auto width = from.taken_bytes(0);
            std::memset(values, 0, width);
            columns_.back().values += width;
            columns_.back().begins.reset(new std::int64_t[count_]);
        }
        result_->add(std::move(made));
        has_strings_ |= from.is_bytes();
    }

    // Calls work(column, picks, at) for each column and each of these blocks, which begins at row `at`.
    template <class Work>
    void each_block(Slice blocks, const Work& work) const {
        std::int64_t places[kBlockRows];
        std::uint8_t missing[kBlockRows];
        std::int64_t pairs[2][kBlockRows + PairBlocks::kSpare];
        const TakenRows& one = sides_[0];
        const std::size_t end = std::min(count_, blocks.to * kBlockRows);
        for (std::size_t at = blocks.from * kBlockRows; at < end; at += kBlockRows) {
            const std::size_t count = std::min(kBlockRows, end - at);
            const Slice some_pairs(one.first + at, one.first + at + count);
            const std::size_t before = one.pairs ? one.pairs->read(some_pairs, pairs[0], pairs[1]) : 0;
            std::size_t column = 0;
            for (const TakenRows& side : sides_) {
                const std::int64_t* const positions =
                    side.pairs ? pairs[side.is_right] + before : side.positions + at;
                const bool some = side.rows->find(positions, count, places, missing);
                const Picks picks{places, some ? missing : nullptr, count, side.rows->size()};
                for (std::size_t i = 0; i < side.columns.size(); ++i) work(column++, picks, at);
            }
        }
    }

    void take_part(std::size_t part, Slice blocks) {
        each_block(blocks, [&](std::size_t i, const Picks& picks, std::size_t at) {
            const TakenColumn& column = columns_[i];
            Total& sum = total(i, part);
            if (column.validity) sum.nulls += column.from->take_validity(picks, column.validity, at);
            if (column.from->is_bytes())
                sum.bytes += column.from->find_strings(picks, column.begins.get() + at, column.values, at);
            else column.from->take_values(picks, column.values, at);
        });
    }

    // Allocates the bytes of a column of strings, and tells each part where its own begin.
    bool make_room(std::size_t i, std::int64_t most) {
        std::int64_t bytes = 0;
        for (std::size_t part = 0; part < parts_; ++part) bytes += std::exchange(total(i, part).bytes, bytes);
        if (!columns_[i].from->can_address(bytes, most)) return false;
        columns_[i].strings = columns_[i].to->allocate<std::uint8_t>(2, static_cast<std::size_t>(bytes));
        return true;
    }

    void take_strings(std::size_t part, Slice blocks) {
        const std::size_t end = std::min(count_, blocks.to * kBlockRows);
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const TakenColumn& column = columns_[i];
            std::int64_t byte = total(i, part).bytes;
            if (!column.from->is_bytes()) continue;
            for (std::size_t at = blocks.from * kBlockRows; at < end; at += kBlockRows)
                byte = column.from->copy_strings(column.begins.get() + at, std::min(kBlockRows, end - at),
                                                 column.values, at, column.strings, byte);
        }
    }

    void set_nulls(std::size_t column) {
        std::int64_t nulls = 0;
        for (std::size_t part = 0; part < parts_; ++part) nulls += total(column, part).nulls;
        columns_[column].to->set_null_count(nulls);
    }

    const std::vector<TakenRows>& sides_;
    std::size_t count_;
    Crew& crew_;
    std::size_t blocks_;
    std::size_t parts_;
    std::unique_ptr<ArrowResult> result_;
    std::vector<TakenColumn> columns_;
    std::vector<Total> totals_;
    bool has_strings_ = false;
};

}  // namespace slidejoin
