// sorted-run: the whole window as one sorted array, for batches that are large against the window.
//
// A batch comes sorted and is merged with the array into another one, which leaves out expired entries: both
// are read once, in order. Sorted probes are a merge, too. Smaller inserts wait in a buffer, which is merged
// when it is full.
//
// With W entries a batch of b costs O(W / b) moves for each of its entries, a vector of them at a step:
// cheaper than any tree from about b = W / 8 on, and slow below W / 64. 25-42 bytes a tuple with 32-bit keys:
// the array, and the one that takes the result of the next merge.
#pragma once

#include "insert_buffer.hpp"
#include "lazy_expiry.hpp"
#include "sorted_entries.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SortedRun {
  public:
    // A batch that makes up half of the window.
    static std::uint64_t largest_group(std::uint64_t live) { return live / 2; }

    explicit SortedRun(const IndexOptions& = {}) {
        run_.start(0);
        run_.finish();
    }

    void insert(Key key, std::uint32_t position) {
        expiry_.start(position);
        if (buffer_.size() == buffer_.capacity()) buffer_.reserve(std::max(limit(), buffer_.size() + 1));
        buffer_.add(key, position);
        if (buffer_.size() >= limit()) flush();
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        expiry_.start(entries[0].value);
        if (count < limit()) {
            for (std::size_t i = 0; i < count; ++i) insert(entries[i].key, entries[i].value);
            return;
        }
        flush();
        merge(by_key, count);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        const std::size_t from = find(interval.low);
        const std::size_t to =
            interval.high == kGreatest ? run_.size : find(static_cast<Key>(interval.high + 1));
        report({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)}, interval, visible,
               matches);
    }

    template <class Matches>
    void probe_sorted(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                      Matches& matches) const {
        constexpr std::size_t kTogether = 128;
        EntryRange cursor, found[kTogether];
        Interval<Key> intervals[kTogether];
        for (std::size_t done = 0; done < count; done += kTogether) {
            const std::size_t here = std::min(kTogether, count - done);
            for (std::size_t i = 0; i < here; ++i) intervals[i] = tasks[order[done + i]].interval;
            run_.search().locate(intervals, here, cursor, found, run_.positions.data(),
                                 [&](Key key) { return find(key); });
            for (std::size_t i = 0; i < here; ++i) {
                if (done + i + kTogether < count) prefetch_task(tasks[order[done + i + kTogether]]);
                Task<Key>& task = tasks[order[done + i]];
                matches.begin(task);
                report(found[i], intervals[i], task.visible, matches);
                task.found_to = matches.size();
            }
        }
    }

    // Expired entries are left out by the next merge.
    void forget(std::uint32_t position) {
        expiry_.forget(position, [&] { clean(); });
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        run_.each(visit);
        buffer_.each(visit);
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        require(!expiry_.started() || !before(expiry_.first(), first), "sorted-run: knows what has expired");
        run_.check();
        require(buffer_.size() < limit() || buffer_.size() == 0, "sorted-run: a full buffer is merged");
        const std::uint32_t oldest = expiry_.oldest();
        each([&](Key, std::uint32_t position) {
            require(position - oldest < next - oldest,
                    "sorted-run: positions have arrived, and not too long ago");
        });
    }

    std::size_t bytes() const { return run_.bytes() + merged_.bytes() + buffer_.bytes(); }

  private:
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();
    static constexpr std::size_t kLeast = 64;

    // So many entries are merged at once. With B entries in the buffer merging costs an insert W / B and
    // scanning costs a probe B / kBlock; the sum is least at a multiple of the root of W.
    std::size_t limit() const {
        return kLeast + 4 * static_cast<std::size_t>(std::sqrt(static_cast<double>(run_.size)));
    }

    void flush() {
        if (!buffer_.size()) return;
        merge(buffer_.sorted(), buffer_.size());
        buffer_.clear();
    }

    void clean() {
        flush();
        merge(nullptr, 0);
    }

    // Merges the array with later entries, given in key order, and leaves out expired ones. Of equal keys
    // those of the array come first: they are older.
    void merge(const Entry<Key>* sorted, std::size_t count) {
        const Visible live = expiry_.live();
        merged_.start(run_.size + count + kBlock);
        std::size_t from = 0;
        const auto copy_up_to = [&](std::size_t to) {
            merged_.size +=
                take_visible(run_.keys.data() + from, run_.positions.data() + from, to - from, live,
                             merged_.keys.data() + merged_.size, merged_.positions.data() + merged_.size);
            from = to;
        };
        for (std::size_t i = 0; i < count; ++i) {
            copy_up_to(run_.search().advance_past(from, sorted[i].key));
            merged_.keys[merged_.size] = sorted[i].key;
            merged_.positions[merged_.size] = sorted[i].value;
            merged_.size += live.contains(sorted[i].value);
        }
        copy_up_to(run_.size);
        merged_.finish();
        std::swap(run_, merged_);
        expiry_.cleaned(expiry_.first());
    }

    std::size_t find(Key key) const { return run_.search().count_below(key); }

    template <class Matches>
    void report(EntryRange found, Interval<Key> interval, Visible visible, Matches& matches) const {
        matches.padded(run_.positions.data() + found.from, found.size(), visible);
        buffer_.probe(interval, visible, matches);
    }

    SortedEntries<Key> run_;
    SortedEntries<Key> merged_;  // takes the result of the next merge
    InsertBuffer<Key> buffer_;
    LazyExpiry expiry_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
