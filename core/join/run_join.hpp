// The join of sorted runs: rows that are stored in the order of their index keys, and never sorted again.
//
// The rows of one run, the shorter one, probe the other, in the order of their keys. Their partners are parts
// of the other run, found by a galloping search from the part before; so a few rows read only a few places of
// a long run, and runs of like size are merged. The rows of a part are contiguous: other conditions are
// tested by reading their columns there. Results are numbers of rows in their runs, in the order of the
// probing rows. Cost: 30-50 ns a probing row and 2 ns a pair, 1-3 ns for each condition and candidate; where
// runs differ in size, a few cache misses for each probing row.
#pragma once

#include "../run_join.hpp"
#include "filter.hpp"
#include "parts.hpp"
#include "table_sort.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Probes one run with the rows of another, some rows at a time.
template <class Key>
class RunProber {
  public:
    RunProber(const JoinSpec& spec, const Run& left, const Run& right, Side probing)
        : probing_((probing == Side::left ? left : right).rows),
          searched_((probing == Side::left ? right : left).rows),
          side_(probing),
          keys_(static_cast<const Key*>((probing == Side::left ? right : left).keys), searched_.size),
          finder_(spec, probing),
          filter_(spec) {}

    bool filtered() const { return !filter_.empty(); }
    std::size_t start() const { return start_; }  // of the rows that were taken last
    std::size_t count() const { return count_; }

    // Takes the next probing rows and finds their parts, found(slot, part) as PartFinder; false at the end.
    template <class Found>
    bool take(Found found) {
        start_ += count_;
        count_ = std::min(kTaken, probing_.size - start_);
        if (!count_) return false;
        bool nulls[kTaken] = {};
        if (filtered()) {
            filter_.read(probing_, start_, count_, nulls);
            filter_.find_intervals({nullptr, side_}, count_);
        }
        finder_.find(probing_, start_, count_, nulls, keys_, found);
        return true;
    }

    // The same, and keeps the parts.
    bool take() {
        parts_.reserve(kTaken * width());
        std::fill_n(parts_.data(), kTaken * width(), EntryRange{});
        return take([&](std::size_t slot, EntryRange part) { parts_[slot] = part; });
    }

    std::size_t width() const { return finder_.width(); }
    EntryRange part(std::size_t row, std::size_t k) const { return parts_[row * width() + k]; }

    // The tests that follow are for row start() + `row`.
    void begin_tests(std::size_t row) {
        Task<Key> task{};
        task.arrival = static_cast<std::uint32_t>(row);
        task.partner_is_left = side_ == Side::right;
        filter_.begin(task);
    }

    // Lists the matches among rows [from, from + count) of the other run, kSelected at most.
    std::size_t test(std::size_t from, std::size_t count, std::uint32_t* found) const {
        return filter_.select(searched_, from, count, found);
    }

  private:
    static constexpr std::size_t kTaken = 4096;

    const Batch& probing_;
    const Batch& searched_;
    Side side_;
    UnpaddedKeys<Key> keys_;
    PartFinder<Key> finder_;
    CandidateFilter filter_;
    Buffer<EntryRange> parts_;
    std::size_t start_ = 0;
    std::size_t count_ = 0;
};

inline constexpr std::size_t kSelected = CandidateFilter::kSelected;

template <class Key>
class ProbedPairs final : public RunPairs {
  public:
    ProbedPairs(const JoinSpec& spec, const Run& left, const Run& right)
        : left_probes_(left.rows.size <= right.rows.size),
          prober_(spec, left, right, left_probes_ ? Side::left : Side::right) {}

    void next(std::size_t limit, Pairs& pairs) override {
        limit += pairs.size();
        while (pairs.size() < limit) {
            if (row_ == prober_.count()) {
                row_ = 0;
                if (!prober_.take()) return;
            }
            while (row_ < prober_.count() && write_row(limit, pairs)) ++row_;
        }
    }

  private:
    // Writes the pairs of a row, from where it was left; false if there is no room for all.
    bool write_row(std::size_t limit, Pairs& pairs) {
        if (prober_.filtered()) prober_.begin_tests(row_);
        for (; part_ < prober_.width(); ++part_, done_ = 0) {
            const EntryRange part = prober_.part(row_, part_);
            while (done_ < part.size()) {
                std::size_t some = std::min<std::size_t>(part.size() - done_, limit - pairs.size());
                if (!some) return false;
                if (!prober_.filtered()) {
                    const std::size_t first = part.from + done_;
                    write(pairs, some, [=](std::size_t i) { return first + i; });
                } else {
                    some = std::min(some, kSelected);
                    const std::size_t matches = prober_.test(part.from + done_, some, found_);
                    write(pairs, matches, [&](std::size_t i) { return found_[i]; });
                }
                done_ += some;
            }
        }
        part_ = 0;
        return true;
    }

    // Writes a row's pairs, a few at a time without a branch for each: the next ones overwrite the rest.
    template <class Partner>
    void write(Pairs& pairs, std::size_t count, Partner partner) {
        pairs.reserve(count + kFew);
        std::int64_t* own = (left_probes_ ? pairs.left() : pairs.right()) + pairs.size();
        std::int64_t* partners = (left_probes_ ? pairs.right() : pairs.left()) + pairs.size();
        for (std::size_t at = 0; at < count; at += kFew) {
            fill_few(static_cast<std::int64_t>(prober_.start() + row_), own + at);
            for (std::size_t i = 0; i < kFew; ++i)
                partners[at + i] = static_cast<std::int64_t>(partner(at + i));
        }
        pairs.add(count);
    }

    bool left_probes_;
    RunProber<Key> prober_;
    // Where the next pair is: among the rows that were taken, the parts of one, and in that part.
    std::size_t row_ = 0;
    std::size_t part_ = 0;
    std::size_t done_ = 0;
    std::uint32_t found_[kSelected + kFew] = {};
};

template <class Key>
class SortedRunJoin final : public RunJoin {
  public:
    explicit SortedRunJoin(const JoinSpec& spec) : spec_(spec) {}

    void sort(const Batch& rows, SortedRows& sorted) const override {
        check(rows);
        Buffer<bool> nulls(rows.size + 1);
        std::fill_n(nulls.data(), rows.size, false);
        CandidateFilter filter(spec_);
        for (std::size_t start = 0; start < rows.size; start += kRowBlock)
            filter.read(rows, start, std::min(kRowBlock, rows.size - start), nulls.data() + start);
        SortedEntries<Key> run;
        Workers alone;
        TableSorter<Key>(spec_, alone).sort(rows, 0, rows.size, nulls.data(), run);
        sorted.order.assign(run.positions.data(), run.positions.data() + run.size);
        keys_of(sorted).assign(run.keys.data(), run.keys.data() + run.size);
    }

    std::unique_ptr<RunPairs> pairs(const Run& left, const Run& right) const override {
        check(left.rows);
        check(right.rows);
        return std::make_unique<ProbedPairs<Key>>(spec_, left, right);
    }

    void match(const Run& left, const Run& right, int side, std::uint8_t* flags) const override {
        check(left.rows);
        check(right.rows);
        const std::size_t sizes[] = {left.rows.size, right.rows.size};
        if (!sizes[0] || !sizes[1]) return;
        // A row that probes needs one partner only, so its side probes unless it is much longer.
        const bool own = sizes[side] / kLonger <= sizes[1 - side];
        RunProber<Key> prober(spec_, left, right, Side{static_cast<std::uint8_t>(own ? side : 1 - side)});
        if (own) return probe(prober, flags);
        if (prober.filtered()) return mark_tested(prober, flags);
        mark(prober, flags);
    }

  private:
    static constexpr std::size_t kLonger = 2;

    static auto& keys_of(SortedRows& sorted) {
        if constexpr (sizeof(Key) == 8) return sorted.wide;
        else return sorted.narrow;
    }

    // Sets the flags of probing rows with a partner.
    static void probe(RunProber<Key>& prober, std::uint8_t* flags) {
        while (prober.take())
            for (std::size_t row = 0; row < prober.count(); ++row)
                flags[prober.start() + row] = has_partner(prober, row);
    }

    static bool has_partner(RunProber<Key>& prober, std::size_t row) {
        if (prober.filtered()) prober.begin_tests(row);
        std::uint32_t found[kSelected];
        for (std::size_t k = 0; k < prober.width(); ++k) {
            const EntryRange part = prober.part(row, k);
            if (!prober.filtered() && part.size()) return true;
            for (std::size_t at = part.from; at < part.to; at += kSelected)
                if (prober.test(at, std::min(kSelected, part.to - at), found)) return true;
        }
        return false;
    }

    // Sets the flags of rows that a probing row finds.
    static void mark_tested(RunProber<Key>& prober, std::uint8_t* flags) {
        std::uint32_t found[kSelected];
        while (prober.take())
            for (std::size_t row = 0; row < prober.count(); ++row) {
                prober.begin_tests(row);
                for (std::size_t k = 0; k < prober.width(); ++k) {
                    const EntryRange part = prober.part(row, k);
                    for (std::size_t at = part.from; at < part.to; at += kSelected) {
                        const std::size_t count = prober.test(at, std::min(kSelected, part.to - at), found);
                        for (std::size_t i = 0; i < count; ++i) flags[found[i]] = 1;
                    }
                }
            }
    }

    // The same if all rows of a part match. What several parts share is marked once.
    static void mark(RunProber<Key>& prober, std::uint8_t* flags) {
        EntryRange marked;
        const auto found = [&](std::size_t, EntryRange part) {
            if (part.from < marked.from || part.from > marked.to) marked = {part.from, part.from};
            if (part.to <= marked.to) return;
            std::fill(flags + marked.to, flags + part.to, std::uint8_t{1});
            marked.to = part.to;
        };
        while (prober.take(found)) continue;
    }

    static void check(const Batch& rows) {
        if (rows.size > kMaxRows)
            throw BatchError(BatchError::Kind::capacity, 0, "a run of more than 2^32 - 1 rows");
    }

    JoinSpec spec_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
