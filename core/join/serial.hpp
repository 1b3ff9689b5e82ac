// The join. Arrivals go through it in groups: admit them (positions, visible ranges, probe intervals), insert
// all, probe for all with the visible range as filter, test the conditions that are not indexed, write
// results, expire. A group of one is the join tuple by tuple; up to kGroup the index overlaps the memory
// accesses of the group; a larger group is a sorted batch (batch.hpp), which several workers may share
// (phased.hpp). Beside the index and the results an arrival costs 5-15 ns.
#pragma once

#include "admission.hpp"
#include "chooser.hpp"
#include "local_join.hpp"
#include "phased.hpp"
#include "portions.hpp"
#include "rehearsal.hpp"
#include "shared_join.hpp"
#include "subwindow_workers.hpp"
#include "validate.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

template <class Key>
class SerialJoin final : public Engine {
  public:
    using Make = std::unique_ptr<IndexPair<Key>> (*)(const JoinSpec& spec);

    SerialJoin(const JoinSpec& spec, Make make)
        : spec_(spec),
          make_(make),
          window_(spec),
          lanes_(spec_),
          lane_(lanes_[0]),
          filter_(lane_.filter),
          finals_(window_),
          admission_(spec_, window_, filter_, finals_, lane_.reader.width()),
          chooser_(spec.limits, admission_.one_pass()),
          local_join_(spec_, lanes_),
          trigger_(spec.batch, 1000 * spec.batch_us),
          indexes_(make_of(spec.automatic ? Chooser::kFirst : spec.index)),
          shared_(spec_, lanes_),
          ranges_(spec.self_join) {
        set_workers(spec.workers);
    }

    std::uint64_t push(const Batch& batch, Pairs* pairs) override {
        if (!pairs) require_no_finals();
        const bool listed = lane_.listed(pairs);
        if (pairs) pairs->reserve(expected(batch.size));
        std::uint64_t found = 0;
        begin(batch);
        join(batch, listed, found, pairs ? pairs : &counted_, [&](std::size_t start, std::size_t count) {
            return find_any(batch, start, count, lanes_.prepare(count), pairs);
        });
        matches_ += found;
        end(batch.size, found, listed);
        return found;
    }

    Portion push_some(const Batch& batch, Pairs& pairs, std::size_t limit) override {
        if (has_locals() || indexes_->shared()) {
            push(batch, &pairs);
            return {batch.size, false};
        }
        limit = std::max(limit, kLeastPortion);
        pairs.reserve(std::min(expected(batch.size), 2 * limit));
        begin(batch);
        some_ = {0, 0};
        const auto find_some = [&](std::size_t start, std::size_t count) {
            const std::size_t before = pairs.size();
            const std::size_t workers = lanes_.prepare(count);
            const std::size_t slices = workers > 1 ? lanes_.slices(count, workers) : 1;
            lanes_.reserve(slices);
            lanes_.limit(std::max(limit - before, kLeastPortion) / slices);
            try {
                return find_any(batch, start, count, workers, &pairs);
            } catch (const TooManyMatches&) {
                group_count_ = count;
                portions_.begin(slices, Slice(count, 0, slices).size());
            }
            list(pairs, limit);
            return pairs.size() - before;
        };
        some_.taken = join(batch, true, some_.found, &pairs, find_some, limit / 2, fitting(limit));
        matches_ += some_.found;
        if (portions_.open()) return {some_.taken, true};
        end(some_.taken, some_.found, true);
        return {some_.taken, false};
    }

    bool list_more(Pairs& pairs, std::size_t limit) override {
        if (!portions_.open()) throw std::logic_error("there are no matches to be listed");
        finals_.clear();
        const std::size_t before = pairs.size();
        list(pairs, before + std::max(limit, kLeastPortion));
        some_.found += pairs.size() - before;
        matches_ += pairs.size() - before;
        if (portions_.open()) return true;
        forget();
        end(some_.taken, some_.found, true);
        return false;
    }

    std::uint64_t ranges(const Batch& batch, RangeResult& result) override {
        require_no_finals();
        std::uint64_t found = 0;
        begin(batch);
        join(batch, !filter_.empty(), found, nullptr, [&](std::size_t start, std::size_t count) {
            if (const std::size_t workers = has_locals() ? lanes_.prepare(count) : 1;
                workers > 1 || local_join_.ahead())
                return find_locally(batch, start, count, workers, nullptr, &result);
            admission_.admit(batch, start, count, lane_, 0, batch.size);
            return find_ranges(start, count, result);
        });
        matches_ += found;
        end(batch.size, found, !filter_.empty());
        handed_.report_dropped(result);
        return found;
    }

    Rehearsed rehearse(const Batch& batch, bool exact, std::uint64_t enough) override {
        if (broken_) throw BrokenJoin();
        validate(batch, spec_, window_);
        if (has_locals() || indexes_->shared()) throw std::logic_error("these indexes cannot be rehearsed");
        const auto turn = lanes_.start();
        return Rehearsal<Key>(spec_, lane_, *indexes_, window_).run(batch, exact, enough);
    }

    const std::vector<std::uint32_t>& late() const override { return admission_.late(); }
    const std::vector<std::uint64_t>& renumbered(int side) const override { return renumbered_[side]; }
    const Finals& finals() const override { return finals_.reported(); }

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
            filter_.load(side, state.sides[i].first);
            const std::size_t step = load_step(*indexes_, stored.tuples.size);
            for (std::size_t start = 0; start < stored.tuples.size; start += step)
                store(side, stored, start, std::min(step, stored.tuples.size - start));
        }
        broken_ = false;
    }

    Stats stats() override {
        Stats stats = stats_of(window_);
        stats.matches = matches_;
        stats.memory_bytes = sizeof *this + indexes_->bytes() + window_.bytes() + lanes_.bytes() +
                             shared_.bytes() + ranges_.bytes() + handed_.bytes() + local_join_.bytes() +
                             ends_.bytes() + portions_.bytes() + counted_.bytes();
        return stats;
    }

    IndexInUse index() const override {
        if (!spec_.automatic) return {spec_.index, "it was asked for", 0};
        return {chooser_.kind(), chooser_.why(), chooser_.changes()};
    }

    Strategy strategy() const override {
        if (has_locals()) return spec_.strategy;
        return indexes_->shared() ? Strategy::shared_index : Strategy::phases;
    }

    void set_workers(std::uint32_t workers) override { lanes_.want(workers); }

    void check() override {
        if (broken_) throw BrokenJoin();
        for (const Side side : kSides)
            indexes_->check(static_cast<int>(side), low_bits(window_.first(side)),
                            low_bits(window_.next(side)));
    }

  private:
    static constexpr Side kSides[] = {Side::left, Side::right};
    static constexpr std::size_t kLoad = 1 << 18;      // least number of tuples that are loaded together
    static constexpr std::uint64_t kBatch = 4096;      // a group that is small against any large window
    static constexpr std::size_t kExpected = 1 << 22;  // most pairs that room is made for in advance
    static constexpr std::uint64_t kWorthFreeing = 1 << 14;  // elements
    static constexpr std::size_t kLeastPortion = 64;         // matches
    static constexpr std::size_t kPlain = 1024;              // plain arrivals that are joined together
    static constexpr std::size_t kShared = 2048;             // plain arrivals that workers share
    static constexpr std::size_t kLarge = 1 << 20;           // tuples of both windows
    static constexpr std::uint64_t kLeastPlain = 1 << 14;    // matches that there must be room for
    static constexpr std::size_t kMostWait = 1 << 14;        // arrivals until plain ones are tried again

    static Side side_of(int side) { return Side{static_cast<std::uint8_t>(side)}; }
    void require_no_finals() const {
        if (spec_.finals[0] || spec_.finals[1])
            throw std::logic_error("a join that reports final tuples must list its pairs");
    }

    // Admits a group and finds its matches, by so many workers.
    std::uint64_t find_any(const Batch& batch, std::size_t start, std::size_t count, std::size_t workers,
                           Pairs* pairs) {
        if (indexes_->shared() && count > kGroup) return find_shared(batch, start, count, workers, pairs);
        if (has_locals() && (workers > 1 || local_join_.ahead()))
            return find_locally(batch, start, count, workers, pairs, nullptr);
        if (workers > 1) return find_together(batch, start, count, workers, pairs);
        admission_.admit(batch, start, count, lane_, 0, batch.size);
        return find(count, pairs);
    }

    // Lists matches of a group in portions, until there are `limit` of them or a few more, and reports the
    // tuples that became final with arrivals whose matches are all listed.
    void list(Pairs& pairs, std::size_t limit) {
        std::uint64_t* ends = nullptr;
        if (finals_.any()) {
            ends_.reserve(group_count_);
            ends = ends_.data();
        }
        while (portions_.open() && pairs.size() < limit) {
            Lane<Key>& lane = lanes_[portions_.lane()];
            std::uint64_t* const own = ends ? ends + portions_.first_of_lane() : nullptr;
            portions_.list(lane, *indexes_, std::max(limit - pairs.size(), kLeastPortion), pairs, own);
            if (portions_.listed())
                portions_.next_lane(Slice(group_count_, portions_.lane() + 1, portions_.lanes()).size());
        }
        if (ends)
            finals_.report([&](std::size_t arrival) { return ends[arrival]; },
                           portions_.open() ? portions_.arrival() : SIZE_MAX);
    }

    // A batch is about to be joined.
    void begin(const Batch& batch) {
        if (broken_) throw BrokenJoin();
        validate(batch, spec_, window_);
        if (has_locals()) locals().deal_to(lanes_.wanted().load(std::memory_order_relaxed));
        broken_ = true;  // until the batch is done: memory may run out in the middle of it
        admission_.late().clear();
        finals_.clear();
        used_ = 0;
    }

    // Takes a batch through the join, a group at a time, until there are `limit` matches. Plain arrivals
    // write their pairs, which are counted only if they are written to counted_; for others find(start,
    // count) admits a group of at most `most` and finds its matches, which are listed or only counted.
    // Returns how many tuples were taken.
    template <class Find>
    std::size_t join(const Batch& batch, bool listed, std::uint64_t& found, Pairs* pairs, Find find,
                     std::uint64_t limit = UINT64_MAX, std::size_t most = SIZE_MAX) {
        const auto turn = lanes_.start();
        lanes_.limit(FoundPositions::kNoLimit);
        const bool counts = pairs == &counted_;  // which writes more than a few matches in vain
        const bool plain =
            pairs && is_plain(batch) && limit >= kLeastPlain && !(counts && last_.found > 5 * last_.arrivals);
        std::size_t start = 0;
        while (start < batch.size && found < limit) {
            if (plain && plain_wait_ == 0) {
                if (counts) counted_.clear();
                const std::size_t before = pairs->size();
                const std::size_t until = counts                ? kLeastPlain
                                          : limit == UINT64_MAX ? SIZE_MAX
                                                                : before + (limit - found);
                const std::size_t joined = join_plain(batch, start, until, *pairs);
                found += pairs->size() - before;
                used_ = std::max(used_, joined + pairs->size() - before);
                start += joined;
                if (joined) continue;
            }
            const std::size_t count = local_join_.ahead()
                                          ? local_join_.ahead()
                                          : std::min({group_size(), batch.size - start, most});
            const std::uint64_t matches = find(start, count);
            found += matches;
            used_ = std::max(used_, count + (listed ? matches : 0));
            window_peak_ = std::max(window_peak_, live());
            start += count;
            plain_wait_ -= std::min(plain_wait_, count);
            if (portions_.open()) break;
            if (!local_join_.ahead()) forget();
        }
        return start;
    }

    // Whether one thread joins arrivals as plain ones (plain.hpp); docs/concurrency.md explains the limits.
    bool is_plain(const Batch& batch) {
        static const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
        const std::size_t arrivals = std::min(group_size(), batch.size), large = live() >= kLarge;
        const std::size_t workers = std::min(lanes_.sharing(arrivals), cores);
        const bool pays = workers + large > 2 && arrivals >= kShared >> large;
        // With more than a few matches, it is faster to list them first where they are sorted or large
        // windows make it wait for memory.
        if (last_.found > 5 * last_.arrivals &&
            (workers > 1 || (last_.found < 40 * last_.arrivals && (spec_.sorted || large))))
            return false;
        return admission_.one_pass(batch) && (workers == 1 || !pays);
    }

    // Joins plain arrivals from `start` on, up to kPlain, in groups of up to kGroup, until there are about
    // `limit` pairs. Returns how many.
    std::size_t join_plain(const Batch& batch, std::size_t start, std::size_t limit, Pairs& pairs) {
        const std::size_t count = std::min(kPlain, batch.size - start);
        const std::size_t at = lane_.reader.read(batch, start, count, batch.size);
        std::size_t joined = 0;
        if (!lane_.reader.any_null()) {
            std::uint8_t sides[kPlain];  // the caller's array may change meanwhile
            std::transform(batch.sides + start, batch.sides + start + count, sides,
                           [](std::uint8_t side) { return side & 1; });
            const std::int64_t* const times = admission_.plain() ? nullptr : batch.times + start;
            std::uint64_t next[2] = {window_.next(Side::left), window_.next(Side::right)};
            lane_.buffer.start(count);
            if (times) window_.place_times(sides, times, count, next, lane_.buffer.places());
            else window_.place_rows(sides, count, next, lane_.buffer.places());
            const PlainArrivals<Key> arrivals{sides, lane_.reader.keys() + at, lane_.reader.intervals(at),
                                              lane_.buffer.places(), count};
            lane_.limit(FoundPositions::kNoLimit);  // of lists: pairs have their own
            joined = indexes_->join_plain(arrivals, std::min<std::size_t>(spec_.group, kGroup), limit,
                                          lane_.writer(), lane_.list(), pairs);
            for (std::size_t i = joined; i < count; ++i) --next[sides[i]];
            if (times) window_.advance_times(sides, joined, count);
            else window_.advance_rows(next);
            window_peak_ = std::max(window_peak_, live());
            forget();
        }
        if (joined) return plain_back_ = 0, joined;
        plain_back_ = std::min(kMostWait, 2 * plain_back_ + kGroup);
        plain_wait_ = plain_back_;
        return 0;
    }

    // So many tuples were joined, and all their matches are known.
    void end(std::size_t taken, std::uint64_t found, bool listed) {
        window_.let_pass();
        renumber();
        broken_ = false;
        last_ = {taken, found};
        const std::uint64_t together = std::min<std::uint64_t>({taken, spec_.group, live() / 2});
        if (spec_.automatic && chooser_.note(taken, together, found, listed, live()) &&
            rebuild_index(chooser_.wanted()))
            chooser_.changed();
        shrink();
    }

    // An estimate of the pairs of so many arrivals, by those of the last push: room that is made at once is
    // not copied.
    std::size_t expected(std::size_t arrivals) const {
        if (!last_.arrivals) return 0;
        const double rate = static_cast<double>(last_.found) / static_cast<double>(last_.arrivals);
        const double most = 1.125 * rate * static_cast<double>(std::min(arrivals, 4 * last_.arrivals));
        return static_cast<std::size_t>(std::min<double>(most, kExpected)) + kPairRoom;
    }

    // How many arrivals have about half of `limit` matches together, by those of the last push.
    std::size_t fitting(std::size_t limit) const {
        if (!last_.arrivals || !last_.found) return SIZE_MAX;
        const double rate = static_cast<double>(last_.found) / static_cast<double>(last_.arrivals);
        const double fitting = std::min(static_cast<double>(limit) / 2 / rate, 1e9);
        return std::max<std::size_t>(1, static_cast<std::size_t>(fitting));
    }

    std::unique_ptr<IndexPair<Key>> make_of(IndexKind kind) const {
        JoinSpec spec = spec_;
        spec.index = kind;
        if (!has_locals()) return make_(spec);
        return make_local<Key>(spec, make_, lanes_.wanted().load(std::memory_order_relaxed));
    }

    // Whether workers have indexes of their own.
    bool has_locals() const {
        return spec_.strategy == Strategy::round_robin || spec_.strategy == Strategy::subwindows;
    }
    LocalIndexes<Key>& locals() { return static_cast<LocalIndexes<Key>&>(*indexes_); }

    // Moves the windows into a new index of this kind. Returns whether there was enough memory; if not, the
    // old one stays.
    bool rebuild_index(IndexKind kind) {
        try {
            std::unique_ptr<IndexPair<Key>> indexes = make_of(kind);
            for (const Side side : kSides) {
                const std::vector<Entry<Key>> entries = live_entries(side);
                const std::size_t step = load_step(*indexes, entries.size());
                for (std::size_t start = 0; start < entries.size(); start += step)
                    insert(*indexes, side, entries.data() + start, std::min(step, entries.size() - start));
            }
            indexes->forget(low_bits(window_.first(Side::left)), low_bits(window_.first(Side::right)));
            indexes_ = std::move(indexes);
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    // The entries of a side that have not expired, in the order of their positions.
    std::vector<Entry<Key>> live_entries(Side side) const {
        std::vector<Entry<Key>> entries;
        const std::uint32_t first = low_bits(window_.first(side));
        indexes_->list(static_cast<int>(side), entries);
        std::erase_if(entries, [&](const Entry<Key>& entry) { return before(entry.value, first); });
        Buffer<Entry<Key>> scratch;
        const auto age = [&](const Entry<Key>& entry) { return entry.value - first; };
        radix_sort(entries.data(), entries.size(), scratch, age);
        return entries;
    }

    // Inserts entries that are in the order of their positions.
    static void insert(IndexPair<Key>& indexes, Side side, const Entry<Key>* entries, std::size_t count) {
        Buffer<Entry<Key>> by_key, scratch;
        sort_copy(entries, count, by_key, scratch);
        indexes.insert(static_cast<int>(side), entries, count, by_key.data());
    }

    // Frees memory after the windows have shrunk, or the groups of a push. A size must have fallen to a
    // sixteenth of its peak, so that its use pays for allocating the memory again.
    void shrink() {
        const bool emptied = fell(live(), window_peak_);
        if (emptied) {
            rebuild_index(index().kind);
            try {
                window_.shrink();
                filter_.shrink();
            } catch (const std::bad_alloc&) {
                // The larger memory stays in use.
            }
        }
        if (!fell(used_, used_peak_) && !emptied) return;
        lanes_.free();
        shared_.free();
        ranges_.free();
        local_join_.free();
        ends_ = {};
        counted_ = Pairs();
        admission_.late().shrink_to_fit();
        finals_.shrink();
        for (std::vector<std::uint64_t>& each : renumbered_) each.shrink_to_fit();
        if (emptied) trim_memory();
    }

    // Whether a size has fallen far below its peak, which then starts anew.
    static bool fell(std::uint64_t size, std::uint64_t& peak) {
        peak = std::max(peak, size);
        if (peak < kWorthFreeing || size > peak / 16) return false;
        peak = size;
        return true;
    }

    static std::size_t load_step(const IndexPair<Key>& indexes, std::size_t count) {
        return std::max<std::size_t>(kLoad, indexes.largest_group(count));
    }

    // Whether 0, 1, or 2 for both, means this side; a self-join has only one.
    bool names(int side, Side each) const {
        if (spec_.self_join) return each == Side::left;
        return side == 2 || side_of(side) == each;
    }

    template <class Move>
    void move_time(Move move) {
        if (broken_) throw BrokenJoin();
        broken_ = true;
        finals_.clear();
        admission_.late().clear();
        move();
        window_.forget_dead();
        finals_.report([](std::size_t) { return std::uint64_t{0}; });
        forget();
        renumber();
        broken_ = false;
        shrink();
    }

    // A group larger than the window would make every probe read many tuples that it must not see.
    std::size_t group_size() {
        if (spec_.group <= kGroup) return spec_.group;
        const std::uint64_t most = spec_.strategy == Strategy::subwindows
                                       ? std::min<std::uint64_t>(spec_.group, trigger_.size())
                                       : spec_.group;
        return std::max(std::clamp<std::uint64_t>(live(), kGroup, std::min(most, kBatch)),
                        std::min(indexes_->largest_group(live()), most));
    }

    // Positions that both windows hold.
    std::uint64_t live() const {
        return window_.next(Side::left) - window_.first(Side::left) + window_.next(Side::right) -
               window_.first(Side::right);
    }

    std::uint64_t find(std::size_t count, Pairs* pairs) {
        const Group<Key> group = lane_.group(count, admission_.plain());
        const bool listed = lane_.listed(pairs);
        const std::size_t found =
            lane_.collect(listed, [&](auto& matches) { indexes_->join(group, matches); });
        if (!listed) return found;
        return noting_finals(count, [&](std::uint64_t* ends) {
            return lane_.append(lane_.found(), pairs, ends, ends ? count : 0);
        });
    }

    // Calls find(ends) and reports the tuples that became final; `ends` is null if there are none.
    template <class Find>
    std::uint64_t noting_finals(std::size_t count, Find find) {
        if (!finals_.any()) return find(nullptr);
        ends_.reserve(count);
        const std::uint64_t written = find(ends_.data());
        finals_.report([&](std::size_t arrival) { return ends_[arrival]; });
        return written;
    }

    // The same by several workers, with admission, which they do, too, where it is plain.
    std::uint64_t find_together(const Batch& batch, std::size_t start, std::size_t count, std::size_t workers,
                                Pairs* pairs) {
        Slices<Key> slices(lanes_, lanes_.slices(count, workers), count);
        Phases<Key> phases(lanes_, workers, *indexes_, slices, pairs);
        const auto admit_all = [&] { admit_slices(batch, start, slices); };
        if (admission_.plain() && batch.store) return phases.admit_and_join(batch, start, window_, admit_all);
        admit_all();
        return noting_finals(count, [&](std::uint64_t* ends) { return phases.join(ends); });
    }

    // The same over indexes that the workers share. Where admission is not plain, there is one slice.
    std::uint64_t find_shared(const Batch& batch, std::size_t start, std::size_t count, std::size_t workers,
                              Pairs* pairs) {
        const bool plain = admission_.plain() && batch.store;
        Slices<Key> slices(lanes_, plain ? lanes_.slices(count, workers) : 1, count);
        if (plain) slices.count(batch, start, window_);
        else admit_slices(batch, start, slices);
        const auto admit = [&](std::size_t i) {
            if (plain) slices.admit(i, batch, start, window_);
        };
        const auto admitted = [&] {
            if (plain && !slices.take_positions(window_)) admit_slices(batch, start, slices);
        };
        const std::uint8_t* const sides = spec_.self_join ? nullptr : batch.sides + start;
        return noting_finals(count, [&](std::uint64_t* ends) {
            return shared_.run(*indexes_->shared(), workers, slices, sides, pairs, ends, admit, admitted);
        });
    }

    // Admits slices one after the other.
    void admit_slices(const Batch& batch, std::size_t start, const Slices<Key>& slices) {
        for (std::size_t i = 0; i < slices.size(); ++i) {
            const Slice slice = slices[i];
            admission_.admit(batch, start + slice.from, slice.size(), lanes_[i], slice.from,
                             start + slice.to);
        }
    }

    // The same by workers with indexes of their own, with pairs or with parts of runs. The next group is
    // admitted meanwhile, unless tuples that it makes final would be mixed with those of this one.
    std::uint64_t find_locally(const Batch& batch, std::size_t start, std::size_t count, std::size_t workers,
                               Pairs* pairs, RangeResult* result) {
        const auto began = std::chrono::steady_clock::now();
        const auto collect = [&](std::size_t from, std::size_t size) {
            local_join_.collect(locals(), size, [&](Lane<Key>& lane) {
                const std::array first{window_.first(Side::left), window_.first(Side::right)};
                admission_.admit(batch, from, size, lane, 0, batch.size);
                return first;
            });
        };
        if (!local_join_.ahead()) collect(start, count);
        const auto first = local_join_.begin();
        const std::size_t next =
            spec_.finals[0] || spec_.finals[1] ? 0 : std::min(group_size(), batch.size - start - count);
        if (!filter_.empty()) {
            for (const Side side : kSides) filter_.forget(side, first[static_cast<int>(side)]);
            filter_.reserve(next);
        }
        const auto ahead = [&] {
            if (next) collect(start + count, next);
        };
        workers = std::min(workers, locals().size());
        const std::uint64_t found = noting_finals(count, [&](std::uint64_t* ends) {
            if (result) return local_join_.run(locals(), workers, handed_, *result, start, ends_, ahead);
            return local_join_.run(locals(), workers, pairs, ends, ahead);
        });
        trigger_.note(count, static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began).count()));
        return found;
    }

    std::uint64_t find_ranges(std::size_t start, std::size_t count, RangeResult& result) {
        const Place* const places = lane_.buffer.places();
        ranges_.start(lane_.buffer.tasks(), lane_.buffer.task_count(), count);
        FoundPositions& found = filter_.empty() ? static_cast<FoundPositions&>(ranges_) : lane_.filtered();
        found.clear();
        const Group<Key> group = lane_.group(count, admission_.plain());
        if (filter_.empty()) indexes_->join(group, ranges_);
        else indexes_->join(group, lane_.filtered());
        ends_.reserve(count);
        const std::uint64_t listed = lane_.append(found, &result.pairs, ends_.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
            result.arrival.resize(ends_[i], static_cast<std::int64_t>(start + i));
            result.positions.push_back(static_cast<std::int64_t>(places[i].position));
        }
        const MatchRanges* const lists[] = {&ranges_};
        return listed + write_parts(lists, places, count, start, handed_, result);
    }

    void forget() {
        indexes_->forget(low_bits(window_.first(Side::left)), low_bits(window_.first(Side::right)));
        if (filter_.empty()) return;
        for (const Side side : kSides) filter_.forget(side, window_.first(side));
    }

    // Event windows: live tuples get new positions when too many expired ones are held among them; notes the
    // old positions.
    void renumber() {
        for (const Side side : kSides) {
            std::vector<std::uint64_t>& renumbered = renumbered_[static_cast<int>(side)];
            renumbered.clear();
            if (!window_.wasteful(side)) continue;
            std::vector<Entry<Key>> entries = live_entries(side);
            renumbered = window_.renumber(side);
            std::uint64_t position = window_.first(side);
            std::size_t count = 0, at = 0;
            for (const std::uint64_t old : renumbered) {
                while (entries[at].value != low_bits(old)) ++at;
                filter_.copy(side, old);
                entries[count++] = {entries[at++].key, low_bits(position++)};
            }
            insert(*indexes_, side, entries.data(), count);
        }
        forget();
    }

    // Stores tuples of a snapshot: they get their positions and probe for nothing.
    void store(Side side, const Stored& stored, std::size_t start, std::size_t count) {
        lane_.reader.encode(stored.tuples, start, count);
        std::vector<Entry<Key>> entries;
        entries.reserve(count);
        const bool times = spec_.window.kind != WindowKind::rows;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t row = start + i;
            const bool timed = times && !(stored.tuples.null_times && stored.tuples.null_times[row]);
            const bool unseen = lane_.reader.nulls()[i] || stored.unseen[row] || (times && !timed);
            const std::uint64_t position = window_.next(side);
            const bool met = window_.store(side, times ? stored.tuples.times[row] : 0, timed, unseen);
            if (!filter_.empty()) filter_.keep(side, i);
            if (met) entries.push_back({lane_.reader.keys()[i], low_bits(position)});
        }
        insert(*indexes_, side, entries.data(), entries.size());
    }

    JoinSpec spec_;
    Make make_;
    Window window_;
    Lanes<Key> lanes_;
    Lane<Key>& lane_;          // the first one
    CandidateFilter& filter_;  // its filter, which stores the keys
    FinalTuples finals_;
    Admission<Key> admission_;
    Chooser chooser_;
    LocalJoin<Key> local_join_;
    BatchTrigger trigger_;
    std::unique_ptr<IndexPair<Key>> indexes_;
    SharedJoin<Key> shared_;
    Portions<Key> portions_;
    std::size_t group_count_ = 0;  // arrivals of the group that is listed in portions
    struct {
        std::size_t taken;
        std::uint64_t found;
    } some_{};  // of a push in portions
    std::uint64_t matches_ = 0;
    Pairs counted_;               // of plain arrivals: some thousand, written to be counted
    std::size_t plain_wait_ = 0;  // arrivals that are left to the general join
    std::size_t plain_back_ = 0;  // the same of the last time: twice as many each time
    bool broken_ = false;
    struct {
        std::size_t arrivals;
        std::uint64_t found;
    } last_{};  // push
    std::vector<std::uint64_t> renumbered_[2];

    Buffer<std::uint64_t> ends_;  // pairs up to each arrival, where tuples became final
    MatchRanges ranges_;
    HandedRuns handed_;

    // What shrink() goes by: tuples in the windows, and the largest group of a push with its matches.
    std::uint64_t window_peak_ = 0;
    std::uint64_t used_ = 0;
    std::uint64_t used_peak_ = 0;
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
