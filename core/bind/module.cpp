// The one file of the core that knows Python: arrays in without copying, the GIL released while joining,
// results handed over without copying, core errors turned into slidejoin's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "../engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace slidejoin {
namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
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

class NativeJoin {
  public:
    using Offset = std::tuple<std::int64_t, std::uint64_t, double>;

    NativeJoin(const std::string& key, const std::string& index, bool time_window, std::uint64_t left,
               std::uint64_t right, std::uint64_t duration, Offset lower, Offset upper, bool self_join,
               std::uint32_t group, const std::string& level)
        : key_(find(kKeys, key)), time_window_(time_window), self_join_(self_join) {
        const WindowKind kind = time_window ? WindowKind::time : WindowKind::rows;
        const JoinSpec spec{key_.type,
                            find(kIndexes, index).kind,
                            {kind, left, right, duration},
                            bound(lower),
                            bound(upper),
                            self_join,
                            group};
        engine_ = make_engine(spec, level_of(level));
    }

    nb::tuple push(nb::object sides, const AnyColumn& keys, nb::object times, bool null_times) {
        auto* pairs = new Pairs;
        nb::capsule owner(pairs, [](void* p) noexcept { delete static_cast<Pairs*>(p); });
        run(sides, keys, times, null_times, pairs);
        return nb::make_tuple(positions(pairs->left(), pairs->size(), owner),
                              positions(pairs->right(), pairs->size(), owner));
    }

    std::uint64_t count(nb::object sides, const AnyColumn& keys, nb::object times, bool null_times) {
        return run(sides, keys, times, null_times, nullptr);
    }

    nb::dict stats() {
        const Turn turn(*this);
        const Stats stats = engine_->stats();
        nb::dict result;
        result["rows_left"] = stats.rows[0];
        result["rows_right"] = stats.rows[1];
        result["matches"] = stats.matches;
        result["null_left"] = stats.nulls[0];
        result["null_right"] = stats.nulls[1];
        result["stored_left"] = stats.stored[0];
        result["stored_right"] = stats.stored[1];
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

    // An array over memory that `owner` keeps. NumPy's own interface takes a quarter of nanobind's time,
    // which is what a push of one tuple mostly consists of.
    static nb::object positions(std::int64_t* data, std::size_t size, const nb::capsule& owner) {
        const npy_intp shape[] = {static_cast<npy_intp>(size)};
        PyObject* array = data ? PyArray_SimpleNewFromData(1, shape, NPY_INT64, data)
                               : PyArray_SimpleNew(1, shape, NPY_INT64);
        if (!array) throw nb::python_error();
        if (data)
            PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), nb::object(owner).release().ptr());
        return nb::steal(array);
    }

    static Bound bound(const Offset& offset) {
        return {std::get<0>(offset), std::get<1>(offset), std::get<2>(offset)};
    }

    std::uint64_t run(const nb::object& sides, const AnyColumn& keys, const nb::object& times,
                      bool null_times, Pairs* pairs) {
        if (keys.dtype() != key_.dtype) throw nb::type_error("keys have another type than the join");
        Batch batch{nullptr, keys.data(), nullptr, keys.shape(0), null_times};
        Column<std::uint8_t> side_column;
        Column<std::int64_t> time_column;
        if (!self_join_) batch.sides = column(sides, side_column, batch.size);
        if (time_window_) batch.times = column(times, time_column, batch.size);
        else if (!times.is_none()) throw nb::type_error("times for a window of rows");
        const Turn turn(*this);
        return translated([&] {
            nb::gil_scoped_release released;
            const std::uint64_t found = engine_->push(batch, pairs);
            if (pairs) pairs->fit();
            return found;
        });
    }

    template <class T>
    static const T* column(const nb::object& object, Column<T>& column, std::size_t size) {
        if (!nb::try_cast(object, column, false)) throw nb::type_error("an array of another type");
        if (column.shape(0) != size) throw nb::type_error("arrays of different lengths");
        return column.data();
    }

    const KeyName& key_;
    const bool time_window_;
    const bool self_join_;
    std::unique_ptr<Engine> engine_;
    std::atomic<bool> busy_{false};
};

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
    nb::class_<NativeJoin>(m, "NativeJoin")
        .def(nb::init<const std::string&, const std::string&, bool, std::uint64_t, std::uint64_t,
                      std::uint64_t, NativeJoin::Offset, NativeJoin::Offset, bool, std::uint32_t,
                      const std::string&>(),
             nb::kw_only(), "key"_a, "index"_a, "time_window"_a, "left"_a, "right"_a, "duration"_a, "lower"_a,
             "upper"_a, "self_join"_a, "group"_a, "level"_a)
        .def("push", &NativeJoin::push, "sides"_a.none(), "keys"_a.noconvert(), "times"_a.none(),
             "null_times"_a = false,
             nb::sig("def push(self, sides: object, keys: object, times: object, null_times: bool = False) "
                     "-> tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("count", &NativeJoin::count, "sides"_a.none(), "keys"_a.noconvert(), "times"_a.none(),
             "null_times"_a = false,
             nb::sig("def count(self, sides: object, keys: object, times: object, null_times: bool = False) "
                     "-> int"))
        .def("stats", &NativeJoin::stats, nb::sig("def stats(self) -> dict[str, int]"))
        .def("check", &NativeJoin::check);
}

}  // namespace slidejoin
