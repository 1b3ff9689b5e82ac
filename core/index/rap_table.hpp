// RaP-Table: subwindows that are range partitioned, with the splitters learnt from the subwindow before. From
// "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen).
//
// Tuples of a partition stand unsorted in a chain of an LLAT. A partition's number of tuples, its least and
// its greatest key are kept; from these three the next subwindow gets splitters that would have balanced this
// one. Insert: a search of the splitters, O(log P), and an append. Probe: the partitions from that of the
// interval's lower end to that of its upper end, of which only the outer ones need a test of keys. Keys whose
// distribution changes slowly give even partitions; keys that rise all fall into the last one (wib_tree.hpp
// knows better).
#pragma once

#include "llat.hpp"
#include "splitters.hpp"
#include "subwindows.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class RapSubwindow {
  public:
    RapSubwindow(std::size_t capacity, const IndexOptions& options, const RapSubwindow* before)
        : splitters_(learn(Table::partitions_for(capacity, options.partitions, kShare), before)),
          table_(splitters_.partitions(), Table::room_for(capacity, splitters_.partitions(), options.slack)) {
        for (std::uint32_t i = 0; i < splitters_.partitions(); ++i) table_.begin();
    }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return splitters_.bytes() + table_.bytes(); }

    void insert(Key key, std::uint32_t position) {
        table_.insert(splitters_.find(key), key, position);
        ++size_;
    }

    // Each search goes on from the partition before; what a few tuples need is fetched together.
    void insert_sorted(const Entry<Key>* entries, std::size_t count) {
        std::uint32_t partitions[kGroup];
        std::uint32_t last = 0;
        for (std::size_t done = 0; done < count; done += kGroup) {
            const std::size_t some = std::min(kGroup, count - done);
            for (std::size_t i = 0; i < some; ++i) {
                partitions[i] = last = splitters_.find(entries[done + i].key, last);
                table_.prefetch_chain(last);
            }
            for (std::size_t i = 0; i < some; ++i) table_.prefetch_slot(partitions[i]);
            for (std::size_t i = 0; i < some; ++i)
                table_.insert(partitions[i], entries[done + i].key, entries[done + i].value);
        }
        size_ += count;
    }

    void seal() {}

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, bool, Matches& matches) const {
        scan(splitters_.find(interval.low), interval, visible, matches);
    }

    // Where a probe begins: its first partition.
    struct Stretch {
        std::uint32_t partition = 0;
    };
    using Cursor = Stretch;

    // Many probes whose lower ends ascend, in two steps: all partitions are found, each from the one before,
    // and fetched; then they are scanned.
    void locate(const Interval<Key>* intervals, std::size_t count, Cursor& cursor, Stretch* found) const {
        for (std::size_t i = 0; i < count; ++i) {
            found[i] = cursor = {splitters_.find(intervals[i].low, cursor.partition)};
            table_.prefetch_chain(cursor.partition);
        }
        for (std::size_t i = 0; i < count; ++i) table_.prefetch_tuples(found[i].partition);
    }

    template <class Matches>
    void report(Stretch found, Interval<Key> interval, Visible visible, bool, Matches& matches) const {
        scan(found.partition, interval, visible, matches);
    }

    template <class Visit>
    void each(Visit visit) const {
        for (std::uint32_t i = 0; i < splitters_.partitions(); ++i) table_.each(i, visit);
    }

    const Splitters<Key>& splitters() const { return splitters_; }
    const Llat<Key>& table() const { return table_; }

    void check() const {
        splitters_.check();
        std::size_t tuples = 0, blocks = 0;
        for (std::uint32_t i = 0; i < splitters_.partitions(); ++i) {
            blocks += table_.check(i, splitters_.range(i));
            tuples += table_.size(i);
        }
        require(tuples == size_, "rap-table: as many tuples as it counts");
        require(blocks == table_.used_blocks(), "rap-table: every block belongs to a partition");
    }

  private:
    using Table = Llat<Key>;
    static constexpr std::size_t kShare = 32;  // tuples of a partition, unless told

    static Splitters<Key> learn(std::uint32_t partitions, const RapSubwindow* before) {
        if (!before || before->size_ == 0) return Splitters<Key>(partitions);
        return Splitters<Key>(partitions, before->size_, [&](std::uint32_t i) {
            const auto& first = before->table_.block(i);
            return Histogram<Key>{before->table_.size(i), first.least, first.greatest};
        });
    }

    template <class Matches>
    void scan(std::uint32_t first, Interval<Key> interval, Visible visible, Matches& matches) const {
        for (std::uint32_t i = first;; ++i) {
            table_.probe(i, interval, visible, matches);
            if (splitters_.last(i) >= interval.high) return;
        }
    }

    Splitters<Key> splitters_;
    Table table_;
    std::size_t size_ = 0;
};

template <class Key>
class RapTable : public SubwindowIndex<Key, RapSubwindow<Key>> {
  public:
    explicit RapTable(const IndexOptions& options = {})
        : SubwindowIndex<Key, RapSubwindow<Key>>(options, options.subwindows) {}
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
