// Sorts one side of a table join: its keys in ascending order and the row of each, equal keys by row.
//
// Keys are first distributed to buckets by their leading bits, then each bucket is sorted in cache by the
// radix sort of sort.hpp. A key and its row are one word where their bits fit into 64, which they do for all
// 32-bit keys. Workers distribute slices of rows and sort buckets of their own; a bucket that holds the share
// of several, of keys that lie close together, they sort together. The result does not depend on their
// number. About 10 ns a row for 32-bit keys.
#pragma once

#include "../index/sorted_entries.hpp"
#include "index_keys.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

inline constexpr std::size_t kRowBlock = 2048;  // rows that are read together

// A key and its row are sorted as one word ...
struct PackedItems {
    using Item = std::uint64_t;
    unsigned row_bits;

    Item item(std::uint64_t key, std::uint32_t row) const { return key << row_bits | row; }
    std::uint64_t key(Item item) const { return item >> row_bits; }
    std::uint32_t row(Item item) const {
        return static_cast<std::uint32_t>(item & ((std::uint64_t{1} << row_bits) - 1));
    }
};

// ... or side by side.
struct WideItems {
    using Item = Entry<std::uint64_t>;

    Item item(std::uint64_t key, std::uint32_t row) const { return {key, row}; }
    std::uint64_t key(const Item& item) const { return item.key; }
    std::uint32_t row(const Item& item) const { return item.value; }
};

template <class Key>
class TableSorter {
  public:
    // A pass is worth several workers from `share` rows for each.
    TableSorter(const JoinSpec& spec, Workers& pool, std::size_t workers = 1, std::size_t share = 1)
        : pool_(pool), workers_(workers), share_(share), limits_(workers) {
        for (std::size_t worker = 0; worker < workers; ++worker)
            indexed_.push_back(make_index_keys<Key>(spec));
    }

    // Sorts rows [start, start + count) into `run`, numbered from `start` on, without those that have no key.
    // `nulls` may be set already where a row has no partner for other reasons.
    void sort(const Batch& batch, std::size_t start, std::size_t count, bool* nulls,
              SortedEntries<Key>& run) {
        nulls_ = nulls;
        size_ = count;
        run.start(count);
        keys_ = run.keys.data();
        pool_.run(workers_, [&](std::size_t worker) { read(batch, start, worker); });
        least_ = std::numeric_limits<Key>::max();
        Key most = 0;
        for (const Limits& limits : limits_) {
            least_ = std::min(least_, limits.least);
            most = std::max(most, limits.most);
            run.size += limits.kept;
        }
        if (run.size) {
            const auto key_bits = static_cast<unsigned>(std::bit_width(std::uint64_t{most} - least_));
            const auto row_bits = static_cast<unsigned>(std::bit_width(size_));
            if (key_bits + row_bits <= 64) sort(PackedItems{row_bits}, key_bits, run);
            else sort(WideItems{}, key_bits, run);
        }
        run.finish();
    }

  private:
    static constexpr unsigned kBucketBits = 10, kDigitBits = 11;  // for many items
    struct alignas(kCacheLine) Limits {
        Key least;
        Key most;
        std::size_t kept;
    };

    void read(const Batch& batch, std::size_t first, std::size_t worker) {
        Limits limits{std::numeric_limits<Key>::max(), 0, 0};
        const Slice slice(size_, worker, workers_);
        for (std::size_t start = slice.from; start < slice.to; start += kRowBlock) {
            const std::size_t count = std::min(kRowBlock, slice.to - start);
            indexed_[worker]->read(batch, first + start, count, keys_ + start, nulls_ + start);
            for (std::size_t row = start; row < start + count; ++row) {
                const bool null = nulls_[row];
                limits.least = std::min(limits.least, null ? limits.least : keys_[row]);
                limits.most = std::max(limits.most, null ? limits.most : keys_[row]);
                limits.kept += !null;
            }
        }
        limits_[worker] = limits;
    }

    template <class Items>
    void sort(const Items& items, unsigned key_bits, SortedEntries<Key>& run) {
        using Item = typename Items::Item;
        // Buckets of some thousand items fit into a core's cache, the lines at their ends into its first
        // level.
        const auto size_bits = static_cast<unsigned>(std::bit_width(run.size));
        const unsigned bucket_bits = std::min({key_bits, size_bits > 12 ? size_bits - 12 : 0, kBucketBits});
        const unsigned shift = key_bits - bucket_bits;
        const std::size_t buckets = std::size_t{1} << bucket_bits;
        const auto bucket_of = [&](std::size_t row) -> std::size_t {
            return bucket_bits ? (std::uint64_t{keys_[row]} - least_) >> shift : 0;  // never by 64
        };

        places_.assign(workers_ * buckets, 0);
        storage_.reserve(run.size * sizeof(Item));
        pool_.run(workers_, [&](std::size_t worker) {
            touch(storage_, worker);
            touch(run.positions, worker);
            std::size_t* counts = places_.data() + worker * buckets;
            const Slice slice(size_, worker, workers_);
            for (std::size_t row = slice.from; row < slice.to; ++row)
                if (!nulls_[row]) ++counts[bucket_of(row)];
        });
        ends_.assign(1, 0);
        std::size_t place = 0;
        for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
            for (std::size_t worker = 0; worker < workers_; ++worker)
                place += std::exchange(places_[worker * buckets + bucket], place);
            ends_.push_back(place);
        }

        Item* const placed = reinterpret_cast<Item*>(storage_.data());
        pool_.run(workers_, [&](std::size_t worker) {
            std::size_t* to = places_.data() + worker * buckets;
            const Slice slice(size_, worker, workers_);
            for (std::size_t row = slice.from; row < slice.to; ++row)
                if (!nulls_[row])
                    placed[to[bucket_of(row)]++] =
                        items.item(std::uint64_t{keys_[row]} - least_, static_cast<std::uint32_t>(row));
        });

        const auto low_key = [&](const Item& item) { return static_cast<std::uint32_t>(items.key(item)); };
        const auto wide_key = [&](const Item& item) { return items.key(item); };
        const auto write = [&](std::size_t from, std::size_t to) {
            for (std::size_t i = from; i < to; ++i) {
                run.keys[i] = static_cast<Key>(items.key(placed[i]) + least_);
                run.positions[i] = items.row(placed[i]);
            }
        };
        const auto is_large = [&](std::size_t count) {
            return workers_ > 1 && count > workers_ * share_ && count > run.size / (2 * workers_);
        };
        for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
            const std::size_t from = ends_[bucket], count = ends_[bucket + 1] - from;
            if (!is_large(count)) continue;
            sort_together(placed + from, count, shift, wide_key);
            pool_.run(workers_, [&](std::size_t worker) {
                const Slice slice(count, worker, workers_);
                write(from + slice.from, from + slice.to);
            });
        }
        SharedParts parts(buckets, buckets);
        pool_.run(workers_, [&](std::size_t) {
            Buffer<Item> scratch;
            parts.each([&](std::size_t bucket, Slice) {
                const std::size_t from = ends_[bucket], count = ends_[bucket + 1] - from;
                if (is_large(count)) return;
                if (shift <= 32) radix_sort<kDigitBits>(placed + from, count, scratch, low_key);
                else radix_sort<kDigitBits>(placed + from, count, scratch, wide_key);
                write(from, from + count);
            });
        });
    }

    // The radix sort of sort.hpp by the lowest bits of keys, each pass by all workers.
    template <class Item, class KeyOf>
    void sort_together(Item* data, std::size_t count, unsigned bits, KeyOf key_of) {
        constexpr std::size_t kValues = 256;
        Buffer<Item> scratch(count);
        Item* from = data;
        Item* to = scratch.data();
        for (unsigned shift = 0; shift < bits; shift += 8) {
            const auto digit = [&](std::size_t i) { return key_of(from[i]) >> shift & (kValues - 1); };
            std::vector<std::size_t> places(workers_ * kValues);
            pool_.run(workers_, [&](std::size_t worker) {
                const Slice slice(count, worker, workers_);
                for (std::size_t i = slice.from; i < slice.to; ++i) ++places[worker * kValues + digit(i)];
            });
            std::size_t place = 0, most = 0;
            for (std::size_t value = 0; value < kValues; ++value) {
                const std::size_t before = place;
                for (std::size_t worker = 0; worker < workers_; ++worker)
                    place += std::exchange(places[worker * kValues + value], place);
                most = std::max(most, place - before);
            }
            if (most == count) continue;  // all digits agree
            pool_.run(workers_, [&](std::size_t worker) {
                const Slice slice(count, worker, workers_);
                for (std::size_t i = slice.from; i < slice.to; ++i)
                    to[places[worker * kValues + digit(i)]++] = from[i];
            });
            std::swap(from, to);
        }
        if (from == data) return;
        pool_.run(workers_, [&](std::size_t worker) {
            const Slice slice(count, worker, workers_);
            std::copy(from + slice.from, from + slice.to, data + slice.from);
        });
    }

    // Clears memory that is written to in no order, each part by one worker.
    template <class T>
    void touch(Buffer<T>& buffer, std::size_t worker) const {
        const Slice pages(buffer.bytes() / kHugePage, worker, workers_);
        for (std::size_t page = pages.from; page < pages.to; ++page)
            buffer[page * kHugePage / sizeof(T)] = T{};
    }

    Workers& pool_;
    std::size_t workers_;
    std::size_t share_;
    std::vector<Limits> limits_;
    std::vector<std::unique_ptr<IndexKeys<Key>>> indexed_;
    std::vector<std::size_t> places_, ends_;
    Buffer<std::byte> storage_;  // of the items
    // The current sort.
    bool* nulls_ = nullptr;
    std::size_t size_ = 0;
    Key* keys_ = nullptr;  // by row, in the array that takes the sorted keys
    Key least_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
