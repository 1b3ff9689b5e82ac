// sorted-run: the whole window as one sorted run, for batches that are large against it.
//
// A batch comes sorted and is merged with the run into another one, which leaves out what the window has
// forgotten: both are read once, in order, and nothing is ever searched for but by going on. Sorted probes
// are a merge, too. What comes in small pieces waits in a buffer, which is merged when it is full.
//
// With W entries a batch of b costs O(W / b) moves for each of its entries, a vector of them at a step:
// cheaper than any tree from about b = W / 8 on, and dear below W / 64. 25-42 bytes a
// tuple with 32-bit keys: the run, where the next merge goes, and the batch.
#pragma once

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
        begin(position);
        if (buffered_ == buffer_.capacity()) grow_buffer();
        buffer_keys_[buffered_] = key;
        buffer_positions_[buffered_] = position;
        buffer_[buffered_++] = {key, position};
        if (buffered_ >= limit()) flush();
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        begin(entries[0].value);
        if (count < limit()) {
            for (std::size_t i = 0; i < count; ++i) insert(entries[i].key, entries[i].value);
            return;
        }
        flush();
        merge(by_key, count);
    }

    void insert_batch(const Entry<Key>* entries, std::size_t count) {
        batch_.reserve(count);
        std::memcpy(batch_.data(), entries, count * sizeof(Entry<Key>));
        sort_entries(batch_.data(), count, sorting_);
        insert_batch(entries, count, batch_.data());
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
        typename SortedEntries<Key>::Stretch cursor, found[kTogether];
        Interval<Key> intervals[kTogether];
        for (std::size_t done = 0; done < count; done += kTogether) {
            const std::size_t here = std::min(kTogether, count - done);
            for (std::size_t i = 0; i < here; ++i) intervals[i] = tasks[order[done + i]].interval;
            run_.locate(intervals, here, cursor, found, [&](Key key) { return find(key); });
            for (std::size_t i = 0; i < here; ++i) {
                if (done + i + kTogether < count) {
                    const Task<Key>& next = tasks[order[done + i + kTogether]];
                    prefetch(&next);  // sorted ones are scattered
                    prefetch(&next.found_to);
                }
                Task<Key>& task = tasks[order[done + i]];
                matches.begin(task);
                report(found[i], intervals[i], task.visible, matches);
                task.found_to = matches.size();
            }
        }
    }

    // What is forgotten goes with the next merge; before its positions seem to lie ahead there is one.
    void forget(std::uint32_t position) {
        while (begun_ && before(first_ + kOldest, position)) {
            first_ += kOldest;
            clean();
        }
        first_ = position;
        if (begun_ && position - clean_from_ > kOldest) clean();
    }

    // Calls visit(key, position) for each entry.
    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < run_.size; ++i) visit(run_.keys[i], run_.positions[i]);
        for (std::size_t i = 0; i < buffered_; ++i) visit(buffer_[i].key, buffer_[i].value);
    }

    void check(std::uint32_t first, std::uint32_t next) const {
        require(!begun_ || !before(first_, first), "sorted-run: knows what is forgotten");
        run_.check();
        for (std::size_t i = 0; i < SortedEntries<Key>::kPadding; ++i)
            require(run_.keys[run_.size + i] == kGreatest, "sorted-run: the greatest key behind the run");
        require(buffered_ < limit() || buffered_ == 0, "sorted-run: a full buffer is merged");
        each([&](Key, std::uint32_t position) {
            require(position - clean_from_ < next - clean_from_,
                    "sorted-run: positions have arrived, and not too long ago");
        });
    }

    std::size_t bytes() const {
        return run_.bytes() + merged_.bytes() + buffer_.bytes() + buffer_keys_.bytes() +
               buffer_positions_.bytes() + batch_.bytes() + sorting_.bytes();
    }

  private:
    static constexpr Key kGreatest = std::numeric_limits<Key>::max();
    static constexpr std::uint32_t kOldest = std::uint32_t{1} << 29;
    static constexpr std::size_t kLeast = 64;

    // Entries from which on they are merged at once: merging costs an insert W / B, scanning a probe B /
    // kBlock, which are least together at a multiple of the root of W.
    std::size_t limit() const {
        return kLeast + 4 * static_cast<std::size_t>(std::sqrt(static_cast<double>(run_.size)));
    }

    void begin(std::uint32_t position) {
        if (begun_) return;
        begun_ = true;
        first_ = clean_from_ = position;
    }

    void grow_buffer() {
        const std::size_t more = std::max(limit(), buffered_ + 1);
        buffer_keys_.reserve(more, buffered_);
        buffer_positions_.reserve(more, buffered_);
        buffer_.reserve(more, buffered_);
    }

    void flush() {
        if (!buffered_) return;
        sort_entries(buffer_.data(), buffered_, sorting_);
        merge(buffer_.data(), buffered_);
        buffered_ = 0;
    }

    void clean() {
        flush();
        merge(nullptr, 0);
    }

    // Merges the run with later entries, by their keys, and leaves out what is forgotten. Of equal keys those
    // of the run come first: they are older.
    void merge(const Entry<Key>* sorted, std::size_t count) {
        constexpr std::uint32_t kHalf = std::uint32_t{1} << 31;  // of all positions: the later ones
        const Visible living{first_, kHalf};
        merged_.start(run_.size + count + kBlock);
        std::size_t from = 0;
        const auto copy_up_to = [&](std::size_t to) {
            merged_.size +=
                take_visible(run_.keys.data() + from, run_.positions.data() + from, to - from, living,
                             merged_.keys.data() + merged_.size, merged_.positions.data() + merged_.size);
            from = to;
        };
        for (std::size_t i = 0; i < count; ++i) {
            const Key key = sorted[i].key;
            copy_up_to(key == kGreatest ? run_.size : run_.advance(from, static_cast<Key>(key + 1)));
            merged_.keys[merged_.size] = key;
            merged_.positions[merged_.size] = sorted[i].value;
            merged_.size += living.contains(sorted[i].value);
        }
        copy_up_to(run_.size);
        merged_.finish();
        std::swap(run_, merged_);
        clean_from_ = first_;
    }

    std::size_t find(Key key) const { return SortedEntries<Key>::count_of(run_.keys.data(), run_.size, key); }

    template <class Matches>
    void report(typename SortedEntries<Key>::Stretch found, Interval<Key> interval, Visible visible,
                Matches& matches) const {
        matches.padded(run_.positions.data() + found.from, found.to - found.from, visible);
        if (buffered_)
            matches.entries(buffer_keys_.data(), buffer_positions_.data(), buffered_, interval, visible);
    }

    SortedEntries<Key> run_;
    SortedEntries<Key> merged_;  // where the next merge goes
    Buffer<Entry<Key>> buffer_;
    Buffer<Key> buffer_keys_;  // the same, as probes read them
    Buffer<std::uint32_t> buffer_positions_;
    std::size_t buffered_ = 0;
    bool begun_ = false;
    std::uint32_t first_ = 0;       // positions before are forgotten
    std::uint32_t clean_from_ = 0;  // positions before are no longer kept
    Buffer<Entry<Key>> batch_;
    Buffer<Entry<Key>> sorting_;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
