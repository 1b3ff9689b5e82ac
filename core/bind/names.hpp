// How Python spells the core's types, structures and windows.
#pragma once

#include <string>

#include "../engine.hpp"
#include "arrays.hpp"

namespace slidejoin {
namespace {

struct KeyName {
    const char* name;
    KeyType type;
    int dtype;  // as NumPy numbers it
};

const KeyName kKeys[] = {
    {"int8", KeyType::int8, NPY_INT8},          {"int16", KeyType::int16, NPY_INT16},
    {"int32", KeyType::int32, NPY_INT32},       {"int64", KeyType::int64, NPY_INT64},
    {"uint8", KeyType::uint8, NPY_UINT8},       {"uint16", KeyType::uint16, NPY_UINT16},
    {"uint32", KeyType::uint32, NPY_UINT32},    {"uint64", KeyType::uint64, NPY_UINT64},
    {"float32", KeyType::float32, NPY_FLOAT32}, {"float64", KeyType::float64, NPY_FLOAT64},
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

struct StrategyName {
    const char* name;
    Strategy strategy;
};

const StrategyName kStrategies[] = {{"auto", Strategy::automatic},
                                    {"phases", Strategy::phases},
                                    {"shared-index", Strategy::shared_index},
                                    {"round-robin", Strategy::round_robin},
                                    {"subwindows", Strategy::subwindows}};

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
