// The pairs of a join that merged both sides: for each probing row, a part of the sorted other side.
//
// Pairs are counted for every 512 rows, so that any of them are found without those before. They are
// written to arrays by several workers, or block by block while their columns are taken: then they stay in
// cache, and their arrays are never in memory. Cost: 10 ns a row with two pairs, mostly for a cache miss.
#pragma once

#include "../crew.hpp"
#include "../index/sorted_entries.hpp"
#include "../sort.hpp"
#include "../table_join.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class MergedPairs final : public PairBlocks {
  public:
    // Row i meets the rows positions[parts[i]]; behind these, some positions are readable.
    MergedPairs(Buffer<EntryRange> parts, std::size_t rows, Buffer<std::uint32_t> positions, Workers& pool,
                std::size_t workers)
        : parts_(std::move(parts)), positions_(std::move(positions)), rows_(rows) {
        before_.resize((rows + kCounted - 1) / kCounted + 1);
        std::vector<std::uint32_t> most(workers);
        pool.run(workers, [&](std::size_t worker) {
            const Slice groups(before_.size() - 1, worker, workers);
            std::uint32_t more = 0;
            for (std::size_t i = groups.from; i < groups.to; ++i)
                for (std::size_t row = i * kCounted; row < std::min(rows, (i + 1) * kCounted); ++row) {
                    before_[i + 1] += parts_[row].size();
                    more = std::max(more, parts_[row].size());
                }
            most[worker] = more;
        });
        most_ = *std::max_element(most.begin(), most.end());
        std::partial_sum(before_.begin(), before_.end(), before_.begin());
    }

    std::size_t size() const override { return before_.back(); }
    std::uint32_t most() const { return most_; }  // pairs of a row

    // Writes the rows whose last pair is one of these, each to its place.
    void write(Slice pairs, Pairs& out) const {
        const Cut from = cut(pairs.from), to = cut(pairs.to);
        write_rows(from.row, to.row, out.left() + from.pair, out.right() + from.pair, to.pair - from.pair);
    }

    std::size_t read(Slice pairs, std::int64_t* left, std::int64_t* right) const override {
        const Cut from = cut(pairs.from), last = cut(pairs.to - 1);
        write_rows(from.row, last.row + 1, left, right, pairs.size() + kSpare);
        return pairs.from - from.pair;
    }

  private:
    static constexpr std::size_t kCounted = 512;  // rows that are counted together
    static constexpr std::size_t kAhead = 64;     // rows whose partners are prefetched

    // Where the pairs of a row begin.
    struct Cut {
        std::size_t row;
        std::size_t pair;
    };

    // The row that a pair belongs to; the end of all rows for the number of all pairs.
    Cut cut(std::size_t pair) const {
        const auto next = std::upper_bound(before_.begin(), before_.end(), pair);
        const auto count = static_cast<std::size_t>(next - before_.begin() - 1);
        Cut at{std::min(count * kCounted, rows_), before_[count]};
        while (at.row < rows_ && at.pair + parts_[at.row].size() <= pair) at.pair += parts_[at.row++].size();
        return at;
    }

    // Writes the pairs of some rows, which fit into the room there is.
    void write_rows(std::size_t first, std::size_t end, std::int64_t* left, std::int64_t* right,
                    std::size_t room) const {
        Buffer<std::uint32_t> found, scratch;
        const std::int64_t* const limit = left + room;
        for (std::size_t row = first; row < end; ++row) {
            // Also of rows that are written next.
            const std::uint32_t* const ahead =
                positions_.data() + parts_[std::min(row + kAhead, rows_ - 1)].from;
            prefetch(ahead);
            prefetch(ahead + kFew - 1);
            const std::uint32_t count = parts_[row].size();
            const std::uint32_t* const partners = positions_.data() + parts_[row].from;
            if (count <= kFew && limit - left >= static_cast<std::ptrdiff_t>(kFew)) [[likely]] {
                write_few(partners, count, true, 0, right);  // the next pairs overwrite the rest
                fill_few(static_cast<std::int64_t>(row), left);
            } else {
                std::fill_n(left, count, static_cast<std::int64_t>(row));
                found.reserve(count + 1);
                std::copy_n(partners, count, found.data());
                sort_positions(found.data(), count, scratch);
                std::copy_n(found.data(), count, right);
            }
            left += count;
            right += count;
        }
    }

    Buffer<EntryRange> parts_;
    Buffer<std::uint32_t> positions_;
    std::size_t rows_;
    std::uint32_t most_ = 0;
    std::vector<std::uint64_t> before_;  // pairs before each group of rows, and in all
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
