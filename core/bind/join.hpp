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

#include "arrays.hpp"
#include "names.hpp"

namespace slidejoin {
namespace {

using End = std::tuple<int, std::int64_t, std::uint64_t, double>;  // kind, high, low, real
using Conjunct = std::tuple<std::string, std::vector<std::tuple<End, End>>>;

Bound bound_of(const End& end) {
    return {static_cast<BoundKind>(std::get<0>(end)), std::get<1>(end), std::get<2>(end), std::get<3>(end)};
}

// The conditions of a join and what of them is indexed; also the types of their keys.
JoinSpec spec_of(const std::vector<Conjunct>& on, std::uint32_t equalities, const std::string& banded,
                 std::vector<const KeyName*>& keys) {
    JoinSpec spec;
    for (const auto& [key, ranges] : on) {
        keys.push_back(&find(kKeys, key));
        ConjunctSpec conjunct{keys.back()->type, {}};
        for (const auto& [lower, upper] : ranges)
            conjunct.ranges.push_back({bound_of(lower), bound_of(upper)});
        spec.on.push_back(std::move(conjunct));
    }
    spec.indexed = {equalities, find(kBanded, banded).kind};
    if (equalities + (spec.indexed.band == Banded::conjunct) > spec.on.size())
        throw nb::value_error("fewer conjuncts than are indexed");
    return spec;
}

// Checks the values of a conjunct against its type and the number of rows.
void check_key(const KeyName& key, const AnyColumn& values, std::size_t size) {
    if (values.dtype() != key.dtype) throw nb::type_error("keys have another type than the join");
    if (values.shape(0) != size) throw nb::type_error("arrays of different lengths");
    require_aligned(values.data(), values.itemsize());
}

class NativeJoin {
  public:
    NativeJoin(const std::vector<Conjunct>& on, const std::string& index, const std::string& window,
               std::uint64_t left, std::uint64_t right, std::uint64_t duration, bool self_purge,
               std::int64_t before, std::int64_t after, std::optional<std::uint64_t> lateness, bool self_join,
               bool sorted, std::uint32_t group, const std::string& level, std::uint32_t equalities,
               const std::string& banded, std::tuple<bool, bool> finals,
               const std::vector<std::tuple<std::string, double>>& options)
        : timed_(window != "rows"), self_join_(self_join) {
        JoinSpec spec = spec_of(on, equalities, banded, keys_);
        spec.finals[0] = std::get<0>(finals);
        spec.finals[1] = std::get<1>(finals);
        spec.automatic = index == "auto";
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
        spec.self_join = self_join;
        spec.sorted = sorted;
        spec.group = group;
        engine_ = make_engine(spec, level_of(level));
    }

    nb::tuple push(nb::object sides, const AnyColumn& keys, nb::object times, nb::object null_times) {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        Arrays arrays(*this, sides, times, null_times, keys.shape(0));
        arrays.add_key(*this, keys, nullptr);
        run(arrays, pairs);
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    std::uint64_t count(nb::object sides, const AnyColumn& keys, nb::object times, nb::object null_times) {
        Arrays arrays(*this, sides, times, null_times, keys.shape(0));
        arrays.add_key(*this, keys, nullptr);
        return run(arrays, static_cast<Pairs*>(nullptr));
    }

    // Parts of runs (probe, run, start, end), pairs (left, right, arrival), the positions of the arrivals,
    // runs that are handed over (number, positions) and the numbers of those that are gone.
    nb::tuple ranges(nb::object sides, const AnyColumn& keys, nb::object times, nb::object null_times) {
        RangeResult* result = new RangeResult;
        const nb::capsule owner(result, [](void* p) noexcept { delete static_cast<RangeResult*>(p); });
        Arrays arrays(*this, sides, times, null_times, keys.shape(0));
        arrays.add_key(*this, keys, nullptr);
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

    // One (values, nulls or None) for each conjunct; also returns the numbers of late rows.
    nb::tuple push_rows(nb::object sides, const std::vector<std::tuple<AnyColumn, nb::object>>& keys,
                        nb::object times, nb::object null_times, bool store) {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        Arrays arrays(*this, sides, times, null_times, keys.empty() ? 0 : std::get<0>(keys[0]).shape(0));
        arrays.add_keys(*this, keys);
        arrays.set_store(store);
        run(arrays, pairs);
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner), copied(engine_->late()));
    }

    nb::object renumbered(int side) const { return copied(engine_->renumbered(checked(side))); }

    // (pairs before, position, side) of the tuples that the last call made final.
    nb::tuple finals() const {
        const Finals& finals = engine_->finals();
        return nb::make_tuple(copied(finals.after), copied(finals.position), bytes(finals.side));
    }

    void advance(std::int64_t to, int side) {
        if (side != 2) checked(side);
        const Turn turn(*this);
        translated([&] { engine_->advance(to, side); });
    }

    void idle(int side) {
        checked(side);
        const Turn turn(*this);
        translated([&] { engine_->idle(side); });
    }

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
        return bytes(engine_->unseen(checked(side), from, to));
    }

    using Held = std::tuple<std::vector<std::tuple<AnyColumn, nb::object>>, nb::object, nb::object,
                            nb::object>;  // keys, times, null_times, unseen

    // Takes up a state with the tuples of both sides.
    void load(const nb::dict& state, const Held& left, const Held& right) {
        JoinState loaded;
        const char* names[] = {"left", "right"};
        const Held* held[] = {&left, &right};
        std::optional<Arrays> arrays[2];
        Column_<bool> unseen[2];
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
            const auto& [keys, times, null_times, flags] = *held[i];
            const std::size_t size = keys.empty() ? 0 : std::get<0>(keys[0]).shape(0);
            if (side.next - side.first != size || size > kMaxLive)
                throw nb::value_error("positions do not fit the tuples");
            arrays[i].emplace(*this, nb::none(), times, null_times, size);
            arrays[i]->add_keys(*this, keys);
            stored[i] = {arrays[i]->batch(*this), column(flags, unseen[i], size)};
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
        const Turn turn(*this);
        const IndexInUse used = engine_->index();
        return nb::make_tuple(catalog()[static_cast<std::size_t>(used.kind)].name, used.why, used.changes);
    }

    nb::dict stats() {
        const Turn turn(*this);
        const Stats stats = engine_->stats();
        nb::dict result;
        result["rows_left"] = stats.rows[0];
        result["rows_right"] = stats.rows[1];
        result["matches"] = stats.matches;
        result["late_left"] = stats.late[0];
        result["late_right"] = stats.late[1];
        result["null_left"] = stats.nulls[0];
        result["null_right"] = stats.nulls[1];
        result["stored_left"] = stats.stored[0];
        result["stored_right"] = stats.stored[1];
        result["first_left"] = stats.first[0];
        result["first_right"] = stats.first[1];
        result["next_left"] = stats.next[0];
        result["next_right"] = stats.next[1];
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
            if (busy_.exchange(true)) raise("UsageError", "this join is in use by another thread");
        }
        ~Turn() { busy_ = false; }
        Turn(const Turn&) = delete;

      private:
        std::atomic<bool>& busy_;
    };

    template <class T>
    using Column_ = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

    // The arrays of one push, kept alive and checked against the join.
    class Arrays {
      public:
        Arrays(const NativeJoin& join, const nb::object& sides, const nb::object& times,
               const nb::object& null_times, std::size_t size)
            : batch_{nullptr, nullptr, nullptr, nullptr, size} {
            if (!join.self_join_ && !sides.is_none()) batch_.sides = column(sides, sides_, size);
            if (join.timed_) batch_.times = column(times, times_, size);
            else if (!times.is_none()) throw nb::type_error("times for a window of rows");
            if (!null_times.is_none()) batch_.null_times = column(null_times, null_times_, size);
        }

        void add_key(const NativeJoin& join, const AnyColumn& values, const bool* nulls) {
            if (keys_.size() == join.keys_.size()) throw nb::type_error("more keys than conjuncts");
            check_key(*join.keys_[keys_.size()], values, size());
            keys_.push_back({values.data(), nulls});
        }

        void add_keys(const NativeJoin& join, const std::vector<std::tuple<AnyColumn, nb::object>>& keys) {
            masks_.resize(keys.size());
            for (std::size_t i = 0; i < keys.size(); ++i) {
                const auto& [values, nulls] = keys[i];
                add_key(join, values, nulls.is_none() ? nullptr : column(nulls, masks_[i], size()));
            }
        }

        void set_store(bool store) { batch_.store = store; }
        std::size_t size() const { return batch_.size; }

        const Batch& batch(const NativeJoin& join) {
            if (keys_.size() != join.keys_.size()) throw nb::type_error("fewer keys than conjuncts");
            batch_.keys = keys_.data();
            return batch_;
        }

      private:
        Batch batch_;
        std::vector<Column> keys_;
        std::vector<Column_<bool>> masks_;
        Column_<std::uint8_t> sides_;
        Column_<std::int64_t> times_;
        Column_<bool> null_times_;
    };

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
        const Batch& batch = arrays.batch(*this);
        if (!self_join_ && !batch.sides) throw nb::type_error("sides are missing");
        const Turn turn(*this);
        return translated([&] {
            nb::gil_scoped_release released;
            return call(batch);
        });
    }

    template <class T>
    static const T* column(const nb::object& object, Column_<T>& column, std::size_t size) {
        if (!nb::try_cast(object, column, false)) throw nb::type_error("an array of another type");
        if (column.shape(0) != size) throw nb::type_error("arrays of different lengths");
        require_aligned(column.data(), sizeof(T));
        return column.data();
    }

    std::vector<const KeyName*> keys_;
    const bool timed_;
    const bool self_join_;
    std::unique_ptr<Engine> engine_;
    std::atomic<bool> busy_{false};
};

}  // namespace
}  // namespace slidejoin
