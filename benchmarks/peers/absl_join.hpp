// The join that a C++ user writes with Abseil: one absl::btree_multimap of (key, position) per window, tuple
// by tuple. An arrival probes the other side's tree, enters its own, and the tuple that leaves is erased.
#pragma once

#include <absl/container/btree_map.h>

#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "structure.hpp"

namespace peers {

// Counts what a container asks for; the allocator's own share comes on top and is not known.
inline std::size_t allocated_bytes = 0;

template <class T>
struct CountingAllocator {
    using value_type = T;

    CountingAllocator() = default;
    template <class Other>
    CountingAllocator(const CountingAllocator<Other>&) {}

    T* allocate(std::size_t count) {
        T* const memory = std::allocator<T>().allocate(count);
        allocated_bytes += count * sizeof(T);
        return memory;
    }

    void deallocate(T* memory, std::size_t count) {
        allocated_bytes -= count * sizeof(T);
        std::allocator<T>().deallocate(memory, count);
    }

    friend bool operator==(CountingAllocator, CountingAllocator) { return true; }
};

class AbslJoin final : public Structure {
  public:
    explicit AbslJoin(const Workload& workload)
        : window_(workload.window), lower_(workload.lower()), upper_(workload.upper()) {
        if (workload.wide) throw std::invalid_argument("--bits 64; absl is built for keys of 32 bits");
        for (Side& side : sides_) side.keys.resize(window_);
    }

    std::uint64_t push(const Arrivals& arrivals, std::size_t from, std::size_t to, Pairs* pairs) override {
        std::uint64_t matches = 0;
        if (pairs) pairs->reserve(to - from);
        for (std::size_t i = from; i < to; ++i) {
            const bool right = arrivals.sides[i];
            const std::int32_t key = arrivals.keys[i];
            matches += right ? probe<true>(key, pairs) : probe<false>(key, pairs);
            if (arrivals.store) sides_[right].admit(key, window_);
            else ++sides_[right].next;  // a side either stores or asks
        }
        return matches;
    }

    double bytes_per_tuple() override {
        const std::size_t tuples = sides_[0].tree.size() + sides_[1].tree.size();
        const std::size_t rings = sizeof(std::int32_t) * (sides_[0].keys.size() + sides_[1].keys.size());
        return static_cast<double>(allocated_bytes + rings) / static_cast<double>(tuples);
    }

  private:
    using Tree = absl::btree_multimap<std::int32_t, std::uint32_t, std::less<std::int32_t>,
                                      CountingAllocator<std::pair<const std::int32_t, std::uint32_t>>>;

    struct Side {
        Tree tree;
        std::vector<std::int32_t> keys;  // of the window, as a ring
        std::uint32_t next = 0;          // position of the next arrival

        void admit(std::int32_t key, std::uint32_t window) {
            std::int32_t& slot = keys[next % window];
            if (next >= window) forget(slot, next - window);
            tree.emplace(key, next++);
            slot = key;
        }

        void forget(std::int32_t key, std::uint32_t position) {
            auto entry = tree.lower_bound(key);
            while (entry->second != position) ++entry;
            tree.erase(entry);
        }
    };

    template <bool right>
    std::uint64_t probe(std::int32_t key, Pairs* pairs) const {
        const Tree& tree = sides_[!right].tree;
        const std::int64_t low = key + (right ? -upper_ : lower_);
        const std::int64_t high = key + (right ? -lower_ : upper_);
        if (low > kGreatest || high < kLeast) return 0;
        std::uint64_t matches = 0;
        for (auto entry = tree.lower_bound(static_cast<std::int32_t>(std::max(low, kLeast)));
             entry != tree.end() && entry->first <= high; ++entry) {
            ++matches;
            if (!pairs) continue;
            pairs->reserve(1);
            const std::size_t at = pairs->size();
            (right ? pairs->right() : pairs->left())[at] = sides_[right].next;
            (right ? pairs->left() : pairs->right())[at] = entry->second;
            pairs->add(1);
        }
        return matches;
    }

    static constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
    static constexpr std::int64_t kGreatest = std::numeric_limits<std::int32_t>::max();

    const std::uint32_t window_;
    const std::int64_t lower_;
    const std::int64_t upper_;
    Side sides_[2];
};

}  // namespace peers
