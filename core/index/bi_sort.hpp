// BI-Sort, the buffered indexed sort of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen): a
// subwindow is one sorted array. Inserts wait in a small unsorted buffer; when it is full it is sorted and
// merged into the main array, and a sorted batch that is larger than the buffer is merged directly. A sample
// of the main array, the first key of each partition, is searched before it.
//
// The matches of a probe in the main array are one stretch of it. If the probe sees the whole subwindow, the
// stretch is named, or counted, without being read. Sorted probes advance through the array as a merge does
// (sorted_entries.hpp).
//
// With M entries of a subwindow and B of the buffer an insert costs O(M / B) moves, in batches of b O(M / b);
// a probe O(log M + B) in the newest subwindow and O(log M) in the others. 8-12 bytes a tuple, the least of
// all indexes. It suits large batches, or many matches for each probe.
#pragma once

#include "insert_buffer.hpp"
#include "sorted_entries.hpp"
#include "subwindows.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SortedPart {
  public:
    using Stretch = EntryRange;
    using Cursor = EntryRange;  // where the last interval was found

    SortedPart(std::size_t capacity, const IndexOptions& options, const SortedPart*)
        : capacity_(capacity), buffer_capacity_(buffer_for(capacity, options)) {
        const std::size_t partitions = options.partitions ? options.partitions : capacity / kScan + 1;
        stride_ = (capacity + partitions - 1) / partitions;
        main_.start(capacity);
        sample_.reserve(capacity / stride_ + 1 + kScan);
        finish();
    }

    std::size_t size() const { return main_.size + buffer_.size(); }

    void insert(Key key, std::uint32_t position) {
        buffer_.reserve(buffer_capacity_);
        buffer_.add(key, position);
        if (buffer_.size() == buffer_capacity_) flush();
    }

    void insert_sorted(const Entry<Key>* sorted, std::size_t count) {
        if (count > buffer_capacity_) {
            flush();
            return merge(sorted, count);
        }
        for (std::size_t i = 0; i < count; ++i) insert(sorted[i].key, sorted[i].value);
    }

    void seal() {
        flush();
        buffer_ = {};
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool whole, Matches& matches) const {
        const std::size_t to = interval.high == kGreatest ? main_.size : find(interval.high + 1);
        report({static_cast<std::uint32_t>(find(interval.low)), static_cast<std::uint32_t>(to)}, interval,
               visible, whole, matches);
    }

    void locate(const Interval<Key>* intervals, std::size_t count, Cursor& cursor, Stretch* found) const {
        main_.search().locate(intervals, count, cursor, found, main_.positions.data(),
                              [&](Key key) { return find(key); });
    }

    template <class Matches>
    void report(Stretch found, Interval<Key> interval, Visible visible, bool whole, Matches& matches) const {
        if (whole) matches.run({&number_, main_.positions.data(), main_.size}, found.from, found.to, visible);
        else matches.padded(main_.positions.data() + found.from, found.size(), visible);
        buffer_.probe(interval, visible, matches);
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        main_.each(visit);
        buffer_.each(visit);
    }

    void check() const {
        main_.check();
        require(size() <= capacity_, "bi-sort: no more entries than the subwindow was made for");
        require(buffer_.size() < buffer_capacity_, "bi-sort: a full buffer is merged");
        require(sampled_ == (main_.size + stride_ - 1) / stride_, "bi-sort: a sample of each partition");
        for (std::size_t i = 0; i < sampled_; ++i)
            require(sample_[i] == main_.keys[i * stride_], "bi-sort: the first key of each partition");
        for (std::size_t i = 0; i < kScan; ++i)
            require(sample_[sampled_ + i] == kGreatest, "bi-sort: the greatest key behind the sample");
    }

    std::size_t bytes() const { return main_.bytes() + sample_.bytes() + buffer_.bytes(); }

  private:
    static constexpr std::size_t kScan =
        SortedEntries<Key>::kPadding;  // keys that the last step of a search compares
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();

    // Merging costs an insert M / B, scanning costs a probe B / kBlock: the sum is least at a multiple of the
    // root of M.
    static std::size_t buffer_for(std::size_t capacity, const IndexOptions& options) {
        if (options.buffer) return std::min<std::size_t>(options.buffer, capacity);
        const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(capacity)));
        return std::min(capacity, 8 * root + 1);
    }

    void flush() {
        if (!buffer_.size()) return;
        merge(buffer_.sorted(), buffer_.size());
        buffer_.clear();
    }

    // Merges later entries into the main array, in place, from the end on.
    void merge(const Entry<Key>* sorted, std::size_t count) {
        number_.withdraw();
        Key* keys = main_.keys.data();
        std::uint32_t* positions = main_.positions.data();
        std::size_t main = main_.size, out = main + count;
        main_.size = out;
        while (main > 0 && count > 0) {
            const Entry<Key>& entry = sorted[count - 1];
            const bool of_main = keys[main - 1] > entry.key;
            --out;
            keys[out] = of_main ? keys[main - 1] : entry.key;
            positions[out] = of_main ? positions[main - 1] : entry.value;
            main -= of_main;
            count -= !of_main;
        }
        for (std::size_t i = 0; i < count; ++i) {
            keys[i] = sorted[i].key;
            positions[i] = sorted[i].value;
        }
        finish();
    }

    // Writes the sample, and the greatest key behind both arrays.
    void finish() {
        main_.finish();
        sampled_ = 0;
        for (std::size_t i = 0; i < main_.size; i += stride_) sample_[sampled_++] = main_.keys[i];
        std::fill_n(sample_.data() + sampled_, kScan, kGreatest);
    }

    // How many keys of the main array are < key: the sample gives the partition, a search of it the place.
    std::size_t find(Key key) const {
        const std::size_t partitions = SortedKeys<Key>{sample_.data(), sampled_}.count_below(key);
        if (partitions == 0) return 0;
        const std::size_t start = (partitions - 1) * stride_;
        const SortedKeys<Key> last{main_.keys.data() + start, std::min(stride_, main_.size - start)};
        return start + last.count_below(key);
    }

    std::size_t capacity_;
    std::size_t buffer_capacity_;
    std::size_t stride_;        // entries of a partition
    SortedEntries<Key> main_;   // the main array
    mutable RunNumber number_;  // of the main array
    Buffer<Key> sample_;        // the index array: the first key of each partition
    std::size_t sampled_ = 0;
    InsertBuffer<Key> buffer_;
};

template <class Key>
class BiSort : public SubwindowIndex<Key, SortedPart<Key>> {
  public:
    // A batch is a subwindow: the larger it is, the fewer subwindows there are to probe.
    static std::uint64_t largest_group(std::uint64_t live) { return live / 2; }

    explicit BiSort(const IndexOptions& options = {})
        : SubwindowIndex<Key, SortedPart<Key>>(options, options.sorted_subwindows) {}
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
