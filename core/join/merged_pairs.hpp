// The pairs of a join that merged both sides: for each probing row, a part of the sorted other side.
//
// Pairs are counted for every some hundred rows, so that any of them are found without those before. They are
// written to arrays by several workers, or block by block while their columns are taken: then they stay in
// cache, and their arrays are never in memory. Cost: 5 ns a probing row and pair.
#pragma once

#include "../crew.hpp"
#include "../index/sorted_entries.hpp"
#include "../sort.hpp"
#include "../table_join.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

class MergedPairs final : public PairBlocks {
  public:
    // Row i of `rows` meets the rows positions[parts[i]].
    MergedPairs(Buffer<EntryRange> parts, std::size_t rows, Buffer<std::uint32_t> positions, Workers& pool,
                std::size_t workers)
        : parts_(std::move(parts)), positions_(std::move(positions)), rows_(rows) {
        before_.resize((rows + kCounted - 1) / kCounted + 1);
        std::vector<std::uint32_t> most(workers);
        pool.run(workers, [&](std::size_t worker) {
            const Slice counts(before_.size() - 1, worker, workers);
            for (std::size_t i = counts.from; i < counts.to; ++i)
                for (std::size_t row = i * kCounted; row < std::min(rows_, (i + 1) * kCounted); ++row) {
                    before_[i + 1] += parts_[row].size();
                    most[worker] = std::max(most[worker], parts_[row].size());
                }
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
    static constexpr std::size_t kAhead = 64;  // rows whose partners are prefetched

    // Where the pairs of a row begin.
    struct Cut {
        std::size_t row;
        std::size_t pair;
    };

    // The row that has a pair; the end for the number of all.
    Cut cut(std::size_t pair) const {
        const auto next = std::upper_bound(before_.begin(), before_.end(), pair);
        const auto count = static_cast<std::size_t>(next - before_.begin() - 1);
        Cut at{std::min(count * kCounted, rows_), before_[count]};
        while (at.row < rows_ && at.pair + parts_[at.row].size() <= pair) at.pair += parts_[at.row++].size();
        return at;
    }

    // Writes the pairs of some rows to where there is room for at least these.
    void write_rows(std::size_t first, std::size_t end, std::int64_t* left, std::int64_t* right,
                    std::size_t room) const {
        Buffer<std::uint32_t> found, scratch;
        const std::int64_t* const limit = left + room;
        for (std::size_t row = first; row < end; ++row) {
            // Also of rows that are written next.
            const std::uint32_t* const ahead =
                positions_.data() + parts_[std::min(row + kAhead, rows_ - 1)].from;
            prefetch(ahead);
            prefetch(ahead + 3);
            const std::uint32_t count = parts_[row].size();
            const std::uint32_t* partners = positions_.data() + parts_[row].from;
            if (count <= 4 && limit - left >= 4) {
                write_four(row, partners, count, left, right);
            } else {
                std::fill_n(left, count, static_cast<std::int64_t>(row));
                if (count > kRanked) {
                    found.reserve(count);
                    std::copy_n(partners, count, found.data());
                    sort_positions(found.data(), count, scratch);
                    std::copy_n(found.data(), count, right);
                } else {
                    for (std::size_t i = 0; i < count; ++i)
                        right[rank_of(partners[i], partners, count)] = partners[i];
                }
            }
            left += count;
            right += count;
        }
    }

    // Writes up to four partners, sorted without a branch; four are read, and four pairs are written.
    static void write_four(std::size_t row, const std::uint32_t* partners, std::size_t count,
                           std::int64_t* left, std::int64_t* right) {
        const auto unless = [](bool used) { return std::uint32_t{used} - 1; };  // else the greatest number
        const auto order = [](std::uint32_t& a, std::uint32_t& b) {
            const std::uint32_t less = std::min(a, b), more = std::max(a, b);
            a = less;
            b = more;
        };
        std::uint32_t a = partners[0] | unless(count > 0), b = partners[1] | unless(count > 1);
        std::uint32_t c = partners[2] | unless(count > 2), d = partners[3] | unless(count > 3);
        order(a, b);
        order(c, d);
        order(a, c);
        order(b, d);
        order(b, c);
        left[0] = left[1] = left[2] = left[3] = static_cast<std::int64_t>(row);
        right[0] = a;
        right[1] = b;
        right[2] = c;
        right[3] = d;
    }

    Buffer<EntryRange> parts_;
    Buffer<std::uint32_t> positions_;
    std::size_t rows_;
    std::uint32_t most_ = 0;
    std::vector<std::uint64_t> before_;  // pairs before each group of rows, and in all
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
