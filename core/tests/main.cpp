// Runs every registered test and names those that take more than three seconds of processor time. Exit status
// 77: this processor lacks the instruction set under test.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>

#include "../processor.hpp"
#include "testing.hpp"

#ifndef SLIDEJOIN_LEVEL
#define SLIDEJOIN_LEVEL 0
#endif

int main(int argc, char** argv) {
    if (!slidejoin::processor_has(SLIDEJOIN_LEVEL)) {
        std::printf("skipped: this processor lacks the instructions of level %d\n", SLIDEJOIN_LEVEL);
        return 77;
    }
    int failed = 0, ran = 0;
    for (const testing::Test& test : testing::tests()) {
        if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
        ++ran;
        const std::clock_t start = std::clock();
        try {
            test.body();
        } catch (const std::exception& error) {
            ++failed;
            std::printf("FAILED %s: %s\n", test.name, error.what());
        }
        const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 3) std::printf("%5.1f s %s\n", seconds, test.name);
    }
    std::printf("%d passed, %d failed\n", ran - failed, failed);
    return failed || !ran ? 1 : 0;
}
