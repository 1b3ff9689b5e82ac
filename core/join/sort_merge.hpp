// The join of two whole tables: sorts both sides by the keys that an index would hold, and merges them.
//
// The rows of one side probe the other: left rows for pairs, the side whose flags are wanted otherwise. If
// the indexed condition is one range of keys, the partners of each probing row are one part of the sorted
// other side. Taken in key order, both ends of the parts only advance: one pass over both sides finds the
// part of every probing row. Unions of ranges, and equalities with a band, have several parts for each row;
// those of some ten thousand rows are sorted and found together. Then probing rows are taken in their own
// order; their partners are copied from the sorted side, tested by the other conditions and sorted. Pairs of
// rows with one part and no other condition need not be copied to memory (merged_pairs.hpp). Each worker has
// a slice of the probing rows, so results do not depend on their number. Cost: the sorts, 10 ns a probing row
// to find its part, 10 ns to write its pairs, most of it for memory.
#pragma once

#include "../crew.hpp"
#include "../table_join.hpp"
#include "filter.hpp"
#include "merged_pairs.hpp"
#include "parts.hpp"
#include "table_sort.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SortMergeJoin {
  public:
    SortMergeJoin(const TableJoinSpec& spec, const Batch& left, const Batch& right)
        : spec_(spec),
          side_(spec.flags_of == 1 ? Side::right : Side::left),
          probing_(side_ == Side::left ? left : right),
          sorted_(side_ == Side::left ? right : left),
          workers_(pool_.prepare(workers_for(spec, left, right))),
          filter_(spec.on) {
        const auto indexed = make_index_keys<Key>(spec.on);
        merged_ = indexed->ascending();
        width_ = indexed->width();
    }

    void run(TableJoinResult& result) {
        const bool pairs = spec_.flags_of < 0;
        sort_other_side();
        if (merged_) merge();
        if (!pairs) result.matched.resize(probing_.size);
        if (!merged_ || !filter_.empty()) probe_all(pairs, result);
        else if (pairs) write_all(result);
        else write_flags(result.matched.data());
    }

  private:
    static constexpr std::size_t kProbed = std::size_t{1} << 16;  // rows whose parts are found together
    static constexpr std::size_t kPartsEach = 8;                  // of a worker: they are not equally hard
    static constexpr std::uint64_t kCounted = 1 << 12;            // pairs that are counted together
    static constexpr std::uint32_t kFirst = 128;  // candidates tested together to find a first partner

    // A worker is worth its start from `share` rows on.
    static std::size_t workers_for(const TableJoinSpec& spec, const Batch& left, const Batch& right) {
        return std::clamp<std::size_t>((left.size + right.size) / spec.share, 1, spec.workers);
    }

    SharedParts shared(std::size_t size) const {
        return SharedParts(size, workers_ == 1 ? 1 : std::clamp<std::size_t>(size, 1, kPartsEach * workers_));
    }

    void sort_other_side() {
        Buffer<bool> nulls(sorted_.size + 1);
        std::fill_n(nulls.data(), sorted_.size, false);
        if (!filter_.empty())
            for (std::size_t start = 0; start < sorted_.size; start += kRowBlock) {
                const std::size_t count = std::min(kRowBlock, sorted_.size - start);
                filter_.read(sorted_, start, count, nulls.data() + start);
                for (std::size_t i = 0; i < count; ++i) filter_.keep(other(side_), i);
            }
        TableSorter<Key>(spec_.on, pool_, workers_, spec_.share)
            .sort(sorted_, 0, sorted_.size, nulls.data(), run_);
    }

    // Finds the part of every probing row if the condition is one range: each worker sorts its probing
    // rows and merges them with the whole sorted side.
    void merge() {
        parts_ = Buffer<EntryRange>(probing_.size + 1);
        pool_.run(workers_, [&](std::size_t worker) {
            const Slice slice(probing_.size, worker, workers_);
            const std::size_t count = slice.to - slice.from;
            Buffer<bool> nulls(count + 1);
            std::fill_n(nulls.data(), count, false);
            SortedEntries<Key> sorted;
            Workers alone;
            TableSorter<Key>(spec_.on, alone).sort(probing_, slice.from, count, nulls.data(), sorted);
            if (sorted.size < count) std::fill_n(parts_.data() + slice.from, count, EntryRange{});
            const auto indexed = make_index_keys<Key>(spec_.on);
            Interval<Key> intervals[kRowBlock];
            EntryRange last;
            for (std::size_t start = 0; start < sorted.size; start += kRowBlock) {
                const std::size_t some = std::min(kRowBlock, sorted.size - start);
                indexed->partners({nullptr, side_}, sorted.keys.data() + start, some, intervals);
                for (std::size_t i = 0; i < some; ++i) {
                    EntryRange& part = parts_[slice.from + sorted.positions[start + i]];
                    if (intervals[i].empty()) part = {};
                    else part = last = next_range(run_.search(), last, intervals[i]);
                }
            }
        });
    }

    void write_flags(std::uint8_t* matched) {
        SharedParts parts = shared(probing_.size);
        pool_.run(workers_, [&](std::size_t) {
            parts.each([&](std::size_t, Slice rows) {
                for (std::size_t row = rows.from; row < rows.to; ++row) matched[row] = parts_[row].size() > 0;
            });
        });
    }

    // All rows of the parts are partners. They are written here, or later where they are used.
    void write_all(TableJoinResult& result) {
        auto merged = std::make_unique<MergedPairs>(std::move(parts_), probing_.size,
                                                    std::move(run_.positions), pool_, workers_);
        check_limit(merged->size());
        if (spec_.blocks && merged->most() <= PairBlocks::kMost) {
            result.blocks = std::move(merged);
            return;
        }
        make_room(result.pairs, merged->size());
        SharedParts places = shared(merged->size());
        pool_.run(workers_, [&](std::size_t) {
            places.each([&](std::size_t, Slice slice) { merged->write(slice, result.pairs); });
        });
    }

    // Parts hold candidates, or a row has several parts: pairs are collected, then copied together.
    void probe_all(bool pairs, TableJoinResult& result) {
        SharedParts rows = shared(probing_.size);
        std::vector<Pairs> found(rows.count());
        pool_.run(workers_, [&](std::size_t) {
            Prober prober(*this, result.matched.data());
            rows.each(
                [&](std::size_t part, Slice slice) { prober.probe(slice, pairs ? &found[part] : nullptr); });
        });
        if (found.size() == 1) {
            result.pairs = std::move(found[0]);
            return;
        }
        std::vector<std::size_t> places(1);
        for (const Pairs& part : found) places.push_back(places.back() + part.size());
        make_room(result.pairs, places.back());
        SharedParts copied = shared(found.size());
        pool_.run(workers_, [&](std::size_t) {
            copied.each([&](std::size_t, Slice slice) {
                for (std::size_t part = slice.from; part < slice.to; ++part) {
                    const Pairs from = std::move(found[part]);
                    std::copy_n(from.left(), from.size(), result.pairs.left() + places[part]);
                    std::copy_n(from.right(), from.size(), result.pairs.right() + places[part]);
                }
            });
        });
    }

    // Finds the partners of one worker's probing rows.
    class Prober {
      public:
        Prober(SortMergeJoin& join, std::uint8_t* matched)
            : join_(join), matched_(matched), finder_(join.spec_.on, join.side_), filter_(join.spec_.on) {
            filter_.share(join.filter_);
        }

        // Writes the pairs of some rows; without `pairs`, whether each has a partner.
        void probe(Slice rows, Pairs* pairs) {
            pairs_ = pairs;
            for (std::size_t start = rows.from; start < rows.to; start += kProbed)
                probe(start, std::min(kProbed, rows.to - start));
            count_pairs(0, 0);
        }

      private:
        void probe(std::size_t start, std::size_t count) {
            nulls_.reserve(count);
            std::fill_n(nulls_.data(), count, false);
            const EntryRange* parts = join_.parts_.data() + start;
            if (!join_.merged_) parts = find_parts(start, count);
            if (!filter_.empty()) {
                filter_.read(join_.probing_, start, count, nulls_.data());
                filter_.find_intervals({nullptr, join_.side_}, count);
            }
            const std::size_t width = join_.merged_ ? 1 : join_.width_;
            for (std::size_t i = 0; i < count; ++i)
                if (!nulls_[i]) probe_row(start + i, i, parts + i * width, width);
        }

        void begin_tests(std::size_t i) {
            Task<Key> task{};
            task.arrival = static_cast<std::uint32_t>(i);
            task.partner_is_left = join_.side_ == Side::right;
            filter_.begin(task);
        }

        // Whether a row has a partner: tests a few candidates at a time, until one is found.
        bool has_partner(std::size_t i, const EntryRange* parts, std::size_t width) {
            found_.reserve(kFirst);
            for (std::size_t k = 0; k < width; ++k)
                for (std::uint32_t done = 0; done < parts[k].size(); done += kFirst) {
                    const std::size_t some = std::min(kFirst, parts[k].size() - done);
                    if (filter_.empty()) return true;
                    std::copy_n(join_.run_.positions.data() + parts[k].from + done, some, found_.data());
                    begin_tests(i);
                    if (filter_.test(found_.data(), some)) return true;
                }
            return false;
        }

        void probe_row(std::size_t row, std::size_t i, const EntryRange* parts, std::size_t width) {
            if (!pairs_) {
                matched_[row] = has_partner(i, parts, width);
                return;
            }
            std::size_t count = 0;
            for (std::size_t k = 0; k < width; ++k) {
                found_.reserve(count + parts[k].size(), count);
                std::copy_n(join_.run_.positions.data() + parts[k].from, parts[k].size(),
                            found_.data() + count);
                count += parts[k].size();
            }
            if (!filter_.empty() && count) {
                begin_tests(i);
                count = filter_.test(found_.data(), count);
            }
            if (!count) return;
            count_pairs(count, kCounted);
            sort_positions(found_.data(), count, scratch_);
            pairs_->reserve(count);
            std::fill_n(pairs_->left() + pairs_->size(), count, static_cast<std::int64_t>(row));
            std::copy_n(found_.data(), count, pairs_->right() + pairs_->size());
            pairs_->add(count);
        }

        // Checks the limit when more than a few pairs have been found since the last time.
        void count_pairs(std::uint64_t count, std::uint64_t few) {
            uncounted_ += count;
            if (uncounted_ > few) join_.check_limit(join_.found_ += std::exchange(uncounted_, 0));
        }

        // The parts of some probing rows: as many for each row as the condition has intervals.
        const EntryRange* find_parts(std::size_t start, std::size_t count) {
            parts_.reserve(count * join_.width_);
            std::fill_n(parts_.data(), count * join_.width_, EntryRange{});
            finder_.find(join_.probing_, start, count, nulls_.data(), join_.run_.search(),
                         [&](std::size_t slot, EntryRange part) { parts_[slot] = part; });
            return parts_.data();
        }

        SortMergeJoin& join_;
        Pairs* pairs_ = nullptr;
        std::uint8_t* matched_;
        std::uint64_t uncounted_ = 0;
        PartFinder<Key> finder_;
        CandidateFilter filter_;
        Buffer<bool> nulls_;
        Buffer<EntryRange> parts_;
        Buffer<std::uint32_t> found_, scratch_;
    };

    void check_limit(std::uint64_t pairs) const {
        if (pairs > spec_.limit)
            throw BatchError(BatchError::Kind::capacity, 0,
                             "the join has more than " + std::to_string(spec_.limit) + " pairs");
    }

    // Leaves room for so many pairs, in huge pages that are cleared by whoever writes them first.
    static void make_room(Pairs& pairs, std::size_t count) {
        pairs.reserve(count);
        pairs.add(count);
#if defined(__linux__)
        for (std::int64_t* side : {pairs.left(), pairs.right()}) {
            const auto first = (reinterpret_cast<std::uintptr_t>(side) + kHugePage - 1) / kHugePage;
            const auto last = reinterpret_cast<std::uintptr_t>(side + pairs.size()) / kHugePage;
            if (first < last)
                madvise(reinterpret_cast<void*>(first * kHugePage), (last - first) * kHugePage,
                        MADV_HUGEPAGE);
        }
#endif
    }

    const TableJoinSpec& spec_;
    Side side_;  // whose rows probe
    const Batch& probing_;
    const Batch& sorted_;
    Workers pool_;
    std::size_t workers_;
    CandidateFilter filter_;  // with the keys of all rows of the sorted side
    bool merged_ = false;
    std::size_t width_ = 1;
    SortedEntries<Key> run_;    // the sorted side
    Buffer<EntryRange> parts_;  // of each probing row, if they were merged
    std::atomic<std::uint64_t> found_{0};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
