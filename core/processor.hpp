// What the processor that runs this can do.
#pragma once

namespace slidejoin {

// Whether it has the instructions of a level (target.hpp): 0 portable, 1 AVX2, 2 AVX-512.
inline bool processor_has(int level) {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512cd");
    return level == 0 || (level == 1 && avx2) || (level == 2 && avx512);
#else
    return level == 0;
#endif
}

}  // namespace slidejoin
