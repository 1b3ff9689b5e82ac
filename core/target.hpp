// One source, several instruction sets.
//
// Every translation unit of the core is compiled once per level (SLIDEJOIN_LEVEL: 0 portable, 1 AVX2,
// 2 AVX-512). All that it defines is in a namespace named after the level, so that the copies do not clash at
// link time. The standard headers come first, outside the target region: templates of std:: that the copies
// share by name are therefore always baseline code and run on every machine. engine.cpp picks the copy at run
// time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#ifndef SLIDEJOIN_LEVEL
#define SLIDEJOIN_LEVEL 0
#endif

#if SLIDEJOIN_LEVEL == 2
#define SLIDEJOIN_TARGET avx512
#define SLIDEJOIN_FEATURES "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi,bmi2,lzcnt,popcnt"
#elif SLIDEJOIN_LEVEL == 1
#define SLIDEJOIN_TARGET avx2
#define SLIDEJOIN_FEATURES "avx2,bmi,bmi2,lzcnt,popcnt"
#else
#define SLIDEJOIN_TARGET portable
#endif

#define SLIDEJOIN_PRAGMA(text) _Pragma(#text)
#if SLIDEJOIN_LEVEL == 0
#define SLIDEJOIN_TARGET_BEGIN
#define SLIDEJOIN_TARGET_END
#elif defined(__clang__)
#define SLIDEJOIN_CLANG(features) \
    SLIDEJOIN_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define SLIDEJOIN_TARGET_BEGIN SLIDEJOIN_CLANG(SLIDEJOIN_FEATURES)
#define SLIDEJOIN_TARGET_END _Pragma("clang attribute pop")
#else
#define SLIDEJOIN_GCC(features) SLIDEJOIN_PRAGMA(GCC target(features))
#define SLIDEJOIN_TARGET_BEGIN _Pragma("GCC push_options") SLIDEJOIN_GCC(SLIDEJOIN_FEATURES)
#define SLIDEJOIN_TARGET_END _Pragma("GCC pop_options")
#endif
