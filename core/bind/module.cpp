// The one file of the core that knows Python: arrays in without copying, the GIL released while joining,
// results handed over without copying, core errors turned into slidejoin's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <optional>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "../engine.hpp"
#include "../gather.hpp"
#include "../hash.hpp"
#include "../outcome.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace slidejoin {
namespace {

using AnyColumn = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct KeyName {
    const char* name;
    KeyType type;
    nb::dlpack::dtype dtype;
};

const KeyName kKeys[] = {
    {"int8", KeyType::int8, nb::dtype<std::int8_t>()},
    {"int16", KeyType::int16, nb::dtype<std::int16_t>()},
    {"int32", KeyType::int32, nb::dtype<std::int32_t>()},
    {"int64", KeyType::int64, nb::dtype<std::int64_t>()},
    {"uint8", KeyType::uint8, nb::dtype<std::uint8_t>()},
    {"uint16", KeyType::uint16, nb::dtype<std::uint16_t>()},
    {"uint32", KeyType::uint32, nb::dtype<std::uint32_t>()},
    {"uint64", KeyType::uint64, nb::dtype<std::uint64_t>()},
    {"float32", KeyType::float32, nb::dtype<float>()},
    {"float64", KeyType::float64, nb::dtype<double>()},
};

struct IndexName {
    const char* name;
    IndexKind kind;
};

const IndexName kIndexes[] = {{"nested-loop", IndexKind::nested_loop}, {"b-tree", IndexKind::b_tree}};

struct WindowName {
    const char* name;
    WindowKind kind;
};

struct BandedName {
    const char* name;
    Banded kind;
};

const BandedName kBanded[] = {{"none", Banded::none}, {"conjunct", Banded::conjunct}, {"time", Banded::time}};

struct HowName {
    const char* name;
    How kind;
};

const HowName kHow[] = {{"inner", How::inner}, {"left", How::left},           {"right", How::right},
                        {"full", How::full},   {"left_semi", How::left_semi}, {"left_anti", How::left_anti}};

const WindowName kWindows[] = {
    {"rows", WindowKind::rows}, {"time", WindowKind::time}, {"event", WindowKind::event}};

template <class Names>
auto& find(const Names& names, const std::string& wanted) {
    for (auto& entry : names)
        if (wanted == entry.name) return entry;
    throw nb::value_error(("unknown name " + wanted).c_str());
}

Level level_of(const std::string& wanted) {
    for (const Level level : kLevels)
        if (wanted == name(level)) return level;
    throw nb::value_error(("unknown instruction set " + wanted).c_str());
}

[[noreturn]] void raise(const char* error, const char* message) {
    const nb::object type = nb::module_::import_("slidejoin.errors").attr(error);
    PyErr_SetString(type.ptr(), message);
    throw nb::python_error();
}

// Calls into the core, its errors turned into those of the package.
template <class Call>
auto translated(Call call) {
    try {
        return call();
    } catch (const BatchError& error) {
        const char* names[] = {"SchemaError", "OrderError", "CapacityError"};
        raise(names[static_cast<int>(error.kind)], error.what());
    } catch (const BrokenJoin& error) {
        raise("StateError", error.what());
    } catch (const BrokenInvariant& error) {
        raise("StateError", error.what());
    }
}

void require_aligned(const void* data, std::size_t size) {
    if (reinterpret_cast<std::uintptr_t>(data) % size)
        throw nb::type_error("an array that is not aligned to its type");
}

nb::capsule new_pairs(Pairs*& pairs) {
    pairs = new Pairs;
    return nb::capsule(pairs, [](void* p) noexcept { delete static_cast<Pairs*>(p); });
}

// An array over memory that `owner` keeps. NumPy's own interface takes a quarter of nanobind's time, which is
// what a push of one tuple mostly consists of.
nb::object positions(std::int64_t* data, std::size_t size, const nb::capsule& owner) {
    const npy_intp shape[] = {static_cast<npy_intp>(size)};
    PyObject* array =
        data ? PyArray_SimpleNewFromData(1, shape, NPY_INT64, data) : PyArray_SimpleNew(1, shape, NPY_INT64);
    if (!array) throw nb::python_error();
    nb::object result = nb::steal(array);
    if (data &&
        PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), nb::object(owner).release().ptr()) < 0)
        throw nb::python_error();
    return result;
}

template <class Value>
Value* new_array(std::size_t size, int type, nb::object& owner) {
    const npy_intp shape[] = {static_cast<npy_intp>(size)};
    owner = nb::steal(PyArray_SimpleNew(1, shape, type));
    if (!owner.is_valid()) throw nb::python_error();
    return static_cast<Value*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(owner.ptr())));
}

template <class Number>
nb::object copied(const std::vector<Number>& numbers) {
    nb::object array;
    auto* out = new_array<std::int64_t>(numbers.size(), NPY_INT64, array);
    std::transform(numbers.begin(), numbers.end(), out,
                   [](Number number) { return static_cast<std::int64_t>(number); });
    return array;
}

nb::object bytes(const std::vector<std::uint8_t>& flags) {
    nb::object array;
    std::copy(flags.begin(), flags.end(), new_array<std::uint8_t>(flags.size(), NPY_UINT8, array));
    return array;
}

class NativeJoin {
  public:
    using End = std::tuple<int, std::int64_t, std::uint64_t, double>;  // kind, high, low, real
    using Conjunct = std::tuple<std::string, std::vector<std::tuple<End, End>>>;

    NativeJoin(const std::vector<Conjunct>& on, const std::string& index, const std::string& window,
               std::uint64_t left, std::uint64_t right, std::uint64_t duration, bool self_purge,
               std::int64_t before, std::int64_t after, std::optional<std::uint64_t> lateness, bool self_join,
               bool sorted, std::uint32_t group, const std::string& level, std::uint32_t equalities,
               const std::string& banded, std::tuple<bool, bool> finals)
        : timed_(window != "rows"), self_join_(self_join) {
        JoinSpec spec;
        for (const auto& [key, ranges] : on) {
            keys_.push_back(&find(kKeys, key));
            ConjunctSpec conjunct{keys_.back()->type, {}};
            for (const auto& [lower, upper] : ranges) conjunct.ranges.push_back({bound(lower), bound(upper)});
            spec.on.push_back(std::move(conjunct));
        }
        spec.indexed = {equalities, find(kBanded, banded).kind};
        if (equalities + (spec.indexed.band == Banded::conjunct) > spec.on.size())
            throw nb::value_error("fewer conjuncts than are indexed");
        spec.finals[0] = std::get<0>(finals);
        spec.finals[1] = std::get<1>(finals);
        spec.index = find(kIndexes, index).kind;
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
        return run(arrays, nullptr);
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

    // Which of the tuples held no arrival may meet.
    nb::object unseen(int side) {
        const Turn turn(*this);
        const std::vector<bool> flags = engine_->unseen(checked(side));
        return bytes(std::vector<std::uint8_t>(flags.begin(), flags.end()));
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
            if (values.dtype() != join.keys_[keys_.size()]->dtype)
                throw nb::type_error("keys have another type than the join");
            if (values.shape(0) != size()) throw nb::type_error("arrays of different lengths");
            require_aligned(values.data(), values.itemsize());
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

    static Bound bound(const End& end) {
        return {static_cast<BoundKind>(std::get<0>(end)), std::get<1>(end), std::get<2>(end),
                std::get<3>(end)};
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
        return exact < INT64_MIN ? INT64_MIN : static_cast<std::int64_t>(exact);
    }

    std::uint64_t run(Arrays& arrays, Pairs* pairs) {
        const Batch& batch = arrays.batch(*this);
        if (!self_join_ && !batch.sides) throw nb::type_error("sides are missing");
        const Turn turn(*this);
        return translated([&] {
            nb::gil_scoped_release released;
            const std::uint64_t found = engine_->push(batch, pairs);
            if (pairs) pairs->fit();
            return found;
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

using Numbers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What a join type makes of pairs and final tuples.
class NativeOutcome {
  public:
    explicit NativeOutcome(const std::string& how) : outcome_(find(kHow, how).kind) {}

    bool preserves(int side) const { return slidejoin::preserves(outcome_.how(), side); }
    bool uses(int side) const { return outcome_.uses(side); }
    void extend(int side, std::uint64_t next) { outcome_.extend(side, next); }
    void limit(int side, std::uint64_t first, std::uint64_t next) { outcome_.limit(side, first, next); }
    void renumber(int side, const Numbers& old, std::uint64_t first) {
        translated([&] { outcome_.renumber(side, old.data(), old.shape(0), first); });
    }

    nb::tuple write(const Numbers& left, const Numbers& right, const std::optional<Flags>& wanted,
                    const std::tuple<Numbers, Numbers, Bytes>& finals) {
        const auto& [after, position, side] = finals;
        if (left.shape(0) != right.shape(0) || (wanted && wanted->shape(0) != left.shape(0)) ||
            after.shape(0) != position.shape(0) || after.shape(0) != side.shape(0))
            throw nb::value_error("arrays of different lengths");
        const Outcome::Found found{left.data(),   right.data(),  wanted ? wanted->data() : nullptr,
                                   left.shape(0), after.data(),  position.data(),
                                   side.data(),   after.shape(0)};
        return written([&](Pairs& pairs) { outcome_.write(found, pairs); });
    }

    nb::tuple finish() {
        return written([&](Pairs& pairs) { outcome_.finish(pairs); });
    }

    nb::object flags(int side) const { return bytes(outcome_.flags(side)); }
    void load(int side, std::uint64_t first, const Bytes& flags) {
        outcome_.load(side, first, flags.data(), flags.shape(0));
    }
    std::size_t memory_bytes() const { return outcome_.bytes(); }

  private:
    template <class Write>
    static nb::tuple written(Write write) {
        Pairs* pairs = nullptr;
        const nb::capsule owner = new_pairs(pairs);
        translated([&] {
            nb::gil_scoped_release released;
            write(*pairs);
            pairs->fit();
        });
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    Outcome outcome_;
};

// The ends only: offsets rise within one column.
void check_offsets(const Numbers& offsets, const Bytes& data) {
    const std::size_t size = offsets.shape(0);
    if (size == 0 || offsets(0) < 0 || offsets(size - 1) > static_cast<std::int64_t>(data.shape(0)))
        throw nb::value_error("offsets do not fit the data");
}

// A hash of each value of an Arrow binary column (offsets, bytes), the same on every machine and for ever:
// checkpoints and routing rely on it.
nb::object hash_bytes(const Numbers& offsets, const Bytes& data) {
    check_offsets(offsets, data);
    nb::object result;
    const std::size_t count = offsets.shape(0) - 1;
    auto* out = new_array<std::uint64_t>(count, NPY_UINT64, result);
    nb::gil_scoped_release released;
    for (std::size_t i = 0; i < count; ++i)
        out[i] = hash_value(data.data() + offsets(i), static_cast<std::size_t>(offsets(i + 1) - offsets(i)));
    nb::gil_scoped_acquire acquired;
    return result;
}

// Values of an unsigned type, by row.
nb::object take(const AnyColumn& values, const Numbers& rows) {
    nb::object result;
    const auto gathered = [&]<class Value>(Value, int type) {
        Value* out = new_array<Value>(rows.shape(0), type, result);
        nb::gil_scoped_release released;
        gather(static_cast<const Value*>(values.data()), values.shape(0), rows.data(), rows.shape(0), out);
    };
    if (values.dtype() == nb::dtype<std::uint8_t>()) gathered(std::uint8_t{}, NPY_UINT8);
    else if (values.dtype() == nb::dtype<std::uint16_t>()) gathered(std::uint16_t{}, NPY_UINT16);
    else if (values.dtype() == nb::dtype<std::uint32_t>()) gathered(std::uint32_t{}, NPY_UINT32);
    else if (values.dtype() == nb::dtype<std::uint64_t>()) gathered(std::uint64_t{}, NPY_UINT64);
    else throw nb::type_error("values of another type than uint8, uint16, uint32 or uint64");
    return result;
}

// Byte strings (offsets, bytes) by row: the offsets and the bytes of those taken.
nb::tuple take_bytes(const Numbers& offsets, const Bytes& data, const Numbers& rows) {
    check_offsets(offsets, data);
    nb::object taken_offsets, taken_bytes;
    auto* ends = new_array<std::int64_t>(rows.shape(0) + 1, NPY_INT64, taken_offsets);
    const std::int64_t total =
        gather_offsets(offsets.data(), offsets.shape(0) - 1, rows.data(), rows.shape(0), ends);
    auto* out = new_array<std::uint8_t>(static_cast<std::size_t>(total), NPY_UINT8, taken_bytes);
    nb::gil_scoped_release released;
    gather_bytes(offsets.data(), data.data(), rows.data(), rows.shape(0), out);
    nb::gil_scoped_acquire acquired;
    return nb::make_tuple(taken_offsets, taken_bytes);
}

template <class Names>
std::vector<std::string> names_of(const Names& entries) {
    std::vector<std::string> names;
    for (auto& entry : entries) names.emplace_back(entry.name);
    return names;
}

}  // namespace

NB_MODULE(_core, m) {
    if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
    m.doc() = "The native core of slidejoin. Use slidejoin.NumericJoin.";
    m.def(
        "levels",
        [] {
            std::vector<std::string> names;
            for (const Level level : kLevels)
                if (supported(level)) names.emplace_back(name(level));
            return names;
        },
        "Instruction sets that this processor can run, slowest first.");
    m.def("indexes", [] { return names_of(kIndexes); }, "Names of the indexes.");
    m.def("hash_bytes", &hash_bytes, "offsets"_a, "data"_a,
          nb::sig("def hash_bytes(offsets: object, data: object) -> numpy.typing.NDArray[typing.Any]"),
          "A 64-bit hash of each value, the same on every machine.");
    m.def("take", &take, "values"_a, "rows"_a,
          nb::sig("def take(values: object, rows: object) -> numpy.typing.NDArray[typing.Any]"),
          "Values of an unsigned type, by row.");
    m.def("take_bytes", &take_bytes, "offsets"_a, "data"_a, "rows"_a,
          nb::sig("def take_bytes(offsets: object, data: object, rows: object) -> "
                  "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"),
          "Byte strings by row: their offsets and their bytes.");
    nb::class_<NativeJoin>(m, "NativeJoin")
        .def(nb::init<const std::vector<NativeJoin::Conjunct>&, const std::string&, const std::string&,
                      std::uint64_t, std::uint64_t, std::uint64_t, bool, std::int64_t, std::int64_t,
                      std::optional<std::uint64_t>, bool, bool, std::uint32_t, const std::string&,
                      std::uint32_t, const std::string&, std::tuple<bool, bool>>(),
             nb::kw_only(), "on"_a, "index"_a, "window"_a, "left"_a = 0, "right"_a = 0, "duration"_a = 0,
             "self_purge"_a = false, "before"_a = 0, "after"_a = 0, "lateness"_a.none() = nb::none(),
             "self_join"_a, "sorted"_a = true, "group"_a, "level"_a, "equalities"_a = 0,
             "banded"_a = "conjunct", "finals"_a = std::tuple(false, false))
        .def("push", &NativeJoin::push, "sides"_a.none(), "keys"_a.noconvert(), "times"_a.none(),
             "null_times"_a.none() = nb::none(),
             nb::sig("def push(self, sides: object, keys: object, times: object, null_times: object = None) "
                     "-> tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("count", &NativeJoin::count, "sides"_a.none(), "keys"_a.noconvert(), "times"_a.none(),
             "null_times"_a.none() = nb::none(),
             nb::sig("def count(self, sides: object, keys: object, times: object, null_times: object = None) "
                     "-> int"))
        .def("push_rows", &NativeJoin::push_rows, "sides"_a.none(), "keys"_a, "times"_a.none(),
             "null_times"_a.none(), "store"_a = true,
             nb::sig("def push_rows(self, sides: object, keys: list[tuple[object, object]], times: object, "
                     "null_times: object, store: bool = True) -> tuple[numpy.typing.NDArray[typing.Any], "
                     "numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("renumbered", &NativeJoin::renumbered, "side"_a,
             nb::sig("def renumbered(self, side: int) -> numpy.typing.NDArray[typing.Any]"))
        .def("finals", &NativeJoin::finals,
             nb::sig("def finals(self) -> tuple[numpy.typing.NDArray[typing.Any], "
                     "numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("state", &NativeJoin::state, nb::sig("def state(self) -> dict[str, typing.Any]"))
        .def("unseen", &NativeJoin::unseen, "side"_a,
             nb::sig("def unseen(self, side: int) -> numpy.typing.NDArray[typing.Any]"))
        .def("load", &NativeJoin::load, "state"_a, "left"_a, "right"_a,
             nb::sig("def load(self, state: dict[str, typing.Any], left: object, right: object) -> None"))
        .def("advance", &NativeJoin::advance, "to"_a, "side"_a)
        .def("idle", &NativeJoin::idle, "side"_a)
        .def("stats", &NativeJoin::stats, nb::sig("def stats(self) -> dict[str, typing.Any]"))
        .def("check", &NativeJoin::check);
    nb::class_<NativeOutcome>(m, "NativeOutcome")
        .def(nb::init<const std::string&>(), "how"_a)
        .def("preserves", &NativeOutcome::preserves, "side"_a)
        .def("uses", &NativeOutcome::uses, "side"_a)
        .def("extend", &NativeOutcome::extend, "side"_a, "next"_a)
        .def("limit", &NativeOutcome::limit, "side"_a, "first"_a, "next"_a)
        .def("renumber", &NativeOutcome::renumber, "side"_a, "old"_a, "first"_a,
             nb::sig("def renumber(self, side: int, old: object, first: int) -> None"))
        .def("write", &NativeOutcome::write, "left"_a, "right"_a, "wanted"_a.none(), "finals"_a,
             nb::sig("def write(self, left: object, right: object, wanted: object, finals: object) -> "
                     "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("finish", &NativeOutcome::finish,
             nb::sig("def finish(self) -> "
                     "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("flags", &NativeOutcome::flags, "side"_a,
             nb::sig("def flags(self, side: int) -> numpy.typing.NDArray[typing.Any]"))
        .def("load", &NativeOutcome::load, "side"_a, "first"_a, "flags"_a,
             nb::sig("def load(self, side: int, first: int, flags: object) -> None"))
        .def_prop_ro("memory_bytes", &NativeOutcome::memory_bytes);
}

}  // namespace slidejoin
