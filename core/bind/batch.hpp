// A batch of rows on its way into a join: Arrow memory, which keys are read from and stores copy.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../arrow.hpp"
#include "../crew.hpp"
#include "../hash.hpp"
#include "arrays.hpp"

namespace slidejoin {
namespace {

template <class Offset>
nb::object hashed(const ArrayView& offsets, const ArrayView& data, Crew& crew) {
    const auto* at = static_cast<const Offset*>(offsets.data);
    // The ends only: offsets rise within one column.
    if (offsets.size == 0 || at[0] < 0 || static_cast<std::size_t>(at[offsets.size - 1]) > data.size)
        throw nb::value_error("offsets do not fit the data");
    nb::object result;
    const std::size_t count = offsets.size - 1;
    auto* out = new_array<std::uint64_t>(count, NPY_UINT64, result);
    constexpr std::size_t kLeast = 2048;  // strings that are worth another worker
    nb::gil_scoped_release released;
    crew.run(count, crew.parts_of(count, kLeast), [&](std::size_t, Slice rows) {
        for (std::size_t i = rows.from; i < rows.to; ++i)
            out[i] = hash_value(static_cast<const std::uint8_t*>(data.data) + at[i],
                                static_cast<std::size_t>(at[i + 1] - at[i]));
    });
    nb::gil_scoped_acquire acquired;
    return result;
}

class NativeBatch {
  public:
    explicit NativeBatch(std::shared_ptr<Crew> crew)
        : crew_(crew ? std::move(crew) : std::make_shared<Crew>(1)) {}
    NativeBatch(const NativeBatch&) = delete;
    ~NativeBatch() {
        if (stream_.release) stream_.release(&stream_);
    }

    // Where the caller writes an ArrowArrayStream before anything else.
    std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(&stream_); }

    // The arrays of the stream, each with a child for each column.
    const std::vector<std::shared_ptr<ArrowArray>>& arrays() {
        while (stream_.release) {
            ArrowArray next{};
            if (stream_.get_next(&stream_, &next)) {
                const char* why = stream_.get_last_error(&stream_);
                throw std::runtime_error(why ? why : "a stream that cannot be read");
            }
            if (next.release) {
                arrays_.push_back(owned(next));
            } else {
                stream_.release(&stream_);
                stream_.release = nullptr;
            }
        }
        return arrays_;
    }

    // (values, nulls or None) of columns, each given by its place and by NumPy's number of its type, or by
    // the width of its offsets, below 0, to be hashed. None where they do not lie in memory as NumPy reads
    // them. Values are read in place.
    static nb::object read(const nb::handle& self, const std::vector<std::pair<std::size_t, int>>& columns) {
        NativeBatch& owner = nb::cast<NativeBatch&>(self);
        const auto& arrays = owner.arrays();
        if (arrays.size() != 1) return nb::none();
        const ArrowArray& batch = *arrays[0];
        nb::list result;
        for (const auto& [place, type] : columns) {
            if (place >= static_cast<std::size_t>(batch.n_children)) throw nb::index_error();
            const ArrowArray& column = *batch.children[place];
            const auto from = static_cast<std::size_t>(batch.offset + column.offset);
            const auto count = static_cast<std::size_t>(batch.length);
            const nb::object values = type == -4   ? hashes<std::int32_t>(column, from, count, *owner.crew_)
                                      : type == -8 ? hashes<std::int64_t>(column, from, count, *owner.crew_)
                                                   : numbers(column, from, count, type, self);
            if (values.is_none()) return nb::none();
            result.append(nb::make_tuple(values, nulls(column, from, count)));
        }
        return result;
    }

  private:
    static std::shared_ptr<ArrowArray> owned(const ArrowArray& array) {
        return std::shared_ptr<ArrowArray>(new ArrowArray(array), [](ArrowArray* kept) {
            kept->release(kept);
            delete kept;
        });
    }

    static nb::object numbers(const ArrowArray& column, std::size_t from, std::size_t count, int type,
                              const nb::handle& owner) {
        PyArray_Descr* described = PyArray_DescrFromType(type);
        if (!described) throw nb::python_error();
        const auto width = static_cast<std::size_t>(PyDataType_ELSIZE(described));
        Py_DECREF(described);
        const auto* values = static_cast<const std::uint8_t*>(column.buffers[1]) + from * width;
        if (!count || reinterpret_cast<std::uintptr_t>(values) % width) return nb::none();
        return array_over(const_cast<std::uint8_t*>(values), count, type, owner);
    }

    template <class Offset>
    static nb::object hashes(const ArrowArray& column, std::size_t from, std::size_t count, Crew& crew) {
        const auto* ends = static_cast<const Offset*>(column.buffers[1]) + from;
        if (!count || reinterpret_cast<std::uintptr_t>(ends) % sizeof(Offset)) return nb::none();
        return hashed<Offset>({ends, count + 1}, {column.buffers[2], static_cast<std::size_t>(ends[count])},
                              crew);
    }

    static nb::object nulls(const ArrowArray& column, std::size_t from, std::size_t count) {
        const auto* bits = static_cast<const std::uint8_t*>(column.buffers[0]);
        if (!bits || !column.null_count) return nb::none();
        nb::object result;
        bool* out = new_array<bool>(count, NPY_BOOL, result);
        bool any = false;
        for (std::size_t i = 0; i < count; ++i)
            any |= out[i] = !(bits[(from + i) / 8] >> ((from + i) % 8) & 1);
        return any ? result : nb::none();
    }

    ArrowArrayStream stream_{};
    std::vector<std::shared_ptr<ArrowArray>> arrays_;
    std::shared_ptr<Crew> crew_;
};

}  // namespace
}  // namespace slidejoin
