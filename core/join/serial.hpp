// The serial join. Arrivals go through in groups: admit (positions, visible ranges, probe intervals), insert
// all, probe all with the visible range as filter, test what is not indexed, write results, forget. A group
// of one is the join tuple by tuple; up to kGroup the index overlaps the memory accesses of the group; beyond
// it is the batch form.
#pragma once

#include "../index/concept.hpp"
#include "batch.hpp"
#include "chooser.hpp"
#include "filter.hpp"
#include "index_keys.hpp"
#include "index_pair.hpp"
#include "result.hpp"
#include "validate.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SerialJoin final : public Engine {
  public:
    using Make = std::unique_ptr<IndexPair<Key>> (*)(const JoinSpec& spec);

    SerialJoin(const JoinSpec& spec, Make make)
        : spec_(spec),
          make_(make),
          indexed_(make_index_keys<Key>(spec)),
          filters_(spec),
          window_(spec),
          indexes_(make_of(spec.automatic ? Chooser::kFirst : spec.index)),
          ranges_(spec.self_join),
          writer_(spec.sorted),
          plain_(spec.window.kind == WindowKind::rows && !spec.self_join && !spec.finals[0] &&
                 !spec.finals[1] && filters_.empty() && indexed_->width() == 1) {}

    std::uint64_t push(const Batch& batch, Pairs* pairs) override {
        if (!pairs) require_no_finals();
        // What is tested or may be found twice after probing must be listed even to be counted.
        const bool listed = pairs || !filters_.empty() || spec_.self_join;
        if (pairs) pairs->reserve(expected(batch.size));
        return join(batch, listed, [&](std::size_t, std::size_t count) {
            return listed ? find_listed(count, pairs) : find_counted(count);
        });
    }

    std::uint64_t ranges(const Batch& batch, RangeResult& result) override {
        require_no_finals();
        const std::uint64_t found = join(batch, !filters_.empty(), [&](std::size_t start, std::size_t count) {
            return find_ranges(start, count, result);
        });
        ranges_.tell_gone(result);
        return found;
    }

    const std::vector<std::uint32_t>& late() const override { return late_; }

    const std::vector<std::uint64_t>& renumbered(int side) const override { return renumbered_[side]; }

    const Finals& finals() const override { return finals_; }

    void advance(std::int64_t to, int side) override {
        move_time([&] {
            for (const Side each : kSides)  // a side that wakes holds the other one back
                if (names(side, each)) window_.wake(each);
            for (const Side each : kSides)
                if (names(side, each)) window_.promise(to, each);
        });
    }

    void idle(int side) override {
        move_time([&] {
            for (const Side each : kSides)
                if (names(side, each)) window_.rest(each);
        });
    }

    JoinState state() const override {
        JoinState state = window_.state();
        state.matches = matches_;
        return state;
    }

    std::vector<std::uint8_t> unseen(int side, std::uint64_t from, std::uint64_t to) const override {
        return window_.unseen(side_of(side), from, to);
    }

    void load(const JoinState& state, const Stored (&sides)[2]) override {
        broken_ = true;
        matches_ = state.matches;
        window_.load(state);
        for (const Side side : kSides) {
            const int i = static_cast<int>(side);
            const Stored& stored = sides[i];
            filters_.load(side, state.sides[i].first);
            event_first_[i] = state.sides[i].first;
            const std::size_t step = load_step(*indexes_, stored.tuples.size);
            for (std::size_t start = 0; start < stored.tuples.size; start += step)
                store(side, stored, start, std::min(step, stored.tuples.size - start));
        }
        broken_ = false;
    }

    Stats stats() override {
        Stats stats{};
        for (const Side side : kSides) {
            const int i = static_cast<int>(side);
            stats.rows[i] = window_.admitted(side);
            stats.next[i] = window_.next(side);
            stats.nulls[i] = window_.nulls(side);
            stats.late[i] = window_.late(side);
            stats.stored[i] = window_.stored(side);
            stats.first[i] = window_.first(side);
            stats.memory_bytes +=
                event_keys_[i].bytes() + entries_[i].bytes() + by_key_[i].bytes() + order_[i].bytes();
        }
        stats.memory_bytes += indexes_->bytes();
        stats.matches = matches_;
        // Before the first timestamp there is, a watermark says nothing.
        using Limits = std::numeric_limits<std::int64_t>;
        const __int128 watermark = window_.watermark().at();
        stats.has_watermark = watermark >= Limits::min();
        if (stats.has_watermark)
            stats.watermark = static_cast<std::int64_t>(std::min<__int128>(watermark, Limits::max()));
        stats.latest = window_.latest();
        stats.memory_bytes += sizeof *this + window_.bytes() + filters_.bytes() + list_.bytes() +
                              ends_.bytes() + keys_.bytes() + nulls_.bytes() + intervals_.bytes() +
                              places_.bytes() + tasks_.bytes() + sorter_.bytes() + writer_.bytes() +
                              ranges_.bytes();
        return stats;
    }

    IndexInUse index() const override {
        if (!spec_.automatic) return {spec_.index, "it was asked for", 0};
        return {chooser_.kind(), chooser_.why(), chooser_.changes()};
    }

    void check() override {
        if (broken_) throw BrokenJoin();
        for (const Side side : kSides)
            indexes_->check(static_cast<int>(side), low_bits(window_.first(side)),
                            low_bits(window_.next(side)));
    }

  private:
    static constexpr Side kSides[] = {Side::left, Side::right};
    static constexpr std::size_t kLoad = 1 << 18;      // tuples that are loaded together, at least
    static constexpr std::uint64_t kBatch = 4096;      // a group that is small against any large window
    static constexpr std::size_t kRead = 1024;         // arrivals that are read together
    static constexpr std::size_t kExpected = 1 << 22;  // pairs at most that room is made for unseen

    static Side side_of(int side) { return Side{static_cast<std::uint8_t>(side)}; }

    void require_no_finals() const {
        if (spec_.finals[0] || spec_.finals[1])
            throw std::logic_error("final tuples stand among pairs, which are not asked for");
    }

    // Takes a batch through the join, a group at a time; find(start, count) looks for the partners of each,
    // which are listed or only counted.
    template <class Find>
    std::uint64_t join(const Batch& batch, bool listed, Find find) {
        if (broken_) throw BrokenJoin();
        validate(batch, spec_, window_);
        broken_ = true;  // until the batch is through: memory may run out in the middle of it
        late_.clear();
        finals_.clear();
        read_from_ = read_to_ = 0;
        std::uint64_t found = 0;
        for (std::size_t start = 0; start < batch.size;) {
            const std::size_t count = std::min(group_size(), batch.size - start);
            admit(batch, start, count);
            found += find(start, count);
            forget();
            start += count;
        }
        window_.let_pass();
        renumber();
        matches_ += found;
        broken_ = false;
        last_ = {batch.size, found};
        const std::uint64_t together = std::min<std::uint64_t>({batch.size, spec_.group, live() / 2});
        if (spec_.automatic && chooser_.note(batch.size, together, found, listed, live())) change_index();
        return found;
    }

    // Pairs that so many arrivals may have, by what the push before had: room that is made at once is not
    // copied.
    std::size_t expected(std::size_t arrivals) const {
        if (!last_.arrivals) return 0;
        const double rate = static_cast<double>(last_.found) / static_cast<double>(last_.arrivals);
        const double most = 1.125 * rate * static_cast<double>(std::min(arrivals, 4 * last_.arrivals));
        return static_cast<std::size_t>(std::min<double>(most, kExpected)) + kFew;  // as its writer wants
    }

    std::unique_ptr<IndexPair<Key>> make_of(IndexKind kind) const {
        JoinSpec spec = spec_;
        spec.index = kind;
        return make_(spec);
    }

    // Moves the windows into an index of the kind that the chooser wants; where there is no memory for both,
    // the old one stays.
    void change_index() {
        try {
            std::unique_ptr<IndexPair<Key>> indexes = make_of(chooser_.wanted());
            for (const Side side : kSides) {
                const int i = static_cast<int>(side);
                std::vector<Entry<Key>> entries;
                entries.reserve(window_.next(side) - window_.first(side));
                indexes_->list(i, entries);
                const std::uint32_t first = low_bits(window_.first(side));
                std::erase_if(entries, [&](const Entry<Key>& entry) { return before(entry.value, first); });
                Buffer<Entry<Key>> sorting;
                radix_sort(entries.data(), entries.size(), sorting,
                           [&](const Entry<Key>& entry) { return entry.value - first; });
                const std::size_t step = load_step(*indexes, entries.size());
                for (std::size_t start = 0; start < entries.size(); start += step)
                    indexes->insert(i, entries.data() + start, std::min(step, entries.size() - start));
            }
            indexes->forget(low_bits(window_.first(Side::left)), low_bits(window_.first(Side::right)));
            indexes_ = std::move(indexes);
            chooser_.changed();
        } catch (const std::bad_alloc&) {
            // It is asked again after the next window.
        }
    }

    // How many of so many tuples are loaded together.
    static std::size_t load_step(const IndexPair<Key>& indexes, std::size_t count) {
        return std::max<std::size_t>(kLoad, indexes.largest_group(count));
    }

    // Whether 0, 1 or 2 for both means this side; a self-join has only one.
    bool names(int side, Side each) const {
        if (spec_.self_join) return each == Side::left;
        return side == 2 || side_of(side) == each;
    }

    template <class Move>
    void move_time(Move move) {
        if (broken_) throw BrokenJoin();
        broken_ = true;
        finals_.clear();
        move();
        window_.forget_dead();
        note_finals(0, [](std::size_t) { return std::uint64_t{0}; });
        forget();
        renumber();
        broken_ = false;
    }

    // Notes what became final with arrival `arrival`, or with a call of its own.
    void end_finals(std::uint32_t arrival) {
        std::vector<Window::Final>& finals = window_.finals();
        if (finals.size() == final_arrivals_.size()) return;
        std::sort(finals.begin() + static_cast<std::ptrdiff_t>(final_arrivals_.size()), finals.end());
        final_arrivals_.resize(finals.size(), arrival);
    }

    // Hands over what became final; after(arrival) counts the pairs before it.
    template <class After>
    void note_finals(std::uint32_t arrival, After after) {
        end_finals(arrival);
        std::vector<Window::Final>& finals = window_.finals();
        for (std::size_t i = 0; i < finals.size(); ++i) {
            finals_.after.push_back(after(final_arrivals_[i]));
            finals_.position.push_back(finals[i].position);
            finals_.side.push_back(static_cast<std::uint8_t>(finals[i].side));
        }
        finals.clear();
        final_arrivals_.clear();
    }

    static std::uint32_t low_bits(std::uint64_t position) { return static_cast<std::uint32_t>(position); }

    // Masked, since the caller's array may change after it was validated.
    static Side side_of(const Batch& batch, std::size_t row) {
        return Side{static_cast<std::uint8_t>(batch.sides[row] & 1)};
    }

    // A group larger than the window would make every probe wade through tuples that it must not see.
    std::size_t group_size() {
        if (spec_.group <= kGroup) return spec_.group;
        const std::uint64_t most = spec_.group;
        return std::max(std::clamp<std::uint64_t>(live(), kGroup, std::min(most, kBatch)),
                        std::min(indexes_->largest_group(live()), most));
    }

    // Positions that both windows hold.
    std::uint64_t live() const {
        return window_.next(Side::left) - window_.first(Side::left) + window_.next(Side::right) -
               window_.first(Side::right);
    }

    std::uint64_t find_counted(std::size_t count) {
        counter_.clear();
        indexes_->join(group(count), counter_);
        return counter_.size();
    }

    std::uint64_t find_listed(std::size_t count, Pairs* pairs) {
        list_.clear();
        if (filters_.empty()) {
            indexes_->join(group(count), list_);
        } else {
            FilteredList filtered(filters_, list_);
            indexes_->join(group(count), filtered);
        }
        if (window_.finals().empty())
            return writer_.write(tasks_.data(), task_count_, places_.data(), list_, pairs);
        ends_.reserve(count);
        const std::uint64_t found =
            writer_.write(tasks_.data(), task_count_, places_.data(), list_, pairs, ends_.data(), count);
        note_finals(0, [&](std::size_t arrival) { return ends_[arrival]; });
        return found;
    }

    std::uint64_t find_ranges(std::size_t start, std::size_t count, RangeResult& result) {
        ranges_.start(tasks_.data(), task_count_, places_.data(), count, result);
        if (filters_.empty()) {
            indexes_->join(group(count), ranges_);
        } else {
            FilteredList filtered(filters_, ranges_.list());
            indexes_->join(group(count), filtered);
        }
        ends_.reserve(count);
        const std::uint64_t listed = writer_.write(tasks_.data(), task_count_, places_.data(), ranges_.list(),
                                                   &result.pairs, ends_.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
            result.arrival.resize(ends_[i], static_cast<std::int64_t>(start + i));
            result.positions.push_back(static_cast<std::int64_t>(places_[i].position));
        }
        return listed + ranges_.write(start);
    }

    void forget() {
        indexes_->forget(low_bits(window_.first(Side::left)), low_bits(window_.first(Side::right)));
        if (filters_.empty() && spec_.window.kind != WindowKind::event) return;
        for (const Side side : kSides) {
            const std::uint64_t first = window_.first(side);
            if (!filters_.empty()) filters_.forget(side, first);
            if (spec_.window.kind == WindowKind::event) {
                event_keys_[static_cast<int>(side)].drop(first - event_first_[static_cast<int>(side)]);
                event_first_[static_cast<int>(side)] = first;
            }
        }
    }

    // Gives the living new positions where the dead hold too many (event windows), and notes the old ones.
    void renumber() {
        for (const Side side : kSides) {
            const int i = static_cast<int>(side);
            renumbered_[i].clear();
            if (!window_.wasteful(side)) continue;
            const std::uint64_t first = window_.first(side);
            renumbered_[i] = window_.renumber(side);
            std::uint64_t position = window_.first(side);
            entries_[i].reserve(renumbered_[i].size());
            std::size_t count = 0;
            for (const std::uint64_t old : renumbered_[i]) {
                const Key key = event_keys_[i][old - first];
                event_keys_[i].push(key);
                filters_.copy(side, old);
                entries_[i][count++] = {key, low_bits(position++)};
            }
            indexes_->insert(i, entries_[i].data(), count);
        }
        forget();
    }

    // What the arrivals of the group insert and look for; a large group in the order of keys.
    Group<Key> group(std::size_t count) {
        const bool single =
            plain_ && count == 1 && task_count_ == 1 && entry_count_[0] + entry_count_[1] == 1;
        Group<Key> group{tasks_.data(), {}, {}, {}, {}, {}, count > kGroup, single};
        for (int own = 0; own < 2; ++own) {
            const int probed = spec_.self_join ? own : 1 - own;
            // The order of keys is that of intervals where a band is indexed as it is.
            if (group.sorted && entry_count_[own] == order_count_[probed] && indexed_->ascending()) {
                sorter_.sort_both(entries_[own].data(), entry_count_[own], by_key_[own],
                                  order_[probed].data());
                group.by_key[own] = by_key_[own].data();
            } else if (group.sorted) {
                sorter_.sort_tasks(tasks_.data(), order_[probed].data(), order_count_[probed]);
            }
        }
        for (int i = 0; i < 2; ++i) {
            group.entries[i] = entries_[i].data();
            group.entry_count[i] = entry_count_[i];
            group.order[i] = order_[i].data();
            group.order_count[i] = order_count_[i];
        }
        return group;
    }

    // Gives every arrival its place and notes what is to be inserted and what to be looked for.
    void admit(const Batch& batch, std::size_t start, std::size_t count) {
        reserve(count);
        if (start < read_from_ || start + count > read_to_) read_ahead(batch, start, count);
        const std::size_t at = start - read_from_;
        if (plain_ && batch.store && !any_null_) return admit_plain(batch.sides + start, at, count);
        const std::size_t width = indexed_->width();
        const bool event = spec_.window.kind == WindowKind::event;
        const bool placed = batch.store || spec_.window.kind == WindowKind::rows;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::size_t row = start + i;
            const Side side = spec_.self_join ? Side::left : side_of(batch, row);
            bool timed = false;
            std::int64_t time = 0;
            if (spec_.window.kind != WindowKind::rows) {
                timed = !batch.null_times || !batch.null_times[row];
                time = batch.times[row];
                if (event && timed && window_.refuse(side, time)) {
                    late_.push_back(static_cast<std::uint32_t>(row));
                    places_[i] = {};
                    continue;
                }
            }
            const bool null = nulls_[at + i] || (spec_.window.kind != WindowKind::rows && !timed);
            const Place place = window_.admit(side, time, {timed, null, batch.store});
            places_[i] = place;
            if (!window_.finals().empty()) end_finals(i);
            const int own = static_cast<int>(side);
            if (placed && !filters_.empty()) filters_.keep(side, i);
            if (placed && event) event_keys_[own].push(keys_[at + i]);
            if (null) continue;
            if (batch.store) entries_[own][entry_count_[own]++] = {keys_[at + i], low_bits(place.position)};
            if (place.first == place.last) continue;
            const Interval<Key>* asked = intervals_.data() + (at + i) * width;
            add_tasks(asked, width, place, i, spec_.self_join || side == Side::right);
            const std::size_t second = width * (read_to_ - read_from_);
            if (spec_.self_join && !symmetric(asked, second, width, i))
                add_tasks(asked + second, width, place, i, false);
        }
    }

    // The same of the most common join: a window of rows, one interval for each arrival, nothing to filter.
    // `at` is where the arrivals stand among those that were read.
    void admit_plain(const std::uint8_t* sides, std::size_t at, std::size_t count) {
        window_.admit_rows(sides, count, places_.data());
        Entry<Key>* entries[2] = {entries_[0].data(), entries_[1].data()};
        std::uint32_t* order[2] = {order_[0].data(), order_[1].data()};
        std::uint32_t tasks = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            const unsigned own = sides[i] & 1;
            const Place& place = places_[i];
            const Interval<Key> asked = intervals_[at + i];
            *entries[own]++ = {keys_[at + i], low_bits(place.position)};
            tasks_[tasks] = {asked, place.visible(), i, own == 1, 0, 0};
            *order[own ^ 1] = tasks;
            const bool asks = place.first != place.last && !asked.empty();
            order[own ^ 1] += asks;
            tasks += asks;
        }
        task_count_ = tasks;
        for (int i = 0; i < 2; ++i) {
            entry_count_[i] = static_cast<std::size_t>(entries[i] - entries_[i].data());
            order_count_[i] = static_cast<std::size_t>(order[i] - order_[i].data());
        }
    }

    // Reads the arrivals of a group, and those behind them where nothing is kept for each group: keys and
    // intervals of many cost less than of a few at a time.
    void read_ahead(const Batch& batch, std::size_t start, std::size_t count) {
        if (filters_.empty()) count = std::max(count, std::min(kRead, batch.size - start));
        reserve_read(count);
        read(batch, start, count);
        any_null_ = std::memchr(nulls_.data(), 1, count) != nullptr;
        read_from_ = start;
        read_to_ = start + count;
    }

    void encode(const Batch& batch, std::size_t start, std::size_t count) {
        std::fill_n(nulls_.data(), count, false);
        indexed_->read(batch, start, count, keys_.data(), nulls_.data());
        if (!filters_.empty()) filters_.read(batch, start, count, nulls_.data());
    }

    void read(const Batch& batch, std::size_t start, std::size_t count) {
        encode(batch, start, count);
        const Arriving arriving{spec_.self_join ? nullptr : batch.sides + start, Side::right};
        if (!filters_.empty()) filters_.ask(arriving, count);
        indexed_->partners(arriving, keys_.data(), count, intervals_.data());
        if (spec_.self_join)  // earlier tuples are looked for as left partners first, then as right ones
            indexed_->partners({nullptr, Side::left}, keys_.data(), count,
                               intervals_.data() + indexed_->width() * count);
    }

    // Takes up tuples of a state: they get their positions and meet nobody.
    void store(Side side, const Stored& stored, std::size_t start, std::size_t count) {
        reserve(count);
        reserve_read(count);
        encode(stored.tuples, start, count);
        const int own = static_cast<int>(side);
        const bool times = spec_.window.kind != WindowKind::rows;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t row = start + i;
            const bool timed = times && !(stored.tuples.null_times && stored.tuples.null_times[row]);
            const bool unseen = nulls_[i] || stored.unseen[row] || (times && !timed);
            const std::uint64_t position = window_.next(side);
            const bool met = window_.store(side, times ? stored.tuples.times[row] : 0, timed, unseen);
            if (!filters_.empty()) filters_.keep(side, i);
            if (spec_.window.kind == WindowKind::event) event_keys_[own].push(keys_[i]);
            if (met) entries_[own][entry_count_[own]++] = {keys_[i], low_bits(position)};
        }
        indexes_->insert(own, entries_[own].data(), entry_count_[own]);
    }

    // Whether an arrival of a self-join asks for the same as either side: then once is enough.
    bool symmetric(const Interval<Key>* asked, std::size_t second, std::size_t width,
                   std::size_t arrival) const {
        for (std::size_t i = 0; i < width; ++i)
            if (asked[i].low != asked[second + i].low || asked[i].high != asked[second + i].high)
                return false;
        return filters_.symmetric(arrival);
    }

    void add_tasks(const Interval<Key>* intervals, std::size_t width, const Place& place,
                   std::uint32_t arrival, bool partner_is_left) {
        for (std::size_t i = 0; i < width && !intervals[i].empty(); ++i) {
            tasks_[task_count_] = {intervals[i], place.visible(), arrival, partner_is_left, 0, 0};
            const int probed = partner_is_left ? 0 : 1;
            order_[probed][order_count_[probed]++] = static_cast<std::uint32_t>(task_count_++);
        }
    }

    // Empties the lists of the group before and makes room for `count` arrivals.
    void reserve(std::size_t count) {
        task_count_ = 0;
        for (int i = 0; i < 2; ++i) entry_count_[i] = order_count_[i] = 0;
        if (count <= reserved_) return;
        const std::size_t most_tasks = asked_of(count) + 1;  // one that is written in vain
        tasks_.reserve(most_tasks);
        for (int i = 0; i < 2; ++i) {
            entries_[i].reserve(count);
            order_[i].reserve(most_tasks);
        }
        places_.reserve(count);
        reserved_ = count;  // what was asked for, since each of them grows as it likes
    }

    void reserve_read(std::size_t count) {
        keys_.reserve(count);
        nulls_.reserve(count);
        intervals_.reserve(asked_of(count));
    }

    // Intervals of so many arrivals.
    std::size_t asked_of(std::size_t count) const {
        return (spec_.self_join ? 2 : 1) * indexed_->width() * count;
    }

    JoinSpec spec_;
    Make make_;
    Chooser chooser_;
    std::unique_ptr<IndexKeys<Key>> indexed_;
    CandidateFilter filters_;
    Window window_;
    std::unique_ptr<IndexPair<Key>> indexes_;
    std::uint64_t matches_ = 0;
    bool broken_ = false;
    struct {
        std::size_t arrivals;
        std::uint64_t found;
    } last_{};  // push
    std::vector<std::uint32_t> late_;
    std::vector<std::uint64_t> renumbered_[2];
    Finals finals_;
    Ring<Key> event_keys_[2];  // event windows: of positions from event_first_ on, for renumbering
    std::uint64_t event_first_[2] = {0, 0};

    // Arrivals [read_from_, read_to_) of the batch.
    std::size_t read_from_ = 0;
    std::size_t read_to_ = 0;
    bool any_null_ = false;
    Buffer<Key> keys_;
    Buffer<bool> nulls_;
    Buffer<Interval<Key>> intervals_;

    // The group under way.
    std::size_t reserved_ = 0;  // arrivals that all of these have room for
    Buffer<Place> places_;
    Buffer<std::uint64_t> ends_;                 // pairs up to each arrival, where some became final
    std::vector<std::uint32_t> final_arrivals_;  // with which arrival each of window_.finals() became so
    Buffer<Task<Key>> tasks_;
    std::size_t task_count_ = 0;
    Buffer<Entry<Key>> entries_[2];  // to insert, by own side
    std::size_t entry_count_[2] = {0, 0};
    Buffer<std::uint32_t> order_[2];  // tasks, by the side that they probe
    std::size_t order_count_[2] = {0, 0};
    Buffer<Entry<Key>> by_key_[2];  // the same in the order of keys, of large groups
    BatchSorter<Key> sorter_;
    MatchList list_;
    MatchCount counter_;
    MatchRanges ranges_;
    ResultWriter writer_;
    bool plain_;  // whether admit_plain will do
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
