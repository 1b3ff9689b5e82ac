// What the processor that runs this can do. Asked of the processor itself: the libraries of some compilers
// lack what __builtin_cpu_supports needs. An answer takes a microsecond, in virtual machines many: it is
// kept.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace slidejoin {

#if defined(__x86_64__)
// The highest level (target.hpp): 0 portable, 1 AVX2, 2 AVX-512.
inline int find_highest_level() {
    const auto has = [](unsigned flags, unsigned needed) { return (flags & needed) == needed; };
    constexpr unsigned popcnt = 1u << 23, osxsave = 1u << 27;                          // leaf 1, ecx
    constexpr unsigned bmi = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8;                  // leaf 7, ebx
    constexpr unsigned lzcnt = 1u << 5;                                                // leaf 2^31 + 1, ecx
    constexpr unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // f, dq, cd, bw, vl
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, popcnt | osxsave)) return 0;
    // Without LZCNT its code means another instruction: it would give wrong numbers, and not fail.
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !has(c, lzcnt)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, bmi | avx2 | bmi2)) return 0;
    // The registers that the operating system keeps for a thread: xmm and ymm; with these k, zmm and
    // zmm16-31.
    unsigned kept = 0, high = 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!has(kept, 0x06)) return 0;
    return has(b, avx512) && has(kept, 0xe6) ? 2 : 1;
}
#endif

// Whether it has the instructions of a level.
inline bool processor_has(int level) {
#if defined(__x86_64__)
    static const int highest = find_highest_level();
    return level <= highest;
#else
    return level == 0;
#endif
}

}  // namespace slidejoin
