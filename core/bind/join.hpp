// The native join as Python sees it: arrays in without copying, the GIL released while joining, results
// handed over without copying.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <concepts>
#include <optional>
#include <type_traits>

#include "../crew.hpp"
#include "arguments.hpp"
#include "outcome.hpp"

namespace slidejoin {
namespace {

class NativeJoin {
  public:
    NativeJoin(const std::vector<Conjunct>& on, const std::string& index, const std::string& window,
               std::uint64_t left, std::uint64_t right, std::uint64_t duration, bool self_purge,
               std::int64_t before, std::int64_t after, std::optional<std::uint64_t> lateness, bool self_join,
               bool sorted, std::uint32_t group, const std::string& level, std::uint32_t equalities,
               const std::string& banded, nb::object outcome, bool hashed,
               const std::vector<std::tuple<std::string, double>>& options, std::uint32_t workers,
               const std::string& strategy, std::uint32_t task_size, bool blocking_merge,
               std::uint32_t subwindows, std::uint32_t batch, std::uint64_t batch_us,
               const std::shared_ptr<Crew>& crew, const std::vector<Limits>& limits,
               std::tuple<std::uint64_t, std::uint64_t> most)
        : timed_(window != "rows"), self_join_(self_join), hashed_(hashed), outcome_owner_(outcome) {
        JoinSpec spec = spec_of(on, equalities, banded, keys_);
        if (!outcome.is_none()) outcome_ = &nb::cast<NativeOutcome*>(outcome)->outcome();
        for (int side = 0; outcome_ && side < 2; ++side) spec.finals[side] = outcome_->type().preserves[side];
        spec.automatic = index == "auto";
        if (!limits.empty()) spec.limits.clear();
        for (const auto& [live, share, plain_share, many, many_counted] : limits)
            spec.limits.push_back({live, share, plain_share, many, many_counted});
        if (!spec.automatic) {
            const IndexEntry& entry = find(catalog(), index);
            spec.index = entry.kind;
            for (const auto& [name, value] : options) find(entry.parameters, name).set(spec.options, value);
        }
        spec.window.kind = find(kWindows, window).kind;
        spec.window.left = left;
        spec.window.right = right;
        spec.window.duration = duration;
        spec.window.self_purge = self_purge;
        spec.window.before = before;
        spec.window.after = after;
        spec.window.moves = lateness.has_value();
        spec.window.lateness = lateness.value_or(0);
        std::tie(spec.window.most[0], spec.window.most[1]) = most;
        spec.self_join = self_join;
        spec.sorted = sorted;
        spec.group = group;
        spec.workers = workers;
        if (crew) spec.pool = crew->pool();
        spec.strategy = find(kStrategies, strategy).strategy;
        spec.task_size = task_size;
        spec.blocking_merge = blocking_merge;
        spec.subwindows = subwindows;
        spec.batch = batch;
        spec.batch_us = batch_us;
        engine_ = make_engine(spec, level_of(level));
    }

    nb::tuple push(const nb::handle& sides, const nb::handle& keys, const nb::handle& times,
                   const nb::handle& null_times) {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        Arrays arrays = single(sides, keys, times, null_times);
        run(arrays, pairs);
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    std::uint64_t count(const nb::handle& sides, const nb::handle& keys, const nb::handle& times,
                        const nb::handle& null_times) {
        Arrays arrays = single(sides, keys, times, null_times);
        return run(arrays, static_cast<Pairs*>(nullptr));
    }

    // Parts of runs (probe, run, start, end), pairs (left, right, arrival), the positions of the arrivals,
    // runs that are handed over (number, positions) and the numbers of those that are gone.
    nb::tuple ranges(const nb::handle& sides, const nb::handle& keys, const nb::handle& times,
                     const nb::handle& null_times) {
        RangeResult* result = new RangeResult;
        const nb::capsule owner(result, [](void* p) noexcept { delete static_cast<RangeResult*>(p); });
        Arrays arrays = single(sides, keys, times, null_times);
        run(arrays, [&](const Batch& batch) {
            const std::uint64_t found = engine_->ranges(batch, *result);
            result->pairs.fit();
            return found;
        });
        const auto array = [&](std::vector<std::int64_t>& numbers) {
            return positions(numbers.data(), numbers.size(), owner);
        };
        nb::list runs;
        for (RangeResult::NumberedRun& run : result->runs)
            runs.append(nb::make_tuple(run.number, taken(std::move(run.positions))));
        const Pairs& pairs = result->pairs;
        return nb::make_tuple(
            nb::make_tuple(array(result->probe), array(result->run), array(result->start),
                           array(result->end)),
            nb::make_tuple(positions(pairs.left(), pairs.size(), owner),
                           positions(pairs.right(), pairs.size(), owner), array(result->arrival)),
            array(result->positions), runs, copied(result->gone));
    }

    // Joins a batch with one (values, nulls or None) for each conjunct: its first rows, until there are about
    // `limit` matches. Where keys are hashes and some met, the record has candidates, and resolve() must
    // follow.
    void push_rows(const nb::handle& sides, const nb::list& keys, const nb::handle& times,
                   const nb::handle& null_times, bool store, std::size_t limit) {
        Arrays arrays = rows(sides, keys, times, null_times, store);
        const Batch& batch = arrays.batch();
        require_listed();
        recorded([&](Pairs& pairs) {
            std::uint64_t next[2];
            for (int side = 0; side < 2; ++side) next[side] = engine_->state().sides[side].next;
            Batch taken = batch;
            portion_ = engine_->push_some(batch, pairs, limit);
            taken.size = portion_.taken;
            if (!inner()) extend(taken, next);
        });
    }

    // Goes on with the matches of the last push, where its record says that there are more.
    void list_more(std::size_t limit) {
        if (!portion_.more) throw nb::value_error("there are no more matches");
        recorded([&](Pairs& pairs) { portion_.more = engine_->list_more(pairs, limit); });
    }

    // What a batch would do: the most rows of each side that are kept at one time, the most matches of a row,
    // and its number.
    nb::tuple rehearse(const nb::handle& sides, const nb::list& keys, const nb::handle& times,
                       const nb::handle& null_times, bool store, bool exact,
                       std::optional<std::uint64_t> enough) {
        Arrays arrays = rows(sides, keys, times, null_times, store);
        const Batch& batch = arrays.batch();
        require_listed();
        const Turn turn(*this);
        Rehearsed result{};
        translated([&] {
            nb::gil_scoped_release released;
            result = engine_->rehearse(batch, exact, enough.value_or(UINT64_MAX));
        });
        return nb::make_tuple(result.held[0], result.held[1], result.fanout, result.row);
    }

    void advance(std::int64_t to, int side) {
        if (side != 2) checked(side);
        require_listed();
        recorded([&](Pairs&) { engine_->advance(to, side); });
    }

    void idle(int side) {
        checked(side);
        require_listed();
        recorded([&](Pairs&) { engine_->idle(side); });
    }

    // Goes on with the candidates of the last record: `wanted` says which of them are matches; None: all.
    void resolve(const nb::handle& wanted) {
        if (!candidates_) return;
        const bool* flags = nullptr;
        if (!wanted.is_none())
            flags = static_cast<const bool*>(view_of(wanted, NPY_BOOL, pairs_.pairs->size()).data);
        const Turn turn(*this);
        Owned matches = inner() ? pairs_ : Owned();
        whole([&] { settle(*pairs_.pairs, flags, *matches.pairs); });
        pairs_ = std::move(matches);
        candidates_ = false;
        record_ = nb::object();
    }

    // What the last call did, all that the rows of both sides need to follow it: the positions of the
    // matches, -1 for no partner; the numbers of late rows, or None; whether the matches are candidates,
    // whose values resolve() wants compared; for each side the positions [first, next) that are stored, and
    // the old positions of the tuples that were given new ones, or None; how many rows of the batch were
    // taken; whether list_more() has more matches of theirs, which need all rows that were stored before.
    //
    // It is made when it is first asked for, so that it outlives an interrupt that keeps it from the caller,
    // and can be asked for again where memory ran out.
    nb::object record() {
        if (!record_.is_valid()) {
            const Pairs& pairs = *pairs_.pairs;
            const JoinState state = engine_->state();
            nb::object sides[2];
            for (int i = 0; i < 2; ++i)
                sides[i] = nb::make_tuple(state.sides[i].first, state.sides[i].next,
                                          numbers(engine_->renumbered(i)));
            record_ = nb::make_tuple(positions(pairs.left(), pairs.size(), pairs_.owner),
                                     positions(pairs.right(), pairs.size(), pairs_.owner),
                                     numbers(engine_->late()), candidates_,
                                     nb::make_tuple(sides[0], sides[1]), portion_.taken, portion_.more);
        }
        return record_;
    }

    // The number of calls that made a record.
    std::uint64_t calls() const { return calls_; }
    std::uint64_t rejected() const { return rejected_; }
    void set_rejected(std::uint64_t rejected) { rejected_ = rejected; }

    // The join without its tuples: numbers, and None for a time that never was.
    nb::dict state() {
        const Turn turn(*this);
        const JoinState state = engine_->state();
        nb::dict result;
        const char* names[] = {"left", "right"};
        for (int i = 0; i < 2; ++i) {
            const SideState& side = state.sides[i];
            nb::dict part;
            part["first"] = side.first;
            part["next"] = side.next;
            part["admitted"] = side.admitted;
            part["nulls"] = side.nulls;
            part["late"] = side.late;
            part["latest"] = instant(side.latest == INT64_MIN ? kNever : side.latest);
            part["progress"] = instant(side.progress);
            part["idle"] = side.idle;
            part["dropped"] = side.dropped;
            result[names[i]] = part;
        }
        result["latest"] = instant(state.latest == INT64_MIN ? kNever : state.latest);
        result["watermark"] = instant(state.watermark);
        result["matches"] = state.matches;
        return result;
    }

    // Which of the tuples at these positions no arrival may meet.
    nb::object unseen(int side, std::uint64_t from, std::uint64_t to) {
        const Turn turn(*this);
        return taken(engine_->unseen(checked(side), from, to), NPY_UINT8);
    }

    using Held = std::tuple<nb::list, nb::object, nb::object, nb::object>;  // keys, times, null_times, unseen

    // Takes up a state with the tuples of both sides.
    void load(const nb::dict& state, const Held& left, const Held& right) {
        JoinState loaded;
        const char* names[] = {"left", "right"};
        const Held* held[] = {&left, &right};
        std::optional<Arrays> arrays[2];
        Stored stored[2];
        for (int i = 0; i < 2; ++i) {
            const nb::dict part = nb::cast<nb::dict>(state[names[i]]);
            SideState& side = loaded.sides[i];
            side.first = nb::cast<std::uint64_t>(part["first"]);
            side.next = nb::cast<std::uint64_t>(part["next"]);
            side.admitted = nb::cast<std::uint64_t>(part["admitted"]);
            side.nulls = nb::cast<std::uint64_t>(part["nulls"]);
            side.late = nb::cast<std::uint64_t>(part["late"]);
            side.latest = timestamp(part["latest"]);
            side.progress = instant_of(part["progress"]);
            side.idle = nb::cast<bool>(part["idle"]);
            side.dropped = nb::cast<std::uint64_t>(part["dropped"]);
            const auto& [keys, times, null_times, flags] = *held[i];
            arrays[i].emplace(Arrays::of(keys_, keys));
            if (timed_) arrays[i]->set_times(times, null_times);
            stored[i] = {arrays[i]->batch(), arrays[i]->read<bool>(flags, NPY_BOOL)};
            const std::size_t size = stored[i].tuples.size;
            if (side.next - side.first != size || size > kMaxLive)
                throw nb::value_error("positions do not fit the tuples");
        }
        loaded.latest = timestamp(state["latest"]);
        loaded.watermark = instant_of(state["watermark"]);
        loaded.matches = nb::cast<std::uint64_t>(state["matches"]);
        const Turn turn(*this);
        translated([&] {
            nb::gil_scoped_release released;
            engine_->load(loaded, stored);
        });
    }

    // The name of the index in use, why it was chosen, and how often it was changed.
    nb::tuple index() {
        const IndexInUse used = read([&] { return engine_->index(); });
        return nb::make_tuple(catalog()[static_cast<std::size_t>(used.kind)].name, used.why, used.changes);
    }

    // The strategy of several workers.
    const char* strategy() {
        const Turn turn(*this);
        for (const StrategyName& each : kStrategies)
            if (each.strategy == engine_->strategy()) return each.name;
        throw nb::value_error("a strategy without a name");
    }

    // May be called while another thread pushes.
    void set_workers(std::uint32_t workers) { engine_->set_workers(workers); }

    nb::dict stats() {
        const Stats stats = read([&] { return engine_->stats(); });
        nb::dict result;
        const auto both = [&](const std::string& name, const auto& of_sides) {
            result[(name + "_left").c_str()] = of_sides[0];
            result[(name + "_right").c_str()] = of_sides[1];
        };
        both("rows", stats.rows);
        result["matches"] = stats.matches - rejected_;
        both("late", stats.late);
        both("dropped", stats.dropped);
        both("null", stats.nulls);
        both("stored", stats.stored);
        both("first", stats.first);
        both("next", stats.next);
        result["latest"] = stats.latest;
        result["watermark"] = stats.has_watermark ? nb::cast(stats.watermark) : nb::none();
        result["memory_bytes"] = stats.memory_bytes;
        return result;
    }

    void check() {
        const Turn turn(*this);
        translated([&] { engine_->check(); });
    }

  private:
    // One thread at a time: a second one is told so instead of racing.
    class Turn {
      public:
        explicit Turn(NativeJoin& join) : busy_(join.busy_) {
            if (busy_.exchange(true))
                raise("UsageError",
                      "this join is in use by another thread; call it from one thread, or hold a lock around "
                      "each call");
        }
        ~Turn() { busy_ = false; }
        Turn(const Turn&) = delete;

      private:
        std::atomic<bool>& busy_;
    };

    // What another thread may ask between two calls. The turn ends before Python objects are made: these can
    // start a garbage collection, in which the thread of the join goes on.
    template <class Question>
    std::invoke_result_t<Question&> read(Question question) {
        const Turn turn(*this);
        return question();
    }

    // The arrays of a join with one conjunct.
    Arrays single(const nb::handle& sides, const nb::handle& keys, const nb::handle& times,
                  const nb::handle& null_times) const {
        Arrays arrays(keys_, view_of(keys, keys_[0]->dtype).size);
        arrays.add_key(keys, nullptr);
        if (!self_join_) arrays.set_sides(sides);
        if (timed_) arrays.set_times(times, null_times);
        else if (!times.is_none()) throw nb::type_error("times for a window of rows");
        return arrays;
    }

    // The arrays of a join with any number of conjuncts.
    Arrays rows(const nb::handle& sides, const nb::list& keys, const nb::handle& times,
                const nb::handle& null_times, bool store) const {
        Arrays arrays = Arrays::of(keys_, keys);
        if (!self_join_) arrays.set_sides(sides);
        if (timed_) arrays.set_times(times, null_times);
        arrays.set_store(store);
        return arrays;
    }

    void require_listed() const {
        if (portion_.more) raise("StateError", "matches of the last call were not listed");
    }

    static int checked(int side) {
        if (side != 0 && side != 1) throw nb::value_error("side is neither 0 nor 1");
        return side;
    }

    // A time of more than 64 bits as (high, low), or None.
    static nb::object instant(Instant time) {
        if (time == kNever) return nb::none();
        return nb::make_tuple(static_cast<std::int64_t>(time >> 64), static_cast<std::uint64_t>(time));
    }

    static Instant instant_of(const nb::object& time) {
        if (time.is_none()) return kNever;
        const auto [high, low] = nb::cast<std::tuple<std::int64_t, std::uint64_t>>(time);
        return static_cast<Instant>(high) << 64 | low;
    }

    static std::int64_t timestamp(const nb::object& time) {
        const Instant exact = instant_of(time);
        if (exact > INT64_MAX)
            raise("SchemaError",
                  "the latest time so far does not fit 64 bits of the finer unit of this batch's times; "
                  "cast them to a coarser unit");
        return exact < INT64_MIN ? INT64_MIN : static_cast<std::int64_t>(exact);
    }

    std::uint64_t run(Arrays& arrays, Pairs* pairs) {
        return run(arrays, [&](const Batch& batch) {
            const std::uint64_t found = engine_->push(batch, pairs);
            if (pairs) pairs->fit();
            return found;
        });
    }

    template <class Call>
        requires std::invocable<Call, const Batch&>
    std::uint64_t run(Arrays& arrays, Call call) {
        const Batch& batch = arrays.batch();
        const Turn turn(*this);
        std::uint64_t found = 0;
        whole([&] { found = call(batch); });
        return found;
    }

    // A change that happens or does not; one that memory runs out for ends the join.
    template <class Change>
    void whole(Change change) {
        translated([&] {
            if (lost_) throw BrokenJoin();
            nb::gil_scoped_release released;
            try {
                change();
            } catch (const std::bad_alloc&) {
                lost_ = true;
                throw BrokenJoin();
            }
        });
    }

    // Pairs, and the object that keeps them.
    struct Owned {
        Owned() : owner(new_pairs(pairs)) {}
        Pairs* pairs = nullptr;
        nb::object owner;
    };

    // Calls the engine and keeps what it did for the record. Nothing fails once the engine has changed, but
    // for want of memory, which ends the join.
    template <class Call>
    void recorded(Call call) {
        const Turn turn(*this);
        if (candidates_) raise("StateError", "candidates of the last call were not resolved");
        Owned found, matches = inner() ? found : Owned();
        bool candidates = false;
        whole([&] {
            call(*found.pairs);
            found.pairs->fit();
            candidates = hashed_ && found.pairs->size();
            if (!candidates) settle(*found.pairs, nullptr, *matches.pairs);
        });
        pairs_ = std::move(candidates ? found : matches);
        candidates_ = candidates;
        record_ = nb::object();
        ++calls_;
    }

    // Whether matches are results as they are.
    bool inner() const { return !outcome_ || (!outcome_->uses(0) && !outcome_->uses(1)); }

    // Applies the join type to pairs of the last call; `out` are the same pairs where it is inner.
    void settle(Pairs& found, const bool* wanted, Pairs& out) {
        if (wanted) rejected_ += static_cast<std::uint64_t>(std::count(wanted, wanted + found.size(), false));
        if (inner()) {
            if (wanted) out.keep(wanted);
            return;
        }
        outcome_->write(found, wanted, engine_->finals(), out);
        if (portion_.more) return;
        const JoinState state = engine_->state();
        for (int i = 0; i < 2; ++i)
            outcome_->follow(i, state.sides[i].first, state.sides[i].next, engine_->renumbered(i));
    }

    template <class Number>
    static nb::object numbers(const std::vector<Number>& given) {
        return given.empty() ? nb::object(nb::none()) : copied(given);
    }

    // Positions that exist while the matches of a batch are written: those before it, and its rows in time.
    void extend(const Batch& batch, std::uint64_t (&next)[2]) {
        for (std::size_t row = 0; row < batch.size; ++row) ++next[batch.sides[row] & 1];
        for (const std::uint32_t row : engine_->late()) --next[batch.sides[row] & 1];
        for (int side = 0; side < 2; ++side) outcome_->extend(side, next[side]);
    }

    std::vector<const KeyName*> keys_;
    const bool timed_;
    const bool self_join_;
    const bool hashed_;  // pairs are candidates
    std::unique_ptr<Engine> engine_;
    nb::object outcome_owner_;
    Outcome* outcome_ = nullptr;
    Owned pairs_;                // of the last call: its matches, or candidates for them
    bool candidates_ = false;    // they are candidates
    Portion portion_{0, false};  // of the last push
    nb::object record_;          // once it was asked for
    std::uint64_t calls_ = 0;
    std::uint64_t rejected_ = 0;  // candidates that were not matches
    bool lost_ = false;
    std::atomic<bool> busy_{false};
};

}  // namespace
}  // namespace slidejoin
