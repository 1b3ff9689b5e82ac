// An index of any kind behind the driver's interface (join/index_pair.hpp). Tests that are the same for all
// structures are compiled once and use the instances of the join.
#pragma once

#include "../structures.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// Inserts entries in the order of their positions; a large group also gets them sorted by key.
template <class Key, class Index>
void insert_sorting(Index& index, const Entry<Key>* entries, std::size_t count) {
    Buffer<Entry<Key>> by_key, scratch;
    sort_copy(entries, count, by_key, scratch);
    insert_all(index, entries, count, by_key.data());
}

template <class Key>
class AnyIndex {
  public:
    AnyIndex(IndexKind kind, const IndexOptions& options)
        : indexes_(make_index_pair<Key>(spec(kind, options))) {}

    void insert(Key key, std::uint32_t position) {
        const Entry<Key> entry{key, position};
        indexes_->insert(0, &entry, 1, nullptr);
    }
    void insert_group(const Entry<Key>* entries, std::size_t count) {
        indexes_->insert(0, entries, count, nullptr);
    }
    void insert_batch(const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) {
        indexes_->insert(0, entries, count, by_key);
    }

    template <class Matches>
    void probe(Interval<Key> interval, Visible visible, Matches& matches) const {
        Task<Key> task{interval, visible, 0, false, 0, 0};
        const std::uint32_t order = 0;
        join(&task, &order, 1, false, matches);
    }

    template <class Matches>
    void probe_group(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                     Matches& matches) const {
        join(tasks, order, count, false, matches);
    }

    template <class Matches>
    void probe_sorted(Task<Key>* tasks, const std::uint32_t* order, std::size_t count,
                      Matches& matches) const {
        join(tasks, order, count, true, matches);
    }

    void forget(std::uint32_t position) { indexes_->forget(position, position); }
    void check(std::uint32_t first, std::uint32_t next) const { indexes_->check(0, first, next); }
    std::size_t bytes() const { return indexes_->bytes(); }

  private:
    static JoinSpec spec(IndexKind kind, const IndexOptions& options) {
        JoinSpec spec;
        spec.index = kind;
        spec.options = options;
        return spec;
    }

    template <class Matches>
    void join(Task<Key>* tasks, const std::uint32_t* order, std::size_t count, bool sorted,
              Matches& matches) const {
        indexes_->join({tasks, {}, {}, {}, {order, nullptr}, {count, 0}, sorted, false}, matches);
    }

    std::unique_ptr<IndexPair<Key>> indexes_;
};

#define SLIDEJOIN_KIND_OF(kind, ...) IndexKind::kind,
inline constexpr IndexKind kAllKinds[] = {SLIDEJOIN_INDEXES(SLIDEJOIN_KIND_OF)};
#undef SLIDEJOIN_KIND_OF

}  // namespace slidejoin::SLIDEJOIN_TARGET
