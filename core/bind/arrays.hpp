// Arrays and errors between the core and Python: NumPy arrays over memory of the core, errors translated.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>

#include "../engine.hpp"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace slidejoin {
namespace {

using Numbers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A one-dimensional array of NumPy in machine form, read in place. NumPy's own interface takes a fraction of
// nanobind's time.
struct ArrayView {
    const void* data;
    std::size_t size;
};

ArrayView view_of(const nb::handle& object, int type) {
    auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
    if (!PyArray_Check(object.ptr()) || PyArray_NDIM(array) != 1 || !PyArray_ISCARRAY_RO(array) ||
        !PyArray_EquivTypenums(PyArray_TYPE(array), type))
        throw nb::type_error("not a contiguous, aligned NumPy array of the expected type");
    return {PyArray_DATA(array), static_cast<std::size_t>(PyArray_DIM(array, 0))};
}

ArrayView view_of(const nb::handle& object, int type, std::size_t size) {
    const ArrayView view = view_of(object, type);
    if (view.size != size) throw nb::type_error("arrays of different lengths");
    return view;
}

[[noreturn]] void raise(const char* error, const char* message, const nb::object& refused = nb::none()) {
    const nb::object type = nb::module_::import_("slidejoin.errors").attr(error);
    const nb::object instance = type(message);
    if (!refused.is_none()) instance.attr("refused") = refused;
    PyErr_SetObject(type.ptr(), instance.ptr());
    throw nb::python_error();
}

// Calls into the core, its errors turned into those of the package.
template <class Call>
auto translated(Call call) {
    try {
        return call();
    } catch (const BatchError& error) {
        const char* names[] = {"SchemaError", "OrderError", "CapacityError"};
        const bool order = error.kind == BatchError::Kind::order;
        raise(names[static_cast<int>(error.kind)], error.what(),
              order ? nb::make_tuple(error.row, error.time, error.latest) : nb::object(nb::none()));
    } catch (const BrokenJoin& error) {
        raise("StateError", error.what());
    } catch (const BrokenInvariant& error) {
        raise("StateError", error.what());
    }
}

nb::capsule new_pairs(Pairs*& pairs) {
    pairs = new Pairs;
    return nb::capsule(pairs, [](void* p) noexcept { delete static_cast<Pairs*>(p); });
}

// An array over memory that `owner` keeps. NumPy's own interface takes a quarter of nanobind's time, which is
// what a push of one tuple mostly consists of.
nb::object array_over(void* data, std::size_t size, int type, const nb::handle& owner) {
    const npy_intp shape[] = {static_cast<npy_intp>(size)};
    PyObject* array =
        data ? PyArray_SimpleNewFromData(1, shape, type, data) : PyArray_SimpleNew(1, shape, type);
    if (!array) throw nb::python_error();
    nb::object result = nb::steal(array);
    if (data &&
        PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), nb::borrow(owner).release().ptr()) < 0)
        throw nb::python_error();
    return result;
}

nb::object positions(std::int64_t* data, std::size_t size, const nb::handle& owner) {
    return array_over(data, size, NPY_INT64, owner);
}

// An array that takes over the numbers, which are of a type as NumPy numbers it.
template <class Number>
nb::object taken(std::vector<Number>&& numbers, int type = NPY_INT64) {
    auto* kept = new std::vector<Number>(std::move(numbers));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Number>*>(p); });
    return array_over(kept->data(), kept->size(), type, owner);
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

}  // namespace
}  // namespace slidejoin
