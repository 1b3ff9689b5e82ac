// Runs every registered test; 77 means that this processor lacks the instruction set under test.
#include <cstdio>
#include <cstring>
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
        try {
            test.body();
        } catch (const std::exception& error) {
            ++failed;
            std::printf("FAILED %s: %s\n", test.name, error.what());
        }
    }
    std::printf("%d passed, %d failed\n", ran - failed, failed);
    return failed || !ran ? 1 : 0;
}
