// Round-robin partitioning, as low-latency handshake join, SplitJoin and ScaleJoin do it: every worker sees
// every tuple, and exactly one stores it, by its position modulo the number of workers. docs/concurrency.md
// says why the pairs are those of one thread. Cost: an arrival probes each local index, so that only what
// grows with the window, and the inserts, are shared among the workers.
#pragma once

#include "local_indexes.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class RoundRobin final : public LocalIndexes<Key> {
  public:
    using LocalIndexes<Key>::LocalIndexes;

  private:
    void deal(int side, const Entry<Key>* entries, std::size_t entry_count, std::size_t count, std::uint32_t,
              std::vector<CommandQueue>& queues) override {
        for (std::size_t i = 0; i < count; ++i)
            queues[i].push_back({Command::Kind::insert, side, entries[0].value,
                                 entries[entry_count - 1].value, static_cast<std::uint32_t>(count),
                                 static_cast<std::uint32_t>(i)});
    }
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
