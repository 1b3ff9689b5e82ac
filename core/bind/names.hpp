// How Python spells the core's types, structures and windows.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "../engine.hpp"

namespace nb = nanobind;

namespace slidejoin {
namespace {

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

struct WindowName {
    const char* name;
    WindowKind kind;
};

struct BandedName {
    const char* name;
    Banded kind;
};

const BandedName kBanded[] = {{"none", Banded::none}, {"conjunct", Banded::conjunct}, {"time", Banded::time}};

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

}  // namespace
}  // namespace slidejoin
