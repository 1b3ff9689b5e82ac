// The module: the one part of the core, with its headers beside it, that knows Python.
#include <nanobind/stl/shared_ptr.h>

#include "../merge.hpp"
#include "join.hpp"
#include "rows.hpp"
#include "runs.hpp"
#include "tables.hpp"

namespace slidejoin {
namespace {

// A hash of each value of an Arrow binary column (offsets of 32 or 64 bits, bytes), the same on every machine
// and for ever: checkpoints and routing rely on it.
nb::object hash_bytes(const nb::handle& offsets, const nb::handle& data) {
    const ArrayView bytes = view_of(data, NPY_UINT8);
    Crew alone(1);
    if (PyArray_Check(offsets.ptr()) &&
        PyArray_TYPE(reinterpret_cast<PyArrayObject*>(offsets.ptr())) == NPY_INT32)
        return hashed<std::int32_t>(view_of(offsets, NPY_INT32), bytes, alone);
    return hashed<std::int64_t>(view_of(offsets, NPY_INT64), bytes, alone);
}

// Merges the values of both sides into the order of arrival, given the side of each row.
nb::object interleave(const nb::handle& sides, const nb::handle& left, const nb::handle& right) {
    if (!PyArray_Check(left.ptr())) throw nb::type_error("not an array");
    const int type = PyArray_TYPE(reinterpret_cast<PyArrayObject*>(left.ptr()));
    const ArrayView order = view_of(sides, NPY_UINT8), a = view_of(left, type), b = view_of(right, type);
    const auto* side = static_cast<const std::uint8_t*>(order.data);
    if (a.size + b.size != order.size ||
        static_cast<std::size_t>(std::count(side, side + order.size, 1)) != b.size)
        throw nb::value_error("sides that do not fit the values");
    nb::object result;
    void* const out = new_array<std::uint8_t>(order.size, type, result);
    const auto write = [&]<class Value>(Value) {
        const auto *lefts = static_cast<const Value*>(a.data), *rights = static_cast<const Value*>(b.data);
        for (std::size_t i = 0, seen = 0; i < order.size; ++i) {
            const bool is_right = side[i] == 1;
            static_cast<Value*>(out)[i] = *(is_right ? rights + seen : lefts + (i - seen));
            seen += is_right;
        }
    };
    const auto width = PyArray_ITEMSIZE(reinterpret_cast<PyArrayObject*>(left.ptr()));
    if (width == 1) write(std::uint8_t{});
    else if (width == 2) write(std::uint16_t{});
    else if (width == 4) write(std::uint32_t{});
    else if (width == 8) write(std::uint64_t{});
    else throw nb::type_error("values of another width than 1, 2, 4 or 8 bytes");
    return result;
}

// Runs of (times, side, how many rows in front have no time) as one sequence: the side of each row, and which
// row of its side it is.
nb::tuple merge(const std::vector<std::tuple<Numbers, int, std::size_t>>& given) {
    std::vector<TimeRun> runs;
    std::size_t rows[2] = {0, 0};
    std::vector<TimeRun> undated;
    for (const auto& [times, side, without] : given) {
        if ((side != 0 && side != 1) || without > times.shape(0)) throw nb::value_error("no run of a side");
        const auto own = static_cast<std::uint8_t>(side);
        const auto place = static_cast<std::int64_t>(rows[side]);
        undated.push_back({times.data(), without, place, own});
        runs.push_back({times.data() + without, times.shape(0) - without,
                        place + static_cast<std::int64_t>(without), own});
        rows[side] += times.shape(0);
    }
    nb::object sides, places[2];
    auto* sides_out = new_array<std::uint8_t>(rows[0] + rows[1], NPY_UINT8, sides);
    std::int64_t* out[2];
    for (int i = 0; i < 2; ++i) out[i] = new_array<std::int64_t>(rows[i], NPY_INT64, places[i]);
    const auto take = [&](std::uint8_t side, std::int64_t place) {
        *sides_out++ = side;
        *out[side]++ = place;
    };
    {
        nb::gil_scoped_release released;
        for (TimeRun& run : undated)
            for (std::size_t i = 0; i < run.size; ++i) take(run.side, run.place++);
        merge_runs(std::move(runs), take);
    }
    return nb::make_tuple(sides, places[0], places[1]);
}

nb::dict indexes() {
    nb::dict all;
    for (const IndexEntry& entry : catalog()) {
        nb::list parameters;
        for (const Parameter& each : entry.parameters) {
            const auto number = [&](double value) -> nb::object {
                return each.whole ? nb::object(nb::int_(static_cast<std::int64_t>(value)))
                                  : nb::object(nb::float_(value));
            };
            parameters.append(nb::make_tuple(each.name, number(each.initial), number(each.least),
                                             number(each.most), each.meaning));
        }
        all[entry.name.c_str()] = parameters;
    }
    return all;
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
    m.def("indexes", &indexes,
          nb::sig("def indexes() -> dict[str, list[tuple[str, float, float, float, str]]]"),
          "The indexes, each with its parameters: name, default, least, most, meaning.");
    m.def("hash_bytes", &hash_bytes, "offsets"_a, "data"_a,
          nb::sig("def hash_bytes(offsets: object, data: object) -> numpy.typing.NDArray[typing.Any]"),
          "A 64-bit hash of each value, the same on every machine.");
    m.def("interleave", &interleave, "sides"_a, "left"_a, "right"_a,
          nb::sig("def interleave(sides: object, left: object, right: object) -> "
                  "numpy.typing.NDArray[typing.Any]"),
          "Values of both sides in the order of arrival.");
    m.def("merge", &merge, "runs"_a,
          nb::sig("def merge(runs: list[tuple[object, int, int]]) -> tuple[numpy.typing.NDArray[typing.Any], "
                  "numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"),
          "Sorted runs (times, side, undated) as one sequence: sides, and places of left and of right rows.");
    m.def("join_tables", &bind_join_tables, nb::kw_only(), "on"_a, "equalities"_a, "banded"_a, "left"_a,
          "right"_a, "flags_of"_a, "workers"_a, "share"_a, "limit"_a, "blocks"_a, "level"_a,
          nb::sig("def join_tables(*, on: object, equalities: int, banded: str, "
                  "left: list[tuple[object, object]], right: list[tuple[object, object]], flags_of: int, "
                  "workers: int, share: int, limit: int, blocks: bool, level: str) -> "
                  "tuple[numpy.typing.NDArray[typing.Any] | NativePairRows, ...]"),
          "All pairs of rows of two tables, by number, or with flags_of 0 or 1 whether each row of a side "
          "has one. With blocks, pairs may be written only where rows are taken.");
    nb::class_<NativePairRows>(m, "NativePairRows")
        .def("__len__", &NativePairRows::size)
        .def("__getitem__", &NativePairRows::part, "of"_a);
    nb::class_<NativeRunPairs>(m, "NativeRunPairs")
        .def("next", &NativeRunPairs::next, "limit"_a,
             nb::sig("def next(self, limit: int) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]"));
    nb::class_<NativeRunJoin>(m, "NativeRunJoin")
        .def(nb::init<const std::vector<Conjunct>&, std::uint32_t, const std::string&, const std::string&>(),
             nb::kw_only(), "on"_a, "equalities"_a, "banded"_a, "level"_a)
        .def("sort", &NativeRunJoin::sort, "columns"_a,
             nb::sig("def sort(self, columns: list[tuple[object, object]]) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[typing.Any]]"))
        .def("pairs", &NativeRunJoin::pairs, "left"_a, "right"_a, nb::keep_alive<0, 1>(),
             nb::sig("def pairs(self, left: tuple[object, tuple[object, ...]], "
                     "right: tuple[object, tuple[object, ...]]) -> NativeRunPairs"))
        .def("matched", &NativeRunJoin::matched, "left"_a, "right"_a, "side"_a,
             nb::sig("def matched(self, left: tuple[object, tuple[object, ...]], "
                     "right: tuple[object, tuple[object, ...]], side: int) -> "
                     "numpy.typing.NDArray[numpy.bool_]"));
    nb::class_<Crew>(m, "NativeCrew")
        .def(nb::init<std::size_t>(), "workers"_a)
        .def_prop_rw("workers", &Crew::wanted, &Crew::want);
    nb::class_<SpillFiles>(m, "NativeSpill")
        .def(nb::new_([](int directory, const std::string& path, std::size_t segment, std::size_t mapped) {
                 return spilling(
                     [&] { return std::make_shared<SpillFiles>(directory, path, segment, mapped); });
             }),
             "directory"_a, "path"_a, "segment"_a, "mapped"_a)
        .def("open_file", [](const SpillFiles& files) { return spilling([&] { return files.open_file(); }); })
        .def("allocate", &allocate_spilled, "bytes"_a,
             nb::sig("def allocate(self, bytes: int) -> numpy.typing.NDArray[numpy.uint8]"))
        .def_prop_ro("path", &SpillFiles::path)
        .def_prop_ro("is_memory", &SpillFiles::is_memory);
    nb::class_<NativeBatch>(m, "NativeBatch")
        .def(nb::init<std::shared_ptr<Crew>>(), "crew"_a.none() = nb::none())
        .def_prop_ro("address", &NativeBatch::address)
        .def("read", &NativeBatch::read, "columns"_a,
             nb::sig("def read(self, columns: list[tuple[int, int]]) -> list[typing.Any] | None"));
    nb::class_<NativeRows>(m, "NativeRows")
        .def(nb::init<const std::vector<ColumnKind>&, std::uint64_t, std::shared_ptr<Crew>,
                      std::shared_ptr<SpillFiles>>(),
             "kinds"_a, "first"_a, "crew"_a.none() = nb::none(), "spill"_a.none() = nb::none())
        .def("reserve", &NativeRows::reserve, "batch"_a)
        .def("growth", &NativeRows::growth, "batch"_a)
        .def("write", &NativeRows::write, "at"_a, "batch"_a, "borrow"_a = false)
        .def("limit", &NativeRows::limit, "first"_a, "next"_a)
        .def("take", &NativeRows::take, "positions"_a, "most"_a, "other"_a.none() = nb::none(),
             "others"_a.none() = nb::none(), "columns"_a = nb::none(), "other_columns"_a = nb::none(),
             nb::sig("def take(self, positions: object, most: int, other: NativeRows | None = None, "
                     "others: object = None, columns: list[int] | None = None, "
                     "other_columns: list[int] | None = None) -> int | None"))
        .def("same", &NativeRows::same, "column"_a, "positions"_a, "other"_a, "other_column"_a, "others"_a,
             nb::sig("def same(self, column: int, positions: object, other: NativeRows, other_column: int, "
                     "others: object) -> numpy.typing.NDArray[numpy.bool_] | None"))
        .def_prop_ro("first", &NativeRows::first)
        .def_prop_ro("nbytes", &NativeRows::bytes)
        .def_prop_ro("spilled", &NativeRows::spilled);
    nb::class_<NativeJoin>(m, "NativeJoin")
        .def(nb::init<const std::vector<Conjunct>&, const std::string&, const std::string&, std::uint64_t,
                      std::uint64_t, std::uint64_t, bool, std::int64_t, std::int64_t,
                      std::optional<std::uint64_t>, bool, bool, std::uint32_t, const std::string&,
                      std::uint32_t, const std::string&, nb::object, bool,
                      const std::vector<std::tuple<std::string, double>>&, std::uint32_t, const std::string&,
                      std::uint32_t, bool, std::uint32_t, std::uint32_t, std::uint64_t,
                      const std::shared_ptr<Crew>&, const std::vector<Limits>&,
                      std::tuple<std::uint64_t, std::uint64_t>>(),
             nb::kw_only(), "on"_a, "index"_a, "window"_a, "left"_a = 0, "right"_a = 0, "duration"_a = 0,
             "self_purge"_a = false, "before"_a = 0, "after"_a = 0, "lateness"_a.none() = nb::none(),
             "self_join"_a, "sorted"_a = true, "group"_a, "level"_a, "equalities"_a = 0,
             "banded"_a = "conjunct", "outcome"_a = nb::none(), "hashed"_a = false,
             "options"_a = std::vector<std::tuple<std::string, double>>(), "workers"_a = 1,
             "strategy"_a = "auto", "task_size"_a = 32, "blocking_merge"_a = false, "subwindows"_a = 8,
             "batch"_a = 4096, "batch_us"_a = 0, "crew"_a.none() = nb::none(),
             "limits"_a = std::vector<Limits>(), "most"_a = std::tuple<std::uint64_t, std::uint64_t>(0, 0))
        .def("push", &NativeJoin::push, "sides"_a.none(), "keys"_a, "times"_a.none(),
             "null_times"_a.none() = nb::none(),
             nb::sig("def push(self, sides: object, keys: object, times: object, null_times: object = None) "
                     "-> tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
        .def("count", &NativeJoin::count, "sides"_a.none(), "keys"_a, "times"_a.none(),
             "null_times"_a.none() = nb::none(),
             nb::sig("def count(self, sides: object, keys: object, times: object, null_times: object = None) "
                     "-> int"))
        .def(
            "ranges", &NativeJoin::ranges, "sides"_a.none(), "keys"_a, "times"_a.none(),
            "null_times"_a.none() = nb::none(),
            nb::sig("def ranges(self, sides: object, keys: object, times: object, null_times: object = None) "
                    "-> tuple[tuple[numpy.typing.NDArray[typing.Any], ...], "
                    "tuple[numpy.typing.NDArray[typing.Any], ...], numpy.typing.NDArray[typing.Any], "
                    "list[tuple[int, numpy.typing.NDArray[typing.Any]]], "
                    "numpy.typing.NDArray[typing.Any]]"))
        .def("push_rows", &NativeJoin::push_rows, "sides"_a.none(), "keys"_a, "times"_a.none(),
             "null_times"_a.none(), "store"_a = true, "limit"_a = SIZE_MAX,
             nb::sig("def push_rows(self, sides: object, keys: list[tuple[object, object]], times: object, "
                     "null_times: object, store: bool = True, limit: int = ...) -> None"))
        .def("list_more", &NativeJoin::list_more, "limit"_a)
        .def("rehearse", &NativeJoin::rehearse, "sides"_a.none(), "keys"_a, "times"_a.none(),
             "null_times"_a.none(), "store"_a, "exact"_a, "enough"_a.none(),
             nb::sig("def rehearse(self, sides: object, keys: list[tuple[object, object]], times: object, "
                     "null_times: object, store: bool, exact: bool, enough: int | None) "
                     "-> tuple[int, int, int, int]"))
        .def("resolve", &NativeJoin::resolve, "wanted"_a.none(),
             nb::sig("def resolve(self, wanted: object) -> None"))
        .def_prop_ro(
            "record", &NativeJoin::record,
            nb::sig("def record(self) -> tuple[numpy.typing.NDArray[numpy.int64], "
                    "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64] | None, bool, "
                    "tuple[tuple[int, int, numpy.typing.NDArray[numpy.int64] | None], ...], int, bool]"))
        .def_prop_ro("calls", &NativeJoin::calls)
        .def_prop_rw("rejected", &NativeJoin::rejected, &NativeJoin::set_rejected)
        .def("state", &NativeJoin::state, nb::sig("def state(self) -> dict[str, typing.Any]"))
        .def("unseen", &NativeJoin::unseen, "side"_a, "first"_a, "after"_a,
             nb::sig(
                 "def unseen(self, side: int, first: int, after: int) -> numpy.typing.NDArray[typing.Any]"))
        .def("load", &NativeJoin::load, "state"_a, "left"_a, "right"_a,
             nb::sig("def load(self, state: dict[str, typing.Any], left: object, right: object) -> None"))
        .def("advance", &NativeJoin::advance, "to"_a, "side"_a)
        .def("idle", &NativeJoin::idle, "side"_a)
        .def("stats", &NativeJoin::stats, nb::sig("def stats(self) -> dict[str, typing.Any]"))
        .def("strategy", &NativeJoin::strategy)
        .def("set_workers", &NativeJoin::set_workers, "workers"_a)
        .def("index", &NativeJoin::index, nb::sig("def index(self) -> tuple[str, str, int]"))
        .def("check", &NativeJoin::check);
    nb::class_<NativeOutcome>(m, "NativeOutcome")
        .def(nb::init<std::tuple<bool, bool>, int>(), "preserves"_a, "only"_a)
        .def("uses", &NativeOutcome::uses, "side"_a)
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
