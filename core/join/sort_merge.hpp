// The join of two whole tables: sorts both sides by the keys that an index would hold, and merges them.
//
// The rows of one side probe the other: left rows for pairs, the side whose flags are wanted otherwise. If
// the indexed condition is one range of keys, the partners of each probing row are one part of the sorted
// other side. Taken in key order, both ends of the parts only advance: one pass over both sides finds the
// part of every probing row. Unions of ranges, and equalities with a band, have several parts for each row;
// those of some ten thousand rows are sorted and found together. Then probing rows are taken in their own
// order; their partners are copied from the sorted side, tested by the other conditions and sorted. Each
// worker has a slice of the probing rows, so results do not depend on their number. Cost: the sorts, 20 ns a
// probing row, 15 ns a pair, most of it for memory.
#pragma once

#include "../table_join.hpp"
#include "filter.hpp"
#include "parts.hpp"
#include "table_sort.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Writes pairs of rows: to the end of a result, or where room was left for them.
class PairWriter {
  public:
    explicit PairWriter(Pairs& pairs) : pairs_(&pairs) {}
    PairWriter(std::int64_t* left, std::int64_t* right, std::size_t count)
        : left_(left), right_(right), end_(left + count) {}

    // Writes a row's partners in ascending order. The array is changed, and read beyond its end.
    void write(std::size_t row, std::uint32_t* partners, std::size_t count, Buffer<std::uint32_t>& scratch) {
        sort_positions(partners, count, scratch);
        if (pairs_) {
            pairs_->reserve(count);
            left_ = pairs_->left() + pairs_->size();
            right_ = pairs_->right() + pairs_->size();
            pairs_->add(count);
        }
        for (std::size_t i = 0; i < count; ++i) right_[i] = partners[i];
        std::fill_n(left_, count, static_cast<std::int64_t>(row));
        left_ += count;
        right_ += count;
    }

    // Whether there is room for four pairs.
    bool has_four() const { return end_ - left_ >= 4; }

    // Writes up to four partners, sorted without a branch. The next call overwrites unused pairs.
    void write_four(std::size_t row, const std::uint32_t* partners, std::size_t count) {
        constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
        std::uint32_t a = count > 0 ? partners[0] : kNone, b = count > 1 ? partners[1] : kNone;
        std::uint32_t c = count > 2 ? partners[2] : kNone, d = count > 3 ? partners[3] : kNone;
        order(a, b);
        order(c, d);
        order(a, c);
        order(b, d);
        order(b, c);
        const auto left = static_cast<std::int64_t>(row);
        left_[0] = left_[1] = left_[2] = left_[3] = left;
        right_[0] = a;
        right_[1] = b;
        right_[2] = c;
        right_[3] = d;
        left_ += count;
        right_ += count;
    }

  private:
    static void order(std::uint32_t& a, std::uint32_t& b) {
        const std::uint32_t less = std::min(a, b), more = std::max(a, b);
        a = less;
        b = more;
    }

    Pairs* pairs_ = nullptr;
    std::int64_t* left_ = nullptr;
    std::int64_t* right_ = nullptr;
    std::int64_t* end_ = nullptr;
};

template <class Key>
class SortMergeJoin {
  public:
    SortMergeJoin(const TableJoinSpec& spec, const Batch& left, const Batch& right)
        : spec_(spec),
          side_(spec.flags_of == 1 ? Side::right : Side::left),
          probing_(side_ == Side::left ? left : right),
          sorted_(side_ == Side::left ? right : left),
          workers_(workers_for(spec, left, right)),
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
        if (merged_ && filter_.empty()) {
            if (pairs) write_all(result.pairs);
            else
                for (std::size_t row = 0; row < probing_.size; ++row)
                    result.matched[row] = parts_[row].size() > 0;
        } else {
            probe_all(pairs, result);
        }
    }

  private:
    static constexpr std::size_t kProbed = std::size_t{1} << 16;  // rows whose parts are found together
    static constexpr std::size_t kAhead = 16;
    static constexpr std::uint32_t kFirst = 128;  // candidates tested together to find a first partner

    // A worker is worth its start from `share` rows on.
    static std::size_t workers_for(const TableJoinSpec& spec, const Batch& left, const Batch& right) {
        return std::clamp<std::size_t>((left.size + right.size) / spec.share, 1, spec.workers);
    }

    void sort_other_side() {
        Buffer<bool> nulls(std::max<std::size_t>(sorted_.size, 1));
        std::fill_n(nulls.data(), sorted_.size, false);
        if (!filter_.empty())
            for (std::size_t start = 0; start < sorted_.size; start += kRowBlock) {
                const std::size_t count = std::min(kRowBlock, sorted_.size - start);
                filter_.read(sorted_, start, count, nulls.data() + start);
                for (std::size_t i = 0; i < count; ++i) filter_.keep(other(side_), i);
            }
        TableSorter<Key>(spec_.on, workers_).sort(sorted_, 0, sorted_.size, nulls.data(), run_);
    }

    // Finds the part of every probing row if the condition is one range: each worker sorts its probing
    // rows and merges them with the whole sorted side.
    void merge() {
        parts_ = Buffer<EntryRange>(probing_.size + 1);
        run_workers(workers_, [&](std::size_t worker) {
            const Slice slice(probing_.size, worker, workers_);
            const std::size_t count = slice.to - slice.from;
            Buffer<bool> nulls(count + 1);
            std::fill_n(nulls.data(), count, false);
            SortedEntries<Key> sorted;
            TableSorter<Key>(spec_.on, 1).sort(probing_, slice.from, count, nulls.data(), sorted);
            if (sorted.size < count) std::fill_n(parts_.data() + slice.from, count, EntryRange{});
            merge(sorted, parts_.data() + slice.from);
        });
    }

    void merge(const SortedEntries<Key>& sorted, EntryRange* parts) const {
        const auto indexed = make_index_keys<Key>(spec_.on);
        Interval<Key> intervals[kRowBlock];
        EntryRange last;
        for (std::size_t start = 0; start < sorted.size; start += kRowBlock) {
            const std::size_t count = std::min(kRowBlock, sorted.size - start);
            indexed->partners({nullptr, side_}, sorted.keys.data() + start, count, intervals);
            for (std::size_t i = 0; i < count; ++i) {
                EntryRange& part = parts[sorted.positions[start + i]];
                if (intervals[i].empty()) part = {};
                else part = last = run_.search().next(last, intervals[i]);
            }
        }
    }

    // All rows of the parts are partners: they are counted first, and each worker writes to its own place.
    void write_all(Pairs& pairs) {
        std::vector<std::size_t> counts(workers_);
        run_workers(workers_, [&](std::size_t worker) {
            const Slice slice(probing_.size, worker, workers_);
            std::size_t total = 0;
            for (std::size_t row = slice.from; row < slice.to; ++row) total += parts_[row].size();
            counts[worker] = total;
        });
        std::uint64_t total = 0;
        for (const std::size_t count : counts) total += count;
        check_limit(total);
        pairs.reserve(total);
        pairs.add(total);
        use_huge_pages(pairs);
        run_workers(workers_, [&](std::size_t worker) {
            std::size_t before = 0;
            for (std::size_t i = 0; i < worker; ++i) before += counts[i];
            PairWriter writer(pairs.left() + before, pairs.right() + before, counts[worker]);
            write_slice(Slice(probing_.size, worker, workers_), writer);
        });
    }

    void write_slice(Slice slice, PairWriter& writer) const {
        Buffer<std::uint32_t> found, scratch;
        const std::uint32_t* const rows = run_.positions.data();
        for (std::size_t row = slice.from; row < slice.to; ++row) {
            if (row + kAhead < slice.to) prefetch(rows + parts_[row + kAhead].from);
            const std::uint32_t count = parts_[row].size();
            const std::uint32_t* const partners = rows + parts_[row].from;
            if (count <= 4 && writer.has_four()) {
                writer.write_four(row, partners, count);
                continue;
            }
            if (!count) continue;
            found.reserve(count);
            std::memcpy(found.data(), partners, count * sizeof(std::uint32_t));
            writer.write(row, found.data(), count, scratch);
        }
    }

    // Parts hold candidates, or a row has several parts: each worker collects its own pairs.
    void probe_all(bool pairs, TableJoinResult& result) {
        std::vector<Pairs> found(workers_);
        run_workers(workers_, [&](std::size_t worker) {
            Prober prober(*this, pairs ? &found[worker] : nullptr, result.matched.data());
            const Slice slice(probing_.size, worker, workers_);
            for (std::size_t start = slice.from; start < slice.to; start += kProbed)
                prober.probe(start, std::min(kProbed, slice.to - start));
        });
        if (workers_ == 1) {
            result.pairs = std::move(found[0]);
            return;
        }
        std::vector<std::size_t> places(workers_);
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            places[worker] = result.pairs.size();
            result.pairs.reserve(found[worker].size());
            result.pairs.add(found[worker].size());
        }
        run_workers(workers_, [&](std::size_t worker) {
            const Pairs from = std::move(found[worker]);
            std::copy_n(from.left(), from.size(), result.pairs.left() + places[worker]);
            std::copy_n(from.right(), from.size(), result.pairs.right() + places[worker]);
        });
    }

    // Finds the partners of one worker's probing rows.
    class Prober {
      public:
        Prober(SortMergeJoin& join, Pairs* pairs, std::uint8_t* matched)
            : join_(join),
              pairs_(pairs),
              matched_(matched),
              finder_(join.spec_.on, join.side_),
              filter_(join.spec_.on) {
            filter_.share(join.filter_);
        }

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

      private:
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
            join_.found_ += count;
            join_.check_limit(join_.found_);
            PairWriter(*pairs_).write(row, found_.data(), count, scratch_);
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
        Pairs* pairs_;
        std::uint8_t* matched_;
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

    static void use_huge_pages(const Pairs& pairs) {
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
    std::size_t workers_;
    CandidateFilter filter_;  // with the keys of all rows of the sorted side
    bool merged_ = false;
    std::size_t width_ = 1;
    SortedEntries<Key> run_;    // the sorted side
    Buffer<EntryRange> parts_;  // of each probing row, if they were merged
    std::atomic<std::uint64_t> found_{0};
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
